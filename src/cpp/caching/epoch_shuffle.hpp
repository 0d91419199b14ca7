// Seeded permutations of 0..items-1, one per epoch, invertible, in O(1) memory.
//
// A position p is written as p = right * width + left with left < width = ceil(sqrt(items)) and
// right < height = ceil(items / width). A Feistel network adds to left a keyed hash of right modulo
// width, then to right one of left modulo height, and so on for kRounds rounds: each round is
// undone by a subtraction. The grid has fewer than `width` places too many; a walk that ends on one
// of them goes through the network again until it is back (1.0x passes on average, unlike a power
// of two, which needs up to 2).
//
// The keys of an epoch come from (seed, epoch) by splitmix64, so that epochs are independent. Up to
// kDirect items the coordinates would be too short for a good network: those are shuffled outright
// (Fisher and Yates), which is as constant an amount of work.
//
// A whole epoch goes in blocks of places, eight of them at a time where the processor has AVX2: all
// of the network is 32-bit arithmetic without branches.
//
// Source: Black and Rogaway, Ciphers with arbitrary finite domains (2002): cycle walking and the
// generalised Feistel cipher.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "common/cpu.hpp"

namespace hivecore::caching::policies {

inline constexpr int kRounds = 8;
inline constexpr std::uint32_t kDirect = 64;

// One epoch's permutation.
class Permutation {
  public:
    Permutation() = default;
    Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint32_t items);

    std::uint32_t item(std::uint32_t position) const {
        if (items_ <= kDirect) {
            return direct_[position];
        }
        do {
            position = pass(position);
        } while (position >= items_);
        return position;
    }
    std::uint32_t position(std::uint32_t item) const {
        if (items_ <= kDirect) {
            return direct_inverse_[item];
        }
        do {
            item = pass_back(item);
        } while (item >= items_);
        return item;
    }
    // All items in order; fills `out`, which has one place per item.
    void order(std::span<std::uint32_t> out) const;

    std::uint32_t items() const { return items_; }

  private:
    static HIVECORE_INLINE void fill(const Permutation& self, std::uint32_t* out);
    static void fill_portably(const Permutation& self, std::uint32_t* out);
    static void fill_with_avx2(const Permutation& self, std::uint32_t* out);

    // The value of a round's function, below `limit`: (h * limit) >> 32 of a hash h. Eight at a
    // time that is faster in two products of 32 bits, which are enough as limit is below 2^16.
    template <bool Narrow = false>
    static HIVECORE_INLINE std::uint32_t hash(std::uint64_t key, std::uint32_t value,
                                              std::uint32_t limit) {
        std::uint32_t h = (value + static_cast<std::uint32_t>(key)) * 0x9E3779B1;
        h = ((h ^ (h >> 16)) + static_cast<std::uint32_t>(key >> 32)) * 0x85EBCA6B;
        h ^= h >> 15;
        if constexpr (Narrow) {
            return ((h >> 16) * limit + (((h & 0xFFFF) * limit) >> 16)) >> 16;
        }
        return static_cast<std::uint32_t>((std::uint64_t{h} * limit) >> 32);
    }
    // Two rounds.
    template <bool Narrow = false>
    HIVECORE_INLINE void forward(int round, std::uint32_t& left, std::uint32_t& right) const {
        left += hash<Narrow>(key_[round], right, width_);
        left = least(left, left - width_);
        right += hash<Narrow>(key_[round + 1], left, height_);
        right = least(right, right - height_);
    }
    // x modulo m for x < 2 m, as least(x, x - m): below m the difference is huge.
    static HIVECORE_INLINE std::uint32_t least(std::uint32_t a, std::uint32_t b) {
        return a < b ? a : b;
    }
    std::uint32_t pass(std::uint32_t place) const {
        std::uint32_t right = divide(place);
        std::uint32_t left = place - right * width_;
        for (int round = 0; round < kRounds; round += 2) {
            forward(round, left, right);
        }
        return right * width_ + left;
    }
    std::uint32_t pass_back(std::uint32_t place) const {
        std::uint32_t right = divide(place);
        std::uint32_t left = place - right * width_;
        for (int round = kRounds - 2; round >= 0; round -= 2) {
            right -= hash(key_[round + 1], left, height_);
            right = least(right, right + height_);
            left -= hash(key_[round], right, width_);
            left = least(left, left + width_);
        }
        return right * width_ + left;
    }
    std::uint32_t divide(std::uint32_t place) const {
        // Exact, as place * width is below 2^48; fits, as place / width is below width, so 2^16.
        return static_cast<std::uint32_t>((place * reciprocal_) >> 48);
    }

    std::uint32_t items_ = 0;
    std::uint32_t width_ = 1;
    std::uint32_t height_ = 1;
    std::uint64_t reciprocal_ = 0;
    std::array<std::uint64_t, kRounds> key_{};
    std::array<std::uint8_t, kDirect> direct_{};
    std::array<std::uint8_t, kDirect> direct_inverse_{};
};

}  // namespace hivecore::caching::policies
