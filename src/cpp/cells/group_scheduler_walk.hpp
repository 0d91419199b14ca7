// A walk over ranked cells of one or several pools in the order of preference.
//
// Packing: most used first; spreading: least used first; then less held (nodes only), the lower
// pool, the lower index. Only cells with at least as many available leaves as asked are visited, or
// all; whole rows without them are passed over, so a step costs O(pools * levels of the bitmap).
#pragma once

#include <cstdint>
#include <vector>

#include "cells/group_scheduler_ranked.hpp"
#include "cells/shape.hpp"

namespace hivecore::cells {

class RankedWalk {
  public:
    struct Visit {
        std::int32_t pool = -1;
        CellIndex index = 0;
        CellIndex used = 0;
        CellIndex held = 0;
        CellIndex available = 0;
    };

    void start(bool spread, bool all) {
        spread_ = spread;
        all_ = all;
        sources_.clear();
    }
    // Cells [begin, end) of a pool (-1: physical cells, ranked by pairs). Pools ascend.
    void add(const RankedCells& cells, std::int32_t pool, CellIndex width, CellIndex begin,
             CellIndex end);
    // The next cell, with at least `least` available leaves unless all are visited; `least` never
    // falls during a walk.
    bool next(CellIndex least, Visit& visit);
    // Passes over the rest of the row that the last visit of this pool was in.
    void skip_row(std::int32_t pool);

  private:
    struct Source {
        const RankedCells* cells;
        CellIndex width;
        CellIndex begin;
        CellIndex end;
        std::uint64_t position;  // the key from which to go on
        std::uint64_t limit;     // spreading: the end of the group of rows under way
        bool ready = false;      // `visit` is found and not yet handed out
        bool done = false;
        Visit visit;
    };

    // Rows of equal use: one row, or for physical cells those of one load.
    static CellIndex group_of(const Source& source, std::uint64_t row);
    static std::uint64_t first_row(const Source& source, CellIndex group);
    void advance(Source& source, CellIndex least) const;
    bool previous_group(Source& source, std::uint64_t before) const;

    const IndexSet& order(const Source& source) const {
        return all_ ? source.cells->all() : source.cells->order();
    }

    bool spread_ = false;
    bool all_ = false;
    std::vector<Source> sources_;
};

}  // namespace hivecore::cells
