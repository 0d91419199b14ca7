// A small graph from its weights to its answer in one call, where the way there needs no choice.
//
// The general way surveys the weights, chooses how they become integers, solves, and may have to
// try again; for a few vertices its steps cost more than the solution. Here are only the weights
// whose first try cannot fail: 64-bit integers hold all that is counted. All others are declined,
// as is whatever would be an error, so that there is one place for each of these.
#pragma once

#include <cstdint>
#include <optional>

#include "matching/matching.hpp"
#include "matching/numbers/extent.hpp"
#include "matching/numbers/numbers.hpp"

namespace hivecore::matching {

inline constexpr std::int64_t kSmallArray = 64;   // vertices at most
inline constexpr std::int64_t kSmallGraph = 512;  // of a list of edges, likewise
inline constexpr std::int64_t kFewEdges = 4096;   // of a list, at most

struct SmallMatching {
    Matching matching;
    int exponent = 0;         // weights counted sense * w / 2^exponent + offset, ...
    std::int64_t offset = 0;  // ... none of them rounded
    Number weight;            // of the pairs: int64 of integers, else double, rounded once
};

// The heaviest matching, or with the sense -1 the lightest; `most_edges`: among those of as many
// edges as possible. None where it is declined.
struct SmallGoal {
    std::int64_t sense = 1;
    bool most_edges = false;
};

// Of a square array of at most kSmallArray vertices.
std::optional<SmallMatching> solve_small(const Numbers& weights, const SmallGoal& goal);

// Of the edges (u[i], v[i]), at most kFewEdges, without parallel ones, of kSmallGraph vertices.
std::optional<SmallMatching> solve_small(std::int64_t n, const Numbers& u, const Numbers& v,
                                         const Numbers& weights, const SmallGoal& goal);

}  // namespace hivecore::matching
