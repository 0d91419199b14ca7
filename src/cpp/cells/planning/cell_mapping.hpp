// Where chosen units go: virtual units get physical cells, and pods their leaves.
//
// A bound unit is where it is. The others are mapped anchor by anchor: below the lowest bound cell
// around them, whose physical children are theirs to choose from, or as new roots in free cells.
// Choices are lexicographic in the order of candidates, (bad leaves, load, index), and each leaves
// enough for the rest: the needed virtual cells and the physical ones have a perfect matching at
// every level. A wholly healthy cell serves anything unless leaves must be close together or nodes
// are excluded; so on the usual way candidates are taken as they come.
//
// Every result is booked at once, in the journal of the pools, so that the next one sees it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "cells/planning/leaf_choice.hpp"
#include "cells/planning/occupants.hpp"
#include "cells/planning/unit_choice.hpp"

namespace hivecore::cells {

class CellMapping {
  public:
    CellMapping(Groups& groups, UnitChoice& unit_choice)
        : groups_(groups), virtual_cells_(groups.virtual_cells()), unit_choice_(unit_choice) {}

    // `first`: per pod of the request, by position, where its leaves go in `placed`; `downgraded`:
    // groups that are not guaranteed any more; `budget`: the placements that searches may still
    // try.
    void start(const Task& task, std::span<const std::uint64_t> first, std::vector<Placed>& placed,
               std::span<const Handle> downgraded, std::int64_t& budget);
    // False: for some there are no cells. What was booked is in the journal either way.
    bool map(const Choice& choice);
    // Leaves in this pod's slots that hold virtual leaves from now on; false: one cannot be booked.
    bool hold(std::int32_t position, std::uint64_t slot, CellIndex leaf, VirtualLeaf held);
    // Forgets which leaves are planned, after an undo.
    void forget();

  private:
    // A chosen unit that is to be mapped.
    struct Wanted {
        CellIndex unit = 0;
        std::size_t number = 0;  // in the choice
        CellIndex cell = kNoCell;
    };
    struct Order {
        CellIndex bad;
        CellIndex load;
        CellIndex cell;
        auto operator<=>(const Order&) const = default;
    };
    using Units = std::span<Wanted>;  // ascending

    bool settle(const Choice& choice, std::size_t unit, CellIndex cell);
    std::vector<Units> split(Units units, int level) const;
    std::vector<CellIndex> candidates(int level, CellIndex cell) const;
    bool serves_anything(int level, CellIndex cell) const;
    bool hosts(const Wanted& wanted, CellIndex cell);
    bool fits(int level, Units units, CellIndex cell);
    bool matches(int level, std::span<const Units> needed, std::span<const CellIndex> cells);
    bool assign_children(int level, Units units, CellIndex cell);
    bool assign(int level, Units units, CellIndex cell);
    bool assign_root(int level, Units units);
    CellIndex first_below(int level, CellIndex cell, int root_level, Units units, bool sick);
    bool in_listed(int source, int root_level, Units units, bool sick, CellIndex& chosen);

    Groups& groups_;
    VirtualCells& virtual_cells_;
    UnitChoice& unit_choice_;
    const PhysicalCells* physical_ = nullptr;
    Task task_;
    std::uint32_t first_leaf_ = 0;
    std::span<const std::uint64_t> first_;
    std::vector<Placed>* placed_ = nullptr;
    std::int64_t* budget_ = nullptr;
    std::vector<CellIndex> planned_;

    const Choice* choice_ = nullptr;
    std::int32_t pool_ = 0;
    int unit_level_ = 0;
    std::vector<Wanted> wanted_;
    std::map<std::tuple<int, CellIndex, CellIndex>, bool> known_;
    Occupants occupants_;
    LeafChoice leaves_;
    std::vector<CellIndex> chosen_;
};

}  // namespace hivecore::cells
