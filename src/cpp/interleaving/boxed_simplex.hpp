// Small linear programs with boxed variables: maximise v x with A x = b and lower <= x <= upper.
//
// The dual simplex method. As every variable has two finite bounds, any basis becomes dual feasible
// once each variable outside it stands at the bound that its reduced value wants; so a program
// whose right side or bounds have changed goes on from the basis it had. Rows are few, columns may
// be thousands: the inverse of the basis and the matrix are dense, one pivot costs O(rows columns).
//
// An upper bound of the optimum follows from the row prices alone and does not rest on the basis:
// rounding in the pivots can make it weaker, never wrong.
// Source: bound flipping in the ratio test, Maros (2003); the bound, Neumaier and Shcherbina
// (2004).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace hivecore::interleaving {

// Columns of a program, row by row.
struct Matrix {
    int rows = 0;
    int columns = 0;
    std::vector<double> entries;  // [row][column]
    std::vector<double> value;    // per column

    const double* row(int r) const { return entries.data() + std::size_t(r) * columns; }
    double* row(int r) { return entries.data() + std::size_t(r) * columns; }
};

enum class LpStatus : std::uint8_t { kOptimal, kInfeasible, kGaveUp };

class BoxedSimplex {
  public:
    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

    // Starts from a basis of one artificial variable per row; `matrix` has to stay.
    BoxedSimplex(const Matrix& matrix, std::vector<double> right, std::vector<double> lower,
                 std::vector<double> upper);

    // A copy of the matrix that was given.
    void look_at(const Matrix& matrix) { matrix_ = &matrix; }

    LpStatus solve();

    void set_right(int row, double right) { right_[row] = right; }
    void set_lower(int column, double lower) { lower_[column] = lower; }
    void set_upper(int column, double upper) { upper_[column] = upper; }
    double lower(int column) const { return lower_[column]; }
    double upper(int column) const { return upper_[column]; }

    // Below: after solve().
    double x(int column) const { return x_[column]; }
    double price(int row) const { return price_[row]; }
    // What the objective gains per unit of a column, by the prices; 0 in the basis.
    double gain(int column) const { return gain_[column]; }
    // No feasible point is worth more.
    double bound() const;
    std::int64_t pivots() const { return pivots_; }
    const std::vector<int>& basis() const { return basis_; }
    bool basic(int column) const { return place_[column] >= 0; }
    double inverse(int i, int row) const { return inverse_[std::size_t(i) * rows_ + row]; }

    // The basis of another program with the same rows; column numbers as here.
    void start_from(const std::vector<int>& basis);

  private:
    bool artificial(int column) const { return column >= matrix_->columns; }
    bool refactor();
    void price_out();
    void place_at_bounds();
    void compute_basic();
    int leaving() const;
    bool step(int row);
    void pivot(int row, int column, const std::vector<double>& ray);

    const Matrix* matrix_;
    int rows_;
    int columns_;                // without artificials
    std::vector<double> right_;  // per row
    std::vector<double> lower_;  // per column, artificials last
    std::vector<double> upper_;
    std::vector<double> x_;
    std::vector<double> gain_;
    std::vector<double> price_;      // per row
    std::vector<double> inverse_;    // of the basis, [row of basis][row of matrix]
    std::vector<int> basis_;         // per row, its column
    std::vector<int> place_;         // per column, its row in the basis, or -1
    std::vector<std::int8_t> high_;  // per column, whether it stands at its upper bound
    std::vector<double> alpha_;      // per column, of the row that leaves
    std::vector<double> ray_;        // per row, entering column in terms of the basis
    std::vector<std::pair<double, int>> breaks_;
    std::int64_t pivots_ = 0;
    int since_refactor_ = 0;
};

}  // namespace hivecore::interleaving
