// A matching that is kept the heaviest one while the graph changes.
//
// A change undoes only what it touches: the blossoms around its vertex, its own pair and its dual.
// All else stays feasible and tight, so that solve() has to search only from the few vertices that
// this leaves free, as a solution from scratch does from all. Searches are counted in passes over
// rows and given up where starting over is likely to be cheaper; any number of solutions together
// take at most about a tenth more passes than as many from scratch.
//
// matcher.cpp says how a graph of odd order is kept from a search through all of it at each change.
// Memory: the matrix, 4 or 8 bytes per entry, and O(n). Source: for assignments Mills-Tettey,
// Stentz and Dias (CMU-RI-TR-07-27, 2007).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "matching/matching.hpp"

namespace hivecore::matching {

// Weights are integers, kNoEdge where there is no edge. A call that throws for lack of memory
// leaves the graph as it was, and the next solve() starts over.
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
