#include "interleaving/exact/rounding_cuts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "interleaving/exact/precision.hpp"

namespace hivecore::interleaving {
namespace {

using Whole = std::int64_t;

constexpr int kLargestDivisor = 2000;
constexpr int kMultiples = 6;
constexpr int kMaxHalves = 10;  // rows of which all sets are tried
constexpr double kViolated = 1e-3;
constexpr double kZero = 1e-9;
constexpr Whole kLargest = 1'000'000'000;  // number in a cut

Whole floor_of(Whole n, Whole d) {
    return n >= 0 ? n / d : -((d - 1 - n) / d);
}

class Rounding {
  public:
    Rounding(const Matrix& matrix, int columns, const std::vector<int>& right,
             const BoxedSimplex& program)
        : matrix_(matrix),
          columns_(columns),
          right_(right),
          program_(program),
          u_(matrix.rows),
          k_(matrix.rows) {
        for (int c = 0; c < matrix.columns; ++c) {
            if (program.x(c) > kZero) {
                support_.push_back(column(c));
                if (support_.back().is_from_above) {
                    from_above_.push_back(support_.size() - 1);
                }
            }
        }
    }

    void try_inverse() {
        for (int i = 0; i < matrix_.rows; ++i) {
            const int c = program_.basis()[i];
            const double x = c < matrix_.columns ? program_.x(c) : 0.0;
            if (std::fabs(x - std::round(x)) < kIntegral) {
                continue;
            }
            for (int multiple = 1; multiple <= kMultiples; ++multiple) {
                try_row_of_inverse(i, multiple);
                try_row_of_inverse(i, -multiple);
            }
        }
    }

    void try_halves() {
        const int rows = std::min(matrix_.rows, kMaxHalves);
        std::fill(k_.begin(), k_.end(), 0);
        for (unsigned set = 1; set < 1U << rows; ++set) {
            for (int r = 0; r < rows; ++r) {
                k_[r] = set >> r & 1U;
            }
            consider(2);
        }
    }

    std::vector<Cut> deepest(std::size_t most) {
        std::stable_sort(candidates_.begin(), candidates_.end(),
                         [](const auto& a, const auto& b) { return a.depth > b.depth; });
        std::vector<Cut> cuts;
        for (const Candidate& candidate : candidates_) {
            if (cuts.size() == most) {
                break;
            }
            Cut cut = cut_of(candidate);
            if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) {
                cuts.push_back(std::move(cut));
            }
        }
        return cuts;
    }

  private:
    struct Column {
        bool is_from_above;
        Whole upper;
        double x;
        std::vector<Whole> entries;  // per row
    };

    struct Candidate {
        double depth;  // how far the fractional solution is beyond it
        int divisor;
        std::vector<Whole> k;  // per row, its multiplier times the divisor
        Whole right;
    };

    bool is_from_above(int c) const {
        return c < columns_ && program_.x(c) > kZero && !program_.is_basic(c);
    }

    Column column(int c) const {
        Column values{is_from_above(c), static_cast<Whole>(program_.upper(c)), program_.x(c), {}};
        for (int r = 0; r < matrix_.rows; ++r) {
            values.entries.push_back(static_cast<Whole>(matrix_.row(r)[c]));
        }
        return values;
    }

    void try_row_of_inverse(int i, int multiple) {
        for (int r = 0; r < matrix_.rows; ++r) {
            const double v = multiple * program_.inverse(i)[r];
            u_[r] = std::max(v - std::floor(v + 1e-7), 0.0);
        }
        if (const int divisor = find_divisor()) {
            consider(divisor);
        }
    }

    // The least one that makes whole numbers of the multipliers, or 0; sets these numbers.
    int find_divisor() {
        for (int d = 2; d <= kLargestDivisor; ++d) {
            bool are_whole = true;
            for (std::size_t r = 0; r < u_.size() && are_whole; ++r) {
                const double scaled = u_[r] * d;
                k_[r] = static_cast<Whole>(scaled + 0.5);
                are_whole = std::fabs(scaled - static_cast<double>(k_[r])) < kIntegral;
            }
            if (are_whole) {
                return d;
            }
        }
        return 0;
    }

    // Keeps the cut of these multipliers if the fractional solution violates it.
    void consider(int divisor) {
        Whole left = 0;  // of the right side, where the columns from above stand
        for (std::size_t r = 0; r < right_.size(); ++r) {
            left += k_[r] * right_[r];
        }
        for (const std::size_t i : from_above_) {
            left -= support_[i].upper * sum(k_, support_[i]);
        }
        if (left % divisor == 0) {
            return;
        }
        Whole right = floor_of(left, divisor);
        for (const std::size_t i : from_above_) {
            right += support_[i].upper * rounded(sum(k_, support_[i]), divisor, true);
        }
        double violation = -static_cast<double>(right);
        double norm = 0.0;
        for (const Column& column : support_) {
            const auto entry =
                static_cast<double>(rounded(sum(k_, column), divisor, column.is_from_above));
            violation += entry * column.x;
            norm += entry * entry;
        }
        if (violation > kViolated && std::abs(right) <= kLargest) {
            candidates_.push_back({violation / std::sqrt(norm), divisor, k_, right});
        }
    }

    static Whole sum(const std::vector<Whole>& k, const Column& column) {
        Whole sum = 0;
        for (std::size_t r = 0; r < k.size(); ++r) {
            sum += k[r] * column.entries[r];
        }
        return sum;
    }

    static Whole rounded(Whole sum, int divisor, bool is_from_above) {
        return is_from_above ? -floor_of(-sum, divisor) : floor_of(sum, divisor);
    }

    Cut cut_of(const Candidate& candidate) {
        scaled_.assign(matrix_.columns, 0.0);  // whole numbers below 2^53
        for (int r = 0; r < matrix_.rows; ++r) {
            if (candidate.k[r] != 0) {
                const auto k = static_cast<double>(candidate.k[r]);
                std::transform(scaled_.begin(), scaled_.end(), matrix_.row(r), scaled_.begin(),
                               [k](double sum, double entry) { return sum + k * entry; });
            }
        }
        Cut cut{std::vector<int>(matrix_.columns), static_cast<int>(candidate.right)};
        for (int c = 0; c < matrix_.columns; ++c) {
            const auto sum = static_cast<Whole>(scaled_[c]);
            const Whole entry = rounded(sum, candidate.divisor, is_from_above(c));
            cut.entries[c] = static_cast<int>(std::min(entry, kLargest));  // weaker, as x >= 0
        }
        return cut;
    }

    const Matrix& matrix_;
    int columns_;  // without slacks
    const std::vector<int>& right_;
    const BoxedSimplex& program_;
    std::vector<Column> support_;          // columns that are not 0
    std::vector<std::size_t> from_above_;  // places in it
    std::vector<Candidate> candidates_;

    // Of one cut.
    std::vector<double> u_;       // multipliers
    std::vector<Whole> k_;        // times the divisor
    std::vector<double> scaled_;  // per column, its entry times the divisor
};

}  // namespace

std::vector<Cut> rounding_cuts(const Matrix& matrix, int columns, const std::vector<int>& right,
                               const BoxedSimplex& program, std::size_t most) {
    Rounding rounding(matrix, columns, right, program);
    rounding.try_inverse();
    rounding.try_halves();
    return rounding.deepest(most);
}

}  // namespace hivecore::interleaving
