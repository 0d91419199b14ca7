// Scores from 0 to 100: the share that would be used ("bin-pack") or left ("spread") of each amount
// that is weighed, in whole percent, and their mean; both divisions cut off.
#pragma once

#include <algorithm>
#include <array>

#include "devices/koordinator/state.hpp"

namespace hivecore::devices::koordinator {

struct Weighed {
    std::array<std::int64_t, kWeighed> asked{}, total{}, free{};
};

// 100 * part / whole, cut off; of 0 to 2**56, part at most whole.
inline std::int64_t percent(std::int64_t part, std::int64_t whole) {
    // A division of integers takes several times as long; this is off by one at most.
    auto found =
        static_cast<std::int64_t>(100.0 * static_cast<double>(part) / static_cast<double>(whole));
    found -= found * whole > 100 * part;
    found += (found + 1) * whole <= 100 * part;
    return found;
}

inline std::int64_t score(Policy policy, const Weighed& of) {
    std::int64_t points = 0, weights = 0;
    for (int i = 0; i < kWeighed; ++i) {
        const auto capacity = of.total[i];
        if (capacity == 0) {
            continue;
        }
        const auto used = capacity >= of.free[i] ? capacity - of.free[i] + of.asked[i] : capacity;
        const auto counted = policy == Policy::kBinPack
                                 ? std::min(used, capacity)
                                 : std::max<std::int64_t>(capacity - used, 0);
        points += percent(counted, capacity);
        ++weights;
    }
    return weights == kWeighed ? points / kWeighed : points;
}

inline Weighed asked_of(const Need& need) {
    Weighed of;
    for (int i = 0; i < kWeighed; ++i) {
        const int amount = weighed(need.type, i);
        of.asked[i] = amount < 0 ? 0 : need.amounts[amount];
    }
    return of;
}

// What a visible device has and what is free of it; an unhealthy one has nothing.
inline Weighed weighed_of(const Need& need, const DeviceColumn& column, const std::uint64_t* state,
                          int device) {
    auto of = asked_of(need);
    const bool is_healthy = state[column.healthy + device / 64] >> (device % 64) & 1;
    for (int i = 0; is_healthy && i < kWeighed; ++i) {
        const int amount = weighed(need.type, i);
        const int c = amount < 0 ? -1 : column.column_of[amount];
        if (c >= 0) {
            const auto at = c * column.count + device;
            of.total[i] = column.total[at];
            of.free[i] = std::max<std::int64_t>(
                column.total[at] - static_cast<std::int64_t>(state[column.used + at]), 0);
        }
    }
    return of;
}

}  // namespace hivecore::devices::koordinator
