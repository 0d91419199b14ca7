// Independent pieces of work, on several threads at once.
//
// Each thread takes the next piece that is left, so that large pieces, which come first, do not
// hold up the others. Threads live as long as the call: it is made for work of milliseconds and
// more. What is computed must not depend on which thread takes what.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace hivecore::matching {

// The first exception of a thread takes memory, which is not there when that exception says so: one
// is thrown before the work begins.
inline void prepare_for_exceptions() {
    try {
        throw 0;
    } catch (int) {
    }
}

inline constexpr std::chrono::milliseconds kPause{100};

// Calls work(i) for each i below count; every thread, the caller's included, takes the first that
// is left. Throws what a call has thrown, once all threads have ended. Until then the caller's
// thread, if no work is left for it, calls look() some times a second.
template <class Work, class Look>
void in_parallel(std::size_t count, std::int64_t threads, Work work, Look look) {
    prepare_for_exceptions();
    std::atomic<std::size_t> next = 0;
    std::mutex failing;
    std::exception_ptr failure;
    const auto take_all = [&] {
        try {
            for (std::size_t i = next++; i < count; i = next++) {
                work(i);
            }
        } catch (...) {
            const std::lock_guard lock(failing);
            failure = failure ? failure : std::current_exception();
            next = count;
        }
    };
    const auto wanted = std::min<std::size_t>(count, static_cast<std::size_t>(threads));
    std::vector<std::thread> others;
    others.reserve(wanted);
    std::size_t running = 0;
    std::mutex ending;
    std::condition_variable ended;
    try {
        while (others.size() + 1 < wanted) {
            others.emplace_back([&] {
                prepare_for_exceptions();
                take_all();
                const std::lock_guard lock(ending);
                --running;
                ended.notify_one();
            });
            const std::lock_guard lock(ending);
            ++running;
        }
    } catch (...) {
        // The system has no more threads to give: those that run do all the work.
    }
    take_all();
    for (std::unique_lock lock(ending);
         !ended.wait_for(lock, kPause, [&] { return running == 0; });) {
        lock.unlock();
        look();
        lock.lock();
    }
    for (std::thread& other : others) {
        other.join();
    }
    if (failure) {
        std::rethrow_exception(failure);
    }
}

}  // namespace hivecore::matching
