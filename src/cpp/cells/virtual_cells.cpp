#include "cells/virtual_cells.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace hivecore::cells {

VirtualCells::VirtualCells(std::span<const ChainSpec> chains, std::int32_t tenants,
                           std::span<const PoolSpec> pools)
    : tenants_(tenants) {
    physical_.reserve(chains.size());
    for (const ChainSpec& chain : chains) {
        physical_.emplace_back(chain.shape, chain.node_level);
    }
    instances_.resize(static_cast<std::size_t>(tenants) * chains.size());
    std::uint64_t cells = 0;
    for (const PoolSpec& spec : pools) {
        add_pool(spec, cells);
    }
    check_room();  // before anything is allocated by owned cell
    cells_.resize(cells);
    unit_stale_.resize(cells);
    for (std::int32_t id = 0; id < size(); ++id) {
        Pool& pool = pools_[static_cast<std::size_t>(id)];
        const Shape& s = shape(id);
        const auto roots = static_cast<CellIndex>(pool.count);
        pool.free_roots = IndexSet(std::uint64_t{roots} + 1);
        if (pool.pinned()) {
            at(pool, pool.level, 0).partner = static_cast<CellIndex>(pool.pinned_cell);
        }
        for (CellIndex root = 0; root < roots && !pool.pinned(); ++root) {
            pool.free_roots.insert(root);
        }
        for (int level = pool.unit_level; level <= pool.level; ++level) {
            RankedCells& ranked = pool.ranked.emplace_back(std::uint64_t{s.leaves[level]} + 1,
                                                           this->cells(id, level));
            for (CellIndex index = 0; index < ranked.cells(); ++index) {
                ranked.file(index, s.leaves[level], s.leaves[level], s.leaves[level]);
            }
        }
        pool.units_with.assign(std::size_t{s.leaves[pool.unit_level]} + 1, 0);
        pool.units_with[0] = this->cells(id, pool.unit_level);
        pool.available = std::uint64_t{roots} * s.leaves[pool.level];
        Instance& instance = instances_[static_cast<std::size_t>(pool.instance)];
        instance.pools.push_back(id);
        instance.leaves += pool.available;
    }
}

// Binds the pins and sees whether S >= 0 on every level of every chain.
void VirtualCells::check_room() {
    std::size_t pin = 0;
    for (std::int32_t id = 0; id < size(); ++id) {
        const Pool& pool = pools_[static_cast<std::size_t>(id)];
        PhysicalCells& home = physical(pool.chain);
        if (!pool.pinned()) {
            home.owe(pool.level, std::min<std::int64_t>(pool.count, kMaxLeaves + 1));
            continue;
        }
        const auto where = static_cast<CellIndex>(pool.pinned_cell);
        const int from = home.listed_level(pool.level, where);
        if (from < 0) {
            throw std::invalid_argument("pins[" + std::to_string(pin) + "]: cell " +
                                        std::to_string(where) + " of level " +
                                        std::to_string(pool.level) + " overlaps another");
        }
        home.bind_root(pool.level, where, from, id, 0);
        ++pin;
    }
    for (PhysicalCells& home : physical_) {
        home.refile_within(home.shape().top(), 0, home.shape().size[home.shape().top()]);
        home.refile();
    }
    for (std::int32_t chain = 0; chain < chains(); ++chain) {
        const auto spare = physical(chain).surplus();
        for (int level = physical(chain).shape().levels; level-- > 0;) {
            if (const std::int64_t left = spare[static_cast<std::size_t>(level)]; left < 0) {
                throw std::invalid_argument("chain " + std::to_string(chain) + " lacks " +
                                            std::to_string(-left) + " cells of level " +
                                            std::to_string(level) + " for what is owned");
            }
        }
    }
}

void VirtualCells::add_pool(const PoolSpec& spec, std::uint64_t& cells) {
    Pool& pool = pools_.emplace_back();
    static_cast<PoolSpec&>(pool) = spec;
    const PhysicalCells& home = physical(spec.chain);
    pool.unit_level = std::min<std::int32_t>(spec.level, home.node_level());
    for (int level = 0; level <= spec.level; ++level) {
        pool.base[static_cast<std::size_t>(level)] = cells;
        cells += static_cast<std::uint64_t>(spec.count) *
                 (home.shape().leaves[spec.level] / home.shape().leaves[level]);
    }
    pool.instance = instance_of(spec.vc, spec.chain);
    if (pool.pinned()) {
        pool.instance = instances();
        instances_.emplace_back();
    }
}

// --- bindings

bool VirtualCells::book(VirtualLeaf booked, CellIndex leaf) {
    Pool& pool = pools_[static_cast<std::size_t>(booked.pool)];
    PhysicalCells& home = physical(pool.chain);
    const Shape& s = home.shape();
    // The lowest bound virtual ancestor must be bound to the physical one; below it both are
    // unbound.
    CellIndex virtual_path[kMaxLevels];
    CellIndex path[kMaxLevels];
    int level = 0;
    virtual_path[0] = booked.leaf;
    path[0] = leaf;
    for (;; ++level) {
        const CellIndex partner = at(pool, level, virtual_path[level]).partner;
        if (partner != kNoCell) {
            if (partner != path[level]) {
                return false;
            }
            break;
        }
        if (home.is_bound(level, path[level])) {
            return false;
        }
        if (level == pool.level) {
            break;
        }
        virtual_path[level + 1] = virtual_path[level] / s.fanout[level];
        path[level + 1] = path[level] / s.fanout[level];
    }
    if (home.holding(leaf) == Holding::virtually) {
        return false;
    }
    Cell& highest = at(pool, level, virtual_path[level]);
    if (highest.partner == kNoCell) {
        const int from = home.listed_level(level, path[level]);
        if (from < 0 || !home.may_split(level, from)) {
            return false;
        }
        home.bind_root(level, path[level], from, booked.pool, virtual_path[level]);
        home.owe(level, -1);
        pool.free_roots.erase(virtual_path[level]);
        highest.partner = path[level];
    }
    for (int below = level; below-- > 0;) {
        home.bind_below(below, path[below], booked.pool, virtual_path[below]);
        Cell& cell = at(pool, below, virtual_path[below]);
        cell.partner = path[below];
        ++cell.used;
    }
    CellIndex index = virtual_path[level];
    for (;; ++level) {
        ++at(pool, level, index).used;
        if (level == pool.level) {
            break;
        }
        index /= s.fanout[level];
    }
    journal_.push_back({pool.chain, leaf, home.holding(leaf), {}});
    home.set_holding(leaf, Holding::virtually);
    count_unit(booked, true);
    return true;
}

void VirtualCells::unbook(VirtualLeaf booked) {
    Pool& pool = pools_[static_cast<std::size_t>(booked.pool)];
    PhysicalCells& home = physical(pool.chain);
    home.set_holding(at(pool, 0, booked.leaf).partner, Holding::none);
    CellIndex index = booked.leaf;
    for (int level = 0;; ++level) {
        Cell& cell = at(pool, level, index);
        if (--cell.used == 0 && !(pool.pinned() && level == pool.level)) {
            if (level == pool.level) {
                home.unbind_root(level, cell.partner);
                home.owe(level, 1);
                pool.free_roots.insert(index);
            } else {
                home.unbind_below(level, cell.partner);
            }
            cell.partner = kNoCell;
        }
        if (level == pool.level) {
            break;
        }
        index /= home.shape().fanout[level];
    }
    count_unit(booked, false);
}

void VirtualCells::count_unit(VirtualLeaf booked, bool more) {
    Pool& pool = pools_[static_cast<std::size_t>(booked.pool)];
    const CellIndex unit = shape(booked.pool).ancestor(0, booked.leaf, pool.unit_level);
    const CellIndex used = at(pool, pool.unit_level, unit).used;
    --pool.units_with[more ? used - 1 : used + 1];
    ++pool.units_with[used];
    touch(booked.pool, unit);
}

void VirtualCells::bind_empty_root(std::int32_t id, CellIndex root, CellIndex cell, int from) {
    Pool& pool = pools_[static_cast<std::size_t>(id)];
    PhysicalCells& home = physical(pool.chain);
    home.bind_root(pool.level, cell, from, id, root);
    home.owe(pool.level, -1);
    pool.free_roots.erase(root);
    at(pool, pool.level, root).partner = cell;
}

void VirtualCells::unbind_empty_root(std::int32_t id, CellIndex root) {
    Pool& pool = pools_[static_cast<std::size_t>(id)];
    PhysicalCells& home = physical(pool.chain);
    Cell& cell = at(pool, pool.level, root);
    home.unbind_root(pool.level, cell.partner);
    home.owe(pool.level, 1);
    pool.free_roots.insert(root);
    cell.partner = kNoCell;
}

void VirtualCells::drop(std::int32_t chain, CellIndex leaf, Holding after) {
    PhysicalCells& home = physical(chain);
    Change& change = journal_.emplace_back(Change{chain, leaf, home.holding(leaf), {}});
    if (change.before == Holding::virtually) {
        change.booked = booked_at(chain, leaf);
        unbook(change.booked);
    }
    home.set_holding(leaf, after);
}

void VirtualCells::take_back(std::size_t end) {
    for (std::size_t i = journal_.size(); i-- > end;) {
        const Change change = journal_[i];
        if (physical(change.chain).holding(change.leaf) == Holding::virtually) {
            unbook(booked_at(change.chain, change.leaf));
        }
        if (change.before == Holding::virtually) {
            book(change.booked, change.leaf);
        } else {
            physical(change.chain).set_holding(change.leaf, change.before);
        }
    }
    journal_.resize(end, Change{});
}

void VirtualCells::undo(std::size_t size) {
    take_back(finished_ + size);
    if (size == 0) {
        for (PhysicalCells& home : physical_) {
            home.forget_roots();
        }
    }
}

void VirtualCells::rewind(std::size_t finished) {
    take_back(finished);
    finished_ = finished;
    refile();
}

VirtualLeaf VirtualCells::virtual_leaf(std::int32_t pool, int top, CellIndex cell,
                                       CellIndex leaf) const {
    const PhysicalCells& home = physical(this->pool(pool).chain);
    const Shape& s = home.shape();
    int level = 0;
    CellIndex index = leaf;
    while (level < top && !home.is_bound(level, index)) {
        index /= s.fanout[level];
        ++level;
    }
    CellIndex virtual_index = level < top ? home.cell(level, index).partner : cell;
    while (level-- > 0) {
        virtual_index *= s.fanout[level];
        while (is_bound(pool, level, virtual_index)) {
            ++virtual_index;
        }
    }
    return {pool, virtual_index};
}

// --- rankings

void VirtualCells::touch(std::int32_t pool, CellIndex unit) {
    const Pool& p = pools_[static_cast<std::size_t>(pool)];
    const std::uint64_t place = p.base[static_cast<std::size_t>(p.unit_level)] + unit;
    if (!unit_stale_[place]) {
        stale_.emplace_back(pool, unit);
        unit_stale_[place] = true;
    }
}

void VirtualCells::touch_around(std::int32_t chain, CellIndex leaf) {
    const PhysicalCells& home = physical(chain);
    for (int level = 0; level <= home.node_level(); ++level) {
        const CellIndex index = home.shape().ancestor(0, leaf, level);
        const PhysicalCells::Cell& cell = home.cell(level, index);
        if (cell.partner != kNoCell && pool(cell.pool).unit_level == level) {
            touch(cell.pool, cell.partner);
            return;
        }
    }
}

void VirtualCells::refile() {
    for (const auto& [id, unit] : stale_) {
        Pool& pool = pools_[static_cast<std::size_t>(id)];
        unit_stale_[pool.base[static_cast<std::size_t>(pool.unit_level)] + unit] = false;
        const PhysicalCells& home = physical(pool.chain);
        const Shape& s = home.shape();
        const Cell& cell = at(pool, pool.unit_level, unit);
        const CellIndex leaves = s.leaves[pool.unit_level];
        const CellIndex available =
            cell.partner == kNoCell ? leaves : home.cell(pool.unit_level, cell.partner).open;
        RankedCells& ranked = pool.ranked[0];
        const CellIndex gain = available - ranked.available(unit);
        const CellIndex rest = leaves - cell.used;
        if (gain == 0 && ranked.row(unit) == rest) {
            continue;
        }
        ranked.file(unit, rest, available, rest);
        pool.available +=
            static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(gain)));
        CellIndex index = unit;
        for (int level = pool.unit_level; level < pool.level; ++level) {
            index /= s.fanout[level];
            RankedCells& above = pool.ranked[static_cast<std::size_t>(level + 1 - pool.unit_level)];
            const CellIndex above_rest = s.leaves[level + 1] - at(pool, level + 1, index).used;
            above.file(index, above_rest, above.available(index) + gain, above_rest);
        }
    }
    stale_.clear();
    for (PhysicalCells& home : physical_) {
        home.refile();
    }
}

std::uint64_t VirtualCells::bytes() const {
    std::uint64_t total = cells_.size() * sizeof(Cell) + unit_stale_.size() / 8;
    for (const PhysicalCells& home : physical_) {
        total += home.bytes();
    }
    for (const Pool& pool : pools_) {
        total += sizeof(Pool) + pool.free_roots.bytes();
        total += pool.units_with.size() * sizeof(CellIndex);
        for (const RankedCells& ranked : pool.ranked) {
            total += ranked.bytes();
        }
    }
    return total;
}

}  // namespace hivecore::cells
