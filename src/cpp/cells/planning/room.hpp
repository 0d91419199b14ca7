// What there would be for a gang in all nodes that are not bound to others, if some groups left.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "cells/planning/unit_choice.hpp"

namespace hivecore::cells {

class Room {
  public:
    // For what the unit_choice, which is started for this task, may use. O(leaves of the chain).
    Room(const Groups& groups, const UnitChoice& unit_choice, const Task& task);
    // The groups of which leaves can be had.
    std::vector<Handle> groups() const;
    // False: even so there are not nodes for so many pods of every size.
    bool may_suffice(std::span<const Handle> victims) const;

  private:
    std::vector<std::pair<CellIndex, std::int64_t>>
        sizes_;                       // of pods, with how many are no smaller
    std::vector<CellIndex> free_;     // per node
    std::vector<std::int64_t> pods_;  // per size, on what is free
    std::map<Handle, std::vector<std::pair<CellIndex, CellIndex>>> more_;  // (node, leaves)
};

}  // namespace hivecore::cells
