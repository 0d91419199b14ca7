// What a choice of domains costs: numbers that are compared one after the other, in as few words as
// hold them. Each number is a sum over touched domains, so costs are added as they are.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <vector>

namespace hivecore::topology {

template <int kWords>
struct Cost {
    std::array<std::int64_t, kWords> words{};

    friend Cost operator+(const Cost& a, const Cost& b) {
        Cost sum;
        for (int i = 0; i < kWords; ++i) {
            sum.words[i] = a.words[i] + b.words[i];
        }
        return sum;
    }
    friend auto operator<=>(const Cost&, const Cost&) = default;
};

// What cannot be had; more than any cost, and stays so when another cost is added.
inline constexpr std::int64_t kImpossible = std::int64_t{1} << 61;

// Where each number of a cost is: the first ones in the upper bits of the first word.
class CostLayout {
  public:
    // A number that comes after those before it and is at most so large.
    int add(std::uint64_t largest) {
        const int bits = std::bit_width(largest);
        if (bits > kBits - used_) {
            ++words_;
            used_ = 0;
        }
        used_ += bits;
        fields_.push_back({words_ - 1, kBits - used_, bits});
        return static_cast<int>(fields_.size()) - 1;
    }

    int words() const { return words_; }

    template <int kWords>
    void put(Cost<kWords>& cost, int field, std::int64_t value) const {
        const auto& where = fields_[field];
        cost.words[where.word] += value << where.shift;
    }

    template <int kWords>
    std::int64_t get(const Cost<kWords>& cost, int field) const {
        const auto& where = fields_[field];
        return cost.words[where.word] >> where.shift & ((std::int64_t{1} << where.bits) - 1);
    }

  private:
    static constexpr int kBits = 60;

    struct Field {
        int word, shift, bits;
    };

    std::vector<Field> fields_;
    int words_ = 1, used_ = 0;
};

}  // namespace hivecore::topology
