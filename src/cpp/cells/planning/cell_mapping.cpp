#include "cells/planning/cell_mapping.hpp"

#include <algorithm>

namespace hivecore::cells {

void CellMapping::start(const Task& task, std::span<const std::uint64_t> first,
                        std::vector<Placed>& placed, std::span<const Handle> downgraded,
                        std::int64_t& budget) {
    task_ = task;
    first_ = first;
    placed_ = &placed;
    budget_ = &budget;
    first_leaf_ = groups_.first_leaf(task.chain);
    physical_ = &virtual_cells_.physical(task.chain);
    occupants_.start(groups_, unit_choice_, downgraded);
}

void CellMapping::forget() {
    for (const CellIndex leaf : planned_) {
        unit_choice_.planned()[leaf] = false;
    }
    planned_.clear();
}

bool CellMapping::hold(std::int32_t position, std::uint64_t slot, CellIndex leaf,
                       VirtualLeaf held) {
    if (unit_choice_.reach() == Reach::guaranteed) {
        if (physical_->holding(leaf) == Holding::virtually) {
            virtual_cells_.drop(task_.chain, leaf, Holding::none);
        }
        unit_choice_.planned()[leaf] = true;
        planned_.push_back(leaf);
    }
    (*placed_)[first_[static_cast<std::size_t>(position)] + slot] = {first_leaf_ + leaf, position,
                                                                     held};
    return virtual_cells_.book(held, leaf);
}

// Chooses the leaves of a unit's pods in its physical cell, and books them.
bool CellMapping::settle(const Choice& choice, std::size_t number, CellIndex cell) {
    const Unit& unit = choice.units[number];
    const int level = unit_choice_.unit_level(unit.pool);
    chosen_.clear();
    if (!occupants_.take(level, cell, choice.pods_of(number), task_.group_within, chosen_)) {
        return false;
    }
    std::size_t next = 0;
    for (const Demand& pod : choice.pods_of(number)) {
        for (CellIndex slot = 0; slot < pod.leaves; ++slot, ++next) {
            const CellIndex leaf = chosen_[next];
            const VirtualLeaf held =
                virtual_cells_.virtual_leaf(unit.pool, level, unit.index, leaf);
            if (!hold(pod.position, slot, leaf, held)) {
                return false;
            }
        }
    }
    return true;
}

bool CellMapping::map(const Choice& choice) {
    struct Place {
        bool bound;
        std::int32_t pool;
        int level;
        CellIndex index;
        std::vector<Wanted> units;
    };
    const auto many = choice.units.size();
    std::size_t unbound = 0;
    for (std::size_t number = 0; number < many; ++number) {
        const Unit& unit = choice.units[number];
        CellIndex cell =
            virtual_cells_.cell(unit.pool, unit_choice_.unit_level(unit.pool), unit.index).partner;
        if (cell == kNoCell) {
            cell = unit_choice_.foresees() ? unit.cell : choice.at;
        }
        if (cell == kNoCell) {
            ++unbound;
        } else if (!settle(choice, number, cell)) {
            return false;
        }
    }
    if (unbound == 0) {
        return true;
    }
    // By the lowest bound cell around each unit, else its root; those that are bound first.
    std::vector<Place> places;
    std::map<std::tuple<std::int32_t, int, CellIndex>, std::size_t> numbers;
    for (std::size_t number = 0; number < many; ++number) {
        const Unit& unit = choice.units[number];
        int level = unit_choice_.unit_level(unit.pool);
        CellIndex index = unit.index;
        if (virtual_cells_.is_bound(unit.pool, level, index)) {
            continue;
        }
        while (!virtual_cells_.is_bound(unit.pool, level, index) &&
               level < virtual_cells_.pool(unit.pool).level) {
            index /= physical_->shape().fanout[level];
            ++level;
        }
        const auto [entry, fresh] =
            numbers.emplace(std::tuple(unit.pool, level, index), places.size());
        if (fresh) {
            places.push_back(
                {virtual_cells_.is_bound(unit.pool, level, index), unit.pool, level, index, {}});
        }
        places[entry->second].units.push_back({unit.index, number, kNoCell});
    }
    std::stable_sort(places.begin(), places.end(),
                     [](const Place& a, const Place& b) { return a.bound > b.bound; });
    for (Place& place : places) {
        pool_ = place.pool;
        unit_level_ = unit_choice_.unit_level(pool_);
        choice_ = &choice;
        known_.clear();
        wanted_ = place.units;
        std::sort(wanted_.begin(), wanted_.end(),
                  [](const Wanted& a, const Wanted& b) { return a.unit < b.unit; });
        const bool mapped =
            place.bound
                ? assign_children(place.level, wanted_,
                                  virtual_cells_.cell(pool_, place.level, place.index).partner)
                : assign_root(place.level, wanted_);
        if (!mapped) {
            return false;
        }
        std::sort(wanted_.begin(), wanted_.end(),
                  [](const Wanted& a, const Wanted& b) { return a.number < b.number; });
        for (const Wanted& wanted : wanted_) {
            if (!settle(choice, wanted.number, wanted.cell)) {
                return false;
            }
        }
    }
    return true;
}

// --- which physical cells can serve

// The unbound children of a physical cell, best first.
std::vector<CellIndex> CellMapping::candidates(int level, CellIndex cell) const {
    std::vector<Order> order;
    const CellIndex begin = physical_->shape().first_child(level, cell);
    for (CellIndex child = begin; child < begin + physical_->shape().fanout[level - 1]; ++child) {
        if (!physical_->is_bound(level - 1, child)) {
            const PhysicalCells::Cell& counts = physical_->cell(level - 1, child);
            order.push_back({counts.bad, counts.load, child});
        }
    }
    std::sort(order.begin(), order.end());
    std::vector<CellIndex> cells;
    for (const Order& each : order) {
        cells.push_back(each.cell);
    }
    return cells;
}

// The units in each needed child, for units in one cell of the level.
std::vector<CellMapping::Units> CellMapping::split(Units units, int level) const {
    const CellIndex many =
        physical_->shape().leaves[level - 1] / physical_->shape().leaves[unit_level_];
    std::vector<Units> parts;
    std::size_t begin = 0;
    for (std::size_t i = 1; i <= units.size(); ++i) {
        if (i == units.size() || units[i].unit / many != units[begin].unit / many) {
            parts.push_back(units.subspan(begin, i - begin));
            begin = i;
        }
    }
    return parts;
}

// Whether the cell can be bound to whatever is chosen of its level.
bool CellMapping::serves_anything(int level, CellIndex cell) const {
    const bool all_may_leave =
        unit_choice_.reach() != Reach::idle && unit_choice_.victims() == nullptr;
    return !task_.constrained && task_.suggested.empty() && physical_->cell(level, cell).bad == 0 &&
           (all_may_leave || physical_->cell(level, cell).load == 0);
}

bool CellMapping::hosts(const Wanted& wanted, CellIndex cell) {
    const auto pods = choice_->pods_of(wanted.number);
    const auto node = physical_->shape().ancestor(unit_level_, cell, physical_->node_level());
    if (!task_.allows(node) || !task_.allows(node, pods.size())) {
        return false;
    }
    std::uint64_t total = 0;
    for (const Demand& pod : pods) {
        total += pod.leaves;
    }
    const CellIndex room =
        unit_choice_.reach() == Reach::idle ? unit_choice_.idle_in(unit_level_, cell)
        : unit_choice_.victims() != nullptr ? unit_choice_.available_in(unit_level_, cell)
                                            : physical_->cell(unit_level_, cell).open;
    if (room < total) {
        return false;
    }
    if (!task_.constrained) {
        return true;
    }
    unit_choice_.look_into(leaves_, unit_level_, cell);
    chosen_.clear();
    return leaves_.take_all(pods, task_.group_within, *budget_, chosen_);
}

// Whether a physical cell could be bound to the virtual one and serve all units in it.
bool CellMapping::fits(int level, Units units, CellIndex cell) {
    if (serves_anything(level, cell)) {
        return true;
    }
    if (physical_->cell(level, cell).bad == physical_->shape().leaves[level]) {
        return false;
    }
    const auto [entry, fresh] = known_.try_emplace({level, units.front().unit, cell}, false);
    if (fresh) {
        entry->second = level == unit_level_
                            ? hosts(units.front(), cell)
                            : matches(level - 1, split(units, level), candidates(level, cell));
    }
    return entry->second;
}

// Whether each virtual cell of the level can have a physical one of its own (augmenting paths).
bool CellMapping::matches(int level, std::span<const Units> needed,
                          std::span<const CellIndex> cells) {
    if (needed.size() > cells.size()) {
        return false;
    }
    std::vector<int> owner(cells.size(), -1);
    // Breadth-first search for an augmenting path from each virtual cell.
    for (std::size_t root = 0; root < needed.size(); ++root) {
        std::vector<int> via(cells.size(), -1);  // the virtual cell from which it was reached
        std::vector<int> queue{static_cast<int>(root)};
        std::ptrdiff_t end = -1;
        for (std::size_t head = 0; head < queue.size() && end < 0; ++head) {
            const auto from = static_cast<std::size_t>(queue[head]);
            for (std::size_t i = 0; i < cells.size(); ++i) {
                if (via[i] >= 0 || !fits(level, needed[from], cells[i])) {
                    continue;
                }
                via[i] = queue[head];
                if (owner[i] < 0) {
                    end = static_cast<std::ptrdiff_t>(i);
                    break;
                }
                queue.push_back(owner[i]);
            }
        }
        if (end < 0) {
            return false;
        }
        for (int from = -1; from != static_cast<int>(root);) {
            const auto cell = static_cast<std::size_t>(end);
            from = via[cell];
            const auto held = std::find(owner.begin(), owner.end(), from);
            end = held - owner.begin();
            owner[cell] = from;
        }
    }
    return true;
}

// --- assigning them

bool CellMapping::assign_children(int level, Units units, CellIndex cell) {
    const std::vector<Units> needed = split(units, level);
    std::vector<CellIndex> cells = candidates(level, cell);
    const auto anything = std::count_if(cells.begin(), cells.end(), [&](CellIndex child) {
        return serves_anything(level - 1, child);
    });
    if (anything >= static_cast<std::ptrdiff_t>(needed.size())) {
        for (std::size_t i = 0; i < needed.size(); ++i) {
            assign(level - 1, needed[i], cells[i]);
        }
        return true;
    }
    if (!matches(level - 1, needed, cells)) {
        return false;
    }
    for (std::size_t i = 0; i < needed.size(); ++i) {
        const std::span<const Units> rest = std::span(needed).subspan(i + 1);
        for (std::size_t c = 0; c < cells.size(); ++c) {
            if (!fits(level - 1, needed[i], cells[c])) {
                continue;
            }
            std::vector<CellIndex> others = cells;
            others.erase(others.begin() + static_cast<std::ptrdiff_t>(c));
            if (matches(level - 1, rest, others)) {
                assign(level - 1, needed[i], cells[c]);
                cells = std::move(others);
                break;
            }
        }
    }
    return true;
}

// The cell is known to fit.
bool CellMapping::assign(int level, Units units, CellIndex cell) {
    if (level > unit_level_) {
        return assign_children(level, units, cell);
    }
    units.front().cell = cell;
    return true;
}

// The first cell at or below this one for a root, depth first; `sick`: it may have bad leaves.
CellIndex CellMapping::first_below(int level, CellIndex cell, int root_level, Units units,
                                   bool sick) {
    if (physical_->cell(level, cell).bad == physical_->shape().leaves[level]) {
        return kNoCell;
    }
    if (level == root_level) {
        return (sick || physical_->cell(level, cell).bad == 0) && fits(level, units, cell)
                   ? cell
                   : kNoCell;
    }
    for (const CellIndex child : candidates(level, cell)) {
        const CellIndex cell_inside = first_below(level - 1, child, root_level, units, sick);
        if (cell_inside != kNoCell) {
            return cell_inside;
        }
    }
    return kNoCell;
}

bool CellMapping::in_listed(int source, int root_level, Units units, bool sick, CellIndex& chosen) {
    const std::uint64_t many = physical_->shape().size[source];
    const auto try_cell = [&](std::uint64_t key) {
        chosen = first_below(source, static_cast<CellIndex>(key % many), root_level, units, sick);
        return chosen != kNoCell;
    };
    const IndexSet& clean = physical_->clean(source);
    const IndexSet& impaired = physical_->impaired(source);
    std::uint64_t next_clean = clean.first_from(0);
    if (sick) {  // by bad leaves, then load and index: the clean ones first
        for (; next_clean != IndexSet::kNone; next_clean = clean.first_from(next_clean + 1)) {
            if (try_cell(next_clean)) {
                return true;
            }
        }
        std::vector<Order> order;
        impaired.for_each([&](std::uint64_t key) {
            const auto cell = static_cast<CellIndex>(key % many);
            const PhysicalCells::Cell& counts = physical_->cell(source, cell);
            order.push_back({counts.bad, counts.load, cell});
        });
        std::sort(order.begin(), order.end());
        return std::any_of(order.begin(), order.end(),
                           [&](const Order& each) { return try_cell(each.cell); });
    }
    const bool mixed = source > root_level;  // an impaired cell may have wholly healthy ones inside
    std::uint64_t next_impaired = mixed ? impaired.first_from(0) : IndexSet::kNone;
    while (next_clean != IndexSet::kNone || next_impaired != IndexSet::kNone) {
        const bool healthy = next_clean < next_impaired;
        if (try_cell(healthy ? next_clean : next_impaired)) {
            return true;
        }
        if (healthy) {
            next_clean = clean.first_from(next_clean + 1);
        } else {
            next_impaired = impaired.first_from(next_impaired + 1);
        }
    }
    return false;
}

// A free cell for a root: wholly healthy if there is one, from the lowest level that has one.
bool CellMapping::assign_root(int level, Units units) {
    for (const bool sick : {false, true}) {
        for (int source = level; source < physical_->shape().levels; ++source) {
            if (source > level && !physical_->may_split(level, source)) {
                break;
            }
            CellIndex chosen = kNoCell;
            if (in_listed(source, level, units, sick, chosen)) {
                return assign(level, units, chosen);
            }
        }
    }
    return false;
}

}  // namespace hivecore::cells
