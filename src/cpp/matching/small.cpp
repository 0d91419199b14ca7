#include "matching/small.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <variant>
#include <vector>

#include "matching/dense/input.hpp"
#include "matching/numbers/rows.hpp"
#include "matching/numbers/scale.hpp"

namespace hivecore::matching {
namespace {

constexpr std::int64_t kTooLarge = std::int64_t{1} << 57;

// The multiple of 2^grid that a weight is; kTooLarge if it is as large.
std::int64_t count_of(const Number& weight, int grid) {
    return std::visit(
        [grid]<class T>(T value) {
            if constexpr (std::is_floating_point_v<T>) {
                const double count = grid == 0 ? value : std::ldexp(value, -grid);
                return std::fabs(count) < static_cast<double>(kTooLarge)
                           ? static_cast<std::int64_t>(count)
                           : kTooLarge;
            } else if constexpr (std::is_unsigned_v<T>) {
                return static_cast<std::int64_t>(std::min<T>(value, kTooLarge));
            } else {
                return -kTooLarge < value && value < kTooLarge ? value : kTooLarge;
            }
        },
        weight);
}

// Where only positive weights matter, floats below 0 may be as low as they like, if finite.
std::int64_t low_of(const Extent& extent, bool most_edges) {
    const double* low = std::get_if<double>(&extent.low);
    if (most_edges || low == nullptr) {
        return count_of(extent.low, extent.grid);
    }
    return std::isfinite(*low) ? 0 : kTooLarge;
}

// How weights count; none if too much for 64 bits: half of n weights and offsets are added up.
std::optional<Scale> scale_of(std::int64_t n, std::int64_t edges, const Extent& extent,
                              const SmallGoal& goal) {
    const std::int64_t too_large = std::min(kTooLarge, (std::int64_t{1} << 62) / n);
    const std::int64_t low = low_of(extent, goal.most_edges);
    const std::int64_t high = count_of(extent.high, extent.grid);
    if (std::max({low, -low, high, -high}) >= too_large) {
        return std::nullopt;
    }
    Scale scale{.exponent = extent.grid, .sense = goal.sense};
    if (goal.most_edges) {
        // k + 1 edges weigh more than k, as they do by the caller's own choice of an offset.
        const bool complete = 2 * edges == n * (n - 1);
        const std::int64_t lightest = complete ? 1 : (n / 2 - 1) * (high - low) + 1;
        scale.offset = lightest - (goal.sense > 0 ? low : -high);
        scale.heaviest = lightest + (high - low);
    } else {
        scale.floor = 0;
        scale.heaviest = std::max<std::int64_t>(0, high);
    }
    return scale.heaviest <= kMaxWeight ? std::optional{scale} : std::nullopt;
}

Number weight_of(std::uint64_t count, const Extent& extent, int exponent) {
    const auto sum = static_cast<std::int64_t>(count);
    return std::holds_alternative<double>(extent.low)
               ? Number{std::ldexp(static_cast<double>(sum), exponent)}
               : Number{sum};
}

// The sum over all pairs of count(u, v), u < v; unsigned, so that another thread that writes to
// the weights meanwhile can at worst spoil it.
template <class Count>
std::uint64_t sum_of_pairs(const Matching& matching, Count count) {
    const auto n = static_cast<std::int64_t>(matching.mate.size());
    std::uint64_t sum = 0;
    for (std::int64_t u = 0; u < n; ++u) {
        if (matching.mate[u] > u) {
            sum += static_cast<std::uint64_t>(count(u, matching.mate[u]));
        }
    }
    return sum;
}

}  // namespace

std::optional<SmallMatching> solve_small(const Numbers& weights, const SmallGoal& goal) {
    const auto n = std::visit([](const auto& array) { return array.rows; }, weights);
    const auto seen = survey_dense(weights, goal.most_edges ? Grid::kOfAll : Grid::kOfPositive);
    if (seen.asymmetric || seen.edges == 0) {
        return std::nullopt;
    }
    const auto scale = scale_of(n, seen.edges, seen.extent, goal);
    if (!scale) {
        return std::nullopt;
    }
    SmallMatching solved{solve_dense(weights, *scale), scale->exponent, scale->offset, {}};
    const std::uint64_t count = std::visit(
        [&]<class T>(const Strided<T>& array) {
            const Scaler<T> scaler(Scale{.exponent = scale->exponent});
            return sum_of_pairs(solved.matching, [&](std::int64_t u, std::int64_t v) {
                return scaler(array.at(u, v));
            });
        },
        weights);
    solved.weight = weight_of(count, seen.extent, scale->exponent);
    return solved;
}

std::optional<SmallMatching> solve_small(std::int64_t n, const Numbers& u, const Numbers& v,
                                         const Numbers& weights, const SmallGoal& goal) {
    const Rows rows = rows_of(n, u, v);
    if (rows.outside >= 0 || rows.loop >= 0 || rows.repeated >= 0 || rows.neighbours.empty()) {
        return std::nullopt;
    }
    const auto edges = static_cast<std::int64_t>(rows.neighbours.size()) / 2;
    const Extent extent = extent_of(weights, goal.most_edges ? Grid::kOfAll : Grid::kOfPositive);
    const auto scale = scale_of(n, edges, extent, goal);
    if (!scale) {
        return std::nullopt;
    }
    const std::vector<std::int64_t> given = scaled(weights, *scale);
    if (std::ranges::find(given, kNoEdge) != given.end()) {
        return std::nullopt;
    }
    std::vector<std::int64_t> counts;
    counts.reserve(rows.edges.size());
    for (const std::int32_t edge : rows.edges) {
        counts.push_back(given[edge]);
    }
    SmallMatching solved{
        solve_sparse(n, rows.offsets, rows.neighbours, counts), scale->exponent, scale->offset, {}};
    const std::uint64_t count =
        sum_of_pairs(solved.matching, [&](std::int64_t from, std::int64_t to) {
            const auto row = rows.neighbours.begin() + rows.offsets[from];
            const auto end = rows.neighbours.begin() + rows.offsets[from + 1];
            const auto entry = std::lower_bound(row, end, to) - rows.neighbours.begin();
            return goal.sense * (counts[entry] - scale->offset);
        });
    solved.weight = weight_of(count, extent, scale->exponent);
    return solved;
}

}  // namespace hivecore::matching
