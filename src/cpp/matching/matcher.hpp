// A matching that is kept the heaviest one while the graph changes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "matching/matching.hpp"

namespace hivecore::matching {

// Weights are integers, kNothing for no edge. A change undoes only what it touches: the blossoms
// around its vertex, its own pair and its dual. The searches of solve() start at the few vertices
// that this leaves free, and are given up where a solution from scratch is likely to be cheaper.
class Matcher {
  public:
    virtual ~Matcher() = default;

    // Weights of v and every vertex; that of v itself counts for nothing. Throws
    // std::invalid_argument, and changes nothing, if any is above heaviest(). O(n).
    virtual void set_row(Node v, std::span<const std::int64_t> weights) = 0;

    // Of one edge. O(1), O(n) if it matters to the matching.
    virtual void set_edge(Node u, Node v, std::int64_t weight) = 0;

    // O(n) per changed vertex and vertex reached; O(n^3) from scratch.
    virtual Matching solve() = 0;

    // How often searches have looked at all vertices so far: what they cost, whatever the machine.
    virtual std::int64_t passes() const = 0;

    virtual std::int64_t heaviest() const = 0;
};

// For `capacity` vertices; `weights` is a symmetric n x n matrix of the first ones, the others have
// no edges. In lanes of 32 bits if the weights allow, else of 64.
std::unique_ptr<Matcher> make_matcher(Node capacity, Node n, std::span<const std::int64_t> weights);

}  // namespace hivecore::matching
