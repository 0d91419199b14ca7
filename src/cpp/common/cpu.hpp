// Which instructions this processor has, asked once per process, and how a function gets compiled
// for them: what it calls must be inlined.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#define HIVECORE_X86 1
#endif

#if defined(__GNUC__)
#define HIVECORE_INLINE inline __attribute__((always_inline))
#else
#define HIVECORE_INLINE inline
#endif

// The version of a function for processors that have not even AVX2: few, so it is compiled sooner.
#if defined(HIVECORE_X86) && !defined(__clang__)
#define HIVECORE_FALLBACK __attribute__((optimize("O2")))
#else
#define HIVECORE_FALLBACK
#endif

namespace hivecore {

#ifdef HIVECORE_X86
inline bool detect_avx2() {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) {
        return false;
    }
    unsigned low = 0;
    unsigned high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    const bool system_saves_ymm = (low & 6) == 6;
    return system_saves_ymm && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
#else
inline bool detect_avx2() {
    return false;
}
#endif

inline bool has_avx2() {
    static const bool answer = detect_avx2();
    return answer;
}

}  // namespace hivecore
