#include "matching/dense/input.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "matching/dense/tile_kernels.hpp"

namespace hivecore::matching {
namespace {

// The same pairs, rows being what lies together.
template <class T>
Strided<T> by_rows(const Strided<T>& weights) {
    const bool by_columns = std::abs(weights.across) > std::abs(weights.down);
    return by_columns ? weights.transposed() : weights;
}

// What may stand where there is no pair: a weight that occurs, or NaN.
template <class T>
T filler_of(const Strided<T>& weights) {
    return std::is_floating_point_v<T> ? std::numeric_limits<T>::quiet_NaN() : weights.at(0, 1);
}

template <class T>
DenseSurvey survey(const Strided<T>& given, Grid grid) {
    const std::int64_t n = given.rows;
    DenseSurvey found;
    if (n < 2) {
        return found;
    }
    const Strided<T> weights = by_rows(given);
    const T filler = filler_of(weights);
    const auto compare = compare_kernel<T>();
    Survey<T> values(filler, grid);
    Tile<T> tile;
    Tile<T> mirrored;
    std::int64_t present = 0;  // pairs count twice
    for (std::int64_t top = 0; top < n && !found.asymmetric; top += kTile) {
        for (std::int64_t left = top; left < n; left += kTile) {
            if (left + kTile > n) {
                tile.fill(filler);
                mirrored.fill(filler);
            }
            tile.read(weights, top, left);
            mirrored.read(weights.transposed(), top, left);
            if (top == left) {
                tile.set_diagonal(filler);
                mirrored.set_diagonal(filler);
            }
            const Comparison compared = compare(tile, mirrored, values);
            present += top == left ? compared.present : 2 * compared.present;
            for (std::int64_t i = 0; i < kTile && !compared.symmetric; ++i) {
                for (std::int64_t j = 0; j < kTile; ++j) {
                    if (differ(tile.cells[i][j], mirrored.cells[i][j])) {
                        const std::pair pair{top + i, left + j};
                        found.asymmetric = std::min(pair, found.asymmetric.value_or(pair));
                    }
                }
            }
        }
    }
    found.edges = std::is_floating_point_v<T> ? present / 2 : n * (n - 1) / 2;
    if (found.edges > 0) {
        found.extent = values.extent();
    }
    return found;
}

template <class T, class Lane>
void write(const Strided<T>& given, const Scale& scale, Lane absent, Lane* matrix) {
    const std::int64_t n = given.rows;
    if (n < 2) {
        std::fill_n(matrix, n, absent);
        return;
    }
    const Strided<T> weights = by_rows(given);
    const T filler = filler_of(weights);
    const auto convert = convert_kernel<T, Lane>();
    const Scaler<T> scaler(scale);
    Tile<T> tile;
    Tile<Lane> doubled;
    Tile<Lane> mirrored;
    tile.fill(filler);
    bool fine = true;
    for (std::int64_t top = 0; top < n; top += kTile) {
        for (std::int64_t left = top; left < n; left += kTile) {
            const std::int64_t height = std::min(kTile, n - top);
            const std::int64_t width = std::min(kTile, n - left);
            tile.read(weights, top, left);
            if (top == left) {
                tile.set_diagonal(filler);
            }
            fine &= convert(tile, scaler, scale.heaviest, absent, doubled);
            if (top == left) {
                doubled.set_diagonal(absent);
                for (std::int64_t i = 0; i < height; ++i) {
                    for (std::int64_t j = 0; j < i; ++j) {
                        doubled.cells[i][j] = doubled.cells[j][i];
                    }
                }
            }
            for (std::int64_t i = 0; i < height; ++i) {
                std::copy_n(doubled.cells[i], width, matrix + (top + i) * n + left);
            }
            if (top < left) {
                for (std::int64_t j = 0; j < kTile; ++j) {
                    for (std::int64_t i = 0; i < kTile; ++i) {
                        mirrored.cells[j][i] = doubled.cells[i][j];
                    }
                }
                for (std::int64_t j = 0; j < width; ++j) {
                    std::copy_n(mirrored.cells[j], kTile, matrix + (left + j) * n + top);
                }
            }
        }
    }
    if (!fine) {
        throw std::invalid_argument("a weight is not finite or more than heaviest");
    }
}

}  // namespace

DenseSurvey survey_dense(const Numbers& weights, Grid grid) {
    return std::visit([grid](const auto& square) { return survey(square, grid); }, weights);
}

template <class Lane>
void write_doubled(const Numbers& weights, const Scale& scale, Lane absent, Lane* matrix) {
    std::visit([&](const auto& square) { write(square, scale, absent, matrix); }, weights);
}

template void write_doubled(const Numbers&, const Scale&, std::int32_t, std::int32_t*);
template void write_doubled(const Numbers&, const Scale&, std::int64_t, std::int64_t*);

}  // namespace hivecore::matching
