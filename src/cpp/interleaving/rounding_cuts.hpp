// Inequalities that every whole solution satisfies and a fractional one does not.
//
// Rows A x = b with whole entries, x whole and >= 0: for multipliers u of the rows,
// sum floor(u A) x <= floor(u b). The multipliers are fractions k / d, so that all is exact.
// Source: Gomory (1958); Chvatal (1973); halves of few rows, Jepsen, Petersen, Spoorendonk and
// Pisinger (2008).
#pragma once

#include <vector>

#include "interleaving/boxed_simplex.hpp"

namespace hivecore::interleaving {

struct Cut {
    std::vector<int> entries;  // per column
    int right;
    double depth;  // how far the fractional solution is beyond it
};

// The deepest cuts, at most `most`. `right` is per row; after `columns` come slacks.
std::vector<Cut> rounding_cuts(const Matrix& matrix, int columns, const std::vector<int>& right,
                               const BoxedSimplex& program, int most);

}  // namespace hivecore::interleaving
