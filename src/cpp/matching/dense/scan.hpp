// The half-integral phase on a row-major matrix: the Scan of fractional.hpp for dense graphs.
//
// One pass over all vertices finds the next point in time at which some get tight. If one of them
// is +, free or half-matched the search ends there; otherwise all of them become - one after the
// other, but for those that have got a label from one before.
//
// Cost: one pass per + vertex and per point in time, O(n^2) per search.
#pragma once

#include <vector>

#include "matching/dense/matrix.hpp"
#include "matching/dense/tight_times.hpp"
#include "matching/fractional.hpp"
#include "matching/matching.hpp"

namespace hivecore::matching {

template <class T>
class DenseScan {
  public:
    using Value = T;
    using F = Fractional<DenseScan>;

    explicit DenseScan(const Matrix<T>& matrix) : times_(matrix) {}

    void begin(F& f) {
        times_.begin([&](Node v) { return f.dual(v); });
        due_.clear();
    }
    void end(F&) {}

    void scan(F& f, Node u) { times_.make_plus(u, f.at(u).y); }

    // The next matched vertex that gets tight before the search ends; -1: there is none.
    Node next(F& f) {
        for (;;) {
            while (!due_.empty()) {
                const Node v = due_.back();
                due_.pop_back();
                if (f.at(v).label == F::kNone) {
                    f.at(v).from = times_.from(v);
                    times_.make_minus(v);
                    return v;
                }
            }
            const T time = times_.next_time();
            if (time >= f.end_time) {
                return -1;
            }
            f.now = time;
            for (const T place : times_.next_vertices()) {
                const auto v = static_cast<Node>(place);
                if (times_.is_plus(v) || f.mate(v) < 0) {
                    f.end_by(time, times_.from(v), v);
                    return -1;
                }
                due_.push_back(v);
            }
        }
    }

  private:
    TightTimes<T> times_;
    std::vector<Node> due_;
};

}  // namespace hivecore::matching
