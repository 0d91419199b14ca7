// The loops over a row in which the dense engine spends its time, in a portable and in an AVX2
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

inline constexpr int kLanes = 64;

template <class T>
struct RowLoops {
    // best[v] = min(best[v], p - row[v]), from[v] = u where that is an improvement.
    static HIVECORE_INLINE void relax(const T* __restrict row, T p, T u, T* __restrict best,
                                      T* __restrict from, std::int64_t n) {
        for (std::int64_t v = 0; v < n; ++v) {
            const T candidate = p - row[v];
            const bool better = candidate < best[v];
            best[v] = better ? candidate : best[v];
            from[v] = better ? u : from[v];
        }
    }

    // The least event time: best + add, halved where `half` is all ones.
    static HIVECORE_INLINE T least(const T* __restrict best, const T* __restrict add,
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

    static HIVECORE_INLINE T heaviest(const T* __restrict row, std::int64_t n) {
        T heaviest = row[0];
        for (std::int64_t v = 0; v < n; ++v) {
            heaviest = row[v] > heaviest ? row[v] : heaviest;
        }
        return heaviest;
    }

    // The largest row[v] - y[v].
    static HIVECORE_INLINE T largest_gap(const T* __restrict row, const T* __restrict y,
                                         std::int64_t n) {
        T largest = row[0] - y[0];
        for (std::int64_t v = 0; v < n; ++v) {
            const T gap = row[v] - y[v];
            largest = gap > largest ? gap : largest;
        }
        return largest;
    }

    // The same for each residue class of v modulo kLanes.
    static HIVECORE_INLINE void lane_gaps(const T* __restrict row, const T* __restrict y,
                                          std::int64_t n, T* __restrict largest) {
        const std::int64_t whole = n - n % kLanes;
        for (int lane = 0; lane < kLanes; ++lane) {
            largest[lane] = lane < n ? row[lane] - y[lane] : -kFar;
        }
        for (std::int64_t first = 0; first < whole; first += kLanes) {
            for (int lane = 0; lane < kLanes; ++lane) {
                const T gap = row[first + lane] - y[first + lane];
                largest[lane] = gap > largest[lane] ? gap : largest[lane];
            }
        }
        for (std::int64_t v = whole; v < n; ++v) {
            const T gap = row[v] - y[v];
            largest[v - whole] = gap > largest[v - whole] ? gap : largest[v - whole];
        }
    }

    static constexpr T kFar = T{1} << (8 * sizeof(T) - 2);
};

template <class T>
struct RowKernels {
    void (*relax)(const T*, T, T, T*, T*, std::int64_t);
    T (*least)(const T*, const T*, const T*, std::int64_t);
    T (*heaviest)(const T*, std::int64_t);
    T (*largest_gap)(const T*, const T*, std::int64_t);
    void (*lane_gaps)(const T*, const T*, std::int64_t, T*);
};

#define HIVECORE_ROW_KERNELS(name, attribute)                                                      \
    template <class T>                                                                             \
    struct name {                                                                                  \
        attribute static void relax(const T* row, T p, T u, T* best, T* from, std::int64_t n) {    \
            RowLoops<T>::relax(row, p, u, best, from, n);                                          \
        }                                                                                          \
        attribute static T least(const T* best, const T* add, const T* half, std::int64_t n) {     \
            return RowLoops<T>::least(best, add, half, n);                                         \
        }                                                                                          \
        attribute static T heaviest(const T* row, std::int64_t n) {                                \
            return RowLoops<T>::heaviest(row, n);                                                  \
        }                                                                                          \
        attribute static T largest_gap(const T* row, const T* y, std::int64_t n) {                 \
            return RowLoops<T>::largest_gap(row, y, n);                                            \
        }                                                                                          \
        attribute static void lane_gaps(const T* row, const T* y, std::int64_t n, T* largest) {    \
            RowLoops<T>::lane_gaps(row, y, n, largest);                                            \
        }                                                                                          \
        static RowKernels<T> all() { return {relax, least, heaviest, largest_gap, lane_gaps}; }    \
    };

HIVECORE_ROW_KERNELS(PortableKernels, )
#ifdef HIVECORE_X86
HIVECORE_ROW_KERNELS(Avx2Kernels, __attribute__((target("avx2"))))
#endif
#undef HIVECORE_ROW_KERNELS

template <class T>
RowKernels<T> row_kernels() {
#ifdef HIVECORE_X86
    if (has_avx2()) {
        return Avx2Kernels<T>::all();
    }
#endif
    return PortableKernels<T>::all();
}

}  // namespace hivecore::matching
