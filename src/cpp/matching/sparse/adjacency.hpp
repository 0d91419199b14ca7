// A sparse graph as the searches read it: of each vertex its edges, one after the other in memory.
//
// Only edges of positive weight are kept, for no other is ever used, and no loops. Weights are
// doubled, so that halves of slacks stay integers. Edges are numbers of 32 bits with weights of 32
// or 64 bits, or of several words (wide.hpp); narrower weights let a cache line hold more of them.
//
// Cost: O(n + m) time and memory to make; nothing is changed afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "matching/matching.hpp"

namespace hivecore::matching {

// The integers that sums of weights need: 64 bits, but for wider weights.
template <class Weight>
using ValueOf = std::conditional_t<std::is_integral_v<Weight>, std::int64_t, Weight>;

template <class Weight>
class Adjacency {
  public:
    struct Edge {
        Weight weight;  // twice that of the graph
        Node to;
    };

    struct Pair {
        Node u;
        Node v;
        Weight weight;  // twice that of the graph
    };

    // Of compressed rows with both directions of every edge, those of positive weight; no loops.
    // weight_at(e) is the weight of the entry e.
    template <class WeightAt>
    Adjacency(Node n, std::span<const std::int64_t> offsets,
              std::span<const std::int32_t> neighbours, WeightAt weight_at) {
        offsets_.reserve(n + 1);
        offsets_.push_back(0);
        edges_.reserve(neighbours.size());
        for (Node v = 0; v < n; ++v) {
            for (std::int64_t e = offsets[v]; e < offsets[v + 1]; ++e) {
                const auto weight = weight_at(e);
                if (weight > 0 && neighbours[e] != v) {
                    edges_.push_back({static_cast<Weight>(2 * weight), neighbours[e]});
                }
            }
            offsets_.push_back(static_cast<std::int64_t>(edges_.size()));
        }
    }

    // Of pairs in any order, without duplicates; the edges of a vertex come out in the opposite
    // order.
    Adjacency(Node n, std::span<const Pair> pairs) : offsets_(n + 1, 0), edges_(2 * pairs.size()) {
        for (const Pair& pair : pairs) {
            ++offsets_[pair.u];
            ++offsets_[pair.v];
        }
        std::int64_t end = 0;
        for (Node v = 0; v < n; ++v) {
            end += offsets_[v];
            offsets_[v] = end;
        }
        offsets_[n] = end;
        for (const Pair& pair : pairs) {
            edges_[--offsets_[pair.u]] = {pair.weight, pair.v};
            edges_[--offsets_[pair.v]] = {pair.weight, pair.u};
        }
    }

    // Some vertices that have no edge to others, or all, vertices[i] having the number i.
    Adjacency part(std::span<const Node> vertices, std::span<const Node> number) const {
        std::int64_t edges_inside = 0;
        for (const Node v : vertices) {
            edges_inside += offsets_[v + 1] - offsets_[v];
        }
        Adjacency inner;
        inner.offsets_.reserve(vertices.size() + 1);
        inner.offsets_.push_back(0);
        inner.edges_.reserve(edges_inside);
        for (const Node v : vertices) {
            for (const Edge& edge : edges(v)) {
                inner.edges_.push_back({edge.weight, number[edge.to]});
            }
            inner.offsets_.push_back(static_cast<std::int64_t>(inner.edges_.size()));
        }
        return inner;
    }

    Node vertices() const { return static_cast<Node>(offsets_.size() - 1); }

    // Both directions of every edge counted.
    std::int64_t size() const { return static_cast<std::int64_t>(edges_.size()); }

    std::span<const Edge> edges(Node v) const {
        return {edges_.data() + offsets_[v], edges_.data() + offsets_[v + 1]};
    }

  private:
    Adjacency() = default;

    std::vector<std::int64_t> offsets_;
    std::vector<Edge> edges_;
};

// All vertices, neighbours near each other: a search that spreads from a vertex then finds what it
// looks up close together in memory.
template <class Weight>
std::vector<Node> breadth_first_order(const Adjacency<Weight>& graph) {
    std::vector<Node> order;
    order.reserve(graph.vertices());
    std::vector<bool> seen(graph.vertices(), false);
    const auto visit = [&](Node v) {
        if (!seen[v]) {
            seen[v] = true;
            order.push_back(v);
        }
    };
    std::size_t next = 0;
    for (Node root = 0; root < graph.vertices(); ++root) {
        visit(root);
        for (; next < order.size(); ++next) {
            for (const auto& edge : graph.edges(order[next])) {
                visit(edge.to);
            }
        }
    }
    return order;
}

}  // namespace hivecore::matching
