// Square tiles of the caller's array and the two loops over them in which reading it spends its
// time, in a portable and in an AVX2 version of one body. Both give the same answers.
//
// A tile of 32 by 32 cells and its mirror image stay in the nearest cache, so that reading down the
// columns of an array costs no more than along its rows. Rows of tiles at the edge are filled up
// with a value that changes nothing, so that the loops always run over whole rows, of as many as
// the tile has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "common/cpu.hpp"
#include "matching/numbers/extent.hpp"
#include "matching/numbers/numbers.hpp"
#include "matching/numbers/scale.hpp"

namespace hivecore::matching {

inline constexpr std::int64_t kTile = 32;

template <class T>
struct Tile {
    alignas(64) T cells[kTile][kTile];

    void fill(T value, std::int64_t height) { std::fill_n(cells[0], height * kTile, value); }

    void set_diagonal(T value, std::int64_t height) {
        for (std::int64_t i = 0; i < height; ++i) {
            cells[i][i] = value;
        }
    }

    // Cells beyond the end of the array stay as they are.
    void read(const Strided<T>& from, std::int64_t top, std::int64_t left) {
        const std::int64_t height = std::min(kTile, from.rows - top);
        const std::int64_t width = std::min(kTile, from.columns - left);
        if (from.across == sizeof(T)) {
            for (std::int64_t i = 0; i < height; ++i) {
                const std::byte* row = from.first + (top + i) * from.down;
                std::memcpy(cells[i], row + left * from.across, width * sizeof(T));
            }
        } else if (std::abs(from.across) < std::abs(from.down)) {
            for (std::int64_t i = 0; i < height; ++i) {
                for (std::int64_t j = 0; j < width; ++j) {
                    cells[i][j] = from.at(top + i, left + j);
                }
            }
        } else {
            for (std::int64_t j = 0; j < width; ++j) {
                for (std::int64_t i = 0; i < height; ++i) {
                    cells[i][j] = from.at(top + i, left + j);
                }
            }
        }
    }
};

// NaN is symmetric to NaN.
template <class T>
HIVECORE_INLINE bool differ(T a, T b) {
    return (a != b) & ((a == a) | (b == b));
}

struct Comparison {
    bool symmetric;
    std::int64_t present;  // cells that are not NaN
};

// One pass for three questions: is it symmetric, how many edges are there, what is their extent.
// Counts are kept per column, in lanes, and summed at the end.
template <class T>
HIVECORE_INLINE Comparison compare_body(const Tile<T>& tile, const Tile<T>& mirrored,
                                        std::int64_t height, Survey<T>& survey) {
    static_assert(Survey<T>::kLanes == kTile);
    using Lane = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
    Lane different[kTile] = {};
    Lane present[kTile] = {};
    for (std::int64_t i = 0; i < height; ++i) {
        const T* here = tile.cells[i];
        const T* across = mirrored.cells[i];
        for (std::int64_t j = 0; j < kTile; ++j) {
            different[j] |= differ(here[j], across[j]) ? 1 : 0;
        }
        for (std::int64_t j = 0; j < kTile; ++j) {
            present[j] += here[j] == here[j] ? 1 : 0;
        }
        survey.take(here);
    }
    Comparison comparison{true, 0};
    for (std::int64_t j = 0; j < kTile; ++j) {
        comparison.symmetric &= different[j] == 0;
        comparison.present += present[j];
    }
    return comparison;
}

// Whether no weight counts more than `heaviest`; doubles them, `absent` for 0 and less.
template <class T, class Lane>
HIVECORE_INLINE bool convert_body(const Tile<T>& tile, std::int64_t height, Scaler<T> scaler,
                                  std::int64_t heaviest, Lane absent, Tile<Lane>& doubled) {
    std::int64_t heavy = 0;
    for (std::int64_t i = 0; i < height; ++i) {
        for (std::int64_t j = 0; j < kTile; ++j) {
            const std::int64_t count = scaler(tile.cells[i][j]);
            heavy |= count > heaviest ? 1 : 0;
            const std::int64_t kept = count > heaviest ? 0 : count;
            doubled.cells[i][j] = kept > 0 ? static_cast<Lane>(2 * kept) : absent;
        }
    }
    return heavy == 0;
}

template <class T>
Comparison compare_portable(const Tile<T>& tile, const Tile<T>& mirrored, std::int64_t height,
                            Survey<T>& survey) {
    return compare_body(tile, mirrored, height, survey);
}
template <class T, class Lane>
bool convert_portable(const Tile<T>& tile, std::int64_t height, Scaler<T> scaler,
                      std::int64_t heaviest, Lane absent, Tile<Lane>& doubled) {
    return convert_body(tile, height, scaler, heaviest, absent, doubled);
}

#ifdef HIVECORE_X86
template <class T>
__attribute__((target("avx2"))) Comparison compare_avx2(const Tile<T>& tile,
                                                        const Tile<T>& mirrored,
                                                        std::int64_t height, Survey<T>& survey) {
    return compare_body(tile, mirrored, height, survey);
}
template <class T, class Lane>
__attribute__((target("avx2"))) bool convert_avx2(const Tile<T>& tile, std::int64_t height,
                                                  Scaler<T> scaler, std::int64_t heaviest,
                                                  Lane absent, Tile<Lane>& doubled) {
    return convert_body(tile, height, scaler, heaviest, absent, doubled);
}
#endif

template <class T>
auto compare_kernel() {
#ifdef HIVECORE_X86
    if (has_avx2()) {
        return compare_avx2<T>;
    }
#endif
    return compare_portable<T>;
}

template <class T, class Lane>
auto convert_kernel() {
#ifdef HIVECORE_X86
    if (has_avx2()) {
        return convert_avx2<T, Lane>;
    }
#endif
    return convert_portable<T, Lane>;
}

}  // namespace hivecore::matching
