#include "cells/planning/foresight.hpp"

#include <algorithm>
#include <tuple>

namespace hivecore::cells {

namespace {

constexpr CellIndex kMostNodes = 64;
constexpr int kMostSights = 256;

}  // namespace

bool Foresight::is_large() const {
    return physical_->shape().size[physical_->node_level()] > kMostNodes;
}

void Foresight::start(VirtualCells& virtual_cells, const UnitChoice& unit_choice,
                      const Task& task) {
    virtual_cells_ = &virtual_cells;
    unit_choice_ = &unit_choice;
    physical_ = &virtual_cells.physical(task.chain);
    task_ = task;
    cells_.resize(static_cast<std::size_t>(virtual_cells.size()));
    std::vector<std::int32_t> highest_first = virtual_cells.instance(task.instance).pools;
    std::stable_sort(highest_first.begin(), highest_first.end(),
                     [&](std::int32_t a, std::int32_t b) {
                         return virtual_cells.pool(a).level > virtual_cells.pool(b).level;
                     });
    roots_.clear();
    lowest_ = physical_->node_level();
    for (const std::int32_t pool : highest_first) {
        const auto many =
            std::min<std::uint64_t>(task.pods.size(), virtual_cells.pool(pool).free_roots.size());
        roots_.insert(roots_.end(), many, pool);
        if (many != 0) {
            lowest_ = std::min<int>(lowest_, virtual_cells.pool(pool).level);
        }
    }
    if (task.constrained) {
        lowest_ = 0;
    }
    path_.clear();
    seen_.clear();
    sights_ = 0;
    was_cut_short_ = false;
    count_usable();
}

bool Foresight::look() {
    for (const Pairing& pairing : path_) {
        bind(pairing);
    }
    const bool has_path = sights_ == 0 ? descend(0) : next_path();
    was_cut_short_ = has_path && sights_ == (is_large() ? 1 : kMostSights);
    ++sights_;
    for (const std::int32_t pool : virtual_cells_->instance(task_.instance).pools) {
        const VirtualCells::Pool& owner = virtual_cells_->pool(pool);
        cells_[static_cast<std::size_t>(pool)].assign(virtual_cells_->cells(pool, owner.unit_level),
                                                      kNoCell);
        for (CellIndex root = 0; has_path && root < static_cast<CellIndex>(owner.count); ++root) {
            if (virtual_cells_->is_bound(pool, owner.level, root)) {
                pair(pool, owner.level, root,
                     virtual_cells_->cell(pool, owner.level, root).partner);
            }
        }
    }
    unbind();
    virtual_cells_->physical(task_.chain).forget_roots();
    return has_path && !was_cut_short_;
}

// --- pairings

void Foresight::bind(const Pairing& pairing) {
    if (is_bound(pairing)) {
        const std::int32_t pool = roots_[pairing.root];
        const Offer& offer = pairing.offers[pairing.next - 1];
        const auto root = static_cast<CellIndex>(virtual_cells_->pool(pool).free_roots.first());
        bound_.emplace_back(pool, root);
        virtual_cells_->bind_empty_root(pool, root, offer.cell, offer.from);
    }
}

void Foresight::unbind_last() {
    virtual_cells_->unbind_empty_root(bound_.back().first, bound_.back().second);
    bound_.pop_back();
}

void Foresight::unbind() {
    while (!bound_.empty()) {
        unbind_last();
    }
}

// Pairs the roots from this one on with their best cells; false: that has been looked at.
bool Foresight::descend(std::size_t root) {
    for (;;) {
        std::vector<std::uint64_t> place;
        for (const Pairing& pairing : path_) {
            if (is_bound(pairing)) {
                const auto level =
                    static_cast<std::uint64_t>(virtual_cells_->pool(roots_[pairing.root]).level);
                place.push_back(level << 32 | pairing.offers[pairing.next - 1].cell);
            }
        }
        std::sort(place.begin(), place.end());
        place.push_back(root);
        if (!seen_.insert(std::move(place)).second) {
            return false;
        }
        if (root == roots_.size()) {
            return true;
        }
        Pairing& pairing = path_.emplace_back(Pairing{root, offers(roots_[root])});
        if (pairing.offers.empty()) {
            pairing.is_left_out = true;
        } else {
            ++pairing.next;
        }
        bind(pairing);
        root = following(pairing);
    }
}

// Goes on from the last path.
bool Foresight::next_path() {
    while (!path_.empty()) {
        Pairing& last = path_.back();
        if (is_bound(last)) {
            unbind_last();
        }
        if (last.is_left_out) {
            path_.pop_back();
            continue;
        }
        last.is_left_out = last.next == last.offers.size();
        last.next += !last.is_left_out;
        bind(last);
        if (descend(following(last))) {
            return true;
        }
    }
    return false;
}

std::size_t Foresight::following(const Pairing& pairing) const {
    std::size_t root = pairing.root + 1;
    while (pairing.is_left_out && root < roots_.size() && roots_[root] == roots_[pairing.root]) {
        ++root;
    }
    return root;
}

// What can be used of every cell of the levels that matter.
void Foresight::count_usable() {
    const Shape& shape = physical_->shape();
    usable_.resize(static_cast<std::size_t>(shape.levels));
    for (int level = lowest_; level < shape.levels; ++level) {
        std::vector<CellIndex>& row = usable_[static_cast<std::size_t>(level)];
        row.assign(shape.size[level], 0);
        for (CellIndex cell = 0; cell < shape.size[level]; ++cell) {
            if (level == lowest_) {
                const CellIndex node = shape.ancestor(level, cell, physical_->node_level());
                row[cell] = task_.allows(node) ? unit_choice_->available_in(level, cell) : 0;
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
    const Shape& shape = physical_->shape();
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

// The free cells that a root may be bound to, one of each kind, the best first; of a large chain no
// other.
std::vector<Foresight::Offer> Foresight::offers(std::int32_t pool) {
    const Shape& shape = physical_->shape();
    const int level = virtual_cells_->pool(pool).level;
    const int part = std::min(level, physical_->node_level());
    const CellIndex many = shape.leaves[level] / shape.leaves[part];
    int highest = level;  // from which a cell may be split off
    while (highest < shape.top() && physical_->may_split(level, highest + 1)) {
        ++highest;
    }
    std::vector<Offer> all;
    for (CellIndex cell = 0; cell < shape.size[level]; ++cell) {
        Offer offer{0, usable(level, cell), physical_->listed_level(level, cell), cell};
        if (offer.from < 0 || offer.from > highest) {
            continue;
        }
        for (CellIndex node = cell * many; node < (cell + 1) * many; ++node) {
            const std::int64_t pods = usable(part, node) / task_.pods.back().leaves;
            const auto around = shape.ancestor(part, node, physical_->node_level());
            offer.pods +=
                task_.most.empty() ? pods : std::min<std::int64_t>(pods, task_.most[around]);
        }
        if (!is_large() || all.empty()) {
            all.push_back(offer);
        } else if (!better(level, all.front(), offer)) {
            all.front() = offer;
        }
    }
    if (all.size() < 2) {
        return all;
    }
    std::sort(all.begin(), all.end(), [&](const Offer& a, const Offer& b) {
        return a.cell < b.cell ? better(level, a, b) : a.cell > b.cell && !better(level, b, a);
    });
    find_kinds();
    std::set<std::vector<std::uint32_t>> kinds;
    std::erase_if(all, [&](const Offer& offer) {
        std::vector<std::uint32_t> path;
        CellIndex cell = offer.cell;
        for (int at = level;; cell = shape.parent(at++, cell)) {
            path.push_back(kind_[static_cast<std::size_t>(at)][cell]);
            if (at == shape.top()) {
                break;
            }
        }
        return !kinds.insert(std::move(path)).second;
    });
    return all;
}

// Numbers what the cells that a symmetry maps to each other share.
void Foresight::find_kinds() {
    const Shape& shape = physical_->shape();
    kinds_.clear();
    kind_.resize(static_cast<std::size_t>(shape.levels));
    std::vector<std::uint32_t> key;
    for (int level = lowest_; level < shape.levels; ++level) {
        kind_[static_cast<std::size_t>(level)].resize(shape.size[level]);
        for (CellIndex cell = 0; cell < shape.size[level]; ++cell) {
            key.assign(1, static_cast<std::uint32_t>(level));
            const CellState state = physical_->state(level, cell);
            if (state != CellState::root) {
                key.push_back(physical_->listed_level(level, cell) >= 0);
                if (level == lowest_) {
                    key.push_back(usable(level, cell));
                } else {
                    const CellIndex child = shape.first_child(level, cell);
                    const auto& below = kind_[static_cast<std::size_t>(level - 1)];
                    const auto begin = below.begin() + static_cast<std::ptrdiff_t>(child);
                    key.insert(key.end(), begin, begin + shape.fanout[level - 1]);
                    std::sort(key.begin() + 2, key.end());
                }
                if (level == physical_->node_level() && !task_.most.empty()) {
                    key.push_back(task_.most[cell]);
                }
            }
            kind_[static_cast<std::size_t>(level)][cell] =
                kinds_.emplace(key, static_cast<std::uint32_t>(kinds_.size())).first->second;
        }
    }
}

// --- units

// A virtual cell is, or would be, bound to `cell`; so are the units in it.
void Foresight::pair(std::int32_t pool, int level, CellIndex index, CellIndex cell) {
    if (level == virtual_cells_->pool(pool).unit_level) {
        cells_[static_cast<std::size_t>(pool)][index] = cell;
        return;
    }
    const Shape& shape = physical_->shape();
    CellIndex unbound = shape.first_child(level, cell);
    const CellIndex begin = shape.first_child(level, index);
    for (CellIndex child = begin; child < begin + shape.fanout[level - 1]; ++child) {
        CellIndex place = virtual_cells_->cell(pool, level - 1, child).partner;
        if (place == kNoCell) {
            while (physical_->is_bound(level - 1, unbound)) {
                ++unbound;
            }
            place = unbound++;
        }
        pair(pool, level - 1, child, place);
    }
}

}  // namespace hivecore::cells
