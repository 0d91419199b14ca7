// Where the devices of a shape sit, as Koordinator sees it.
//
// A device has a place if its switch has a number; NUMA nodes may be unknown (-1) all the same, and
// count as one then. Switches and NUMA nodes are numbered in the order in which they are visited.
// Of the GPUs there is a tree, machine, NUMA nodes, switches, only if all of them have a place.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "devices/shape.hpp"

namespace hivecore::devices::koordinator {

inline constexpr int kKinds = 3;  // GPUs, NICs, FPGAs

struct NumaScope {
    WideMask gpus;
    std::vector<WideMask> switches;
};

struct Board {
    explicit Board(const Shape& shape);

    // By type and device: the switch, 0 to 3 * (most devices of a type); -1: it has no place.
    std::array<std::vector<std::int16_t>, kKinds> switch_of;
    bool has_tree = false;
    WideMask gpus;
    std::vector<NumaScope> numas;
    // By type: the devices on each switch of a known NUMA node.
    std::array<std::vector<WideMask>, kKinds> on_switch;
    // By type: the devices that have anything when they are healthy.
    std::array<WideMask, kKinds> reporting;
};

}  // namespace hivecore::devices::koordinator
