// The state that a tree must have, computed from scratch.

#include <algorithm>

#include "quotas/quota_tree.hpp"

namespace hivecore::quotas {

std::string QuotaTree::audit() const {
    const auto of = [](const char* what, QuotaId quota) {
        return std::string(what) + " of quota " + std::to_string(quota);
    };
    std::vector<std::int64_t> sums(static_cast<std::size_t>(kFields) * size() * stride_);
    const auto sum = [&](Field field, QuotaId quota, int d) -> std::int64_t& {
        return sums[(static_cast<std::size_t>(field) * size() + quota) * stride_ + d];
    };
    std::vector<std::int64_t> uses(stride_);
    std::vector<std::int32_t> counts(size()), running(size());
    for (OwnerId id = 0; id < owners(); ++id) {
        const auto& record = owner(id);
        if (record.quota < 0) {
            continue;
        }
        if (!is_quota(record.quota) || record.members < 0 || record.members > record.count) {
            return "owner " + std::to_string(id) + " is impossible";
        }
        ++counts[record.quota];
        running[record.quota] += record.members > 0 ? 1 : 0;
        for (int d = 0; d < stride_; ++d) {
            const auto amount = amounts_of(id)[d];
            sum(kOwnRequest, record.quota, d) += amount * record.count;
            sum(kOwnUsed, record.quota, d) += amount * record.members;
            sum(kOwnFirm, record.quota, d) += record.is_preemptible ? 0 : amount * record.members;
            uses[d] += amount > 0 ? 1 : 0;
        }
    }
    std::vector<std::int64_t> used(roots_.size() * stride_);
    for (QuotaId quota = 0; quota < size(); ++quota) {
        const auto& record = node(quota);
        if (!record.is_alive) {
            continue;
        }
        if (counts[quota] != record.owners) {
            return of("the number of owners", quota);
        }
        const auto list = record.parent >= 0 || !record.is_outside
                              ? children(record.parent)
                              : std::span<const QuotaId>(roots_[-1 - record.parent].outside);
        if (static_cast<std::size_t>(record.position) >= list.size() ||
            list[record.position] != quota) {
            return of("the position", quota);
        }
        if (static_cast<std::size_t>(running[quota]) != record.running.size()) {
            return of("the running owners", quota);
        }
        for (std::size_t i = 0; i < record.running.size(); ++i) {
            const auto& last = owner(record.running[i]);
            if (last.quota != quota || last.members == 0 ||
                (i > 0 && !owner(record.running[i - 1]).is_more_important(last))) {
                return of("the order of owners", quota);
            }
        }
        for (int d = 0; d < stride_; ++d) {
            const bool managed = manages(quota, d);
            uses[d] += managed ? 1 : 0;
            if (managed != (amount(kMax, quota, d) != kUnmanaged)) {
                return of("the dimensions", quota);
            }
            const auto limited = limited_request(quota, d);
            if (limited != amount(kLimited, quota, d)) {
                return of("the limited request", quota);
            }
            if (record.parent >= 0) {
                sum(kChildRequest, record.parent, d) += limited;
            }
            for (std::int32_t where = quota; managed; where = node(where).parent) {
                const auto own = sum(kOwnUsed, quota, d);
                if (where < 0) {
                    used[static_cast<std::size_t>(-1 - where) * stride_ + d] +=
                        record.is_outside ? 0 : own;
                    break;
                }
                sum(kUsed, where, d) += own;
                sum(kFirm, where, d) += sum(kOwnFirm, quota, d);
            }
        }
    }
    constexpr std::pair<Field, const char*> kSums[] = {
        {kOwnRequest, "what owners ask"}, {kChildRequest, "what children ask"},
        {kOwnUsed, "what owners use"},    {kUsed, "what is used"},
        {kOwnFirm, "what owners keep"},   {kFirm, "what is kept"}};
    for (const auto& [field, name] : kSums) {
        for (QuotaId quota = 0; quota < size(); ++quota) {
            for (int d = 0; node(quota).is_alive && d < stride_; ++d) {
                if (amount(field, quota, d) != sum(field, quota, d)) {
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
    for (QuotaId quota = 0; quota < size(); ++quota) {
        const auto& block = nodes_[quota / kRows];
        if ((block.stale >> quota % kRows & 1) != (node(quota).stale != 0) ||
            (block.over >> quota % kRows & 1) != (node(quota).over != 0)) {
            return of("the bits in its block", quota);
        }
    }
    QuotaTree other(*this);
    for (int d = 0; d < stride_; ++d) {
        for (std::int32_t root = 0; root < roots(); ++root) {
            other.mark_minimums(-1 - root, d);
        }
        for (QuotaId quota = 0; quota < size(); ++quota) {
            other.mark_minimums(quota, d);
        }
    }
    other.refresh_all();
    QuotaTree known(*this);
    known.refresh_all();
    for (const auto& [key, kept] : kept_) {
        const auto [parent, d] = of_key(key);
        Kept copy(kept);
        const bool is_used = kept.many && (stale_minimums(parent) >> d & 1) == 0;
        for (const auto child : is_used ? known.children(parent) : std::span<const QuotaId>()) {
            const auto runtime = known.runtime_among_many(copy, parent, child, d);
            if (runtime >= 0 && runtime != known.amount(kRuntime, child, d)) {
                return of("the runtime among many", child);
            }
        }
    }
    for (QuotaId quota = 0; quota < size(); ++quota) {
        for (int d = 0; node(quota).is_alive && d < stride_; ++d) {
            const auto runtime = known.amount(kRuntime, quota, d);
            if (runtime != other.amount(kRuntime, quota, d)) {
                return of("the runtime", quota);
            }
            for (const auto field : {kScaledMin, kReach}) {
                if (known.amount(field, quota, d) != other.amount(field, quota, d)) {
                    return of("the scaled minimum", quota);
                }
            }
            if ((known.node(quota).over >> d & 1) != (amount(kUsed, quota, d) > runtime)) {
                return of("what is over the runtime", quota);
            }
        }
    }
    return {};
}

std::uint64_t QuotaTree::bytes() const {
    std::uint64_t sum = sizeof *this;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        sum += sizeof(NodeBlock) + 8 * nodes_[i].amounts.capacity();
        for (const auto& record : nodes_[i].nodes) {
            sum += 4 * (record.children.capacity() + record.running.capacity());
        }
    }
    for (std::size_t i = 0; i < owner_blocks_.size(); ++i) {
        sum += sizeof(OwnerBlock) + 8 * owner_blocks_[i].amounts.capacity();
    }
    for (const auto& [_, kept] : kept_) {
        sum += sizeof kept + (kept.many ? kept.many->bytes() : 0) + 4 * kept.changed.capacity();
    }
    return sum;
}

}  // namespace hivecore::quotas
