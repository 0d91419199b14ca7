#include "cells/group_scheduler_foresight.hpp"

#include <algorithm>
#include <tuple>

namespace hivecore::cells {

namespace {

constexpr CellIndex kMostNodes = 64;

}  // namespace

void Foresight::start(Pools& pools, const Chooser& chooser, const Task& task) {
    pools_ = &pools;
    chooser_ = &chooser;
    tree_ = &pools.tree(task.chain);
    task_ = task;
    cells_.resize(static_cast<std::size_t>(pools.size()));
    highest_first_ = pools.instance(task.instance).pools;
    std::stable_sort(
        highest_first_.begin(), highest_first_.end(),
        [&](std::int32_t a, std::int32_t b) { return pools.pool(a).level > pools.pool(b).level; });
    most_.clear();
    for (const std::int32_t pool : highest_first_) {
        most_.push_back(
            std::min<std::int64_t>(std::ssize(task.pods), pools.pool(pool).free_roots.size()));
    }
    counts_ = most_;
    seen_.clear();
    count_usable();
    is_first_ = true;
}

// The last pool's count falls fastest.
bool Foresight::next_counts() {
    if (is_first_) {
        is_first_ = false;
        return true;
    }
    if (tree_->shape().size[tree_->node_level()] > kMostNodes) {
        return false;
    }
    for (std::size_t i = counts_.size(); i-- > 0;) {
        if (counts_[i] > 0) {
            --counts_[i];
            return true;
        }
        counts_[i] = most_[i];
    }
    return false;
}

bool Foresight::look() {
    while (next_counts()) {
        std::vector<std::int64_t> bound;
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            bound.push_back(bind_roots(highest_first_[i], counts_[i]));
        }
        const bool is_new = seen_.insert(bound).second;
        for (const std::int32_t pool : highest_first_) {
            const Pools::Pool& owner = pools_->pool(pool);
            std::vector<CellIndex>& cells = cells_[static_cast<std::size_t>(pool)];
            cells.assign(pools_->cells(pool, owner.unit_level), kNoCell);
            for (CellIndex root = 0; is_new && root < static_cast<CellIndex>(owner.count); ++root) {
                if (pools_->is_bound(pool, owner.level, root)) {
                    pair(pool, owner.level, root, pools_->cell(pool, owner.level, root).partner);
                }
            }
        }
        while (!bound_.empty()) {
            pools_->unbind_empty_root(bound_.back().first, bound_.back().second);
            bound_.pop_back();
        }
        pools_->tree(task_.chain).forget_roots();
        if (is_new) {
            return true;
        }
    }
    return false;
}

// What can be used of every cell.
void Foresight::count_usable() {
    const Shape& shape = tree_->shape();
    usable_.resize(static_cast<std::size_t>(shape.levels));
    for (int level = 0; level < shape.levels; ++level) {
        std::vector<CellIndex>& row = usable_[static_cast<std::size_t>(level)];
        row.assign(shape.size[level], 0);
        for (CellIndex cell = 0; cell < shape.size[level]; ++cell) {
            if (level == 0) {
                row[cell] = task_.allows(shape.ancestor(0, cell, tree_->node_level())) &&
                            chooser_->leaf_class(cell) != LeafChoice::kTaken;
                continue;
            }
            const CellIndex begin = shape.first_child(level, cell);
            for (CellIndex child = begin; child < begin + shape.fanout[level - 1]; ++child) {
                row[cell] += usable(level - 1, child);
            }
        }
    }
}

// Whether cell a goes before cell b, which has the higher number: that with room for most pods of
// the largest size, most leaves, the fewest cells to split, most leaves around it.
bool Foresight::better(int level, const Offer& a, const Offer& b) const {
    const auto key = [](const Offer& offer) {
        return std::tuple(-offer.pods, -offer.leaves, offer.from);
    };
    if (key(a) != key(b)) {
        return key(a) < key(b);
    }
    const Shape& shape = tree_->shape();
    CellIndex cell_a = a.cell;
    CellIndex cell_b = b.cell;
    for (; level < shape.top(); ++level) {
        cell_a = shape.parent(level, cell_a);
        cell_b = shape.parent(level, cell_b);
        if (usable(level + 1, cell_a) != usable(level + 1, cell_b)) {
            return usable(level + 1, cell_a) > usable(level + 1, cell_b);
        }
    }
    return true;
}

// Binds unbound roots of the pool to the best free cells; how many could be.
std::int64_t Foresight::bind_roots(std::int32_t pool, std::int64_t count) {
    const int level = pools_->pool(pool).level;
    const int part = std::min(level, tree_->node_level());
    const CellIndex many = tree_->shape().leaves[level] / tree_->shape().leaves[part];
    for (std::int64_t bound = 0; bound < count; ++bound) {
        int highest = level;  // from which a cell may be split off
        while (highest < tree_->shape().top() && tree_->may_split(level, highest + 1)) {
            ++highest;
        }
        Offer best{-1, 0, 0, kNoCell};
        for (CellIndex cell = 0; cell < tree_->shape().size[level]; ++cell) {
            Offer offer{0, usable(level, cell), tree_->listed_level(level, cell), cell};
            if (offer.from < 0 || offer.from > highest) {
                continue;
            }
            for (CellIndex node = cell * many; node < (cell + 1) * many; ++node) {
                offer.pods += usable(part, node) / task_.pods.back().leaves;
            }
            if (best.cell == kNoCell || !better(level, best, offer)) {
                best = offer;
            }
        }
        if (best.cell == kNoCell) {
            return bound;
        }
        const auto root = static_cast<CellIndex>(pools_->pool(pool).free_roots.first());
        pools_->bind_empty_root(pool, root, best.cell, best.from);
        bound_.emplace_back(pool, root);
    }
    return count;
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
