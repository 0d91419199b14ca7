// Where all unbound units of a tenant could be at once, for gangs that the usual way cannot place.
//
// The usual choice takes an unbound unit for a whole one and finds it a physical cell afterwards.
// Where bad leaves, excluded nodes, or leaves that are not to be taken leave no whole cells, it has
// to know what each unit would have. Below a bound cell there are as many unbound virtual cells as
// physical ones, and it does not matter which is bound to which: any pairing shows what there is.
// Unbound roots are paired with the free cells that have most, as far as these split off safely;
// they are bound to them while it looks, and unbound again. What roots of one level are paired with
// may lack for another level: in chains of up to 64 nodes each number of roots of each level is
// tried, in larger ones only as many as there can be.
//
// Cost of one look: O(roots * cells of their level + units * levels), once O(leaves of the chain).
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "cells/group_scheduler_choice.hpp"
#include "cells/group_scheduler_pools.hpp"

namespace hivecore::cells {

class Foresight {
  public:
    // For what the chooser, which is started for this task, may use.
    void start(Pools& pools, const Chooser& chooser, const Task& task);
    // The next sight; false: that was all.
    bool look();
    // The physical cell of a unit, kNoCell: it can have none.
    CellIndex cell(std::int32_t pool, CellIndex unit) const {
        return cells_[static_cast<std::size_t>(pool)][unit];
    }

  private:
    struct Offer {
        std::int64_t pods;
        std::int64_t leaves;
        int from;  // the level of the listed cell around it
        CellIndex cell;
    };

    bool next_counts();
    std::int64_t bind_roots(std::int32_t pool, std::int64_t count);
    void pair(std::int32_t pool, int level, CellIndex index, CellIndex cell);
    void count_usable();
    CellIndex usable(int level, CellIndex cell) const {
        return usable_[static_cast<std::size_t>(level)][cell];
    }
    bool better(int level, const Offer& a, const Offer& b) const;

    Pools* pools_ = nullptr;
    const Chooser* chooser_ = nullptr;
    const CellTree* tree_ = nullptr;
    Task task_;
    std::vector<std::vector<CellIndex>> usable_;  // by level and cell
    std::vector<std::vector<CellIndex>> cells_;   // by pool and unit
    std::vector<std::pair<std::int32_t, CellIndex>> bound_;
    std::vector<std::int32_t> highest_first_;
    std::vector<std::int64_t> counts_;  // roots to be paired, by place in `highest_first_`
    std::vector<std::int64_t> most_;
    std::set<std::vector<std::int64_t>> seen_;
    bool is_first_ = false;
};

}  // namespace hivecore::cells
