// Integers of 128 bits, as far as products and sums of 64-bit ones need them.
#pragma once

#include <compare>
#include <cstdint>

namespace hivecore {

struct Wide {
    std::uint64_t high = 0, low = 0;

    Wide() = default;
    constexpr Wide(std::uint64_t value) : low(value) {}
    constexpr Wide(std::uint64_t upper, std::uint64_t lower) : high(upper), low(lower) {}

    bool fits() const { return high == 0; }
    // As a number that may be negative.
    bool is_negative() const { return high >> 63; }
    double as_signed_double() const {
        return static_cast<double>(static_cast<std::int64_t>(high)) * 0x1p64 +
               static_cast<double>(low);
    }

    friend Wide operator+(Wide a, Wide b) {
        const std::uint64_t low = a.low + b.low;
        return {a.high + b.high + (low < a.low ? 1 : 0), low};
    }
    friend Wide operator-(Wide a, Wide b) {
        return {a.high - b.high - (a.low < b.low ? 1 : 0), a.low - b.low};
    }
    Wide& operator+=(Wide other) { return *this = *this + other; }
    friend bool operator==(const Wide&, const Wide&) = default;
    friend auto operator<=>(const Wide&,
                            const Wide&) = default;  // of numbers that are not negative
};

inline Wide product(std::uint64_t a, std::uint64_t b) {
    constexpr std::uint64_t kHalf = 0xFFFFFFFF;
    const std::uint64_t low = (a & kHalf) * (b & kHalf);
    const std::uint64_t cross = (a >> 32) * (b & kHalf) + (low >> 32);
    const std::uint64_t other = (a & kHalf) * (b >> 32) + (cross & kHalf);
    return {(a >> 32) * (b >> 32) + (cross >> 32) + (other >> 32), other << 32 | (low & kHalf)};
}

// The lower 128 bits.
inline Wide product(Wide a, std::uint64_t b) {
    auto all = product(a.low, b);
    all.high += a.high * b;
    return all;
}

struct Division {
    std::int64_t quotient = 0;
    Wide rest;
};

// Rounded down, of numbers that are not negative; the divisor is below 2^120 and not 0, the
// quotient below 2^63. A quotient of floats leaves a rest that is smaller by fifty bits, as of it
// the next.
inline Division divide(Wide number, Wide divisor) {
    Division division{0, number};
    const double by = divisor.as_signed_double();
    while (division.rest.is_negative() || division.rest >= divisor) {
        auto step = static_cast<std::int64_t>(division.rest.as_signed_double() / by);
        if (division.rest.is_negative()) {
            step -= 1;
        } else if (step == 0) {
            step = 1;
        }
        division.quotient += step;
        const auto taken = product(divisor, static_cast<std::uint64_t>(step < 0 ? -step : step));
        division.rest = step < 0 ? division.rest + taken : division.rest - taken;
    }
    return division;
}

}  // namespace hivecore
