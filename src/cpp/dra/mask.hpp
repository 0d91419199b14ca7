// Sets of small numbers, as words of bits; sets of one size can be combined.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hivecore::dra {

class Mask {
  public:
    static constexpr std::size_t kNone = ~std::size_t{0};

    Mask() = default;
    explicit Mask(std::size_t bound) : words_((bound + 63) / 64) {}

    bool has(std::size_t i) const { return words_[i / 64] >> i % 64 & 1; }
    void insert(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << i % 64; }
    void erase(std::size_t i) { words_[i / 64] &= ~(std::uint64_t{1} << i % 64); }

    bool is_empty() const {
        return std::ranges::all_of(words_, [](auto word) { return word == 0; });
    }

    std::size_t count() const {
        std::size_t total = 0;
        for (const auto word : words_) {
            total += static_cast<std::size_t>(std::popcount(word));
        }
        return total;
    }

    bool overlaps(const Mask& other) const {
        for (std::size_t w = 0; w < words_.size(); ++w) {
            if ((words_[w] & other.words_[w]) != 0) {
                return true;
            }
        }
        return false;
    }

    std::size_t count_common(const Mask& other) const {
        std::size_t total = 0;
        for (std::size_t w = 0; w < words_.size(); ++w) {
            total += static_cast<std::size_t>(std::popcount(words_[w] & other.words_[w]));
        }
        return total;
    }

    // The smallest member that is at least i and in the other set, too; or kNone.
    std::size_t first_common(const Mask& other, std::size_t i = 0) const {
        for (std::size_t w = i / 64; w < words_.size(); ++w) {
            auto word = words_[w] & other.words_[w];
            if (w == i / 64) {
                word &= ~std::uint64_t{0} << i % 64;
            }
            if (word != 0) {
                return w * 64 + static_cast<std::size_t>(std::countr_zero(word));
            }
        }
        return kNone;
    }

    std::size_t first(std::size_t i = 0) const { return first_common(*this, i); }

    Mask& operator&=(const Mask& other) {
        for (std::size_t w = 0; w < words_.size(); ++w) {
            words_[w] &= other.words_[w];
        }
        return *this;
    }

    Mask& operator|=(const Mask& other) {
        for (std::size_t w = 0; w < words_.size(); ++w) {
            words_[w] |= other.words_[w];
        }
        return *this;
    }

    bool operator==(const Mask&) const = default;

    const std::vector<std::uint64_t>& words() const { return words_; }

  private:
    std::vector<std::uint64_t> words_;
};

template <class Action>
void for_each(const Mask& mask, Action action) {
    for (auto i = mask.first(); i != Mask::kNone; i = mask.first(i + 1)) {
        action(i);
    }
}

}  // namespace hivecore::dra
