// The primal-dual search for one alternating tree after the other, with blossoms.
//
// Invariants between searches: slack(u, v) = y_u + y_v + z(blossoms with both) - w >= 0 on all
// edges, w being twice the weight; matched edges and those inside blossoms are tight; y, z >= 0.
// A search starts at a free vertex with y > 0 and ends when the tree reaches another free node, or
// a vertex whose dual has sunk to 0 and which becomes the free one instead. So each search that is
// not given up leaves one vertex fewer that is free with y > 0; when none is left the matching is
// optimal. (Where a caller sets a floor above 0, that takes the place of 0; see matcher.cpp.)
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
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "matching/deadline.hpp"
#include "matching/matching.hpp"

namespace hivecore::matching {

// Engine: where the edges are and which event comes next (dense.hpp, sparse.hpp). Search keeps
// nodes and labels and tells the engine; of edges it knows only those that the engine names.
//     begin(s), end(s)         a search starts, with no labels; it has ended, labels are gone
//     became_plus(s, u)        the vertex u is +, with the shifted dual that it keeps: look at its
//                              edges; it may say end_by() for those that lead to a free node
//     became_minus(s, x)       all vertices of the node x are about to become -
//     unlabelled(s, v)         v, of a blossom that was expanded, has left the tree
//     regrouped(v, group)      v has another group, as the blossom around it took that
//     will_expand(s, x, time)  the z of the - blossom x sinks to 0 then, unless its label changes
//     next(s)                  the first event from `now` on; node -1 if there is none before
//                              end_time
template <class Engine>
class Search {
  public:
    using Value = typename Engine::Value;
    using Result = MatchingOf<std::conditional_t<(sizeof(Value) < 8), std::int64_t, Value>>;
    static constexpr Value kNever = std::numeric_limits<Value>::max() / 4;
    enum Label : std::int32_t { kNone, kFree, kPlus, kMinus };  // kFree: unlabelled, unmatched

    struct Event {
        Value time;
        Node node;  // a vertex whose edge gets tight, or a blossom to expand, from n
        Node from;  // the + vertex at the other end of the edge
    };

    // best and from are the engine's. 20 bytes with values of 32 bits: what a search looks up of a
    // vertex lies in one cache line.
    struct Vertex {
        Value p = 0;  // the shifted dual, less the summand of its group
        Value best = kNever;
        Node from = -1;
        Node group = -1;
        Node next = -1;  // in the list of vertices
    };

    Search(Node vertices, Engine& engine)
        : n(vertices), at_(n), groups_(n), nodes_(n), engine_(engine) {
        for (Node v = 0; v < n; ++v) {
            at_[v].group = v;
            groups_[v] = {0, v, kFree};
            nodes_[v].match_from = v;
            nodes_[v].head = v;
            nodes_[v].tail = v;
            nodes_[v].size = 1;
            nodes_[v].group = v;
        }
    }

    void set_dual(Node v, Value dual) { at_[v].p = dual - groups_[at_[v].group].shift; }

    void match(Node u, Node v) {
        nodes_[u].match_to = v;
        nodes_[v].match_to = u;
        groups_[u].label = kNone;
        groups_[v].label = kNone;
    }

    // To be called with feasible duals and a matching on tight edges. The roots are all vertices,
    // but at least those that are free with a dual above 0; past the deadline some stay so.
    void run(std::vector<Node> roots, Deadline& deadline) {
        run(std::move(roots), deadline, [](Node) { return Value{0}; });
    }

    // The same where a vertex becomes the free one once its dual has sunk to floor(root), which is
    // asked before each search and at most the lowest dual of all vertices with edges.
    template <class Limit, class Floor>
    void run(std::vector<Node> roots, Limit& deadline, Floor floor) {
        // Short searches first: two free nodes that lie far apart then both grow towards each
        // other. A search that is given up leaves duals where it has moved them, feasible, so that
        // the next one goes on from there. The last free node is searched without a limit.
        for (std::int64_t budget = kFirstBudget; !roots.empty() && !deadline.has_passed();
             budget *= kBudgetGrowth) {
            std::erase_if(roots, [&](Node v) {
                if (!is_free(v)) {
                    return true;
                }
                floor_ = floor(v);
                const bool is_last = floor_ > 0 || roots.size() == 1;
                return shifted_dual(v) == floor_ ||
                       search(outer(v), is_last ? kUnlimited : budget, deadline);
            });
        }
    }

    // Blossoms are collected first and then settled: every blossom's children get matched around
    // its base. The search cannot go on after that, unless rejoin() is called.
    Result result() {
        Result out;
        collect_blossoms(out);
        out.mate.resize(n);
        out.duals.resize(n);
        settle_all();
        for (Node v = 0; v < n; ++v) {
            out.mate[v] = nodes_[v].match_to;
            out.duals[v] = shifted_dual(v);
        }
        return out;
    }

    // After result(): puts the blossoms together again, the innermost first.
    void rejoin() {
        for (; !settled_.empty(); settled_.pop_back()) {
            const Node x = settled_.back();
            join(x);
            group_of(x).label = is_matched(x) ? kNone : kFree;
        }
    }

    // Dissolves all blossoms around v and unmatches it. Duals stay feasible and the pairs that are
    // left tight; the former mate of v, or of a blossom around it, is free.
    void release(Node v) {
        while (outer(v) != v) {
            dissolve(outer(v));
        }
        unmatch(v);
    }

    // --- what engines and starts may ask

    Node outer(Node vertex) const { return groups_[at_[vertex].group].outer; }
    Node group(Node vertex) const { return at_[vertex].group; }
    Vertex& at(Node vertex) { return at_[vertex]; }
    Label label(Node vertex) const { return groups_[at_[vertex].group].label; }
    Label label_of(Node outermost) const { return groups_[nodes_[outermost].group].label; }
    bool are_matched(Node u, Node v) const {
        const NodeState& x = nodes_[outer(u)];
        return x.match_to == v && x.match_from == u;
    }
    bool is_matched(Node outermost) const { return nodes_[outermost].match_to >= 0; }
    bool is_free(Node v) const {
        const NodeState& x = nodes_[outer(v)];
        return x.match_to < 0 && x.match_from == v;
    }
    bool is_outermost(Node x) const { return groups_[nodes_[x].group].outer == x; }
    Value shifted_dual(Node v) const { return at_[v].p + groups_[at_[v].group].shift; }

    // Calls visit(v) for each vertex of a node.
    template <class Visit>
    void for_vertices(Node x, Visit visit) const {
        const Node tail = nodes_[x].tail;
        for (Node v = nodes_[x].head;; v = at_[v].next) {
            const bool last = v == tail;
            visit(v);
            if (last) {
                return;
            }
        }
    }

    // Whether this is a - blossom whose z sinks to 0 at that time.
    bool expands_at(Value time, Node x) const {
        return is_outermost(x) && label_of(x) == kMinus && nodes_[x].z == 2 * time;
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
    Value now = 0;
    Value end_time = 0;

  private:
    static constexpr std::int64_t kFirstBudget = 64;
    static constexpr std::int64_t kBudgetGrowth = 4;
    static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

    // What the vertices of a node share, so that a label costs O(1) to give and to take.
    struct Group {
        Value shift;
        Node outer;  // the node whose vertices are this group
        Label label;
    };

    struct NodeState {
        Node match_to = -1;    // the vertex outside that it is matched with, -1: free
        Node match_from = -1;  // the vertex inside; of a free node its free vertex
        Node enter_from = -1;  // of a - node: the + vertex and ...
        Node enter_to = -1;    // ... its own vertex of the edge by which it was reached
        Value z = 0;           // of a blossom; shifted like the duals, by twice the time
        Node head = -1;        // of its segment of the list of vertices
        Node tail = -1;
        Node size = 0;
        Node group = -1;
        std::int32_t mark = 0;  // of a walk upwards
    };

    // A child of a blossom, and the edge from it to the next child around the odd cycle.
    struct Link {
        Node child;
        Node from;
        Node to;
    };
    using Blossom = std::vector<Link>;

    Blossom& blossom(Node x) { return blossoms_[x - n]; }

    // The children of a blossom keep the numbers of their groups for when it is expanded; only the
    // group of the whole counts until then.
    Group& group_of(Node outermost) { return groups_[nodes_[outermost].group]; }

    // --- labels; a node carries its true duals before and after being labelled

    void make_plus(Node x) {
        Group& group = group_of(x);
        group.label = kPlus;
        group.shift += now;
        labelled_.push_back(x);
        if (x >= n) {
            nodes_[x].z -= 2 * now;
        }
        scan(x);
    }

    // All vertices of a node that has become + look for edges.
    void scan(Node x) {
        budget_ -= nodes_[x].size;
        for_vertices(x, [&](Node v) {
            end_by(shifted_dual(v) - floor_, v, -1);
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
        nodes_[x].enter_from = from;
        nodes_[x].enter_to = to;
        if (x >= n) {
            nodes_[x].z += 2 * now;
            engine_.will_expand(*this, x, nodes_[x].z / 2);
        }
    }

    void unlabel(Node x) {
        Group& group = group_of(x);
        const Value shift = group.label == kPlus ? -now : now;
        group.shift += shift;
        group.label = nodes_[x].match_to < 0 ? kFree : kNone;
        if (x >= n) {
            nodes_[x].z -= 2 * shift;
        }
    }

    // --- one search

    // False if it was given up, after scanning about so many vertices or at the deadline.
    template <class Limit>
    bool search(Node root, std::int64_t budget, Limit& deadline) {
        if (deadline.has_passed()) {
            return false;
        }
        budget_ = budget;
        now = 0;
        end_time = kNever;
        labelled_.clear();
        engine_.begin(*this);
        make_plus(root);
        bool ended = true;
        for (;;) {
            const Event event = engine_.next(*this);
            if (event.node < 0 || event.time >= end_time) {
                now = end_time;
                end();
                break;
            }
            if (budget_ < 0 || deadline.has_passed()) {
                ended = false;
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
                    make_plus(outer(nodes_[x].match_to));
            }
        }
        for (const Node x : labelled_) {
            if (is_outermost(x) && label_of(x) >= kPlus) {
                unlabel(x);
            }
        }
        engine_.end(*this);
        return ended;
    }

    // The edge that ended the search becomes a pair; or, if it was a dual, its vertex is the free
    // one from now on, by the same flip of the path to the root.
    void end() {
        if (end_to_ >= 0) {
            const Node x = outer(end_to_);
            nodes_[x].match_to = end_from_;
            nodes_[x].match_from = end_to_;
            group_of(x).label = kNone;
        }
        augment(end_from_, end_to_);
    }

    // The + node of u takes v for its partner; the path from there to the root is flipped.
    void augment(Node u, Node v) {
        for (;;) {
            const Node x = outer(u);
            const Node partner = nodes_[x].match_to;
            nodes_[x].match_from = u;
            nodes_[x].match_to = v;
            if (partner < 0) {
                return;
            }
            const Node minus = outer(partner);
            u = nodes_[minus].enter_from;
            v = nodes_[minus].enter_to;
            nodes_[minus].match_from = v;
            nodes_[minus].match_to = u;
        }
    }

    Node tree_parent(Node plus) const {
        return nodes_[plus].match_to < 0 ? -1
                                         : outer(nodes_[outer(nodes_[plus].match_to)].enter_from);
    }

    // Climbs from both sides in turn: O(length of the cycle), not of the paths to the root.
    Node common_ancestor(Node a, Node b) {
        ++mark_round_;
        for (;;) {
            if (a >= 0) {
                if (nodes_[a].mark == mark_round_) {
                    return a;
                }
                nodes_[a].mark = mark_round_;
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
        nodes_.emplace_back();
        return static_cast<Node>(n + blossoms_.size() - 1);
    }

    // Appends the nodes from that of a + vertex up to below the base, with their edges upwards.
    void climb(Node vertex, Node base, std::vector<Link>& path) const {
        for (Node plus = outer(vertex); plus != base;) {
            const NodeState& upper = nodes_[plus];
            const Node minus = outer(upper.match_to);
            path.push_back({plus, upper.match_from, upper.match_to});
            path.push_back({minus, nodes_[minus].enter_to, nodes_[minus].enter_from});
            plus = outer(nodes_[minus].enter_from);
        }
    }

    // Two + nodes meet on the tight edge u - v: the odd cycle becomes one + node. Only the vertices
    // that were - look at their edges; what the others found stays true.
    void shrink(Node u, Node v) {
        const Node base = common_ancestor(outer(u), outer(v));
        const Node x = new_blossom();
        Blossom& parts = blossom(x);
        parts.clear();
        left_.clear();
        climb(u, base, left_);
        Node upper = base;
        for (auto up = left_.rbegin(); up != left_.rend(); ++up) {
            parts.push_back({upper, up->to, up->from});
            upper = up->child;
        }
        parts.push_back({upper, u, v});
        climb(v, base, parts);
        nodes_[x].match_to = nodes_[base].match_to;
        nodes_[x].match_from = nodes_[base].match_from;
        labelled_.push_back(x);
        nodes_[x].z = -2 * now;
        became_plus_.clear();
        for (const auto& [child, from, to] : parts) {
            Group& group = group_of(child);
            if (child >= n) {
                nodes_[child].z += group.label == kPlus ? 2 * now : -2 * now;  // true from here on
            }
            if (group.label == kMinus) {
                group.label = kPlus;
                group.shift += 2 * now;  // from y - t to y + t
                became_plus_.push_back(child);
            }
        }
        join(x);
        for (const Node changed : became_plus_) {
            scan(changed);
        }
    }

    // Makes the children of a new blossom one segment and one group: that of the largest child, so
    // that a vertex changes its group O(log n) times while blossoms grow.
    void join(Node x) {
        NodeState& whole = nodes_[x];
        whole.size = 0;
        whole.head = nodes_[blossom(x).front().child].head;
        Node largest = blossom(x).front().child;
        for (const auto& [child, from, to] : blossom(x)) {
            const NodeState& part = nodes_[child];
            if (whole.size > 0) {
                at_[whole.tail].next = part.head;
            }
            whole.tail = part.tail;
            whole.size += part.size;
            largest = part.size > nodes_[largest].size ? child : largest;
        }
        whole.group = nodes_[largest].group;
        Group& group = groups_[whole.group];
        group.outer = x;
        for (const auto& [child, from, to] : blossom(x)) {
            if (child != largest) {
                group_of(child).outer = x;
                const Value more = group_of(child).shift - group.shift;
                for_vertices(child, [&](Node v) {
                    at_[v].group = whole.group;
                    at_[v].p += more;
                    engine_.regrouped(v, whole.group);
                });
            }
        }
    }

    // The children of a blossom are nodes again, under the groups that they had before.
    void part(Node x) {
        const Node former = nodes_[x].group;
        const Group group = groups_[former];
        for (const auto& [child, from, to] : blossom(x)) {
            const Node own = nodes_[child].group;
            groups_[own] = {group.shift, child, kNone};
            if (own != former) {
                for_vertices(child, [&](Node v) { at_[v].group = own; });
            }
        }
    }

    // Matches the children of a blossom with each other around its base, and makes them nodes.
    // Returns the position of the base.
    std::size_t settle(Node x) {
        const Blossom& parts = blossom(x);
        part(x);
        const std::size_t base = position_of(nodes_[x].match_from, parts);
        nodes_[parts[base].child].match_to = nodes_[x].match_to;
        nodes_[parts[base].child].match_from = nodes_[x].match_from;
        for (std::size_t i = base + 1; i + 1 < base + parts.size(); i += 2) {
            const Link& a = parts[i % parts.size()];
            const Link& b = parts[(i + 1) % parts.size()];
            nodes_[a.child].match_from = a.from;
            nodes_[a.child].match_to = a.to;
            nodes_[b.child].match_from = a.to;
            nodes_[b.child].match_to = a.from;
        }
        return base;
    }

    // Of the child with this vertex, once the children are nodes.
    std::size_t position_of(Node vertex, const Blossom& parts) const {
        const auto link =
            std::find_if(parts.begin(), parts.end(),
                         [&, x = outer(vertex)](const Link& l) { return l.child == x; });
        return static_cast<std::size_t>(link - parts.begin());
    }

    // A - blossom whose z has sunk to 0: its children on the even way from where the tree enters
    // it to its base stay in the tree, the others leave it.
    void expand_in_tree(Node x) {
        const Node from = nodes_[x].enter_from;
        const Node to = nodes_[x].enter_to;
        const std::size_t base = settle(x);
        const std::size_t entry = position_of(to, blossom(x));
        std::swap(opened_, blossom(x));  // so that the memory of both is used again
        const Blossom& parts = opened_;
        unused_.push_back(x);
        nodes_[x].z = 0;
        const std::size_t size = parts.size();
        const bool forward = (base + size - entry) % size % 2 == 0;
        std::vector<Node>& plus = became_plus_;
        plus.clear();
        Node enter_u = from;
        Node enter_v = to;
        for (std::size_t i = entry;;) {
            stay_minus(parts[i].child, enter_u, enter_v);
            if (i == base) {
                break;
            }
            i = forward ? (i + 1) % size : (i + size - 1) % size;
            plus.push_back(parts[i].child);
            const std::size_t next = forward ? (i + 1) % size : (i + size - 1) % size;
            const std::size_t edge = forward ? i : next;
            enter_u = forward ? parts[edge].from : parts[edge].to;
            enter_v = forward ? parts[edge].to : parts[edge].from;
            i = next;
        }
        for (const auto& [child, edge_from, edge_to] : parts) {
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

    // --- changes between searches

    void unmatch(Node x) {
        const Node partner = nodes_[x].match_to;
        if (partner < 0) {
            return;
        }
        for (const Node side : {x, outer(partner)}) {
            nodes_[side].match_to = -1;
            group_of(side).label = kFree;
        }
    }

    // Half the dual of a blossom goes to each of its vertices, so that what was tight inside stays
    // tight; the edge by which it is matched does not.
    void dissolve(Node x) {
        if (nodes_[x].z > 0) {
            unmatch(x);
            group_of(x).shift += nodes_[x].z / 2;
            nodes_[x].z = 0;
        }
        const Node base = blossom(x)[settle(x)].child;
        unused_.push_back(x);
        if (!is_matched(base)) {
            group_of(base).label = kFree;
        }
    }

    // --- the result

    void collect_blossoms(Result& out) {
        struct Inside {
            Node node;
            std::int64_t around;  // the innermost blossom with z > 0 outside it, -1: none
        };
        out.innermost.assign(n, -1);
        std::vector<Inside> stack;
        for (Node v = 0; v < n; ++v) {
            if (outer(v) >= n && nodes_[outer(v)].head == v) {
                stack.push_back({outer(v), -1});
            }
        }
        while (!stack.empty()) {
            auto [x, around] = stack.back();
            stack.pop_back();
            if (nodes_[x].z > 0) {
                out.parents.push_back(around);
                out.blossom_duals.push_back(nodes_[x].z);
                around = static_cast<std::int64_t>(out.parents.size()) - 1;
            }
            for (const auto& [child, from, to] : blossom(x)) {
                if (child >= n) {
                    stack.push_back({child, around});
                } else {
                    out.innermost[child] = around;
                }
            }
        }
    }

    // From the outermost blossoms inwards, as the base of a child follows from the pairs around it.
    void settle_all() {
        std::vector<Node> stack;
        for (Node v = 0; v < n; ++v) {
            if (outer(v) >= n && nodes_[outer(v)].head == v) {
                stack.push_back(outer(v));
            }
        }
        settled_.clear();
        while (!stack.empty()) {
            const Node x = stack.back();
            stack.pop_back();
            settle(x);
            settled_.push_back(x);
            for (const auto& [child, from, to] : blossom(x)) {
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
    std::vector<NodeState> nodes_;
    std::vector<Blossom> blossoms_;
    std::vector<Node> unused_;
    std::vector<Node> labelled_;
    std::vector<Node> became_plus_;
    std::vector<Node> settled_;
    std::vector<Link> left_;
    Blossom opened_;
    std::int64_t budget_ = 0;
    Value floor_ = 0;
    Engine& engine_;
};

}  // namespace hivecore::matching
