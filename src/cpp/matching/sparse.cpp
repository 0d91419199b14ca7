// Sparse graphs: what is to be checked, and how wide the weights are.

#include "matching/sparse.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "matching/deadline.hpp"
#include "matching/leftover.hpp"
#include "matching/matching.hpp"
#include "matching/parallel.hpp"
#include "matching/parts.hpp"
#include "matching/warm.hpp"

namespace hivecore::matching {
namespace {

void check(std::int64_t n, std::span<const std::int64_t> offsets,
           std::span<const std::int32_t> neighbours, std::span<const std::int64_t> weights) {
    const auto size = static_cast<std::int64_t>(neighbours.size());
    if (n < 0 || n > std::numeric_limits<Node>::max() ||
        offsets.size() != static_cast<std::size_t>(n) + 1 || offsets.front() != 0 ||
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
Matching solve_part(const Adjacency<Weight>& graph, const Start& given, Deadline deadline) {
    SparseScan<Weight> scan;
    Fractional<SparseScan<Weight>> start(graph.vertices(), scan);
    scan.look_at(graph);
    if (given.duals.empty()) {
        scan.start_greedily(start);
    } else {
        start_from(given, graph, start);
    }
    scan.match_greedily(start);
    start.run(deadline);
    Matching found = finish(graph, start, deadline);
    if (deadline.has_passed()) {
        match_leftover(graph, found);
    }
    return found;
}

// What is given for the vertices of a part.
Start part_of(const Start& given, const std::vector<Node>& vertices,
              const std::vector<Node>& number) {
    Start part;
    for (const Node v : vertices) {
        if (!given.duals.empty()) {
            part.duals.push_back(given.duals[v]);
        }
        if (!given.mate.empty()) {
            part.mate.push_back(given.mate[v] < 0 ? -1 : number[given.mate[v]]);
        }
    }
    return part;
}

template <class Weight>
Matching solve(const Adjacency<Weight>& graph, const Start& given, std::int64_t threads,
               const Deadline& deadline) {
    const Parts parts = parts_of(graph);
    if (parts.vertices.empty()) {
        return solve_part(graph, given, deadline);
    }
    std::vector<Matching> solved(parts.vertices.size());
    in_parallel(solved.size(), threads, [&](std::size_t i) {
        const auto& vertices = parts.vertices[i];
        solved[i] = solve_part(graph.part(vertices, parts.number),
                               part_of(given, vertices, parts.number), deadline);
    });
    return joined(parts, solved);
}

}  // namespace

Matching solve_sparse(std::int64_t n, std::span<const std::int64_t> offsets,
                      std::span<const std::int32_t> neighbours,
                      std::span<const std::int64_t> weights, const Start& start,
                      std::int64_t threads, double seconds) {
    const Deadline deadline(seconds);
    check(n, offsets, neighbours, weights);
    check(start, n);
    if (threads < 1) {
        throw std::invalid_argument("threads must be 1 or more");
    }
    const auto heaviest = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    const auto vertices = static_cast<Node>(n);
    return heaviest < std::int64_t{1} << 30
               ? solve(Adjacency<std::int32_t>(vertices, offsets, neighbours, weights), start,
                       threads, deadline)
               : solve(Adjacency<std::int64_t>(vertices, offsets, neighbours, weights), start,
                       threads, deadline);
}

}  // namespace hivecore::matching
