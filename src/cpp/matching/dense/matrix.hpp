// A square matrix, row after row, of doubled weights in lanes of 32 or 64 bits.
//
// 32 bits where no weight counts more than 2^27: twice as many lanes per vector and half the
// memory. A pair that is no edge has a weight so low that its slack is beyond every time of a
// search: the loops need no test for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "matching/matching.hpp"

namespace hivecore::matching {

template <class T>
class Matrix {
  public:
    // Far beyond every event time, and still far from overflow when two are added.
    static constexpr T kNever = std::numeric_limits<T>::max() / 4;
    static constexpr T kAbsent = -2 * kNever;  // the weight of a pair that is no edge
    // Duals are at most twice the heaviest weight, a search's time at most the heaviest: with this
    // bound every sum that is formed has room.
    static constexpr std::int64_t kHeaviest = (kNever + std::int64_t{1}) / 4;

    explicit Matrix(Node n)
        : n_(n), entries_(std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(n) * n)) {}

    Node size() const { return n_; }
    T* row(Node v) { return entries_.get() + static_cast<std::size_t>(v) * n_; }
    const T* row(Node v) const { return entries_.get() + static_cast<std::size_t>(v) * n_; }

  private:
    Node n_;
    std::unique_ptr<T[]> entries_;
};

}  // namespace hivecore::matching
