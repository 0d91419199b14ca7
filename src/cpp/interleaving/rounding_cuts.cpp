#include "interleaving/rounding_cuts.hpp"

#include <algorithm>
#include <cmath>

namespace hivecore::interleaving {

namespace {

constexpr int kLargestDivisor = 2000;
constexpr int kMultiples = 6;
constexpr int kMostHalves = 10;  // rows of which all sets are tried
constexpr double kViolated = 1e-3;

// The multipliers as whole numbers over a divisor, which is 0 if there is none.
int divisor_of(const std::vector<double>& u, std::vector<int>& k) {
    for (int d = 2; d <= kLargestDivisor; ++d) {
        bool all = true;
        for (std::size_t r = 0; r < u.size() && all; ++r) {
            const double scaled = u[r] * d;
            k[r] = static_cast<int>(std::lround(scaled));
            all = std::fabs(scaled - k[r]) < 1e-6;
        }
        if (all) {
            return d;
        }
    }
    return 0;
}

}  // namespace

std::vector<Cut> rounding_cuts(const Matrix& matrix, int columns, const std::vector<int>& right,
                               const BoxedSimplex& program, int most) {
    const int rows = matrix.rows;
    // A column outside the basis at its upper bound counts from there, as upper - x.
    std::vector<int> support;
    std::vector<bool> from_above(matrix.columns, false);
    std::vector<int> above;
    for (int c = 0; c < matrix.columns; ++c) {
        if (program.x(c) > 1e-9) {
            support.push_back(c);
            if (c < columns && !program.basic(c)) {
                from_above[c] = true;
                above.push_back(c);
            }
        }
    }
    // u A of a column, and u b less that of the columns that count from above, times the divisor.
    const auto scaled = [&](const std::vector<int>& k, int c) {
        long sum = 0;
        for (int r = 0; r < rows; ++r) {
            sum += long(k[r]) * long(matrix.row(r)[c]);
        }
        return sum;
    };
    const auto remaining = [&](const std::vector<int>& k) {
        long total = 0;
        for (int r = 0; r < rows; ++r) {
            total += long(k[r]) * right[r];
        }
        for (const int c : above) {
            total -= scaled(k, c) * std::lround(program.upper(c));
        }
        return total;
    };
    const auto floor_of = [](long n, int d) { return n >= 0 ? n / d : -((-n + d - 1) / d); };
    const auto entry_of = [&](const std::vector<int>& k, int d, int c) {
        const long sum = scaled(k, c);
        return from_above[c] ? -floor_of(-sum, d) : floor_of(sum, d);
    };
    const auto right_of = [&](const std::vector<int>& k, int d, long total) {
        long value = floor_of(total, d);
        for (const int c : above) {
            value += entry_of(k, d, c) * std::lround(program.upper(c));
        }
        return value;
    };
    struct Candidate {
        double depth;
        int divisor;
        std::vector<int> k;
    };
    std::vector<Candidate> candidates;
    const auto consider = [&](const std::vector<int>& k, int d) {
        const long total = remaining(k);
        if (total % d == 0) {
            return;
        }
        double violation = -double(right_of(k, d, total));
        double norm = 0.0;
        for (const int c : support) {
            const double entry = double(entry_of(k, d, c));
            violation += entry * program.x(c);
            norm += entry * entry;
        }
        if (violation > kViolated) {
            candidates.push_back({violation / std::sqrt(norm), d, k});
        }
    };
    std::vector<int> k(rows, 0);
    std::vector<double> u(rows);
    for (int i = 0; i < rows; ++i) {
        const int c = program.basis()[i];
        const double x = c < matrix.columns ? program.x(c) : 0.0;
        if (std::fabs(x - std::round(x)) < 1e-6) {
            continue;
        }
        for (int h = 1; h <= kMultiples; ++h) {
            for (const int sign : {1, -1}) {
                for (int r = 0; r < rows; ++r) {
                    const double v = sign * h * program.inverse(i, r);
                    u[r] = v - std::floor(v + 1e-7);
                    u[r] = std::max(u[r], 0.0);
                }
                const int d = divisor_of(u, k);
                if (d > 0) {
                    consider(k, d);
                }
            }
        }
    }
    const int halves = std::min(rows, kMostHalves);
    for (int set = 1; set < 1 << halves; ++set) {
        for (int r = 0; r < halves; ++r) {
            k[r] = set >> r & 1;
        }
        std::fill(k.begin() + halves, k.end(), 0);
        consider(k, 2);
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto& a, const auto& b) { return a.depth > b.depth; });
    std::vector<Cut> cuts;
    for (const Candidate& one : candidates) {
        if (static_cast<int>(cuts.size()) == most) {
            break;
        }
        Cut cut{std::vector<int>(matrix.columns), 0, one.depth};
        cut.right = static_cast<int>(right_of(one.k, one.divisor, remaining(one.k)));
        for (int c = 0; c < matrix.columns; ++c) {
            cut.entries[c] = static_cast<int>(entry_of(one.k, one.divisor, c));
        }
        bool known = false;
        for (const Cut& other : cuts) {
            known = known || (other.right == cut.right && other.entries == cut.entries);
        }
        if (!known) {
            cuts.push_back(std::move(cut));
        }
    }
    return cuts;
}

}  // namespace hivecore::interleaving
