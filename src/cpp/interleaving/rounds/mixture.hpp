// The types of a group's jobs: all that its time depends on.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "interleaving/grouping/profiles.hpp"
#include "interleaving/rounds/block.hpp"

namespace hivecore::interleaving {

// Ascending; after the last one kNone.
using Mixture = std::array<Type, kMaxSlots>;

inline constexpr Type kNone = std::numeric_limits<Type>::max();

// The types in the order of the jobs.
inline Mixture types_of(std::span<const Job> jobs, const Profiles& profiles) {
    Mixture types;
    types.fill(kNone);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        types[i] = profiles.type[jobs[i]];
    }
    return types;
}

inline Mixture mixture_of(std::span<const Job> jobs, const Profiles& profiles) {
    Mixture types = types_of(jobs, profiles);
    std::sort(types.begin(), types.end());
    return types;
}

inline int size_of(const Mixture& mixture) {
    return static_cast<int>(std::find(mixture.begin(), mixture.end(), kNone) - mixture.begin());
}

struct MixtureHash {
    std::size_t operator()(const Mixture& mixture) const {
        std::uint64_t hash = 0;
        for (const Type type : mixture) {
            hash = (hash ^ static_cast<std::uint32_t>(type)) * 0x9E3779B97F4A7C15U;
            hash ^= hash >> 29;
        }
        return static_cast<std::size_t>(hash);
    }
};

}  // namespace hivecore::interleaving
