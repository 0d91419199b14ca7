#include "caching/uniform/plane.hpp"

namespace hivecore::caching::uniform {

namespace {

HIVECORE_INLINE std::int64_t count_words(const Word* words, std::size_t size) {
    std::int64_t total = 0;
    for (std::size_t w = 0; w < size; ++w) {
        total += std::popcount(words[w]);
    }
    return total;
}

HIVECORE_INLINE std::int64_t count_common(const Word* a, const Word* b, std::size_t size) {
    std::int64_t total = 0;
    for (std::size_t w = 0; w < size; ++w) {
        total += std::popcount(a[w] & b[w]);
    }
    return total;
}

#ifdef HIVECORE_X86
// Every processor with AVX2 has the instruction, which the oldest x86-64 has not.
__attribute__((target("popcnt"))) std::int64_t count_fast(const Word* words, std::size_t size) {
    return count_words(words, size);
}
__attribute__((target("popcnt"))) std::int64_t common_fast(const Word* a, const Word* b,
                                                           std::size_t size) {
    return count_common(a, b, size);
}
#endif

}  // namespace

std::int64_t count(const Plane& plane) {
#ifdef HIVECORE_X86
    if (has_avx2()) {
        return count_fast(plane.data(), plane.size());
    }
#endif
    return count_words(plane.data(), plane.size());
}

std::int64_t count_both(const Plane& a, const Plane& b) {
#ifdef HIVECORE_X86
    if (has_avx2()) {
        return common_fast(a.data(), b.data(), a.size());
    }
#endif
    return count_common(a.data(), b.data(), a.size());
}

Sums sums_over(const Plane& first, const Plane& second, const std::vector<std::int64_t>& sizes) {
    Sums sums;
    for (std::size_t w = 0; w < first.size(); ++w) {
        const std::int64_t* size = sizes.data() + (w << 6);
        if (first[w] == ~Word{0}) {
            for (int bit = 0; bit < 64; ++bit) {
                sums.first += size[bit];
                sums.both += size[bit] & -static_cast<std::int64_t>(second[w] >> bit & 1);
            }
            continue;
        }
        for (Word word = first[w]; word != 0; word &= word - 1) {
            const int bit = std::countr_zero(word);
            sums.first += size[bit];
            sums.both += size[bit] & -static_cast<std::int64_t>(second[w] >> bit & 1);
        }
    }
    return sums;
}

void add_cleared(Plane& cached, const Plane& before, const Plane& after) {
    for (std::size_t w = 0; w < cached.size(); ++w) {
        cached[w] |= before[w] & ~after[w];
    }
}

}  // namespace hivecore::caching::uniform
