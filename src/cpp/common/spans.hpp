// Checks of whole arrays before a batch starts.
#pragma once

#include <cstdint>
#include <span>

namespace hivecore {

// The first position whose value is not within [low, high], or -1.
inline std::int64_t first_outside(std::span<const std::int64_t> values, std::int64_t low,
                                  std::int64_t high) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] < low || values[i] > high) {
            return static_cast<std::int64_t>(i);
        }
    }
    return -1;
}

// Whether all are within [0, high]; quicker than to look for the first that is not.
inline bool are_within(std::span<const std::int64_t> values, std::int64_t high) {
    std::int64_t signs = 0;
    for (const auto value : values) {
        signs |= value | (high - value);  // negative if one of them is
    }
    return signs >= 0;
}

}  // namespace hivecore
