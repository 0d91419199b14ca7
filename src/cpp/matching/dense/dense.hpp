// The dense engine: a row-major matrix of doubled weights.
//
// For every vertex the edge by which it gets tight first is kept (tight_times.hpp), so that an
// event is found in one pass over n numbers, and all vertices that have the same time are taken in
// turn before the next pass. The engine serves Search (search.hpp), which tells it what changes its
// label or group.
//
// When a shrink has put a + vertex and its best partner into one blossom, that edge is gone; the
// best one that leads elsewhere is looked for only when its time comes, which it often does not.
//
// Cost: one pass per new + vertex and per point in time at which an edge gets tight or a blossom
// expands: O(n^2) per search, O(n^3) in all.
#pragma once

#include <cstdint>
#include <vector>

#include "matching/dense/matrix.hpp"
#include "matching/dense/tight_times.hpp"
#include "matching/matching.hpp"
#include "matching/search.hpp"

namespace hivecore::matching {

template <class T>
class Dense {
  public:
    using Value = T;
    using S = Search<Dense>;

    explicit Dense(const Matrix<T>& matrix) : times_(matrix), group_(matrix.size()) {}

    void begin(S& s) {
        times_.begin([&](Node v) { return s.shifted_dual(v); });
        expansions_.clear();
        due_.clear();
    }
    void end(S&) {}

    void became_plus(S& s, Node u) {
        group_[u] = s.group(u);
        times_.make_plus(u, s.shifted_dual(u));
    }
    void became_minus(S& s, Node x) {
        s.for_vertices(x, [&](Node v) { times_.make_minus(v); });
    }
    void unlabelled(S& s, Node v) { times_.unlabel(v, s.shifted_dual(v)); }
    void regrouped(Node v, Node group) { group_[v] = group; }
    void will_expand(S&, Node x, T time) { expansions_.push_back({time, x, -1}); }

    // Ties are broken here: of events at one time, edges found by the last pass come first, then an
    // expansion, then what the next pass finds.
    typename S::Event next(S& s) {
        for (;;) {
            while (!due_.empty()) {
                const Node v = due_.back();
                due_.pop_back();
                if (times_.time_of(v) != due_time_) {
                    continue;
                }
                const Node from = times_.from(v);
                if (!times_.is_plus(v) || group_[v] != group_[from]) {
                    return {due_time_, v, from};
                }
                times_.look_elsewhere(v, group_);
                if (times_.time_of(v) == due_time_) {
                    due_.push_back(v);
                }
            }
            const typename S::Event expansion = next_expansion(s);
            const T time = times_.next_time();
            if (expansion.node >= 0 && expansion.time <= time) {
                return expansion;
            }
            if (time >= s.end_time) {
                return {time, -1, -1};
            }
            due_time_ = time;
            due_.assign(times_.next_vertices().begin(), times_.next_vertices().end());
            for (const Node v : due_) {
                if (s.label(v) == S::kFree) {
                    return {time, v, times_.from(v)};
                }
            }
        }
    }

    std::int64_t passes() const { return times_.passes(); }

  private:
    // A list, not a heap: few blossoms are - at any time. Outdated entries stay until begin().
    typename S::Event next_expansion(const S& s) const {
        typename S::Event next{S::kNever, -1, -1};
        for (const auto& expansion : expansions_) {
            if (expansion.time < next.time && s.expands_at(expansion.time, expansion.node)) {
                next = expansion;
            }
        }
        return next;
    }

    TightTimes<T> times_;
    std::vector<T> group_;   // of + vertices
    std::vector<Node> due_;  // vertices whose time may have come
    T due_time_ = 0;
    std::vector<typename S::Event> expansions_;
};

}  // namespace hivecore::matching
