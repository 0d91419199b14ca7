// The connected components of a graph.
//
// Union-find over the first two edges of each vertex already joins nearly all of a large component.
// Which one that is, a sample of the vertices tells; the other edges of its vertices need not be
// looked at, because an edge that leads out of it would be seen from its other end, which is not in
// it yet. So of a connected graph only about 2 n of the edges are read.
//
// Sets are linked to the lower root with path halving. Components are numbered by their lowest
// vertices: the result does not depend on what the sample found.
// Cost: O(n + m) finds at most, each O(log n) amortised. Source: Sutton, Ben-Nun and Barak
// (Afforest, IPDPS 2018); the majority vote, Boyer and Moore (1981).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "matching/matching.hpp"
#include "matching/sparse/adjacency.hpp"

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

    // The root of the set that holds more than half of a sample of vertices, or of any other: a
    // wrong guess costs time and changes no answer.
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
    Components components{{}, std::vector<Node>(n)};
    for (Node v = 0; v < n; ++v) {
        const Node root = sets.root(v);
        if (root == v) {
            components.of[v] = static_cast<Node>(components.sizes.size());
            components.sizes.push_back(0);
        }
        components.of[v] = components.of[root];
        components.sizes[components.of[v]] += static_cast<std::int64_t>(graph.edges(v).size());
    }
    return components;
}

}  // namespace hivecore::matching
