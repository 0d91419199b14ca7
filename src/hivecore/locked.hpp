// A kernel object as a capsule, for Python objects of which one call at a time may be within one.
#pragma once

#include <pybind11/pybind11.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace hivecore {

// `T::kName` is what the capsule is called.
template <class T>
class Locked {
  public:
    template <class... Arguments>
    static pybind11::capsule make(Arguments&&... arguments) {
        auto locked = std::make_unique<Locked>(std::forward<Arguments>(arguments)...);
        const pybind11::capsule capsule(locked.get(), T::kName,
                                        [](void* p) { delete static_cast<Locked*>(p); });
        locked.release();
        return capsule;
    }

    static Locked& in(const pybind11::capsule& capsule) {
        if (capsule.name() == nullptr || std::strcmp(capsule.name(), T::kName) != 0) {
            throw pybind11::type_error(std::string("it must be a capsule called ") + T::kName);
        }
        return *capsule.get_pointer<Locked>();
    }

    template <class... Arguments>
    explicit Locked(Arguments&&... arguments) : held_{std::forward<Arguments>(arguments)...} {}

    // What is never changed.
    const T& held() const { return held_; }

    // Without the GIL, and alone.
    template <class Work>
    auto alone(Work work) {
        const pybind11::gil_scoped_release released;
        const std::lock_guard<std::mutex> lock(mutex_);
        return work(held_);
    }

  private:
    T held_;
    std::mutex mutex_;
};

}  // namespace hivecore
