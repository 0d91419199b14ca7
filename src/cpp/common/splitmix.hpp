// Seeded random numbers: SplitMix64 (Steele, Lea, Flood, OOPSLA'14), one word of state.
#pragma once

#include <cstdint>

namespace hivecore {

struct SplitMix64 {
    static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;

    std::uint64_t state;

    std::uint64_t next() {
        std::uint64_t z = state += kStep;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

    // Each of 0..bound-1 with exactly the same probability: the 2^64 mod bound lowest draws,
    // which would favour small remainders, are drawn again.
    std::uint64_t below(std::uint64_t bound) {
        const std::uint64_t surplus = (0 - bound) % bound;
        std::uint64_t draw = next();
        while (draw < surplus) {
            draw = next();
        }
        return draw % bound;
    }
};

}  // namespace hivecore
