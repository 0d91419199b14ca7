// The physical cells of one chain under affinity groups: free lists, loads, health, safety.
//
// Every cell is in one of five states:
//
//     listed   free and its parent is not: the canonical buddy free list F of its level
//     split    above listed cells or roots: a part of it is given away
//     root     bound to a root of a pool, a whole cell that a tenant owns
//     bound    below a root, bound to a part of the tenant's cell that is in use
//     inside   within a listed cell, or an unbound part of a root or bound cell
//
// A leaf is not held, or held by opportunistic work, or virtually, as part of a tenant's cell. Per
// cell are counted
//
//     load     leaves held by opportunistic work, healthy or not
//     bad      unhealthy leaves
//     open     up to node level: healthy leaves that are not held virtually
//
// and per node `held` (held virtually) and `idle` (healthy and not held). The listed cells of
// a level stand in the order of load and index, once for the wholly healthy ones (`clean`) and
// once for the others (`impaired`).
//
// Safety (HiveD, OSDI'20, Theorem 1): with `owed(l)` the unbound roots of level l that tenants own,
// S(top) = F(top) - owed(top), S(l) = S(l+1) * fanout(l) + F(l) - owed(l); no S(l) is ever
// negative, bad cells counted as free. Splitting from level i down to l lowers S by one on the
// levels above l up to i, so it is done only where all of those are at least one.
//
// For opportunistic work nodes are ranked by load (most first), held (least first) and index (the
// highest first, for roots are bound from the low end); nodes of many leaves are not, as it takes a
// row for each pair. The cells above are ranked by how soon guaranteed work is likely to come: by
// what they are promised (nothing; to a tenant; guaranteed work is there) and how many quarters of
// the root around them are taken; then by load and index. Rankings count cells from the high end
// (`mirrored`), and are brought up to date by `refile`, so that a change that is taken back costs
// them nothing.
//
// Cost: O(levels) per leaf, and the fan-outs on the way where a cell is split or merged.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "cells/ranked_cells.hpp"
#include "cells/shape.hpp"
#include "common/index_set.hpp"

namespace hivecore::cells {

inline constexpr CellIndex kNoCell = ~CellIndex{0};

enum class CellState : std::uint8_t { inside, listed, split, root, bound };
enum class Holding : std::uint8_t { none, opportunistic, virtually };

// Nodes of more leaves are not ranked.
inline constexpr CellIndex kMaxRankedLeaves = 127;

class PhysicalCells {
  public:
    struct Cell {
        CellIndex load = 0;
        CellIndex bad = 0;
        CellIndex open = 0;
        std::int32_t pool = -1;       // of the virtual cell that it is bound to
        CellIndex partner = kNoCell;  // that cell's number in its pool and level
    };
    struct Node {
        CellIndex held = 0;
        CellIndex idle = 0;
        CellIndex filed_idle = 0;  // as the rankings know them
        CellIndex filed_held = 0;
        bool stale = false;  // they may not be up to date
    };

    PhysicalCells(const Shape& shape, int node_level);

    const Shape& shape() const { return shape_; }
    int node_level() const { return node_level_; }
    const Cell& cell(int level, CellIndex index) const { return cells_[base_[level] + index]; }
    CellState state(int level, CellIndex index) const { return states_[base_[level] + index]; }
    bool is_listed(int level, CellIndex index) const {
        return state(level, index) == CellState::listed;
    }
    Holding holding(CellIndex leaf) const { return holdings_[leaf]; }
    bool healthy(CellIndex leaf) const { return cells_[leaf].bad == 0; }
    bool is_bound(int level, CellIndex index) const {
        return cell(level, index).partner != kNoCell;
    }
    const Node& node(CellIndex index) const { return nodes_[index]; }

    // --- free lists and safety

    void owe(int level, std::int64_t count) { owed_[level] += count; }
    std::int64_t owed(int level) const { return owed_[level]; }
    CellIndex listed_count(int level) const { return listed_[level]; }
    std::array<std::int64_t, kMaxLevels> surplus() const;
    // Whether a cell of `level` may be split off a listed cell of level `from`.
    bool may_split(int level, int from) const;
    // The level of the listed cell that the cell is or lies in; -1 when it is not wholly free.
    int listed_level(int level, CellIndex index) const;
    // The cell lies in a listed one of level `from`; it becomes the root of (pool, partner).
    void bind_root(int level, CellIndex index, int from, std::int32_t pool, CellIndex partner);
    void unbind_root(int level, CellIndex index);
    void bind_below(int level, CellIndex index, std::int32_t pool, CellIndex partner);
    void unbind_below(int level, CellIndex index);
    // Listed cells as load * size + index, ascending.
    const IndexSet& clean(int level) const { return clean_[level]; }
    const IndexSet& impaired(int level) const { return impaired_[level]; }

    // --- leaves

    void set_holding(CellIndex leaf, Holding holding);
    void set_healthy(CellIndex leaf, bool healthy);

    // --- opportunistic work

    void refile();
    // The cells above node level in the cells [begin, end) of a level.
    void refile_within(int level, CellIndex begin, CellIndex end);
    // All roots are bound as they were at the last `refile`.
    void forget_roots() { rebound_.clear(); }
    bool ranks_nodes() const { return shape_.leaves[node_level_] <= kMaxRankedLeaves; }
    // From node level up. What is available are the idle leaves.
    const RankedCells& ranked(int level) const {
        return ranked_[static_cast<std::size_t>(level - node_level_)];
    }
    CellIndex mirrored(int level, CellIndex index) const { return shape_.size[level] - 1 - index; }
    CellIndex held(int level, CellIndex index) const {
        return held_[static_cast<std::size_t>(level - node_level_)][index];
    }
    // What comes later is nearer to guaranteed work.
    CellIndex nearness(int level, CellIndex index) const {
        return promised(level, index) * (kQuarters + 1) + taken_around(level, index);
    }
    CellIndex row_of(int level, CellIndex index) const;
    CellIndex idle_total() const { return idle_total_; }

    std::uint64_t bytes() const;

  private:
    static constexpr CellIndex kQuarters = 4;
    static constexpr std::uint64_t kNearness = 3 * (kQuarters + 1);

    void list(int level, CellIndex index);
    void unlist(int level, CellIndex index, CellState state);
    std::uint64_t key(int level, CellIndex index) const {
        return std::uint64_t{cell(level, index).load} * shape_.size[level] + index;
    }
    void shift(CellIndex leaf, int end_level, int load, int bad, int open);
    void touch(CellIndex node);
    void file(int level, CellIndex index, CellIndex available);
    // 0: the cell is free, 1: it is promised to a tenant, 2: guaranteed work is in it.
    CellIndex promised(int level, CellIndex index) const {
        return held(level, index) != 0 ? 2 : listed_level(level, index) >= 0 ? 0 : 1;
    }
    // Quarters of a cell in which leaves are held or bad, when so many can be had.
    CellIndex taken(int level, CellIndex available) const {
        return kQuarters -
               static_cast<CellIndex>(std::uint64_t{kQuarters} * available / shape_.leaves[level]);
    }
    CellIndex taken_around(int level, CellIndex index) const;

    Shape shape_;
    int node_level_;
    CellIndex idle_total_;
    std::array<std::uint64_t, kMaxLevels> base_{};
    std::array<std::int64_t, kMaxLevels> owed_{};
    std::array<CellIndex, kMaxLevels> listed_{};
    std::vector<Cell> cells_;
    std::vector<CellState> states_;
    std::vector<Holding> holdings_;
    std::vector<Node> nodes_;
    std::vector<CellIndex> stale_;
    // Roots inside which ranked cells come nearer to guaranteed work, or farther from it.
    std::vector<std::pair<int, CellIndex>> rebound_;
    std::vector<IndexSet> clean_;
    std::vector<IndexSet> impaired_;
    std::vector<RankedCells> ranked_;
    std::vector<std::vector<CellIndex>> held_;  // from node level up, as ranked
};

}  // namespace hivecore::cells
