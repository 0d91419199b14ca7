// Which jobs share GPUs: Muri's rounds of matchings.
//
// Only jobs that need equally many GPUs, a bucket, share them. A node is a group of jobs, at first
// of one. Each round matches the nodes of each bucket, every edge weighed by the group that its
// ends would be, and merges matched pairs only while all nodes together need more GPUs than there
// are. Source: Muri (SIGCOMM'22), section 4.2, and the simulator that its authors published.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "interleaving/rounds.hpp"

namespace hivecore::interleaving {

struct Jobs {
    Durations durations;
    std::span<const std::int64_t> gpus;    // each
    std::span<const double> solo;          // time of an iteration without neighbours
    std::span<const std::int64_t> rank;    // in order of priority, 0: the most urgent
    std::span<const std::int64_t> memory;  // on each of its GPUs

    Job count() const { return durations.jobs(); }
};

// Which groups there may be, and what they are worth.
struct Terms {
    Rule rule;
    int max_group;                    // jobs, 1 to rule.slots()
    std::span<const double> factors;  // by jobs less one: how much longer a round takes
    std::int64_t gpu_memory;          // that the jobs of a group have together
    double max_slowdown;              // of the most urgent job of a group
    bool gain;                        // weigh progress beyond taking turns, not efficiency
};

struct Contention {
    std::int64_t capacity = 0;      // GPUs
    bool least_waste_first = true;  // else pairs merge by bucket and node
};

struct Grouping {
    std::vector<std::int64_t> starts;
    std::vector<Job> members;  // of group g those from starts[g] to starts[g + 1] - 1
};

// `start`: groups of different jobs to begin with, each of jobs that need equally many GPUs; rounds
// never part them. With `locally` the groups are then made better by small steps
// (local_search.hpp). At most max_group rounds, each O(n^3) at the worst in the nodes of a bucket.
Grouping group_jobs(const Jobs& jobs, const Terms& terms, const Contention& contention,
                    const Groups& start, bool locally);

}  // namespace hivecore::interleaving
