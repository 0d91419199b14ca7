// From a list of edges to compressed rows, by counting: O(n + m), each edge moved twice.
//
// Edges are distributed by their neighbour first and by their row then. Counting sort is stable, so
// rows come out with ascending neighbours and parallel edges in the order of the list, without a
// comparison.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "matching/numbers/numbers.hpp"

namespace hivecore::matching {

// Both directions of every edge, neighbours ascending, parallel edges in the order of the list.
struct Rows {
    std::vector<std::int64_t> offsets;     // of row v in the others: from offsets[v] to [v + 1]
    std::vector<std::int32_t> neighbours;  // per entry
    std::vector<std::int32_t> edges;       // per entry, which edge of the list it is
    std::int64_t repeated = -1;            // the first entry with the neighbour of that before it

    // What the list is refused for; without rows then.
    std::int64_t outside = -1;  // the first edge with an invalid vertex
    std::int64_t loop = -1;     // if there is none, the first edge with two equal ends
};

// Of the edges (u[i], v[i]). Throws std::invalid_argument for lists of floats or of different
// lengths, for n beyond 0 to 2^31 - 1 and for more than 2^30 edges.
Rows rows_of(std::int64_t n, const Numbers& u, const Numbers& v);

// Leaves of parallel edges the heaviest or lightest; of equal ones the first.
void combine_parallel(Rows& rows, const Numbers& weights, bool lightest);

// Where in rows of ascending neighbours the edges (u[i], v[i]) stand. Throws std::invalid_argument
// for a pair that is no edge, or invalid rows.
std::vector<std::int64_t> entries_of(std::span<const std::int64_t> offsets,
                                     std::span<const std::int32_t> neighbours,
                                     std::span<const std::int64_t> u,
                                     std::span<const std::int64_t> v);

}  // namespace hivecore::matching
