// The shape of one cell chain: a forest of `roots` equal trees with uniform fan-outs.
//
// Levels count from 0 (leaf) in the kernels. A level-(l+1) cell consists of fanout[l] level-l
// cells. Cells of a level are numbered from left to right over the whole forest, so the parent of
// cell i at level l is i / fanout[l], its first child is i * fanout[l-1], and no pointers are kept.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hivecore::cells {

using CellIndex = std::uint32_t;

inline constexpr int kMaxLevels = 16;
inline constexpr std::uint64_t kMaxLeaves = std::uint64_t{1} << 31;

struct Shape {
    // Throws std::invalid_argument when a fan-out or `roots` is zero, there are more than
    // kMaxLevels levels or more than kMaxLeaves leaves.
    Shape(std::span<const CellIndex> fanouts, CellIndex roots);

    int levels;
    CellIndex fanout[kMaxLevels];  // [l]: level-l cells per level-(l+1) cell; [top]: the roots
    CellIndex size[kMaxLevels];    // [l]: level-l cells in the chain
    CellIndex leaves[kMaxLevels];  // [l]: leaves of one level-l cell

    int top() const { return levels - 1; }
    CellIndex parent(int level, CellIndex cell) const { return cell / fanout[level]; }
    CellIndex first_child(int level, CellIndex cell) const { return cell * fanout[level - 1]; }
    CellIndex ancestor(int level, CellIndex cell, int above) const {
        return cell / (leaves[above] / leaves[level]);
    }
};

}  // namespace hivecore::cells
