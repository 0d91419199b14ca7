// Affinity groups: which leaves they use and reserve, and how plans are carried out.
//
// A leaf has a *user*, the group that runs there, and a *reserver*, a preempting group that waits
// for the user to leave; the *holder* is the reserver if there is one, else the user. Each leaf
// that a guaranteed group is the holder of is booked to the virtual leaf in its list; opportunistic
// and downgraded groups hold none. A downgraded group keeps the pools in its list. A user below a
// reserver keeps its virtual leaf in its list; the reserver holds the leaf by the same one.
//
// A mutator first changes the bookings, by way of the journal of the virtual cells, and only when
// all of them have succeeded the groups: so what fails is undone exactly. (Recovery, which drops
// guarantees to see which other groups may have them, sets flags as it goes.)
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cells/leaf_lists.hpp"
#include "cells/plan.hpp"
#include "cells/undo_log.hpp"
#include "cells/virtual_cells.hpp"

namespace hivecore::cells {

// What a group would be that is to be entered.
struct GroupAttributes {
    std::int32_t vc;
    std::int32_t priority;
    std::int32_t pods;
    bool lazy;
    bool preempting;
    bool guaranteed;
};

class Groups {
  public:
    explicit Groups(VirtualCells virtual_cells);

    VirtualCells& virtual_cells() { return virtual_cells_; }
    const VirtualCells& virtual_cells() const { return virtual_cells_; }

    // --- leaves, counted over all chains

    std::uint32_t leaf_count() const { return static_cast<std::uint32_t>(users_.size()); }
    std::uint32_t first_leaf(std::int32_t chain) const {
        return offsets_[static_cast<std::size_t>(chain)];
    }
    std::int32_t chain_of(std::uint32_t leaf) const;
    Handle user(std::uint32_t leaf) const { return users_[leaf]; }
    Handle reserver(std::uint32_t leaf) const { return reservers_[leaf]; }
    Handle holder(std::uint32_t leaf) const {
        return reservers_[leaf] != kNoGroup ? reservers_[leaf] : users_[leaf];
    }
    bool is_healthy(std::uint32_t leaf) const;
    void set_health(std::uint32_t first, std::uint32_t end, bool healthy);

    // --- groups

    bool is_live(std::int64_t handle) const {
        return handle >= 0 && handle < static_cast<std::int64_t>(groups_.size()) &&
               groups_[static_cast<std::size_t>(handle)].live;
    }
    const Group& group(Handle handle) const { return groups_[static_cast<std::size_t>(handle)]; }
    std::span<const Placed> leaves(Handle handle) const { return lists_.at(group(handle).list); }
    std::vector<Handle> by_sequence() const;
    void sort_by_sequence(std::vector<Handle>& handles) const;
    // The other groups that use its leaves, by sequence.
    std::vector<Handle> victims(Handle handle) const;
    // Those that a group of this priority may evict, by sequence.
    std::vector<Handle> preemptible(std::int32_t instance, std::int32_t priority) const;
    bool is_being_preempted(Handle handle) const;
    // Guaranteed, but not accounted for; its list says which pools it is to be in.
    bool is_downgraded(Handle handle) const;
    // The virtual leaves of the instance that groups of lower priority hold.
    std::uint64_t held_below(std::int32_t instance, std::int32_t priority) const;

    bool any_is_downgraded() const { return !downgraded_.empty(); }
    // Until the next undo of the journal the group is not guaranteed.
    void drop_bookings(Handle handle);
    // Makes it as if the groups had left in this order; bookings change by way of the journal.
    // After its undo `put_back` makes it as it was.
    void lift(std::span<const Handle> handles);
    void put_back();

    // --- mutators: a handle, or -1 and nothing has changed

    Handle carry_out(const Plan& plan, bool lazy, bool preempting);
    // False when a victim is still there or a leaf is bad. The group is preempting.
    bool confirm(Handle handle);
    void cancel(Handle handle);
    void release(Handle handle);
    // The leaves have no holder; `held.pool` per leaf is the pool asked for. Others may be
    // displaced, or the group takes only what is free.
    Handle recover(const GroupAttributes& attributes, std::vector<Placed> leaves, bool displace,
                   std::vector<Handle>& displaced);
    Handle restore(const GroupAttributes& attributes, std::span<const Placed> leaves);

    // --- trials: marks nest; the last one set ends first

    Mark mark();
    // Ends the mark; undoes all mutators since then, in time proportional to their changes.
    // Sequence numbers are not used again, so a plan of the trial cannot mean another group.
    void rewind(const Mark& mark);
    // Ends the last mark; what was done since then is kept, and undone by an earlier mark.
    void keep_last();
    // Ends all marks; what was done is kept.
    void keep();

    std::uint64_t bytes() const;

  private:
    friend class GroupsAudit;

    CellIndex local(std::int32_t chain, std::uint32_t leaf) const {
        return leaf - first_leaf(chain);
    }
    // Notes a change in how many virtual leaves are held at a priority, for when all has succeeded.
    void note(std::int32_t pool, std::int32_t priority, std::int64_t change);
    // Takes from the group what it reserves and gives it back to the users, but for the group
    // itself; `restore_reserver` sets the reservers again after an undo.
    void withdraw(Handle handle);
    void restore_reserver(Handle handle);
    // Takes the virtual leaves from the group, but for the group's flag.
    void drop_guarantee(Handle handle);
    bool is_current(const Plan& plan) const;
    bool in_range(const GroupAttributes& attributes, std::span<const Placed> leaves) const;
    // Whether the newcomer may have the leaf, over its user if it is preempting.
    bool may_have(const GroupAttributes& attributes, const Placed& placed) const;
    bool book_all(const GroupAttributes& attributes, std::span<const Placed> leaves);
    Handle enter(const GroupAttributes& attributes, std::span<const Placed> leaves);
    void remove(Handle handle);
    void succeed();
    void fail();

    void add_held(const HeldCount& count);
    void log_before_change(Handle handle);
    void undo_step(const Entered& step);
    void undo_step(const Removed& step);
    void undo_step(const Changed& step);
    void undo_step(const HeldCount& step);
    void undo_step(const HealthChange& step);
    std::vector<Handle> groups_since(std::size_t first_step) const;
    void set_owners(Handle handle, Handle owner);

    void set_right(Handle handle, bool guaranteed);
    std::vector<Handle> by_rank(std::span<const Handle> handles) const;
    void promote();
    void admit(Handle newcomer, std::vector<Handle>& displaced);
    bool book_guarantee(Handle handle);
    bool book_as_before(Handle handle);
    void note_guarantee(Handle handle);
    bool find_virtual_leaf(CellIndex leaf, VirtualLeaf& held) const;

    VirtualCells virtual_cells_;
    std::vector<std::uint32_t> offsets_;  // of the chains' leaves, and the end
    std::vector<Handle> users_;
    std::vector<Handle> reservers_;
    std::vector<Group> groups_;
    std::vector<Handle> free_slots_;  // the last one is used next
    std::vector<Handle> downgraded_;
    std::uint64_t next_sequence_ = 0;
    LeafLists lists_;
    UndoLog log_;
    std::vector<std::vector<std::pair<std::int32_t, std::int64_t>>> held_;  // per instance, sorted
    std::vector<HeldCount> notes_;
    std::vector<Handle> lifted_;
    std::vector<std::pair<Handle, std::vector<Placed>>> downgraded_before_;  // the lift
};

}  // namespace hivecore::cells
