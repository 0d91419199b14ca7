// The physical cells of one chain, shared by guaranteed and opportunistic work.
//
// Every cell is in one of five states:
//
//     listed   free and its parent is not: the canonical free list F of its level
//     split    above listed cells or roots: part of it is given away
//     root     bound to a whole cell that a tenant owns (its preassigned cell)
//     bound    below a root, bound to a part of the tenant's cell that is in use
//     inside   within a listed cell, or an unbound part of a bound one: free for guaranteed work
//
// Opportunistic work uses free cells without changing these states. An opportunistic cell lies
// wholly within one *host*, a listed cell or a root. Per cell the chain keeps
//
//     load      leaves of the opportunistic cells at or below it
//     healthy   the largest wholly healthy cell at or below it, as level + 1; 0: none
//     idle      the same for cells that are healthy and that nobody uses
//     user      the allocation that occupies exactly this cell, or 0
//
// and per level the hosts, ordered by load and index, once for each value of `healthy` (listed
// cells: where guaranteed work goes) and of `idle` (where opportunistic work goes). So the free
// cell with the fewest opportunistic leaves is the first member of an IndexSet, and opportunistic
// work takes the last: what guaranteed work would take last.
//
// Safety (HiveD, section 3; Theorem 1): with `owed(l)` the owned cells of level l that are not
// bound, S(top) = F(top) - owed(top), S(l) = S(l+1) * fanout(l) + F(l) - owed(l), no S(l) is ever
// negative. A split from level i down to level p lowers S by one on the levels above p up to i,
// so it is done only where all of those are at least one.
//
// Cost: O(sum of the fan-outs on the way) per call, and as much per opportunistic cell that gives
// way. Memory: about 27 bytes per leaf for five levels, 71 for sixteen; fixed at construction.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cells/shape.hpp"
#include "common/index_set.hpp"

namespace hivecore::cells {

class Chain {
  public:
    explicit Chain(const Shape& shape);

    const Shape& shape() const { return shape_; }

    // --- owned cells

    // A tenant owns `count` more cells of this level.
    void owe(int level, CellIndex count) { rows_[level].owed += count; }
    CellIndex owed(int level) const { return rows_[level].owed; }
    CellIndex listed_count(int level) const { return rows_[level].listed; }
    // S per level; negative only while assignments are added that do not fit.
    std::array<std::int64_t, kMaxLevels> surplus() const;

    // --- guaranteed work. `need`: the level of the request that the cell must be able to serve.

    // Takes a free cell of this level for an owned one: the healthiest that `need` allows, then
    // from the lowest level, the least healthy host that serves, the fewest opportunistic leaves,
    // the lowest index. -1 when no healthy part can be had without breaking a guarantee.
    std::int64_t bind_root(int level, int need);
    // Takes this very cell; false when it is not wholly free.
    bool bind_root_at(int level, CellIndex cell);
    void unbind_root(int level, CellIndex cell);
    // Binds an unbound child of a root or bound cell: the healthiest, then the fewest
    // opportunistic leaves, then the lowest index. -1 when none can serve `need`.
    std::int64_t bind_child(int level, CellIndex parent, int need);
    // Binds this very child; false when it is not an unbound part of a root or bound cell.
    bool bind_child_at(int level, CellIndex cell);
    void unbind_child(int level, CellIndex cell) { rows_[level].state[cell] = State::inside; }

    // --- occupation

    // The users (from 1) of the opportunistic cells that overlap this unoccupied one.
    void append_overlapping(int level, CellIndex cell, std::vector<std::int32_t>& users) const;
    void occupy(int level, CellIndex cell, std::int32_t user, bool opportunistic);
    void vacate(int level, CellIndex cell, bool opportunistic);
    // Where opportunistic work of this level goes: listed hosts before roots, the highest level
    // first, the most opportunistic leaves, the highest index; below the host likewise, unbound
    // children first. -1 when no cell of the level is idle and healthy.
    std::int64_t find_idle(int level) const;
    // Whether the cell is healthy and no user overlaps it.
    bool is_idle(int level, CellIndex cell) const;
    // The cell's occupation goes on under another user.
    void rename_user(int level, CellIndex cell, std::int32_t user) {
        rows_[level].user[cell] = user;
    }

    // --- health

    void set_health(CellIndex first_leaf, CellIndex end_leaf, bool healthy);
    std::int32_t user(int level, CellIndex cell) const { return rows_[level].user[cell]; }
    std::uint64_t occupied_cells() const;
    bool all_healthy() const { return bad_leaves_ == 0; }
    bool leaf_healthy(CellIndex leaf) const { return rows_[0].healthy[leaf] != 0; }

    // Empty when all invariants hold, else what is wrong. O(cells).
    std::string audit() const;
    std::uint64_t bytes() const;

  private:
    enum class State : std::uint8_t { inside, listed, split, root, bound };

    // Hosts of one level ordered by (load, index), one set per class: a value of `healthy` or
    // `idle`. Class 0 can serve nobody and is not kept.
    struct Order {
        std::uint32_t present = 0;  // bit c: class c has members
        IndexSet classes[kMaxLevels + 1];
    };

    struct Row {
        std::vector<State> state;
        std::vector<std::uint8_t> healthy;
        std::vector<std::uint8_t> idle;
        std::vector<CellIndex> load;
        std::vector<std::int32_t> user;
        CellIndex listed = 0;
        CellIndex owed = 0;
        Order by_health;     // listed cells
        Order listed_hosts;  // listed cells by idle
        Order root_hosts;    // roots by idle
    };

    bool is_host(int level, CellIndex cell) const {
        return rows_[level].state[cell] == State::listed || rows_[level].state[cell] == State::root;
    }
    int host_level(int level, CellIndex cell) const;
    std::uint64_t key(int level, CellIndex cell) const {
        return std::uint64_t{rows_[level].load[cell]} * shape_.size[level] + cell;
    }
    static void insert(Order& order, int cls, std::uint64_t key);
    static void erase(Order& order, int cls, std::uint64_t key);
    template <class Apply>
    void for_orders(int level, CellIndex cell, Apply apply);
    void enter(int level, CellIndex cell);
    void leave(int level, CellIndex cell);
    void list(int level, CellIndex cell);
    void unlist(int level, CellIndex cell, State state);
    void become_root(int level, CellIndex cell);
    struct Largest {
        std::uint8_t healthy;
        std::uint8_t idle;
        bool operator==(const Largest&) const = default;
    };
    Largest combined(int level, CellIndex cell) const;
    bool combine(int level, CellIndex cell);
    void set_user(int level, CellIndex cell, std::int32_t user, CellIndex load);
    void append_below(int level, CellIndex cell, std::vector<std::int32_t>& users) const;
    std::string audit_cell(int level, CellIndex cell) const;
    bool orders_hold(int level) const;

    Shape shape_;
    CellIndex bad_leaves_ = 0;
    std::vector<Row> rows_;
};

}  // namespace hivecore::cells
