// How a parent's amount is shared out among its children, to the unit.
//
// Everybody has a base: the minimum, or less if less is asked for and the rest is lent. What is
// left is shared out by weight among the hungry, those who ask for more than their minimum, in
// rounds: parts are rounded down, the units that are left over go to the largest remainders (the
// first of equals), and what somebody gets beyond his request goes into the next round. The result
// depends on these roundings, so the rounds are gone through as they are.
//
// Products of a weight and an amount are compared exactly. Where both are small enough, a quotient
// of floats is at most a little off and its remainder, modulo 2^64, says by how much; else 128
// bits.
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

    // What each round has given, for whoever wants to be told; fill() adds to it.
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
