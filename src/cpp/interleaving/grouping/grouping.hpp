// Which jobs share GPUs: Muri's rounds of matchings.
//
// Only jobs that need equally many GPUs, a bucket, share them. A node is a group of jobs, at first
// of one. Each round matches the nodes of each bucket, every edge weighed by the group that its
// ends would be, and merges matched pairs only while all nodes together need more GPUs than there
// are. Source: Muri (SIGCOMM'22), section 4.2, and the simulator that its authors published.
#pragma once

#include <cstdint>
#include <vector>

#include "interleaving/grouping/jobs.hpp"
#include "interleaving/rounds/rounds.hpp"
#include "matching/matching.hpp"

namespace hivecore::interleaving {

struct Contention {
    std::int64_t capacity = 0;      // GPUs
    bool least_waste_first = true;  // else pairs merge by bucket and node
};

// How matchings are found. Both ways give one of the greatest weight; of equally heavy ones not
// always the same.
struct Means {
    // Nodes of a bucket; of more no matrix is stored where another way is quick.
    std::int64_t most_in_matrix = 4096;
    matching::Interrupt* interrupt = nullptr;

    bool is_interrupted() const {
        return interrupt != nullptr && interrupt->has_come(matching::Interrupt::Clock::now());
    }
};

struct Grouping {
    std::vector<std::int64_t> starts;
    std::vector<Job> members;  // of group g those from starts[g] to starts[g + 1] - 1
};

// `start`: groups of different jobs to begin with, each of jobs that need equally many GPUs; rounds
// never part them. With some `effort` the groups are then made better by small steps
// (local_search.hpp). At most max_group rounds, each O(n^3) at the worst in the nodes of a bucket.
// An interrupt ends it early.
Grouping group_jobs(const Jobs& jobs, const Terms& terms, const Contention& contention,
                    const Groups& start, std::int64_t effort, const Means& means = {});

}  // namespace hivecore::interleaving
