// What has happened to groups since a mark, so that a trial can be undone.
//
// Each entry says how to undo one step; undone from the last to the first, they restore the groups.
// Owners of leaves are no part of it: they follow from the groups. Bookings have a journal of
// their own, in the virtual cells. Without a mark nothing is logged. A removed group leaves its
// list of leaves in place while there are marks, because an undo needs it again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "cells/leaf_lists.hpp"
#include "cells/plan.hpp"

namespace hivecore::cells {

struct Group {
    std::uint64_t sequence = 0;
    LeafLists::List list;
    std::int32_t vc = 0;
    std::int32_t priority = -1;
    std::int32_t pods = 0;
    bool live = false;
    bool lazy = false;
    bool preempting = false;
    bool guaranteed = false;  // holds virtual leaves
};

// How much had happened when a mark was set.
struct Mark {
    std::size_t bookings;
    std::size_t steps;
};

struct Entered {
    Handle handle;
};

struct Removed {
    Handle handle;
    Group before;
};

struct Changed {
    Handle handle;
    Group before;
    std::vector<Placed> leaves;
};

// A change of how many virtual leaves of an instance are held at a priority.
struct HeldCount {
    std::int32_t instance;
    std::int32_t priority;
    std::int64_t change;
};

struct HealthChange {
    std::uint32_t leaf;
    bool before;
};

class UndoLog {
  public:
    using Step = std::variant<Entered, Removed, Changed, HeldCount, HealthChange>;

    bool is_on() const { return marks_ != 0; }
    std::size_t size() const { return steps_.size(); }
    void begin() { ++marks_; }
    void end() { --marks_; }
    void add(Step step) { steps_.push_back(std::move(step)); }
    const std::vector<Step>& steps() const { return steps_; }
    void resize(std::size_t size) { steps_.resize(size, Entered{kNoGroup}); }

  private:
    std::vector<Step> steps_;
    std::size_t marks_ = 0;
};

}  // namespace hivecore::cells
