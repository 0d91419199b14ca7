// The sparse engine: compressed rows, and a heap of events in which outdated entries stay until
// they surface. All that a search touched is put back at its end, so that a search costs what it
// reaches. No event is entered that lies behind the known end of the search.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "matching/matching.hpp"
#include "matching/search.hpp"

namespace hivecore::matching {
namespace {

class Sparse {
  public:
    using Value = std::int64_t;
    using S = Search<Sparse>;
    static constexpr Value kNever = std::numeric_limits<Value>::max() / 4;

    // Edges of weight <= 0 are left out, weights doubled.
    Sparse(Node n, std::span<const std::int64_t> offsets, std::span<const std::int32_t> neighbours,
           std::span<const std::int64_t> weights)
        : best_(n, kNever), from_(n, -1) {
        offsets_.reserve(n + 1);
        offsets_.push_back(0);
        for (Node v = 0; v < n; ++v) {
            for (std::int64_t e = offsets[v]; e < offsets[v + 1]; ++e) {
                if (weights[e] > 0 && neighbours[e] != v) {
                    edges_.push_back({2 * weights[e], neighbours[e]});
                }
            }
            offsets_.push_back(static_cast<std::int64_t>(edges_.size()));
        }
    }

    struct Edge {
        Value weight;
        Node to;
    };
    std::span<const Edge> edges(Node v) const {
        return {edges_.data() + offsets_[v], edges_.data() + offsets_[v + 1]};
    }

    void begin(S&) {}
    void end(S&) {
        for (const Node v : touched_) {
            best_[v] = kNever;
        }
        touched_.clear();
        heap_.clear();
    }

    void became_plus(S& s, Node u) {
        const Value p = s.y[u];
        const Node own = s.outer(u);
        for (const Edge& edge : edges(u)) {
            const Node v = edge.to;
            const Value candidate = p - edge.weight;
            if (candidate < best_[v] && s.outer(v) != own) {
                if (best_[v] == kNever) {
                    touched_.push_back(v);
                }
                best_[v] = candidate;
                from_[v] = u;
                enter(s, v);
            }
        }
        enter(s, u);
    }
    void became_minus(S&, Node) {}
    void unlabelled(S& s, Node v) { enter(s, v); }
    void will_expand(S& s, Node x, Value time) { push(s, time, x); }

    Node from(Node v) const { return from_[v]; }

    typename S::Event next(S& s) {
        while (!heap_.empty()) {
            const typename S::Event event = pop();
            if (event.node >= s.n) {
                if (s.label[event.node] == S::kMinus && s.z[event.node] / 2 == event.time) {
                    return event;
                }
                continue;
            }
            const Node v = event.node;
            const auto label = s.label[s.outer(v)];
            if (label == S::kMinus || time_of(s, v) != event.time) {
                continue;
            }
            if (label == S::kNone) {
                return event;
            }
            if (s.outer(v) != s.outer(from_[v])) {
                push(s, event.time, v);  // after the shrink that follows, v must look elsewhere
                return event;
            }
            find_best_elsewhere(s, v);
        }
        return {kNever, -1};
    }

  private:
    struct Later {
        bool operator()(const typename S::Event& a, const typename S::Event& b) const {
            return a.time != b.time ? a.time > b.time : a.node > b.node;
        }
    };

    Value time_of(const S& s, Node v) const {
        const Value whole = best_[v] + s.y[v];
        return s.label[s.outer(v)] == S::kPlus ? whole >> 1 : whole;
    }

    void push(const S& s, Value time, Node node) {
        if (time < s.zero_time) {
            heap_.push_back({time, node});
            std::push_heap(heap_.begin(), heap_.end(), Later{});
        }
    }

    typename S::Event pop() {
        std::pop_heap(heap_.begin(), heap_.end(), Later{});
        const typename S::Event event = heap_.back();
        heap_.pop_back();
        return event;
    }

    void enter(const S& s, Node v) {
        if (best_[v] != kNever && s.label[s.outer(v)] != S::kMinus) {
            push(s, time_of(s, v), v);
        }
    }

    // For a + vertex whose best partner is in its own blossom by now.
    void find_best_elsewhere(S& s, Node v) {
        best_[v] = kNever;
        for (const Edge& edge : edges(v)) {
            const Node u = edge.to;
            if (s.outer(u) != s.outer(v) && s.is_plus(u) && s.y[u] - edge.weight < best_[v]) {
                best_[v] = s.y[u] - edge.weight;
                from_[v] = u;
            }
        }
        enter(s, v);
    }

    std::vector<std::int64_t> offsets_;
    std::vector<Edge> edges_;
    std::vector<Value> best_;
    std::vector<Node> from_;
    std::vector<Node> touched_;
    std::vector<typename S::Event> heap_;
};

// Feasible duals, each as low as its neighbours allow, and a matching on tight edges.
void start(Search<Sparse>& s, const Sparse& engine) {
    for (Node v = 0; v < s.n; ++v) {
        for (const Sparse::Edge& edge : engine.edges(v)) {
            s.y[v] = std::max(s.y[v], edge.weight / 2);
        }
    }
    for (Node v = 0; v < s.n; ++v) {
        if (s.match_to[v] >= 0) {
            continue;
        }
        std::int64_t lowest = 0;
        for (const Sparse::Edge& edge : engine.edges(v)) {
            lowest = std::max(lowest, edge.weight - s.y[edge.to]);
        }
        s.y[v] = lowest;
        for (const Sparse::Edge& edge : engine.edges(v)) {
            if (lowest > 0 && s.match_to[edge.to] < 0 && edge.weight - s.y[edge.to] == lowest) {
                s.match(edge.to, v);
                break;
            }
        }
    }
}

void check(std::int64_t n, std::span<const std::int64_t> offsets,
           std::span<const std::int32_t> neighbours, std::span<const std::int64_t> weights) {
    const auto size = static_cast<std::int64_t>(neighbours.size());
    if (offsets.size() != static_cast<std::size_t>(n) + 1 || offsets.front() != 0 ||
        offsets.back() != size || !std::is_sorted(offsets.begin(), offsets.end()) ||
        weights.size() != neighbours.size()) {
        throw std::invalid_argument("offsets, neighbours and weights do not go together");
    }
    for (const std::int32_t neighbour : neighbours) {
        if (neighbour < 0 || neighbour >= n) {
            throw std::invalid_argument("neighbours holds " + std::to_string(neighbour) +
                                        ", vertices run from 0 to " + std::to_string(n - 1));
        }
    }
    if (std::any_of(weights.begin(), weights.end(),
                    [](std::int64_t weight) { return weight > kMaxWeight; })) {
        throw std::invalid_argument("a weight is above 2**59");
    }
}

}  // namespace

Matching solve_sparse(std::int64_t n, std::span<const std::int64_t> offsets,
                      std::span<const std::int32_t> neighbours,
                      std::span<const std::int64_t> weights) {
    check(n, offsets, neighbours, weights);
    Sparse engine(static_cast<Node>(n), offsets, neighbours, weights);
    Search<Sparse> search(static_cast<Node>(n), engine);
    start(search, engine);
    search.run();
    return search.result();
}

}  // namespace hivecore::matching
