// Many vertices of few kinds: those of one kind have the same weights.
//
// How many pairs there are of each two kinds is found for half as many vertices of each kind first,
// and so on. Twice that, but for a few pairs of each two kinds, is kept. The rest is solved as a
// graph of single vertices. Its duals prove the whole if each pair kept has a like: two vertices of
// the same kinds in the same blossoms, or in none, that are tight, while pairs within either kind
// are covered. Then the vertices kept may take the duals and places of those: a blossom of two more
// vertices holds one more pair. If one has no like, more pairs are taken apart.
//
// Cost: some graphs of a few vertices for each two kinds that are paired. Proximity of this sort
// was shown by Edmonds and Johnson (1970).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "matching/deadline.hpp"
#include "matching/matching.hpp"

namespace hivecore::matching {

// Per vertex its mate, in a matching of maximum weight. Nothing if more than so many vertices would
// have to be solved at once. An interrupt ends it early. `weights` is the kinds' square table.
std::optional<std::vector<std::int64_t>> solve_copies(std::span<const Node> kind_of,
                                                      std::span<const std::int64_t> weights,
                                                      Node most, Interrupt* interrupt = nullptr);

}  // namespace hivecore::matching
