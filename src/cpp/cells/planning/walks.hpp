// Walks over ranked cells in the order of preference.
//
// `RankedWalk` visits units of one or several pools, or physical nodes. Packing: those in use with
// the fewest leaves left first, of these the largest, then the idle ones; spreading: least used
// first; then less held (nodes), the lower pool, the lower index (of nodes the higher). When
// packing, a pool's idle units come by the most used cell around them, those of spared pools last.
// Only cells with at least as many available leaves as asked are visited; whole rows without them
// are passed over, so a step costs O(pools * levels of the bitmap).
//
// `PhysicalWalk` visits physical cells above node level: those farthest from guaranteed work, of
// them packing or spreading by load, then from the high end.
#pragma once

#include <cstdint>
#include <vector>

#include "cells/ranked_cells.hpp"
#include "cells/shape.hpp"

namespace hivecore::cells {

// How tightly a cell with so many leaves in use is packed, so that less is better: the leaves that
// are left; idle is worst.
inline CellIndex slack(CellIndex leaves, CellIndex used) {
    return used == 0 ? ~CellIndex{0} : leaves - used;
}

class RankedWalk {
  public:
    struct Visit {
        std::int32_t pool = -1;
        CellIndex index = 0;
        CellIndex used = 0;
        CellIndex held = 0;
        CellIndex available = 0;
    };

    void start(bool spread) {
        spread_ = spread;
        sources_.clear();
    }
    // Physical nodes [begin, end).
    void add_nodes(const RankedCells& nodes, CellIndex width, CellIndex begin, CellIndex end) {
        add({.cells = &nodes,
             .width = width,
             .begin = nodes.cells() - end,
             .end = nodes.cells() - begin});
    }
    // Cells [begin, end) of a pool; pools ascend. `around`: the cells of the next level, of
    // `fanout` cells each; null: the order of idle cells is that of the others. `spared`: its idle
    // cells come after those of other pools.
    void add_cells(const RankedCells& cells, std::int32_t pool, CellIndex width, CellIndex begin,
                   CellIndex end, const RankedCells* around, CellIndex fanout,
                   bool spared = false) {
        add({.cells = &cells,
             .around = around,
             .width = width,
             .fanout = fanout,
             .spared = spared,
             .begin = begin,
             .end = end,
             .visit = {.pool = pool}});
    }
    // The next cell, with at least `least` available leaves, which never falls during a walk.
    bool next(CellIndex least, Visit& visit);
    // Passes over the rest of the row that the last visit of this pool was in.
    void skip_row(std::int32_t pool);

  private:
    struct Source {
        const RankedCells* cells = nullptr;
        const RankedCells* around = nullptr;
        CellIndex width = 0;
        CellIndex fanout = 1;
        bool spared = false;  // its idle cells come last
        CellIndex begin = 0;
        CellIndex end = 0;
        std::uint64_t position = 0;     // the key from which to go on
        std::uint64_t limit = 0;        // spreading: the end of the group of rows under way;
                                        // idle cells: the end of the cell around them
        std::uint64_t next_around = 0;  // idle cells: the key of the cell around the next ones
        bool idle = false;              // packing: the idle cells are under way
        bool ready = false;             // `visit` is found and not yet handed out
        bool done = false;
        Visit visit{};
    };

    // Rows of equal use: one row, or for physical cells those of one load.
    static CellIndex group_of(const Source& source, std::uint64_t row);
    static std::uint64_t first_row(const Source& source, CellIndex group);
    void add(Source source);
    bool comes_before(const Source& a, const Source& b) const;
    void advance(Source& source, CellIndex least) const;
    static void advance_idle(Source& source, CellIndex least);
    static void set_visit(Source& source, CellIndex index, CellIndex used, CellIndex held);
    static bool previous_group(Source& source, std::uint64_t before);

    bool spread_ = false;
    std::vector<Source> sources_;
};

class PhysicalWalk {
  public:
    // Cells of `leaves` leaves each.
    void start(const RankedCells& cells, CellIndex leaves, bool spread);
    // The next cell with at least so many available leaves.
    bool next(CellIndex least, CellIndex& cell);

  private:
    bool next_row(std::uint64_t row);

    const RankedCells* cells_ = nullptr;
    std::uint64_t rows_ = 0;  // of one class
    bool spread_ = false;
    std::uint64_t position_ = 0;
    std::uint64_t end_ = 0;  // spreading: of the row under way
};

}  // namespace hivecore::cells
