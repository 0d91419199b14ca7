// The jobs that may share GPUs, and the terms on which they form groups.
#pragma once

#include <cstdint>
#include <span>

#include "interleaving/rounds/rounds.hpp"

namespace hivecore::interleaving {

struct Jobs {
    Durations durations;
    std::span<const std::int64_t> gpus;    // each
    std::span<const double> solo;          // time of an iteration alone
    std::span<const std::int64_t> rank;    // in order of priority, 0: the most urgent
    std::span<const std::int64_t> memory;  // on each of its GPUs

    Job count() const { return durations.jobs(); }
};

// Which groups are allowed, and how they are valued.
struct Terms {
    Rule rule;
    int max_group;                    // jobs, 1 to rule.slots()
    std::span<const double> factors;  // by jobs less one: how much longer a round takes
    std::int64_t gpu_memory;          // that the jobs of a group have together
    double max_slowdown;              // of the most urgent job of a group
    bool gain;                        // weigh progress beyond taking turns, not efficiency
};

}  // namespace hivecore::interleaving
