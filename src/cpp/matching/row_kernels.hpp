// The two loops over a row in which the dense engine spends its time, in a portable and in an AVX2
// version of one body; which one runs is decided once. Both give the same answers.
#pragma once

#include <cstdint>

#include "matching/cpu.hpp"

namespace hivecore::matching {

#if defined(__GNUC__)
#define HIVECORE_INLINE inline __attribute__((always_inline))
#else
#define HIVECORE_INLINE inline
#endif

// best[v] = min(best[v], p - row[v]), from[v] = u where that is an improvement.
template <class T>
HIVECORE_INLINE void relax_body(const T* __restrict row, T p, T u, T* __restrict best,
                                T* __restrict from, std::int64_t n) {
    for (std::int64_t v = 0; v < n; ++v) {
        const T candidate = p - row[v];
        const bool better = candidate < best[v];
        best[v] = better ? candidate : best[v];
        from[v] = better ? u : from[v];
    }
}

// The least event time: best + add, halved where `half` is all ones.
template <class T>
HIVECORE_INLINE T least_body(const T* __restrict best, const T* __restrict add,
                             const T* __restrict half, std::int64_t n) {
    T least = best[0] + add[0];
    least = half[0] ? least >> 1 : least;
    for (std::int64_t v = 0; v < n; ++v) {
        const T whole = best[v] + add[v];
        const T time = half[v] ? whole >> 1 : whole;
        least = time < least ? time : least;
    }
    return least;
}

template <class T>
struct RowKernels {
    void (*relax)(const T*, T, T, T*, T*, std::int64_t);
    T (*least)(const T*, const T*, const T*, std::int64_t);
};

template <class T>
void relax_portable(const T* row, T p, T u, T* best, T* from, std::int64_t n) {
    relax_body(row, p, u, best, from, n);
}
template <class T>
T least_portable(const T* best, const T* add, const T* half, std::int64_t n) {
    return least_body(best, add, half, n);
}

#ifdef HIVECORE_X86
template <class T>
__attribute__((target("avx2"))) void relax_avx2(const T* row, T p, T u, T* best, T* from,
                                                std::int64_t n) {
    relax_body(row, p, u, best, from, n);
}
template <class T>
__attribute__((target("avx2"))) T least_avx2(const T* best, const T* add, const T* half,
                                             std::int64_t n) {
    return least_body(best, add, half, n);
}
#endif

template <class T>
RowKernels<T> row_kernels() {
#ifdef HIVECORE_X86
    if (has_avx2()) {
        return {relax_avx2<T>, least_avx2<T>};
    }
#endif
    return {relax_portable<T>, least_portable<T>};
}

}  // namespace hivecore::matching
