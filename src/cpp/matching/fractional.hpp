// The half-integral phase: a fractional matching of the greatest weight, without blossoms.
//
// Every vertex ends matched, free with dual 0, or on an odd cycle of tight edges that are matched
// by half each. On most graphs few cycles are left, so that nearly all the work is done here, by
// searches that end as soon as two + vertices meet: one tree per free vertex, like Dijkstra's.
// A search ends by the first of
//     a free vertex, or one on a half-matched cycle, gets tight with a + vertex;
//     two + vertices get tight with each other: their odd cycle becomes half-matched;
//     the dual of a + vertex has sunk to 0: it becomes the free one.
// Source: Balinski (1965); as a start of the blossom algorithm Applegate and Cook (1993).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "matching/adjacency.hpp"
#include "matching/heap.hpp"
#include "matching/matching.hpp"

namespace hivecore::matching {

template <class Weight>
class Fractional {
  public:
    using Value = std::int64_t;
    static constexpr Value kNever = std::numeric_limits<Value>::max() / 4;

    explicit Fractional(Node n) : n_(n), at_(n) {}

    // To be called first, and again whenever the edges are other ones.
    void look_at(const Adjacency<Weight>& graph) { graph_ = &graph; }

    // Feasible duals, each as low as its neighbours allow, and a matching on tight edges.
    void start_greedily() {
        for (Node v = 0; v < n_; ++v) {
            Value heaviest = 0;
            for (const auto& edge : graph_->edges(v)) {
                heaviest = std::max<Value>(heaviest, edge.weight);
            }
            at_[v].y = heaviest / 2;
        }
        match_greedily();
    }

    // Lowers the duals of free vertices, which must be feasible, and matches what gets tight.
    void match_greedily() {
        for (Node v = 0; v < n_; ++v) {
            if (at_[v].mate == kFree) {
                lower(v);
            }
        }
    }

    void set_dual(Node v, Value dual) { at_[v].y = dual; }
    void raise_dual(Node v, Value by) {
        at_[v].y += by;
        unmatch(v);
    }
    void unmatch(Node v) {
        if (at_[v].mate >= 0) {
            at_[at_[v].mate].mate = kFree;
        } else if (at_[v].mate < kFree) {
            open_cycle(v);
        }
        at_[v].mate = kFree;
    }
    void match(Node u, Node v) {
        at_[u].mate = v;
        at_[v].mate = u;
    }

    void run() {
        for (Node v = 0; v < n_; ++v) {
            if (at_[v].mate == kFree && at_[v].y > 0) {
                search(v);
            }
        }
    }

    // Turns every half-matched cycle into matched edges and one free vertex; returns their number.
    Node open_cycles() {
        Node cycles = 0;
        for (Node v = 0; v < n_; ++v) {
            if (at_[v].mate < kFree) {
                open_cycle(v);
                at_[v].mate = kFree;
                ++cycles;
            }
        }
        return cycles;
    }

    Value dual(Node v) const { return at_[v].y; }
    Node mate(Node v) const { return at_[v].mate; }

  private:
    static constexpr Node kFree = -1;
    enum Label : std::int32_t { kNone, kPlus, kMinus };

    struct Vertex {
        Value y = 0;         // of a + vertex plus, of a - vertex minus the time of its label
        Value key = kNever;  // when it gets tight with the tree
        Node from = -1;      // by the edge to this + vertex
        Node mate = kFree;   // below: half-matched, with (kFree - 1 - mate) next on its cycle
        Label label = kNone;
    };

    enum class End { kZero, kAugment, kCycle };

    Node next_on_cycle(Node v) const { return kFree - 1 - at_[v].mate; }

    void lower(Node v) {
        Value lowest = 0;
        Node tight = -1;
        for (const auto& edge : graph_->edges(v)) {
            const Vertex& other = at_[edge.to];
            const Value needed = edge.weight - other.y;
            if (needed > lowest || (needed == lowest && needed > 0 && tight < 0)) {
                tight = other.mate == kFree ? edge.to : -1;
                lowest = needed;
            }
        }
        at_[v].y = lowest;
        if (tight >= 0) {
            at_[v].mate = tight;
            at_[tight].mate = v;
        }
    }

    void search(Node root) {
        now_ = 0;
        end_time_ = kNever;
        make_plus(root);
        while (end_time_ > now_) {
            const Node v = next_tight();
            if (v < 0) {
                break;
            }
            Vertex& minus = at_[v];
            minus.label = kMinus;
            minus.y -= now_;
            labelled_.push_back(v);
            make_plus(minus.mate);
        }
        finish();
    }

    // The next matched vertex that gets tight before the search ends; -1: there is none.
    Node next_tight() {
        while (!ready_.empty()) {
            const Node v = ready_.back();
            ready_.pop_back();
            if (at_[v].label == kNone) {
                return v;
            }
        }
        while (!heap_.empty()) {
            const auto [time, v, from] = heap_.top();
            if (time >= end_time_) {
                return -1;
            }
            heap_.pop();
            if (at_[v].label == kNone && at_[v].from == from && at_[v].key == time) {
                now_ = time;
                return v;
            }
        }
        return -1;
    }

    void make_plus(Node u) {
        Vertex& plus = at_[u];
        plus.label = kPlus;
        labelled_.push_back(u);
        plus.y += now_;
        const Value p = plus.y;
        if (p < end_time_) {
            end_time_ = p;
            end_ = End::kZero;
            end_u_ = u;
        }
        for (const auto& edge : graph_->edges(u)) {
            Vertex& other = at_[edge.to];
            if (other.label == kMinus) {
                continue;
            }
            Value time = p - edge.weight + other.y;
            if (other.label == kPlus) {
                time >>= 1;
            }
            if (time >= end_time_) {
                continue;
            }
            if (other.label == kPlus || other.mate < 0) {
                end_time_ = time;
                end_ = other.label == kPlus ? End::kCycle : End::kAugment;
                end_u_ = u;
                end_v_ = edge.to;
                if (time == now_) {
                    return;
                }
            } else if (time < other.key) {
                if (other.key == kNever) {
                    touched_.push_back(edge.to);
                }
                other.key = time;
                other.from = u;
                if (time == now_) {
                    ready_.push_back(edge.to);
                } else {
                    heap_.push(time, edge.to, u);
                }
            }
        }
    }

    void finish() {
        switch (end_) {
            case End::kZero:
                flip(end_u_, kFree);
                break;
            case End::kAugment:
                if (at_[end_v_].mate < kFree) {
                    open_cycle(end_v_);
                }
                at_[end_v_].mate = end_u_;
                flip(end_u_, end_v_);
                break;
            case End::kCycle:
                close_cycle(end_u_, end_v_);
                break;
        }
        for (const Node v : labelled_) {
            Vertex& vertex = at_[v];
            vertex.y += vertex.label == kPlus ? -end_time_ : end_time_;
            vertex.label = kNone;
        }
        for (const Node v : touched_) {
            at_[v].key = kNever;
        }
        labelled_.clear();
        touched_.clear();
        ready_.clear();
        heap_.clear();
    }

    // The + vertex u takes v for its mate; the path from there to the root is flipped.
    void flip(Node u, Node v) {
        for (;;) {
            const Node minus = at_[u].mate;
            at_[u].mate = v;
            if (minus < 0) {
                return;
            }
            u = at_[minus].from;
            at_[minus].mate = u;
            v = minus;
        }
    }

    // All vertices of the cycle but v are matched with each other.
    void open_cycle(Node v) {
        for (Node a = next_on_cycle(v); a != v;) {
            const Node b = next_on_cycle(a);
            const Node next = next_on_cycle(b);
            at_[a].mate = b;
            at_[b].mate = a;
            a = next;
        }
    }

    void close_cycle(Node u, Node v) {
        const Node base = common_ancestor(u, v);
        cycle_.clear();
        climb(u, base);
        std::reverse(cycle_.begin(), cycle_.end());
        climb(v, base);
        cycle_.push_back(base);
        flip(base, kFree);
        Node last = base;
        for (const Node w : cycle_) {
            at_[last].mate = kFree - 1 - w;
            last = w;
        }
    }

    void climb(Node plus, Node base) {
        while (plus != base) {
            const Node minus = at_[plus].mate;
            cycle_.push_back(plus);
            cycle_.push_back(minus);
            plus = at_[minus].from;
        }
    }

    // Marks + vertices upwards, in turns, with a key that none of them has.
    Node common_ancestor(Node a, Node b) {
        constexpr Value kMarked = -1;
        for (Node u = a, v = b;; std::swap(u, v)) {
            if (u < 0) {
                continue;
            }
            if (at_[u].key == kMarked) {
                return u;
            }
            if (at_[u].key == kNever) {
                touched_.push_back(u);
            }
            at_[u].key = kMarked;
            u = at_[u].mate < 0 ? -1 : at_[at_[u].mate].from;
        }
    }

    Node n_;
    const Adjacency<Weight>* graph_ = nullptr;
    std::vector<Vertex> at_;
    Value now_ = 0;
    Value end_time_ = 0;
    End end_ = End::kZero;
    Node end_u_ = -1;
    Node end_v_ = -1;
    std::vector<Node> labelled_;
    std::vector<Node> touched_;
    std::vector<Node> ready_;
    std::vector<Node> cycle_;
    TimeHeap heap_;
};

}  // namespace hivecore::matching
