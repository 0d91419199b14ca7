// Who is admitted: nothing on the path may be used beyond what limits it.

#include <algorithm>

#include "quotas/quota_tree.hpp"

namespace hivecore::quotas {

// What an owner's use of a dimension counts for.
std::int64_t QuotaTree::counted(OwnerId id, int dimension) const {
    const auto& one = owner(id);
    return manages(one.quota, dimension) ? amounts_of(id)[dimension] * one.members : 0;
}

// The asks at all quotas and roots where they count; runtimes there are up to date.
QuotaTree::Places QuotaTree::collect(std::span<const Ask> asks) {
    Places places;
    for (const auto& ask : asks) {
        const auto quota = owner(ask.owner).quota;
        refresh(quota);
        for (std::int32_t where = quota;;) {
            const bool is_root = where < 0;
            if (is_root && node(quota).is_outside) {
                break;
            }
            const auto found = std::ranges::find(places.where, where);
            const auto place = static_cast<std::size_t>(found - places.where.begin());
            if (found == places.where.end()) {
                places.where.push_back(where);
                places.asked.resize(places.asked.size() + stride_);
            }
            auto* asked = places.asked.data() + place * stride_;
            for (int d = 0; d < stride_; ++d) {
                if (manages(quota, d)) {
                    const auto more = amounts_of(ask.owner)[d] * ask.members;
                    asked[d] = std::min<std::uint64_t>(asked[d] + more, std::uint64_t{1} << 63);
                }
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

// The dimensions in which more would be used than there is: of runtime, or of max.
Dimensions QuotaTree::lacking(const Places& places, std::size_t place, Field limit) const {
    Dimensions found = 0;
    for (int d = 0; d < stride_; ++d) {
        const auto asked = places.asked[place * stride_ + d];
        const auto room = static_cast<std::uint64_t>(left(places.where[place], d, limit));
        if (asked > room) {
            found |= Dimensions{1} << d;
        }
    }
    return found;
}

std::int64_t QuotaTree::left(std::int32_t where, int dimension, Field limit) const {
    const auto most =
        limit == kMax && where >= 0 ? amount(kMax, where, dimension) : runtime(where, dimension);
    return std::max(most - used(where, dimension), std::int64_t{0});
}

std::vector<std::int64_t> QuotaTree::room(Code limit, std::span<const std::int64_t> quotas,
                                          std::span<const std::int64_t> dimensions) const {
    std::vector<std::int64_t> found;
    found.reserve(quotas.size() * dimensions.size());
    for (const auto each : quotas) {
        const auto quota = static_cast<QuotaId>(each);
        const auto where = limit == Code::kTotal ? -1 - root_of(quota) : quota;
        for (const auto each_dimension : dimensions) {
            const auto d = static_cast<int>(each_dimension);
            found.push_back(
                manages(quota, d) ? left(where, d, limit == Code::kMax ? kMax : kRuntime) : kMost);
        }
    }
    return found;
}

bool QuotaTree::is_refused(const Places& places, std::int32_t where) const {
    const auto place = std::ranges::find(places.where, where) - places.where.begin();
    return lacking(places, place, options_.limited_by_runtime ? kRuntime : kMax) != 0;
}

// Those who cannot be preempted have to be within the minimum of their quota.
Verdict QuotaTree::firm_refusal(std::span<const Ask> asks) const {
    for (const auto& ask : asks) {
        const auto quota = owner(ask.owner).quota;
        if (owner(ask.owner).is_preemptible) {
            continue;
        }
        for (int d = 0; d < stride_; ++d) {
            std::uint64_t sum = 0;
            for (const auto& other : asks) {
                const auto& one = owner(other.owner);
                if (one.quota == quota && !one.is_preemptible) {
                    const auto more = amounts_of(other.owner)[d] * other.members;
                    sum = std::min<std::uint64_t>(sum + more, std::uint64_t{1} << 63);
                }
            }
            if (sum > 0 && manages(quota, d) &&
                static_cast<std::uint64_t>(amount(kFirm, quota, d)) + sum >
                    static_cast<std::uint64_t>(amount(kMin, quota, d))) {
                return {Outcome::kWait, Code::kMin, false, quota};
            }
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
    if (const auto refusal = firm_refusal(asks); refusal.outcome != Outcome::kBind) {
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
    for (std::size_t i = 0; i < places.asked.size(); ++i) {
        const auto where = places.where[i / stride_];
        const auto sum = static_cast<std::uint64_t>(used(where, i % stride_)) + places.asked[i];
        if (sum > static_cast<std::uint64_t>(kMost)) {
            return {Outcome::kWait, Code::kTotal, false, where};  // more than is counted
        }
    }
    Verdict verdict;
    for (std::size_t place = 0; place < places.size(); ++place) {
        verdict.borrows |= places.where[place] >= 0 && lacking(places, place, kRuntime) != 0;
    }
    const bool may_all =
        std::ranges::all_of(asks, [&](const auto& ask) { return may_borrow(ask.owner); });
    if (verdict.borrows && !may_all) {
        return {Outcome::kWait, Code::kEvicted, false, owner(asks[0].owner).quota};
    }
    return verdict;
}

Verdict QuotaTree::decide(std::span<const Ask> asks) {
    return admitted(asks, collect(asks));
}

}  // namespace hivecore::quotas
