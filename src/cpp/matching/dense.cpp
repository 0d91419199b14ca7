// Dense graphs, in lanes as wide as their weights.

#include "matching/dense.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <variant>

#include "matching/dense_input.hpp"
#include "matching/dense_start.hpp"
#include "matching/matching.hpp"
#include "matching/matrix.hpp"
#include "matching/order.hpp"

namespace hivecore::matching {
namespace {

template <class T>
Matching solve(Node n, const Numbers& weights, const Scale& scale) {
    Matrix<T> matrix(n);
    write_doubled(weights, scale, Matrix<T>::kAbsent, matrix.row(0));
    Dense<T> engine(matrix);
    Search<Dense<T>> search(n, engine);
    start(matrix, search);
    search.run(spread_order(n));
    return search.result();
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
