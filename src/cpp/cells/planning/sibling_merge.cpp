// Siblings below node level, merged: a pod on several virtual cells of one node, on request.
//
// Pods go one after the other, each as if it were alone if it can, else to the nodes with the most
// held leaves first: there on what is open in the tenant's own roots, then on free cells of the
// node that become new roots of it, the biggest first.
#include <algorithm>
#include <tuple>

#include "cells/group_scheduler.hpp"

namespace hivecore::cells {

bool GroupScheduler::mergeable(const Request& request) const {
    const auto& own = virtual_cells().instance(task_.instance).pools;
    const int node = virtual_cells().physical(request.chain).node_level();
    return request.pin < 0 && !request.has_units && request.group_within < 0 &&
           std::any_of(
               own.begin(), own.end(),
               [&](std::int32_t pool) { return virtual_cells().pool(pool).level < node; });
}

bool GroupScheduler::merged() {
    bool all = true;
    for (std::size_t i = 0; all && i < demands_.size(); ++i) {
        Task alone = task_;
        alone.pods = std::span(demands_).subspan(i, 1);
        alone.total = demands_[i].leaves;
        alone.constrained = demands_[i].within >= 0;
        const std::size_t before = virtual_cells().journal_size();
        unit_choice_.start(alone, Reach::opportunistic, false);
        cell_mapping_.start(alone, first_, placed_, {}, budget_);
        if (unit_choice_.choose(Domain{}, budget_, choice_)) {
            if (cell_mapping_.map(choice_)) {
                continue;
            }
            groups_.virtual_cells().undo(before);
        }
        all = merge_one(alone, demands_[i]);
    }
    groups_.virtual_cells().undo(base_);
    return all;
}

bool GroupScheduler::merge_one(const Task& alone, const Demand& pod) {
    const PhysicalCells& physical = virtual_cells().physical(alone.chain);
    const Shape& shape = physical.shape();
    const int node = physical.node_level();
    const int level = pod.within >= 0 ? std::min<int>(node, pod.within) : node;
    std::vector<std::pair<CellIndex, CellIndex>> cells;  // leaves not held, cell
    for (CellIndex cell = 0; cell < shape.size[level]; ++cell) {
        if (!alone.allows(shape.ancestor(level, cell, node)) ||
            physical.cell(level, cell).open < pod.leaves) {
            continue;
        }
        CellIndex others = 0;
        for (CellIndex leaf = cell * shape.leaves[level]; leaf < (cell + 1) * shape.leaves[level];
             ++leaf) {
            others += physical.holding(leaf) != Holding::virtually;
        }
        cells.emplace_back(others, cell);
    }
    std::sort(cells.begin(), cells.end());
    for (const auto& [others, cell] : cells) {
        const std::size_t before = virtual_cells().journal_size();
        if (merge_in(level, cell, pod)) {
            return true;
        }
        groups_.virtual_cells().undo(before);
    }
    return false;
}

bool GroupScheduler::merge_in(int level, CellIndex cell, const Demand& pod) {
    const PhysicalCells& physical = virtual_cells().physical(task_.chain);
    const Shape& shape = physical.shape();
    const CellIndex begin = cell * shape.leaves[level];
    CellIndex taken = 0;
    const auto take = [&](std::int32_t pool, CellIndex root, CellIndex leaf) {
        const VirtualLeaf held =
            virtual_cells().virtual_leaf(pool, virtual_cells().pool(pool).level, root, leaf);
        cell_mapping_.hold(pod.position, taken++, leaf, held);
    };
    std::vector<std::tuple<std::uint8_t, CellIndex, std::int32_t, CellIndex>> mine;
    for (CellIndex leaf = begin; leaf < begin + shape.leaves[level]; ++leaf) {
        const std::uint8_t cls = unit_choice_.leaf_class(leaf);
        int above = 0;
        CellIndex index = leaf;
        while (above < shape.top() && physical.state(above, index) != CellState::root) {
            index /= shape.fanout[above];
            ++above;
        }
        const PhysicalCells::Cell& root = physical.cell(above, index);
        if (cls != LeafChoice::kTaken && physical.state(above, index) == CellState::root &&
            virtual_cells().pool(root.pool).instance == task_.instance) {
            mine.emplace_back(cls, leaf, root.pool, root.partner);
        }
    }
    std::sort(mine.begin(), mine.end());
    mine.resize(std::min<std::size_t>(mine.size(), pod.leaves));
    std::sort(mine.begin(), mine.end(),
              [](const auto& a, const auto& b) { return std::get<1>(a) < std::get<1>(b); });
    for (const auto& [cls, leaf, pool, root] : mine) {
        take(pool, root, leaf);
    }
    std::vector<std::int32_t> lower = virtual_cells().instance(task_.instance).pools;
    std::stable_sort(lower.begin(), lower.end(), [&](std::int32_t a, std::int32_t b) {
        return virtual_cells().pool(a).level > virtual_cells().pool(b).level;
    });
    for (const std::int32_t pool : lower) {
        const int root_level = virtual_cells().pool(pool).level;
        if (root_level > level || root_level >= physical.node_level()) {
            continue;
        }
        const CellIndex wide = shape.leaves[root_level];
        std::vector<std::pair<CellIndex, CellIndex>> offers;  // load, cell
        for (CellIndex offer = begin / wide; offer < (begin + shape.leaves[level]) / wide;
             ++offer) {
            if (physical.cell(root_level, offer).bad == 0) {
                offers.emplace_back(physical.cell(root_level, offer).load, offer);
            }
        }
        std::sort(offers.begin(), offers.end());
        for (const auto& [load, offer] : offers) {
            const IndexSet& roots = virtual_cells().pool(pool).free_roots;
            if (taken == pod.leaves || roots.empty()) {
                break;
            }
            const int from = physical.listed_level(root_level, offer);
            if (from < 0 || !physical.may_split(root_level, from)) {
                continue;
            }
            const auto root = static_cast<CellIndex>(roots.first());
            for (CellIndex leaf = offer * wide; leaf < (offer + 1) * wide && taken < pod.leaves;
                 ++leaf) {
                take(pool, root, leaf);
            }
        }
    }
    const auto first = placed_.begin() +
                       static_cast<std::ptrdiff_t>(first_[static_cast<std::size_t>(pod.position)]);
    std::sort(first, first + taken,
              [](const Placed& a, const Placed& b) { return a.leaf < b.leaf; });
    return taken == pod.leaves;
}

}  // namespace hivecore::cells
