// What places of a tree had before they were written to, so that a trial can be undone.
//
// Put back from the last to the first, the entries restore the tree as it was at a mark. They are
// about owners and about what follows from limits; limits, totals, dimensions and the shape of the
// tree stay as they are while a mark is set. Without a mark nothing is logged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "quotas/owners.hpp"

namespace hivecore::quotas {

enum class Place : std::uint8_t {
    kAmount,  // of a quota; `at` its place in the block
    kStale,   // of a parent
    kStaleMinimums,
    kOver,         // of a quota
    kRootUsed,     // `at` a dimension
    kUses,         // of a dimension
    kOwnerAmount,  // `at` its place in the block
    kOwner,        // the record itself is in a list of its own
};

class UndoLog {
  public:
    struct Entry {
        std::int64_t before;
        std::int32_t index;
        std::uint16_t at;
        Place place;
    };

    struct Mark {
        std::size_t entries;
        std::uint64_t events;
    };

    UndoLog() = default;
    UndoLog(const UndoLog&) {}  // a copy of a tree has no marks
    UndoLog& operator=(const UndoLog&) = delete;

    void add(Place place, std::int32_t index, std::size_t at, std::int64_t before) {
        if (is_on_) [[unlikely]] {
            push({before, index, static_cast<std::uint16_t>(at), place});
        }
    }
    void add(OwnerId id, const Owner& before) {
        if (is_on_) [[unlikely]] {
            push(id, before);
        }
    }

    bool is_on() const { return is_on_; }
    const std::vector<Mark>& marks() const { return marks_; }
    void begin(std::uint64_t events) {
        marks_.push_back({entries_.size(), events});
        is_on_ = true;
    }
    // The last mark is taken away; without any, so are the entries.
    void end() {
        marks_.pop_back();
        is_on_ = !marks_.empty();
        if (!is_on_) {
            entries_.clear();
            owners_.clear();
        }
    }

    // While entries are put back nothing is logged.
    void pause() { is_on_ = false; }
    std::size_t size() const { return entries_.size(); }
    const Entry& last() const { return entries_.back(); }
    const Owner& last_owner() const { return owners_.back(); }
    void pop() {
        if (last().place == Place::kOwner) {
            owners_.pop_back();
        }
        entries_.pop_back();
    }

  private:
    // Apart, so that callers stay small.
    void push(const Entry& entry);
    void push(OwnerId id, const Owner& before);

    std::vector<Entry> entries_;
    std::vector<Owner> owners_;
    std::vector<Mark> marks_;
    bool is_on_ = false;
};

}  // namespace hivecore::quotas
