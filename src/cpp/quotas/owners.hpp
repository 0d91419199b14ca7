// The owners in quotas: what each of their members takes, and how many of these run.
#pragma once

#include <cstdint>

namespace hivecore::quotas {

using QuotaId = std::int32_t;
using OwnerId = std::int32_t;

struct Owner {
    QuotaId quota = -1;  // -1: there is no such owner
    std::int32_t count = 1, min_count = 1;
    std::int32_t members = 0;  // that run; 0: it is pending
    std::int32_t priority = 0;
    bool is_preemptible = true;
    std::uint64_t start = 0;       // owners that run were admitted in this order
    std::uint64_t evicted_at = 0;  // how many events there had been; 0: it was not reclaimed

    // Whether this one stays when one of two has to go.
    bool is_more_important(const Owner& other) const {
        return priority != other.priority ? priority > other.priority : start < other.start;
    }
};

}  // namespace hivecore::quotas
