#include "cells/planning/unit_choice.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "cells/planning/foresight.hpp"

namespace hivecore::cells {

namespace {

constexpr std::uint64_t kManyUnits = 16;
constexpr CellIndex kManyGaps = 3;

}  // namespace

void UnitChoice::start(const Task& task, Reach reach, bool may_rank,
                       const std::vector<Handle>* victims, const Foresight* foresight) {
    task_ = task;
    reach_ = reach;
    victims_ = victims;
    foresight_ = foresight;
    physical_ = &groups_.virtual_cells().physical(task.chain);
    ranked_ = may_rank && foresight == nullptr && reach != Reach::guaranteed &&
              (task.instance >= 0 || physical_->ranks_nodes());
    as_filed_ =
        ranked_ && task.suggested.empty() && (task.instance < 0 || reach == Reach::opportunistic);
    if (reach == Reach::guaranteed) {
        count_lower();
    }
    spared_.clear();
    if (task.instance >= 0 && task.pods.size() == 1 && !task.spread) {
        const auto& pools = groups_.virtual_cells().instance(task.instance).pools;
        std::copy_if(pools.begin(), pools.end(), std::back_inserter(spared_),
                     [&](std::int32_t pool) { return spares(pool); });
    }
    if (!ranked_) {
        list_units();
    }
}

// --- units

int UnitChoice::unit_level(std::int32_t pool) const {
    return pool < 0 ? physical_->node_level() : groups_.virtual_cells().pool(pool).unit_level;
}

CellIndex UnitChoice::width(std::int32_t pool) const {
    return physical_->shape().leaves[unit_level(pool)];
}

std::uint8_t UnitChoice::leaf_class(CellIndex leaf) const {
    if (!physical_->healthy(leaf)) {
        return LeafChoice::kTaken;
    }
    if (victims_ != nullptr) {
        const Handle user = groups_.user(groups_.first_leaf(task_.chain) + leaf);
        if (user != kNoGroup && !std::binary_search(victims_->begin(), victims_->end(), user)) {
            return LeafChoice::kTaken;
        }
    }
    switch (physical_->holding(leaf)) {
        case Holding::none:
            return 0;
        case Holding::opportunistic:
            return reach_ == Reach::idle ? LeafChoice::kTaken : 1;
        case Holding::virtually:
            break;
    }
    if (reach_ != Reach::guaranteed || (!planned_.empty() && planned_[leaf])) {
        return LeafChoice::kTaken;
    }
    const Handle holder = groups_.holder(groups_.first_leaf(task_.chain) + leaf);
    return groups_.group(holder).priority < task_.priority ? 2 : LeafChoice::kTaken;
}

CellIndex UnitChoice::idle_in(int level, CellIndex cell) const {
    if (level == physical_->node_level()) {
        return physical_->node(cell).idle;
    }
    const CellIndex open = physical_->cell(level, cell).open;
    if (physical_->cell(level, cell).load == 0) {
        return open;
    }
    CellIndex idle = 0;
    const CellIndex wide = physical_->shape().leaves[level];
    for (CellIndex leaf = cell * wide; leaf < (cell + 1) * wide; ++leaf) {
        idle += physical_->healthy(leaf) && physical_->holding(leaf) == Holding::none;
    }
    return idle;
}

CellIndex UnitChoice::available_in(int level, CellIndex cell) const {
    if (reach_ == Reach::idle) {
        return idle_in(level, cell);
    }
    const bool has_no_victims = victims_ == nullptr || physical_->cell(level, cell).load == 0;
    if (reach_ == Reach::opportunistic && has_no_victims) {
        return physical_->cell(level, cell).open;
    }
    CellIndex available = 0;
    const CellIndex wide = physical_->shape().leaves[level];
    for (CellIndex leaf = cell * wide; leaf < (cell + 1) * wide; ++leaf) {
        available += leaf_class(leaf) != LeafChoice::kTaken;
    }
    return available;
}

// Counts the leaves that groups of lower priority hold.
void UnitChoice::count_lower() {
    const VirtualCells& virtual_cells = groups_.virtual_cells();
    const Shape& shape = physical_->shape();
    const std::uint32_t first = groups_.first_leaf(task_.chain);
    lower_.resize(static_cast<std::size_t>(virtual_cells.size()));
    for (const std::int32_t pool : virtual_cells.instance(task_.instance).pools) {
        auto& levels = lower_[static_cast<std::size_t>(pool)];
        const int unit = unit_level(pool);
        levels.resize(static_cast<std::size_t>(virtual_cells.pool(pool).level - unit) + 1);
        for (std::size_t up = 0; up < levels.size(); ++up) {
            levels[up].assign(virtual_cells.cells(pool, unit + static_cast<int>(up)), 0);
        }
        for (CellIndex index = 0; index < levels[0].size(); ++index) {
            const VirtualCells::Cell& cell = virtual_cells.cell(pool, unit, index);
            if (cell.used == 0) {
                continue;
            }
            const CellIndex begin = cell.partner * width(pool);
            for (CellIndex leaf = begin; leaf < begin + width(pool); ++leaf) {
                levels[0][index] +=
                    physical_->holding(leaf) == Holding::virtually &&
                    groups_.group(groups_.holder(first + leaf)).priority < task_.priority;
            }
            CellIndex above = index;
            for (std::size_t up = 1; up < levels.size(); ++up) {
                above = shape.parent(unit + static_cast<int>(up) - 1, above);
                levels[up][above] += levels[0][index];
            }
        }
    }
}

CellIndex UnitChoice::lower(std::int32_t pool, int level, CellIndex index) const {
    return reach_ != Reach::guaranteed
               ? 0
               : lower_[static_cast<std::size_t>(pool)]
                       [static_cast<std::size_t>(level - unit_level(pool))][index];
}

CellIndex UnitChoice::used(std::int32_t pool, int level, CellIndex index) const {
    return groups_.virtual_cells().cell(pool, level, index).used - lower(pool, level, index);
}

// Leaves in use in the virtual cell of the next level around a virtual node.
CellIndex UnitChoice::used_around(std::int32_t pool, CellIndex index) const {
    const int level = unit_level(pool);
    if (level < physical_->node_level() || level == groups_.virtual_cells().pool(pool).level) {
        return 0;
    }
    return used(pool, level + 1, physical_->shape().parent(level, index));
}

Unit UnitChoice::unit_at(std::int32_t pool, CellIndex index) const {
    Unit unit{pool, index, index, 0, 0, 0, 0};
    if (pool < 0) {
        unit.used = physical_->cell(physical_->node_level(), index).load;
        unit.held = physical_->node(index).held;
    } else {
        const VirtualCells::Cell& cell =
            groups_.virtual_cells().cell(pool, unit_level(pool), index);
        unit.cell = cell.partner;
        unit.used = used(pool, unit_level(pool), index);
        unit.held = lower(pool, unit_level(pool), index);
        unit.around = unit.used == 0 ? used_around(pool, index) : 0;
    }
    if (unit.cell == kNoCell && foresight_ != nullptr) {
        unit.cell = foresight_->cell(pool, index);
        unit.available = unit.cell == kNoCell ? 0 : available_in(unit_level(pool), unit.cell);
    } else {
        unit.available =
            unit.cell == kNoCell ? width(pool) : available_in(unit_level(pool), unit.cell);
    }
    return unit;
}

bool UnitChoice::unit_suggested(const Unit& unit) const {
    if (task_.suggested.empty() || unit.cell == kNoCell) {
        return true;
    }
    return task_.allows(
        physical_->shape().ancestor(unit_level(unit.pool), unit.cell, physical_->node_level()));
}

CellIndex UnitChoice::packing(std::int32_t pool, CellIndex units, CellIndex used) const {
    return task_.spread ? used : slack(units * width(pool), used);
}

// Whether a single pod goes into larger idle units rather than into idle ones of this pool: of
// these there are many, three units in use have the gap that it would leave, and the larger units
// have not been used up faster, by more than chance explains. So gaps do not pile up, and no size
// runs out long before the others.
bool UnitChoice::spares(std::int32_t pool) const {
    const VirtualCells& virtual_cells = groups_.virtual_cells();
    const std::uint64_t all = virtual_cells.cells(pool, unit_level(pool));
    if (all < kManyUnits || task_.total >= width(pool)) {
        return false;
    }
    const auto gap = width(pool) - static_cast<CellIndex>(task_.total);
    CellIndex gaps = 0;
    std::uint64_t larger = 0;
    std::uint64_t idle_larger = 0;
    for (const std::int32_t other : virtual_cells.instance(task_.instance).pools) {
        const std::vector<CellIndex>& units_with = virtual_cells.pool(other).units_with;
        gaps += gap < width(other) ? units_with[width(other) - gap] : 0;
        if (width(other) > width(pool)) {
            larger += virtual_cells.cells(other, unit_level(other));
            idle_larger += units_with[0];
        }
    }
    const std::uint64_t idle = virtual_cells.pool(pool).units_with[0];
    const auto chance = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(all)));
    return gaps >= kManyGaps && idle_larger * all + chance * larger > idle * larger;
}

bool UnitChoice::prefers(const Unit& a, const Unit& b) const {
    const auto left = packing(a.pool, 1, a.used) <=> packing(b.pool, 1, b.used);
    if (left != 0) {
        return left < 0;
    }
    if (a.used != b.used) {
        return a.used > b.used;
    }
    if (a.held != b.held) {
        return a.held < b.held;
    }
    if (a.pool < 0) {
        return a.index > b.index;
    }
    if (a.used == 0 && is_spared(a.pool) != is_spared(b.pool)) {
        return is_spared(b.pool);
    }
    if (a.pool == b.pool && a.around != b.around && !task_.spread) {
        return a.around > b.around;
    }
    return std::tie(a.pool, a.index) < std::tie(b.pool, b.index);
}

// Visits the units with something available, in no order of preference.
template <class Visit>
void UnitChoice::for_units(Visit visit) const {
    const auto in_pool = [&](std::int32_t pool, CellIndex many) {
        for (CellIndex index = 0; index < many; ++index) {
            const Unit unit = unit_at(pool, index);
            if (unit.available != 0 && unit_suggested(unit)) {
                visit(unit);
            }
        }
    };
    if (task_.instance < 0) {
        in_pool(-1, physical_->shape().size[physical_->node_level()]);
        return;
    }
    for (const std::int32_t pool : groups_.virtual_cells().instance(task_.instance).pools) {
        in_pool(pool, groups_.virtual_cells().cells(pool, unit_level(pool)));
    }
}

void UnitChoice::list_units() {
    units_.clear();
    for_units([&](const Unit& unit) { units_.push_back(unit); });
    std::sort(units_.begin(), units_.end(),
              [&](const Unit& a, const Unit& b) { return prefers(a, b); });
}

std::uint64_t UnitChoice::available() const {
    std::uint64_t total = 0;
    if (!as_filed_) {
        for_units([&](const Unit& unit) { total += unit.available; });
    } else if (task_.instance < 0) {
        total = physical_->idle_total();
    } else {
        for (const std::int32_t pool : groups_.virtual_cells().instance(task_.instance).pools) {
            total += groups_.virtual_cells().pool(pool).available;
        }
    }
    return total;
}

// The same for a domain that is not the whole.
std::uint64_t UnitChoice::room(const Domain& domain) const {
    std::uint64_t total = 0;
    for (CellIndex index = domain.begin; index < domain.end; ++index) {
        const Unit unit = unit_at(domain.pool, index);
        total += unit_suggested(unit) ? unit.available : 0;
    }
    return total;
}

std::uint64_t UnitChoice::alike(std::int32_t pool, int level, CellIndex index) const {
    const VirtualCells& virtual_cells = groups_.virtual_cells();
    const auto number = [&](CellIndex cell) {
        return static_cast<std::uint64_t>(pool) << 40 | static_cast<std::uint64_t>(level) << 33 |
               cell;
    };
    while (!virtual_cells.is_bound(pool, level, index)) {
        if (level == virtual_cells.pool(pool).level) {
            return number(0) | std::uint64_t{1} << 32;
        }
        index /= physical_->shape().fanout[level];
        ++level;
    }
    return number(index);
}

// --- domains

void UnitChoice::start_domains() {
    domains_.clear();
    domain_position_ = 0;
    const int node = physical_->node_level();
    const int top = physical_->shape().top();
    const bool whole = task_.group_within < 0;
    const bool single = task_.pods.size() == 1;
    const bool in_rack = single && task_.instance < 0 && node < top;  // wherever it is
    whole_left_ = whole && !in_rack;
    domain_level_ = node;
    last_level_ = node;
    lower_roots_ = !whole;
    if (!whole) {
        domain_level_ = std::max(task_.group_within, node) - 1;
        last_level_ = domain_level_ + 1;
    } else if (!single && task_.units.empty()) {
        last_level_ = top;
    } else if (in_rack) {
        last_level_ = node + 1;
    }
    walking_domains_ = false;
}

bool UnitChoice::next_domain(Domain& domain) {
    for (;;) {
        if (walking_domains_) {
            const auto total = static_cast<CellIndex>(task_.total);
            const bool cells = task_.instance < 0 && domain_level_ > physical_->node_level();
            RankedWalk::Visit visit;
            while (cells ? physical_walk_.next(total, visit.index)
                         : domain_walk_.next(total, visit)) {
                domain = domain_of(visit.pool, domain_level_, visit.index);
                if (as_filed_ || room(domain) >= task_.total) {
                    return true;
                }
            }
            walking_domains_ = false;
        }
        if (domain_position_ < domains_.size()) {
            domain = domains_[domain_position_++];
            return true;
        }
        if (domain_level_ == last_level_) {
            domain = Domain{};
            return std::exchange(whole_left_, false);
        }
        ++domain_level_;
        if (ranked_) {
            walk_domains();
        } else {
            list_domains();
        }
    }
}

// The domain that a cell is: of the level, or of the level of its pool's roots if that is lower.
Domain UnitChoice::domain_of(std::int32_t pool, int level, CellIndex cell) const {
    Domain domain;
    const Shape& shape = physical_->shape();
    if (pool >= 0) {
        level = std::min<int>(level, groups_.virtual_cells().pool(pool).level);
        domain.used = used(pool, level, cell);
    } else {
        domain.used = physical_->cell(level, cell).load;
        if (level == physical_->node_level()) {
            domain.held = physical_->held(level, cell);
        } else {
            domain.nearness = physical_->nearness(level, cell);
        }
    }
    const CellIndex many = shape.leaves[level] / width(pool);
    domain.whole = false;
    domain.pool = pool;
    domain.cell = cell;
    domain.begin = cell * many;
    domain.end = domain.begin + many;
    return domain;
}

void UnitChoice::walk_domains() {
    walking_domains_ = true;
    domain_walk_.start(task_.spread);
    if (task_.instance < 0) {
        const RankedCells& cells = physical_->ranked(domain_level_);
        const CellIndex leaves = physical_->shape().leaves[domain_level_];
        if (domain_level_ == physical_->node_level()) {
            domain_walk_.add_nodes(cells, leaves, 0, cells.cells());
        } else {
            physical_walk_.start(cells, leaves, task_.spread);
        }
        return;
    }
    const VirtualCells& virtual_cells = groups_.virtual_cells();
    for (const std::int32_t pool : virtual_cells.instance(task_.instance).pools) {
        const int level = std::min<int>(domain_level_, virtual_cells.pool(pool).level);
        if (level == domain_level_ || lower_roots_) {
            const RankedCells& cells = virtual_cells.ranked(pool, level);
            domain_walk_.add_cells(cells, pool, physical_->shape().leaves[level], 0, cells.cells(),
                                   nullptr, 1);
        }
    }
}

void UnitChoice::list_domains() {
    domains_.clear();
    domain_position_ = 0;
    const Shape& shape = physical_->shape();
    std::map<std::pair<std::int32_t, CellIndex>, std::uint64_t> rooms;
    for (const Unit& unit : units_) {
        const int root =
            unit.pool < 0 ? shape.top() : int{groups_.virtual_cells().pool(unit.pool).level};
        if (root >= domain_level_ || lower_roots_) {
            const CellIndex many = shape.leaves[std::min(domain_level_, root)] / width(unit.pool);
            rooms[{unit.pool, unit.index / many}] += unit.available;
        }
    }
    for (const auto& [cell, room] : rooms) {
        if (room >= task_.total) {
            domains_.push_back(domain_of(cell.first, domain_level_, cell.second));
        }
    }
    std::sort(domains_.begin(), domains_.end(), [&](const Domain& a, const Domain& b) {
        if (a.nearness != b.nearness) {
            return a.nearness < b.nearness;
        }
        const auto left =
            packing(a.pool, a.end - a.begin, a.used) <=> packing(b.pool, b.end - b.begin, b.used);
        if (left != 0) {
            return left < 0;
        }
        if (a.used != b.used) {
            return a.used > b.used;
        }
        if (a.pool < 0) {
            return std::tie(a.held, b.cell) < std::tie(b.held, a.cell);
        }
        return std::tie(a.pool, a.cell) < std::tie(b.pool, b.cell);
    });
}

// --- walking a domain

void UnitChoice::enter(const Domain& domain) {
    walked_ = domain;
    position_ = 0;
    if (!ranked_) {
        return;
    }
    walk_.start(task_.spread);
    if (task_.instance < 0) {
        const RankedCells& nodes = physical_->ranked(physical_->node_level());
        walk_.add_nodes(nodes, width(-1), domain.whole ? 0 : domain.begin,
                        domain.whole ? nodes.cells() : domain.end);
        return;
    }
    const VirtualCells& virtual_cells = groups_.virtual_cells();
    for (const std::int32_t pool : virtual_cells.instance(task_.instance).pools) {
        const RankedCells& units = virtual_cells.ranked(pool, unit_level(pool));
        const int level = unit_level(pool);
        const bool has_racks = level == physical_->node_level() &&
                               virtual_cells.pool(pool).level > level && !task_.spread;
        const RankedCells* racks = has_racks ? &virtual_cells.ranked(pool, level + 1) : nullptr;
        const CellIndex fanout = has_racks ? physical_->shape().fanout[level] : 1;
        if (domain.whole) {
            walk_.add_cells(units, pool, width(pool), 0, units.cells(), racks, fanout,
                            is_spared(pool));
        } else if (domain.pool == pool) {
            walk_.add_cells(units, pool, width(pool), domain.begin, domain.end,
                            domain.end - domain.begin > fanout ? racks : nullptr, fanout);
        }
    }
}

// The next unit of the domain with at least so many leaves available.
bool UnitChoice::visit(CellIndex least, Unit& unit) {
    if (!ranked_) {
        while (position_ < units_.size()) {
            const Unit& next = units_[position_++];
            if (next.available >= least && walked_.contains(next)) {
                unit = next;
                return true;
            }
        }
        return false;
    }
    RankedWalk::Visit visited;
    while (walk_.next(least, visited)) {
        if (as_filed_) {
            unit = {visited.pool,
                    visited.index,
                    visited.index,
                    visited.available,
                    visited.used,
                    visited.held,
                    0};
            if (visited.pool >= 0) {
                unit.cell = groups_.virtual_cells()
                                .cell(visited.pool, unit_level(visited.pool), visited.index)
                                .partner;
                unit.around = visited.used == 0 ? used_around(visited.pool, visited.index) : 0;
            }
            return true;
        }
        unit = unit_at(visited.pool, visited.index);
        if (unit.available >= least && unit_suggested(unit)) {
            return true;
        }
    }
    return false;
}

void UnitChoice::start_takers() {
    enter(Domain{});
    chosen_.clear();
    given_.clear();
    unit_of_.clear();
}

bool UnitChoice::next_taker(Unit& unit) {
    const Demand& pod = task_.pods.front();
    while (visit(pod.leaves, unit)) {
        if (takes(unit, -1, pod)) {
            return true;
        }
    }
    return false;
}

void UnitChoice::choose_one(const Unit& unit, Choice& choice) const {
    choice.at = kNoCell;
    choice.units.assign(1, unit);
    choice.pods.assign(task_.pods.begin(), task_.pods.end());
    choice.begin.assign({0, static_cast<std::uint32_t>(task_.pods.size())});
}

}  // namespace hivecore::cells
