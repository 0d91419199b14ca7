// Inequalities that every whole solution satisfies and a fractional one does not.
//
// Rows A x = b with whole entries >= 0, x whole and >= 0: for multipliers u of the rows,
// sum floor(u A) x <= floor(u b). The multipliers are fractions k / d, so that all is exact. A
// column outside the basis that stands at its upper bound is counted from there, as upper - x.
// Multipliers to try are the fractional rows of the inverse, and halves of few rows.
// Source: Gomory (1958); Chvatal (1973); halves, Jepsen, Petersen, Spoorendonk and Pisinger (2008).
#pragma once

#include <cstddef>
#include <vector>

#include "interleaving/exact/boxed_simplex.hpp"

namespace hivecore::interleaving {

// sum entries x <= right
struct Cut {
    std::vector<int> entries;  // per column
    int right;

    bool operator==(const Cut&) const = default;
};

// The deepest cuts, at most `most`, of a solved program. `right` is per row; after `columns` come
// slacks.
std::vector<Cut> rounding_cuts(const Matrix& matrix, int columns, const std::vector<int>& right,
                               const BoxedSimplex& program, std::size_t most);

}  // namespace hivecore::interleaving
