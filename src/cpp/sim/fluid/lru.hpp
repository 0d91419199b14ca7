// What one LRU cache that all jobs share holds, as amounts.
//
// An LRU cache holds just what was read since some instant: what was read before and not again has
// been pushed out. That instant, the begin of the window, only moves forward.
//
// Let a job have read the share v of its epoch, and y epochs since the begin of the window. Orders
// are random and independent, so an item that it has yet to read in this epoch was read in the
// window by itself with probability
//
//     own = y - v, but between 0 and 1,
//
// which is the part of the epoch before that lies in the window; and any item of the dataset was
// read in the window by this job with probability
//
//     seen = y if y <= v, else 1 - (1 - v)(1 - own).
//
// A read of job j misses with probability (1 - own_j) * product over the other jobs on its dataset
// of (1 - seen), and a dataset takes size * (1 - product over its jobs of (1 - seen)) of the cache,
// which together must not exceed the capacity: this tells how far the window begins to move. Jobs
// that wait or have ended count as long as the window holds reads of theirs.
//
// Of a single job this gives the known hit ratio k + (1-k) ln(1-k), with k = cache / dataset, as
// the mean over an epoch; but its hits come at the epoch's begin, when it reads again what it has
// just read, and then it may be too fast to use its share of remote IO. So the ratio follows the
// epochs. Where ratios move, an event comes soon enough, and the rates are those of the middle.
//
// Invariant: the rows of the log are what every job had read in total at each event since the begin
// of the window, and one row before it; their times rise.
#pragma once

#include <deque>

#include "sim/fluid/contents.hpp"

namespace hivecore::sim {

class FluidLru final : public FluidContents {
  public:
    explicit FluidLru(FluidShape shape);

    void allocate(double now, const FluidDecision& decision) override;
    void miss_ratios(std::vector<double>& miss) override;
    double plan(std::span<const double> rate, std::span<const double> miss, double spare) override;
    bool drifts() const override { return drifts_; }
    void middle(double step, std::vector<double>& miss) override;
    void advance(double step) override;

    std::vector<double> cached() override;
    std::string audit() const override;

  private:
    struct Row {
        double time;
        std::vector<double> total;  // of all jobs
    };

    // A job that counts. Those that run stand first.
    struct Reader {
        std::int64_t job, in;  // index into live_
        double epoch, unread, total;
        double rate = 0.0;
        double own = 0.0, seen = 0.0;  // at the instant that was looked at last
    };

    struct Dataset {
        std::int64_t id;
        double whole;
        double outside = 1.0;  // the share that is not cached
    };

    void gather(std::span<const std::int64_t> jobs);
    std::size_t row_of(double instant) const;
    void slide();
    double over(double begin, std::size_t row);
    void look(double begin, std::size_t row, double ahead);
    void missed(std::vector<double>& miss) const;
    double held() const;

    FluidShape shape_;
    std::vector<double> unread_;  // of all jobs, as of the last decision
    std::vector<double> total_;   // of all jobs: what each has read
    std::deque<Row> log_;
    std::vector<Reader> readers_;
    std::size_t running_ = 0;  // so many of them run
    std::vector<Dataset> live_;
    double begin_ = 0.0;  // of the window
    double pace_ = 0.0;   // of that, in seconds per second
    double now_ = 0.0;
    bool full_ = false;  // the cache has been full
    bool alone_ = true;  // no dataset has two jobs that count
    bool drifts_ = false;
};

}  // namespace hivecore::sim
