// The best groups of one bucket, for each number of groups.
//
// A relaxation bounds all numbers at once, by its price of a group; branch_and_cut.hpp finds the
// best for one number.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "interleaving/exact/boxed_simplex.hpp"
#include "interleaving/exact/bucket_program.hpp"

namespace hivecore::interleaving {

// No partition into q groups is worth more than value + slope q, for every q.
struct Tangent {
    double value;
    double slope;
};

struct Relaxed {
    bool feasible;  // else there is no partition, and nothing below
    Tangent tangent;
    std::optional<Partition> best;  // if the relaxation has it
};

class BucketSearch {
  public:
    // Of each type so many jobs, of which `optional` may be in no group.
    BucketSearch(const GroupKinds& kinds, const std::vector<int>& jobs,
                 const std::vector<int>& optional);

    int fewest() const { return fewest_; }  // groups
    int most() const { return most_; }

    Relaxed relax(int groups);

    // Proven within `nodes` programs, or the best that was found.
    Partition solve(int groups, int nodes);

  private:
    struct Root {
        LpStatus status;
        BoxedSimplex simplex;
    };

    BucketProgram program_for(int groups) const;
    const Root& root(int groups);

    BucketProgram program_;      // for no number of groups
    std::vector<double> upper_;  // per column
    std::map<int, Root> roots_;  // by groups
    int fewest_ = 0;
    int most_ = 0;
};

}  // namespace hivecore::interleaving
