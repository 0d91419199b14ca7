// The dense engine: a row-major matrix of doubled weights, one pass over a row per new + vertex
// and one pass over all vertices per event. 32-bit lanes where the weights allow.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "matching/core.hpp"
#include "matching/dense.hpp"
#include "matching/matching.hpp"
#include "matching/row_kernels.hpp"
#include "matching/search.hpp"

namespace hivecore::matching {
namespace {

// Feasible duals, each as low as its neighbours allow, and a matching on tight edges.
template <class T>
void start(Search<Dense<T>>& s, const Dense<T>& engine) {
    std::vector<T> y(s.n);
    for (Node v = 0; v < s.n; ++v) {
        const T* row = engine.row(v);
        y[v] = std::max<T>(0, *std::max_element(row, row + s.n)) / 2;
    }
    for (Node v = 0; v < s.n; ++v) {
        if (s.is_matched(v)) {
            continue;
        }
        const T* row = engine.row(v);
        T lowest = 0;
        for (Node u = 0; u < s.n; ++u) {
            lowest = std::max<T>(lowest, row[u] - y[u]);
        }
        y[v] = lowest;
        for (Node u = 0; u < s.n && lowest > 0; ++u) {
            if (!s.is_matched(u) && row[u] - y[u] == lowest) {
                s.match(u, v);
                break;
            }
        }
    }
    for (Node v = 0; v < s.n; ++v) {
        s.set_dual(v, y[v]);
    }
}

template <class T>
Matching solve(Node n, std::span<const std::int64_t> weights) {
    Matrix<T> matrix(n);
    for (Node u = 0; u < n; ++u) {
        T* row = matrix.row(u);
        for (Node v = 0; v < n; ++v) {
            const std::int64_t w = weights[static_cast<std::size_t>(u) * n + v];
            row[v] = w > 0 && u != v ? static_cast<T>(2 * w) : Dense<T>::kAbsent;
        }
    }
    if (n >= 60) {
        return CoreSolver<T>(matrix).solve();
    }
    Dense<T> engine(matrix);
    Search<Dense<T>> search(n, engine);
    start(search, engine);
    search.run();
    return search.result();
}

}  // namespace

Matching solve_dense(std::int64_t n, std::span<const std::int64_t> weights) {
    if (n == 0) {
        Matching empty;
        return empty;
    }
    const std::int64_t heaviest = *std::max_element(weights.begin(), weights.end());
    if (heaviest > kMaxWeight) {
        throw std::invalid_argument("a weight is above 2**59");
    }
    return heaviest <= Dense<std::int32_t>::kHeaviest
               ? solve<std::int32_t>(static_cast<Node>(n), weights)
               : solve<std::int64_t>(static_cast<Node>(n), weights);
}

}  // namespace hivecore::matching
