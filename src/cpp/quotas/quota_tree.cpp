// The tree and its owners: what is asked for and used, up to date on every path.

#include "quotas/quota_tree.hpp"

#include <algorithm>

namespace hivecore::quotas {

// --- dimensions and roots

int QuotaTree::add_dimension(Dimensions kept) {
    require_no_mark();
    for (int d = 0; d < stride_; ++d) {
        if (uses_[d] == 0 && (kept >> d & 1) == 0) {
            return d;
        }
    }
    if (stride_ == kMostDimensions) {
        return -1;
    }
    const int wider = stride_ + 1;
    const auto widen = [&](std::vector<std::int64_t>& rows, std::size_t count) {
        std::vector<std::int64_t> widened(count * wider);
        for (std::size_t row = 0; row < count; ++row) {
            std::copy_n(rows.begin() + row * stride_, stride_, widened.begin() + row * wider);
        }
        rows = std::move(widened);
    };
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        auto& amounts = nodes_.own(i).amounts;
        widen(amounts, std::size_t{kFields} * kRows);
        for (int row = 0; row < kRows; ++row) {
            amounts[(static_cast<std::size_t>(kMax) * kRows + row) * wider + stride_] = kUnmanaged;
        }
    }
    for (std::size_t i = 0; i < owner_blocks_.size(); ++i) {
        widen(owner_blocks_.own(i).amounts, kRows);
    }
    for (auto& root : roots_) {
        root.total.resize(wider);
        root.used.resize(wider);
        root.taken.resize(wider);
    }
    uses_.push_back(0);
    return stride_++;
}

bool QuotaTree::scale(int dimension, std::int64_t factor) {
    require_no_mark();
    const auto for_each = [&](auto&& apply) {
        for (QuotaId quota = 0; quota < size_; ++quota) {
            for (int field = 0; node(quota).is_alive && field < kFields; ++field) {
                apply(change(static_cast<Field>(field), quota, dimension));
            }
        }
        for (OwnerId id = 0; id < owners_; ++id) {
            if (is_owner(id)) {
                const auto row = static_cast<std::size_t>(id % kRows) * stride_;
                apply(owner_blocks_.own(id / kRows).amounts[row + dimension]);
            }
        }
        for (auto& root : roots_) {
            apply(root.total[dimension]);
            apply(root.used[dimension]);
        }
    };
    bool fits = true;
    for_each([&](std::int64_t& amount) { fits &= amount <= kMost / factor; });
    if (!fits) {
        return false;
    }
    for_each([&](std::int64_t& amount) { amount *= amount == kUnmanaged ? 1 : factor; });
    for (std::int32_t parent = -roots(); parent < size_; ++parent) {
        if (parent < 0 || node(parent).is_alive) {
            mark_minimums(parent, dimension);
        }
    }
    return true;
}

std::int32_t QuotaTree::add_root() {
    require_no_mark();
    auto& root = roots_.emplace_back();
    root.total.resize(stride_);
    root.used.resize(stride_);
    root.taken.resize(stride_);
    return roots() - 1;
}

void QuotaTree::set_total(std::int32_t root, std::span<const std::int64_t> total, bool carved) {
    require_no_mark();
    auto& changed = roots_[root];
    for (int d = 0; d < stride_; ++d) {
        uses_[d] += (total[d] > 0 ? 1 : 0) - (changed.total[d] > 0 ? 1 : 0);
    }
    changed.total.assign(total.begin(), total.end());
    changed.is_carved = carved;
    ++moves_;
    changed.stale = roots_[0].stale = ~Dimensions{0};
    changed.stale_minimums = roots_[0].stale_minimums = ~Dimensions{0};
    something_happened();
}

std::int64_t QuotaTree::net_total(std::int32_t root, int dimension) const {
    const auto& record = roots_[root];
    auto left = std::max<std::int64_t>(record.total[dimension] - record.taken[dimension], 0);
    for (const auto quota : record.outside) {
        left = std::max<std::int64_t>(left - amount(kUsed, quota, dimension), 0);
    }
    for (std::size_t other = 1; root == 0 && other < roots_.size(); ++other) {
        if (roots_[other].is_carved) {
            left = std::max<std::int64_t>(left - roots_[other].total[dimension], 0);
        }
    }
    return left;
}

std::vector<std::int64_t> QuotaTree::net_total(std::int32_t root) const {
    std::vector<std::int64_t> total;
    for (int d = 0; d < stride_; ++d) {
        total.push_back(net_total(root, d));
    }
    return total;
}

// --- quotas

std::int32_t QuotaTree::root_of(QuotaId quota) const {
    std::int32_t where = quota;
    while (where >= 0) {
        where = node(where).parent;
    }
    return -1 - where;
}

const std::vector<QuotaId>& QuotaTree::siblings(std::int32_t parent, bool outside) const {
    if (parent >= 0) {
        return node(parent).children;
    }
    const auto& root = roots_[-1 - parent];
    return outside ? root.outside : root.children;
}

std::vector<QuotaId>& QuotaTree::change_siblings(std::int32_t parent, bool outside) {
    if (parent >= 0) {
        return change(parent).children;
    }
    auto& root = roots_[-1 - parent];
    return outside ? root.outside : root.children;
}

std::span<const QuotaId> QuotaTree::children(std::int32_t parent) const {
    return siblings(parent, false);
}

Dimensions QuotaTree::stale(std::int32_t parent) const {
    return parent >= 0 ? node(parent).stale : roots_[-1 - parent].stale;
}

Dimensions QuotaTree::stale_minimums(std::int32_t parent) const {
    return parent >= 0 ? node(parent).stale_minimums : roots_[-1 - parent].stale_minimums;
}

void QuotaTree::set_stale(std::int32_t parent, Dimensions stale) {
    log_.add(Place::kStale, parent, 0, static_cast<std::int64_t>(this->stale(parent)));
    if (parent < 0) {
        roots_[-1 - parent].stale = stale;
        return;
    }
    auto& block = nodes_.own(parent / kRows);
    block.nodes[parent % kRows].stale = stale;
    const auto bit = std::uint64_t{1} << parent % kRows;
    block.stale = stale != 0 ? block.stale | bit : block.stale & ~bit;
}

void QuotaTree::set_stale_minimums(std::int32_t parent, Dimensions stale) {
    log_.add(Place::kStaleMinimums, parent, 0, static_cast<std::int64_t>(stale_minimums(parent)));
    (parent < 0 ? roots_[-1 - parent].stale_minimums : change(parent).stale_minimums) = stale;
}

void QuotaTree::set_over(QuotaId quota, Dimensions over) {
    log_.add(Place::kOver, quota, 0, static_cast<std::int64_t>(node(quota).over));
    auto& block = nodes_.own(quota / kRows);
    block.nodes[quota % kRows].over = over;
    const auto bit = std::uint64_t{1} << quota % kRows;
    block.over = over != 0 ? block.over | bit : block.over & ~bit;
}

void QuotaTree::mark_stale(std::int32_t parent, int dimension) {
    const auto bit = Dimensions{1} << dimension;
    if ((stale(parent) & bit) == 0) {
        set_stale(parent, stale(parent) | bit);
    }
}

// To be called when the minimums below a parent, or what it can have for them, may have changed.
void QuotaTree::mark_minimums(std::int32_t parent, int dimension) {
    mark_stale(parent, dimension);
    const auto bit = Dimensions{1} << dimension;
    if ((stale_minimums(parent) & bit) == 0) {
        set_stale_minimums(parent, stale_minimums(parent) | bit);
    }
}

void QuotaTree::unmark(std::int32_t parent) {
    if (stale_minimums(parent) != 0) {
        set_stale_minimums(parent, 0);
    }
    set_stale(parent, 0);
}

// To be called when the use or the runtime of a quota has changed.
void QuotaTree::compare_to_runtime(QuotaId quota, int dimension) {
    const auto is_over =
        Dimensions{amount(kUsed, quota, dimension) > amount(kRuntime, quota, dimension)};
    if ((node(quota).over >> dimension & 1) != is_over) {
        set_over(quota, node(quota).over ^ Dimensions{1} << dimension);
    }
}

// The place of each quota in the order of all, parents first, children in their order.
const std::vector<std::int32_t>& QuotaTree::order() {
    if (!order_.empty()) {
        return order_;
    }
    order_.resize(size_);
    std::int32_t place = 0;
    std::vector<QuotaId> rest;
    for (std::int32_t root = 0; root < roots(); ++root) {
        for (const bool outside : {true, false}) {
            const auto& top = siblings(-1 - root, outside);
            rest.assign(top.rbegin(), top.rend());
            while (!rest.empty()) {
                const auto quota = rest.back();
                rest.pop_back();
                order_[quota] = place++;
                const auto list = children(quota);
                rest.insert(rest.end(), list.rbegin(), list.rend());
            }
        }
    }
    return order_;
}

void QuotaTree::link(QuotaId quota, std::int32_t parent, std::int32_t position) {
    change(quota).parent = parent;
    auto& list = change_siblings(parent, node(quota).is_outside);
    list.insert(list.begin() + position, quota);
    for (std::size_t i = position; i < list.size(); ++i) {
        change(list[i]).position = static_cast<std::int32_t>(i);
    }
    order_.clear();
    ++moves_;
}

void QuotaTree::unlink(QuotaId quota) {
    const auto position = node(quota).position;
    auto& list = change_siblings(node(quota).parent, node(quota).is_outside);
    list.erase(list.begin() + position);
    for (std::size_t i = position; i < list.size(); ++i) {
        change(list[i]).position = static_cast<std::int32_t>(i);
    }
    order_.clear();
    ++moves_;
}

void QuotaTree::write_limits(QuotaId quota, const Limits& limits) {
    auto& record = change(quota);
    record.lends = limits.lends;
    record.scales = limits.scales;
    const bool has_other_min = !std::ranges::equal(row(kMin, quota), limits.min);
    for (int d = 0; d < stride_; ++d) {
        const bool managed = limits.max[d] != kUnmanaged;
        uses_[d] += (managed ? 1 : 0) - (manages(quota, d) ? 1 : 0);
        const auto bit = Dimensions{1} << d;
        record.managed = managed ? record.managed | bit : record.managed & ~bit;
        change(kMax, quota, d) = limits.max[d];
        change(kMin, quota, d) = managed ? limits.min[d] : 0;
        change(kWeight, quota, d) = managed ? limits.weight[d] : 0;
        if (record.is_outside) {
            change(kRuntime, quota, d) = managed ? limits.max[d] : 0;
            compare_to_runtime(quota, d);
        }
        if (record.is_outside || has_other_min) {
            change(kScaledMin, quota, d) = amount(kMin, quota, d);
        }
    }
}

QuotaId QuotaTree::add_quota(std::int32_t parent, std::int32_t position, const Limits& limits,
                             bool outside) {
    require_no_mark();
    QuotaId quota;
    if (free_quotas_.empty()) {
        if (size_ % kRows == 0) {
            NodeBlock block;
            block.amounts.resize(std::size_t{kFields} * kRows * stride_);
            std::fill_n(block.amounts.begin() + at(kMax, 0, 0), kRows * stride_, kUnmanaged);
            nodes_.add(std::move(block));
        }
        quota = size_++;
    } else {
        quota = free_quotas_.back();
        free_quotas_.pop_back();
    }
    change(quota).is_alive = true;
    change(quota).is_outside = outside;
    link(quota, parent, position);
    if (!set_limits(quota, limits)) {
        unlink(quota);
        change(quota) = {};
        free_quotas_.push_back(quota);
        return -1;
    }
    return quota;
}

bool QuotaTree::set_limits(QuotaId quota, const Limits& limits) {
    require_no_mark();
    const bool outside = node(quota).is_outside;
    for (int d = 0; d < stride_; ++d) {
        if (limits.max[d] != kUnmanaged && !manages(quota, d) &&
            !can_use(quota, outside, d, amount(kOwnUsed, quota, d))) {
            return false;
        }
    }
    const auto kept = [&](Field field) {
        const auto values = row(field, quota);
        return std::vector<std::int64_t>(values.begin(), values.end());
    };
    const auto max = kept(kMax), min = kept(kMin), weight = kept(kWeight);
    const auto scaled_min = kept(kScaledMin);
    const Limits before{max, min, weight, node(quota).lends, node(quota).scales};
    const auto apply = [&](const Limits& wanted) {
        const auto managed = node(quota).managed;
        write_limits(quota, wanted);
        bool fits = true;
        for (int d = 0; d < stride_; ++d) {
            const int sign = (manages(quota, d) ? 1 : 0) - (managed >> d & 1);
            if (sign != 0) {
                fits &= push_used(quota, outside, d, sign * amount(kOwnUsed, quota, d),
                                  sign * amount(kOwnFirm, quota, d));
            }
        }
        return push_requests(quota) && fits;
    };
    if (!apply(limits)) {
        apply(before);
        set_scaled_min(quota, scaled_min);
        return false;
    }
    for (int d = 0; d < stride_; ++d) {
        push_allocated(quota, d);
        mark_minimums(node(quota).parent, d);
    }
    something_happened();
    return true;
}

bool QuotaTree::move(QuotaId quota, std::int32_t parent, std::int32_t position) {
    require_no_mark();
    const auto before = node(quota).parent, place = node(quota).position;
    detach(quota);
    if (!attach(quota, parent, position)) {
        attach(quota, before, place);
        return false;
    }
    something_happened();
    return true;
}

void QuotaTree::remove(QuotaId quota) {
    const std::vector<std::int64_t> nothing(stride_), unmanaged(stride_, kUnmanaged);
    set_limits(quota, {unmanaged, nothing, nothing});
    detach(quota);
    unmark(quota);
    change(quota) = {};
    free_quotas_.push_back(quota);
    something_happened();
}

// Takes all that it asks for and uses to the new parent; false: a sum would be too large.
bool QuotaTree::attach(QuotaId quota, std::int32_t parent, std::int32_t position) {
    for (int d = 0; d < stride_; ++d) {
        if (!can_use(parent, false, d, amount(kUsed, quota, d))) {
            return false;
        }
    }
    link(quota, parent, position);
    bool fits = true;
    for (int d = 0; d < stride_; ++d) {
        fits &= push_used(parent, false, d, amount(kUsed, quota, d), amount(kFirm, quota, d));
        push_allocated(parent, d);
        mark_minimums(parent, d);
    }
    if (!push_requests(quota) || !fits) {
        detach(quota);
        return false;
    }
    return true;
}

void QuotaTree::detach(QuotaId quota) {
    const auto parent = node(quota).parent;
    unlink(quota);
    for (int d = 0; d < stride_; ++d) {
        if (parent >= 0) {
            change(kChildRequest, parent, d) -= amount(kLimited, quota, d);
            push_request(parent, d);
        }
        change(kLimited, quota, d) = 0;
        push_used(parent, node(quota).is_outside, d, -amount(kUsed, quota, d),
                  -amount(kFirm, quota, d));
        push_allocated(parent, d);
        mark_minimums(parent, d);
    }
}

// --- what goes up

std::int64_t QuotaTree::request(QuotaId quota, int dimension) const {
    if (!manages(quota, dimension)) {
        return 0;
    }
    // Two sums of at most 2^62 each.
    const auto requested = static_cast<std::uint64_t>(amount(kOwnRequest, quota, dimension)) +
                           static_cast<std::uint64_t>(amount(kChildRequest, quota, dimension));
    const auto sum = static_cast<std::int64_t>(std::min<std::uint64_t>(requested, kMost));
    return lends(quota) ? sum : std::max(sum, amount(kMin, quota, dimension));
}

// What counts at the parent.
std::int64_t QuotaTree::limited_request(QuotaId quota, int dimension) const {
    if (!manages(quota, dimension)) {
        return 0;
    }
    const auto requested = request(quota, dimension), max = amount(kMax, quota, dimension);
    if (requested <= max || !counts_beyond_max()) {
        return std::min(requested, max);
    }
    return std::min(requested, std::max(max, amount(kUsed, quota, dimension)));
}

// Adds the current request of the quota to those of its ancestors; false: a sum would be too large,
// and the caller has to restore the request and push it again.
bool QuotaTree::push_request(QuotaId quota, int dimension) {
    while (true) {
        const auto limited = limited_request(quota, dimension);
        const auto more = limited - amount(kLimited, quota, dimension);
        if (more == 0) {
            return true;
        }
        const auto parent = node(quota).parent;
        if (parent >= 0 && more > kMost - amount(kChildRequest, parent, dimension)) {
            return false;
        }
        change(kLimited, quota, dimension) = limited;
        note_request(quota, dimension);
        mark_stale(parent, dimension);
        if (parent < 0) {
            return true;
        }
        change(kChildRequest, parent, dimension) += more;
        quota = parent;
    }
}

bool QuotaTree::push_requests(QuotaId quota) {
    bool fits = true;
    for (int d = 0; d < stride_; ++d) {
        fits &= push_request(quota, d);
    }
    return fits;
}

// Whether so much more can be used at a quota or root and above.
bool QuotaTree::can_use(std::int32_t where, bool outside, int dimension, std::int64_t more) const {
    for (; where >= 0; where = node(where).parent) {
        if (more > kMost - amount(kUsed, where, dimension)) {
            return false;
        }
    }
    const auto& root = roots_[-1 - where];
    return outside || more <= kMost - root.used[dimension];
}

// False: a sum would be too large, and what is used has to be put back.
bool QuotaTree::push_used(std::int32_t where, bool outside, int dimension, std::int64_t more,
                          std::int64_t firm) {
    const auto first = where;
    bool is_beyond_max = false, fits = true;
    for (; where >= 0; where = node(where).parent) {
        auto& used = change(kUsed, where, dimension);
        is_beyond_max |= std::max(used, used + more) > amount(kMax, where, dimension);
        used += more;
        if (firm != 0) {
            change(kFirm, where, dimension) += firm;
        }
        compare_to_runtime(where, dimension);
    }
    for (auto i = first; is_beyond_max && counts_beyond_max() && i >= 0; i = node(i).parent) {
        fits &= push_request(i, dimension);
    }
    auto& root = roots_[-1 - where];
    if (!outside) {
        log_.add(Place::kRootUsed, -1 - where, dimension, root.used[dimension]);
        root.used[dimension] += more;
    } else if (more != 0) {
        mark_minimums(where, dimension);
    }
    return fits;
}

std::int64_t QuotaTree::guaranteed(QuotaId quota, int dimension) const {
    // What runs is kept even beyond a maximum that was lowered meanwhile.
    const auto most = std::max(amount(kMax, quota, dimension), amount(kUsed, quota, dimension));
    return std::min(std::max(amount(kAllocated, quota, dimension), amount(kMin, quota, dimension)),
                    most);
}

void QuotaTree::push_allocated(std::int32_t where, int dimension) {
    if (!options_.guarantee) {
        return;
    }
    for (; where >= 0; where = node(where).parent) {
        std::int64_t sum = manages(where, dimension) ? amount(kOwnUsed, where, dimension) : 0;
        for (const auto child : children(where)) {
            sum =
                std::min(sum, kMost - guaranteed(child, dimension)) + guaranteed(child, dimension);
        }
        change(kAllocated, where, dimension) = sum;
        mark_stale(node(where).parent, dimension);
    }
}

// --- owners

// What an owner asks for comes (1) or goes (-1).
bool QuotaTree::add_request(OwnerId owner, int sign) {
    const auto& record = this->owner(owner);
    const auto amounts = amounts_of(owner);
    for (int d = 0; d < stride_; ++d) {
        if (sign > 0 && amount(kOwnRequest, record.quota, d) > kMost - amounts[d] * record.count) {
            return false;
        }
    }
    for (int d = 0; d < stride_; ++d) {
        change(kOwnRequest, record.quota, d) += sign * amounts[d] * record.count;
        log_.add(Place::kUses, d, 0, uses_[d]);
        uses_[d] += amounts[d] > 0 ? sign : 0;
    }
    if (push_requests(record.quota)) {
        return true;
    }
    add_request(owner, -1);
    return false;
}

bool QuotaTree::add_use(OwnerId owner, std::int64_t members) {
    const auto& record = this->owner(owner);
    const auto amounts = amounts_of(owner);
    const bool outside = node(record.quota).is_outside;
    for (int d = 0; d < stride_; ++d) {
        if (manages(record.quota, d) && !can_use(record.quota, outside, d, amounts[d] * members)) {
            return false;
        }
    }
    bool fits = true;
    for (int d = 0; d < stride_; ++d) {
        const auto more = amounts[d] * members, firm = record.is_preemptible ? 0 : more;
        if (more == 0) {
            continue;
        }
        change(kOwnUsed, record.quota, d) += more;
        if (firm != 0) {
            change(kOwnFirm, record.quota, d) += firm;
        }
        if (manages(record.quota, d)) {
            fits &= push_used(record.quota, outside, d, more, firm);
            push_allocated(record.quota, d);
        }
    }
    if (!fits) {
        add_use(owner, -members);
    }
    return fits;
}

OwnerId QuotaTree::submit(QuotaId quota, std::span<const std::int64_t> amounts,
                          const Owner& terms) {
    OwnerId owner;
    if (free_owners_.empty()) {
        if (owners_ % kRows == 0) {
            OwnerBlock block;
            block.amounts.resize(std::size_t{kRows} * stride_);
            owner_blocks_.add(std::move(block));
        }
        owner = owners_++;
    } else {
        owner = free_owners_.back();
        free_owners_.pop_back();
    }
    auto& record = change_owner(owner);
    record = terms;
    record.quota = quota;
    auto& places = owner_blocks_.own(owner / kRows).amounts;
    auto at = static_cast<std::size_t>(owner % kRows) * stride_;
    for (const auto amount : amounts) {
        log_.add(Place::kOwnerAmount, owner, at, places[at]);
        places[at++] = amount;
    }
    if (!add_request(owner, 1)) {
        change_owner(owner).quota = -1;
        free_owners_.push_back(owner);
        return -1;
    }
    ++change(quota).owners;
    something_happened();
    return owner;
}

bool QuotaTree::admit(OwnerId owner, std::int32_t members) {
    if (!add_use(owner, members)) {
        return false;
    }
    auto& record = change_owner(owner);
    if (record.members == 0) {
        record.start = next_start_++;
        enter_running(owner);
    }
    record.members += members;
    return true;
}

void QuotaTree::enter_running(OwnerId owner) {
    auto& running = change(this->owner(owner).quota).running;
    const auto after = std::ranges::upper_bound(running, owner, [&](auto a, auto b) {
        return this->owner(a).is_more_important(this->owner(b));
    });
    running.insert(after, owner);
}

void QuotaTree::leave_running(OwnerId owner) {
    auto& running = change(this->owner(owner).quota).running;
    running.erase(std::ranges::lower_bound(running, owner, [&](auto a, auto b) {
        return this->owner(a).is_more_important(this->owner(b));
    }));
}

// It is not among those that run any more.
void QuotaTree::stop(OwnerId owner) {
    leave_running(owner);
    change_owner(owner).start = 0;
}

void QuotaTree::evict(OwnerId owner, bool is_reclaimed) {
    auto& record = change_owner(owner);
    if (record.members == 0) {
        return;
    }
    stop(owner);
    add_use(owner, -std::int64_t{record.members});
    record.members = 0;
    record.evicted_at = is_reclaimed ? events_ : 0;
}

void QuotaTree::release(OwnerId owner) {
    evict(owner, false);
    add_request(owner, -1);
    --change(this->owner(owner).quota).owners;
    change_owner(owner).quota = -1;
    free_owners_.push_back(owner);
    something_happened();
}

void QuotaTree::withdraw(OwnerId owner) {
    release(owner);
    events_ -= 2;
}

void QuotaTree::take_back(OwnerId owner, std::int32_t members) {
    auto& record = change_owner(owner);
    add_use(owner, -std::int64_t{members});
    record.members -= members;
    if (record.members == 0) {
        stop(owner);
        --next_start_;
    }
}

}  // namespace hivecore::quotas
