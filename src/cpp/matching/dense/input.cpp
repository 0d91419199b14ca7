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

// Up to so many rows the pairs, read one by one, cost less than the tiles around them.
constexpr std::int64_t kFewRows = 64;

template <class T>
DenseSurvey survey_pairs(const Strided<T>& weights, Grid grid) {
    DenseSurvey surveyed;
    T some[kFewRows * (kFewRows - 1) / 2];
    for (std::int64_t i = 0; i < weights.rows && !surveyed.asymmetric; ++i) {
        for (std::int64_t j = i + 1; j < weights.rows; ++j) {
            const T weight = weights.at(i, j);
            if (differ(weight, weights.at(j, i))) {
                surveyed.asymmetric = {i, j};
                break;
            }
            some[surveyed.edges] = weight;
            surveyed.edges += weight == weight ? 1 : 0;
        }
    }
    const auto* first = reinterpret_cast<const std::byte*>(some);
    surveyed.extent = extent_of(Strided<T>{first, surveyed.edges, 1, sizeof(T), 0}, grid);
    return surveyed;
}

template <class T>
DenseSurvey survey(const Strided<T>& given, Grid grid) {
    const std::int64_t n = given.rows;
    DenseSurvey surveyed;
    if (n < 2) {
        return surveyed;
    }
    if (n <= kFewRows) {
        return survey_pairs(given, grid);
    }
    const Strided<T> weights = by_rows(given);
    const T filler = filler_of(weights);
    const auto compare = compare_kernel<T>();
    Survey<T> values(filler, grid);
    Tile<T> tile;
    Tile<T> mirrored;
    std::int64_t present = 0;  // pairs count twice
    for (std::int64_t top = 0; top < n && !surveyed.asymmetric; top += kTile) {
        const std::int64_t height = std::min(kTile, n - top);
        for (std::int64_t left = top; left < n; left += kTile) {
            if (left + kTile > n) {
                tile.fill(filler, height);
                mirrored.fill(filler, height);
            }
            tile.read(weights, top, left);
            mirrored.read(weights.transposed(), top, left);
            if (top == left) {
                tile.set_diagonal(filler, height);
                mirrored.set_diagonal(filler, height);
            }
            const Comparison compared = compare(tile, mirrored, height, values);
            present += top == left ? compared.present : 2 * compared.present;
            for (std::int64_t i = 0; i < height && !compared.symmetric; ++i) {
                for (std::int64_t j = 0; j < kTile; ++j) {
                    if (differ(tile.cells[i][j], mirrored.cells[i][j])) {
                        const std::pair pair{top + i, left + j};
                        surveyed.asymmetric = std::min(pair, surveyed.asymmetric.value_or(pair));
                    }
                }
            }
        }
    }
    surveyed.edges = std::is_floating_point_v<T> ? present / 2 : n * (n - 1) / 2;
    if (surveyed.edges > 0) {
        surveyed.extent = values.extent();
    }
    return surveyed;
}

void refuse_unless(bool fine) {
    if (!fine) {
        throw std::invalid_argument("a weight is not finite or more than heaviest");
    }
}

// Whether all weights are allowed.
template <class T, class Lane>
bool write_pairs(const Strided<T>& weights, const Scale& scale, Lane absent, Lane* matrix) {
    const std::int64_t n = weights.rows;
    const Scaler<T> scaler(scale);
    bool fine = true;
    for (std::int64_t i = 0; i < n; ++i) {
        matrix[i * n + i] = absent;
        for (std::int64_t j = i + 1; j < n; ++j) {
            const std::int64_t count = scaler(weights.at(i, j));
            const bool counts = 0 < count && count <= scale.heaviest;
            fine &= count <= scale.heaviest;
            const Lane doubled = counts ? static_cast<Lane>(2 * count) : absent;
            matrix[i * n + j] = matrix[j * n + i] = doubled;
        }
    }
    return fine;
}

template <class T, class Lane>
void write(const Strided<T>& given, const Scale& scale, Lane absent, Lane* matrix) {
    const std::int64_t n = given.rows;
    if (n <= kFewRows) {
        return refuse_unless(write_pairs(given, scale, absent, matrix));
    }
    const Strided<T> weights = by_rows(given);
    const T filler = filler_of(weights);
    const auto convert = convert_kernel<T, Lane>();
    const Scaler<T> scaler(scale);
    Tile<T> tile;
    Tile<Lane> doubled;
    Tile<Lane> mirrored;
    tile.fill(filler, std::min(kTile, n));
    bool fine = true;
    for (std::int64_t top = 0; top < n; top += kTile) {
        const std::int64_t height = std::min(kTile, n - top);
        for (std::int64_t left = top; left < n; left += kTile) {
            const std::int64_t width = std::min(kTile, n - left);
            tile.read(weights, top, left);
            if (top == left) {
                tile.set_diagonal(filler, height);
            }
            fine &= convert(tile, height, scaler, scale.heaviest, absent, doubled);
            if (top == left) {
                doubled.set_diagonal(absent, height);
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
    refuse_unless(fine);
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
