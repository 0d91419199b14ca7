// A set of devices of one type on one node, as bits: 64 of them in one word, or 256 in four.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace hivecore::devices {

inline constexpr int kMostDevices = 256;  // of one type on one node

// In line; where the processor is not known std::popcount calls a function.
inline int count_bits(std::uint64_t word) {
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return static_cast<int>(word * 0x0101010101010101u >> 56);
}

template <int W>
struct Mask {
    std::array<std::uint64_t, W> words{};

    bool any() const {
        std::uint64_t all = 0;
        for (const auto word : words) {
            all |= word;
        }
        return all != 0;
    }

    int count() const {
        int sum = 0;
        for (const auto word : words) {
            sum += count_bits(word);
        }
        return sum;
    }

    bool has(int i) const { return words[i >> 6] >> (i & 63) & 1; }
    void add(int i) { words[i >> 6] |= std::uint64_t{1} << (i & 63); }
    void remove(int i) { words[i >> 6] &= ~(std::uint64_t{1} << (i & 63)); }

    // The lowest member; there is one.
    int first() const {
        int w = 0;
        while (words[w] == 0) {
            ++w;
        }
        return 64 * w + std::countr_zero(words[w]);
    }

    bool is_within(const Mask& other) const { return !(*this & ~other).any(); }

    // Calls `visit` with each member, ascending.
    template <class Visit>
    void each(Visit visit) const {
        for (int w = 0; w < W; ++w) {
            for (std::uint64_t rest = words[w]; rest != 0; rest &= rest - 1) {
                visit(64 * w + std::countr_zero(rest));
            }
        }
    }

    // The same set in words of another number; no member is lost.
    template <int V>
    Mask<V> as() const {
        Mask<V> other;
        for (int w = 0; w < (V < W ? V : W); ++w) {
            other.words[w] = words[w];
        }
        return other;
    }

    friend Mask operator&(Mask a, const Mask& b) {
        for (int w = 0; w < W; ++w) {
            a.words[w] &= b.words[w];
        }
        return a;
    }

    friend Mask operator|(Mask a, const Mask& b) {
        for (int w = 0; w < W; ++w) {
            a.words[w] |= b.words[w];
        }
        return a;
    }

    friend Mask operator~(Mask a) {
        for (auto& word : a.words) {
            word = ~word;
        }
        return a;
    }

    friend bool operator==(const Mask&, const Mask&) = default;

    // Of two sets of one size: whether this one's members, in ascending order, come first.
    bool comes_before(const Mask& other) const {
        for (int w = 0; w < W; ++w) {
            if (const auto differing = words[w] ^ other.words[w]; differing != 0) {
                return words[w] & (differing & -differing);
            }
        }
        return false;
    }
};

using WideMask = Mask<kMostDevices / 64>;

}  // namespace hivecore::devices
