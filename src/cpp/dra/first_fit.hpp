// Kubernetes' own search: the first alternative and the first devices that let all later requests
// be served, step by step.
#pragma once

#include <optional>
#include <vector>

#include "dra/grants.hpp"
#include "dra/work.hpp"

namespace hivecore::dra {

// Whether there is an answer, whose grants are then given; nothing if `steps` did not suffice.
// `fixed`: for each request its only alternative, or Mask::kNone.
std::optional<bool> first_fit(const Problem& problem, Grants& grants,
                              const std::vector<Index>& fixed, std::uint64_t steps);

}  // namespace hivecore::dra
