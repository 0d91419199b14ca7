// Dense rows of numbers, and the inverse of few of them.
#pragma once

#include <cstddef>
#include <vector>

namespace hivecore::interleaving {

struct Matrix {
    int rows = 0;
    int columns = 0;
    std::vector<double> entries;  // [row][column]

    Matrix(int row_count, int column_count)
        : rows(row_count),
          columns(column_count),
          entries(static_cast<std::size_t>(row_count) * static_cast<std::size_t>(column_count)) {}

    const double* row(int r) const {
        return entries.data() + static_cast<std::ptrdiff_t>(r) * columns;
    }
    double* row(int r) { return entries.data() + static_cast<std::ptrdiff_t>(r) * columns; }
};

// sum += factor * other
inline void add(double* sum, double factor, const double* other, int length) {
    for (int k = 0; k < length; ++k) {
        sum[k] += factor * other[k];
    }
}

// Into `inverse` that of as many columns as rows, in any order; false if some are hardly
// independent. O(rows^3).
bool invert(Matrix columns, Matrix& inverse);

}  // namespace hivecore::interleaving
