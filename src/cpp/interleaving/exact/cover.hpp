// Which jobs share GPUs: groups of the greatest total value that cover every job exactly once.
//
// Jobs that need equally many GPUs form a bucket, and only they can share. Buckets meet in nothing
// but the GPUs of the cluster. So the best value of each bucket as a function of its number of
// groups is found apart, and a knapsack over the buckets picks the numbers. Both are lazy: a
// relaxation bounds the function everywhere, the knapsack runs on the bounds, and only the numbers
// that it picks are searched, until all it picks is exact.
//
// What is known about a bucket with these jobs is kept: one event of a cluster changes one bucket.
// A result does not depend on what is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "interleaving/exact/bucket_search.hpp"

namespace hivecore::interleaving {

// By type; jobs of one type are interchangeable.
struct BucketJobs {
    std::int64_t gpus;  // of each job
    std::vector<int> jobs;
    std::vector<int> optional;  // so many of them may be in no group
    std::vector<int> key;       // by which what is known of such a bucket is found again
};

// Groups of the same types of jobs, and how many.
struct EqualGroups {
    std::vector<int> types;  // ascending
    int count;
};

struct Covering {
    double value = 0;
    double bound = 0;  // no covering is worth more; the value, if proved
    std::vector<std::vector<EqualGroups>> groups;  // per bucket
};

class Cover {
  public:
    // The kinds of groups of a bucket; called only if not enough is known.
    using MakeKinds = std::function<GroupKinds(std::size_t bucket)>;

    // The best groups that need at most `capacity` GPUs, or, if none do, as few GPUs as possible.
    // `nodes`: programs per bucket and number of groups, after which the best that was found
    // stands. Each job can be a group of its own. Throws std::invalid_argument if there are more
    // than 2^20 steps between no GPU and `capacity`.
    Covering solve(const std::vector<BucketJobs>& buckets, const MakeKinds& make_kinds,
                   std::int64_t capacity, int nodes);

  private:
    class Solving;

    struct Kept {
        double value;
        double bound;
        std::vector<EqualGroups> groups;
    };

    // About one bucket and its jobs, by number of groups.
    struct Known {
        int fewest = 0;
        int most = 0;
        std::vector<Tangent> tangents;
        std::map<int, Kept> partitions;  // exact, or given up
        std::map<int, bool> relaxed;     // whether feasible
    };

    std::map<std::vector<int>, Known> known_;
};

}  // namespace hivecore::interleaving
