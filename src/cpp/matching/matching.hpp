// Exact maximum-weight matching in general graphs, with a dual certificate: the interface of this
// kernel. No other header is needed, but for a graph that changes (matcher.hpp) and for a small one
// in one call, from its weights as they are (small.hpp).
//
// Weights are integers; edges of weight <= 0 are never needed and are ignored. The certificate is
// in units of half a weight:
//
//     duals[u] + duals[v] + sum of z over blossoms that contain both  >=  2 w(u, v)   on all edges,
//     duals >= 0, z > 0, free vertices have dual 0,
//     sum(duals) + sum(z * (|B| - 1) / 2)  ==  2 * weight of the matching,
//
// which proves that no matching is heavier (Edmonds 1965).
//
// A solution takes these steps: weights are scaled to integers (scale.hpp) in a matrix or
// compressed rows (dense/input.hpp, adjacency.hpp); a half-integral matching is found without
// blossoms (fractional.hpp, helped by core.hpp or sample.hpp); a search with blossoms makes it
// integral (search.hpp on the engine of dense.hpp or sparse.hpp).
//
// Deterministic: among equally heavy matchings the same input gives the same one, whatever the
// machine and the number of threads, unless a time limit ends the search.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "matching/deadline.hpp"
#include "matching/numbers/numbers.hpp"
#include "matching/numbers/scale.hpp"

namespace hivecore::matching {

using Node = std::int32_t;

template <class Dual>
struct MatchingOf {
    std::vector<std::int64_t> mate;  // per vertex, -1: free
    std::vector<Dual> duals;         // per vertex
    // Blossoms with z > 0 are a forest: of each vertex the smallest one that holds it, of each
    // blossom the smallest one around it; -1: none. Parents come before their children.
    std::vector<std::int64_t> innermost;
    std::vector<std::int64_t> parents;
    std::vector<Dual> blossom_duals;
};
using Matching = MatchingOf<std::int64_t>;

// What another solution, of a graph like this one, tells about where to begin. Any numbers will do:
// duals are raised where they are infeasible, and only pairs on tight edges are kept.
struct Start {
    std::vector<std::int64_t> duals;  // per vertex, or empty: begin from scratch
    std::vector<std::int64_t> mate;   // per vertex, -1: none; empty: no pairs
};

// Seconds after which searches are given up. Until then duals have stayed feasible and blossoms
// full, so that the duals bound what any matching weighs; free vertices may have positive ones.
// An interrupt ends them likewise.
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// A symmetric n x n array; the diagonal and NaN are no edges. Throws std::invalid_argument for a
// weight that is not finite, above 2^59 before the offset, or above scale.heaviest. Time O(n^3),
// memory 4 bytes per entry where no weight counts more than 2^27, else 8.
Matching solve_dense(const Numbers& weights, const Scale& scale, const Start& start = {},
                     double seconds = kNoLimit, Interrupt* interrupt = nullptr);

// Compressed rows with both directions of every edge, no parallel edges; loops are ignored. Throws
// std::invalid_argument for arrays that do not go together or a weight above kMaxWeight.
// Time O(n m log n), memory O(n + m). Components are solved on that many threads at once; the
// answer does not depend on their number.
Matching solve_sparse(std::int64_t n, std::span<const std::int64_t> offsets,
                      std::span<const std::int32_t> neighbours,
                      std::span<const std::int64_t> weights, const Start& start = {},
                      std::int64_t threads = 1, double seconds = kNoLimit,
                      Interrupt* interrupt = nullptr);

// A weight w, an entry of the list, counts sense * w / 2^exponent + offset; integers of several
// 64-bit words, of which the lowest is the first.
struct WideScale {
    int exponent = 0;
    int sense = 1;
    std::span<const std::uint64_t> offset;  // 2, 4 or kMaxWords words, as all numbers then have
};

// Enough for sums of any doubles.
inline constexpr int kMaxWords = 34;

// The same as solve_sparse for weights that 64 bits do not hold; duals of as many words as the
// offset. Throws std::invalid_argument also for a weight that is no multiple of 2^exponent or
// counts 2^(bits - 5) or more.
MatchingOf<std::uint64_t> solve_wide(std::int64_t n, std::span<const std::int64_t> offsets,
                                     std::span<const std::int32_t> neighbours,
                                     const Numbers& weights, const WideScale& scale,
                                     std::int64_t threads = 1, double seconds = kNoLimit,
                                     Interrupt* interrupt = nullptr);

// --- complete graphs of very many vertices (priced/)

struct WeighedPair {
    Node u;
    Node v;
    std::int64_t weight;
};

// Several threads may ask at once.
class PairWeights {
  public:
    virtual ~PairWeights() = default;
    virtual Node size() const = 0;

    // No weight of u and a vertex from `first` to `last` - 1 is above its bound; bounds are nearly
    // the weights, or far more work is done.
    virtual void bound(Node u, Node first, Node last, double* bounds) const = 0;

    // Sets the weights, at most 2^57; 0 where the two may not be matched.
    virtual void weigh(std::span<WeighedPair> pairs) const = 0;
};

// Numbers as solve_priced() wants them: the first part of its vertices, and the first part of that,
// are to be as the whole is. Given are vertices such that those near each other are alike.
std::vector<Node> nested_samples(std::vector<Node> by_likeness);

// Of each vertex its mate; of an odd number with the duals of a guest, whose number is the last. An
// interrupt ends it early.
Matching solve_priced(const PairWeights& weights, Interrupt* interrupt = nullptr);

// Vertices of few kinds; those of one kind have the same weights. Per vertex its mate, in a
// matching of maximum weight. Nothing if more than so many vertices would have to be solved at
// once. An interrupt ends it early. `weights` is the kinds' square table.
std::optional<std::vector<std::int64_t>> solve_copies(std::span<const Node> kind_of,
                                                      std::span<const std::int64_t> weights,
                                                      Node most, Interrupt* interrupt = nullptr);

}  // namespace hivecore::matching
