// Sparse graphs: what is to be checked, and how wide the weights are.

#include "matching/sparse.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "matching/matching.hpp"

namespace hivecore::matching {
namespace {

void check(std::int64_t n, std::span<const std::int64_t> offsets,
           std::span<const std::int32_t> neighbours, std::span<const std::int64_t> weights) {
    const auto size = static_cast<std::int64_t>(neighbours.size());
    if (offsets.size() != static_cast<std::size_t>(n) + 1 || offsets.front() != 0 ||
        offsets.back() != size || !std::is_sorted(offsets.begin(), offsets.end()) ||
        weights.size() != neighbours.size()) {
        throw std::invalid_argument("offsets, neighbours and weights do not go together");
    }
    for (const std::int32_t neighbour : neighbours) {
        if (neighbour < 0 || neighbour >= n) {
            throw std::invalid_argument("neighbours holds " + std::to_string(neighbour) +
                                        ", vertices run from 0 to " + std::to_string(n - 1));
        }
    }
    if (std::any_of(weights.begin(), weights.end(),
                    [](std::int64_t weight) { return weight > kMaxWeight; })) {
        throw std::invalid_argument("a weight is above 2**59");
    }
}

template <class Weight>
Matching solve_from_scratch(const Adjacency<Weight>& graph) {
    SparseScan<Weight> scan;
    Fractional<SparseScan<Weight>> start(graph.vertices(), scan);
    scan.look_at(graph);
    scan.start_greedily(start);
    scan.match_greedily(start);
    start.run();
    return finish(graph, start);
}

}  // namespace

Matching solve_sparse(std::int64_t n, std::span<const std::int64_t> offsets,
                      std::span<const std::int32_t> neighbours,
                      std::span<const std::int64_t> weights) {
    check(n, offsets, neighbours, weights);
    const auto heaviest = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    const auto vertices = static_cast<Node>(n);
    return heaviest < std::int64_t{1} << 30
               ? solve_from_scratch(Adjacency<std::int32_t>(vertices, offsets, neighbours, weights))
               : solve_from_scratch(
                     Adjacency<std::int64_t>(vertices, offsets, neighbours, weights));
}

}  // namespace hivecore::matching
