// The half-integral phase: a fractional matching of the greatest weight, without blossoms.
//
// Every vertex ends matched, free with dual 0, or on an odd cycle of tight edges that are matched
// by half each. On most graphs few cycles are left, so that nearly all the work is done here, by
// searches that end as soon as two + vertices meet: one tree per free vertex, like Dijkstra's.
// A search ends by the first of
//     a free vertex, or one on a half-matched cycle, gets tight with a + vertex;
//     two + vertices get tight with each other: their odd cycle becomes half-matched;
//     the dual of a + vertex has sunk to 0: it becomes the free one.
//
// Invariants between searches: y >= 0, y_u + y_v >= w on all edges, w being twice the weight;
// matched and half-matched edges are tight. Each search that is not given up leaves one vertex
// fewer that is free with y > 0. A search that is given up has moved duals, feasibly, and changed
// no pair. Along the tight edges of a tree all duals have one parity, so that the time at which two
// + vertices meet, half of their slack, is an integer.
//
// Opening a cycle matches all but one of its vertices with each other: duals stay feasible and
// pairs tight, and the blossom search (search.hpp) goes on from the vertices left free.
//
// Cost: that of a Dijkstra search per free vertex, O(n^2) on a matrix, O(m log n) on rows.
// Source: Balinski (1965); as a start of the blossom algorithm Applegate and Cook (1993).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "matching/deadline.hpp"
#include "matching/matching.hpp"

namespace hivecore::matching {

// Scan: where the edges are and which vertex gets tight next (dense/scan.hpp, sparse/scan.hpp).
//     begin(f), end(f)   a search starts, with no labels; it has ended, labels are gone
//     scan(f, u)         u is +, at(u).y is settled: look at its edges, and say end_by() where the
//                        search must end
//     next(f)            the next matched vertex to become -, with at(v).from the + vertex at the
//                        other end and `now` moved to its time; -1 if the search ends before
template <class Scan>
class Fractional {
  public:
    using Value = typename Scan::Value;
    static constexpr Value kNever = std::numeric_limits<Value>::max() / 4;
    static constexpr Node kFree = -1;

    enum Label : std::int32_t { kNone, kPlus, kMinus };

    struct Vertex {
        Value y = 0;         // of a + vertex plus, of a - vertex minus the time of its label
        Value key = kNever;  // for the scan: when it gets tight with the tree
        Node from = -1;      // by the edge to this + vertex
        Node mate = kFree;   // below: half-matched, with (kFree - 1 - mate) next on its cycle
        Label label = kNone;
        std::int32_t mark = 0;  // of a walk upwards
    };

    Fractional(Node n, Scan& scan) : n_(n), scan_(scan), at_(n) {}

    // To be called with feasible duals and a matching on tight edges. Past the deadline vertices
    // stay free, with duals that are not 0.
    void run(Deadline& deadline) {
        for (Node v = 0; v < n_ && !deadline.has_passed(); ++v) {
            if (at_[v].mate == kFree && at_[v].y > 0) {
                search(v, deadline);
            }
        }
    }

    // Which vertex of a cycle stays free makes no difference to the duals: it is the lowest.
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

    void set_dual(Node v, Value dual) { at_[v].y = dual; }

    void raise_dual(Node v, Value by) {
        at_[v].y += by;
        unmatch(v);
    }

    void match(Node u, Node v) {
        at_[u].mate = v;
        at_[v].mate = u;
    }

    void unmatch(Node v) {
        if (at_[v].mate >= 0) {
            at_[at_[v].mate].mate = kFree;
        } else if (at_[v].mate < kFree) {
            open_cycle(v);
        }
        at_[v].mate = kFree;
    }

    // For the scan, while a search goes on:
    Vertex& at(Node v) { return at_[v]; }

    // The search ends, at the latest, when the edge between the + vertex u and v gets tight, v
    // being + as well, free or half-matched; if v < 0, when the dual of u has sunk to 0.
    void end_by(Value time, Node u, Node v) {
        if (time < end_time) {
            end_time = time;
            end_u_ = u;
            end_v_ = v;
        }
    }

    Value now = 0;
    Value end_time = 0;

  private:
    Node next_on_cycle(Node v) const { return kFree - 1 - at_[v].mate; }

    void search(Node root, Deadline& deadline) {
        now = 0;
        end_time = kNever;
        scan_.begin(*this);
        make_plus(root);
        while (now < end_time && !deadline.has_passed()) {
            const Node v = scan_.next(*this);
            if (v < 0) {
                now = end_time;
                break;
            }
            Vertex& minus = at_[v];
            minus.label = kMinus;
            minus.y -= now;
            labelled_.push_back(v);
            make_plus(minus.mate);
        }
        if (now == end_time) {
            finish();
        }
        move_duals();
        scan_.end(*this);
    }

    void make_plus(Node u) {
        at_[u].label = kPlus;
        at_[u].y += now;
        labelled_.push_back(u);
        end_by(at_[u].y, u, -1);
        scan_.scan(*this, u);
    }

    void finish() {
        if (end_v_ < 0) {
            flip(end_u_, kFree);
        } else if (at_[end_v_].label == kPlus) {
            close_cycle(end_u_, end_v_);
        } else {
            unmatch(end_v_);
            at_[end_v_].mate = end_u_;
            flip(end_u_, end_v_);
        }
    }

    void move_duals() {
        for (const Node v : labelled_) {
            Vertex& vertex = at_[v];
            vertex.y += vertex.label == kPlus ? -now : now;
            vertex.label = kNone;
        }
        labelled_.clear();
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

    // All vertices of the cycle but v are matched with each other; v keeps the link of the cycle,
    // for the caller to replace.
    void open_cycle(Node v) {
        for (Node a = next_on_cycle(v); a != v;) {
            const Node b = next_on_cycle(a);
            const Node next = next_on_cycle(b);
            match(a, b);
            a = next;
        }
    }

    // The cycle through the edge between u and v and their common ancestor is matched by half; the
    // path from there to the root is flipped, so that the root is matched.
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

    // Climbs from both sides in turn: O(length of the cycle), not of the paths to the root.
    Node common_ancestor(Node a, Node b) {
        ++mark_round_;
        for (;;) {
            if (a >= 0) {
                if (at_[a].mark == mark_round_) {
                    return a;
                }
                at_[a].mark = mark_round_;
                a = at_[a].mate < 0 ? -1 : at_[at_[a].mate].from;
            }
            std::swap(a, b);
        }
    }

    Node n_;
    Scan& scan_;
    std::vector<Vertex> at_;
    Node end_u_ = -1;
    Node end_v_ = -1;
    std::int32_t mark_round_ = 0;
    std::vector<Node> labelled_;
    std::vector<Node> cycle_;
};

}  // namespace hivecore::matching
