// The half-integral phase on compressed rows: the Scan of fractional.hpp for sparse graphs.
//
// What gets tight at once waits on a stack, the rest in a heap. Nothing is entered that lies behind
// the known end of the search, and a search whose end has come stops looking at edges, so that most
// searches see a few vertices only.
//
// The start is greedy: half the heaviest edge of each vertex is a feasible dual; the duals of free
// vertices are lowered as far as their edges let them, and what gets tight is matched.
// Cost: O(m log n) per search at the worst; the start is O(n + m).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "matching/fractional.hpp"
#include "matching/matching.hpp"
#include "matching/sparse/adjacency.hpp"
#include "matching/sparse/heap.hpp"

namespace hivecore::matching {

template <class Weight>
class SparseScan {
  public:
    using Value = ValueOf<Weight>;
    using F = Fractional<SparseScan>;

    // To be called first, and again whenever the edges are other ones.
    void look_at(const Adjacency<Weight>& graph) { graph_ = &graph; }

    // Feasible duals.
    void start_greedily(F& f) const {
        for (Node v = 0; v < graph_->vertices(); ++v) {
            Value heaviest = 0;
            for (const auto& edge : graph_->edges(v)) {
                heaviest = std::max<Value>(heaviest, edge.weight);
            }
            f.set_dual(v, heaviest / 2);
        }
    }

    // Lowers the duals of free vertices, which must be feasible, and matches what gets tight.
    void match_greedily(F& f) const {
        for (Node v = 0; v < graph_->vertices(); ++v) {
            if (f.mate(v) == F::kFree) {
                lower(f, v);
            }
        }
    }

    void begin(F&) {}
    void end(F& f) {
        for (const Node v : touched_) {
            f.at(v).key = F::kNever;
        }
        touched_.clear();
        ready_.clear();
        heap_.clear();
    }

    void scan(F& f, Node u) {
        const Value p = f.at(u).y;
        for (const auto& edge : graph_->edges(u)) {
            auto& other = f.at(edge.to);
            if (other.label == F::kMinus) {
                continue;
            }
            Value time = p - edge.weight + other.y;
            if (other.label == F::kPlus) {
                time >>= 1;
            }
            if (time >= f.end_time) {
                continue;
            }
            if (other.label == F::kPlus || other.mate < 0) {
                f.end_by(time, u, edge.to);
                if (time == f.now) {
                    return;
                }
            } else if (time < other.key) {
                if (other.key == F::kNever) {
                    touched_.push_back(edge.to);
                }
                other.key = time;
                other.from = u;
                if (time == f.now) {
                    ready_.push_back(edge.to);
                } else {
                    heap_.push(time, edge.to, u);
                }
            }
        }
    }

    // The next matched vertex that gets tight before the search ends; -1: there is none.
    Node next(F& f) {
        while (!ready_.empty()) {
            const Node v = ready_.back();
            ready_.pop_back();
            if (f.at(v).label == F::kNone) {
                return v;
            }
        }
        while (!heap_.empty()) {
            const auto [time, v, from] = heap_.top();
            if (time >= f.end_time) {
                return -1;
            }
            heap_.pop();
            const auto& vertex = f.at(v);
            if (vertex.label == F::kNone && vertex.from == from && vertex.key == time) {
                f.now = time;
                return v;
            }
        }
        return -1;
    }

  private:
    void lower(F& f, Node v) const {
        Value lowest = 0;
        Node tight = -1;
        for (const auto& edge : graph_->edges(v)) {
            const Value needed = edge.weight - f.dual(edge.to);
            if (needed > lowest || (needed == lowest && needed > 0 && tight < 0)) {
                tight = f.mate(edge.to) == F::kFree ? edge.to : -1;
                lowest = needed;
            }
        }
        f.set_dual(v, lowest);
        if (tight >= 0) {
            f.match(v, tight);
        }
    }

    const Adjacency<Weight>* graph_ = nullptr;
    std::vector<Node> touched_;
    std::vector<Node> ready_;
    TimeHeap<Value> heap_;
};

}  // namespace hivecore::matching
