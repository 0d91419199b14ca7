// Which owners are admitted: nothing on their paths may be used beyond what limits it.
//
// Of several that ask together, each is held against its limits as if the others were admitted
// before it.

#include <algorithm>
#include <bit>

#include "quotas/quota_tree.hpp"
#include "quotas/taken.hpp"

namespace hivecore::quotas {

// What an owner's use of a dimension counts for.
std::int64_t QuotaTree::counted(OwnerId id, int dimension) const {
    const auto& record = owner(id);
    return manages(record.quota, dimension) ? amounts_of(id)[dimension] * record.members : 0;
}

// The dimensions that an ask takes something of and that count at its quota.
Dimensions QuotaTree::wanted(const Ask& ask) const {
    Dimensions dimensions = 0;
    for (int d = 0; d < stride_; ++d) {
        const bool counts = amounts_of(ask.owner)[d] > 0 && manages(owner(ask.owner).quota, d);
        dimensions |= Dimensions{counts} << d;
    }
    return dimensions;
}

// The asks at all quotas and roots where they count; runtimes there are up to date.
QuotaTree::Places QuotaTree::collect(std::span<const Ask> asks) {
    Places places;
    for (const auto& ask : asks) {
        const auto quota = owner(ask.owner).quota;
        const auto dimensions = wanted(ask);
        refresh(quota);
        for (std::int32_t where = quota;;) {
            const bool is_root = where < 0;
            if (is_root && node(quota).is_outside) {
                break;
            }
            const auto place = places.of(where);
            if (place == places.size()) {
                places.where.push_back(where);
                places.wanted.push_back(0);
                places.checked.push_back(0);
                places.requested.resize(places.requested.size() + stride_);
            }
            places.wanted[place] |= dimensions;
            if (where == quota || options_.check_ancestors) {
                places.checked[place] |= dimensions;
            }
            const auto add = [&](std::vector<std::uint64_t>& sums) {
                sums.resize(places.requested.size());
                auto* sum = sums.data() + place * stride_;
                for (auto rest = dimensions; rest != 0; rest &= rest - 1) {
                    const int d = std::countr_zero(rest);
                    const auto more = amounts_of(ask.owner)[d] * ask.members;
                    sum[d] = std::min<std::uint64_t>(sum[d] + more, std::uint64_t{1} << 63);
                }
            };
            add(places.requested);
            if (!owner(ask.owner).is_preemptible) {
                add(places.firm);
            }
            if (is_root) {
                break;
            }
            where = node(where).parent;
        }
    }
    return places;
}

std::int64_t QuotaTree::used(std::int32_t where, int dimension) const {
    return where >= 0 ? amount(kUsed, where, dimension) : roots_[-1 - where].used[dimension];
}

std::int64_t QuotaTree::runtime(std::int32_t where, int dimension) const {
    return where >= 0 ? amount(kRuntime, where, dimension) : net_total(-1 - where, dimension);
}

// The dimensions in which more would be used than a limit that applies: of runtime, or of max.
Dimensions QuotaTree::lacking(const Places& places, std::size_t place, Field limit) const {
    return exceeded(places, place, limit, places.checked[place]);
}

Dimensions QuotaTree::exceeded(const Places& places, std::size_t place, Field limit,
                               Dimensions among) const {
    Dimensions beyond = 0;
    for (auto rest = among; rest != 0; rest &= rest - 1) {
        const int d = std::countr_zero(rest);
        const auto requested = places.requested[place * stride_ + d];
        if (requested > static_cast<std::uint64_t>(left(places.where[place], d, limit))) {
            beyond |= Dimensions{1} << d;
        }
    }
    return beyond;
}

std::int64_t QuotaTree::left(std::int32_t where, int dimension, Field limit) const {
    const auto most =
        limit == kMax && where >= 0 ? amount(kMax, where, dimension) : runtime(where, dimension);
    return std::max(most - used(where, dimension), std::int64_t{0});
}

std::vector<std::int64_t> QuotaTree::room(Code limit, std::span<const std::int64_t> quotas,
                                          std::span<const std::int64_t> dimensions) const {
    std::vector<std::int64_t> free_amounts;
    free_amounts.reserve(quotas.size() * dimensions.size());
    for (const auto each : quotas) {
        const auto quota = static_cast<QuotaId>(each);
        const auto where = limit == Code::kTotal ? -1 - root_of(quota) : quota;
        for (const auto each_dimension : dimensions) {
            const auto d = static_cast<int>(each_dimension);
            const auto most = limit == Code::kMax ? amount(kMax, quota, d) : runtime(where, d);
            free_amounts.push_back(manages(quota, d) ? most - used(where, d) : kMost);
        }
    }
    return free_amounts;
}

bool QuotaTree::is_refused(const Places& places, std::int32_t where) const {
    const auto limit = options_.limited_by_runtime ? kRuntime : kMax;
    return lacking(places, places.of(where), limit) != 0;
}

// Owners that cannot be preempted have to be within the minimum of their quota, together with those
// below it.
Verdict QuotaTree::firm_refusal(std::span<const Ask> asks, const Places& places) const {
    for (const auto& ask : asks) {
        if (owner(ask.owner).is_preemptible) {
            continue;
        }
        const auto quota = owner(ask.owner).quota;
        const auto place = places.of(quota);
        for (auto rest = wanted(ask); rest != 0; rest &= rest - 1) {
            const int d = std::countr_zero(rest);
            if (static_cast<std::uint64_t>(amount(kFirm, quota, d)) +
                    places.firm[place * stride_ + d] >
                static_cast<std::uint64_t>(amount(kMin, quota, d))) {
                return {Outcome::kWait, Code::kMin, false, quota};
            }
        }
    }
    return {};
}

// An owner that was evicted may not borrow: its quota comes first, then the path from the top down.
Verdict QuotaTree::borrowing_refusal(std::span<const Ask> asks, const Places& places) const {
    for (const auto& ask : asks) {
        if (may_borrow(ask.owner)) {
            continue;
        }
        const auto quota = owner(ask.owner).quota;
        const auto borrows = [&](QuotaId where) {
            return exceeded(places, places.of(where), kRuntime, wanted(ask)) != 0;
        };
        std::int32_t beyond = borrows(quota) ? quota : -1;
        for (auto where = node(quota).parent; options_.check_ancestors && where >= 0;
             where = node(where).parent) {
            beyond = beyond != quota && borrows(where) ? where : beyond;
        }
        if (beyond >= 0) {
            return {Outcome::kWait, Code::kEvicted, false, beyond};
        }
    }
    return {};
}

Verdict QuotaTree::admitted(std::span<const Ask> asks, const Places& places) const {
    const auto code = options_.limited_by_runtime ? Code::kRuntime : Code::kMax;
    for (const auto& ask : asks) {
        if (const auto quota = owner(ask.owner).quota; is_refused(places, quota)) {
            return {Outcome::kWait, code, false, quota};
        }
    }
    if (const auto refusal = firm_refusal(asks, places); refusal.outcome != Outcome::kBind) {
        return refusal;
    }
    for (std::size_t i = 0; options_.check_ancestors && i < asks.size(); ++i) {
        const auto quota = owner(asks[i].owner).quota;
        std::int32_t root = quota, highest = 0;
        bool is_lacking = false;
        for (; root >= 0; root = node(root).parent) {
            if (is_refused(places, root)) {
                is_lacking = true;
                highest = root;
            }
        }
        if (!node(quota).is_outside && is_refused(places, root)) {
            return {Outcome::kWait, Code::kTotal, false, root};
        }
        if (is_lacking) {
            return {Outcome::kWait, code, false, highest};
        }
    }
    for (std::size_t i = 0; i < places.requested.size(); ++i) {
        const auto where = places.where[i / stride_];
        const auto sum = static_cast<std::uint64_t>(used(where, i % stride_)) + places.requested[i];
        if (sum > static_cast<std::uint64_t>(kMost)) {
            return {Outcome::kWait, Code::kTotal, false, where};  // more than is counted
        }
    }
    auto verdict = borrowing_refusal(asks, places);
    for (std::size_t place = 0; place < places.size(); ++place) {
        verdict.borrows |= verdict.outcome == Outcome::kBind && places.where[place] >= 0 &&
                           exceeded(places, place, kRuntime, places.wanted[place]) != 0;
    }
    return verdict;
}

Verdict QuotaTree::decide(std::span<const Ask> asks) {
    const Taken taken(*this, asks);
    return admitted(asks, collect(asks));
}

}  // namespace hivecore::quotas
