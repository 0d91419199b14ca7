// The primal-dual search for one alternating tree after the other, with blossoms.
//
// Invariants between searches: slack(u, v) = y_u + y_v + z(blossoms with both) - w >= 0 on all
// edges, w being twice the weight; matched edges and those inside blossoms are tight; y, z >= 0.
// A search starts at a free vertex with y > 0 and ends when the tree reaches another free node, or
// a vertex whose dual has sunk to 0 and which becomes the free one instead. So each search leaves
// one vertex fewer that is free with y > 0, and when none is left the matching is optimal.
//
// Duals move with the time t of a search: those of + vertices sink, those of - vertices rise by
// one per unit. Only the shifted dual is stored: y = p - t on +, y = p + t on -. For each vertex v
//
//     best[v] = min over + vertices u, in another node than v, of p_u - w(u, v),   from[v] = u
//
// does not depend on the label of v, so that labels may change without repair. The edge is tight
// at time best[v] + y_v if v is unlabelled, (best[v] + p_v) / 2 if it is +. That is integral: along
// tight edges of even weight all + vertices of one tree have duals of one parity.
// Only for a + vertex can `from` end up in its own node (after a shrink): it is then recomputed
// when its time comes.
//
// A *node* is a vertex (0 to n-1) or an outermost blossom (from n). Which child of a blossom is
// its base follows from `match_from`, the vertex inside it that is matched outside; the matching
// within is settled when it is expanded.
//
// The vertices of a node are a segment, head to tail, of one linked list: a shrink concatenates,
// an expansion finds the segments of the children as they were. All vertices of a node have one
// group, that of its largest child; only the others change theirs (O(n log n) for n shrinks).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "matching/matching.hpp"

namespace hivecore::matching {

using Node = std::int32_t;

// Engine: where the edges are and which event comes next. See dense.hpp and sparse.hpp.
template <class Engine>
class Search {
  public:
    using Value = typename Engine::Value;
    enum Label : std::int8_t { kNone, kPlus, kMinus };

    struct Event {
        Value time;
        Node node;  // a vertex whose edge gets tight, or a blossom to expand, from n
    };

    Search(Node vertices, Engine& engine)
        : n(vertices),
          y(n, 0),
          label(n, kNone),
          match_to(n, -1),
          match_from(n),
          enter_from(n, -1),
          enter_to(n, -1),
          z(n, 0),
          next_(n, -1),
          group_(n),
          places_(n),
          engine_(engine) {
        for (Node v = 0; v < n; ++v) {
            match_from[v] = v;
            group_[v] = v;
            places_[v] = {v, v, 1, v, 0};
            node_of_group_.push_back(v);
        }
    }

    // To be called with feasible duals and a matching on tight edges.
    void run() {
        for (Node v = 0; v < n; ++v) {
            const Node x = outer(v);
            if (match_to[x] < 0 && match_from[x] == v && y[v] > 0) {
                search(x);
            }
        }
    }

    void match(Node u, Node v) {
        match_to[u] = v;
        match_to[v] = u;
    }

    Matching result() {
        Matching out;
        collect_blossoms(out);
        out.mate.assign(n, -1);
        settle_all();
        for (Node v = 0; v < n; ++v) {
            out.mate[v] = match_to[v];
            out.duals.push_back(y[v]);
        }
        return out;
    }

    bool is_plus(Node v) const { return label[outer(v)] == kPlus; }

    Node outer(Node vertex) const { return node_of_group_[group_[vertex]]; }

    const Node n;
    std::vector<Value> y;  // vertices; shifted by the time while their node is labelled
    // Of each node, blossoms from n:
    std::vector<Label> label;
    std::vector<Node> match_to;    // the vertex outside that it is matched with, -1: free
    std::vector<Node> match_from;  // the vertex inside; of a free node its free vertex
    std::vector<Node> enter_from;  // of a - node: the + vertex and ...
    std::vector<Node> enter_to;    // ... its own vertex of the edge by which it was reached
    std::vector<Value> z;          // of blossoms; shifted like y, by twice the time

    Value now = 0;
    Value zero_time = 0;  // when the dual of a + vertex sinks to 0
    Node zero_vertex = -1;

  private:
    struct Blossom {
        std::vector<Node> children;   // around the odd cycle
        std::vector<Node> edge_from;  // edge i runs from child i to child i + 1
        std::vector<Node> edge_to;
    };

    // Where a node is: its segment of the list of vertices, its group, its mark of a walk upwards.
    struct Place {
        Node head;
        Node tail;
        Node size;
        Node group;
        std::int32_t mark;
    };

    Blossom& blossom(Node x) { return blossoms_[x - n]; }

    // Calls visit(v) for each vertex of a node.
    template <class Visit>
    void for_vertices(Node x, Visit visit) {
        const Node tail = places_[x].tail;
        for (Node v = places_[x].head;; v = next_[v]) {
            const bool last = v == tail;
            visit(v);
            if (last) {
                return;
            }
        }
    }

    // A child of an expanded blossom is a node again, under the group that it had before.
    void regroup(Node x, Node former_group) {
        const Node group = places_[x].group;
        node_of_group_[group] = x;
        if (group != former_group) {
            for_vertices(x, [&](Node v) { group_[v] = group; });
        }
    }

    // --- labels; a node carries its true duals (y, z) before and after being labelled

    void lower_zero_time(Node v) {
        if (y[v] < zero_time) {
            zero_time = y[v];
            zero_vertex = v;
        }
    }

    void make_plus(Node x) {
        label[x] = kPlus;
        labelled_.push_back(x);
        if (x >= n) {
            z[x] -= 2 * now;
        }
        for_vertices(x, [&](Node v) {
            y[v] += now;
            lower_zero_time(v);
        });
        for_vertices(x, [&](Node v) { engine_.became_plus(*this, v); });
    }

    void make_minus(Node x, Node from, Node to) {
        for_vertices(x, [&](Node v) {
            y[v] -= now;
            engine_.became_minus(*this, v);
        });
        stay_minus(x, from, to);
    }

    // For a node whose vertices carry the duals of a - node already.
    void stay_minus(Node x, Node from, Node to) {
        label[x] = kMinus;
        labelled_.push_back(x);
        enter_from[x] = from;
        enter_to[x] = to;
        if (x >= n) {
            z[x] += 2 * now;
            engine_.will_expand(*this, x, z[x] / 2);
        }
    }

    void unlabel(Node x) {
        const Value shift = label[x] == kPlus ? -now : label[x] == kMinus ? now : 0;
        for_vertices(x, [&](Node v) { y[v] += shift; });
        if (x >= n) {
            z[x] -= 2 * shift;
        }
        label[x] = kNone;
    }

    // --- one search

    void search(Node root) {
        now = 0;
        zero_vertex = match_from[root];
        zero_time = y[zero_vertex];
        labelled_.clear();
        engine_.begin(*this);
        make_plus(root);
        for (;;) {
            const Event event = engine_.next(*this);
            if (event.node < 0 || event.time >= zero_time) {
                now = zero_time;
                free_instead(zero_vertex);
                break;
            }
            now = event.time;
            if (event.node >= n) {
                expand_in_tree(event.node);
                continue;
            }
            const Node v = event.node;
            const Node u = engine_.from(v);
            const Node x = outer(v);
            if (label[x] == kPlus) {
                shrink(u, v);
            } else if (match_to[x] < 0) {
                match_to[x] = u;
                match_from[x] = v;
                augment(u, v);
                break;
            } else {
                make_minus(x, u, v);
                make_plus(outer(match_to[x]));
            }
        }
        for (const Node x : labelled_) {
            if (label[x] != kNone) {
                unlabel(x);
            }
        }
        engine_.end(*this);
    }

    // The + node of u takes v for its partner; the path from there to the root is flipped.
    void augment(Node u, Node v) {
        for (;;) {
            const Node x = outer(u);
            const Node partner = match_to[x];
            match_from[x] = u;
            match_to[x] = v;
            if (partner < 0) {
                return;
            }
            const Node minus = outer(partner);
            u = enter_from[minus];
            v = enter_to[minus];
            match_from[minus] = v;
            match_to[minus] = u;
        }
    }

    void free_instead(Node v) { augment(v, -1); }

    Node tree_parent(Node plus) const {
        return match_to[plus] < 0 ? -1 : outer(enter_from[outer(match_to[plus])]);
    }

    Node common_ancestor(Node a, Node b) {
        ++mark_round_;
        for (;;) {
            if (a >= 0) {
                if (places_[a].mark == mark_round_) {
                    return a;
                }
                places_[a].mark = mark_round_;
                a = tree_parent(a);
            }
            std::swap(a, b);
        }
    }

    Node new_blossom() {
        if (!unused_.empty()) {
            const Node x = unused_.back();
            unused_.pop_back();
            return x;
        }
        blossoms_.emplace_back();
        label.push_back(kNone);
        match_to.push_back(-1);
        match_from.push_back(-1);
        enter_from.push_back(-1);
        enter_to.push_back(-1);
        z.push_back(0);
        places_.push_back({-1, -1, 0, -1, 0});
        return static_cast<Node>(n + blossoms_.size() - 1);
    }

    // Appends the nodes from that of a + vertex up to below the base, and of each node's edge
    // upwards the upper and the lower end.
    void climb(Node vertex, Node base, std::vector<Node>& nodes, std::vector<Node>& upper,
               std::vector<Node>& lower) const {
        for (Node plus = outer(vertex); plus != base;) {
            const Node minus = outer(match_to[plus]);
            nodes.push_back(plus);
            upper.push_back(match_to[plus]);
            lower.push_back(match_from[plus]);
            nodes.push_back(minus);
            upper.push_back(enter_from[minus]);
            lower.push_back(enter_to[minus]);
            plus = outer(enter_from[minus]);
        }
    }

    // Two + nodes meet on the tight edge u - v: the odd cycle becomes one + node.
    void shrink(Node u, Node v) {
        const Node base = common_ancestor(outer(u), outer(v));
        const Node x = new_blossom();
        Blossom& made = blossom(x);
        made.children.clear();
        made.edge_from.clear();
        made.edge_to.clear();
        // Down from the base to the node of u, which is found upwards.
        climb(u, base, made.children, made.edge_from, made.edge_to);
        made.children.push_back(base);
        std::reverse(made.children.begin(), made.children.end());
        std::reverse(made.edge_from.begin(), made.edge_from.end());
        std::reverse(made.edge_to.begin(), made.edge_to.end());
        made.edge_from.push_back(u);
        made.edge_to.push_back(v);
        climb(v, base, made.children, made.edge_to, made.edge_from);
        match_to[x] = match_to[base];
        match_from[x] = match_from[base];
        label[x] = kPlus;
        labelled_.push_back(x);
        z[x] = -2 * now;

        became_plus_.clear();
        for (const Node child : made.children) {
            if (child >= n) {
                z[child] += label[child] == kPlus ? 2 * now : -2 * now;  // true from here on
            }
            if (label[child] == kMinus) {
                for_vertices(child, [&](Node w) {
                    y[w] += 2 * now;  // from p + t to p - t
                    lower_zero_time(w);
                    became_plus_.push_back(w);
                });
            }
            label[child] = kNone;
        }
        join(x);
        for (const Node w : became_plus_) {
            engine_.became_plus(*this, w);
        }
    }

    // Makes the children of a new blossom one segment and one group.
    void join(Node x) {
        const std::vector<Node>& children = blossom(x).children;
        Place& place = places_[x];
        place.size = 0;
        Node largest = children.front();
        for (const Node child : children) {
            Place& part = places_[child];
            if (child == children.front()) {
                place.head = part.head;
            } else {
                next_[place.tail] = part.head;
            }
            place.tail = part.tail;
            place.size += part.size;
            largest = part.size > places_[largest].size ? child : largest;
        }
        place.group = places_[largest].group;
        node_of_group_[place.group] = x;
        for (const Node child : children) {
            if (child != largest) {
                for_vertices(child, [&](Node v) { group_[v] = place.group; });
            }
        }
    }

    // Matches the children of a blossom with each other around its base, and makes them nodes.
    // Returns the position of the base.
    std::size_t settle(Node x) {
        Blossom& parts = blossom(x);
        const std::size_t size = parts.children.size();
        for (const Node child : parts.children) {
            regroup(child, places_[x].group);
        }
        const std::size_t base = position_of(match_from[x], parts);
        match_to[parts.children[base]] = match_to[x];
        match_from[parts.children[base]] = match_from[x];
        for (std::size_t i = 1; i < size; i += 2) {
            const std::size_t a = (base + i) % size;
            const std::size_t b = (base + i + 1) % size;
            match_from[parts.children[a]] = parts.edge_from[a];
            match_to[parts.children[a]] = parts.edge_to[a];
            match_from[parts.children[b]] = parts.edge_to[a];
            match_to[parts.children[b]] = parts.edge_from[a];
        }
        return base;
    }

    // Of the child with this vertex, once the children are nodes.
    std::size_t position_of(Node vertex, const Blossom& parts) const {
        const auto child = std::find(parts.children.begin(), parts.children.end(), outer(vertex));
        return static_cast<std::size_t>(child - parts.children.begin());
    }

    // A - blossom whose z has sunk to 0: its children on the even way from where the tree enters
    // it to its base stay in the tree, the others leave it.
    void expand_in_tree(Node x) {
        const Node from = enter_from[x];
        const Node to = enter_to[x];
        label[x] = kNone;
        const std::size_t base = settle(x);
        const std::size_t entry = position_of(to, blossom(x));
        std::swap(opened_, blossom(x));  // so that the memory of both is used again
        const Blossom& parts = opened_;
        unused_.push_back(x);
        z[x] = 0;
        const std::size_t size = parts.children.size();
        for (const Node child : parts.children) {
            label[child] = kNone;
        }
        const bool forward = (base + size - entry) % size % 2 == 0;
        std::vector<Node>& plus = became_plus_;
        plus.clear();
        Node enter_u = from;
        Node enter_v = to;
        for (std::size_t i = entry;;) {
            stay_minus(parts.children[i], enter_u, enter_v);
            if (i == base) {
                break;
            }
            i = forward ? (i + 1) % size : (i + size - 1) % size;
            plus.push_back(parts.children[i]);
            const std::size_t next = forward ? (i + 1) % size : (i + size - 1) % size;
            const std::size_t edge = forward ? i : next;
            enter_u = forward ? parts.edge_from[edge] : parts.edge_to[edge];
            enter_v = forward ? parts.edge_to[edge] : parts.edge_from[edge];
            i = next;
        }
        for (const Node child : parts.children) {
            if (label[child] == kNone) {
                for_vertices(child, [&](Node v) {
                    y[v] += now;
                    engine_.unlabelled(*this, v);
                });
            }
        }
        for (const Node child : plus) {
            make_plus(child);
        }
    }

    // --- the result

    void collect_blossoms(Matching& out) {
        out.blossom_offsets.push_back(0);
        std::vector<Node> stack;
        for (Node v = 0; v < n; ++v) {
            if (outer(v) >= n && places_[outer(v)].head == v) {
                stack.push_back(outer(v));
            }
        }
        while (!stack.empty()) {
            const Node x = stack.back();
            stack.pop_back();
            const Blossom& parts = blossom(x);
            if (z[x] > 0) {
                for_vertices(x, [&](Node v) { out.blossom_vertices.push_back(v); });
                out.blossom_offsets.push_back(
                    static_cast<std::int64_t>(out.blossom_vertices.size()));
                out.blossom_duals.push_back(z[x]);
            }
            for (const Node child : parts.children) {
                if (child >= n) {
                    stack.push_back(child);
                }
            }
        }
    }

    void settle_all() {
        std::vector<Node> stack;
        for (Node v = 0; v < n; ++v) {
            if (outer(v) >= n && places_[outer(v)].head == v) {
                stack.push_back(outer(v));
            }
        }
        while (!stack.empty()) {
            const Node x = stack.back();
            stack.pop_back();
            settle(x);
            for (const Node child : blossom(x).children) {
                if (child >= n) {
                    stack.push_back(child);
                }
            }
        }
    }

    std::int32_t mark_round_ = 0;
    std::vector<Node> next_;   // of each vertex in the list of vertices
    std::vector<Node> group_;  // of each vertex
    std::vector<Node> node_of_group_;
    std::vector<Place> places_;  // of each node
    std::vector<Blossom> blossoms_;
    std::vector<Node> unused_;
    std::vector<Node> labelled_;
    std::vector<Node> became_plus_;
    Blossom opened_;
    Engine& engine_;
};

}  // namespace hivecore::matching
