// Exact maximum-weight matching in general graphs, with a dual certificate.
//
// The face of this column: callers need nothing else of it. Weights are integers; edges of weight
// <= 0 are never needed and are ignored. The certificate is in units of half a weight:
//
//     duals[u] + duals[v] + sum of z over blossoms that contain both  >=  2 w(u, v)   on all edges,
//     duals >= 0, z > 0, free vertices have dual 0,
//     sum(duals) + sum(z * (|B| - 1) / 2)  ==  2 * weight of the matching,
//
// which proves that no matching is heavier (Edmonds 1965). Deterministic.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "matching/numbers.hpp"
#include "matching/scale.hpp"

namespace hivecore::matching {

using Node = std::int32_t;

struct Matching {
    std::vector<std::int64_t> mate;   // per vertex, -1: free
    std::vector<std::int64_t> duals;  // per vertex
    // Blossoms with z > 0 are a forest: of each vertex the smallest one that holds it, of each
    // blossom the smallest one around it; -1: none. Parents come before their children.
    std::vector<std::int64_t> innermost;
    std::vector<std::int64_t> parents;
    std::vector<std::int64_t> blossom_duals;
};

// What another solution, of a graph like this one, tells about where to begin. Any numbers will do:
// duals are raised where they are infeasible, and only pairs on tight edges are kept.
struct Start {
    std::vector<std::int64_t> duals;  // per vertex, or empty: begin from scratch
    std::vector<std::int64_t> mate;   // per vertex, -1: none; empty: no pairs
};

// Seconds after which searches are given up. Until then duals have stayed feasible and blossoms
// full, so that the duals bound what any matching weighs; free vertices may have positive ones.
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// A symmetric n x n array; the diagonal and NaN are no edges. Throws std::invalid_argument for a
// weight that is not finite, above 2^59 before the offset, or heavier than announced. Time O(n^3),
// memory 4 bytes per entry where no weight counts more than 2^27, else 8.
Matching solve_dense(const Numbers& weights, const Scale& scale, const Start& start = {},
                     double seconds = kNoLimit);

// Compressed rows with both directions of every edge, no parallel edges; loops are ignored. Throws
// std::invalid_argument for arrays that do not go together or a weight above kMaxWeight.
// Time O(n m log n), memory O(n + m). Components are solved on that many threads at once; the
// answer does not depend on their number.
Matching solve_sparse(std::int64_t n, std::span<const std::int64_t> offsets,
                      std::span<const std::int32_t> neighbours,
                      std::span<const std::int64_t> weights, const Start& start = {},
                      std::int64_t threads = 1, double seconds = kNoLimit);

}  // namespace hivecore::matching
