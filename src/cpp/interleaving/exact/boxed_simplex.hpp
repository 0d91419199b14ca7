// Small linear programs with boxed variables: maximise v x with A x = b and lower <= x <= upper.
//
// The dual simplex method. As every variable has two finite bounds, any basis becomes dual feasible
// once each variable outside it stands at the bound that its reduced value wants; so a program
// whose bounds have changed goes on from the basis it had. Rows are few, columns may be thousands:
// the inverse of the basis and the matrix are dense, one pivot costs O(rows columns).
//
// An upper bound of the optimum follows from the row prices alone and does not rest on the basis:
// rounding in the pivots can make it weaker, never wrong.
// Source: bound flipping in the ratio test, Maros (2003); the bound, Neumaier and Shcherbina
// (2004).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "interleaving/exact/dense.hpp"

namespace hivecore::interleaving {

// The rows A of a program, and its values v.
struct Equations : Matrix {
    std::vector<double> value;  // per column

    Equations(int row_count, int column_count)
        : Matrix(row_count, column_count), value(static_cast<std::size_t>(column_count)) {}
};

enum class LpStatus : std::uint8_t { kOptimal, kInfeasible, kGaveUp };

// Columns are numbered as in the matrix; after them comes an artificial one for each row, which has
// to be 0.
class BoxedSimplex {
  public:
    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

    // All that solve() starts from.
    struct State {
        std::vector<double> lower;  // per column, artificial ones last
        std::vector<double> upper;
        std::vector<int> basis;  // per row, its column
        Matrix inverse;          // of the basis, [row of the basis][row of the matrix]
        int age;                 // pivots since the inverse was fresh
    };

    // Starts from the basis of all artificial columns.
    BoxedSimplex(std::shared_ptr<const Equations> matrix, const std::vector<int>& right,
                 std::vector<double> lower, std::vector<double> upper);

    // The basis of another program with the same rows, in column numbers of this one.
    void start_from(const std::vector<int>& basis);

    LpStatus solve();

    const State& state() const { return state_; }
    void resume(State state);

    void set_lower(int column, double lower) { state_.lower[column] = lower; }
    void set_upper(int column, double upper) { state_.upper[column] = upper; }
    double lower(int column) const { return state_.lower[column]; }
    double upper(int column) const { return state_.upper[column]; }
    const std::vector<int>& basis() const { return state_.basis; }
    bool is_basic(int column) const { return place_[column] >= 0; }

    // Multiplications so far, but for a small factor: the same on every machine, unlike time.
    std::int64_t work() const { return work_; }

    // Below: after solve().
    double x(int column) const { return x_[column]; }
    double price(int row) const { return price_[row]; }
    // What the objective gains per unit of a column, by the prices; 0 in the basis.
    double gain(int column) const { return gain_[column]; }
    // No feasible point is worth more.
    double bound() const;
    // The row of the inverse that belongs to the i-th column of the basis.
    const double* inverse(int i) const { return state_.inverse.row(i); }

  private:
    struct Leaving {
        int row;
        bool rises;   // to its lower bound; else it falls to its upper one
        double lack;  // by how much
        bool flips;   // other columns have gone to their other bounds for it
    };

    bool is_artificial(int column) const { return column >= columns_; }
    double* inverse(int i) { return state_.inverse.row(i); }

    void find_places();
    bool prepare();
    bool invert_basis();
    void price_out();
    void stand_at_bounds();
    void compute_basic();

    int most_violated() const;
    bool step(int row);
    void compute_row(int row);
    void list_ratios(bool rises);
    int find_entering(Leaving& leaving);
    void compute_ray(int entering);
    void move(const Leaving& leaving, int entering);
    void update_prices(int row, int entering);
    void pivot(int row, int entering);

    std::shared_ptr<const Equations> matrix_;
    int rows_;
    int columns_;  // without artificial ones
    std::vector<double> right_;
    State state_;
    std::int64_t work_ = 0;
    std::vector<int> place_;         // per column, its row in the basis, or -1
    std::vector<std::int8_t> high_;  // per column, whether it stands at its upper bound
    std::vector<double> x_;
    std::vector<double> gain_;
    std::vector<double> price_;  // per row

    // Of one step.
    std::vector<double> row_;  // per column, its entry in the row that leaves
    std::vector<int> movable_;
    std::vector<double> ray_;  // per row, the entering column in terms of the basis
    std::vector<std::pair<double, int>> ratios_;
    std::vector<int> standing_;  // columns outside the basis that are not 0
};

}  // namespace hivecore::interleaving
