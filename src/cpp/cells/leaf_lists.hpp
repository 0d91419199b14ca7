// Lists of leaves, one per group, in one array: a copy of all groups is a copy of one block.
//
// A list takes a block whose length is a power of two; a block that is given back is used again for
// the next list of its length, the last given back first.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "cells/plan.hpp"

namespace hivecore::cells {

class LeafLists {
  public:
    struct List {
        std::uint64_t first = 0;
        std::uint32_t size = 0;
    };

    LeafLists() { free_.fill(kNone); }

    List store(std::span<const Placed> leaves) {
        const auto cls = static_cast<std::size_t>(class_of(leaves.size()));
        List list{free_[cls], static_cast<std::uint32_t>(leaves.size())};
        if (list.first == kNone) {
            list.first = slots_.size();
            slots_.resize(slots_.size() + (std::size_t{1} << cls));
        } else {
            free_[cls] = next_of(list.first);
        }
        std::copy(leaves.begin(), leaves.end(),
                  slots_.begin() + static_cast<std::ptrdiff_t>(list.first));
        return list;
    }

    void drop(List list) {
        const auto cls = static_cast<std::size_t>(class_of(list.size));
        // The first slot of a free block says which block is next.
        slots_[list.first].leaf = static_cast<std::uint32_t>(free_[cls]);
        slots_[list.first].pod =
            static_cast<std::int32_t>(static_cast<std::uint32_t>(free_[cls] >> 32));
        free_[cls] = list.first;
    }

    std::span<const Placed> at(List list) const { return {slots_.data() + list.first, list.size}; }
    std::span<Placed> at(List list) { return {slots_.data() + list.first, list.size}; }
    std::uint64_t bytes() const { return slots_.size() * sizeof(Placed); }

  private:
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
    static int class_of(std::size_t size) { return std::bit_width(size == 0 ? 0 : size - 1); }
    std::uint64_t next_of(std::uint64_t first) const {
        return std::uint64_t{static_cast<std::uint32_t>(slots_[first].pod)} << 32 |
               slots_[first].leaf;
    }

    std::vector<Placed> slots_;
    std::array<std::uint64_t, 40> free_;
};

}  // namespace hivecore::cells
