#include "cells/groups.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace hivecore::cells {

Groups::Groups(VirtualCells virtual_cells) : virtual_cells_(std::move(virtual_cells)) {
    std::uint64_t leaves = 0;
    for (std::int32_t chain = 0; chain < virtual_cells_.chains(); ++chain) {
        offsets_.push_back(static_cast<std::uint32_t>(leaves));
        leaves += virtual_cells_.physical(chain).shape().size[0];
        if (leaves > std::numeric_limits<std::uint32_t>::max()) {
            throw std::invalid_argument("chains have " + std::to_string(leaves) +
                                        " leaves in all, at most 2**32 - 1");
        }
    }
    offsets_.push_back(static_cast<std::uint32_t>(leaves));
    users_.assign(leaves, kNoGroup);
    reservers_.assign(leaves, kNoGroup);
    held_.resize(static_cast<std::size_t>(virtual_cells_.instances()));
}

std::int32_t Groups::chain_of(std::uint32_t leaf) const {
    const auto above = std::upper_bound(offsets_.begin(), offsets_.end(), leaf);
    return static_cast<std::int32_t>(above - offsets_.begin()) - 1;
}

bool Groups::is_healthy(std::uint32_t leaf) const {
    const std::int32_t chain = chain_of(leaf);
    return virtual_cells_.physical(chain).healthy(local(chain, leaf));
}

void Groups::set_health(std::uint32_t first, std::uint32_t end, bool healthy) {
    for (std::uint32_t leaf = first; leaf < end; ++leaf) {
        const std::int32_t chain = chain_of(leaf);
        if (virtual_cells_.physical(chain).healthy(local(chain, leaf)) != healthy) {
            if (log_.is_on()) {
                log_.add(HealthChange{leaf, !healthy});
            }
            virtual_cells_.physical(chain).set_healthy(local(chain, leaf), healthy);
            virtual_cells_.touch_around(chain, local(chain, leaf));
        }
    }
    virtual_cells_.refile();
}

// --- what is there

void Groups::sort_by_sequence(std::vector<Handle>& handles) const {
    std::sort(handles.begin(), handles.end(),
              [&](Handle a, Handle b) { return group(a).sequence < group(b).sequence; });
    handles.erase(std::unique(handles.begin(), handles.end()), handles.end());
}

std::vector<Handle> Groups::by_sequence() const {
    std::vector<Handle> handles;
    for (std::size_t slot = 0; slot < groups_.size(); ++slot) {
        if (groups_[slot].live) {
            handles.push_back(static_cast<Handle>(slot));
        }
    }
    sort_by_sequence(handles);
    return handles;
}

std::vector<Handle> Groups::victims(Handle handle) const {
    std::vector<Handle> users;
    for (const Placed& placed : leaves(handle)) {
        const Handle other = user(placed.leaf);
        if (other != kNoGroup && other != handle && (users.empty() || users.back() != other)) {
            users.push_back(other);
        }
    }
    sort_by_sequence(users);
    return users;
}

std::vector<Handle> Groups::preemptible(std::int32_t instance, std::int32_t priority) const {
    std::vector<Handle> handles = by_sequence();
    std::erase_if(handles, [&](Handle handle) {
        const Group& other = group(handle);
        const auto mine = leaves(handle);
        return other.preempting || other.priority >= priority ||
               (other.guaranteed &&
                std::any_of(mine.begin(), mine.end(), [&](const Placed& placed) {
                    return virtual_cells_.pool(placed.held.pool).instance != instance;
                }));
    });
    return handles;
}

bool Groups::is_being_preempted(Handle handle) const {
    const auto mine = leaves(handle);
    return !group(handle).preempting &&
           std::any_of(mine.begin(), mine.end(),
                       [&](const Placed& placed) { return reserver(placed.leaf) != kNoGroup; });
}

std::uint64_t Groups::held_below(std::int32_t instance, std::int32_t priority) const {
    std::uint64_t total = 0;
    for (const auto& [held_at, leaves] : held_[static_cast<std::size_t>(instance)]) {
        total += held_at < priority ? static_cast<std::uint64_t>(leaves) : 0;
    }
    return total;
}

std::uint64_t Groups::bytes() const {
    return virtual_cells_.bytes() + (users_.size() + reservers_.size()) * sizeof(Handle) +
           groups_.size() * sizeof(Group) + lists_.bytes();
}

// --- parts of mutators

void Groups::note(std::int32_t pool, std::int32_t priority, std::int64_t change) {
    const std::int32_t instance = virtual_cells_.pool(pool).instance;
    if (!notes_.empty() && notes_.back().instance == instance &&
        notes_.back().priority == priority) {
        notes_.back().change += change;
    } else {
        notes_.push_back({instance, priority, change});
    }
}

void Groups::add_held(const HeldCount& count) {
    auto& held = held_[static_cast<std::size_t>(count.instance)];
    auto entry =
        std::lower_bound(held.begin(), held.end(), std::pair(count.priority, std::int64_t{0}),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
    if (entry == held.end() || entry->first != count.priority) {
        entry = held.insert(entry, {count.priority, 0});
    }
    entry->second += count.change;
    if (entry->second == 0) {
        held.erase(entry);
    }
}

void Groups::succeed() {
    for (const HeldCount& noted : notes_) {
        add_held(noted);
        if (log_.is_on()) {
            log_.add(noted);
        }
    }
    notes_.clear();
    virtual_cells_.forget(log_.is_on());
    virtual_cells_.refile();
}

void Groups::fail() {
    notes_.clear();
    virtual_cells_.undo(0);
    virtual_cells_.refile();
}

void Groups::withdraw(Handle handle) {
    const Group& mine = group(handle);
    std::vector<Handle> users;
    for (const Placed& placed : leaves(handle)) {
        const std::int32_t chain = chain_of(placed.leaf);
        const Handle below = user(placed.leaf);
        const bool back = below != kNoGroup && !group(below).guaranteed;
        note(placed.held.pool, mine.priority, -1);
        virtual_cells_.drop(chain, local(chain, placed.leaf),
                            back ? Holding::opportunistic : Holding::none);
        reservers_[placed.leaf] = kNoGroup;
        if (below != kNoGroup && !back) {
            users.push_back(below);
        }
    }
    sort_by_sequence(users);
    for (const Handle below : users) {
        for (const Placed& placed : leaves(below)) {
            const std::int32_t chain = virtual_cells_.pool(placed.held.pool).chain;
            const CellIndex leaf = local(chain, placed.leaf);
            if (reserver(placed.leaf) == kNoGroup &&
                virtual_cells_.physical(chain).holding(leaf) == Holding::none) {
                virtual_cells_.book(placed.held, leaf);
                note(placed.held.pool, group(below).priority, 1);
            }
        }
    }
}

void Groups::restore_reserver(Handle handle) {
    for (const Placed& placed : leaves(handle)) {
        reservers_[placed.leaf] = handle;
    }
}

void Groups::drop_bookings(Handle handle) {
    for (const Placed& placed : leaves(handle)) {
        if (reserver(placed.leaf) == kNoGroup) {
            const std::int32_t chain = virtual_cells_.pool(placed.held.pool).chain;
            virtual_cells_.drop(chain, local(chain, placed.leaf), Holding::opportunistic);
        }
    }
}

void Groups::drop_guarantee(Handle handle) {
    drop_bookings(handle);
    for (const Placed& placed : leaves(handle)) {
        if (reserver(placed.leaf) == kNoGroup) {
            note(placed.held.pool, group(handle).priority, -1);
        }
    }
}

void Groups::lift(std::span<const Handle> handles) {
    for (const Handle handle : downgraded_) {
        const auto mine = leaves(handle);
        downgraded_before_.emplace_back(handle, std::vector(mine.begin(), mine.end()));
    }
    lifted_.assign(handles.begin(), handles.end());
    for (const Handle handle : handles) {
        std::erase(downgraded_, handle);
        for (const Placed& placed : leaves(handle)) {
            users_[placed.leaf] = kNoGroup;
            if (reserver(placed.leaf) == kNoGroup) {
                const std::int32_t chain = chain_of(placed.leaf);
                virtual_cells_.drop(chain, local(chain, placed.leaf), Holding::none);
            }
        }
        promote();
    }
}

void Groups::put_back() {
    for (const Handle handle : lifted_) {
        for (const Placed& placed : leaves(handle)) {
            users_[placed.leaf] = handle;
        }
    }
    for (const auto& [handle, leaves] : downgraded_before_) {
        std::copy(leaves.begin(), leaves.end(), lists_.at(group(handle).list).begin());
        std::erase(downgraded_, handle);
        set_right(handle, false);
    }
    lifted_.clear();
    downgraded_before_.clear();
    notes_.clear();
}

bool Groups::in_range(const GroupAttributes& attributes, std::span<const Placed> leaves) const {
    return attributes.vc >= 0 && attributes.vc < virtual_cells_.tenants() &&
           std::all_of(
               leaves.begin(), leaves.end(),
               [&](const Placed& placed) {
                   if (placed.leaf >= leaf_count()) {
                       return false;
                   }
                   if (!attributes.guaranteed) {
                       return true;
                   }
                   const auto [pool, leaf] = placed.held;
                   return pool >= 0 && pool < virtual_cells_.size() &&
                          virtual_cells_.pool(pool).vc == attributes.vc &&
                          virtual_cells_.pool(pool).chain == chain_of(placed.leaf) &&
                          leaf < virtual_cells_.cells(pool, 0);
               });
}

bool Groups::may_have(const GroupAttributes& attributes, const Placed& placed) const {
    const Handle below = user(placed.leaf);
    if (reserver(placed.leaf) != kNoGroup || (below != kNoGroup && !attributes.preempting)) {
        return false;
    }
    const std::int32_t chain = chain_of(placed.leaf);
    const CellIndex leaf = local(chain, placed.leaf);
    return virtual_cells_.physical(chain).holding(leaf) != Holding::virtually ||
           (group(below).priority < attributes.priority &&
            virtual_cells_.booked_at(chain, leaf) == placed.held);
}

bool Groups::book_all(const GroupAttributes& attributes, std::span<const Placed> leaves) {
    if (!attributes.guaranteed) {
        for (const Placed& placed : leaves) {
            const std::int32_t chain = chain_of(placed.leaf);
            virtual_cells_.drop(chain, local(chain, placed.leaf), Holding::opportunistic);
        }
        return true;
    }
    if (attributes.preempting) {
        for (const Placed& placed : leaves) {
            const std::int32_t chain = chain_of(placed.leaf);
            const CellIndex leaf = local(chain, placed.leaf);
            if (virtual_cells_.physical(chain).holding(leaf) == Holding::virtually) {
                note(placed.held.pool, group(user(placed.leaf)).priority, -1);
                virtual_cells_.drop(chain, leaf, Holding::none);
            }
        }
    }
    for (const Placed& placed : leaves) {
        const std::int32_t chain = virtual_cells_.pool(placed.held.pool).chain;
        if (!virtual_cells_.book(placed.held, local(chain, placed.leaf))) {
            return false;
        }
        note(placed.held.pool, attributes.priority, 1);
    }
    return true;
}

Handle Groups::enter(const GroupAttributes& attributes, std::span<const Placed> leaves) {
    if (free_slots_.empty()) {
        free_slots_.push_back(static_cast<Handle>(groups_.size()));
        groups_.emplace_back();
    }
    const Handle handle = free_slots_.back();
    free_slots_.pop_back();
    Group& entered = groups_[static_cast<std::size_t>(handle)];
    entered = {next_sequence_++,    lists_.store(leaves),  attributes.vc,
               attributes.priority, attributes.pods,       true,
               attributes.lazy,     attributes.preempting, attributes.guaranteed};
    std::vector<Handle>& owners = attributes.preempting ? reservers_ : users_;
    for (const Placed& placed : leaves) {
        owners[placed.leaf] = handle;
    }
    if (is_downgraded(handle)) {
        downgraded_.push_back(handle);
    }
    if (log_.is_on()) {
        log_.add(Entered{handle});
    }
    return handle;
}

void Groups::remove(Handle handle) {
    Group& removed = groups_[static_cast<std::size_t>(handle)];
    if (log_.is_on()) {
        log_.add(Removed{handle, removed});
    } else {
        lists_.drop(removed.list);
    }
    removed.live = false;
    std::erase(downgraded_, handle);
    free_slots_.push_back(handle);
}

// --- mutators

bool Groups::is_current(const Plan& plan) const {
    std::size_t stamp = 0;
    for (const auto* handles : {&plan.downgrades, &plan.cancels}) {
        for (const Handle handle : *handles) {
            if (!is_live(handle) || group(handle).sequence != plan.stamps[stamp++]) {
                return false;
            }
        }
    }
    for (const Handle handle : plan.downgrades) {
        if (!group(handle).guaranteed || group(handle).preempting) {
            return false;
        }
    }
    std::vector<Handle> reservers;
    for (const Placed& placed : plan.leaves) {
        if (reserver(placed.leaf) != kNoGroup) {
            reservers.push_back(reserver(placed.leaf));
        }
    }
    sort_by_sequence(reservers);
    return reservers == plan.cancels;
}

Handle Groups::carry_out(const Plan& plan, bool lazy, bool preempting) {
    const bool guaranteed = plan.priority >= 0;
    const GroupAttributes attributes{plan.vc, plan.priority, plan.pods,
                                     lazy,    preempting,    guaranteed};
    if (!in_range(attributes, plan.leaves) || !is_current(plan)) {
        return kNoGroup;
    }
    for (const Handle handle : plan.cancels) {
        withdraw(handle);
    }
    for (const Handle handle : plan.downgrades) {
        drop_guarantee(handle);
    }
    const auto possible = [&](const Placed& placed) {
        return is_healthy(placed.leaf) && may_have(attributes, placed);
    };
    if (!std::all_of(plan.leaves.begin(), plan.leaves.end(), possible) ||
        !book_all(attributes, plan.leaves)) {
        for (const Handle handle : plan.cancels) {
            restore_reserver(handle);
        }
        fail();
        return kNoGroup;
    }
    for (const Handle handle : plan.cancels) {
        remove(handle);
    }
    for (const Handle handle : plan.downgrades) {
        set_right(handle, false);
    }
    const Handle handle = enter(attributes, plan.leaves);
    if (!plan.cancels.empty() || !plan.downgrades.empty()) {
        promote();
    }
    succeed();
    return handle;
}

bool Groups::confirm(Handle handle) {
    const auto ready = [&](const Placed& placed) {
        return user(placed.leaf) == kNoGroup && is_healthy(placed.leaf);
    };
    const auto mine = leaves(handle);
    if (!std::all_of(mine.begin(), mine.end(), ready)) {
        return false;
    }
    log_before_change(handle);
    for (const Placed& placed : leaves(handle)) {
        reservers_[placed.leaf] = kNoGroup;
        users_[placed.leaf] = handle;
    }
    groups_[static_cast<std::size_t>(handle)].preempting = false;
    return true;
}

void Groups::cancel(Handle handle) {
    withdraw(handle);
    remove(handle);
    promote();
    succeed();
}

void Groups::release(Handle handle) {
    if (group(handle).preempting) {
        cancel(handle);
        return;
    }
    const Group& mine = group(handle);
    for (const Placed& placed : leaves(handle)) {
        users_[placed.leaf] = kNoGroup;
        if (reserver(placed.leaf) == kNoGroup) {
            const std::int32_t chain = mine.guaranteed ? virtual_cells_.pool(placed.held.pool).chain
                                                       : chain_of(placed.leaf);
            if (mine.guaranteed) {
                note(placed.held.pool, mine.priority, -1);
            }
            virtual_cells_.drop(chain, local(chain, placed.leaf), Holding::none);
        }
    }
    remove(handle);
    promote();
    succeed();
}

Handle Groups::restore(const GroupAttributes& attributes, std::span<const Placed> leaves) {
    if (!in_range(attributes, leaves) ||
        !std::all_of(leaves.begin(), leaves.end(),
                     [&](const Placed& placed) { return may_have(attributes, placed); })) {
        return kNoGroup;
    }
    if (!book_all(attributes, leaves)) {
        fail();
        return kNoGroup;
    }
    const Handle handle = enter(attributes, leaves);
    succeed();
    return handle;
}

// --- trials

Mark Groups::mark() {
    log_.begin();
    return {virtual_cells_.finished(), log_.size()};
}

void Groups::rewind(const Mark& mark) {
    const std::vector<Handle> handles = groups_since(mark.steps);
    for (const Handle handle : handles) {
        set_owners(handle, kNoGroup);
    }
    for (std::size_t i = log_.size(); i-- > mark.steps;) {
        std::visit([&](const auto& step) { undo_step(step); }, log_.steps()[i]);
    }
    log_.resize(mark.steps);
    log_.end();
    for (const Handle handle : handles) {
        set_owners(handle, handle);
        std::erase(downgraded_, handle);
        if (is_live(handle) && is_downgraded(handle)) {
            downgraded_.push_back(handle);
        }
    }
    virtual_cells_.rewind(mark.bookings);
}

void Groups::keep_last() {
    log_.end();
    if (!log_.is_on()) {
        keep();
    }
}

void Groups::keep() {
    for (const UndoLog::Step& step : log_.steps()) {
        if (const auto* removed = std::get_if<Removed>(&step)) {
            lists_.drop(removed->before.list);
        }
    }
    log_ = {};
    virtual_cells_.forget(false);
}

void Groups::log_before_change(Handle handle) {
    if (log_.is_on()) {
        const auto mine = leaves(handle);
        log_.add(Changed{handle, group(handle), {mine.begin(), mine.end()}});
    }
}

// The groups of the steps from this one on, each once.
std::vector<Handle> Groups::groups_since(std::size_t first_step) const {
    std::vector<Handle> handles;
    for (std::size_t i = first_step; i < log_.size(); ++i) {
        std::visit(
            [&](const auto& step) {
                if constexpr (requires { step.handle; }) {
                    handles.push_back(step.handle);
                }
            },
            log_.steps()[i]);
    }
    std::sort(handles.begin(), handles.end());
    handles.erase(std::unique(handles.begin(), handles.end()), handles.end());
    return handles;
}

// Makes `owner` the one that uses, or has reserved, the leaves of a group, if that is live.
void Groups::set_owners(Handle handle, Handle owner) {
    if (is_live(handle)) {
        std::vector<Handle>& owners = group(handle).preempting ? reservers_ : users_;
        for (const Placed& placed : leaves(handle)) {
            owners[placed.leaf] = owner;
        }
    }
}

void Groups::undo_step(const Entered& step) {
    lists_.drop(group(step.handle).list);
    groups_[static_cast<std::size_t>(step.handle)].live = false;
    free_slots_.push_back(step.handle);
}

void Groups::undo_step(const Removed& step) {
    groups_[static_cast<std::size_t>(step.handle)] = step.before;
    free_slots_.pop_back();
}

void Groups::undo_step(const Changed& step) {
    groups_[static_cast<std::size_t>(step.handle)] = step.before;
    std::copy(step.leaves.begin(), step.leaves.end(), lists_.at(step.before.list).begin());
}

void Groups::undo_step(const HeldCount& step) {
    add_held({step.instance, step.priority, -step.change});
}

void Groups::undo_step(const HealthChange& step) {
    const std::int32_t chain = chain_of(step.leaf);
    virtual_cells_.physical(chain).set_healthy(local(chain, step.leaf), step.before);
    virtual_cells_.touch_around(chain, local(chain, step.leaf));
}

}  // namespace hivecore::cells
