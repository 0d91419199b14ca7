// The dense engine: a row-major matrix of doubled weights, one pass over a row per new + vertex
// and one pass over all vertices per event. 32-bit lanes where the weights allow.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "matching/core.hpp"
#include "matching/matching.hpp"
#include "matching/row_kernels.hpp"
#include "matching/search.hpp"

namespace hivecore::matching {
namespace {

template <class T>
class Dense {
  public:
    using Value = T;
    using S = Search<Dense>;
    // Far beyond every event time, and still far from overflow when two are added.
    static constexpr T kNever = std::numeric_limits<T>::max() / 4;
    static constexpr T kAbsent = -2 * kNever;  // the weight of what is no edge
    // Duals stay below twice the heaviest weight, a search's time below the heaviest: with this
    // bound every sum that is formed has room.
    static constexpr std::int64_t kHeaviest = kNever / 4;

    Dense(Node n, std::span<const std::int64_t> weights)
        : n_(n),
          doubled_(weights.size()),
          best_(n),
          from_(n),
          add_(n),
          half_(n),
          kernels_(row_kernels<T>()) {
        for (std::size_t i = 0; i < weights.size(); ++i) {
            doubled_[i] = weights[i] > 0 ? static_cast<T>(2 * weights[i]) : kAbsent;
        }
        for (Node v = 0; v < n; ++v) {
            doubled_[static_cast<std::size_t>(v) * n + v] = kAbsent;
        }
    }

    const T* row(Node u) const { return doubled_.data() + static_cast<std::size_t>(u) * n_; }

    void begin(S& s) {
        std::fill(best_.begin(), best_.end(), kNever);
        for (Node v = 0; v < n_; ++v) {
            add_[v] = s.shifted_dual(v);
        }
        std::fill(half_.begin(), half_.end(), T{0});
        expansions_.clear();
    }
    void end(S&) {}

    void became_plus(S& s, Node u) {
        add_[u] = s.shifted_dual(u);
        half_[u] = -1;
        kernels_.relax(row(u), add_[u], u, best_.data(), from_.data(), n_);
    }
    void became_minus(S& s, Node x) {
        s.for_vertices(x, [&](Node v) { add_[v] = kNever; });
    }
    void unlabelled(S& s, Node v) {
        add_[v] = s.shifted_dual(v);
        half_[v] = 0;
    }
    void will_expand(S&, Node x, T time) { expansions_.push_back({time, x, -1}); }

    typename S::Event next(S& s) {
        for (;;) {
            T time = kernels_.least(best_.data(), add_.data(), half_.data(), n_);
            typename S::Event expansion{kNever, -1, -1};
            for (const auto& candidate : expansions_) {
                if (candidate.time < expansion.time &&
                    s.expands_at(candidate.time, candidate.node)) {
                    expansion = candidate;
                }
            }
            if (expansion.node >= 0 && expansion.time <= time) {
                return expansion;
            }
            if (time >= s.end_time) {
                return {time, -1, -1};
            }
            Node v = 0;
            while (time_of(v) != time) {
                ++v;
            }
            const auto from = static_cast<Node>(from_[v]);
            if (half_[v] == 0 || s.group(v) != s.group(from)) {
                return {time, v, from};
            }
            find_best_elsewhere(s, v);
        }
    }

  private:
    T time_of(Node v) const {
        const T whole = best_[v] + add_[v];
        return half_[v] ? whole >> 1 : whole;
    }

    // For a + vertex whose best partner is in its own blossom by now.
    void find_best_elsewhere(S& s, Node v) {
        best_[v] = kNever;
        const T* weights = row(v);
        for (Node u = 0; u < n_; ++u) {
            if (half_[u] != 0 && s.group(u) != s.group(v) && add_[u] - weights[u] < best_[v]) {
                best_[v] = add_[u] - weights[u];
                from_[v] = u;
            }
        }
    }

    Node n_;
    std::vector<T> doubled_;
    std::vector<T> best_;
    std::vector<T> from_;
    std::vector<T> add_;   // to best_: the event time, doubled where half_ is set
    std::vector<T> half_;  // all ones for + vertices
    std::vector<typename S::Event> expansions_;
    RowKernels<T> kernels_;
};

// Feasible duals, each as low as its neighbours allow, and a matching on tight edges.
template <class T>
void start(Search<Dense<T>>& s, const Dense<T>& engine) {
    std::vector<T> y(s.n);
    for (Node v = 0; v < s.n; ++v) {
        const T* row = engine.row(v);
        y[v] = std::max<T>(0, *std::max_element(row, row + s.n)) / 2;
    }
    for (Node v = 0; v < s.n; ++v) {
        if (s.is_matched(v)) {
            continue;
        }
        const T* row = engine.row(v);
        T lowest = 0;
        for (Node u = 0; u < s.n; ++u) {
            lowest = std::max<T>(lowest, row[u] - y[u]);
        }
        y[v] = lowest;
        for (Node u = 0; u < s.n && lowest > 0; ++u) {
            if (!s.is_matched(u) && row[u] - y[u] == lowest) {
                s.match(u, v);
                break;
            }
        }
    }
    for (Node v = 0; v < s.n; ++v) {
        s.set_dual(v, y[v]);
    }
}

template <class T>
Matching solve(Node n, std::span<const std::int64_t> weights) {
    if (n >= 60) {
        Matrix<T> matrix(n);
        for (Node u = 0; u < n; ++u) {
            T* row = matrix.row(u);
            for (Node v = 0; v < n; ++v) {
                const std::int64_t w = weights[static_cast<std::size_t>(u) * n + v];
                row[v] = w > 0 && u != v ? static_cast<T>(2 * w) : Dense<T>::kAbsent;
            }
        }
        return CoreSolver<T>(matrix).solve();
    }
    Dense<T> engine(n, weights);
    Search<Dense<T>> search(n, engine);
    start(search, engine);
    search.run();
    return search.result();
}

}  // namespace

Matching solve_dense(std::int64_t n, std::span<const std::int64_t> weights) {
    if (n == 0) {
        Matching empty;
        return empty;
    }
    const std::int64_t heaviest = *std::max_element(weights.begin(), weights.end());
    if (heaviest > kMaxWeight) {
        throw std::invalid_argument("a weight is above 2**59");
    }
    return heaviest <= Dense<std::int32_t>::kHeaviest
               ? solve<std::int32_t>(static_cast<Node>(n), weights)
               : solve<std::int64_t>(static_cast<Node>(n), weights);
}

}  // namespace hivecore::matching
