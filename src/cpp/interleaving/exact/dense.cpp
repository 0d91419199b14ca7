#include "interleaving/exact/dense.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "interleaving/exact/precision.hpp"

namespace hivecore::interleaving {
namespace {

void swap_rows(Matrix& matrix, int a, int b) {
    std::swap_ranges(matrix.row(a), matrix.row(a) + matrix.columns, matrix.row(b));
}

void divide_row(Matrix& matrix, int r, double by) {
    std::for_each(matrix.row(r), matrix.row(r) + matrix.columns, [by](double& x) { x /= by; });
}

// The row from `first` on with the largest entry in this column.
int largest(const Matrix& matrix, int column, int first) {
    int best = first;
    for (int r = first + 1; r < matrix.rows; ++r) {
        if (std::fabs(matrix.row(r)[column]) > std::fabs(matrix.row(best)[column])) {
            best = r;
        }
    }
    return best;
}

}  // namespace

// Gauss-Jordan with the largest pivot in each column.
bool invert(Matrix columns, Matrix& inverse) {
    const int n = columns.rows;
    std::fill(inverse.entries.begin(), inverse.entries.end(), 0.0);
    for (int r = 0; r < n; ++r) {
        inverse.row(r)[r] = 1.0;
    }
    for (int i = 0; i < n; ++i) {
        const int best = largest(columns, i, i);
        const double pivot = columns.row(best)[i];
        if (std::fabs(pivot) < kPivot) {
            return false;
        }
        if (best != i) {
            swap_rows(columns, i, best);
            swap_rows(inverse, i, best);
        }
        divide_row(columns, i, pivot);
        divide_row(inverse, i, pivot);
        for (int r = 0; r < n; ++r) {
            const double factor = columns.row(r)[i];
            if (r != i && factor != 0.0) {
                add(columns.row(r), -factor, columns.row(i), n);
                add(inverse.row(r), -factor, inverse.row(i), n);
            }
        }
    }
    return true;
}

}  // namespace hivecore::interleaving
