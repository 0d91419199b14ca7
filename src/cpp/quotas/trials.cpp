// Marks, and the way back to them.

#include <algorithm>
#include <stdexcept>

#include "quotas/quota_tree.hpp"

namespace hivecore::quotas {

static_assert(std::size_t{kFields} * 64 * kMostDimensions <= 1 << 16, "places fit an entry");

void UndoLog::push(const Entry& entry) {
    entries_.push_back(entry);
}

void UndoLog::push(OwnerId id, const Owner& before) {
    owners_.push_back(before);
    push({0, id, 0, Place::kOwner});
}

void QuotaTree::mark() {
    log_.begin(events_);
}

void QuotaTree::rewind() {
    require_mark();
    const auto mark = log_.marks().back();
    for (log_.pause(); log_.size() > mark.entries; log_.pop()) {
        put_back(log_.last());
    }
    events_ = mark.events;
    log_.end();
}

void QuotaTree::keep() {
    require_mark();
    log_.end();
}

void QuotaTree::require_mark() const {
    if (log_.marks().empty()) {
        throw std::logic_error("no mark is set");
    }
}

void QuotaTree::require_no_mark() const {
    if (!log_.marks().empty()) {
        throw std::logic_error("a mark is set: change a copy");
    }
}

void QuotaTree::put_back(const UndoLog::Entry& entry) {
    const auto [before, index, at, place] = entry;
    switch (place) {
        case Place::kAmount:
            nodes_.own(index / kRows).amounts[at] = before;
            ++moves_;
            put_back_kept(static_cast<Field>(at / (kRows * stride_)), index, at % stride_);
            break;
        case Place::kStale:
            set_stale(index, static_cast<Dimensions>(before));
            break;
        case Place::kStaleMinimums:
            set_stale_minimums(index, static_cast<Dimensions>(before));
            break;
        case Place::kOver:
            set_over(index, static_cast<Dimensions>(before));
            break;
        case Place::kRootUsed:
            roots_[index].used[at] = before;
            break;
        case Place::kUses:
            uses_[index] = before;
            break;
        case Place::kOwnerAmount:
            owner_blocks_.own(index / kRows).amounts[at] = before;
            break;
        case Place::kOwner:
            put_back(index, log_.last_owner());
            break;
    }
}

void QuotaTree::put_back_kept(Field field, QuotaId quota, int dimension) {
    if (field == kLimited) {
        note_request(quota, dimension);
    } else if (field == kScaledMin) {
        kept_.erase(key(node(quota).parent, dimension));
    }
}

// The lists that an owner is in follow from its record. A number that was new is a free one now,
// and is given again in the same order.
void QuotaTree::put_back(OwnerId id, const Owner& before) {
    const auto now = owner(id);
    if (now.members > 0 && before.members == 0) {
        leave_running(id);
    }
    if (now.quota >= 0 && before.quota < 0) {
        free_owners_.push_back(id);
        --change(now.quota).owners;
    } else if (now.quota < 0 && before.quota >= 0) {
        free_owners_.pop_back();
        ++change(before.quota).owners;
    }
    change_owner(id) = before;
    if (now.members == 0 && before.members > 0) {
        enter_running(id);
    }
}

}  // namespace hivecore::quotas
