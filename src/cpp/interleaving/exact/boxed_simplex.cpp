#include "interleaving/exact/boxed_simplex.hpp"

#include <algorithm>
#include <cmath>

#include "interleaving/exact/precision.hpp"

namespace hivecore::interleaving {
namespace {

constexpr double kFeasible = 1e-9;
constexpr int kFresh = 60;     // pivots between fresh inverses
constexpr int kGiveUp = 2000;  // pivots of one solve

}  // namespace

BoxedSimplex::BoxedSimplex(std::shared_ptr<const Equations> matrix, const std::vector<int>& right,
                           std::vector<double> lower, std::vector<double> upper)
    : matrix_(std::move(matrix)),
      rows_(matrix_->rows),
      columns_(matrix_->columns),
      right_(right.begin(), right.end()),
      state_{std::move(lower), std::move(upper), std::vector<int>(rows_), Matrix(rows_, rows_), 0},
      high_(columns_ + rows_),
      x_(columns_ + rows_),
      gain_(columns_ + rows_),
      price_(rows_),
      row_(columns_),
      movable_(columns_),
      ray_(rows_) {
    state_.lower.resize(columns_ + rows_, 0.0);
    state_.upper.resize(columns_ + rows_, 0.0);
    for (int r = 0; r < rows_; ++r) {
        state_.basis[r] = columns_ + r;
        inverse(r)[r] = 1.0;
    }
    find_places();
}

void BoxedSimplex::start_from(const std::vector<int>& basis) {
    state_.basis = basis;
    state_.age = kFresh;
    find_places();
}

void BoxedSimplex::resume(State state) {
    state_ = std::move(state);
    find_places();
}

void BoxedSimplex::find_places() {
    place_.assign(columns_ + rows_, -1);
    for (int r = 0; r < rows_; ++r) {
        place_[state_.basis[r]] = r;
    }
}

LpStatus BoxedSimplex::solve() {
    if (!prepare()) {
        return LpStatus::kGaveUp;
    }
    for (int pivots = 0; pivots < kGiveUp; ++pivots) {
        const int row = most_violated();
        if (row < 0) {
            return LpStatus::kOptimal;
        }
        if (!step(row)) {
            return LpStatus::kInfeasible;
        }
        if (state_.age >= kFresh && !prepare()) {
            return LpStatus::kGaveUp;
        }
    }
    return LpStatus::kGaveUp;
}

double BoxedSimplex::bound() const {
    double total = 0.0;
    for (int r = 0; r < rows_; ++r) {
        total += price_[r] * right_[r];
    }
    for (int c = 0; c < columns_; ++c) {
        const double gain = gain_[c];
        total += gain > 0 ? gain * state_.upper[c] : gain * state_.lower[c];
    }
    return total;
}

// --- from the basis alone -----------------------------------------------------------------------

// False if the basis has no inverse, as far as one can tell.
bool BoxedSimplex::prepare() {
    if (state_.age >= kFresh && !invert_basis()) {
        return false;
    }
    price_out();
    stand_at_bounds();
    compute_basic();
    work_ += static_cast<std::int64_t>(rows_) * columns_;
    return true;
}

bool BoxedSimplex::invert_basis() {
    Matrix columns(rows_, rows_);
    for (int r = 0; r < rows_; ++r) {
        for (int i = 0; i < rows_; ++i) {
            const int c = state_.basis[i];
            const double artificial = c - columns_ == r ? 1.0 : 0.0;
            columns.row(r)[i] = is_artificial(c) ? artificial : matrix_->row(r)[c];
        }
    }
    if (!invert(std::move(columns), state_.inverse)) {
        return false;
    }
    state_.age = 0;
    return true;
}

void BoxedSimplex::price_out() {
    std::fill(price_.begin(), price_.end(), 0.0);
    for (int i = 0; i < rows_; ++i) {
        const int c = state_.basis[i];
        if (!is_artificial(c)) {
            add(price_.data(), matrix_->value[c], inverse(i), rows_);
        }
    }
    std::copy(matrix_->value.begin(), matrix_->value.end(), gain_.begin());
    for (int r = 0; r < rows_; ++r) {
        add(gain_.data(), -price_[r], matrix_->row(r), columns_);
    }
    for (const int c : state_.basis) {
        gain_[c] = 0.0;
    }
}

void BoxedSimplex::stand_at_bounds() {
    for (int c = 0; c < columns_; ++c) {
        if (place_[c] < 0) {
            high_[c] = gain_[c] > 0;
            x_[c] = high_[c] ? state_.upper[c] : state_.lower[c];
        }
    }
}

void BoxedSimplex::compute_basic() {
    standing_.clear();
    for (int c = 0; c < columns_; ++c) {
        if (place_[c] < 0 && x_[c] != 0.0) {
            standing_.push_back(c);
        }
    }
    for (int r = 0; r < rows_; ++r) {
        double left = right_[r];
        const double* row = matrix_->row(r);
        for (const int c : standing_) {
            left -= row[c] * x_[c];
        }
        ray_[r] = left;
    }
    for (int i = 0; i < rows_; ++i) {
        double x = 0.0;
        for (int r = 0; r < rows_; ++r) {
            x += inverse(i)[r] * ray_[r];
        }
        x_[state_.basis[i]] = x;
    }
}

// --- one step -----------------------------------------------------------------------------------

// The row that violates a bound the most, measured along its own direction, or -1.
int BoxedSimplex::most_violated() const {
    int best = -1;
    double worst = 0.0;
    for (int i = 0; i < rows_; ++i) {
        const int c = state_.basis[i];
        const double over = std::max(state_.lower[c] - x_[c], x_[c] - state_.upper[c]);
        if (over <= kFeasible) {
            continue;
        }
        double norm = 0.0;
        for (int r = 0; r < rows_; ++r) {
            norm += inverse(i)[r] * inverse(i)[r];
        }
        if (over * over > worst * norm) {
            worst = over * over / norm;
            best = i;
        }
    }
    return best;
}

// Some bounds flipped and one pivot. False if the row proves infeasibility.
bool BoxedSimplex::step(int row) {
    const int c = state_.basis[row];
    Leaving leaving{row, x_[c] < state_.lower[c], 0.0, false};
    leaving.lack = leaving.rises ? state_.lower[c] - x_[c] : x_[c] - state_.upper[c];
    compute_row(row);
    const int entering = find_entering(leaving);
    if (entering < 0) {
        return false;
    }
    if (leaving.flips) {
        compute_basic();
    }
    compute_ray(entering);
    move(leaving, entering);
    update_prices(row, entering);
    pivot(row, entering);
    work_ += static_cast<std::int64_t>(rows_) * columns_;
    return true;
}

void BoxedSimplex::compute_row(int row) {
    std::fill(row_.begin(), row_.end(), 0.0);
    for (int r = 0; r < rows_; ++r) {
        const double weight = inverse(row)[r];
        if (weight != 0.0) {
            add(row_.data(), weight, matrix_->row(r), columns_);
        }
    }
}

// Of the columns that can move the one that leaves towards its bound: what a unit of that costs.
void BoxedSimplex::list_ratios(bool rises) {
    // Whether a column can is as good as random, so that a branch would be guessed wrong often.
    const double sign = rises ? 1.0 : -1.0;
    std::size_t count = 0;
    for (int c = 0; c < columns_; ++c) {
        const double helps = high_[c] ? sign * row_[c] : -sign * row_[c];
        const bool is_free = (place_[c] < 0) & (state_.upper[c] > state_.lower[c]);
        movable_[count] = c;
        count += static_cast<std::size_t>((helps > kPivot) & is_free);
    }
    ratios_.clear();
    for (std::size_t i = 0; i < count; ++i) {
        const int c = movable_[i];
        ratios_.emplace_back(std::fabs(gain_[c] / row_[c]), c);
    }
}

// Columns that can fill the lack, by ratio: each goes to its other bound while that is not enough,
// and the first one that is enough enters. -1 if all together are not.
int BoxedSimplex::find_entering(Leaving& leaving) {
    list_ratios(leaving.rises);
    const auto later = [](const auto& a, const auto& b) { return a > b; };
    std::make_heap(ratios_.begin(), ratios_.end(), later);
    while (!ratios_.empty()) {
        std::pop_heap(ratios_.begin(), ratios_.end(), later);
        const int c = ratios_.back().second;
        ratios_.pop_back();
        const double span = std::fabs(row_[c]) * (state_.upper[c] - state_.lower[c]);
        if (span >= leaving.lack - kFeasible) {
            return c;
        }
        leaving.lack -= span;
        leaving.flips = true;
        high_[c] = !high_[c];
        x_[c] = high_[c] ? state_.upper[c] : state_.lower[c];
    }
    return -1;
}

void BoxedSimplex::compute_ray(int entering) {
    for (int i = 0; i < rows_; ++i) {
        double entry = 0.0;
        for (int r = 0; r < rows_; ++r) {
            entry += inverse(i)[r] * matrix_->row(r)[entering];
        }
        ray_[i] = entry;
    }
}

void BoxedSimplex::move(const Leaving& leaving, int entering) {
    const int out = state_.basis[leaving.row];
    const double target = leaving.rises ? state_.lower[out] : state_.upper[out];
    const double by = (x_[out] - target) / ray_[leaving.row];
    for (int i = 0; i < rows_; ++i) {
        x_[state_.basis[i]] -= by * ray_[i];
    }
    x_[entering] += by;
    x_[out] = target;
    high_[out] = !leaving.rises;
}

void BoxedSimplex::update_prices(int row, int entering) {
    const double ratio = gain_[entering] / row_[entering];
    add(price_.data(), ratio, inverse(row), rows_);
    add(gain_.data(), -ratio, row_.data(), columns_);
}

void BoxedSimplex::pivot(int row, int entering) {
    place_[state_.basis[row]] = -1;
    state_.basis[row] = entering;
    place_[entering] = row;
    for (int r = 0; r < rows_; ++r) {
        inverse(row)[r] /= ray_[row];
    }
    for (int i = 0; i < rows_; ++i) {
        if (i != row && ray_[i] != 0.0) {
            add(inverse(i), -ray_[i], inverse(row), rows_);
        }
    }
    for (const int c : state_.basis) {
        gain_[c] = 0.0;
    }
    ++state_.age;
}

}  // namespace hivecore::interleaving
