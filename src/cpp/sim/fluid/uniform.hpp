// What uniform caches hold, as amounts: SiloD's delayed effectiveness as a fluid.
//
// Of a job that runs, two amounts say how it reads: `unread`, what it has yet to read in its epoch,
// and `missing`, how much of that is not cached. Reads are uniform among what is unread, so the
// miss ratio is missing / unread.
//
//   - The job's own reads lower both in proportion: alone, its ratio stays as it was when the epoch
//     began, though its misses fill the cache. What it admits now is read again in the next epoch.
//   - What others admit (jobs on the same cache, or a warm-up) is any of the uncached items, each
//     of which this job has yet to read with probability missing / uncached: it profits at once.
//   - What is evicted at random was unread with probability (unread - missing) / cached. Evictions
//     of what was "read first" take what all jobs have read in their epochs before anything else.
//
// Caches above their quota keep their contents until another one needs the room (lazy reclaim).
// Between two events all rates are constant. Where a ratio moves by itself, because others admit or
// evict, the time to the next event is cut so that it moves by a few percent, and the rates are
// those of the middle of the interval, which makes the error of second order. The end of an epoch
// that changes no ratio is no event.
//
// Invariants: 0 <= missing <= min(unread, uncached), 0 < unread <= size, 0 <= held <= size, but for
// rounding; the caches together hold at most the capacity. Between two decisions all is in columns
// of the running jobs, and of the caches that hold something, may do so, or are read.
#pragma once

#include "sim/fluid/contents.hpp"

namespace hivecore::sim {

class FluidUniform final : public FluidContents {
  public:
    struct Rules {
        bool read_first;  // what is evicted first
        bool lazy;
        bool own;  // each job has a cache of its own, which is dropped while it does not run
    };

    FluidUniform(FluidShape shape, Rules rules);

    void allocate(double now, const FluidDecision& decision) override;
    void miss_ratios(std::vector<double>& miss) override;
    double plan(std::span<const double> rate, std::span<const double> miss, double spare) override;
    bool drifts() const override { return drifts_; }
    void middle(double step, std::vector<double>& miss) override;
    void advance(double step) override;

    double warming() const override { return warming_; }
    std::vector<double> cached() override;
    std::string audit() const override;

  private:
    struct Cache {
        std::int64_t id;
        double whole, held, quota;
        double fill = 0.0;      // rate at which it fills
        double uncached = 0.0;  // as `drift` sees it: now, or in the middle of the step
        std::int64_t readers = 0;
    };

    struct Reader {
        std::int64_t job, in;  // index into live_
        double epoch, unread, missing;
        double rate = 0.0, own = 0.0;  // own: of its rate what is not cached
        double gain = 0.0;             // what others change in `missing`, per second
        double unread_mid = 0.0, missing_mid = 0.0;
    };

    // The victim of a step, and how fast it is evicted; -1 if none is.
    struct Eviction {
        std::int64_t cache = -1;
        double rate = 0.0;
    };

    void scatter();
    void resume(std::int64_t job);
    void gather(const FluidDecision& decision);
    void evict(std::int64_t cache, double amount);
    void make_room();
    bool has_room(const Cache& cache) const;
    double held() const;
    std::int64_t victim();
    double until_epoch_ends() const;
    double until_full(double total) const;
    double drift(double total);
    double read_by_all(std::int64_t cache) const;
    double read_again(std::int64_t cache, double held) const;

    FluidShape shape_;
    Rules rules_;
    std::vector<double> cached_;       // of all caches, as of the last decision
    std::vector<double> unread_;       // of all jobs, likewise
    std::vector<double> missing_;      // -1: has not run yet
    std::vector<double> cached_then_;  // of the job's cache, when it last ran
    std::vector<Cache> live_;
    std::vector<Reader> readers_;
    std::vector<std::int64_t> reclaim_;  // indices into live_; those without excess are skipped
    std::size_t reclaimed_ = 0;
    std::vector<std::int64_t> wanted_;
    Eviction evicting_;
    bool shared_ = false;
    bool halved_ = false;  // `middle` was asked since `miss_ratios`
    bool moves_ = false;   // some gain is not 0
    bool drifts_ = false;
    double warming_ = 0.0;
};

}  // namespace hivecore::sim
