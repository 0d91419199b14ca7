// Groups made better by small steps, from those that rounds of matchings gave.
//
// The sum of the groups' values, each times its GPUs, rises with every step: two groups of a bucket
// divide their jobs again, or one group splits while GPUs are left, or two merge for another to
// split. All ways of dividing up to eight jobs are tried, of more only moving one job or
// swapping two. The search ends where no step helps, or early after so much effort; how far that is
// from the best is not known.
#pragma once

#include <cstdint>
#include <vector>

#include "interleaving/grouping/jobs.hpp"
#include "interleaving/grouping/profiles.hpp"
#include "interleaving/rounds/node.hpp"

namespace hivecore::interleaving {

// `room` is how many GPUs the groups may need together; they need no more at first. `effort` counts
// the orders of the jobs of a group: while some is left, two groups are looked at.
void search_locally(const Jobs& jobs, const Terms& terms, const Profiles& profiles,
                    std::int64_t room, std::int64_t effort, std::vector<Bucket>& buckets);

}  // namespace hivecore::interleaving
