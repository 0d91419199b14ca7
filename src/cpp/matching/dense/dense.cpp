// Dense graphs, in lanes as wide as their weights.

#include "matching/dense/dense.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <variant>

#include "matching/deadline.hpp"
#include "matching/dense/input.hpp"
#include "matching/dense/matrix.hpp"
#include "matching/dense/start.hpp"
#include "matching/leftover.hpp"
#include "matching/matching.hpp"
#include "matching/order.hpp"
#include "matching/warm.hpp"

namespace hivecore::matching {
namespace {

template <class T>
Matching solve(Node n, const Numbers& weights, const Scale& scale, const Start& given,
               Deadline& deadline) {
    Matrix<T> matrix(n);
    write_doubled(weights, scale, Matrix<T>::kAbsent, matrix.row(0));
    Dense<T> engine(matrix);
    Search<Dense<T>> search(n, engine);
    if (given.duals.empty()) {
        start(matrix, search, deadline);
    } else {
        start_from(given, scale.heaviest, matrix, search, deadline);
    }
    search.run(spread_order(n), deadline);
    Matching matching = search.result();
    if (deadline.has_passed()) {
        match_leftover(matrix, matching);
    }
    return matching;
}

}  // namespace

Matching solve_dense(const Numbers& weights, const Scale& scale, const Start& start, double seconds,
                     Interrupt* interrupt) {
    Deadline deadline(seconds, interrupt);
    const auto n = std::visit([](const auto& array) { return array.rows; }, weights);
    check(scale);
    check(start, n);
    if (n == 0) {
        return {};
    }
    if (n > std::numeric_limits<Node>::max()) {
        throw std::invalid_argument("weights has 2**31 rows or more");
    }
    return scale.heaviest <= Matrix<std::int32_t>::kHeaviest
               ? solve<std::int32_t>(static_cast<Node>(n), weights, scale, start, deadline)
               : solve<std::int64_t>(static_cast<Node>(n), weights, scale, start, deadline);
}

}  // namespace hivecore::matching
