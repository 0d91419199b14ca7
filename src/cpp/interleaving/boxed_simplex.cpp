#include "interleaving/boxed_simplex.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hivecore::interleaving {

namespace {

constexpr double kFeasible = 1e-9;
constexpr double kPivot = 1e-9;
constexpr int kRefactor = 60;  // pivots between fresh inverses
constexpr int kGiveUp = 2000;  // pivots of one solve

}  // namespace

BoxedSimplex::BoxedSimplex(const Matrix& matrix, std::vector<double> right,
                           std::vector<double> lower, std::vector<double> upper)
    : matrix_(&matrix),
      rows_(matrix.rows),
      columns_(matrix.columns),
      right_(std::move(right)),
      lower_(std::move(lower)),
      upper_(std::move(upper)),
      x_(columns_ + rows_, 0.0),
      gain_(columns_ + rows_, 0.0),
      price_(rows_, 0.0),
      inverse_(std::size_t(rows_) * rows_, 0.0),
      basis_(rows_),
      place_(columns_ + rows_, -1),
      high_(columns_ + rows_, 0),
      alpha_(columns_, 0.0),
      ray_(rows_, 0.0) {
    lower_.resize(columns_ + rows_, 0.0);
    upper_.resize(columns_ + rows_, 0.0);
    for (int r = 0; r < rows_; ++r) {
        basis_[r] = columns_ + r;
        place_[columns_ + r] = r;
        inverse_[std::size_t(r) * rows_ + r] = 1.0;
    }
}

void BoxedSimplex::start_from(const std::vector<int>& basis) {
    std::fill(place_.begin(), place_.end(), -1);
    basis_ = basis;
    for (int r = 0; r < rows_; ++r) {
        place_[basis_[r]] = r;
    }
    since_refactor_ = kRefactor;
}

LpStatus BoxedSimplex::solve() {
    if (since_refactor_ >= kRefactor && !refactor()) {
        return LpStatus::kGaveUp;
    }
    price_out();
    place_at_bounds();
    compute_basic();
    for (int pivots = 0; pivots < kGiveUp; ++pivots) {
        const int row = leaving();
        if (row < 0) {
            return LpStatus::kOptimal;
        }
        if (!step(row)) {
            return LpStatus::kInfeasible;
        }
        if (since_refactor_ >= kRefactor) {
            if (!refactor()) {
                return LpStatus::kGaveUp;
            }
            price_out();
            place_at_bounds();
            compute_basic();
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
        total += gain > 0 ? gain * upper_[c] : gain * lower_[c];
    }
    return total;
}

// Gauss-Jordan with the largest pivot in each column; the order of the basis is free.
bool BoxedSimplex::refactor() {
    const int m = rows_;
    std::vector<double> work(std::size_t(m) * m);
    std::fill(inverse_.begin(), inverse_.end(), 0.0);
    for (int r = 0; r < m; ++r) {
        inverse_[std::size_t(r) * m + r] = 1.0;
        for (int i = 0; i < m; ++i) {
            const int c = basis_[i];
            work[std::size_t(r) * m + i] =
                artificial(c) ? (c - columns_ == r ? 1.0 : 0.0) : matrix_->row(r)[c];
        }
    }
    for (int i = 0; i < m; ++i) {
        int best = i;
        for (int r = i + 1; r < m; ++r) {
            if (std::fabs(work[std::size_t(r) * m + i]) >
                std::fabs(work[std::size_t(best) * m + i])) {
                best = r;
            }
        }
        const double head = work[std::size_t(best) * m + i];
        if (std::fabs(head) < kPivot) {
            return false;
        }
        if (best != i) {
            std::swap_ranges(&work[std::size_t(i) * m], &work[std::size_t(i) * m] + m,
                             &work[std::size_t(best) * m]);
            std::swap_ranges(&inverse_[std::size_t(i) * m], &inverse_[std::size_t(i) * m] + m,
                             &inverse_[std::size_t(best) * m]);
        }
        for (int k = 0; k < m; ++k) {
            work[std::size_t(i) * m + k] /= head;
            inverse_[std::size_t(i) * m + k] /= head;
        }
        for (int r = 0; r < m; ++r) {
            const double factor = work[std::size_t(r) * m + i];
            if (r == i || factor == 0.0) {
                continue;
            }
            for (int k = 0; k < m; ++k) {
                work[std::size_t(r) * m + k] -= factor * work[std::size_t(i) * m + k];
                inverse_[std::size_t(r) * m + k] -= factor * inverse_[std::size_t(i) * m + k];
            }
        }
    }
    since_refactor_ = 0;
    return true;
}

void BoxedSimplex::price_out() {
    for (int r = 0; r < rows_; ++r) {
        double price = 0.0;
        for (int i = 0; i < rows_; ++i) {
            if (!artificial(basis_[i])) {
                price += matrix_->value[basis_[i]] * inverse_[std::size_t(i) * rows_ + r];
            }
        }
        price_[r] = price;
    }
    std::copy(matrix_->value.begin(), matrix_->value.end(), gain_.begin());
    for (int r = 0; r < rows_; ++r) {
        const double price = price_[r];
        const double* row = matrix_->row(r);
        double* gain = gain_.data();
        for (int c = 0; c < columns_; ++c) {
            gain[c] -= price * row[c];
        }
    }
    for (int i = 0; i < rows_; ++i) {
        gain_[basis_[i]] = 0.0;
    }
}

void BoxedSimplex::place_at_bounds() {
    for (int c = 0; c < columns_; ++c) {
        if (place_[c] < 0) {
            high_[c] = gain_[c] > 0;
            x_[c] = high_[c] ? upper_[c] : lower_[c];
        }
    }
}

void BoxedSimplex::compute_basic() {
    for (int r = 0; r < rows_; ++r) {
        double left = right_[r];
        const double* row = matrix_->row(r);
        for (int c = 0; c < columns_; ++c) {
            left -= place_[c] < 0 ? row[c] * x_[c] : 0.0;
        }
        ray_[r] = left;
    }
    for (int i = 0; i < rows_; ++i) {
        double x = 0.0;
        for (int r = 0; r < rows_; ++r) {
            x += inverse_[std::size_t(i) * rows_ + r] * ray_[r];
        }
        x_[basis_[i]] = x;
    }
}

// The row that violates a bound the most, measured along its own direction.
int BoxedSimplex::leaving() const {
    int best = -1;
    double worst = 0.0;
    for (int i = 0; i < rows_; ++i) {
        const int c = basis_[i];
        const double over = std::max(lower_[c] - x_[c], x_[c] - upper_[c]);
        if (over <= kFeasible) {
            continue;
        }
        double norm = 0.0;
        for (int r = 0; r < rows_; ++r) {
            norm += inverse_[std::size_t(i) * rows_ + r] * inverse_[std::size_t(i) * rows_ + r];
        }
        if (over * over > worst * norm) {
            worst = over * over / norm;
            best = i;
        }
    }
    return best;
}

// One pivot, or several bounds flipped and one pivot. False if the row proves infeasibility.
bool BoxedSimplex::step(int row) {
    const int out = basis_[row];
    const bool low = x_[out] < lower_[out];
    double lack = low ? lower_[out] - x_[out] : x_[out] - upper_[out];
    std::fill(alpha_.begin(), alpha_.end(), 0.0);
    for (int r = 0; r < rows_; ++r) {
        const double weight = inverse_[std::size_t(row) * rows_ + r];
        if (weight == 0.0) {
            continue;
        }
        const double* entries = matrix_->row(r);
        double* alpha = alpha_.data();
        for (int c = 0; c < columns_; ++c) {
            alpha[c] += weight * entries[c];
        }
    }
    // x[out] has to rise if it is low. Raising column c lowers it by alpha.
    breaks_.clear();
    for (int c = 0; c < columns_; ++c) {
        const double alpha = low ? alpha_[c] : -alpha_[c];
        if ((high_[c] ? alpha > kPivot : alpha < -kPivot) && place_[c] < 0 &&
            upper_[c] > lower_[c]) {
            breaks_.emplace_back(std::fabs(gain_[c] / alpha), c);
        }
    }
    // Column after column, by ratio, goes to its other bound while that does not fill the lack.
    const auto later = [](const auto& a, const auto& b) { return a > b; };
    std::make_heap(breaks_.begin(), breaks_.end(), later);
    int in = -1;
    bool flipped = false;
    while (!breaks_.empty()) {
        std::pop_heap(breaks_.begin(), breaks_.end(), later);
        const int c = breaks_.back().second;
        breaks_.pop_back();
        const double span = std::fabs(alpha_[c]) * (upper_[c] - lower_[c]);
        if (span < lack - kFeasible) {
            lack -= span;
            high_[c] = !high_[c];
            x_[c] = high_[c] ? upper_[c] : lower_[c];
            flipped = true;
            continue;
        }
        in = c;
        break;
    }
    if (in < 0) {
        return false;
    }
    if (flipped) {
        compute_basic();
    }
    for (int i = 0; i < rows_; ++i) {
        double entry = 0.0;
        for (int r = 0; r < rows_; ++r) {
            entry += inverse_[std::size_t(i) * rows_ + r] * matrix_->row(r)[in];
        }
        ray_[i] = entry;
    }
    const double target = low ? lower_[out] : upper_[out];
    const double move = (x_[out] - target) / ray_[row];
    for (int i = 0; i < rows_; ++i) {
        x_[basis_[i]] -= move * ray_[i];
    }
    x_[in] += move;
    x_[out] = target;
    high_[out] = !low;

    const double ratio = gain_[in] / alpha_[in];
    for (int r = 0; r < rows_; ++r) {
        price_[r] += ratio * inverse_[std::size_t(row) * rows_ + r];
    }
    {
        double* gain = gain_.data();
        const double* alpha = alpha_.data();
        for (int c = 0; c < columns_; ++c) {
            gain[c] -= ratio * alpha[c];
        }
    }
    pivot(row, in, ray_);
    for (int i = 0; i < rows_; ++i) {
        gain_[basis_[i]] = 0.0;
    }
    return true;
}

void BoxedSimplex::pivot(int row, int column, const std::vector<double>& ray) {
    place_[basis_[row]] = -1;
    basis_[row] = column;
    place_[column] = row;
    double* pivot_row = &inverse_[std::size_t(row) * rows_];
    for (int r = 0; r < rows_; ++r) {
        pivot_row[r] /= ray[row];
    }
    for (int i = 0; i < rows_; ++i) {
        if (i == row || ray[i] == 0.0) {
            continue;
        }
        double* other = &inverse_[std::size_t(i) * rows_];
        for (int r = 0; r < rows_; ++r) {
            other[r] -= ray[i] * pivot_row[r];
        }
    }
    ++pivots_;
    ++since_refactor_;
}

}  // namespace hivecore::interleaving
