#include "caching/epoch_shuffle.hpp"

#include <cmath>
#include <utility>

#include "common/splitmix.hpp"

namespace hivecore::caching::policies {

namespace {

// The first number of the stream that begins `epoch` numbers behind the first of `seed`'s is where
// the epoch's own stream begins.
SplitMix64 stream_of(std::uint64_t seed, std::uint64_t epoch) {
    const std::uint64_t start = SplitMix64{seed}.next();
    return {SplitMix64{start + epoch * SplitMix64::kStep}.next()};
}

std::uint32_t width_of(std::uint32_t items) {
    // Rounding may be off by one either way.
    auto width = static_cast<std::uint32_t>(std::sqrt(static_cast<double>(items)));
    width -= width > 0;
    while (std::uint64_t{width} * width < items) {
        ++width;
    }
    return width;
}

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint32_t items)
    : items_(items) {
    SplitMix64 random = stream_of(seed, epoch);
    if (items <= kDirect) {
        for (std::uint32_t i = 0; i < items; ++i) {
            direct_[i] = static_cast<std::uint8_t>(i);
        }
        for (std::uint32_t left = items; left > 1; --left) {
            const auto other = static_cast<std::uint32_t>(((random.next() >> 32) * left) >> 32);
            std::swap(direct_[left - 1], direct_[other]);
        }
        for (std::uint32_t i = 0; i < items; ++i) {
            direct_inverse_[direct_[i]] = static_cast<std::uint8_t>(i);
        }
        return;
    }
    width_ = width_of(items);
    height_ = (items - 1) / width_ + 1;
    reciprocal_ = ((std::uint64_t{1} << 48) - 1) / width_ + 1;
    for (std::uint64_t& key : key_) {
        key = random.next();
    }
}

void Permutation::order(std::span<std::uint32_t> out) const {
    if (items_ <= kDirect) {
        for (std::uint32_t i = 0; i < items_; ++i) {
            out[i] = direct_[i];
        }
        return;
    }
#ifdef HIVECORE_X86
    if (has_avx2()) {
        fill_with_avx2(*this, out.data());
        return;
    }
#endif
    fill_portably(*this, out.data());
}

HIVECORE_INLINE void Permutation::fill(const Permutation& self, std::uint32_t* out) {
    // Rounds outside, places inside: a place's rounds wait for each other, those of others do not.
    constexpr std::uint32_t kBlock = 64;
    const Permutation p = self;  // a private one, which no store can change
    // Exact for what is divided by it, which is below width + kBlock.
    const std::uint32_t step = ~std::uint32_t{0} / p.width_ + 1;
    std::uint32_t left[kBlock];
    std::uint32_t right[kBlock];
    for (std::uint32_t start = 0; start < p.items_; start += kBlock) {
        const std::uint32_t row = p.divide(start);
        const std::uint32_t column = start - row * p.width_;
        for (std::uint32_t i = 0; i < kBlock; ++i) {
            const std::uint32_t along = column + i;
            const auto down = static_cast<std::uint32_t>((along * std::uint64_t{step}) >> 32);
            left[i] = along - down * p.width_;
            right[i] = row + down;
        }
        for (int round = 0; round < kRounds; round += 2) {
            for (std::uint32_t i = 0; i < kBlock; ++i) {
                p.forward<true>(round, left[i], right[i]);
            }
        }
        const std::uint32_t n = least(kBlock, p.items_ - start);
        std::uint32_t most = 0;
        for (std::uint32_t i = 0; i < n; ++i) {
            out[start + i] = right[i] * p.width_ + left[i];
            most = out[start + i] > most ? out[start + i] : most;
        }
        for (std::uint32_t i = 0; most >= p.items_ && i < n; ++i) {
            while (out[start + i] >= p.items_) {
                out[start + i] = p.pass(out[start + i]);
            }
        }
    }
}

void Permutation::fill_portably(const Permutation& self, std::uint32_t* out) {
    fill(self, out);
}

#ifdef HIVECORE_X86
__attribute__((target("avx2"))) void Permutation::fill_with_avx2(const Permutation& self,
                                                                 std::uint32_t* out) {
    fill(self, out);
}
#endif

}  // namespace hivecore::caching::policies
