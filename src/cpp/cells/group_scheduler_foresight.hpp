// Where all unbound units of a tenant could be at once, for gangs that the usual way cannot place.
//
// The usual choice takes an unbound unit for a whole one and finds it a physical cell afterwards.
// Where bad leaves, excluded nodes, or leaves that are not to be taken leave no whole cells, it has
// to know what each unit would have. Below a bound cell there are as many unbound virtual cells as
// physical ones, and it does not matter which is bound to which: any pairing shows what there is.
// Unbound roots are paired with the free cells that have most, as far as these split off safely;
// they are bound to them while it looks, and unbound again.
//
// Cost: O(leaves of the chain + units * levels).
#pragma once

#include <utility>
#include <vector>

#include "cells/group_scheduler_choice.hpp"
#include "cells/group_scheduler_pools.hpp"

namespace hivecore::cells {

class Foresight {
  public:
    // What the chooser, which is started for this task, may use.
    void look(Pools& pools, const Chooser& chooser, const Task& task);
    // The physical cell of a unit, kNoCell: it can have none.
    CellIndex cell(std::int32_t pool, CellIndex unit) const {
        return cells_[static_cast<std::size_t>(pool)][unit];
    }

  private:
    void bind_roots(std::int32_t pool);
    void pair(std::int32_t pool, int level, CellIndex index, CellIndex cell);
    CellIndex usable(int level, CellIndex cell) const;

    Pools* pools_ = nullptr;
    const Chooser* chooser_ = nullptr;
    const CellTree* tree_ = nullptr;
    Task task_;
    std::vector<std::vector<CellIndex>> cells_;  // by pool and unit
    std::vector<std::pair<std::int32_t, CellIndex>> bound_;
};

}  // namespace hivecore::cells
