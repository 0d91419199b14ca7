// The half-integral phase for dense graphs of nearly tied weights, from the duals of a sample.
//
// There a search sees a large part of the graph before it ends, so what counts is that few searches
// are left over. The duals of some of the vertices, solved first in the same way, tell what a
// vertex is worth; those of the rest follow from them as the lowest that are feasible. A third of
// the vertices is the sample, a third of that its own, down to 100, which are solved directly.
//
// Duals from anywhere else do as well, such as those of an earlier solution: run_from() first
// raises them where they are infeasible (warm.hpp).
// Cost: the copies of parts of the matrix take an eighth of it together; each phase is O(n^2)
// before its searches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "matching/deadline.hpp"
#include "matching/dense/matrix.hpp"
#include "matching/dense/row_kernels.hpp"
#include "matching/dense/scan.hpp"
#include "matching/fractional.hpp"
#include "matching/matching.hpp"
#include "matching/order.hpp"
#include "matching/warm.hpp"

namespace hivecore::matching {

// The first vertices of an order, with the edges between them.
template <class T>
Matrix<T> part_of(const Matrix<T>& matrix, const std::vector<Node>& order, Node size) {
    Matrix<T> part(size);
    for (Node i = 0; i < size; ++i) {
        const T* from = matrix.row(order[i]);
        T* to = part.row(i);
        for (Node j = 0; j < size; ++j) {
            to[j] = from[order[j]];
        }
    }
    return part;
}

template <class T>
class Sampled {
  public:
    explicit Sampled(const Matrix<T>& matrix)
        : n_(matrix.size()),
          matrix_(matrix),
          y_(n_),
          scan_(matrix),
          fractional_(n_, scan_),
          kernels_(row_kernels<T>()) {}

    // Feasible duals and tight pairs, optimal unless the deadline has passed.
    void run(Deadline& deadline) {
        if (n_ > kSolvedDirectly) {
            start_from_sample(deadline);
        } else {
            start_greedily();
        }
        finish(deadline);
    }

    // From the duals of another solution instead of a sample's; no weight counts more than this.
    void run_from(const Start& start, std::int64_t heaviest, Deadline& deadline) {
        y_ = within<T>(start.duals, 2 * heaviest);
        raise_where_infeasible(
            y_, [this](Node v) { return lowest(v); }, [this](Node v) { return violated(v); });
        for (std::size_t v = 0; v < start.mate.size(); ++v) {
            match_if_tight(static_cast<Node>(v), static_cast<Node>(start.mate[v]));
        }
        finish(deadline);
    }

    Fractional<DenseScan<T>>& fractional() { return fractional_; }

  private:
    static constexpr Node kSolvedDirectly = 100;
    static constexpr Node kRatio = 3;  // the samples of samples then take an eighth of the matrix

    // Half the heaviest edge covers every edge from both ends.
    void start_greedily() {
        for (Node v = 0; v < n_; ++v) {
            y_[v] = std::max<T>(0, kernels_.heaviest(matrix_.row(v), n_)) / 2;
        }
    }

    void start_from_sample(Deadline& deadline) {
        const std::vector<Node> order = spread_order(n_);
        const Node size = n_ / kRatio;
        const Matrix<T> part = part_of(matrix_, order, size);
        Sampled sample(part);
        sample.run(deadline);
        // Vertices outside the sample take their duals one after the other; one that has none yet
        // must not raise that of another.
        constexpr T kOutweighsEveryEdge = std::numeric_limits<T>::max() / 2;
        std::fill(y_.begin(), y_.end(), kOutweighsEveryEdge);
        for (Node i = 0; i < size; ++i) {
            y_[order[i]] = sample.fractional_.dual(i);
        }
        for (Node i = size; i < n_; ++i) {
            y_[order[i]] = lowest(order[i]);
        }
    }

    // The lowest feasible dual, given those of the others.
    T lowest(Node v) const {
        return std::max<T>(0, kernels_.largest_gap(matrix_.row(v), y_.data(), n_));
    }

    void finish(Deadline& deadline) {
        match_greedily();
        for (Node v = 0; v < n_; ++v) {
            fractional_.set_dual(v, y_[v]);
        }
        fractional_.run(deadline);
    }

    void match_if_tight(Node v, Node u) {
        if (u >= 0 && matrix_.row(v)[u] > 0 && matrix_.row(v)[u] == y_[v] + y_[u] &&
            fractional_.mate(v) < 0 && fractional_.mate(u) < 0) {
            fractional_.match(u, v);
        }
    }

    // How many edges of v are not covered.
    Node violated(Node v) const {
        const T* row = matrix_.row(v);
        Node count = 0;
        for (Node u = 0; u < n_; ++u) {
            count += row[u] - y_[u] > y_[v];
        }
        return count;
    }

    // Lowers the duals of free vertices and matches what gets tight.
    void match_greedily() {
        for (Node v = 0; v < n_; ++v) {
            if (fractional_.mate(v) >= 0) {
                continue;
            }
            const T* row = matrix_.row(v);
            y_[v] = lowest(v);
            for (Node u = 0; u < n_ && y_[v] > 0; ++u) {
                if (row[u] - y_[u] == y_[v] && fractional_.mate(u) < 0) {
                    fractional_.match(u, v);
                    break;
                }
            }
        }
    }

    Node n_;
    const Matrix<T>& matrix_;
    std::vector<T> y_;
    DenseScan<T> scan_;
    Fractional<DenseScan<T>> fractional_;
    RowKernels<T> kernels_;
};

}  // namespace hivecore::matching
