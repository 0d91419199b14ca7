// Dense graphs: which start suits the weights, and how wide they are.

#include "matching/dense.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <variant>

#include "matching/core.hpp"
#include "matching/dense_input.hpp"
#include "matching/matching.hpp"
#include "matching/matrix.hpp"
#include "matching/order.hpp"
#include "matching/sample.hpp"

namespace hivecore::matching {
namespace {

constexpr Node kProbed = 300;  // smaller graphs are solved sooner than judged
constexpr Node kProbe = 100;

// Whether a core will do, judged by some of the vertices.
template <class T>
bool is_spread(const Matrix<T>& matrix) {
    const Matrix<T> probe = part_of(matrix, spread_order(matrix.size()), kProbe);
    return Core<T>(probe).run();
}

// The blossom phase, after the half-integral one.
template <class T, class Start>
Matching finish(const Matrix<T>& matrix, Start& start) {
    start.open_cycles();
    Dense<T> engine(matrix);
    Search<Dense<T>> search(matrix.size(), engine);
    for (Node v = 0; v < matrix.size(); ++v) {
        search.set_dual(v, static_cast<T>(start.dual(v)));
        if (start.mate(v) > v) {
            search.match(v, start.mate(v));
        }
    }
    search.run();
    return search.result();
}

template <class T>
Matching solve(Node n, const Numbers& weights, const Scale& scale) {
    Matrix<T> matrix(n);
    write_doubled(weights, scale, Matrix<T>::kAbsent, matrix.row(0));
    if (n > kProbed && is_spread(matrix)) {
        Core<T> core(matrix);
        if (core.run()) {
            return finish(matrix, core.fractional());
        }
    }
    Sampled<T> sampled(matrix);
    sampled.run();
    return finish(matrix, sampled.fractional());
}

}  // namespace

Matching solve_dense(const Numbers& weights, const Scale& scale) {
    check(scale);
    const auto n = std::visit([](const auto& array) { return array.rows; }, weights);
    if (n == 0) {
        return {};
    }
    if (n > std::numeric_limits<Node>::max()) {
        throw std::invalid_argument("weights has 2**31 rows or more");
    }
    return scale.heaviest <= Matrix<std::int32_t>::kHeaviest
               ? solve<std::int32_t>(static_cast<Node>(n), weights, scale)
               : solve<std::int64_t>(static_cast<Node>(n), weights, scale);
}

}  // namespace hivecore::matching
