#include "cells/group_scheduler_walk.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace hivecore::cells {

void RankedWalk::add(const RankedCells& cells, std::int32_t pool, CellIndex width, CellIndex begin,
                     CellIndex end) {
    Source source{};
    source.cells = &cells;
    source.width = width;
    source.begin = begin;
    source.end = end;
    source.visit.pool = pool;
    if (spread_) {
        source.done = !previous_group(source, cells.rows() * cells.cells());
    }
    source.done = source.done || begin >= end;
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
bool RankedWalk::previous_group(Source& source, std::uint64_t before) const {
    const std::uint64_t key = order(source).last_before(before);
    if (key == IndexSet::kNone) {
        return false;
    }
    const CellIndex group = group_of(source, key / source.cells->cells());
    source.position = first_row(source, group) * source.cells->cells();
    source.limit = first_row(source, group + 1) * source.cells->cells();
    return true;
}

// Finds the source's next cell.
void RankedWalk::advance(Source& source, CellIndex least) const {
    const RankedCells& cells = *source.cells;
    const std::uint64_t many = cells.cells();
    if (!spread_) {
        source.position = std::max(source.position, first_row(source, least) * many + source.begin);
    }
    while (!source.done) {
        std::uint64_t key = order(source).first_from(source.position);
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
        source.visit.index = index;
        source.visit.used = source.width - group;
        source.visit.held = held;
        source.visit.available = cells.available(index);
        source.ready = true;
        return;
    }
}

bool RankedWalk::next(CellIndex least, Visit& visit) {
    if (all_) {
        least = 0;
    }
    Source* best = nullptr;
    for (Source& source : sources_) {
        if (source.ready && source.visit.available < least) {
            source.ready = false;
        }
        if (!source.ready && !source.done) {
            advance(source, least);
        }
        if (source.ready && (best == nullptr || (spread_ ? source.visit.used < best->visit.used
                                                         : source.visit.used > best->visit.used))) {
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
            source.position = ((source.position - 1) / many + 1) * many + source.begin;
        }
    }
}

}  // namespace hivecore::cells
