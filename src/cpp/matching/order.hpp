// An order of 0 to n - 1 in which near numbers are far apart.
//
// Multiples, modulo n, of a step near n by the golden ratio and coprime to n. Any first part of the
// order is spread evenly over the numbers, which makes it a sample that needs no random numbers,
// and roots of searches that follow each other do not crowd one corner of the graph.
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
