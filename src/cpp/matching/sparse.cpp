// The sparse engine: compressed rows, and a heap of events in which outdated entries stay until
// they surface. All that a search touched is put back at its end, so that a search costs what it
// reaches. No event is entered that lies behind the known end of the search.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "matching/fractional.hpp"
#include "matching/matching.hpp"
#include "matching/rows.hpp"
#include "matching/search.hpp"

namespace hivecore::matching {
namespace {

template <class Weight>
class Sparse {
  public:
    using Value = std::int64_t;
    using S = Search<Sparse>;
    static constexpr Value kNever = std::numeric_limits<Value>::max() / 4;

    explicit Sparse(const Rows<Weight>& rows)
        : rows_(rows), best_(rows.vertices()) {}

    void begin(S&) {}
    void end(S&) {
        for (const Node v : touched_) {
            best_[v].value = kNever;
        }
        touched_.clear();
        events_.clear();
    }

    void became_plus(S& s, Node u) {
        const Value p = s.shifted_dual(u);
        const Node own = s.group(u);
        for (const auto& edge : rows_.edges(u)) {
            const Node v = edge.to;
            if (s.group(v) == own) {
                continue;
            }
            if (s.label(v) == S::kPlus) {
                push(s, (p + s.shifted_dual(v) - edge.weight) / 2, v, ~u);
                continue;
            }
            Best& best = best_[v];
            if (p - edge.weight < best.value) {
                if (best.value == kNever) {
                    touched_.push_back(v);
                }
                best = {p - edge.weight, u};
                unlabelled(s, v);
            }
        }
    }
    void became_minus(S&, Node) {}
    void will_expand(S& s, Node x, Value time) { push(s, time, x, -1); }

    // Says when v gets tight, unless it is a - vertex.
    void unlabelled(S& s, Node v) {
        const Value time = best_[v].value + s.shifted_dual(v);
        if (s.label(v) == S::kFree) {
            s.end_by(time, best_[v].from, v);
        } else if (s.label(v) == S::kNone) {
            push(s, time, v, best_[v].from);
        }
    }

    typename S::Event next(S& s) {
        while (!events_.empty()) {
            const auto [time, node, from] = events_.top();
            if (time >= s.end_time) {
                break;
            }
            events_.pop();
            if (node >= s.n) {
                if (s.is_outermost(node) && s.label_of(node) == S::kMinus &&
                    s.z[node] / 2 == time) {
                    return {time, node, -1};
                }
            } else if (from < 0) {
                if (s.group(node) != s.group(~from)) {
                    return {time, node, ~from};
                }
            } else if (s.label(node) == S::kNone && best_[node].from == from &&
                       best_[node].value + s.shifted_dual(node) == time) {
                return {time, node, from};
            }
        }
        return {kNever, -1, -1};
    }

  private:
    struct Best {
        Value value = kNever;
        Node from = -1;
    };

    void push(const S& s, Value time, Node node, Node from) {
        if (time < s.end_time) {
            events_.push(time, node, from);
        }
    }

    const Rows<Weight>& rows_;
    std::vector<Best> best_;
    std::vector<Node> touched_;
    TimeHeap events_;  // of an edge between + vertices `from` is the complement of one
};

template <class Weight>
Matching solve(const Rows<Weight>& rows) {
    Sparse<Weight> engine(rows);
    Search<Sparse<Weight>> search(rows.vertices(), engine);
    {
        Fractional<Weight> start(rows);
        start.start_greedily();
        start.run();
        start.open_cycles();
        for (Node v = 0; v < rows.vertices(); ++v) {
            search.set_dual(v, start.dual(v));
            if (start.mate(v) > v) {
                search.match(v, start.mate(v));
            }
        }
    }
    search.run();
    return search.result();
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
    const auto heaviest = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    const auto vertices = static_cast<Node>(n);
    return heaviest < std::int64_t{1} << 30
               ? solve(Rows<std::int32_t>(vertices, offsets, neighbours, weights))
               : solve(Rows<std::int64_t>(vertices, offsets, neighbours, weights));
}

}  // namespace hivecore::matching
