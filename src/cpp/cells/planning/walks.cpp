#include "cells/planning/walks.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace hivecore::cells {

void RankedWalk::add(Source source) {
    if (spread_) {
        source.done = !previous_group(source, source.cells->rows() * source.cells->cells());
    }
    source.done = source.done || source.begin >= source.end;
    sources_.push_back(source);
}

CellIndex RankedWalk::group_of(const Source& source, std::uint64_t row) {
    if (source.visit.pool >= 0) {
        return static_cast<CellIndex>(row);
    }
    auto group =
        static_cast<std::uint64_t>((std::sqrt(8.0 * static_cast<double>(row) + 1) - 1) / 2);
    while (group * (group + 1) / 2 > row) {
        --group;
    }
    while ((group + 1) * (group + 2) / 2 <= row) {
        ++group;
    }
    return static_cast<CellIndex>(group);
}

std::uint64_t RankedWalk::first_row(const Source& source, CellIndex group) {
    return source.visit.pool >= 0 ? group : std::uint64_t{group} * (group + 1) / 2;
}

// Moves to the start of the highest group with a key below `before`.
bool RankedWalk::previous_group(Source& source, std::uint64_t before) {
    const std::uint64_t key = source.cells->order().last_before(before);
    if (key == IndexSet::kNone) {
        return false;
    }
    const CellIndex group = group_of(source, key / source.cells->cells());
    source.position = first_row(source, group) * source.cells->cells();
    source.limit = first_row(source, group + 1) * source.cells->cells();
    return true;
}

void RankedWalk::set_visit(Source& source, CellIndex index, CellIndex used, CellIndex held) {
    const RankedCells& cells = *source.cells;
    source.visit.index = source.visit.pool < 0 ? cells.cells() - 1 - index : index;
    source.visit.used = used;
    source.visit.held = held;
    source.visit.available = cells.available(index);
    source.ready = true;
}

// Finds the source's next idle cell: those in the most used cell of the next level first.
void RankedWalk::advance_idle(Source& source, CellIndex least) {
    const RankedCells& around = *source.around;
    const std::uint64_t row = std::uint64_t{source.width} * source.cells->cells();
    for (;;) {
        const std::uint64_t key = source.cells->order().first_from(source.position);
        if (key < source.limit) {
            source.position = key + 1;
            const auto index = static_cast<CellIndex>(key - row);
            if (source.cells->available(index) >= least) {
                set_visit(source, index, 0, 0);
                return;
            }
            continue;
        }
        const std::uint64_t next = around.order().first_from(source.next_around);
        if (next == IndexSet::kNone) {
            source.done = true;
            return;
        }
        source.next_around = next + 1;
        const std::uint64_t first = next % around.cells() * source.fanout;
        source.position = row + std::max<std::uint64_t>(first, source.begin);
        source.limit = row + std::min<std::uint64_t>(first + source.fanout, source.end);
    }
}

// Finds the source's next cell.
void RankedWalk::advance(Source& source, CellIndex least) const {
    const RankedCells& cells = *source.cells;
    const std::uint64_t many = cells.cells();
    if (source.idle) {
        advance_idle(source, least);
        return;
    }
    if (!spread_) {
        source.position = std::max(source.position, first_row(source, least) * many + source.begin);
    }
    while (!source.done) {
        std::uint64_t key = source.cells->order().first_from(source.position);
        if (spread_ && (key == IndexSet::kNone || key >= source.limit)) {
            const std::uint64_t start =
                first_row(source, group_of(source, (source.limit - 1) / many)) * many;
            source.done = !previous_group(source, start);
            continue;
        }
        if (key == IndexSet::kNone) {
            source.done = true;
            break;
        }
        const std::uint64_t row = key / many;
        if (!spread_ && source.around != nullptr && row == source.width) {
            source.idle = true;
            source.limit = 0;
            // A cell around has the more available.
            source.next_around = std::uint64_t{least} * source.around->cells();
            advance_idle(source, least);
            return;
        }
        const auto index = static_cast<CellIndex>(key % many);
        if (index < source.begin) {
            source.position = row * many + source.begin;
            continue;
        }
        if (index >= source.end) {
            source.position = (row + 1) * many + source.begin;
            continue;
        }
        const CellIndex group = group_of(source, row);
        const CellIndex held = static_cast<CellIndex>(row - first_row(source, group));
        if (group - held < least) {  // nor has any other cell of the group that comes later
            if (spread_) {
                source.position = source.limit;
            } else {
                source.position = first_row(source, group + 1) * many + source.begin;
            }
            continue;
        }
        source.position = key + 1;
        if (cells.available(index) < least) {
            continue;
        }
        set_visit(source, index, source.width - group, held);
        return;
    }
}

bool RankedWalk::comes_before(const Source& a, const Source& b) const {
    if (spread_) {
        return a.visit.used < b.visit.used;
    }
    const CellIndex left = slack(a.width, a.visit.used);
    const CellIndex others = slack(b.width, b.visit.used);
    if (left != others) {
        return left < others;
    }
    return a.visit.used != b.visit.used ? a.visit.used > b.visit.used
                                        : a.visit.used == 0 && a.spared < b.spared;
}

bool RankedWalk::next(CellIndex least, Visit& visit) {
    Source* best = nullptr;
    for (Source& source : sources_) {
        if (source.ready && source.visit.available < least) {
            source.ready = false;
        }
        if (!source.ready && !source.done) {
            advance(source, least);
        }
        if (source.ready && (best == nullptr || comes_before(source, *best))) {
            best = &source;
        }
    }
    if (best == nullptr) {
        return false;
    }
    best->ready = false;
    visit = best->visit;
    return true;
}

void RankedWalk::skip_row(std::int32_t pool) {
    for (Source& source : sources_) {
        if (source.visit.pool == pool && source.position != 0) {
            const std::uint64_t many = source.cells->cells();
            source.done = source.done || source.idle;  // theirs is the last row
            source.position = ((source.position - 1) / many + 1) * many + source.begin;
        }
    }
}

// --- physical cells above node level

void PhysicalWalk::start(const RankedCells& cells, CellIndex leaves, bool spread) {
    cells_ = &cells;
    rows_ = std::uint64_t{leaves} + 1;
    spread_ = spread;
    position_ = 0;
    end_ = 0;
}

// Spreading: moves to the last row before `row` of its class, or of the next class that has one.
bool PhysicalWalk::next_row(std::uint64_t row) {
    const std::uint64_t many = cells_->cells();
    for (std::uint64_t first = (row - 1) / rows_ * rows_; first < cells_->rows(); first += rows_) {
        const std::uint64_t key = cells_->order().last_before(row * many);
        if (key != IndexSet::kNone && key >= first * many) {
            position_ = key / many * many;
            end_ = position_ + many;
            return true;
        }
        row = first + 2 * rows_;
    }
    return false;
}

bool PhysicalWalk::next(CellIndex least, CellIndex& cell) {
    const std::uint64_t many = cells_->cells();
    if (spread_ && end_ == 0 && !next_row(rows_)) {
        return false;
    }
    for (;;) {
        const std::uint64_t key = cells_->order().first_from(position_);
        if (spread_ && key >= end_) {
            const std::uint64_t row = end_ / many - 1;
            if (!next_row(row % rows_ == 0 ? row + 2 * rows_ : row)) {
                return false;
            }
            continue;
        }
        if (key == IndexSet::kNone) {
            return false;
        }
        const std::uint64_t row = key / many;
        if (!spread_ && row % rows_ < least) {  // nor has any other of the row
            position_ = (row / rows_ * rows_ + least) * many;
            continue;
        }
        position_ = key + 1;
        const auto candidate = static_cast<CellIndex>(key % many);
        if (cells_->available(candidate) >= least) {
            cell = cells_->cells() - 1 - candidate;
            return true;
        }
    }
}

}  // namespace hivecore::cells
