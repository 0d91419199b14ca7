// The sparse engine: compressed rows, and a heap of events in which outdated entries stay until
// they surface (heap.hpp). It serves Search (search.hpp).
//
// A vertex that becomes + looks at its edges once. An edge to another + vertex is an event whose
// time does not change any more, whatever blossoms form; it is void once both ends lie in one. An
// edge to any other vertex matters if it is the best so far, and is entered if the vertex has no
// label; a - vertex that loses its label later enters its best edge then.
//
// All that a search touched is put back at its end, so that a search costs what it reaches. No
// event is entered that lies behind the known end of the search.
//
// Cost: O(m log n) per search, O(n m log n) in all; most searches end after a few vertices.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "matching/deadline.hpp"
#include "matching/fractional.hpp"
#include "matching/matching.hpp"
#include "matching/order.hpp"
#include "matching/search.hpp"
#include "matching/sparse/adjacency.hpp"
#include "matching/sparse/heap.hpp"
#include "matching/sparse/scan.hpp"

namespace hivecore::matching {

template <class Weight>
class Sparse {
  public:
    using Value = ValueOf<Weight>;
    using S = Search<Sparse>;

    explicit Sparse(const Adjacency<Weight>& graph) : graph_(graph) {}

    void begin(S&) {}
    void end(S& s) {
        for (const Node v : touched_) {
            s.at(v).best = S::kNever;
        }
        touched_.clear();
        events_.clear();
    }

    // Edges within the node of u are out of play: its vertices have one group. The time of an edge
    // between two + vertices is entered from the end that came second, and only from there.
    void became_plus(S& s, Node u) {
        const Value p = s.shifted_dual(u);
        const Node own = s.group(u);
        for (const auto& edge : graph_.edges(u)) {
            const Node v = edge.to;
            auto& other = s.at(v);
            if (other.group == own) {
                continue;
            }
            if (s.label(v) == S::kPlus) {
                push(s, (p + s.shifted_dual(v) - edge.weight) / 2, v, ~u);
                continue;
            }
            if (p - edge.weight < other.best) {
                if (other.best == S::kNever) {
                    touched_.push_back(v);
                }
                other.best = p - edge.weight;
                other.from = u;
                unlabelled(s, v);
            }
        }
    }
    void became_minus(S&, Node) {}
    void regrouped(Node, Node) {}
    void will_expand(S& s, Node x, Value time) { push(s, time, x, -1); }

    // Says when v gets tight, unless it is a - vertex.
    void unlabelled(S& s, Node v) {
        const auto& vertex = s.at(v);
        const Value time = vertex.best + s.shifted_dual(v);
        if (s.label(v) == S::kFree) {
            s.end_by(time, vertex.from, v);
        } else if (s.label(v) == S::kNone) {
            push(s, time, v, vertex.from);
        }
    }

    // An entry still holds if the blossom expands at that time, if the + vertices lie in two nodes,
    // or if the vertex has no label and gets tight by that edge then; others are dropped.
    typename S::Event next(S& s) {
        while (!events_.empty()) {
            const auto [time, node, from] = events_.top();
            if (time >= s.end_time) {
                break;
            }
            events_.pop();
            if (node >= s.n) {
                if (s.expands_at(time, node)) {
                    return {time, node, -1};
                }
            } else if (from < 0) {
                if (s.group(node) != s.group(~from)) {
                    return {time, node, ~from};
                }
            } else if (s.label(node) == S::kNone && s.at(node).from == from &&
                       s.at(node).best + s.shifted_dual(node) == time) {
                return {time, node, from};
            }
        }
        return {S::kNever, -1, -1};
    }

  private:
    void push(const S& s, Value time, Node node, Node from) {
        if (time < s.end_time) {
            events_.push(time, node, from);
        }
    }

    const Adjacency<Weight>& graph_;
    std::vector<Node> touched_;
    TimeHeap<Value> events_;  // of an edge between + vertices `from` is the complement of one
};

// In the given numbering of vertices, or their own if `order` is empty.
template <class Weight>
MatchingOf<ValueOf<Weight>> finish_in_order(const Adjacency<Weight>& graph,
                                            const Fractional<SparseScan<Weight>>& start,
                                            std::span<const Node> order,
                                            std::span<const Node> number, Deadline& deadline) {
    Sparse<Weight> engine(graph);
    Search<Sparse<Weight>> search(graph.vertices(), engine);
    const auto original = [&](Node v) { return order.empty() ? v : order[v]; };
    for (Node v = 0; v < graph.vertices(); ++v) {
        search.set_dual(v, start.dual(original(v)));
        const Node mate = start.mate(original(v));
        if (mate >= 0) {
            search.match(v, order.empty() ? mate : number[mate]);
        }
    }
    search.run(spread_order(graph.vertices()), deadline);
    return search.result();
}

template <class T>
void undo_renumbering(std::vector<T>& values, std::span<const Node> order) {
    std::vector<T> renumbered = std::move(values);
    values.resize(renumbered.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        values[order[i]] = renumbered[i];
    }
}

inline constexpr Node kInCache = 1 << 14;  // vertices, about

// The blossom phase, after the half-integral one.
template <class Weight>
MatchingOf<ValueOf<Weight>> finish(const Adjacency<Weight>& graph,
                                   Fractional<SparseScan<Weight>>& start, Deadline& deadline) {
    const Node cycles = start.open_cycles();
    // Where many long searches follow, they are to find what they need in the cache.
    if (graph.vertices() < kInCache || cycles < graph.vertices() / 64) {
        return finish_in_order(graph, start, {}, {}, deadline);
    }
    const std::vector<Node> order = breadth_first_order(graph);
    std::vector<Node> number(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        number[order[i]] = static_cast<Node>(i);
    }
    auto matching = finish_in_order(graph.part(order, number), start, order, number, deadline);
    for (auto& mate : matching.mate) {
        mate = mate < 0 ? mate : order[mate];
    }
    undo_renumbering(matching.mate, order);
    undo_renumbering(matching.duals, order);
    undo_renumbering(matching.innermost, order);
    return matching;
}

}  // namespace hivecore::matching
