// Times hivecore's kernel on one small graph, called from C++ as the other peers are: see
// driver.hpp. A complete graph is an array, any other a list of edges.
#include "matching/small.hpp"

#include <optional>

#include "driver.hpp"

namespace kernel = hivecore::matching;
using Numbers = kernel::Strided<std::int64_t>;

int main() {
    const Graph given = read_graph();
    const auto [n, m] = given.size;
    const auto* rows = reinterpret_cast<const std::byte*>(given.rows.data());
    const auto column = [&](std::int64_t i) { return Numbers{rows + 8 * i, m, 1, 24, 0}; };
    std::vector<std::int64_t> square(n * n);
    for (const auto& [u, v, w] : given.rows) {
        square[u * n + v] = square[v * n + u] = w;
    }
    const Numbers array{reinterpret_cast<const std::byte*>(square.data()), n, n, 8 * n, 8};
    const bool complete = 2 * m == n * (n - 1);
    measure(
        "", [] { return std::optional<kernel::SmallMatching>(); },
        [&](auto& answer) {
            answer = complete ? kernel::solve_small(array, {})
                              : kernel::solve_small(n, column(0), column(1), column(2), {});
        },
        [](auto& answer) { return answer ? std::get<std::int64_t>(answer->weight) : -1; });
}
