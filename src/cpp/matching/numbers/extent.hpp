// What has to be known of weights before they become integers: the least, the greatest, and for
// floats the coarsest grid 2^grid of which all are multiples.
//
// A float is a multiple of its lowest set bit and of no larger power of two, so that the grid is
// the least such bit of all weights. It is found as the difference of the float and itself with
// that bit cleared, which is exact and needs no branch: 32 lanes run side by side in vector
// registers.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <variant>

#include "common/cpu.hpp"
#include "matching/numbers/numbers.hpp"

namespace hivecore::matching {

using Number = std::variant<std::int64_t, std::uint64_t, double>;

struct Extent {
    Number low = std::int64_t{0};  // an infinity, where there is one, is low or high
    Number high = std::int64_t{0};
    int grid = 0;  // of floats: all are multiples of 2^grid, not all of 2^(grid+1); 0 if all are 0
};

// Whose bits the grid is to hold.
enum class Grid { kOfAll, kOfPositive };

template <class T>
Number as_number(T value) {
    using Wide = std::conditional_t<std::is_unsigned_v<T>, std::uint64_t, std::int64_t>;
    if constexpr (std::is_floating_point_v<T>) {
        return static_cast<double>(value);
    } else {
        return static_cast<Wide>(value);
    }
}

// The lowest bit that is set in a float, a power of two: what it loses when that is cleared.
template <class T>
HIVECORE_INLINE T lowest_bit(T value) {
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    constexpr Bits kFraction = (Bits{1} << (std::numeric_limits<T>::digits - 1)) - 1;
    const Bits bits = std::bit_cast<Bits>(value) & ~(Bits{1} << (8 * sizeof(T) - 1));
    const Bits rest = (bits & kFraction) != 0 ? bits & (bits - 1) : 0;
    return std::bit_cast<T>(bits) - std::bit_cast<T>(rest);
}

// Takes the weights some at a time, in lanes that do not wait for each other. NaN is none.
template <class T>
class Survey {
  public:
    static constexpr int kLanes = 32;

    Survey(T any, Grid grid) {
        if constexpr (std::is_floating_point_v<T>) {
            above_ = grid == Grid::kOfAll ? -std::numeric_limits<T>::infinity() : T{0};
        }
        constexpr bool kFloats = std::is_floating_point_v<T>;
        for (int i = 0; i < kLanes; ++i) {
            low_[i] = kFloats ? std::numeric_limits<T>::infinity() : any;
            high_[i] = kFloats ? -std::numeric_limits<T>::infinity() : any;
            step_[i] = std::numeric_limits<T>::infinity();
        }
    }

    HIVECORE_INLINE void take(const T* __restrict weights) {
        for (int i = 0; i < kLanes; ++i) {
            low_[i] = weights[i] < low_[i] ? weights[i] : low_[i];
        }
        for (int i = 0; i < kLanes; ++i) {
            high_[i] = weights[i] > high_[i] ? weights[i] : high_[i];
        }
        if constexpr (std::is_floating_point_v<T>) {
            for (int i = 0; i < kLanes; ++i) {
                const T bit = lowest_bit(weights[i] > above_ ? weights[i] : T{0});
                const T step = bit > 0 ? bit : std::numeric_limits<T>::infinity();
                step_[i] = step < step_[i] ? step : step_[i];
            }
        }
    }

    Extent extent() const {
        T low = low_[0];
        T high = high_[0];
        T step = step_[0];
        for (int i = 1; i < kLanes; ++i) {
            low = low_[i] < low ? low_[i] : low;
            high = high_[i] > high ? high_[i] : high;
            step = step_[i] < step ? step_[i] : step;
        }
        Extent range{as_number(low), as_number(high), 0};
        if constexpr (std::is_floating_point_v<T>) {
            range.grid = std::isfinite(step) ? std::ilogb(step) : 0;
        }
        return range;
    }

  private:
    T above_{};  // weights up to this do not determine the grid
    T low_[kLanes];
    T high_[kLanes];
    T step_[kLanes];  // the least power of two that occurs in a weight
};

// Of a list; low is above high if all are NaN, and all is 0 if it is empty.
Extent extent_of(const Numbers& weights, Grid grid);

}  // namespace hivecore::matching
