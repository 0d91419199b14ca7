// When the caller's time is up. The clock is read once in some dozens of times that one asks, and
// never where there is no limit.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace hivecore::matching {

class Deadline {
  public:
    Deadline() = default;  // never

    explicit Deadline(double seconds) {
        if (seconds < kForever) {
            const std::chrono::duration<double> left(std::max(0.0, seconds));
            end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
            unasked_ = 1;
        }
    }

    bool has_passed() {
        if (--unasked_ > 0) {
            return false;
        }
        const bool passed = Clock::now() >= end_;
        unasked_ = passed ? 1 : kUnasked;
        return passed;
    }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr double kForever = 1e9;  // seconds, thirty years
    static constexpr std::int64_t kUnasked = 32;

    Clock::time_point end_ = Clock::time_point::max();
    std::int64_t unasked_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace hivecore::matching
