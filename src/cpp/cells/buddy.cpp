#include "cells/buddy.hpp"

#include <algorithm>
#include <bit>

namespace hivecore::cells {

Buddy::Buddy(std::span<const CellIndex> fanouts, CellIndex roots) : shape_(fanouts, roots) {
    listed_.reserve(shape_.levels);
    for (int level = 0; level < shape_.levels; ++level) {
        listed_.emplace_back(shape_.size[level]);
        const std::uint64_t words = (std::uint64_t{shape_.size[level]} + 63) / 64;
        allocated_offset_[level + 1] = allocated_offset_[level] + words;
    }
    allocated_.resize(allocated_offset_[shape_.levels]);
    listed_[shape_.top()].insert_all_but(roots, 0, roots);
    count_[shape_.top()] = roots;
    able_ = 1u << shape_.top();
}

int Buddy::listed_ancestor(int level, CellIndex cell) const {
    for (; level < shape_.levels; cell = shape_.parent(level, cell), ++level) {
        if (listed_[level].contains(cell)) {
            return level;
        }
    }
    return -1;
}

void Buddy::list(int level, CellIndex cell) {
    listed_[level].insert(cell);
    ++count_[level];
    able_ |= 1u << level;
}

void Buddy::unlist(int level, CellIndex cell) {
    listed_[level].erase(cell);
    if (--count_[level] == 0) {
        able_ &= ~(1u << level);
    }
}

void Buddy::list_buddies(int level, CellIndex first, CellIndex kept) {
    const CellIndex fanout = shape_.fanout[level];
    if (fanout == 1) {
        return;
    }
    listed_[level].insert_all_but(kept, first, std::uint64_t{first} + fanout);
    count_[level] += fanout - 1;
    able_ |= 1u << level;
}

std::int64_t Buddy::allocate(int level) {
    if (!fits(level)) {
        return -1;
    }
    int source = level + std::countr_zero(able_ >> level);
    CellIndex cell = static_cast<CellIndex>(listed_[source].first());
    unlist(source, cell);
    while (source > level) {
        cell = shape_.first_child(source, cell);
        --source;
        list_buddies(source, cell, cell);
    }
    mark(level, cell);
    return cell;
}

bool Buddy::allocate_at(int level, CellIndex cell) {
    int source = listed_ancestor(level, cell);
    if (source < 0) {
        return false;
    }
    CellIndex kept = shape_.ancestor(level, cell, source);
    unlist(source, kept);
    while (source > level) {
        const CellIndex first = shape_.first_child(source, kept);
        --source;
        kept = shape_.ancestor(level, cell, source);
        list_buddies(source, first, kept);
    }
    mark(level, cell);
    return true;
}

int Buddy::merge(int level, CellIndex cell) {
    while (level < shape_.top() && count_[level] >= shape_.fanout[level] - 1) {
        const CellIndex parent = shape_.parent(level, cell);
        const std::uint64_t begin = shape_.first_child(level + 1, parent);
        const std::uint64_t end = begin + shape_.fanout[level];
        if (!listed_[level].contains_all_but(cell, begin, end)) {
            break;
        }
        listed_[level].erase_range(begin, end);
        count_[level] -= shape_.fanout[level] - 1;
        if (count_[level] == 0) {
            able_ &= ~(1u << level);
        }
        cell = parent;
        ++level;
    }
    list(level, cell);
    return level;
}

int Buddy::release(int level, CellIndex cell) {
    if (!is_allocated(level, cell)) {
        return -1;
    }
    unmark(level, cell);
    return merge(level, cell);
}

void Buddy::allocate_many(std::span<std::int64_t> levels_to_cells) {
    for (std::int64_t& entry : levels_to_cells) {
        entry = allocate(static_cast<int>(entry));
    }
}

std::int64_t Buddy::first_bad_cell(std::span<const std::int64_t> levels,
                                   std::span<const std::int64_t> cells) const {
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (cells[i] < 0 || cells[i] >= shape_.size[levels[i]]) {
            return static_cast<std::int64_t>(i);
        }
    }
    return -1;
}

std::int64_t Buddy::release_many(std::span<const std::int64_t> levels,
                                 std::span<const std::int64_t> cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const auto level = static_cast<int>(levels[i]);
        const auto cell = static_cast<CellIndex>(cells[i]);
        if (!is_allocated(level, cell)) {
            for (std::size_t done = 0; done < i; ++done) {
                mark(static_cast<int>(levels[done]), static_cast<CellIndex>(cells[done]));
            }
            return static_cast<std::int64_t>(i);
        }
        unmark(level, cell);
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
        merge(static_cast<int>(levels[i]), static_cast<CellIndex>(cells[i]));
    }
    return -1;
}

void Buddy::save(StateWriter& writer) const {
    writer.put(static_cast<std::uint32_t>(shape_.levels));
    writer.put(shape_.size[shape_.top()]);
    writer.put_all(std::span<const CellIndex>(shape_.fanout, shape_.levels - 1));
    writer.put_all(std::span<const std::uint64_t>(allocated_));
}

Buddy Buddy::loaded(StateReader& reader) {
    const auto levels = reader.get<std::uint32_t>("levels", 1, kMaxLevels);
    const auto roots = reader.get<CellIndex>();
    const std::vector<CellIndex> fanouts = reader.get_all<CellIndex>(levels - 1);
    // Before anything is made of such a size: the bitmaps are there.
    const Shape shape(fanouts, roots);
    std::vector<std::vector<std::uint64_t>> bitmaps;
    for (int level = 0; level < shape.levels; ++level) {
        bitmaps.push_back(
            reader.get_all<std::uint64_t>((std::uint64_t{shape.size[level]} + 63) / 64));
    }
    Buddy buddy(fanouts, roots);
    for (int level = shape.levels; level-- > 0;) {
        for (std::size_t w = 0; w < bitmaps[level].size(); ++w) {
            for (std::uint64_t word = bitmaps[level][w]; word != 0; word &= word - 1) {
                const std::uint64_t cell =
                    std::uint64_t{w} << 6 | static_cast<unsigned>(std::countr_zero(word));
                if (cell >= shape.size[level] ||
                    !buddy.allocate_at(level, static_cast<CellIndex>(cell))) {
                    throw StateError("allocated cells overlap or lie outside the chain");
                }
            }
        }
    }
    return buddy;
}

std::string Buddy::audit() const {
    // taken[i]: some part of cell i of the level below is allocated.
    std::vector<bool> taken_below;
    for (int level = 0; level < shape_.levels; ++level) {
        const std::string where = " at level " + std::to_string(level + 1);
        std::vector<bool> taken(shape_.size[level]);
        for (CellIndex cell = 0; cell < shape_.size[level]; ++cell) {
            bool part_taken = false;
            if (level > 0) {
                const CellIndex begin = shape_.first_child(level, cell);
                const auto first = taken_below.begin() + begin;
                part_taken = std::find(first, first + shape_.fanout[level - 1], true) !=
                             first + shape_.fanout[level - 1];
                for (CellIndex i = 0; i < shape_.fanout[level - 1]; ++i) {
                    const bool canonical = part_taken && !taken_below[begin + i];
                    if (canonical != listed_[level - 1].contains(begin + i)) {
                        return "the free list is not canonical below cell " + std::to_string(cell) +
                               where;
                    }
                }
            }
            if (is_allocated(level, cell) && part_taken) {
                return "part of cell " + std::to_string(cell) + where + " is allocated twice";
            }
            taken[cell] = part_taken || is_allocated(level, cell);
            if (level == shape_.top() && taken[cell] == listed_[level].contains(cell)) {
                return "root " + std::to_string(cell) + " is wrongly listed";
            }
        }
        CellIndex count = 0;
        listed_[level].for_each([&](std::uint64_t) { ++count; });
        if (count != count_[level] || (count != 0) != (able_ >> level & 1)) {
            return "the count of listed cells is wrong" + where;
        }
        if (!listed_[level].summaries_hold()) {
            return "a summary word is wrong" + where;
        }
        taken_below = std::move(taken);
    }
    return {};
}

std::uint64_t Buddy::bytes() const {
    std::uint64_t total = sizeof(*this) + allocated_.size() * sizeof(std::uint64_t);
    for (const IndexSet& set : listed_) {
        total += sizeof(set) + set.bytes();
    }
    return total;
}

}  // namespace hivecore::cells
