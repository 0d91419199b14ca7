// Token buckets that share one total rate, exactly.
//
// Every nanosecond a job's bucket gains `rate` nano-bytes (a rate of r bytes per second is r
// nano-bytes per nanosecond), the spare bucket gains what no job was promised, total rate - sum of
// rates, and what a full bucket cannot hold goes to the spare bucket. The spare bucket holds at
// most burst - sum of the jobs' bursts; what is more is lost.
//
//     rate 100 -> job A (60)  ##########  full: its 60 flow on  --.
//              -> job B (30)  ###.......  filling                  >-> spare  ####....
//              -> not promised (10)  ----------------------------'
//
// A job takes from its own bucket; with lending, what that lacks may come from the spare bucket,
// which holds nothing that an owner could still save up. Hence, in every window of t seconds:
// all jobs together are granted at most rate * t + burst bytes; without lending, a job at most
// its own rate * t + its own burst; and no job's bucket is ever touched by another, so a job may
// count on its own.
//
// Exact: tokens are whole bytes and nano-bytes, times are whole nanoseconds, so nothing rounds
// and nothing drifts. Time that goes back stands still.
//
// Lazy: a full bucket is not looked at, its rate counts in full_rate_; a filling bucket is brought
// up to date when its job asks, or when it would be full: heap_ holds the filling jobs by a lower
// bound of that time (a grant only delays it). The order in which overflow reaches the spare bucket
// between two grants does not matter, since min(cap, min(cap, s + a) + b) = min(cap, s + a + b).
// Cost: O(log jobs) per call, amortised, O(1) while no bucket changes between full and filling.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "common/state.hpp"

namespace hivecore::storage {

class Limiter {
  public:
    static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
    static constexpr std::int64_t kMaxRate = 1'000'000'000'000;       // bytes per second
    static constexpr std::int64_t kMaxBurst = 1'000'000'000'000'000;  // bytes
    static constexpr std::int64_t kMaxTime = std::int64_t{1} << 62;   // nanoseconds
    static constexpr std::int64_t kMaxJobs = 1 << 20;

    // Never negative; nano < 10^9.
    struct Tokens {
        std::int64_t bytes = 0;
        std::int64_t nano = 0;
        friend auto operator<=>(const Tokens&, const Tokens&) = default;
    };

    // 0 <= rate <= kMaxRate, 0 <= burst <= kMaxBurst; the spare bucket starts full.
    Limiter(std::int64_t rate, std::int64_t burst, bool lend);

    std::int64_t rate() const { return rate_; }
    std::int64_t burst() const { return burst_; }
    bool lend() const { return lend_; }
    std::int64_t now() const { return now_; }
    std::int64_t free_rate() const { return free_rate_; }
    std::int64_t free_burst() const { return free_burst_; }
    std::int64_t slots() const { return static_cast<std::int64_t>(jobs_.size()); }
    std::int64_t size() const { return size_; }
    bool is_live(std::int64_t job) const { return jobs_[job].live; }
    std::int64_t rate(std::int64_t job) const { return jobs_[job].rate; }
    std::int64_t burst(std::int64_t job) const { return jobs_[job].burst; }

    // Room for what a call below may store: after a copy, none of them can run out of memory.
    void reserve();
    // The lowest free id. The bucket starts with what the spare bucket has for it. These rates and
    // bursts fit into free_rate() and free_burst().
    std::int64_t add(std::int64_t rate, std::int64_t burst, std::int64_t now);
    void remove(std::int64_t job, std::int64_t now);
    void set(std::int64_t job, std::int64_t rate, std::int64_t burst, std::int64_t now);

    // 0: granted; else the nanoseconds after which the job's own bucket will do. bytes <= burst.
    std::int64_t take(std::int64_t job, std::int64_t bytes, std::int64_t now);
    void take_many(std::span<const std::int64_t> jobs, std::span<std::int64_t> bytes_to_waits,
                   std::int64_t now);
    // The position of the first request that is not of a live job or above its burst, or -1.
    std::int64_t first_bad(std::span<const std::int64_t> jobs,
                           std::span<const std::int64_t> bytes) const;

    Tokens tokens(std::int64_t job, std::int64_t now);
    Tokens spare(std::int64_t now);

    // Brings all up to date; the answers stay the same.
    void save(StateWriter& writer);
    explicit Limiter(StateReader& reader);

    std::string audit() const;
    std::uint64_t bytes() const;

  private:
    struct Saved {
        std::int64_t job, rate, burst;
        Tokens tokens;
    };
    struct Job {
        std::int64_t rate = 0;
        std::int64_t burst = 0;
        Tokens tokens;
        std::int64_t since = 0;      // when tokens was right
        std::int64_t due = 0;        // full at this time at the earliest
        std::int32_t position = -1;  // in heap_
        bool full = false;
        bool live = false;
    };

    void settle(std::int64_t now);
    void pull(Job& job);
    void push(std::int64_t job);
    void spill(Job& job);
    void enqueue(std::int64_t job);
    void dequeue(std::int64_t job);
    void sift(std::size_t position);
    void place(std::size_t position, std::int32_t job);

    std::int64_t rate_;
    std::int64_t burst_;
    bool lend_;
    std::int64_t now_ = 0;
    std::int64_t free_rate_;   // not promised to a job
    std::int64_t free_burst_;  // what the spare bucket can hold
    std::int64_t full_rate_ = 0;
    std::int64_t size_ = 0;
    Tokens spare_;  // right at now_
    std::vector<Job> jobs_;
    std::vector<std::int32_t> heap_;  // by due, then id
    std::vector<std::int32_t> free_;  // ids below slots(), a heap with the lowest in front
};

}  // namespace hivecore::storage
