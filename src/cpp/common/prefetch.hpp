// Asks for memory that will be needed soon.
#pragma once

namespace hivecore {

inline void prefetch(const void* address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

}  // namespace hivecore
