// A set of integers below a fixed bound, as a bitmap with summary words.
//
// Layer 0 has one bit per integer. Bit w of layer d+1 says whether word w of layer d is non-zero;
// the last layer is a single word. With 200 integers, of which 3, 70 and 71 are members:
//
//     layer 1   ....0011                                one word: words 0 and 1 are non-zero
//     layer 0   ...00001000 | ...011000000 | 0 | 0      four words
//
// The smallest (largest) member is found by one count of trailing (leading) zeros per layer, of
// which there are at most six for a bound of 2^32. An insertion or removal climbs only while a
// word changes between zero and non-zero. Memory: 1 bit + 1/63 bit per integer, fixed at
// construction; no operation allocates or throws. Callers keep indices in range.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace hivecore {

class IndexSet {
  public:
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};

    IndexSet() = default;
    explicit IndexSet(std::uint64_t bound) {
        std::uint64_t total = 0;
        do {
            bound = (bound + 63) / 64;
            offset_[layers_++] = total;
            total += bound;
        } while (bound > 1);
        words_.resize(total);
    }

    bool empty() const { return words_.back() == 0; }

    bool contains(std::uint64_t i) const { return words_[i >> 6] >> (i & 63) & 1; }

    void insert(std::uint64_t i) { insert_bits(0, i >> 6, std::uint64_t{1} << (i & 63)); }

    void erase(std::uint64_t i) { erase_bits(0, i >> 6, std::uint64_t{1} << (i & 63)); }

    // The set must not be empty.
    std::uint64_t first() const {
        std::uint64_t i = 0;
        for (int layer = layers_; layer-- > 0;) {
            i = i << 6 | static_cast<unsigned>(std::countr_zero(words_[offset_[layer] + i]));
        }
        return i;
    }

    // The set must not be empty.
    std::uint64_t last() const {
        std::uint64_t i = 0;
        for (int layer = layers_; layer-- > 0;) {
            i = i << 6 | static_cast<unsigned>(63 - std::countl_zero(words_[offset_[layer] + i]));
        }
        return i;
    }

    // The smallest member >= i, or kNone.
    std::uint64_t first_from(std::uint64_t i) const {
        for (int layer = 0; layer < layers_; ++layer) {
            if (i >> 6 >= words_in(layer)) {
                return kNone;
            }
            const std::uint64_t rest = words_[offset_[layer] + (i >> 6)] >> (i & 63);
            if (rest != 0) {
                i += static_cast<unsigned>(std::countr_zero(rest));
                while (layer-- > 0) {
                    const std::uint64_t word = words_[offset_[layer] + i];
                    i = i << 6 | static_cast<unsigned>(std::countr_zero(word));
                }
                return i;
            }
            i = (i >> 6) + 1;
        }
        return kNone;
    }

    // The largest member < i, or kNone.
    std::uint64_t last_before(std::uint64_t i) const {
        for (int layer = 0; layer < layers_; ++layer) {
            if (i >> 6 >= words_in(layer)) {
                i = words_in(layer) << 6;  // beyond the bound: all members are below
            }
            if (i == 0) {
                return kNone;
            }
            --i;
            const std::uint64_t rest = words_[offset_[layer] + (i >> 6)] << (63 - (i & 63));
            if (rest != 0) {
                i -= static_cast<unsigned>(std::countl_zero(rest));
                while (layer-- > 0) {
                    const std::uint64_t word = words_[offset_[layer] + i];
                    i = i << 6 | static_cast<unsigned>(63 - std::countl_zero(word));
                }
                return i;
            }
            i >>= 6;
        }
        return kNone;
    }

    // Adds every integer of [begin, end) but `except`; O((end - begin) / 64 + layers).
    void insert_all_but(std::uint64_t except, std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t w = begin >> 6; w <= (end - 1) >> 6; ++w) {
            insert_bits(0, w, mask_but(except, w, begin, end));
        }
    }

    // Removes every integer of [begin, end), at the same cost.
    void erase_range(std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t w = begin >> 6; w <= (end - 1) >> 6; ++w) {
            erase_bits(0, w, mask(w, begin, end));
        }
    }

    // Whether every integer of [begin, end) but `except` is a member.
    bool contains_all_but(std::uint64_t except, std::uint64_t begin, std::uint64_t end) const {
        for (std::uint64_t w = begin >> 6; w <= (end - 1) >> 6; ++w) {
            if (mask_but(except, w, begin, end) & ~words_[w]) {
                return false;
            }
        }
        return true;
    }

    // Calls visit(i) for every member, ascending.
    template <class Visit>
    void for_each(Visit visit) const {
        for (std::uint64_t w = 0; w < words_in(0); ++w) {
            for (std::uint64_t word = words_[w]; word != 0; word &= word - 1) {
                visit(w << 6 | static_cast<unsigned>(std::countr_zero(word)));
            }
        }
    }

    void clear() { std::fill(words_.begin(), words_.end(), 0); }

    std::int64_t size() const {
        std::int64_t members = 0;
        for (std::uint64_t w = 0; w < words_in(0); ++w) {
            members += std::popcount(words_[w]);
        }
        return members;
    }

    // Writes the members, ascending, to where `out` points.
    void copy_to(std::int64_t* out) const {
        for_each([&](std::uint64_t i) { *out++ = static_cast<std::int64_t>(i); });
    }

    // Whether every summary bit tells the truth about its word.
    bool summaries_hold() const {
        for (int layer = 1; layer < layers_; ++layer) {
            for (std::uint64_t w = 0; w < words_in(layer - 1); ++w) {
                const bool summary = words_[offset_[layer] + (w >> 6)] >> (w & 63) & 1;
                if (summary != (words_[offset_[layer - 1] + w] != 0)) {
                    return false;
                }
            }
        }
        return true;
    }

    std::uint64_t bytes() const { return words_.size() * sizeof(std::uint64_t); }

  private:
    std::uint64_t words_in(int layer) const {
        return (layer + 1 < layers_ ? offset_[layer + 1] : words_.size()) - offset_[layer];
    }

    // Sets bits of one word; climbs while a word was empty before.
    void insert_bits(int layer, std::uint64_t w, std::uint64_t bits) {
        while (bits != 0) {
            std::uint64_t& word = words_[offset_[layer] + w];
            const std::uint64_t before = word;
            word |= bits;
            if (before != 0 || ++layer == layers_) {
                return;
            }
            bits = std::uint64_t{1} << (w & 63);
            w >>= 6;
        }
    }

    // Clears bits of one word; climbs while a word is empty after.
    void erase_bits(int layer, std::uint64_t w, std::uint64_t bits) {
        for (;;) {
            std::uint64_t& word = words_[offset_[layer] + w];
            word &= ~bits;
            if (word != 0 || ++layer == layers_) {
                return;
            }
            bits = std::uint64_t{1} << (w & 63);
            w >>= 6;
        }
    }

    // The bits of word w that stand for integers of [begin, end).
    static std::uint64_t mask(std::uint64_t w, std::uint64_t begin, std::uint64_t end) {
        std::uint64_t bits = ~std::uint64_t{0};
        if (w == begin >> 6) {
            bits &= ~std::uint64_t{0} << (begin & 63);
        }
        if (w == (end - 1) >> 6) {
            bits &= ~std::uint64_t{0} >> (63 - ((end - 1) & 63));
        }
        return bits;
    }

    static std::uint64_t mask_but(std::uint64_t except, std::uint64_t w, std::uint64_t begin,
                                  std::uint64_t end) {
        const std::uint64_t bit = std::uint64_t{1} << (except & 63);
        return mask(w, begin, end) & ~(w == except >> 6 ? bit : 0);
    }

    int layers_ = 0;
    std::uint64_t offset_[6] = {};
    std::vector<std::uint64_t> words_;
};

}  // namespace hivecore
