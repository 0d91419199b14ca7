// The largest of many numbers, one of which changes at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hivecore::topology {

class MaxTree {
  public:
    explicit MaxTree(std::size_t size) : width_(std::bit_ceil(size)), nodes_(2 * width_) {}

    std::int64_t largest() const { return nodes_[1]; }

    void set(std::size_t place, std::int64_t value) {
        auto i = width_ + place;
        nodes_[i] = value;
        for (i /= 2; i > 0; i /= 2) {
            const auto most = std::max(nodes_[2 * i], nodes_[2 * i + 1]);
            if (nodes_[i] == most) {
                return;
            }
            nodes_[i] = most;
        }
    }

  private:
    std::size_t width_;
    std::vector<std::int64_t> nodes_;  // 1 is the root, those below i are 2 i and 2 i + 1
};

}  // namespace hivecore::topology
