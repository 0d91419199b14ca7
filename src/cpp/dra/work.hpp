// A limit on the steps of a search, so that the same question has the same answer on any machine.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hivecore::dra {

struct OutOfWork {};  // thrown

class Work {
  public:
    explicit Work(std::uint64_t limit) : limit_(limit) {}

    void add(std::uint64_t steps = 1) {
        done_ += steps;
        if (done_ > limit_) {
            throw OutOfWork{};
        }
    }
    std::uint64_t done() const { return done_; }
    // From now on at most so many steps.
    void allow(std::uint64_t steps) { limit_ = std::min(limit_, done_ + steps); }

  private:
    std::uint64_t limit_;
    std::uint64_t done_ = 0;
};

}  // namespace hivecore::dra
