// How long rounds take and how efficient they are: of any groups, and of all pairs of jobs.
//
// The efficiency of a group is the share of time that its resources are busy, S / (T k) for stages
// that add up to S, a round of T and k resources (Muri, equation 4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interleaving/rounds/block.hpp"

namespace hivecore::interleaving {

using Job = std::int32_t;

// The stage durations of all jobs, row after row.
struct Durations {
    std::span<const double> stages;
    int columns;

    Job jobs() const { return static_cast<Job>(stages.size() / columns); }
    const double* row(Job job) const { return &stages[static_cast<std::size_t>(job) * columns]; }
    double busy(Job job) const {
        const double* stage = row(job);
        double sum = stage[0];
        for (int r = 1; r < columns; ++r) {
            sum += stage[r];
        }
        return sum;
    }
};

// Group g is members[starts[g]] to members[starts[g + 1] - 1].
struct Groups {
    std::span<const std::int64_t> starts;
    std::span<const Job> members;

    std::int64_t count() const { return static_cast<std::int64_t>(starts.size()) - 1; }
    std::span<const Job> group(std::int64_t g) const {
        return members.subspan(starts[g], starts[g + 1] - starts[g]);
    }
};

inline double efficiency(const Rule& rule, double busy, double time) {
    const double share = busy / (time * rule.slots());
    // A round of the artifact can come out too short.
    return rule.model == Model::kArtifact || share < 1 ? share : 1;
}

struct Rounds {
    std::vector<double> time;           // per group
    std::vector<double> efficiency;     // per group
    std::vector<std::int64_t> offsets;  // per member
};

// Groups of 1 to rule.slots() jobs. Time O(groups (k-1)! / (k-p)!) at the worst, eight at once.
Rounds rounds_of(const Rule& rule, const Durations& durations, const Groups& groups);

// n x n, symmetric, its diagonal the jobs alone. Time O(n^2 k^2 / 4), memory O(n k) beside it.
void efficiencies_of_pairs(const Rule& rule, const Durations& durations, double* efficiencies);

}  // namespace hivecore::interleaving
