#include "cells/planning/leaf_choice.hpp"

#include <algorithm>

namespace hivecore::cells {

void LeafChoice::start(const Shape& shape, int level, CellIndex first) {
    shape_ = &shape;
    level_ = level;
    first_ = first;
    width_ = shape.leaves[level];
    classes_.assign(width_, 0);
    std::uint64_t cells = 0;
    for (int l = 0; l <= level; ++l) {
        base_[l] = cells;
        cells += width_ / shape.leaves[l];
    }
    counts_.resize(cells);
}

void LeafChoice::count() {
    for (CellIndex leaf = 0; leaf < width_; ++leaf) {
        Count& count = counts_[leaf];
        count = Count{};
        if (classes_[leaf] < kTaken) {
            count.of[classes_[leaf]] = 1;
        }
    }
    for (int level = 1; level <= level_; ++level) {
        const CellIndex fanout = shape_->fanout[level - 1];
        const Count* child = &counts_[base_[level - 1]];
        for (CellIndex cell = 0; cell < cells(level); ++cell) {
            Count sum;
            for (CellIndex i = 0; i < fanout; ++i, ++child) {
                for (std::size_t cls = 0; cls < 3; ++cls) {
                    sum.of[cls] += child->of[cls];
                }
            }
            at(level, cell) = sum;
        }
    }
}

// Whether cell a of the level goes before cell b, which has the higher index.
bool LeafChoice::better(int level, CellIndex a, CellIndex b, CellIndex leaves) {
    const auto need = [&](const Count& count) {
        const CellIndex after_free = leaves - std::min(leaves, count.of[0]);
        return std::pair(after_free - std::min(after_free, count.of[1]),
                         std::min(after_free, count.of[1]));
    };
    const auto need_a = need(at(level, a));
    const auto need_b = need(at(level, b));
    if (need_a != need_b) {
        return need_a < need_b;
    }
    for (; a != b; a /= shape_->fanout[level], b /= shape_->fanout[level], ++level) {
        if (at(level, a).all() != at(level, b).all()) {
            return at(level, a).all() < at(level, b).all();
        }
        if (level == level_) {
            break;
        }
    }
    return true;
}

// Takes leaves for a pod in the cell `candidate` of level `top` and appends them, ascending; false:
// none can be had, nothing has changed.
bool LeafChoice::take_within(int top, CellIndex candidate, CellIndex leaves, int within,
                             std::vector<CellIndex>& out) {
    if (at(top, candidate).all() < leaves) {
        return false;
    }
    const int highest = within < 0 ? top : std::min(top, within);
    for (int level = 0; level <= highest; ++level) {
        if (shape_->leaves[level] < leaves) {
            continue;
        }
        const CellIndex many = shape_->leaves[top] / shape_->leaves[level];
        CellIndex best = width_;
        for (CellIndex cell = candidate * many; cell < (candidate + 1) * many; ++cell) {
            if (at(level, cell).all() >= leaves &&
                (best == width_ || !better(level, best, cell, leaves))) {
                best = cell;
            }
        }
        if (best == width_) {
            continue;
        }
        const CellIndex begin = best * shape_->leaves[level];
        const std::size_t start = out.size();
        CellIndex missing = leaves;
        for (std::uint8_t cls = 0; cls < 3 && missing != 0; ++cls) {
            for (CellIndex leaf = begin; missing != 0 && leaf < begin + shape_->leaves[level];
                 ++leaf) {
                if (classes_[leaf] != cls) {
                    continue;
                }
                out.push_back(first_ + leaf);
                classes_[leaf] = kGiven + cls;
                --missing;
                CellIndex cell = leaf;
                for (int l = 0;; ++l) {
                    --at(l, cell).of[cls];
                    if (l == level_) {
                        break;
                    }
                    cell /= shape_->fanout[l];
                }
            }
        }
        std::sort(out.begin() + static_cast<std::ptrdiff_t>(start), out.end());
        return true;
    }
    return false;
}

void LeafChoice::give_back(std::span<const CellIndex> leaves) {
    for (const CellIndex leaf : leaves) {
        CellIndex cell = leaf - first_;
        const auto cls = static_cast<std::uint8_t>(classes_[cell] - kGiven);
        classes_[cell] = cls;
        for (int level = 0;; ++level) {
            ++at(level, cell).of[cls];
            if (level == level_) {
                break;
            }
            cell /= shape_->fanout[level];
        }
    }
}

// All pods in turn in the cell `candidate` of level `top`, or else where a search finds place for
// them.
bool LeafChoice::take_in(int top, CellIndex candidate, std::span<const Demand> pods,
                         std::int64_t& budget, std::vector<CellIndex>& out) {
    const std::size_t start = out.size();
    for (const Demand& pod : pods) {
        if (!take_within(top, candidate, pod.leaves, pod.within, out)) {
            give_back(std::span(out).subspan(start));
            out.resize(start);
            return search(top, candidate, pods, budget, out);
        }
    }
    return true;
}

bool LeafChoice::take_all(std::span<const Demand> pods, int group_within, std::int64_t& budget,
                          std::vector<CellIndex>& out) {
    if (group_within < 0 || group_within >= level_) {
        return take_in(level_, 0, pods, budget, out);
    }
    std::uint64_t total = 0;
    for (const Demand& pod : pods) {
        total += pod.leaves;
    }
    candidates_.clear();
    for (CellIndex candidate = 0; candidate < cells(group_within); ++candidate) {
        if (at(group_within, candidate).all() >= total) {
            candidates_.push_back(candidate);
        }
    }
    const auto leaves = static_cast<CellIndex>(total);
    std::sort(candidates_.begin(), candidates_.end(), [&](CellIndex a, CellIndex b) {
        return a < b ? better(group_within, a, b, leaves)
                     : a > b && !better(group_within, b, a, leaves);
    });
    return std::any_of(candidates_.begin(), candidates_.end(), [&](CellIndex candidate) {
        return take_in(group_within, candidate, pods, budget, out);
    });
}

}  // namespace hivecore::cells
