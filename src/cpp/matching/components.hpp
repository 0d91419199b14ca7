// Which vertices of a graph hang together.
//
// Two edges per vertex unite nearly all of a large component; of its vertices no other edge is
// looked at. Edges that lead into it are found from their other ends.
// Source: Sutton, Ben-Nun and Barak (Afforest, 2018).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "matching/adjacency.hpp"
#include "matching/matching.hpp"

namespace hivecore::matching {

// Sets of vertices as trees of links to lower numbers; the root is the lowest vertex of its set.
class Sets {
  public:
    explicit Sets(Node n) : lower_(n) {
        for (Node v = 0; v < n; ++v) {
            lower_[v] = v;
        }
    }

    Node root(Node v) {
        while (lower_[v] != v) {
            lower_[v] = lower_[lower_[v]];
            v = lower_[v];
        }
        return v;
    }

    void unite(Node u, Node v) {
        u = root(u);
        v = root(v);
        lower_[std::max(u, v)] = std::min(u, v);
    }

    // The root of the set that holds more than half of a sample of vertices, or of any other.
    Node majority() {
        constexpr std::size_t kStep = 64;
        Node candidate = 0;
        std::int64_t votes = 0;
        for (std::size_t v = 0; v < lower_.size(); v += kStep) {
            const Node vote = root(static_cast<Node>(v));
            candidate = votes == 0 ? vote : candidate;
            votes += vote == candidate ? 1 : -1;
        }
        return candidate;
    }

  private:
    std::vector<Node> lower_;
};

struct Components {
    std::vector<std::int64_t> sizes;  // in directed edges; by their lowest vertices
    std::vector<Node> of;             // per vertex
};

template <class Weight>
Components components_of(const Adjacency<Weight>& graph) {
    constexpr std::size_t kFew = 2;
    const Node n = graph.vertices();
    Sets sets(n);
    for (Node v = 0; v < n; ++v) {
        for (const auto& edge : graph.edges(v).first(std::min(kFew, graph.edges(v).size()))) {
            if (edge.to < v) {
                sets.unite(v, edge.to);
            }
        }
    }
    const Node large = sets.majority();
    for (Node v = 0; v < n; ++v) {
        if (sets.root(v) != sets.root(large)) {
            for (const auto& edge : graph.edges(v)) {
                sets.unite(v, edge.to);
            }
        }
    }
    Components found{{}, std::vector<Node>(n)};
    for (Node v = 0; v < n; ++v) {
        const Node root = sets.root(v);
        if (root == v) {
            found.of[v] = static_cast<Node>(found.sizes.size());
            found.sizes.push_back(0);
        }
        found.of[v] = found.of[root];
        found.sizes[found.of[v]] += static_cast<std::int64_t>(graph.edges(v).size());
    }
    return found;
}

}  // namespace hivecore::matching
