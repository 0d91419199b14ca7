// The best groups of one bucket, for each number of groups.
//
// Jobs of one type are alike, so a partition is a multiplicity per kind of group: an integer
// program with one row per type and one row for the number of groups. Its relaxation is nearly
// always within a fraction of a group of the optimum, so that its prices leave few kinds to branch
// on. Source of the formulation: Gilmore and Gomory (1961); of the fixing by prices: Dantzig,
// Fulkerson and Johnson (1954).
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "interleaving/boxed_simplex.hpp"

namespace hivecore::interleaving {

// What a bucket's groups can be.
struct GroupKinds {
    int gpus = 0;               // of each group
    int types = 0;              // of jobs
    std::vector<int> start{0};  // per kind, where its members begin; one more at the end
    std::vector<int> member;    // types, ascending, as often as the kind has jobs of the type
    std::vector<double> value;  // per kind

    int kinds() const { return static_cast<int>(value.size()); }
};

struct Multiplicity {
    int kind;
    int count;
};

// Partitions into a given number of groups.
struct Partition {
    double value = -std::numeric_limits<double>::infinity();  // of the best that was found
    double bound = std::numeric_limits<double>::infinity();   // none is worth more
    std::vector<Multiplicity> groups;
};

// What relaxation tells about every number of groups q: none is worth more than value + slope q.
struct Tangent {
    double value;
    double slope;
};

class BucketSearch {
  public:
    // Of each type so many jobs, of which `optional` may be in no group.
    BucketSearch(const GroupKinds& kinds, const std::vector<int>& jobs,
                 const std::vector<int>& optional);

    int fewest() const { return fewest_; }  // groups
    int most() const { return most_; }

    // False if the relaxation has no partition into this many groups. `exact` is set if it has an
    // integral optimum, which then is in `partition`.
    bool relax(int groups, Tangent& tangent, bool& exact, Partition& partition);

    // Proven within `nodes` programs, or the best that was found.
    Partition solve(int groups, int nodes);

    std::int64_t nodes() const { return nodes_; }
    std::int64_t pivots() const { return pivots_; }

  private:
    struct Root {
        LpStatus status;
        BoxedSimplex program;
    };
    struct Search;

    Root& root(int groups);

    Matrix matrix_;
    std::vector<int> right_;     // per row, jobs of its type; 0 for the groups, the last row
    std::vector<int> kind_;      // per column; -1: a job in no group
    std::vector<double> upper_;  // per column
    std::map<int, Root> roots_;  // by groups
    int fewest_ = 0;
    int most_ = 0;
    std::int64_t nodes_ = 0;
    std::int64_t pivots_ = 0;
};

}  // namespace hivecore::interleaving
