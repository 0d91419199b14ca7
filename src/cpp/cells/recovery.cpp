// Which groups hold cells of their tenants when some run that are not accounted for.
//
// A leaf in a root of its pool joins it; otherwise the free cell around it becomes a new root.
// Either all leaves of a group find one, or it goes on opportunistically, downgraded. After a
// restart as many groups are accounted for as can be, the more important first, then those with the
// lower first leaf. Sets of groups that can be accounted for together have subsets that can be,
// too, so a newcomer that fits beside the others changes nothing, and one that does not takes from
// the less important ones, of which those that still fit are then accounted for again, in the same
// order: the outcome is that of all groups in order, whatever order they are recovered in. Groups
// that preempt or are being preempted keep what they hold.
//
// Whenever cells become free, downgraded groups that fit are promoted where they are.
#include <algorithm>
#include <tuple>

#include "cells/groups.hpp"

namespace hivecore::cells {

Handle Groups::recover(const GroupAttributes& attributes, std::vector<Placed> leaves, bool displace,
                       std::vector<Handle>& displaced) {
    if (attributes.priority < 0 || std::any_of(
                                       leaves.begin(), leaves.end(),
                                       [](const Placed& placed) { return placed.held.pool < 0; })) {
        for (Placed& placed : leaves) {
            placed.held = {-1, 0};
        }
    }
    book_all(attributes, leaves);
    const Handle handle = enter(attributes, leaves);
    if (!displace) {
        promote();
    } else if (is_downgraded(handle)) {
        admit(handle, displaced);
    }
    succeed();
    return handle;
}

bool Groups::is_downgraded(Handle handle) const {
    const auto mine = leaves(handle);
    return group(handle).priority >= 0 && !group(handle).guaranteed &&
           std::all_of(mine.begin(), mine.end(),
                       [](const Placed& placed) { return placed.held.pool >= 0; });
}

void Groups::set_right(Handle handle, bool guaranteed) {
    log_before_change(handle);
    groups_[static_cast<std::size_t>(handle)].guaranteed = guaranteed;
    if (guaranteed) {
        std::erase(downgraded_, handle);
    } else {
        downgraded_.push_back(handle);
    }
}

// The more important first, then those with the lower first leaf.
std::vector<Handle> Groups::by_rank(std::span<const Handle> handles) const {
    std::vector<std::tuple<std::int32_t, std::uint32_t, Handle>> order;
    for (const Handle handle : handles) {
        std::uint32_t first = leaf_count();
        for (const Placed& placed : leaves(handle)) {
            first = std::min(first, placed.leaf);
        }
        order.emplace_back(-group(handle).priority, first, handle);
    }
    std::sort(order.begin(), order.end());
    std::vector<Handle> sorted;
    for (const auto& entry : order) {
        sorted.push_back(std::get<2>(entry));
    }
    return sorted;
}

void Groups::promote() {
    if (downgraded_.empty()) {
        return;
    }
    for (const Handle handle : by_rank(downgraded_)) {
        book_guarantee(handle);
    }
}

// Accounts for a group that has come back, if need be at the cost of less important ones.
void Groups::admit(Handle newcomer, std::vector<Handle>& displaced) {
    if (book_guarantee(newcomer)) {
        return;
    }
    const std::size_t before = virtual_cells_.journal_size();
    std::vector<Handle> others{newcomer};
    for (Handle handle = 0; handle < std::ssize(groups_); ++handle) {
        const Group& other = group(handle);
        if (other.live && handle != newcomer &&
            (is_downgraded(handle) ||
             (other.guaranteed && !other.preempting && !is_being_preempted(handle)))) {
            others.push_back(handle);
        }
    }
    others = by_rank(others);
    others.erase(others.begin(), std::find(others.begin(), others.end(), newcomer) + 1);
    std::vector<Handle> lower;
    for (const Handle handle : others) {
        if (group(handle).guaranteed) {
            lower.push_back(handle);
            drop_guarantee(handle);
            set_right(handle, false);
        }
    }
    if (!book_guarantee(newcomer)) {
        virtual_cells_.undo(before);
        notes_.clear();
        for (const Handle handle : lower) {
            set_right(handle, true);
        }
        return;
    }
    for (const Handle handle : others) {
        const bool held = std::find(lower.begin(), lower.end(), handle) != lower.end();
        if (!(held && book_as_before(handle))) {
            book_guarantee(handle);
        }
    }
    promote();
    std::copy_if(lower.begin(), lower.end(), std::back_inserter(displaced),
                 [&](Handle handle) { return !group(handle).guaranteed; });
    sort_by_sequence(displaced);
}

// Books all leaves of a downgraded group; false: nothing has changed.
bool Groups::book_guarantee(Handle handle) {
    const std::size_t before = virtual_cells_.journal_size();
    std::vector<VirtualLeaf> booked;
    for (const Placed& placed : leaves(handle)) {
        VirtualLeaf held{placed.held.pool, 0};
        const CellIndex leaf = local(virtual_cells_.pool(held.pool).chain, placed.leaf);
        if (!find_virtual_leaf(leaf, held) || !virtual_cells_.book(held, leaf)) {
            virtual_cells_.undo(before);
            return false;
        }
        booked.push_back(held);
    }
    log_before_change(handle);
    const std::span<Placed> mine = lists_.at(group(handle).list);
    for (std::size_t i = 0; i < mine.size(); ++i) {
        mine[i].held = booked[i];
    }
    note_guarantee(handle);
    return true;
}

bool Groups::book_as_before(Handle handle) {
    const std::size_t before = virtual_cells_.journal_size();
    for (const Placed& placed : leaves(handle)) {
        if (!virtual_cells_.book(placed.held,
                                 local(virtual_cells_.pool(placed.held.pool).chain, placed.leaf))) {
            virtual_cells_.undo(before);
            return false;
        }
    }
    note_guarantee(handle);
    return true;
}

void Groups::note_guarantee(Handle handle) {
    for (const Placed& placed : leaves(handle)) {
        note(placed.held.pool, group(handle).priority, 1);
    }
    set_right(handle, true);
}

// A virtual leaf of the pool for the leaf: in the root around it, or in a new one.
bool Groups::find_virtual_leaf(CellIndex leaf, VirtualLeaf& held) const {
    const VirtualCells::Pool& owner = virtual_cells_.pool(held.pool);
    const PhysicalCells& home = virtual_cells_.physical(owner.chain);
    const CellIndex cell = home.shape().ancestor(0, leaf, owner.level);
    CellIndex root = kNoCell;
    if (home.state(owner.level, cell) == CellState::root &&
        home.cell(owner.level, cell).pool == held.pool) {
        root = home.cell(owner.level, cell).partner;
    } else {
        const int from = home.listed_level(owner.level, cell);
        if (from < 0 || owner.free_roots.empty() || !home.may_split(owner.level, from)) {
            return false;
        }
        root = static_cast<CellIndex>(owner.free_roots.first());
    }
    held = virtual_cells_.virtual_leaf(held.pool, owner.level, root, leaf);
    return true;
}

}  // namespace hivecore::cells
