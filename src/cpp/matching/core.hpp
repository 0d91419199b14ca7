// The half-integral phase by a sparse core: for dense graphs with few edges that can matter.
//
// In most large dense graphs an optimal matching uses edges that are among the heaviest of their
// ends, and nearly all others only have to be covered by the duals. The core holds 10 to 20 edges
// of least slack per vertex and is solved as a sparse graph. Its duals are then *priced*: one pass
// over the matrix finds the edges of negative slack. They enter the core, the duals of their ends
// are raised until they are covered, and the searches go on from there.
//
// Invariants: duals and pairs are feasible and tight for the core at every call of a search; the
// core only grows, so the loop ends; when pricing finds nothing, they are optimal for the whole
// graph. If the first pricing finds violated edges at more than an eighth of the vertices, weights
// are too nearly tied for this and run() says so (sample.hpp takes over). At a deadline duals are
// raised until they cover all edges, so that they bound the optimum all the same.
//
// Cost: O(n^2) per round of pricing, in vector lanes; searches see O(n) edges.
// Source of core and pricing: Applegate and Cook (1993); Cook and Rohe (1999).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "matching/deadline.hpp"
#include "matching/dense/matrix.hpp"
#include "matching/dense/row_kernels.hpp"
#include "matching/fractional.hpp"
#include "matching/matching.hpp"
#include "matching/sparse/adjacency.hpp"
#include "matching/sparse/scan.hpp"

namespace hivecore::matching {

template <class T>
class Core {
  public:
    explicit Core(const Matrix<T>& matrix)
        : n_(matrix.size()),
          matrix_(matrix),
          y_(n_),
          fractional_(n_, scan_),
          kernels_(row_kernels<T>()) {}

    // False, and nothing found, if too many edges turn out to matter. Only the first pricing may
    // say so: later too much work would be lost.
    bool run(Deadline& deadline) {
        for (Node v = 0; v < n_; ++v) {
            y_[v] = std::max<T>(0, kernels_.heaviest(matrix_.row(v), n_)) / 2;
            fractional_.set_dual(v, y_[v]);
        }
        for (Node v = 0; v < n_; ++v) {
            add_edges(v, -Matrix<T>::kNever);
        }
        for (bool first = true;; first = false) {
            remove_duplicates();
            scan_.look_at(graph_.emplace(n_, core_));
            scan_.match_greedily(fractional_);
            fractional_.run(deadline);
            if (deadline.has_passed()) {
                cover_all_edges();
                return true;
            }
            const std::size_t known = core_.size();
            const Node violated = add_violated();
            if (violated == 0) {
                return true;
            }
            if (first && violated > n_ / kFewViolated) {
                return false;
            }
            raise_duals(known);
        }
    }

    Fractional<SparseScan<T>>& fractional() { return fractional_; }

  private:
    // A lane is a residue class of neighbours: taking the best of ten out of 64 lanes comes close
    // to taking the best neighbours, at the cost of one pass and a selection among 64 numbers.
    static constexpr int kWidth = 10;        // lanes that give edges; each of them one or two
    static constexpr Node kFewViolated = 8;  // one vertex in so many
    using Pair = typename Adjacency<T>::Pair;

    // Edges of v with the largest row[u] - y[u], this at least; whether there are any. What is as
    // good comes from elsewhere for every v, so that not all take the same neighbours.
    bool add_edges(Node v, T least) {
        const T* row = matrix_.row(v);
        T best[kLanes];
        kernels_.lane_gaps(row, y_.data(), n_, best);
        T sorted[kLanes];
        std::copy(best, best + kLanes, sorted);
        std::nth_element(sorted, sorted + kWidth - 1, sorted + kLanes, std::greater<T>());
        least = std::max(sorted[kWidth - 1], least);
        const std::size_t before = core_.size();
        int lanes = 0;
        for (int i = 0; i < kLanes && lanes < kWidth; ++i) {
            const int lane = (i + v) % kLanes;
            if (lane < n_ && best[lane] >= least) {
                ++lanes;
                add_edges_of_lane(v, lane, least);
            }
        }
        return core_.size() > before;
    }

    void add_edges_of_lane(Node v, int lane, T least) {
        const T* row = matrix_.row(v);
        const int length = (n_ - lane + kLanes - 1) / kLanes;
        int taken = 0;
        for (int j = 0; j < length && taken < 2; ++j) {
            const Node u = lane + kLanes * ((j + v / kLanes) % length);
            if (row[u] > 0 && row[u] - y_[u] >= least) {
                core_.push_back({std::min(u, v), std::max(u, v), row[u]});
                ++taken;
            }
        }
    }

    // Edges of negative slack enter the core. Returns how many vertices have any. Slacks are those
    // of the duals as they were before, so that the order of vertices plays no part.
    Node add_violated() {
        for (Node v = 0; v < n_; ++v) {
            y_[v] = static_cast<T>(fractional_.dual(v));
        }
        Node violated = 0;
        for (Node v = 0; v < n_; ++v) {
            if (kernels_.largest_gap(matrix_.row(v), y_.data(), n_) > y_[v]) {
                violated += add_edges(v, y_[v] + 1);
            }
        }
        return violated;
    }

    // Makes duals that are feasible for the core alone feasible for the whole graph.
    void cover_all_edges() {
        for (Node v = 0; v < n_; ++v) {
            y_[v] = static_cast<T>(fractional_.dual(v));
        }
        for (Node v = 0; v < n_; ++v) {
            y_[v] = std::max(y_[v], kernels_.largest_gap(matrix_.row(v), y_.data(), n_));
            fractional_.set_dual(v, y_[v]);
        }
    }

    // Until the edges that the core has got since are feasible: both ends share what is lacking.
    // A raised vertex is unmatched, since its pair would not be tight any more.
    void raise_duals(std::size_t known) {
        for (std::size_t i = known; i < core_.size(); ++i) {
            const auto [u, v, weight] = core_[i];
            const auto lacking = weight - fractional_.dual(u) - fractional_.dual(v);
            if (lacking > 0) {
                fractional_.raise_dual(u, lacking / 2);
                fractional_.raise_dual(v, lacking - lacking / 2);
            }
        }
    }

    // Counting sort by the lower end, then the first of each neighbour: O(n + edges).
    void remove_duplicates() {
        std::vector<std::size_t> starts(n_ + 1, 0);
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

    Node n_;
    const Matrix<T>& matrix_;
    std::vector<T> y_;
    std::vector<Pair> core_;
    std::optional<Adjacency<T>> graph_;  // of the core edges; the scan looks at it
    SparseScan<T> scan_;
    Fractional<SparseScan<T>> fractional_;
    RowKernels<T> kernels_;
};

}  // namespace hivecore::matching
