// Jobs of equal profile are one type, so that work grows with types and not with jobs.
#pragma once

#include <vector>

#include "interleaving/grouping/jobs.hpp"

namespace hivecore::interleaving {

using Type = std::int32_t;

struct Profiles {
    std::vector<Type> type;  // per job; ascending with the stage durations, compared as rows
    std::vector<Job> first;  // per type, its first job

    Type count() const { return static_cast<Type>(first.size()); }
};

// Jobs that differ neither in stages nor in solo time nor in memory. Time O(n k log n).
Profiles profiles_of(const Jobs& jobs);

}  // namespace hivecore::interleaving
