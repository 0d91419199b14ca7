// A plane: one bit per item of a dataset, in words of 64; the bits past the last item are clear.
//
// Whole planes are compared and counted by sweeps of a nanosecond per word or less, so a batch
// that touches a good part of a dataset counts once at its end instead of once per item.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "common/cpu.hpp"

namespace hivecore::caching::uniform {

using Word = std::uint64_t;
// Empty stands for a plane without a set bit where the text says so.
using Plane = std::vector<Word>;

inline std::size_t words_for(std::int64_t items) {
    return (static_cast<std::size_t>(items) + 63) >> 6;
}
inline bool holds(const Plane& plane, std::int64_t item) {
    return plane[static_cast<std::size_t>(item) >> 6] >> (item & 63) & 1;
}
inline void insert(Plane& plane, std::int64_t item) {
    plane[static_cast<std::size_t>(item) >> 6] |= Word{1} << (item & 63);
}
inline void erase(Plane& plane, std::int64_t item) {
    plane[static_cast<std::size_t>(item) >> 6] &= ~(Word{1} << (item & 63));
}

inline void fill(Plane& plane, std::int64_t items) {
    plane.assign(words_for(items), ~Word{0});
    if (items & 63) {
        plane.back() = (Word{1} << (items & 63)) - 1;
    }
}

template <typename Visit>
void for_each(const Plane& plane, Visit&& visit) {
    for (std::size_t w = 0; w < plane.size(); ++w) {
        for (Word word = plane[w]; word != 0; word &= word - 1) {
            visit(static_cast<std::int64_t>(w << 6) + std::countr_zero(word));
        }
    }
}

// Sweeps; in their own file because they are compiled for the processor at hand.
std::int64_t count(const Plane& plane);
std::int64_t count_both(const Plane& a, const Plane& b);
// What the items of one plane, and those of both, sum up to.
struct Sums {
    std::int64_t first = 0;
    std::int64_t both = 0;
};
Sums sums_over(const Plane& first, const Plane& second, const std::vector<std::int64_t>& sizes);
// cached |= before & ~after.
void add_cleared(Plane& cached, const Plane& before, const Plane& after);

}  // namespace hivecore::caching::uniform
