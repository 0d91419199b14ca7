// The dense engine: a row-major matrix of doubled weights, one pass over a row per new + vertex
// and one pass over all vertices per event.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "matching/matching.hpp"
#include "matching/matrix.hpp"
#include "matching/row_kernels.hpp"
#include "matching/search.hpp"

namespace hivecore::matching {

template <class T>
class Dense {
  public:
    using Value = T;
    using S = Search<Dense>;
    static constexpr T kNever = Matrix<T>::kNever;

    explicit Dense(const Matrix<T>& matrix)
        : n_(matrix.size()),
          matrix_(matrix),
          best_(n_),
          from_(n_),
          add_(n_),
          half_(n_),
          group_(n_),
          places_(n_),
          kernels_(row_kernels<T>()) {}

    const T* row(Node u) const { return matrix_.row(u); }

    void begin(S& s) {
        std::fill(best_.begin(), best_.end(), kNever);
        for (Node v = 0; v < n_; ++v) {
            add_[v] = s.shifted_dual(v);
        }
        std::fill(half_.begin(), half_.end(), T{0});
        expansions_.clear();
        due_.clear();
    }
    void end(S&) {}

    void became_plus(S& s, Node u) {
        add_[u] = s.shifted_dual(u);
        half_[u] = -1;
        group_[u] = s.group(u);
        kernels_.relax(row(u), add_[u], u, best_.data(), from_.data(), n_);
    }
    void became_minus(S& s, Node x) {
        s.for_vertices(x, [&](Node v) { add_[v] = kNever; });
    }
    void unlabelled(S& s, Node v) {
        add_[v] = s.shifted_dual(v);
        half_[v] = 0;
    }
    void regrouped(Node v, Node group) { group_[v] = group; }
    void will_expand(S&, Node x, T time) { expansions_.push_back({time, x, -1}); }

    typename S::Event next(S& s) {
        for (;;) {
            while (!due_.empty()) {
                const Node v = due_.back();
                due_.pop_back();
                if (time_of(v) != due_time_) {
                    continue;
                }
                const auto from = static_cast<Node>(from_[v]);
                if (half_[v] == 0 || group_[v] != group_[from]) {
                    return {due_time_, v, from};
                }
                find_best_elsewhere(v);
            }
            const typename S::Event expansion = next_expansion(s);
            const auto [time, count] =
                kernels_.least(best_.data(), add_.data(), half_.data(), n_, places_.data());
            if (expansion.node >= 0 && expansion.time <= time) {
                return expansion;
            }
            if (time >= s.end_time) {
                return {time, -1, -1};
            }
            due_time_ = time;
            due_.assign(places_.begin(), places_.begin() + count);
            for (const Node v : due_) {
                if (s.label(v) == S::kFree) {
                    return {time, v, static_cast<Node>(from_[v])};
                }
            }
        }
    }

  private:
    T time_of(Node v) const {
        const T whole = best_[v] + add_[v];
        return half_[v] ? whole >> 1 : whole;
    }

    typename S::Event next_expansion(const S& s) const {
        typename S::Event next{kNever, -1, -1};
        for (const auto& expansion : expansions_) {
            if (expansion.time < next.time && s.expands_at(expansion.time, expansion.node)) {
                next = expansion;
            }
        }
        return next;
    }

    // For a + vertex whose best partner is in its own blossom by now.
    void find_best_elsewhere(Node v) {
        const auto [time, count] = kernels_.least_elsewhere(
            row(v), add_.data(), half_.data(), group_.data(), group_[v], n_, places_.data());
        best_[v] = count == 0 ? kNever : time;
        if (count > 0) {
            from_[v] = places_[0];
        }
        if (time_of(v) == due_time_) {
            due_.push_back(v);
        }
    }

    Node n_;
    const Matrix<T>& matrix_;
    std::vector<T> best_;
    std::vector<T> from_;
    std::vector<T> add_;    // to best_: the event time, doubled where half_ is set
    std::vector<T> half_;   // all ones for + vertices
    std::vector<T> group_;  // of + vertices
    std::vector<T> places_;
    std::vector<Node> due_;  // vertices whose time may have come
    T due_time_ = 0;
    std::vector<typename S::Event> expansions_;
    RowKernels<T> kernels_;
};

}  // namespace hivecore::matching
