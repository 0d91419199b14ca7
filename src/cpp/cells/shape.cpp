#include "cells/shape.hpp"

#include <stdexcept>
#include <string>

namespace hivecore::cells {

Shape::Shape(std::span<const CellIndex> fanouts, CellIndex roots)
    : levels(static_cast<int>(fanouts.size()) + 1), fanout{}, size{}, leaves{} {
    if (fanouts.size() >= kMaxLevels) {
        throw std::invalid_argument("fanouts has " + std::to_string(fanouts.size()) +
                                    " entries, at most 15 are allowed");
    }
    if (roots == 0) {
        throw std::invalid_argument("roots=0: must be at least 1");
    }
    std::uint64_t per_cell = 1;
    leaves[0] = 1;
    for (int level = 0; level < top(); ++level) {
        fanout[level] = fanouts[level];
        if (fanout[level] == 0) {
            throw std::invalid_argument("fanouts[" + std::to_string(level) +
                                        "]=0: must be at least 1");
        }
        per_cell *= fanout[level];
        if (per_cell > kMaxLeaves) {
            throw std::invalid_argument("fanouts make more than 2**31 leaves per root");
        }
        leaves[level + 1] = static_cast<CellIndex>(per_cell);
    }
    if (per_cell * roots > kMaxLeaves) {
        throw std::invalid_argument("fanouts and roots make " + std::to_string(per_cell * roots) +
                                    " leaves, at most 2**31");
    }
    fanout[top()] = roots;
    size[top()] = roots;
    for (int level = top(); level-- > 0;) {
        size[level] = size[level + 1] * fanout[level];
    }
}

}  // namespace hivecore::cells
