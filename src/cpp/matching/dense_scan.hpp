// The half-integral phase on a row-major matrix: one pass over a row per new + vertex, one over all
// vertices per point in time at which some get tight.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "matching/fractional.hpp"
#include "matching/matching.hpp"
#include "matching/matrix.hpp"
#include "matching/row_kernels.hpp"

namespace hivecore::matching {

template <class T>
class DenseScan {
  public:
    using Value = T;
    using F = Fractional<DenseScan>;

    explicit DenseScan(const Matrix<T>& matrix)
        : n_(matrix.size()),
          matrix_(matrix),
          best_(n_),
          from_(n_),
          add_(n_),
          half_(n_),
          places_(n_),
          kernels_(row_kernels<T>()) {}

    void begin(F& f) {
        std::fill(best_.begin(), best_.end(), F::kNever);
        std::fill(half_.begin(), half_.end(), T{0});
        for (Node v = 0; v < n_; ++v) {
            add_[v] = f.dual(v);
        }
        due_.clear();
    }
    void end(F&) {}

    void scan(F& f, Node u) {
        add_[u] = f.at(u).y;
        half_[u] = -1;
        kernels_.relax(matrix_.row(u), add_[u], u, best_.data(), from_.data(), n_);
    }

    // The next matched vertex that gets tight before the search ends; -1: there is none.
    Node next(F& f) {
        for (;;) {
            while (!due_.empty()) {
                const Node v = due_.back();
                due_.pop_back();
                if (f.at(v).label == F::kNone) {
                    f.at(v).from = static_cast<Node>(from_[v]);
                    add_[v] = F::kNever;
                    return v;
                }
            }
            const auto [time, count] =
                kernels_.least(best_.data(), add_.data(), half_.data(), n_, places_.data());
            if (time >= f.end_time) {
                return -1;
            }
            f.now = time;
            for (std::int64_t i = 0; i < count; ++i) {
                const auto v = static_cast<Node>(places_[i]);
                if (half_[v] != 0 || f.mate(v) < 0) {
                    f.end_by(time, static_cast<Node>(from_[v]), v);
                    return -1;
                }
                due_.push_back(v);
            }
        }
    }

  private:
    Node n_;
    const Matrix<T>& matrix_;
    std::vector<T> best_;  // when a vertex gets tight, less add_
    std::vector<T> from_;
    std::vector<T> add_;   // to best_: the event time, doubled where half_ is set
    std::vector<T> half_;  // all ones for + vertices
    std::vector<T> places_;
    std::vector<Node> due_;
    RowKernels<T> kernels_;
};

}  // namespace hivecore::matching
