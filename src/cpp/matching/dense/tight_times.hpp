// When the vertices of a dense graph get tight with a tree: one pass over a row per new + vertex,
// one over all vertices per point in time at which some do.
//
// For each vertex v, best[v] is the least p_u - w(u, v) over the + vertices u, and the time is
// best[v] + p_v, halved where v is + as well (see search.hpp). add[v] is p_v, or far beyond every
// time for a - vertex, so that one loop without branches finds the least time and the vertices that
// have it. best does not depend on the label of v: a change of labels writes add and half alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "matching/dense/matrix.hpp"
#include "matching/dense/row_kernels.hpp"
#include "matching/matching.hpp"

namespace hivecore::matching {

template <class T>
class TightTimes {
  public:
    explicit TightTimes(const Matrix<T>& matrix)
        : n_(matrix.size()),
          matrix_(matrix),
          rows_(5 * static_cast<std::size_t>(n_)),
          best_(rows_.data()),
          from_(best_ + n_),
          add_(from_ + n_),
          half_(add_ + n_),
          places_(half_ + n_),
          kernels_(row_kernels<T>()) {}
    TightTimes(const TightTimes&) = delete;
    TightTimes& operator=(const TightTimes&) = delete;

    // No vertex has a label; dual(v) is the dual of v.
    template <class Dual>
    void begin(Dual dual) {
        std::fill_n(best_, n_, Matrix<T>::kNever);
        std::fill_n(half_, n_, T{0});
        for (Node v = 0; v < n_; ++v) {
            add_[v] = dual(v);
        }
    }

    void make_plus(Node u, T shifted_dual) {
        add_[u] = shifted_dual;
        half_[u] = -1;
        ++passes_;
        kernels_.relax(matrix_.row(u), shifted_dual, u, best_, from_, n_);
    }

    // It cannot get tight with + vertices any more: their duals move against each other.
    void make_minus(Node v) { add_[v] = Matrix<T>::kNever; }

    // best_[v] has been kept up to date while it was -.
    void unlabel(Node v, T dual) {
        add_[v] = dual;
        half_[v] = 0;
    }

    bool is_plus(Node v) const { return half_[v] != 0; }

    // Of the edge by which v gets tight first: when, and the + vertex at its other end.
    T time_of(Node v) const {
        const T whole = best_[v] + add_[v];
        return half_[v] ? whole >> 1 : whole;
    }
    Node from(Node v) const { return static_cast<Node>(from_[v]); }

    // The first time of all; next_vertices() are then those that have it.
    T next_time() {
        ++passes_;
        const auto [time, count] = kernels_.least(best_, add_, half_, n_, places_);
        count_ = count;
        return time;
    }
    std::span<const T> next_vertices() const { return {places_, static_cast<std::size_t>(count_)}; }

    // For a + vertex whose best partner is in its own group by now; group[u] of + vertices u.
    void look_elsewhere(Node v, const std::vector<T>& group) {
        ++passes_;
        const auto [best, count] = kernels_.least_elsewhere(matrix_.row(v), add_, half_,
                                                            group.data(), group[v], n_, places_);
        best_[v] = count == 0 ? Matrix<T>::kNever : best;
        from_[v] = count == 0 ? from_[v] : places_[0];
    }

    // How often all vertices have been looked at: the measure of what searches cost.
    std::int64_t passes() const { return passes_; }

  private:
    Node n_;
    const Matrix<T>& matrix_;
    std::vector<T> rows_;  // those below, in one: for a few vertices memory costs as much as time
    T* best_;
    T* from_;
    T* add_;   // to best_: the time, doubled where half_ is set
    T* half_;  // all ones for + vertices
    T* places_;
    std::int64_t count_ = 0;
    std::int64_t passes_ = 0;
    RowKernels<T> kernels_;
};

}  // namespace hivecore::matching
