// Dense graphs by a sparse core: a matching of few edges per vertex, then a look at all others.
//
// The core holds the edges of least slack of each vertex. Its matching is proved optimal for the
// whole graph by its duals, unless some edge outside has negative slack: such edges enter the core,
// blossoms are dissolved into the duals of their vertices, and the search goes on from there.
// Where weights are nearly tied, good duals are worth more than a good core: those of a sample of
// the vertices, solved first, are extended to the rest.
// Source of core and pricing: Applegate and Cook (1993); Cook and Rohe (1999).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "matching/adjacency.hpp"
#include "matching/dense.hpp"
#include "matching/dense_scan.hpp"
#include "matching/fractional.hpp"
#include "matching/matching.hpp"
#include "matching/matrix.hpp"
#include "matching/row_kernels.hpp"
#include "matching/sparse.hpp"

namespace hivecore::matching {

template <class T>
class CoreSolver {
  public:
    explicit CoreSolver(const Matrix<T>& matrix)
        : n_(matrix.size()), matrix_(matrix), kernels_(row_kernels<T>()) {}

    Matching solve() {
        if (getenv("ML")) return solve_ml();
        if (n_ > kSampled) {
            start_from_sample();
        } else {
            start_greedily();
        }
        for (Node v = 0; v < n_; ++v) {
            add_best_edges(v, kWidth);
        }
        SparseScan<T> scan;
        Fractional<SparseScan<T>> fractional(n_, scan);
        for (Node v = 0; v < n_; ++v) {
            fractional.set_dual(v, y_[v]);
        }
        for (;;) {
            remove_duplicates();
            const Adjacency<T> graph(n_, core_);
            scan.look_at(graph);
            scan.match_greedily(fractional);
            fractional.run();
            if (add_violated(fractional)) {
                raise_duals(fractional);
                continue;
            }
            if (getenv("DENSE")) {
                fractional.open_cycles();
                Dense<T> engine(matrix_);
                Search<Dense<T>> search(n_, engine);
                for (Node v = 0; v < n_; ++v) {
                    search.set_dual(v, static_cast<T>(fractional.dual(v)));
                    if (fractional.mate(v) > v) {
                        search.match(v, fractional.mate(v));
                    }
                }
                search.run();
                return search.result();
            }
            const Matching found = finish(graph, fractional);
            if (!add_violated(found)) {
                return found;
            }
            restart(found, fractional);
            raise_duals(fractional);
        }
    }

    Matching solve_ml() {
        if (n_ > kSampled) {
            start_from_sample();
        } else {
            start_greedily();
        }
        DenseScan<T> scan(matrix_);
        Fractional<DenseScan<T>> fractional(n_, scan);
        std::vector<char> matched(n_, 0);
        for (Node v = 0; v < n_; ++v) {
            if (matched[v]) continue;
            const T* row = matrix_.row(v);
            const T lowest = std::max<T>(0, kernels_.largest_gap(row, y_.data(), n_));
            y_[v] = lowest;
            for (Node u = 0; u < n_ && lowest > 0; ++u) {
                if (!matched[u] && row[u] - y_[u] == lowest) {
                    matched[u] = matched[v] = 1;
                    fractional.match(u, v);
                    break;
                }
            }
        }
        for (Node v = 0; v < n_; ++v) {
            fractional.set_dual(v, y_[v]);
        }
        fractional.run();
        fractional.open_cycles();
        Dense<T> engine(matrix_);
        Search<Dense<T>> search(n_, engine);
        for (Node v = 0; v < n_; ++v) {
            search.set_dual(v, static_cast<T>(fractional.dual(v)));
            if (fractional.mate(v) > v) {
                search.match(v, fractional.mate(v));
            }
        }
        search.run();
        return search.result();
    }

  private:
    static constexpr Node kSampled = 150;
    static constexpr Node kRatio = 4;
    static constexpr Node kWidth = 10;
    using Pair = typename Adjacency<T>::Pair;

    // Half the heaviest weight of each vertex.
    void start_greedily() {
        y_.resize(n_);
        for (Node v = 0; v < n_; ++v) {
            y_[v] = std::max<T>(0, kernels_.heaviest(matrix_.row(v), n_)) / 2;
        }
    }

    void start_from_sample() {
        std::vector<Node> order(n_);
        const std::int64_t step = spreading_step(n_);
        for (std::int64_t i = 0; i < n_; ++i) {
            order[i] = static_cast<Node>(i * step % n_);
        }
        const Node size = n_ / kRatio;
        Matrix<T> sample(size);
        for (Node i = 0; i < size; ++i) {
            const T* from = matrix_.row(order[i]);
            T* to = sample.row(i);
            for (Node j = 0; j < size; ++j) {
                to[j] = from[order[j]];
            }
        }
        const Matching found = CoreSolver(sample).solve();
        const std::vector<std::int64_t> duals = dissolved(found);
        constexpr T kNone = std::numeric_limits<T>::max() / 2;  // outweighs every edge
        y_.assign(n_, kNone);
        for (Node i = 0; i < size; ++i) {
            y_[order[i]] = static_cast<T>(duals[i]);
        }
        for (Node i = size; i < n_; ++i) {
            const Node v = order[i];
            y_[v] = std::max<T>(0, kernels_.largest_gap(matrix_.row(v), y_.data(), n_));
        }
    }

    void add_best_edges(Node v, int count) {
        const T* row = matrix_.row(v);
        T best[kLanes];
        kernels_.lane_gaps(row, y_.data(), n_, best);
        T sorted[kLanes];
        std::copy(best, best + kLanes, sorted);
        std::nth_element(sorted, sorted + count - 1, sorted + kLanes, std::greater<T>());
        const T least = std::max<T>(sorted[count - 1], -std::numeric_limits<T>::max() / 4);
        int taken = 0;
        for (int i = 0; i < kLanes && taken < 2 * count; ++i) {
            const int lane = (i + v) % kLanes;
            if (best[lane] < least) {
                continue;
            }
            const int length = (n_ - lane + kLanes - 1) / kLanes;
            int of_lane = 0;
            for (int j = 0; j < length && of_lane < 2; ++j) {
                const Node u = lane + kLanes * ((j + v / kLanes) % length);
                if (row[u] > 0 && row[u] - y_[u] >= least) {
                    core_.push_back({std::min(u, v), std::max(u, v), row[u]});
                    ++of_lane;
                    ++taken;
                }
            }
        }
    }

    void remove_duplicates() {
        std::vector<Node> starts(n_ + 1, 0);
        for (const Pair& pair : core_) {
            ++starts[pair.u + 1];
        }
        for (Node v = 0; v < n_; ++v) {
            starts[v + 1] += starts[v];
        }
        std::vector<Pair> sorted(core_.size());
        for (const Pair& pair : core_) {
            sorted[starts[pair.u]++] = pair;
        }
        std::vector<Node> last(n_, -1);
        core_.clear();
        for (const Pair& pair : sorted) {
            if (last[pair.v] != pair.u) {
                last[pair.v] = pair.u;
                core_.push_back(pair);
            }
        }
    }

    // Duals without blossoms, feasible as before.
    static std::vector<std::int64_t> dissolved(const Matching& found) {
        std::vector<std::int64_t> around(found.parents.size());
        for (std::size_t b = 0; b < around.size(); ++b) {
            around[b] =
                found.blossom_duals[b] + (found.parents[b] < 0 ? 0 : around[found.parents[b]]);
        }
        std::vector<std::int64_t> duals = found.duals;
        for (std::size_t v = 0; v < duals.size(); ++v) {
            duals[v] += found.innermost[v] < 0 ? 0 : around[found.innermost[v]] / 2;
        }
        return duals;
    }

    // Adds edges of negative slack to the core; whether there are any.
    bool add_violated(const Fractional<SparseScan<T>>& fractional) {
        for (Node v = 0; v < n_; ++v) {
            y_[v] = static_cast<T>(fractional.dual(v));
        }
        first_new_ = core_.size();
        for (Node v = 0; v < n_; ++v) {
            add_violated(v, y_);
        }
        return core_.size() > first_new_;
    }

    bool add_violated(const Matching& found) {
        const auto blossoms = static_cast<std::int64_t>(found.parents.size());
        for (Node v = 0; v < n_; ++v) {
            y_[v] = static_cast<T>(found.duals[v]);
        }
        first_new_ = core_.size();
        std::vector<std::vector<Node>> members(blossoms + 1);  // the last one: of none
        for (Node v = 0; v < n_; ++v) {
            members[found.innermost[v] < 0 ? blossoms : found.innermost[v]].push_back(v);
        }
        std::vector<T> covered(n_);  // duals, and those of the blossoms shared with v
        std::vector<T> shared(blossoms + 1, 0);
        std::vector<bool> around(blossoms);
        for (std::int64_t own = 0; own <= blossoms; ++own) {
            if (members[own].empty()) {
                continue;
            }
            std::fill(around.begin(), around.end(), false);
            for (std::int64_t b = own < blossoms ? own : -1; b >= 0; b = found.parents[b]) {
                around[b] = true;
            }
            for (std::int64_t b = 0; b < blossoms; ++b) {
                shared[b] = found.parents[b] < 0 ? 0 : shared[found.parents[b]];
                shared[b] += around[b] ? static_cast<T>(found.blossom_duals[b]) : 0;
            }
            for (Node u = 0; u < n_; ++u) {
                covered[u] = y_[u] + shared[found.innermost[u] < 0 ? blossoms : found.innermost[u]];
            }
            for (const Node v : members[own]) {
                add_violated(v, covered);
            }
        }
        return core_.size() > first_new_;
    }

    void add_violated(Node v, const std::vector<T>& covered) {
        const T* row = matrix_.row(v);
        if (kernels_.largest_gap(row, covered.data(), n_) <= y_[v]) {
            return;
        }
        candidates_.clear();
        for (Node u = 0; u < n_; ++u) {
            const T lacking = row[u] - covered[u] - y_[v];
            if (lacking > 0) {
                candidates_.push_back({u, lacking});
            }
        }
        const auto count = std::min<std::size_t>(candidates_.size(), kWidth);
        std::nth_element(candidates_.begin(), candidates_.begin() + count, candidates_.end(),
                         [](const auto& a, const auto& b) { return a.lacking > b.lacking; });
        for (std::size_t i = 0; i < count; ++i) {
            const Node u = candidates_[i].u;
            core_.push_back({std::min(u, v), std::max(u, v), row[u]});
        }
    }

    // Lifts the ends of new edges until they are feasible.
    void raise_duals(Fractional<SparseScan<T>>& fractional) {
        for (std::size_t i = first_new_; i < core_.size(); ++i) {
            const auto [u, v, weight] = core_[i];
            const auto lacking = weight - fractional.dual(u) - fractional.dual(v);
            if (lacking > 0) {
                fractional.raise_dual(u, lacking / 2);
                fractional.raise_dual(v, lacking - lacking / 2);
            }
        }
    }

    void restart(const Matching& found, Fractional<SparseScan<T>>& fractional) {
        const std::vector<std::int64_t> duals = dissolved(found);
        for (Node v = 0; v < n_; ++v) {
            fractional.set_dual(v, duals[v]);
            fractional.unmatch(v);
        }
        for (Node v = 0; v < n_; ++v) {
            const auto u = static_cast<Node>(found.mate[v]);
            if (u > v && matrix_.row(v)[u] == duals[v] + duals[u]) {
                fractional.match(u, v);
            }
        }
    }

    struct Candidate {
        Node u;
        T lacking;
    };

    Node n_;
    const Matrix<T>& matrix_;
    std::vector<T> y_;
    std::vector<Pair> core_;
    std::size_t first_new_ = 0;
    std::vector<Candidate> candidates_;
    RowKernels<T> kernels_;
};

}  // namespace hivecore::matching
