// Which leaves of one physical cell a pod gets.
//
// Every leaf has a class: 0 nobody holds it, 1 opportunistic work does, 2 a group that may be
// preempted does, or it cannot be had. A pod of n leaves goes into a cell of the lowest level that
// has n; among those of the level the fewest leaves of class 2, then of class 1, are needed; then
// the tightest cell, in the tightest parent, and so on up; then the lowest index. Counting per cell
// is enough for that: subsets are never tried, so a choice costs O(leaves of the cell). Within the
// cell leaves of lower class go first, then lower index.
//
// Source: HiveD's leaf choice by lowest common ancestor, which enumerates subsets (OSDI'20 code).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cells/shape.hpp"

namespace hivecore::cells {

struct Demand {
    CellIndex leaves;
    std::int32_t within;    // level that the leaves must lie within; -1: any
    std::int32_t position;  // of the pod in the request
};

class LeafChoice {
  public:
    static constexpr std::uint8_t kTaken = 3;

    // Starts with the cell of this level whose leaves have these classes; `first`: its first leaf.
    void start(const Shape& shape, int level, CellIndex first);
    void set_class(CellIndex leaf, std::uint8_t cls) { classes_[leaf - first_] = cls; }
    // To be called after the classes are set.
    void count();

    // Takes leaves for a pod and appends them, ascending; false: none can be had, nothing changed.
    bool take(CellIndex leaves, int within, std::vector<CellIndex>& out);
    // All pods in turn, all in one cell of level `group_within` if that is below the cell's level.
    // Leaves of pod i are appended in turn. When false `out` is as it was.
    bool take_all(std::span<const Demand> pods, int group_within, std::vector<CellIndex>& out);

    CellIndex available() const { return counts_[base_[level_]].all(); }

  private:
    struct Count {
        std::array<CellIndex, 3> of{};
        CellIndex all() const { return of[0] + of[1] + of[2]; }
    };
    CellIndex cells(int level) const { return width_ / shape_->leaves[level]; }
    Count& at(int level, CellIndex cell) { return counts_[base_[level] + cell]; }
    bool better(int level, CellIndex a, CellIndex b, CellIndex leaves);
    bool take_within(int top, CellIndex house, CellIndex leaves, int within,
                     std::vector<CellIndex>& out);

    const Shape* shape_ = nullptr;
    int level_ = 0;
    CellIndex first_ = 0;
    CellIndex width_ = 0;
    std::array<std::uint64_t, kMaxLevels> base_{};
    std::vector<std::uint8_t> classes_;
    std::vector<Count> counts_;
    std::vector<CellIndex> houses_;
};

}  // namespace hivecore::cells
