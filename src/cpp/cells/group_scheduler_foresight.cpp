#include "cells/group_scheduler_foresight.hpp"

#include <algorithm>
#include <compare>

namespace hivecore::cells {

void Foresight::look(Pools& pools, const Chooser& chooser, const Task& task) {
    pools_ = &pools;
    chooser_ = &chooser;
    tree_ = &pools.tree(task.chain);
    task_ = task;
    const std::vector<std::int32_t>& mine = pools.instance(task.instance).pools;
    cells_.resize(static_cast<std::size_t>(pools.size()));
    std::vector<std::int32_t> highest_first = mine;
    std::stable_sort(
        highest_first.begin(), highest_first.end(),
        [&](std::int32_t a, std::int32_t b) { return pools.pool(a).level > pools.pool(b).level; });
    for (const std::int32_t pool : highest_first) {
        bind_roots(pool);
    }
    for (const std::int32_t pool : mine) {
        const Pools::Pool& owner = pools.pool(pool);
        cells_[static_cast<std::size_t>(pool)].assign(pools.cells(pool, owner.unit_level), kNoCell);
        for (CellIndex root = 0; root < static_cast<CellIndex>(owner.count); ++root) {
            if (pools.is_bound(pool, owner.level, root)) {
                pair(pool, owner.level, root, pools.cell(pool, owner.level, root).partner);
            }
        }
    }
    while (!bound_.empty()) {
        pools.unbind_empty_root(bound_.back().first, bound_.back().second);
        bound_.pop_back();
    }
    pools.tree(task.chain).forget_roots();
}

CellIndex Foresight::usable(int level, CellIndex cell) const {
    if (!task_.allows(tree_->shape().ancestor(level, cell, tree_->node_level()))) {
        return 0;
    }
    CellIndex sum = 0;
    const CellIndex wide = tree_->shape().leaves[level];
    for (CellIndex leaf = cell * wide; leaf < (cell + 1) * wide; ++leaf) {
        sum += chooser_->leaf_class(leaf) != LeafChoice::kTaken;
    }
    return sum;
}

// The free cells with room for most pods of the largest size, then with most leaves. A cell that
// cannot be split off safely now cannot later, so one pass over them is enough.
void Foresight::bind_roots(std::int32_t pool) {
    struct Offer {
        std::int64_t pods;
        std::int64_t leaves;
        CellIndex cell;
        auto operator<=>(const Offer&) const = default;
    };
    const int level = pools_->pool(pool).level;
    const int part = std::min(level, tree_->node_level());
    const CellIndex many = tree_->shape().leaves[level] / tree_->shape().leaves[part];
    if (pools_->pool(pool).free_roots.empty()) {
        return;
    }
    std::vector<Offer> offers;
    for (CellIndex cell = 0; cell < tree_->shape().size[level]; ++cell) {
        if (tree_->listed_level(level, cell) < 0) {
            continue;
        }
        Offer offer{0, 0, cell};
        for (CellIndex node = cell * many; node < (cell + 1) * many; ++node) {
            const CellIndex leaves = usable(part, node);
            offer.leaves -= leaves;
            offer.pods -= leaves / task_.pods.back().leaves;
        }
        offers.push_back(offer);
    }
    std::sort(offers.begin(), offers.end());
    for (const Offer& offer : offers) {
        const IndexSet& roots = pools_->pool(pool).free_roots;
        if (roots.empty()) {
            return;
        }
        const auto root = static_cast<CellIndex>(roots.first());
        if (pools_->bind_empty_root(pool, root, offer.cell)) {
            bound_.emplace_back(pool, root);
        }
    }
}

// A virtual cell is, or would be, bound to `cell`; so are the units in it.
void Foresight::pair(std::int32_t pool, int level, CellIndex index, CellIndex cell) {
    if (level == pools_->pool(pool).unit_level) {
        cells_[static_cast<std::size_t>(pool)][index] = cell;
        return;
    }
    const Shape& shape = tree_->shape();
    CellIndex unbound = shape.first_child(level, cell);
    const CellIndex begin = shape.first_child(level, index);
    for (CellIndex child = begin; child < begin + shape.fanout[level - 1]; ++child) {
        CellIndex place = pools_->cell(pool, level - 1, child).partner;
        if (place == kNoCell) {
            while (tree_->is_bound(level - 1, unbound)) {
                ++unbound;
            }
            place = unbound++;
        }
        pair(pool, level - 1, child, place);
    }
}

}  // namespace hivecore::cells
