// Calls of several threads on one object take turns.
//
// With the GIL, the GIL itself orders short calls: no lock is taken, a call only looks whether
// another thread is in the midst of a long one, which goes on without the GIL. A thread that keeps
// the object across that (`Guard::keep`), or across calls (`Mutex::acquire`), owns it. A thread
// that finds it owned gives up the GIL and sleeps. An owner that comes back soon may overtake the
// sleepers, since to change threads costs more than most calls; a thread that has slept for a
// millisecond is promised the object, and gets it next.
//
// Without the GIL every call takes a PyMutex, which behaves alike.
//
// The same thread never waits for itself: a finalizer that runs within a call may use the object.
#pragma once

#include <Python.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace hivecore {

#ifdef Py_GIL_DISABLED

class Mutex {
  public:
    void acquire() {
        const unsigned long self = PyThread_get_thread_ident();
        if (owner_.load(std::memory_order_relaxed) != self) {
            PyMutex_Lock(&mutex_);
            owner_.store(self, std::memory_order_relaxed);
        }
        ++depth_;
    }

    void release() {
        if (--depth_ == 0) {
            owner_.store(0, std::memory_order_relaxed);
            PyMutex_Unlock(&mutex_);
        }
    }

    bool is_mine() const {
        return owner_.load(std::memory_order_relaxed) == PyThread_get_thread_ident();
    }

  private:
    PyMutex mutex_{};
    std::atomic<unsigned long> owner_{0};
    long depth_ = 0;  // the owner's
};

// The calling thread's turn until the end of the scope.
class Guard {
  public:
    Guard() = default;
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { unlock(); }

    void lock(Mutex& mutex) {
        if (!mutex_) {
            mutex.acquire();
            mutex_ = &mutex;
        }
    }

    void keep() {}

    void unlock() {
        if (Mutex* const mutex = std::exchange(mutex_, nullptr)) {
            mutex->release();
        }
    }

  private:
    Mutex* mutex_ = nullptr;
};

#else

// All members but `sleep` are called with the GIL.
class Mutex {
  public:
    // Waits until no other thread owns it.
    void pass() {
        if (owner_ != 0 || promised_ != 0) {
            const unsigned long self = PyThread_get_thread_ident();
            if (owner_ != self) {
                wait(self);
            }
        }
    }

    void own() {
        owner_ = PyThread_get_thread_ident();
        ++depth_;
    }

    void acquire() {
        pass();
        own();
    }

    void release() {
        if (--depth_ == 0) {
            owner_ = 0;
            if (wanted_) {
                wake();
            }
        }
    }

    bool is_mine() const { return owner_ == PyThread_get_thread_ident(); }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds kPatience{1};

    bool is_free(unsigned long self) const {
        return owner_ == 0 && (promised_ == 0 || promised_ == self);
    }

    // Also where the interpreter ends this thread while it waits for the GIL.
    struct GiveUpPromise {
        Mutex& mutex;
        unsigned long self;
        ~GiveUpPromise() {
            if (mutex.promised_ == self) {
                mutex.promised_ = 0;
                mutex.wake();
            }
        }
    };

    void wait(unsigned long self) {
        const GiveUpPromise at_the_end{*this, self};
        const auto end_of_patience = Clock::now() + kPatience;
        bool first = true;
        do {
            PyThreadState* const state = PyEval_SaveThread();
            sleep(self, first, end_of_patience);
            PyEval_RestoreThread(state);
            first = false;
        } while (!is_free(self));
    }

    // Until it may be free. The first time, the next release wakes; then a release that is followed
    // by another call at once should not pay for it.
    void sleep(unsigned long self, bool first, Clock::time_point end_of_patience) {
        std::unique_lock lock(sleepers_);
        while (true) {
            const bool patient = promised_ == 0 && Clock::now() < end_of_patience;
            if (!patient) {
                unsigned long none = 0;
                promised_.compare_exchange_strong(none, self);
            }
            if (first || !patient) {
                wanted_ = true;  // before the look at the owner, which looks here after its release
            }
            if (is_free(self)) {
                return;
            }
            if (patient) {
                woken_.wait_until(lock, end_of_patience);
            } else {
                woken_.wait(lock);
            }
            first = false;
        }
    }

    void wake() {
        {
            const std::lock_guard lock(sleepers_);
            wanted_ = false;
        }
        woken_.notify_all();
    }

    std::atomic<unsigned long> owner_{0};     // a thread, or 0; written with the GIL
    std::atomic<unsigned long> promised_{0};  // the thread that gets it next, or 0
    std::atomic<bool> wanted_{false};         // whether a release has a thread to wake
    long depth_ = 0;                          // of the owner
    std::mutex sleepers_;
    std::condition_variable woken_;
};

// The calling thread's turn until the end of the scope.
class Guard {
  public:
    Guard() = default;
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { unlock(); }

    // To be called last before the kernel: what may give up the GIL in between, such as the
    // conversion of an argument, could let another thread in.
    void lock(Mutex& mutex) {
        mutex.pass();
        passed_ = &mutex;
    }

    // To be called before the GIL is given up.
    void keep() {
        passed_->own();
        kept_ = passed_;
    }

    void unlock() {
        if (Mutex* const mutex = std::exchange(kept_, nullptr)) {
            mutex->release();
        }
    }

  private:
    Mutex* passed_ = nullptr;
    Mutex* kept_ = nullptr;
};

#endif

}  // namespace hivecore
