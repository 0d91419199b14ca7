// The clockwork of jobs that share cache and remote IO: from event to event at constant rates.
//
// A policy decides which jobs run and how much cache each may have. From then on time passes in
// steps: the contents say what each job misses now, remote IO is divided by that, and for how
// long these rates stand is the least of what the contents say (an epoch ends, a cache is full, a
// ratio has moved), of the end of a job, and of the time at which the next decision is due.
//
// Invariant: left > 0 for every job that runs, but for rounding. Cost: O(running jobs + caches in
// use) per event, in a handful of passes; "throughput" sorts the jobs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/fluid/contents.hpp"
#include "storage/remote_io.hpp"

namespace hivecore::sim {

class FluidClock {
  public:
    enum class Stop { time, done, events, stuck };

    struct Rules {
        double bandwidth;
        storage::IoMode io_mode;
        bool warm_up;
    };

    FluidClock(std::unique_ptr<FluidContents> contents, std::vector<std::int64_t> cache_of,
               std::vector<double> total, std::size_t caches, Rules rules);

    // `rate` is that of each job that never waits for data, in order of urgency; `reference` (or
    // empty: `rate`) is what IoMode::maxmin_rate compares rates with. Jobs are distinct.
    void allocate(const FluidDecision& decision, std::span<const double> rate,
                  std::span<const double> reference);

    // Lets time pass until then, until jobs are done, or for so many events. Stuck: no job gets
    // ahead, however long one waits; time stands still then.
    Stop advance(double until, std::int64_t events);

    double now() const { return now_; }
    std::int64_t events() const { return events_; }
    double fetched() const { return fetched_; }  // all that came from remote storage
    double warming() const { return contents_->warming(); }
    std::vector<double> cached() const { return contents_->cached(); }
    std::vector<double> last_use() const;
    std::vector<double> left() const;
    std::span<const std::int64_t> jobs() const { return running_; }
    std::span<const std::int64_t> done() const { return done_; }  // in the last `advance`
    // Of the jobs that run, in the last step.
    std::span<const double> rates() const { return rate_; }
    std::span<const double> misses() const { return miss_; }

    std::string audit() const;

  private:
    void take(std::span<const std::int64_t> jobs, std::span<const double> rate,
              std::span<const double> reference);
    double share_out();
    double spare(double used) const;

    std::unique_ptr<FluidContents> contents_;
    std::vector<std::int64_t> cache_of_;
    std::vector<double> total_;
    Rules rules_;
    double now_ = 0.0;
    double fetched_ = 0.0;
    std::int64_t events_ = 0;
    std::vector<double> all_left_;  // of all jobs, as of the last decision
    std::vector<double> last_use_;  // of all caches, likewise
    // Columns of the jobs that run.
    std::vector<std::int64_t> running_;
    std::vector<double> full_, reference_, left_, done_at_, rate_, miss_, demand_, granted_;
    std::vector<std::int64_t> done_;
};

}  // namespace hivecore::sim
