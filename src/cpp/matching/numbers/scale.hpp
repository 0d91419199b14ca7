// Weights as the integers that the kernel computes with.
//
// A caller's weight becomes an integer here alone, by the same arithmetic for dense and sparse
// graphs; weights of several words, which are never rounded, become integers in sparse.cpp. Floats
// are multiplied by powers of two only, so that rounding to the next integer, half to even, is the
// only rounding, and none where the grid 2^exponent holds them. The offset makes matchings of more
// edges heavier, the floor keeps edges that are never wanted within 64 bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "common/cpu.hpp"
#include "matching/numbers/numbers.hpp"

namespace hivecore::matching {

inline constexpr std::int64_t kMaxWeight = std::int64_t{1} << 59;

// A weight w becomes max(sense * round(w / 2^exponent), floor) + offset; an integer w is neither
// divided nor compared with the floor.
struct Scale {
    int exponent = 0;
    std::int64_t sense = 1;  // -1: the lightest are wanted; 0: all weigh the offset
    std::int64_t offset = 0;
    std::int64_t heaviest = kMaxWeight;                             // no weight counts more
    std::int64_t floor = std::numeric_limits<std::int64_t>::min();  // of few bits, as a double has
};

// Throws std::invalid_argument for a scale that no weights can need.
void check(const Scale& scale);

// The weights of a list as integers, NaN as kNoEdge. Throws std::invalid_argument for one that
// is infinite, above 2^59 before the offset, or above scale.heaviest.
std::vector<std::int64_t> scaled(const Numbers& weights, const Scale& scale);

// The same with the floor 0, if above it nothing is rounded and nothing refused.
std::optional<std::vector<std::int64_t>> scaled_exactly(std::span<const double> weights,
                                                        int exponent, std::int64_t heaviest);

inline constexpr std::int64_t kOutOfRange = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kNoEdge = std::numeric_limits<std::int64_t>::min();  // NaN

// The integer next to a double of at most 2^59 in magnitude, of two the even one. A sum with kLarge
// has no bits below 2^20, and what that leaves over, summed with kSmall, none below 1: both sums
// are multiples of their last bit, which integer subtraction counts.
HIVECORE_INLINE std::int64_t nearest(double value) {
    constexpr double kLarge = 0x1.8p72;
    constexpr double kSmall = 0x1.8p52;
    const double coarse = value + kLarge;
    const double fine = value - (coarse - kLarge) + kSmall;
    const auto steps = std::bit_cast<std::int64_t>(coarse) - std::bit_cast<std::int64_t>(kLarge);
    const auto rest = std::bit_cast<std::int64_t>(fine) - std::bit_cast<std::int64_t>(kSmall);
    return (steps << 20) + rest;
}

// From one weight to its integer; kOutOfRange: not finite, or above 2^59.
template <class T>
class Scaler {
  public:
    explicit Scaler(const Scale& scale)
        : sense_(scale.sense),
          offset_(scale.offset),
          floor_(static_cast<double>(scale.floor)),
          factor_(static_cast<double>(sense_) * std::ldexp(1.0, -(scale.exponent / 2))),
          factor_too_(std::ldexp(1.0, scale.exponent / 2 - scale.exponent)) {}

    // Of a float before it is rounded and offset.
    HIVECORE_INLINE double unrounded(T weight) const {
        return static_cast<double>(weight) * factor_ * factor_too_;
    }

    HIVECORE_INLINE std::int64_t operator()(T weight) const {
        if constexpr (std::is_floating_point_v<T>) {
            const double whole = unrounded(weight);
            const double value = whole < floor_ ? floor_ : whole;
            const bool fits = std::fabs(value) <= static_cast<double>(kMaxWeight);
            const std::int64_t count = nearest(fits ? value : 0.0) + offset_;
            return fits ? count : weight != weight ? kNoEdge : kOutOfRange;
        } else if constexpr (sizeof(T) < 8) {
            return sense_ * static_cast<std::int64_t>(weight) + offset_;
        } else {
            const bool fits = weight <= static_cast<T>(kMaxWeight) &&
                              (std::is_unsigned_v<T> || weight >= static_cast<T>(-kMaxWeight));
            return fits ? sense_ * static_cast<std::int64_t>(weight) + offset_ : kOutOfRange;
        }
    }

  private:
    std::int64_t sense_;
    std::int64_t offset_;
    double floor_;
    double factor_;  // in two, since 2^1100 is no double
    double factor_too_;
};

}  // namespace hivecore::matching
