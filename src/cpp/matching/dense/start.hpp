// The half-integral phase for dense graphs: which of its two forms suits the weights.
//
// Where weights are spread, few edges can matter: core.hpp. Where they are nearly tied, all can:
// sample.hpp. Which it is, a core of 100 of the vertices tells, at a price that is small beside the
// whole; up to 300 vertices it is not worth asking. Odd cycles are then opened, and what stays free
// is left to the blossom search.
#pragma once

#include "matching/core.hpp"
#include "matching/deadline.hpp"
#include "matching/dense/dense.hpp"
#include "matching/dense/matrix.hpp"
#include "matching/matching.hpp"
#include "matching/order.hpp"
#include "matching/sample.hpp"

namespace hivecore::matching {

// Whether a core will do, judged by some of the vertices.
template <class T>
bool is_spread(const Matrix<T>& matrix) {
    constexpr Node kWorthJudging = 300;  // smaller graphs are solved sooner than judged
    constexpr Node kProbe = 100;
    if (matrix.size() <= kWorthJudging) {
        return false;
    }
    const Matrix<T> probe = part_of(matrix, spread_order(matrix.size()), kProbe);
    Deadline never;
    return Core<T>(probe).run(never);
}

// Duals stay feasible and pairs tight: what Search::run() asks for.
template <class T, class Half>
void hand_over(Half& start, Search<Dense<T>>& search) {
    start.open_cycles();
    for (Node v = 0; v < search.n; ++v) {
        search.set_dual(v, static_cast<T>(start.dual(v)));
        if (start.mate(v) > v) {
            search.match(v, start.mate(v));
        }
    }
}

// Leaves to the search what the half-integral phase cannot settle.
template <class T>
void start(const Matrix<T>& matrix, Search<Dense<T>>& search, Deadline& deadline) {
    if (is_spread(matrix)) {
        Core<T> core(matrix);
        if (core.run(deadline)) {
            return hand_over(core.fractional(), search);
        }
    }
    Sampled<T> sampled(matrix);
    sampled.run(deadline);
    hand_over(sampled.fractional(), search);
}

// The same from duals and pairs that nearly fit.
template <class T>
void start_from(const Start& given, std::int64_t heaviest, const Matrix<T>& matrix,
                Search<Dense<T>>& search, Deadline& deadline) {
    Sampled<T> sampled(matrix);
    sampled.run_from(given, heaviest, deadline);
    hand_over(sampled.fractional(), search);
}

}  // namespace hivecore::matching
