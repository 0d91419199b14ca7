// Buddy cell allocation on one chain: HiveD (OSDI'20), Algorithm 1.
//
// Every level keeps its free cells in canonical form: a cell is listed if it is free and its
// parent is not; cells inside a listed cell are not listed. allocate(level) takes the lowest cell
// of the lowest level that has one, and splits it down; release merges while the whole buddy set
// is listed.
//
// State: one IndexSet of listed cells and one bitmap of allocated cells per level, so a cell is
// listed, allocated, split (neither, and its parent is split or absent) or inside another one.
// The listed cells are a function of the allocated ones: a saved state holds only those.
//
// Cost: O(levels) per call, plus one word per 64 buddies for each split, merge or failed merge;
// nothing is allocated after construction. Memory: about 2 bits per cell of any level, half a
// byte per leaf for fan-outs of two.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cells/shape.hpp"
#include "common/index_set.hpp"
#include "common/state.hpp"

namespace hivecore::cells {

class Buddy {
  public:
    // Throws std::invalid_argument for a shape that is not allowed.
    Buddy(std::span<const CellIndex> fanouts, CellIndex roots);

    const Shape& shape() const { return shape_; }

    bool fits(int level) const { return able_ >> level != 0; }
    bool is_allocated(int level, CellIndex cell) const {
        return allocated_[word_of(level, cell)] >> (cell & 63) & 1;
    }
    // Wholly free: it or one of its ancestors is listed.
    bool is_free(int level, CellIndex cell) const { return listed_ancestor(level, cell) >= 0; }
    const IndexSet& listed(int level) const { return listed_[level]; }
    CellIndex listed_count(int level) const { return count_[level]; }

    // The cell taken, or -1 when no level at or above has a free cell.
    std::int64_t allocate(int level);
    // Takes this very cell; false, and nothing changed, when any part of it is taken.
    bool allocate_at(int level, CellIndex cell);
    // The level at which the merged free cell is now listed, or -1 when it was not allocated.
    int release(int level, CellIndex cell);

    // Replaces each level of `levels_to_cells` by the cell taken, or by -1. Levels are in range.
    void allocate_many(std::span<std::int64_t> levels_to_cells);
    // The first position whose cell is not one of its level, or -1. Levels are in range.
    std::int64_t first_bad_cell(std::span<const std::int64_t> levels,
                                std::span<const std::int64_t> cells) const;
    // Releases all, or nothing: answers the position of the first that is not allocated, or -1.
    std::int64_t release_many(std::span<const std::int64_t> levels,
                              std::span<const std::int64_t> cells);

    // The shape, and a bitmap of allocated cells per level, each padded to whole words.
    void save(StateWriter& writer) const;
    explicit Buddy(StateReader& reader) : Buddy(loaded(reader)) {}

    // Empty when all invariants hold, else what is wrong. O(cells).
    std::string audit() const;
    std::uint64_t bytes() const;

  private:
    std::uint64_t word_of(int level, CellIndex cell) const {
        return allocated_offset_[level] + (cell >> 6);
    }
    void mark(int level, CellIndex cell) {
        allocated_[word_of(level, cell)] |= std::uint64_t{1} << (cell & 63);
    }
    void unmark(int level, CellIndex cell) {
        allocated_[word_of(level, cell)] &= ~(std::uint64_t{1} << (cell & 63));
    }
    static Buddy loaded(StateReader& reader);
    int listed_ancestor(int level, CellIndex cell) const;
    void list(int level, CellIndex cell);
    void unlist(int level, CellIndex cell);
    void list_buddies(int level, CellIndex first, CellIndex kept);
    int merge(int level, CellIndex cell);

    Shape shape_;
    std::uint32_t able_ = 0;  // bit l: level l lists a cell
    CellIndex count_[kMaxLevels] = {};
    std::vector<IndexSet> listed_;
    std::uint64_t allocated_offset_[kMaxLevels + 1] = {};
    std::vector<std::uint64_t> allocated_;
};

}  // namespace hivecore::cells
