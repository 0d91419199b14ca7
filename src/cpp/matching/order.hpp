// An order of 0 to n - 1 in which near numbers are far apart.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "matching/matching.hpp"

namespace hivecore::matching {

inline std::vector<Node> spread_order(Node n) {
    auto step = static_cast<std::int64_t>(0.618 * n) + 1;  // about n by the golden ratio
    while (std::gcd<std::int64_t>(step, n) > 1) {
        ++step;
    }
    std::vector<Node> order(n);
    for (std::int64_t i = 0; i < n; ++i) {
        order[i] = static_cast<Node>(i * step % n);
    }
    return order;
}

}  // namespace hivecore::matching
