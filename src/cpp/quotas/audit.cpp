// What the state of a tree has to be, worked out anew.

#include <algorithm>

#include "quotas/quota_tree.hpp"

namespace hivecore::quotas {

std::string QuotaTree::audit() const {
    const auto of = [](const char* what, QuotaId quota) {
        return std::string(what) + " of quota " + std::to_string(quota);
    };
    std::array<std::vector<std::int64_t>, kFields> sums;
    for (auto& field : sums) {
        field.resize(quotas_.size() * stride_);
    }
    std::vector<std::int64_t> uses(stride_);
    std::vector<std::int32_t> counts(quotas_.size());
    for (OwnerId id = 0; id < owners(); ++id) {
        const auto& one = owners_[id];
        if (one.quota < 0) {
            continue;
        }
        if (!is_quota(one.quota) || one.members < 0 || one.members > one.count) {
            return "owner " + std::to_string(id) + " is impossible";
        }
        ++counts[one.quota];
        for (int d = 0; d < stride_; ++d) {
            const auto amount = amounts_of(id)[d];
            sums[kOwnRequest][at(one.quota, d)] += amount * one.count;
            sums[kOwnUsed][at(one.quota, d)] += amount * one.members;
            sums[kOwnFirm][at(one.quota, d)] += one.is_preemptible ? 0 : amount * one.members;
            uses[d] += amount > 0 ? 1 : 0;
        }
    }
    std::vector<std::int64_t> used(roots_.size() * stride_);
    for (QuotaId quota = 0; quota < size(); ++quota) {
        const auto& one = quotas_[quota];
        if (!one.is_alive) {
            continue;
        }
        if (counts[quota] != one.owners) {
            return of("the number of owners", quota);
        }
        const auto list = one.parent >= 0 || !one.is_outside
                              ? children(one.parent)
                              : std::span<const QuotaId>(roots_[-1 - one.parent].outside);
        if (static_cast<std::size_t>(one.position) >= list.size() || list[one.position] != quota) {
            return of("the position", quota);
        }
        std::size_t running = 0;
        for (OwnerId id = 0; id < owners(); ++id) {
            running += owners_[id].quota == quota && owners_[id].members > 0 ? 1 : 0;
        }
        if (running != one.running.size()) {
            return of("the running owners", quota);
        }
        for (std::size_t i = 0; i < one.running.size(); ++i) {
            const auto& owner = owners_[one.running[i]];
            if (owner.quota != quota || owner.members == 0 ||
                (i > 0 && !owners_[one.running[i - 1]].is_more_important(owner))) {
                return of("the order of owners", quota);
            }
        }
        for (int d = 0; d < stride_; ++d) {
            const bool managed = manages(quota, d);
            uses[d] += managed ? 1 : 0;
            if (managed != (amount(kMax, quota, d) != kUnmanaged)) {
                return of("the dimensions", quota);
            }
            const auto limited = managed ? std::min(request(quota, d), amount(kMax, quota, d)) : 0;
            if (limited != amount(kLimited, quota, d)) {
                return of("the limited request", quota);
            }
            if (one.parent >= 0) {
                sums[kChildRequest][at(one.parent, d)] += limited;
            }
            for (std::int32_t where = quota; managed; where = quotas_[where].parent) {
                const auto own = sums[kOwnUsed][at(quota, d)];
                if (where < 0) {
                    used[static_cast<std::size_t>(-1 - where) * stride_ + d] +=
                        one.is_outside ? 0 : own;
                    break;
                }
                sums[kUsed][at(where, d)] += own;
                sums[kFirm][at(where, d)] += sums[kOwnFirm][at(quota, d)];
            }
        }
    }
    constexpr std::pair<Field, const char*> kSums[] = {
        {kOwnRequest, "what owners ask"}, {kChildRequest, "what children ask"},
        {kOwnUsed, "what owners use"},    {kUsed, "what is used"},
        {kOwnFirm, "what owners keep"},   {kFirm, "what is kept"}};
    for (const auto& [field, name] : kSums) {
        for (QuotaId quota = 0; quota < size(); ++quota) {
            for (int d = 0; quotas_[quota].is_alive && d < stride_; ++d) {
                if (amount(field, quota, d) != sums[field][at(quota, d)]) {
                    return of(name, quota);
                }
            }
        }
    }
    for (std::size_t root = 0; root < roots_.size(); ++root) {
        for (int d = 0; d < stride_; ++d) {
            uses[d] += roots_[root].total[d] > 0 ? 1 : 0;
            if (roots_[root].used[d] != used[root * stride_ + d]) {
                return "what is used of root " + std::to_string(root);
            }
        }
    }
    if (uses != uses_) {
        return "the uses of dimensions";
    }
    QuotaTree other(*this);
    for (auto& root : other.roots_) {
        root.stale = ~Dimensions{0};
    }
    for (auto& quota : other.quotas_) {
        quota.stale = ~Dimensions{0};
    }
    other.refresh_all();
    QuotaTree known(*this);
    known.refresh_all();
    for (QuotaId quota = 0; quota < size(); ++quota) {
        for (int d = 0; quotas_[quota].is_alive && d < stride_; ++d) {
            if (known.amount(kRuntime, quota, d) != other.amount(kRuntime, quota, d)) {
                return of("the runtime", quota);
            }
        }
    }
    return {};
}

std::uint64_t QuotaTree::bytes() const {
    std::uint64_t sum = sizeof *this + sizeof(Quota) * quotas_.capacity() +
                        sizeof(Owner) * owners_.capacity() + 8 * asked_.capacity();
    for (const auto& field : fields_) {
        sum += 8 * field.capacity();
    }
    for (const auto& quota : quotas_) {
        sum += 4 * (quota.children.capacity() + quota.running.capacity());
    }
    return sum;
}

}  // namespace hivecore::quotas
