// Compressed rows of doubled weights: of each vertex the edges that a matching may use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "matching/matching.hpp"

namespace hivecore::matching {

template <class Weight>
class Rows {
  public:
    struct Edge {
        Weight weight;  // twice that of the graph
        Node to;
    };

    // Of compressed rows with both directions of every edge, those of positive weight; no loops.
    Rows(Node n, std::span<const std::int64_t> offsets, std::span<const std::int32_t> neighbours,
         std::span<const std::int64_t> weights) {
        offsets_.reserve(n + 1);
        offsets_.push_back(0);
        edges_.reserve(weights.size());
        for (Node v = 0; v < n; ++v) {
            for (std::int64_t e = offsets[v]; e < offsets[v + 1]; ++e) {
                if (weights[e] > 0 && neighbours[e] != v) {
                    edges_.push_back({static_cast<Weight>(2 * weights[e]), neighbours[e]});
                }
            }
            offsets_.push_back(static_cast<std::int64_t>(edges_.size()));
        }
    }

    Node vertices() const { return static_cast<Node>(offsets_.size() - 1); }

    std::span<const Edge> edges(Node v) const {
        return {edges_.data() + offsets_[v], edges_.data() + offsets_[v + 1]};
    }

  private:
    std::vector<std::int64_t> offsets_;
    std::vector<Edge> edges_;
};

}  // namespace hivecore::matching
