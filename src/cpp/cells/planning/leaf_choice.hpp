// Which leaves of one physical cell a pod gets.
//
// Every leaf has a class: 0 it is not held, 1 by opportunistic work, 2 by a group that may be
// preempted, or it cannot be had. A pod of n leaves goes into a cell of the lowest level that
// has n; among those of the level the fewest leaves of class 2, then of class 1, are needed; then
// the tightest cell, in the tightest parent, and so on up; then the lowest index. Counting per cell
// is enough for that: subsets are never tried, so a choice costs O(leaves of the cell). Within the
// cell leaves of lower class go first, then lower index.
//
// Pods of one unit go one after the other. Where that fails although the pods differ, and some are
// confined to cells below the unit, a search decides (planning/confined.cpp).
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

// The placements that the searches for one request may try together.
inline constexpr std::int64_t kSearchLimit = 200'000;

class LeafChoice {
  public:
    static constexpr std::uint8_t kTaken = 3;

    // Starts with the cell of this level whose leaves have these classes; `first`: its first leaf.
    void start(const Shape& shape, int level, CellIndex first);
    void set_class(CellIndex leaf, std::uint8_t cls) { classes_[leaf - first_] = cls; }
    // To be called after the classes are set.
    void count();

    // Takes leaves for all pods, all in one cell of level `group_within` if that is below the
    // cell's level, and appends those of pod i in turn, ascending. False: nothing has changed.
    // `budget`: the placements that a search may still try.
    bool take_all(std::span<const Demand> pods, int group_within, std::int64_t& budget,
                  std::vector<CellIndex>& out);
    // The same for pods that are known to fit.
    bool take_all(std::span<const Demand> pods, int group_within, std::vector<CellIndex>& out) {
        std::int64_t budget = kSearchLimit;
        return take_all(pods, group_within, budget, out);
    }

  private:
    friend class ConfinedSearch;

    // Added to the class of a leaf that is taken here, so that it can be given back.
    static constexpr std::uint8_t kGiven = 4;

    struct Count {
        std::array<CellIndex, 3> of{};
        CellIndex all() const { return of[0] + of[1] + of[2]; }
    };
    CellIndex cells(int level) const { return width_ / shape_->leaves[level]; }
    Count& at(int level, CellIndex cell) { return counts_[base_[level] + cell]; }
    bool better(int level, CellIndex a, CellIndex b, CellIndex leaves);
    bool take_within(int top, CellIndex candidate, CellIndex leaves, int within,
                     std::vector<CellIndex>& out);
    void give_back(std::span<const CellIndex> leaves);
    bool take_in(int top, CellIndex candidate, std::span<const Demand> pods, std::int64_t& budget,
                 std::vector<CellIndex>& out);
    bool search(int top, CellIndex candidate, std::span<const Demand> pods, std::int64_t& budget,
                std::vector<CellIndex>& out);

    const Shape* shape_ = nullptr;
    int level_ = 0;
    CellIndex first_ = 0;
    CellIndex width_ = 0;
    std::array<std::uint64_t, kMaxLevels> base_{};
    std::vector<std::uint8_t> classes_;
    std::vector<Count> counts_;
    std::vector<CellIndex> candidates_;
};

}  // namespace hivecore::cells
