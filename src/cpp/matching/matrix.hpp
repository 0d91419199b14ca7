// A square matrix, row after row, of doubled weights in lanes of 32 or 64 bits.
#pragma once

#include <cstdint>
#include <memory>

#include "matching/matching.hpp"

namespace hivecore::matching {

template <class T>
class Matrix {
  public:
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
