// What can be seen of the state: units, doomed cells, whether a group's place is still good.
#include <algorithm>

#include "cells/group_scheduler.hpp"

namespace hivecore::cells {

std::int64_t GroupScheduler::unit_count(std::int32_t instance) const {
    std::int64_t total = 0;
    for (const std::int32_t pool : virtual_cells().instance(instance).pools) {
        total += virtual_cells().cells(pool, virtual_cells().pool(pool).unit_level);
    }
    return total;
}

std::vector<UnitView> GroupScheduler::units(std::int32_t instance) {
    std::vector<UnitView> views;
    for (const std::int32_t pool : virtual_cells().instance(instance).pools) {
        const PhysicalCells& physical = virtual_cells().physical(virtual_cells().pool(pool).chain);
        const int level = virtual_cells().pool(pool).unit_level;
        const CellIndex leaves = physical.shape().leaves[level];
        for (CellIndex index = 0; index < virtual_cells().cells(pool, level); ++index) {
            const VirtualCells::Cell& cell = virtual_cells().cell(pool, level, index);
            const bool bound = cell.partner != kNoCell;
            views.push_back({pool, index, leaves,
                             bound ? physical.cell(level, cell.partner).open : leaves, cell.used,
                             bound ? std::int64_t{physical.shape().ancestor(level, cell.partner,
                                                                            physical.node_level())}
                                   : -1});
        }
    }
    return views;
}

std::vector<Doomed> GroupScheduler::doomed(std::int32_t chain) const {
    const PhysicalCells& physical = virtual_cells().physical(chain);
    const Shape& shape = physical.shape();
    const auto is_good = [&](int level, CellIndex index) {
        return physical.cell(level, index).bad == 0 && physical.listed_level(level, index) >= 0;
    };
    std::vector<Doomed> losses;
    std::int64_t spare = 0;
    for (int level = shape.levels; level-- > 0;) {
        std::vector<std::int64_t> owed(static_cast<std::size_t>(virtual_cells().tenants()), 0);
        std::int64_t total = 0;
        for (std::int32_t id = 0; id < virtual_cells().size(); ++id) {
            const VirtualCells::Pool& pool = virtual_cells().pool(id);
            if (pool.chain == chain && pool.level == level) {
                owed[static_cast<std::size_t>(pool.vc)] += pool.free_roots.size();
                total += pool.free_roots.size();
            }
        }
        if (level < shape.top()) {
            spare *= shape.fanout[level];
        }
        for (CellIndex index = 0; index < shape.size[level]; ++index) {
            spare += is_good(level, index) &&
                     (level == shape.top() || !is_good(level + 1, shape.parent(level, index)));
        }
        spare -= total;
        // One cell at a time to the tenant with the most that are not charged.
        std::vector<std::int64_t> left = owed;
        for (; spare < 0; ++spare) {
            const auto most = std::max_element(left.rbegin(), left.rend());
            --*most;
        }
        for (std::size_t vc = 0; vc < owed.size(); ++vc) {
            if (left[vc] < owed[vc]) {
                losses.push_back({level, static_cast<std::int32_t>(vc), owed[vc] - left[vc]});
            }
        }
    }
    std::sort(losses.begin(), losses.end(), [](const Doomed& a, const Doomed& b) {
        return a.level != b.level ? a.level < b.level : a.vc < b.vc;
    });
    return losses;
}

bool GroupScheduler::placement_good(Handle handle,
                                    std::span<const std::vector<std::uint8_t>> allowed) const {
    for (const Placed& placed : groups_.leaves(handle)) {
        const std::int32_t chain = groups_.chain_of(placed.leaf);
        const PhysicalCells& physical = virtual_cells().physical(chain);
        const CellIndex leaf = placed.leaf - groups_.first_leaf(chain);
        if (!physical.healthy(leaf)) {
            return false;
        }
        if (!allowed.empty() && !allowed[static_cast<std::size_t>(chain)].empty() &&
            !allowed[static_cast<std::size_t>(chain)]
                    [physical.shape().ancestor(0, leaf, physical.node_level())]) {
            return false;
        }
    }
    return true;
}

}  // namespace hivecore::cells
