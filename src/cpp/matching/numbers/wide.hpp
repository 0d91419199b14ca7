// Integers of several words, for weights that 64 bits do not hold.
//
// Two's complement, the lowest word first; 34 words hold any sum of doubles. The engines are
// templates over the integer, and this class has the operators that they use and no others.
// Nothing checks for overflow: a weight must leave five bits free, for twice its value and
// the sums that searches form of it.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace hivecore::matching {

template <int kWords>
class Wide {
  public:
    constexpr Wide() = default;

    // Implicit, so that the engines read alike for all integers.
    constexpr Wide(std::int64_t value) {
        words_.fill(value < 0 ? ~std::uint64_t{0} : 0);
        words_[0] = static_cast<std::uint64_t>(value);
    }

    static constexpr Wide from_words(const std::uint64_t* words) {
        Wide value;
        for (std::size_t i = 0; i < kWords; ++i) {
            value.words_[i] = words[i];
        }
        return value;
    }

    constexpr const std::array<std::uint64_t, kWords>& words() const { return words_; }

    constexpr Wide& operator+=(const Wide& other) {
        std::uint64_t carry = 0;
        for (std::size_t i = 0; i < kWords; ++i) {
            const std::uint64_t sum = words_[i] + other.words_[i];
            const std::uint64_t whole = sum + carry;
            carry = static_cast<std::uint64_t>(sum < words_[i]) | (whole < sum);
            words_[i] = whole;
        }
        return *this;
    }

    constexpr Wide& operator-=(const Wide& other) {
        std::uint64_t borrow = 0;
        for (std::size_t i = 0; i < kWords; ++i) {
            const std::uint64_t difference = words_[i] - other.words_[i];
            const std::uint64_t whole = difference - borrow;
            borrow =
                static_cast<std::uint64_t>(words_[i] < other.words_[i]) | (difference < borrow);
            words_[i] = whole;
        }
        return *this;
    }

    // Divided by 2^by, rounded down; by < 64.
    constexpr Wide& operator>>=(int by) {
        for (std::size_t i = 0; i < kWords && by > 0; ++i) {
            const std::uint64_t above =
                i + 1 < kWords ? words_[i + 1] : is_negative() * ~std::uint64_t{0};
            words_[i] = words_[i] >> by | above << (64 - by);
        }
        return *this;
    }

    // Times 2^by, for any by >= 0.
    constexpr Wide& operator<<=(int by) {
        const auto whole = static_cast<std::size_t>(by / 64);
        const int rest = by % 64;
        for (std::size_t i = kWords; i-- > 0;) {
            const std::uint64_t here = i >= whole ? words_[i - whole] : 0;
            const std::uint64_t below = i > whole ? words_[i - whole - 1] : 0;
            words_[i] = rest == 0 ? here : here << rest | below >> (64 - rest);
        }
        return *this;
    }

    friend constexpr Wide operator+(Wide a, const Wide& b) { return a += b; }
    friend constexpr Wide operator-(Wide a, const Wide& b) { return a -= b; }
    friend constexpr Wide operator-(const Wide& a) { return Wide(0) -= a; }
    friend constexpr bool operator==(const Wide&, const Wide&) = default;

    // By a small factor: it is added so many times.
    friend constexpr Wide operator*(int factor, const Wide& a) {
        Wide product;
        for (int i = 0; i < factor; ++i) {
            product += a;
        }
        for (int i = 0; i > factor; --i) {
            product -= a;
        }
        return product;
    }

    // By a power of two below 2^31, rounded down.
    friend constexpr Wide operator/(Wide a, int power) {
        return a >>= std::countr_zero(static_cast<unsigned>(power));
    }

    friend constexpr std::strong_ordering operator<=>(const Wide& a, const Wide& b) {
        if (a.is_negative() != b.is_negative()) {
            return b.is_negative() <=> a.is_negative();
        }
        for (std::size_t i = kWords; i-- > 0;) {
            if (a.words_[i] != b.words_[i]) {
                return a.words_[i] <=> b.words_[i];
            }
        }
        return std::strong_ordering::equal;
    }

  private:
    constexpr bool is_negative() const { return words_[kWords - 1] >> 63 != 0; }

    std::array<std::uint64_t, kWords> words_{};
};

}  // namespace hivecore::matching

// For Search::kNever and the like.
template <int kWords>
class std::numeric_limits<hivecore::matching::Wide<kWords>> {
  public:
    static constexpr bool is_specialized = true;
    static constexpr hivecore::matching::Wide<kWords> max() {
        hivecore::matching::Wide<kWords> lowest(1);
        lowest <<= 64 * kWords - 1;
        return lowest - hivecore::matching::Wide<kWords>(1);
    }
};
