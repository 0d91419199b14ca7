// Divides the amount of a parent among its children, exactly.
//
// Each child has a base: its minimum, or its request if that is less and the child lends. The rest
// is divided by weight among the hungry children, which request more than their minimum, in rounds:
// shares are rounded down, the units left over go to the largest remainders (ties: the first
// child), and what exceeds a child's request is divided in the next round. The result depends on
// these roundings, so every round is computed.
//
// Products of a weight and an amount are compared exactly: if both are small, by a quotient of
// floats that its remainder modulo 2^64 corrects; else in 128 bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/wide.hpp"

namespace hivecore::quotas {

// The largest amount, weight or sum of amounts that is counted.
inline constexpr std::int64_t kMost = std::int64_t{1} << 62;

// What the children ask of one dimension, in the order of their names; each from 0 to kMost.
struct Claims {
    std::span<const std::int64_t> request, minimum, weight;
    std::span<const std::uint8_t> lends;

    std::size_t size() const { return request.size(); }
};

// Below these a quotient of floats is off by less than 2^7, and its remainder is within 63 bits.
inline constexpr std::int64_t kSmallAmount = std::int64_t{1} << 58;
inline constexpr std::int64_t kSmallTotal = std::int64_t{1} << 54;

inline bool are_small(std::int64_t amount, const Wide& total) {
    return amount < kSmallAmount && total < Wide(static_cast<std::uint64_t>(kSmallTotal));
}

struct Part {
    std::int64_t units, remainder;
};

// The part of a weight in an amount, rounded down, and what is left of the division by the total of
// all weights; both are small. `rate`: the amount by the total.
inline Part part_of(std::int64_t weight, std::int64_t amount, std::int64_t total, double rate) {
    auto units = static_cast<std::int64_t>(static_cast<double>(weight) * rate);
    auto remainder = static_cast<std::int64_t>(
        static_cast<std::uint64_t>(weight) * static_cast<std::uint64_t>(amount) -
        static_cast<std::uint64_t>(units) * static_cast<std::uint64_t>(total));
    if (remainder < 0 || remainder >= total) {
        auto off = remainder / total;
        off -= remainder < off * total ? 1 : 0;
        units += off;
        remainder -= off * total;
    }
    return {units, remainder};
}

class WaterFill {
  public:
    // The runtime of each child.
    void fill(std::int64_t amount, const Claims& claims, std::span<std::int64_t> runtime);

    // The amount in proportion to weights, of which one at least is not 0.
    void share(std::int64_t amount, std::span<const std::int64_t> weights,
               std::span<std::int64_t> shares);

    // A round of fill(): the amount, the hungry children, and their shares.
    struct Round {
        std::int64_t amount = 0;
        std::vector<std::int32_t> children;
        std::vector<std::int64_t> shares;
    };
    std::vector<Round>* rounds = nullptr;

  private:
    void keep(std::size_t hungry);
    void share_hungry(std::int64_t amount);
    void share_quickly(std::int64_t amount, std::int64_t total);
    void share_exactly(std::int64_t amount);
    void give_left(std::int64_t left, std::int64_t total);

    // The hungry, in order: which child, its weight, what it still wants, its part in this round.
    std::vector<std::int32_t> child_;
    std::vector<std::int64_t> weight_, rest_, share_, remainder_;
    std::vector<std::int32_t> buckets_, places_;
};

// The same for several dimensions, one after the other in the claims; `lends` is for all of them.
void fill_all(std::span<const std::int64_t> amounts, const Claims& claims,
              std::span<std::int64_t> runtime);

}  // namespace hivecore::quotas
