// Complete graphs whose weights are computed when they are asked for: no matrix is stored.
//
// Few of the pairs can matter. Those of little slack at known duals, the *core*, are solved as a
// sparse graph. There no dual may sink further below the known one than its *reach*, and every pair
// whose slack is less than the reaches of both ends is in the core; so what is not in it stays
// covered. Vertices that would have to sink further are left over; then the same begins again at
// the new duals, with more reach for these. When hardly any are left over the core is solved
// without that limit, and its duals are *priced*: one pass over all pairs finds those that duals
// and blossoms do not cover, which enter the core. When there is none, the duals prove the matching
// the heaviest of the complete graph.
//
// Where to begin is told by a fourth of the vertices, solved first in the same way: the duals of
// the others follow as the lowest that cover their pairs with these.
// Where an odd number of vertices has to leave one over, a guest joins whom all like equally and
// more than each other: otherwise a blossom would hold all of them and cover all pairs.
//
// Cost: O(n^2) weights computed per pass, by two threads; some ten passes where weights are spread.
// Where very many are nearly tied, duals hardly come to rest; that is noticed at a sample, and
// given up. Memory O(n) beside that of the weights. Deterministic. Sources: Applegate and Cook
// (1993) for pricing; Marsten, Hogan and Blankenship (1975) for limits on the steps of duals.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "matching/deadline.hpp"
#include "matching/matching.hpp"

namespace hivecore::matching {

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
// interrupt ends it early. Nothing: weights are too nearly tied for this way.
std::optional<Matching> solve_priced(const PairWeights& weights, Interrupt* interrupt = nullptr);

}  // namespace hivecore::matching
