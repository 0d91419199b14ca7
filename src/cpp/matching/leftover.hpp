// What searches have left free when time was up, matched greedily: the duals prove as much as
// before, and the matching gets heavier.
//
// Each free vertex takes the heaviest edge to another free one. Pairs made here need not be tight,
// so this is the last step before an answer, never between searches.
// Cost: O(f^2) for f free vertices of a dense graph, O(n + m) for a sparse one.
#pragma once

#include <cstddef>
#include <vector>

#include "matching/dense/matrix.hpp"
#include "matching/matching.hpp"
#include "matching/sparse/adjacency.hpp"

namespace hivecore::matching {

template <class Dual>
void match(MatchingOf<Dual>& matching, Node u, Node v) {
    matching.mate[u] = v;
    matching.mate[v] = u;
}

template <class T>
void match_leftover(const Matrix<T>& matrix, Matching& matching) {
    std::vector<Node> free;
    for (Node v = 0; v < matrix.size(); ++v) {
        if (matching.mate[v] < 0) {
            free.push_back(v);
        }
    }
    while (!free.empty()) {
        const Node v = free.back();
        free.pop_back();
        const T* row = matrix.row(v);
        std::size_t best = 0;
        for (std::size_t i = 1; i < free.size(); ++i) {
            best = row[free[i]] > row[free[best]] ? i : best;
        }
        if (!free.empty() && row[free[best]] > 0) {
            match(matching, v, free[best]);
            free[best] = free.back();
            free.pop_back();
        }
    }
}

template <class Weight, class Dual>
void match_leftover(const Adjacency<Weight>& graph, MatchingOf<Dual>& matching) {
    for (Node v = 0; v < graph.vertices(); ++v) {
        if (matching.mate[v] >= 0) {
            continue;
        }
        Node best = -1;
        Weight heaviest = 0;
        for (const auto& edge : graph.edges(v)) {
            if (edge.weight > heaviest && matching.mate[edge.to] < 0) {
                best = edge.to;
                heaviest = edge.weight;
            }
        }
        if (best >= 0) {
            match(matching, v, best);
        }
    }
}

}  // namespace hivecore::matching
