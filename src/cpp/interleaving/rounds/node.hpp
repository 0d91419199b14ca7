// A group of jobs while groups are made.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "interleaving/rounds/block.hpp"
#include "interleaving/rounds/rounds.hpp"

namespace hivecore::interleaving {

struct Node {
    std::array<Job, kMaxSlots> members;  // in the order in which they joined
    int size;
    double time;  // of a round

    std::span<const Job> jobs() const { return {members.data(), static_cast<std::size_t>(size)}; }

    void join(const Node& other, double time_together) {
        std::copy_n(other.members.begin(), other.size, members.begin() + size);
        size += other.size;
        time = time_together;
    }
};

// Groups of jobs that need equally many GPUs.
struct Bucket {
    std::int64_t gpus;
    std::vector<Node> nodes;
};

}  // namespace hivecore::interleaving
