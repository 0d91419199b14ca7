// Which groups lose their leaves to a pod that must take some: those that cost least to evict.
//
// An *occupant* of a cell is a group that runs there and would have to leave. What its going costs
// counts the whole group, wherever its other leaves are, so a small group goes before a part of a
// large one; a group that has gone already costs nothing more. For pods that may lie anywhere in
// one cell a covering program over its occupants is exact, O(occupants * leaves), but that a lazy
// occupant's price is that of a downgrade. Where pods are confined further, and in cells of very
// many leaves and occupants, the dearest occupants are spared one by one while the pods fit. Leaves
// are then chosen as ever, without those of occupants that stay.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cells/groups.hpp"
#include "cells/planning/leaf_choice.hpp"

namespace hivecore::cells {

class UnitChoice;

// Guaranteed leaves that are evicted or downgraded, evicted leaves, evicted groups.
using Harm = std::array<std::uint64_t, 3>;
Harm operator+(const Harm& harm, const Harm& other);

class Occupants {
  public:
    // No group has gone. Those that are downgraded are not guaranteed.
    void start(const Groups& groups, const UnitChoice& unit_choice,
               std::span<const Handle> downgraded);
    // Appends the leaves of each pod in turn, all in the cell, and the groups there leave;
    // false: the pods do not fit, nothing has changed.
    bool take(int level, CellIndex cell, std::span<const Demand> pods, int group_within,
              std::vector<CellIndex>& out);
    // What becomes of a group that leaves, or is downgraded instead.
    Harm price(Handle handle) const;

  private:
    struct Occupant {
        Handle handle;
        CellIndex leaves;
        Harm price;
    };

    std::vector<Occupant> on(std::span<const CellIndex> leaves) const;
    Harm cheapest(std::span<const CellIndex> leaves, std::uint64_t count,
                  std::vector<Handle>& leaving) const;
    bool choose(int level, CellIndex cell, std::span<const Demand> pods, int group_within,
                std::span<const Handle> staying, std::vector<CellIndex>& out);
    void spare(int level, CellIndex cell, std::span<const Demand> pods, int group_within,
               std::vector<CellIndex>& out);

    const Groups* groups_ = nullptr;
    const UnitChoice* unit_choice_ = nullptr;
    std::uint32_t first_leaf_ = 0;
    std::span<const Handle> downgraded_;
    std::vector<Handle> gone_;
    LeafChoice leaves_;
};

}  // namespace hivecore::cells
