// When a search is to end early: the caller's time is up, or the caller has been interrupted.
//
// Searches ask in their inner loops. So has_passed() counts down and reads the clock only every
// 32nd time, and never where neither a time limit nor an interrupt exists. Each thread has its own
// Deadline; they share the Interrupt, which only the thread that made it may ask, since that is the
// one that may run the caller's code.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <thread>
#include <utility>

namespace hivecore::matching {

// Asks whether to stop, ten times a second, on the thread that made it; tells all that share it.
class Interrupt {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds kPause{100};

    explicit Interrupt(std::function<bool()> ask) : ask_(std::move(ask)) {}

    bool has_come(Clock::time_point now) {
        if (std::this_thread::get_id() == owner_ && now >= next_ && !come_) {
            come_ = ask_();
            next_ = Clock::now() + kPause;
        }
        return come_;
    }

  private:
    std::function<bool()> ask_;
    std::thread::id owner_ = std::this_thread::get_id();
    Clock::time_point next_ = Clock::now() + kPause;  // the owner's alone
    std::atomic<bool> come_ = false;
};

class Deadline {
  public:
    Deadline() = default;  // never

    explicit Deadline(double seconds, Interrupt* interrupt = nullptr) : interrupt_(interrupt) {
        if (seconds < kForever) {
            const std::chrono::duration<double> left(std::max(0.0, seconds));
            end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
        }
        if (seconds < kForever || interrupt_ != nullptr) {
            unasked_ = 1;
        }
    }

    bool has_passed() { return --unasked_ <= 0 && look(); }

    // For a thread that waits for others.
    bool look() {
        const auto now = Clock::now();
        const bool passed = now >= end_ || (interrupt_ != nullptr && interrupt_->has_come(now));
        unasked_ = passed ? 1 : kUnasked;
        return passed;
    }

  private:
    using Clock = Interrupt::Clock;
    static constexpr double kForever = 1e9;  // seconds, thirty years
    static constexpr std::int64_t kUnasked = 32;

    Clock::time_point end_ = Clock::time_point::max();
    Interrupt* interrupt_ = nullptr;
    std::int64_t unasked_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace hivecore::matching
