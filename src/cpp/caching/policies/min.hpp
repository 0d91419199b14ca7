// Belady's MIN with bypass: of the residents and the item just accessed, the one whose next use is
// farthest away leaves. With items of one size no policy, clairvoyant or not, has more hits.
//
// A resident is known by the time of its next use: the state is a set of times, the victim its
// largest element, and an access at time t is a hit if t is in the set. Times without a next use
// never enter. The set is a bitmap with a bitmap of its non-zero words above it, and so on up to
// one word: largest element, insertion and removal touch one word per level, four levels for 16
// million accesses.
//
// With sizes: on a miss residents leave in the order of farthest next use, but only those that are
// used later than the newcomer; if that does not make room, no block leaves and the newcomer is
// bypassed. This is a heuristic, as the optimum is NP-hard: an item is worth one hit, but takes its
// bytes.
//
// Cost: O(log64 accesses) per access; memory 4 bytes and a bit per access, 4 bytes per item.
// Source: Belady, A study of replacement algorithms for a virtual-storage computer (1966).
#pragma once

#include <cstdint>
#include <span>

namespace hivecore::caching::policies {

// Number of hits of fewer than 2^32 - 1 accesses to ids in [0, items), capacity in items, or in
// bytes when there are sizes; mask[i] = whether access i is one, unless mask is null.
std::uint64_t simulate_min(std::span<const std::uint32_t> trace, std::uint64_t items,
                           std::int64_t capacity, std::span<const std::int64_t> sizes,
                           std::uint8_t* mask);

}  // namespace hivecore::caching::policies
