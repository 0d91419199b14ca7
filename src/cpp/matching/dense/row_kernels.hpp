// The loops over a row in which the dense engine spends its time, in a portable and in an AVX2
// version of one body; which one runs is decided once, by the processor. Both give the same
// answers, as all arithmetic is that of integers.
//
// The bodies are written for the compiler's vectoriser: no branch that depends on data, masks that
// are all ones or zero in lanes of the weights' own width, and positions of a minimum found in a
// second pass that skips 64 entries at a time where there is none.
#pragma once

#include <cstdint>

#include "common/cpu.hpp"

namespace hivecore::matching {

inline constexpr int kLanes = 64;

template <class T>
struct Least {
    T value;
    std::int64_t count;
};

template <class T, class Value>
HIVECORE_INLINE T least_of(Value value, std::int64_t n) {
    T least = value(0);
    for (std::int64_t v = 0; v < n; ++v) {
        const T here = value(v);
        least = here < least ? here : least;
    }
    return least;
}

// Where value(v) is this, ascending; returns their number.
template <class T, class Value>
HIVECORE_INLINE std::int64_t places_of(T sought, Value value, std::int64_t n, T* places) {
    std::int64_t count = 0;
    for (std::int64_t first = 0; first < n; first += kLanes) {
        const std::int64_t end = first + kLanes < n ? first + kLanes : n;
        T hits = 0;
        for (std::int64_t v = first; v < end; ++v) {
            hits |= value(v) == sought ? T{-1} : T{0};
        }
        for (std::int64_t v = first; v < end && hits; ++v) {
            if (value(v) == sought) {
                places[count++] = static_cast<T>(v);
            }
        }
    }
    return count;
}

template <class T>
struct RowLoops {
    static constexpr T kFar = T{1} << (8 * sizeof(T) - 2);

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

    // The least event time, best + add, halved where `half` is all ones; in `places` all v with it.
    static HIVECORE_INLINE Least<T> least(const T* __restrict best, const T* __restrict add,
                                          const T* __restrict half, std::int64_t n,
                                          T* __restrict places) {
        const auto time = [=](std::int64_t v) {
            const T whole = best[v] + add[v];
            return half[v] ? whole >> 1 : whole;
        };
        const T least = least_of<T>(time, n);
        return {least, places_of(least, time, n, places)};
    }

    // The least add - row among those of another group with `half` all ones; in `places` all of
    // them that have it.
    static HIVECORE_INLINE Least<T> least_elsewhere(const T* __restrict row,
                                                    const T* __restrict add,
                                                    const T* __restrict half,
                                                    const T* __restrict group, T own,
                                                    std::int64_t n, T* __restrict places) {
        const auto time = [=](std::int64_t v) {
            const T eligible = group[v] != own ? half[v] : 0;
            return eligible ? add[v] - row[v] : kFar;
        };
        const T least = least_of<T>(time, n);
        return {least, least == kFar ? 0 : places_of(least, time, n, places)};
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
};

template <class T>
struct RowKernels {
    void (*relax)(const T*, T, T, T*, T*, std::int64_t);
    Least<T> (*least)(const T*, const T*, const T*, std::int64_t, T*);
    Least<T> (*least_elsewhere)(const T*, const T*, const T*, const T*, T, std::int64_t, T*);
    T (*heaviest)(const T*, std::int64_t);
    T (*largest_gap)(const T*, const T*, std::int64_t);
    void (*lane_gaps)(const T*, const T*, std::int64_t, T*);
};

#define HIVECORE_ROW_KERNELS(name, attribute)                                                   \
    template <class T>                                                                          \
    struct name {                                                                               \
        attribute static void relax(const T* row, T p, T u, T* best, T* from, std::int64_t n) { \
            RowLoops<T>::relax(row, p, u, best, from, n);                                       \
        }                                                                                       \
        attribute static Least<T> least(const T* best, const T* add, const T* half,             \
                                        std::int64_t n, T* places) {                            \
            return RowLoops<T>::least(best, add, half, n, places);                              \
        }                                                                                       \
        attribute static Least<T> least_elsewhere(const T* row, const T* add, const T* half,    \
                                                  const T* group, T own, std::int64_t n,        \
                                                  T* places) {                                  \
            return RowLoops<T>::least_elsewhere(row, add, half, group, own, n, places);         \
        }                                                                                       \
        attribute static T heaviest(const T* row, std::int64_t n) {                             \
            return RowLoops<T>::heaviest(row, n);                                               \
        }                                                                                       \
        attribute static T largest_gap(const T* row, const T* y, std::int64_t n) {              \
            return RowLoops<T>::largest_gap(row, y, n);                                         \
        }                                                                                       \
        attribute static void lane_gaps(const T* row, const T* y, std::int64_t n, T* largest) { \
            RowLoops<T>::lane_gaps(row, y, n, largest);                                         \
        }                                                                                       \
        static RowKernels<T> all() {                                                            \
            return {relax, least, least_elsewhere, heaviest, largest_gap, lane_gaps};           \
        }                                                                                       \
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
