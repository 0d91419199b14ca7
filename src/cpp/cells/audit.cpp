// The full audit: everything that follows from the groups' lists, computed again and compared.
//
// The groups' lists, their flags and the health of the leaves are what is given. From them follow
// users, reservers and pairs; from the pairs the bindings; from the bindings and the pins the state
// of every physical cell; from all of these the counts, the free lists and the rankings.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cells/group_scheduler.hpp"

namespace hivecore::cells {

class GroupsAudit {
  public:
    explicit GroupsAudit(const Groups& groups)
        : groups_(groups), virtual_cells_(groups.virtual_cells()) {}

    std::string run() {
        std::string fault = owners();
        fault = fault.empty() ? slots() : fault;
        fault = fault.empty() ? bindings() : fault;
        return fault.empty() ? trees() : fault;
    }

  private:
    static std::string about(const char* what, std::int64_t number) {
        return std::string(what) + " " + std::to_string(number);
    }

    std::string owners() {
        std::vector<Handle> users(groups_.leaf_count(), kNoGroup);
        std::vector<Handle> reservers = users;
        pairs_.assign(groups_.leaf_count(), VirtualLeaf{-1, 0});
        for (const Handle handle : groups_.by_sequence()) {
            const Group& group = groups_.group(handle);
            if ((group.preempting && !group.guaranteed) ||
                (group.guaranteed && group.priority < 0)) {
                return about("group", handle) + " holds or lacks a right against its kind";
            }
            for (const Placed& placed : groups_.leaves(handle)) {
                Handle& owner = (group.preempting ? reservers : users)[placed.leaf];
                if (owner != kNoGroup) {
                    return about("leaf", placed.leaf) + " has two owners";
                }
                owner = handle;
            }
        }
        if (users != groups_.users_ || reservers != groups_.reservers_) {
            return "the users or reservers are not those of the groups";
        }
        std::vector<Handle> downgraded = groups_.downgraded_;
        groups_.sort_by_sequence(downgraded);
        std::vector<Handle> expected = groups_.by_sequence();
        std::erase_if(expected, [&](Handle handle) { return !groups_.is_downgraded(handle); });
        if (downgraded != expected || downgraded.size() != groups_.downgraded_.size()) {
            return "the downgraded groups are not those listed";
        }
        std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> held;
        for (const Handle handle : groups_.by_sequence()) {
            const Group& group = groups_.group(handle);
            for (const Placed& placed : groups_.leaves(handle)) {
                if (group.guaranteed && groups_.holder(placed.leaf) == handle) {
                    pairs_[placed.leaf] = placed.held;
                    ++held[{virtual_cells_.pool(placed.held.pool).instance, group.priority}];
                    if (virtual_cells_.pool(placed.held.pool).vc != group.vc) {
                        return about("group", handle) + " holds a cell of another tenant";
                    }
                }
            }
        }
        for (const Handle handle : groups_.by_sequence()) {
            for (const Placed& placed : groups_.leaves(handle)) {
                if (groups_.group(handle).guaranteed && pairs_[placed.leaf] != placed.held) {
                    return about("leaf", placed.leaf) + " is reserved by another virtual leaf";
                }
            }
        }
        for (std::int32_t instance = 0; instance < virtual_cells_.instances(); ++instance) {
            for (const auto& [priority, count] :
                 groups_.held_[static_cast<std::size_t>(instance)]) {
                const auto entry = held.find({instance, priority});
                if (entry == held.end() || entry->second != count) {
                    return "the virtual leaves held per priority are miscounted";
                }
                held.erase(entry);
            }
        }
        return held.empty() ? "" : "virtual leaves held at a priority are not counted";
    }

    std::string slots() const {
        std::vector<Handle> all = groups_.by_sequence();
        all.insert(all.end(), groups_.free_slots_.begin(), groups_.free_slots_.end());
        std::sort(all.begin(), all.end());
        bool exact = all.size() == groups_.groups_.size();
        for (std::size_t slot = 0; exact && slot < all.size(); ++slot) {
            exact = all[slot] == static_cast<Handle>(slot);
        }
        return exact ? "" : "the slots are not those live and free";
    }

    std::string bindings() {
        partners_.resize(static_cast<std::size_t>(virtual_cells_.chains()));
        for (std::int32_t chain = 0; chain < virtual_cells_.chains(); ++chain) {
            const Shape& shape = virtual_cells_.physical(chain).shape();
            for (int level = 0; level < shape.levels; ++level) {
                partners_[static_cast<std::size_t>(chain)].emplace_back(shape.size[level],
                                                                        VirtualLeaf{-1, kNoCell});
            }
        }
        std::vector<std::vector<std::vector<VirtualCells::Cell>>> cells;
        for (std::int32_t id = 0; id < virtual_cells_.size(); ++id) {
            const VirtualCells::Pool& pool = virtual_cells_.pool(id);
            auto& levels = cells.emplace_back();
            for (int level = 0; level <= pool.level; ++level) {
                levels.emplace_back(virtual_cells_.cells(id, level));
            }
            if (pool.pinned()) {
                const auto where = static_cast<CellIndex>(pool.pinned_cell);
                levels.back()[0].partner = where;
                partner(pool.chain, pool.level, where) = {id, 0};
            }
        }
        for (std::uint32_t leaf = 0; leaf < groups_.leaf_count(); ++leaf) {
            const auto [id, virtual_leaf] = pairs_[leaf];
            if (id < 0) {
                continue;
            }
            const std::int32_t chain = groups_.chain_of(leaf);
            const Shape& shape = virtual_cells_.shape(id);
            for (int level = 0; level <= virtual_cells_.pool(id).level; ++level) {
                const CellIndex index = shape.ancestor(0, virtual_leaf, level);
                const CellIndex physical =
                    shape.ancestor(0, leaf - groups_.first_leaf(chain), level);
                VirtualCells::Cell& cell =
                    cells[static_cast<std::size_t>(id)][static_cast<std::size_t>(level)][index];
                VirtualLeaf& other = partner(chain, level, physical);
                if (virtual_cells_.pool(id).chain != chain ||
                    (cell.partner != kNoCell && cell.partner != physical) ||
                    (other.pool >= 0 && other != VirtualLeaf{id, index})) {
                    return about("leaf", leaf) + " is bound against its ancestors";
                }
                cell.partner = physical;
                ++cell.used;
                other = {id, index};
            }
        }
        for (std::int32_t id = 0; id < virtual_cells_.size(); ++id) {
            const std::string fault = pool_holds(id, cells[static_cast<std::size_t>(id)]);
            if (!fault.empty()) {
                return about("pool", id) + ": " + fault;
            }
        }
        return "";
    }

    std::string pool_holds(std::int32_t id,
                           const std::vector<std::vector<VirtualCells::Cell>>& cells) {
        const VirtualCells::Pool& pool = virtual_cells_.pool(id);
        const PhysicalCells& physical = virtual_cells_.physical(pool.chain);
        std::uint64_t total = 0;
        std::vector<std::uint64_t> below;  // what is available, one level down
        for (int level = 0; level <= pool.level; ++level) {
            const auto& row = cells[static_cast<std::size_t>(level)];
            const CellIndex leaves = physical.shape().leaves[level];
            std::vector<std::uint64_t> available(row.size());
            for (CellIndex index = 0; index < row.size(); ++index) {
                const VirtualCells::Cell& cell = row[index];
                const VirtualCells::Cell& stored = virtual_cells_.cell(id, level, index);
                if (stored.partner != cell.partner || stored.used != cell.used) {
                    return "a binding or count is not that of the pairs";
                }
                if (level < pool.unit_level) {
                    continue;
                }
                if (level == pool.unit_level) {
                    available[index] = leaves;
                    if (cell.partner != kNoCell) {
                        available[index] = 0;
                        for (CellIndex leaf = cell.partner * leaves;
                             leaf < (cell.partner + 1) * leaves; ++leaf) {
                            available[index] +=
                                physical.healthy(leaf) &&
                                pairs_[groups_.first_leaf(pool.chain) + leaf].pool < 0;
                        }
                    }
                    total += available[index];
                } else {
                    const CellIndex fanout = physical.shape().fanout[level - 1];
                    for (CellIndex child = index * fanout; child < (index + 1) * fanout; ++child) {
                        available[index] += below[child];
                    }
                }
                const RankedCells& ranked = virtual_cells_.ranked(id, level);
                if (!filed(ranked, index, leaves - cell.used, available[index],
                           leaves - cell.used)) {
                    return "a cell is not ranked where it belongs";
                }
            }
            if (level >= pool.unit_level && !exact(virtual_cells_.ranked(id, level), available)) {
                return "a ranking has more cells than it should";
            }
            below = std::move(available);
        }
        if (pool.available != total) {
            return "what is available is miscounted";
        }
        std::vector<CellIndex> units_with(pool.units_with.size(), 0);
        for (const VirtualCells::Cell& unit : cells[static_cast<std::size_t>(pool.unit_level)]) {
            ++units_with[unit.used];
        }
        if (pool.units_with != units_with) {
            return "units are not counted by the leaves in use";
        }
        std::int64_t unbound = 0;
        for (CellIndex root = 0; root < static_cast<CellIndex>(pool.count); ++root) {
            const bool is_free = cells.back()[root].partner == kNoCell;
            unbound += is_free;
            if (pool.free_roots.contains(root) != is_free) {
                return "the unbound roots are not those listed";
            }
        }
        owed_[{pool.chain, pool.level}] += unbound;
        return pool.free_roots.size() == unbound && pool.free_roots.summaries_hold()
                   ? ""
                   : "the unbound roots are not those listed";
    }

    static bool filed(const RankedCells& ranked, CellIndex index, CellIndex row,
                      std::uint64_t available, CellIndex full) {
        const bool listed = available != 0;
        return ranked.available(index) == available &&
               (!listed ||
                (ranked.row(index) == row &&
                 ranked.order().contains(std::uint64_t{row} * ranked.cells() + index))) &&
               ranked.is_short(index) == (listed && available < full);
    }

    static bool exact(const RankedCells& ranked, const std::vector<std::uint64_t>& available) {
        const auto listed = std::count_if(available.begin(), available.end(),
                                          [](std::uint64_t leaves) { return leaves != 0; });
        return ranked.order().size() == listed && ranked.order().summaries_hold() &&
               ranked.short_cells().summaries_hold();
    }

    VirtualLeaf& partner(std::int32_t chain, int level, CellIndex index) {
        return partners_[static_cast<std::size_t>(chain)][static_cast<std::size_t>(level)][index];
    }

    std::string trees() {
        for (std::int32_t chain = 0; chain < virtual_cells_.chains(); ++chain) {
            const std::string fault = tree_holds(chain);
            if (!fault.empty()) {
                return about("chain", chain) + ": " + fault;
            }
        }
        return "";
    }

    std::string tree_holds(std::int32_t chain) {
        const PhysicalCells& physical = virtual_cells_.physical(chain);
        const Shape& shape = physical.shape();
        for (CellIndex leaf = 0; leaf < shape.size[0]; ++leaf) {
            const std::uint32_t number = groups_.first_leaf(chain) + leaf;
            const Holding expected = pairs_[number].pool >= 0             ? Holding::virtually
                                     : groups_.holder(number) != kNoGroup ? Holding::opportunistic
                                                                          : Holding::none;
            if (physical.holding(leaf) != expected) {
                return about("leaf", leaf) + " is held otherwise than its holder says";
            }
        }
        // From the top down: what each cell is, by whether there are roots at, below or above it.
        std::vector<std::vector<CellIndex>> roots(static_cast<std::size_t>(shape.levels));
        for (int level = 0; level < shape.levels; ++level) {
            auto& row = roots[static_cast<std::size_t>(level)];
            row.assign(shape.size[level], 0);
            for (CellIndex index = 0; index < shape.size[level]; ++index) {
                const std::int32_t pool = partner(chain, level, index).pool;
                row[index] = pool >= 0 && virtual_cells_.pool(pool).level == level;
                for (CellIndex child = 0; level > 0 && child < shape.fanout[level - 1]; ++child) {
                    row[index] += roots[static_cast<std::size_t>(level) - 1]
                                       [shape.first_child(level, index) + child];
                }
            }
        }
        std::vector<std::vector<CellState>> states(static_cast<std::size_t>(shape.levels));
        for (int level = shape.levels; level-- > 0;) {
            auto& row = states[static_cast<std::size_t>(level)];
            for (CellIndex index = 0; index < shape.size[level]; ++index) {
                const VirtualLeaf& mine = partner(chain, level, index);
                const CellState above =
                    level == shape.top()
                        ? CellState::split
                        : states[static_cast<std::size_t>(level) + 1][shape.parent(level, index)];
                CellState state = CellState::inside;
                if (mine.pool >= 0) {
                    state = virtual_cells_.pool(mine.pool).level == level ? CellState::root
                                                                          : CellState::bound;
                    if ((state == CellState::root) != (above == CellState::split)) {
                        return "a root is inside another";
                    }
                } else if (above == CellState::split) {
                    state = roots[static_cast<std::size_t>(level)][index] != 0 ? CellState::split
                                                                               : CellState::listed;
                }
                row.push_back(state);
            }
        }
        for (int level = 0; level < shape.levels; ++level) {
            const std::string fault =
                level_holds(chain, level, states[static_cast<std::size_t>(level)]);
            if (!fault.empty()) {
                return about("level", level) + ": " + fault;
            }
        }
        const auto spare = physical.surplus();
        for (int level = 0; level < shape.levels; ++level) {
            if (spare[static_cast<std::size_t>(level)] < 0) {
                return about("level", level) + " cannot serve all that is owned";
            }
        }
        return "";
    }

    std::string level_holds(std::int32_t chain, int level, const std::vector<CellState>& states) {
        const PhysicalCells& physical = virtual_cells_.physical(chain);
        const Shape& shape = physical.shape();
        const CellIndex leaves = shape.leaves[level];
        std::int64_t clean = 0;
        std::int64_t impaired = 0;
        std::uint64_t idle_total = 0;
        std::vector<std::uint64_t> idle_row(shape.size[level]);
        for (CellIndex index = 0; index < shape.size[level]; ++index) {
            PhysicalCells::Cell sum;
            CellIndex held = 0;
            CellIndex idle = 0;
            for (CellIndex leaf = index * leaves; leaf < (index + 1) * leaves; ++leaf) {
                const Holding holding = physical.holding(leaf);
                const bool healthy = physical.healthy(leaf);
                sum.load += holding == Holding::opportunistic;
                sum.bad += !healthy;
                sum.open += healthy && holding != Holding::virtually;
                held += holding == Holding::virtually;
                idle += healthy && holding == Holding::none;
            }
            const PhysicalCells::Cell& cell = physical.cell(level, index);
            const VirtualLeaf& mine = partner(chain, level, index);
            if (cell.load != sum.load || cell.bad != sum.bad ||
                (level <= physical.node_level() && cell.open != sum.open)) {
                return about("cell", index) + " is miscounted";
            }
            if (cell.pool != mine.pool || cell.partner != mine.leaf) {
                return about("cell", index) + " is bound to another cell than its leaves";
            }
            if (physical.state(level, index) != states[index]) {
                return about("cell", index) + " is in a state that its bindings do not give it";
            }
            const std::uint64_t key = std::uint64_t{sum.load} * shape.size[level] + index;
            const bool listed = states[index] == CellState::listed;
            clean += listed && sum.bad == 0;
            impaired += listed && sum.bad != 0;
            if (physical.clean(level).contains(key) != (listed && sum.bad == 0) ||
                physical.impaired(level).contains(key) != (listed && sum.bad != 0)) {
                return about("cell", index) + " is not where it belongs in the free lists";
            }
            idle_total += idle;
            if (level < physical.node_level()) {
                continue;
            }
            idle_row[index] = idle;
            const RankedCells& ranked = physical.ranked(level);
            const CellIndex place = physical.mirrored(level, index);
            const CellIndex rest = leaves - sum.load;
            const bool is_node = level == physical.node_level();
            const CellIndex row =
                is_node ? rest * (rest + 1) / 2 + held
                        : nearness(physical, level, index, held) * (leaves + 1) + rest;
            if (physical.held(level, index) != held || ranked.available(place) != idle ||
                ((!is_node || physical.ranks_nodes()) &&
                 !filed(ranked, place, row, idle, is_node ? rest - held : 0))) {
                return about("cell", index) + " is not ranked where it belongs";
            }
            if (level == physical.node_level() &&
                (physical.node(index).held != held || physical.node(index).idle != idle)) {
                return about("node", index) + " is miscounted";
            }
        }
        const int node = physical.node_level();
        if ((level > node || (level == node && physical.ranks_nodes())) &&
            !exact(physical.ranked(level), idle_row)) {
            return "the ranking has more cells than it should";
        }
        if (physical.clean(level).size() != clean || physical.impaired(level).size() != impaired ||
            physical.listed_count(level) != clean + impaired ||
            !physical.clean(level).summaries_hold() || !physical.impaired(level).summaries_hold()) {
            return "the free lists have more cells than they should";
        }
        if (physical.idle_total() != idle_total || physical.owed(level) != owed_[{chain, level}]) {
            return "idle leaves or owed cells are miscounted";
        }
        return "";
    }

    static CellIndex nearness(const PhysicalCells& physical, int level, CellIndex index,
                              CellIndex held) {
        return promised(physical, level, index, held) * 5 + taken_around(physical, level, index);
    }

    // Quarters of the root around that are not idle.
    static CellIndex taken_around(const PhysicalCells& physical, int level, CellIndex index) {
        const Shape& shape = physical.shape();
        for (int above = level; above < shape.levels; ++above) {
            const CellIndex root = shape.ancestor(level, index, above);
            if (physical.state(above, root) == CellState::root) {
                const std::uint64_t leaves = shape.leaves[above];
                std::uint64_t idle = 0;
                for (std::uint64_t leaf = root * leaves; leaf < (root + 1) * leaves; ++leaf) {
                    const auto at = static_cast<CellIndex>(leaf);
                    idle += physical.healthy(at) && physical.holding(at) == Holding::none;
                }
                return static_cast<CellIndex>(4 - 4 * idle / leaves);
            }
        }
        return 0;
    }

    static CellIndex promised(const PhysicalCells& physical, int level, CellIndex index,
                              CellIndex held) {
        if (held != 0) {
            return 2;
        }
        for (; level <= physical.shape().top();
             index = physical.shape().parent(level, index), ++level) {
            if (physical.state(level, index) == CellState::listed) {
                return 0;
            }
            if (level == physical.shape().top()) {
                break;
            }
        }
        return 1;
    }

    const Groups& groups_;
    const VirtualCells& virtual_cells_;
    std::vector<VirtualLeaf> pairs_;  // per leaf; pool -1: none
    std::vector<std::vector<std::vector<VirtualLeaf>>> partners_;
    std::map<std::pair<std::int32_t, int>, std::int64_t> owed_;
};

std::string GroupScheduler::audit() const {
    return GroupsAudit(groups_).run();
}

}  // namespace hivecore::cells
