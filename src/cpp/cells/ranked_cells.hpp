// The cells of one level in the order in which packing tries them.
//
// Every cell is filed under a *row*; rows ascend in the order of packing (most used first) and a
// row holds its cells by index; only those with something available stand in the order. Beside its
// row a cell is filed with what it has available, and those with less than their row says are
// `short_`: cells with bad leaves. So a walk in packing order that starts at the first row with
// enough leaves meets, one after the other, cells that can serve, apart from the short ones.
//
// Keys are row * cells + cell in an IndexSet: about one bit per leaf and one per cell.
#pragma once

#include <cstdint>
#include <vector>

#include "cells/shape.hpp"
#include "common/index_set.hpp"

namespace hivecore::cells {

class RankedCells {
  public:
    RankedCells() = default;
    // All cells start in row 0 with nothing available. With no rows there is no order, only what
    // is available is kept.
    RankedCells(std::uint64_t rows, CellIndex cells)
        : rows_(rows),
          cells_(cells),
          order_(rows * cells + 1),
          short_(cells + std::uint64_t{1}),
          row_(cells, 0),
          available_(cells, 0) {}

    CellIndex cells() const { return cells_; }
    std::uint64_t rows() const { return rows_; }
    const IndexSet& order() const { return order_; }
    const IndexSet& short_cells() const { return short_; }
    CellIndex row(CellIndex cell) const { return row_[cell]; }
    CellIndex available(CellIndex cell) const { return available_[cell]; }
    bool is_short(CellIndex cell) const { return short_.contains(cell); }

    // `full`: what a cell of this row has available when all of its leaves are healthy.
    void file(CellIndex cell, CellIndex row, CellIndex available, CellIndex full) {
        if (rows_ == 0) {
            available_[cell] = available;
            return;
        }
        if (available_[cell] != 0) {
            order_.erase(std::uint64_t{row_[cell]} * cells_ + cell);
            short_.erase(cell);
        }
        row_[cell] = row;
        available_[cell] = available;
        if (available != 0) {
            order_.insert(std::uint64_t{row} * cells_ + cell);
            if (available < full) {
                short_.insert(cell);
            }
        }
    }

    std::uint64_t bytes() const {
        return order_.bytes() + short_.bytes() + std::uint64_t{8} * cells_;
    }

  private:
    std::uint64_t rows_ = 0;
    CellIndex cells_ = 0;
    IndexSet order_;
    IndexSet short_;
    std::vector<CellIndex> row_;
    std::vector<CellIndex> available_;
};

}  // namespace hivecore::cells
