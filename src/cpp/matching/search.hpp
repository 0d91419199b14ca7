// The primal-dual search for one alternating tree after the other, with blossoms.
//
// Invariants between searches: slack(u, v) = y_u + y_v + z(blossoms with both) - w >= 0 on all
// edges, w being twice the weight; matched edges and those inside blossoms are tight; y, z >= 0.
// A search starts at a free vertex with y > 0 and ends when the tree reaches another free node, or
// a vertex whose dual has sunk to 0 and which becomes the free one instead. So each search leaves
// one vertex fewer that is free with y > 0, and when none is left the matching is optimal.
//
// Duals move with the time t of a search: those of + vertices sink, those of - vertices rise by
// one per unit. What is stored is the shifted dual p, constant while the label lasts: y = p - t on
// +, y = p + t on -, y = p on unlabelled vertices. For each vertex v
//
//     best[v] = min over + vertices u, in another node than v, of p_u - w(u, v)
//
// does not depend on the label of v, so that labels may change without repair. The edge is tight
// at time best[v] + p_v if v is unlabelled, (p_u + p_v - w) / 2 if both are +. That is integral:
// along tight edges of even weight all + vertices of one tree have duals of one parity.
//
// A *node* is a vertex (0 to n-1) or an outermost blossom (from n). Which child of a blossom is
// its base follows from `match_from`, the vertex inside it that is matched outside; the matching
// within is settled when it is expanded.
//
// The vertices of a node are a segment, head to tail, of one linked list: a shrink concatenates,
// an expansion finds the segments of the children as they were. All vertices of a node have one
// group, that of its largest child; only the others change theirs (O(n log n) for n shrinks).
// A group carries the label of its node and a summand of its vertices' duals, so that a node gets
// and loses its label at once, however large it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "matching/matching.hpp"

namespace hivecore::matching {

// Engine: where the edges are and which event comes next. See dense.hpp and sparse.hpp.
template <class Engine>
class Search {
  public:
    using Value = typename Engine::Value;
    enum Label : std::int32_t { kNone, kFree, kPlus, kMinus };  // kFree: unlabelled, unmatched

    struct Event {
        Value time;
        Node node;  // a vertex whose edge gets tight, or a blossom to expand, from n
        Node from;  // the + vertex at the other end of the edge
    };

    Search(Node vertices, Engine& engine)
        : n(vertices),
          match_to(n, -1),
          match_from(n),
          enter_from(n, -1),
          enter_to(n, -1),
          z(n, 0),
          at_(n),
          groups_(n),
          places_(n),
          engine_(engine) {
        for (Node v = 0; v < n; ++v) {
            match_from[v] = v;
            at_[v] = {0, v, -1};
            groups_[v] = {0, v, kFree};
            places_[v] = {v, v, 1, v, 0};
        }
    }

    void set_dual(Node v, Value dual) { at_[v].p = dual; }

    // To be called with feasible duals and a matching on tight edges.
    void run() {
        for (Node v = 0; v < n; ++v) {
            const Node x = outer(v);
            if (match_to[x] < 0 && match_from[x] == v && shifted_dual(v) > 0) {
                search(x);
            }
        }
    }

    void match(Node u, Node v) {
        match_to[u] = v;
        match_to[v] = u;
        groups_[u].label = kNone;
        groups_[v].label = kNone;
    }

    Matching result() {
        Matching out;
        collect_blossoms(out);
        out.mate.assign(n, -1);
        settle_all();
        for (Node v = 0; v < n; ++v) {
            out.mate[v] = match_to[v];
            out.duals.push_back(shifted_dual(v));
        }
        return out;
    }

    Node outer(Node vertex) const { return groups_[at_[vertex].group].outer; }
    Node group(Node vertex) const { return at_[vertex].group; }
    Label label(Node vertex) const { return groups_[at_[vertex].group].label; }
    Label label_of(Node outermost) const { return groups_[places_[outermost].group].label; }
    bool is_outermost(Node x) const { return groups_[places_[x].group].outer == x; }
    Value shifted_dual(Node v) const { return at_[v].p + groups_[at_[v].group].shift; }

    // Calls visit(v) for each vertex of a node.
    template <class Visit>
    void for_vertices(Node x, Visit visit) const {
        const Node tail = places_[x].tail;
        for (Node v = places_[x].head;; v = at_[v].next) {
            const bool last = v == tail;
            visit(v);
            if (last) {
                return;
            }
        }
    }

    // The search ends, at the latest, when this edge between a + and a free node gets tight.
    void end_by(Value time, Node plus, Node free) {
        if (time < end_time) {
            end_time = time;
            end_from_ = plus;
            end_to_ = free;
        }
    }

    const Node n;
    // Of each node, blossoms from n:
    std::vector<Node> match_to;    // the vertex outside that it is matched with, -1: free
    std::vector<Node> match_from;  // the vertex inside; of a free node its free vertex
    std::vector<Node> enter_from;  // of a - node: the + vertex and ...
    std::vector<Node> enter_to;    // ... its own vertex of the edge by which it was reached
    std::vector<Value> z;          // of blossoms; shifted like the duals, by twice the time

    Value now = 0;
    Value end_time = 0;

  private:
    struct Vertex {
        Value p;  // the shifted dual, less the summand of its group
        Node group;
        Node next;  // in the list of vertices
    };

    struct Group {
        Value shift;
        Node outer;  // the node whose vertices are this group
        Label label;
    };

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

    Group& group_of(Node outermost) { return groups_[places_[outermost].group]; }

    // --- labels; a node carries its true duals before and after being labelled

    void make_plus(Node x) {
        Group& group = group_of(x);
        group.label = kPlus;
        group.shift += now;
        labelled_.push_back(x);
        if (x >= n) {
            z[x] -= 2 * now;
        }
        scan(x);
    }

    // All vertices of a node that has become + look for edges.
    void scan(Node x) {
        for_vertices(x, [&](Node v) {
            end_by(shifted_dual(v), v, -1);
            engine_.became_plus(*this, v);
        });
    }

    void make_minus(Node x, Node from, Node to) {
        group_of(x).shift -= now;
        engine_.became_minus(*this, x);
        stay_minus(x, from, to);
    }

    // For a node whose vertices carry the duals of a - node already.
    void stay_minus(Node x, Node from, Node to) {
        group_of(x).label = kMinus;
        labelled_.push_back(x);
        enter_from[x] = from;
        enter_to[x] = to;
        if (x >= n) {
            z[x] += 2 * now;
            engine_.will_expand(*this, x, z[x] / 2);
        }
    }

    void unlabel(Node x) {
        Group& group = group_of(x);
        const Value shift = group.label == kPlus ? -now : now;
        group.shift += shift;
        group.label = match_to[x] < 0 ? kFree : kNone;
        if (x >= n) {
            z[x] -= 2 * shift;
        }
    }

    // --- one search

    void search(Node root) {
        now = 0;
        end_time = engine_.kNever;
        labelled_.clear();
        engine_.begin(*this);
        make_plus(root);
        for (;;) {
            const Event event = engine_.next(*this);
            if (event.node < 0 || event.time >= end_time) {
                now = end_time;
                end();
                break;
            }
            now = event.time;
            if (event.node >= n) {
                expand_in_tree(event.node);
                continue;
            }
            const Node x = outer(event.node);
            switch (label(event.node)) {
                case kPlus:
                    shrink(event.from, event.node);
                    break;
                case kFree:
                    end_by(now, event.from, event.node);
                    break;
                default:
                    make_minus(x, event.from, event.node);
                    make_plus(outer(match_to[x]));
            }
        }
        for (const Node x : labelled_) {
            if (is_outermost(x) && label_of(x) >= kPlus) {
                unlabel(x);
            }
        }
        engine_.end(*this);
    }

    void end() {
        if (end_to_ >= 0) {
            const Node x = outer(end_to_);
            match_to[x] = end_from_;
            match_from[x] = end_to_;
            group_of(x).label = kNone;
        }
        augment(end_from_, end_to_);
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
        labelled_.push_back(x);
        z[x] = -2 * now;
        became_plus_.clear();
        for (const Node child : made.children) {
            Group& group = group_of(child);
            if (child >= n) {
                z[child] += group.label == kPlus ? 2 * now : -2 * now;  // true from here on
            }
            if (group.label == kMinus) {
                group.label = kPlus;
                group.shift += 2 * now;  // from y - t to y + t
                became_plus_.push_back(child);
            }
        }
        join(x);
        for (const Node child : became_plus_) {
            scan(child);
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
                at_[place.tail].next = part.head;
            }
            place.tail = part.tail;
            place.size += part.size;
            largest = part.size > places_[largest].size ? child : largest;
        }
        place.group = places_[largest].group;
        Group& group = groups_[place.group];
        group.outer = x;
        for (const Node child : children) {
            if (child != largest) {
                group_of(child).outer = x;
                const Value more = group_of(child).shift - group.shift;
                for_vertices(child, [&](Node v) {
                    at_[v].group = place.group;
                    at_[v].p += more;
                });
            }
        }
    }

    // The children of a blossom are nodes again, under the groups that they had before.
    void part(Node x) {
        const Node former = places_[x].group;
        const Group group = groups_[former];
        for (const Node child : blossom(x).children) {
            const Node own = places_[child].group;
            groups_[own] = {group.shift, child, kNone};
            if (own != former) {
                for_vertices(child, [&](Node v) { at_[v].group = own; });
            }
        }
    }

    // Matches the children of a blossom with each other around its base, and makes them nodes.
    // Returns the position of the base.
    std::size_t settle(Node x) {
        Blossom& parts = blossom(x);
        const std::size_t size = parts.children.size();
        part(x);
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
        const std::size_t base = settle(x);
        const std::size_t entry = position_of(to, blossom(x));
        std::swap(opened_, blossom(x));  // so that the memory of both is used again
        const Blossom& parts = opened_;
        unused_.push_back(x);
        z[x] = 0;
        const std::size_t size = parts.children.size();
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
            Group& group = group_of(child);
            if (group.label == kNone) {
                group.shift += now;
                for_vertices(child, [&](Node v) { engine_.unlabelled(*this, v); });
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

    Node end_from_ = -1;  // a + vertex
    Node end_to_ = -1;    // a vertex of a free node; -1: end_from_ becomes free
    std::int32_t mark_round_ = 0;
    std::vector<Vertex> at_;
    std::vector<Group> groups_;
    std::vector<Place> places_;  // of each node
    std::vector<Blossom> blossoms_;
    std::vector<Node> unused_;
    std::vector<Node> labelled_;
    std::vector<Node> became_plus_;
    Blossom opened_;
    Engine& engine_;
};

}  // namespace hivecore::matching
