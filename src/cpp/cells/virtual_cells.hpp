// The tenants' virtual cells and their bindings to the physical ones.
//
// A pool is what one tenant owns of one level of one chain: `count` equal virtual trees, or a
// single one that is bound to a given physical cell for ever (a pin). Its cells of a level are
// numbered left to right over the trees. A virtual cell is bound while a leaf at or below it is
// used (the root of a pin always); bindings are one to one and keep ancestry: the parent of a bound
// cell is bound to the physical parent.
//
// `book` binds a virtual leaf, with every unbound ancestor, to a physical leaf; `drop` takes that
// back. But for foresight's, they are the only mutators of bindings, and exact inverses: the free
// lists are canonical, so leaves may be given back in any order. Both are written to a journal, and
// `undo` goes back to a place in it. Packing works on *units*: virtual nodes, or whole trees of
// pools below node level. A unit has available what its physical cell has open; an unbound one all
// of its leaves. Units and the cells above are ranked, most used first, by `refile`, so that a
// change that is taken back costs the rankings nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cells/physical_cells.hpp"
#include "cells/ranked_cells.hpp"
#include "cells/shape.hpp"
#include "common/index_set.hpp"

namespace hivecore::cells {

struct PoolSpec {
    std::int32_t vc;
    std::int32_t chain;
    std::int32_t level;
    std::int64_t count;
    std::int64_t pinned_cell;  // -1: not a pin
};

struct ChainSpec {
    Shape shape;
    std::int32_t node_level;
};

// A leaf of a pool.
struct VirtualLeaf {
    std::int32_t pool;
    CellIndex leaf;
    bool operator==(const VirtualLeaf&) const = default;
};

class VirtualCells {
  public:
    struct Cell {
        CellIndex partner = kNoCell;  // the physical cell of the same level
        CellIndex used = 0;           // virtual leaves in use
    };

    struct Pool : PoolSpec {
        std::int32_t unit_level = 0;
        std::int32_t instance = 0;
        std::array<std::uint64_t, kMaxLevels> base{};  // of its levels' cells
        std::uint64_t available = 0;                   // sum over the units, as ranked
        IndexSet free_roots;
        std::vector<CellIndex> units_with;  // by leaves in use: units
        std::vector<RankedCells> ranked;    // by level - unit_level
        bool pinned() const { return pinned_cell >= 0; }
    };

    // What one request may use: the pools of a tenant on a chain, or one pin.
    struct Instance {
        std::vector<std::int32_t> pools;  // ascending, so those with the smaller units first
        std::uint64_t leaves = 0;
    };

    // Throws std::invalid_argument when a pool or pin does not fit.
    VirtualCells(std::span<const ChainSpec> chains, std::int32_t tenants,
                 std::span<const PoolSpec> pools);

    std::int32_t tenants() const { return tenants_; }
    std::int32_t chains() const { return static_cast<std::int32_t>(physical_.size()); }
    std::int32_t size() const { return static_cast<std::int32_t>(pools_.size()); }
    const Pool& pool(std::int32_t id) const { return pools_[static_cast<std::size_t>(id)]; }
    const PhysicalCells& physical(std::int32_t chain) const {
        return physical_[static_cast<std::size_t>(chain)];
    }
    PhysicalCells& physical(std::int32_t chain) {
        return physical_[static_cast<std::size_t>(chain)];
    }
    const Shape& shape(std::int32_t pool) const { return physical(this->pool(pool).chain).shape(); }
    const Instance& instance(std::int32_t id) const {
        return instances_[static_cast<std::size_t>(id)];
    }
    std::int32_t instances() const { return static_cast<std::int32_t>(instances_.size()); }
    // The instance of the pools of a tenant on a chain that are not pinned.
    std::int32_t instance_of(std::int32_t vc, std::int32_t chain) const {
        return vc * chains() + chain;
    }
    CellIndex cells(std::int32_t pool, int level) const {
        const Shape& s = shape(pool);
        const Pool& p = this->pool(pool);
        return static_cast<CellIndex>(p.count) * (s.leaves[p.level] / s.leaves[level]);
    }
    const Cell& cell(std::int32_t pool, int level, CellIndex index) const {
        return cells_[this->pool(pool).base[static_cast<std::size_t>(level)] + index];
    }
    bool is_bound(std::int32_t pool, int level, CellIndex index) const {
        return cell(pool, level, index).partner != kNoCell;
    }
    const RankedCells& ranked(std::int32_t pool, int level) const {
        const Pool& p = this->pool(pool);
        return p.ranked[static_cast<std::size_t>(level - p.unit_level)];
    }

    // False, and nothing has changed, when the leaf is held virtually or a binding forbids it.
    // Opportunistic work on the leaf loses it.
    bool book(VirtualLeaf booked, CellIndex leaf);
    // From now on the leaf is held by `after`, which is not `virtually`.
    void drop(std::int32_t chain, CellIndex leaf, Holding after);
    VirtualLeaf booked_at(std::int32_t chain, CellIndex leaf) const {
        const PhysicalCells::Cell& entry = physical(chain).cell(0, leaf);
        return {entry.pool, entry.partner};
    }

    // Binds an unbound root as if something in it were used, to a cell that may be split off the
    // listed one of level `from` around it, and takes that back.
    void bind_empty_root(std::int32_t pool, CellIndex root, CellIndex cell, int from);
    void unbind_empty_root(std::int32_t pool, CellIndex root);

    // --- the journal of `book` and `drop`: of the operation under way, and of finished ones that
    // are kept

    std::size_t journal_size() const { return journal_.size() - finished_; }
    void undo(std::size_t size);
    // Ends the operation; `keep`: it can be undone later.
    void forget(bool keep) {
        if (!keep) {
            journal_.clear();
        }
        finished_ = journal_.size();
    }
    std::size_t finished() const { return finished_; }
    // Undoes finished operations, down to where `finished` was this. Between operations.
    void rewind(std::size_t finished);

    // The virtual leaf for a physical leaf when this virtual cell is, or will be, bound around it:
    // bound cells keep their partners, an unbound physical cell gets the lowest unbound virtual
    // one.
    VirtualLeaf virtual_leaf(std::int32_t pool, int top, CellIndex cell, CellIndex leaf) const;
    // Marks the unit around this leaf, if any, after a change of the leaf's health.
    void touch_around(std::int32_t chain, CellIndex leaf);
    void refile();

    std::uint64_t bytes() const;

  private:
    struct Change {
        std::int32_t chain;
        CellIndex leaf;
        Holding before;
        VirtualLeaf booked;  // when it was held virtually
    };

    Cell& at(const Pool& pool, int level, CellIndex index) {
        return cells_[pool.base[static_cast<std::size_t>(level)] + index];
    }
    void add_pool(const PoolSpec& spec, std::uint64_t& cells);
    void check_room();
    void unbook(VirtualLeaf booked);
    // After a change of what is in use: files the unit around the leaf elsewhere.
    void count_unit(VirtualLeaf booked, bool more);
    void take_back(std::size_t end);
    void touch(std::int32_t pool, CellIndex unit);

    std::int32_t tenants_;
    std::vector<PhysicalCells> physical_;
    std::vector<Pool> pools_;
    std::vector<Instance> instances_;
    std::vector<Cell> cells_;
    std::vector<bool> unit_stale_;  // by the unit's place in cells_
    std::vector<std::pair<std::int32_t, CellIndex>> stale_;
    std::vector<Change> journal_;
    std::size_t finished_ = 0;  // the changes before this are of operations that are done
};

}  // namespace hivecore::cells
