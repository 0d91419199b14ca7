// What has happened to nodes and owners since a mark, so that a trial can be undone.
//
// Each step says how to undo one change; undone from the last to the first, they restore the
// cluster. A step that a node has moved on holds the reference to the state that it was in, so the
// state and what was worked out for it stay. Without a mark nothing is logged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "devices/charges.hpp"
#include "devices/states.hpp"

namespace hivecore::devices {

struct Owner {
    std::int32_t node = -1;
    std::int32_t place = 0;  // in the node's list
    std::vector<Charge> charges;
};

struct Charged {
    std::int32_t owner;
};

struct Refunded {
    std::int32_t owner;
    Owner before;
};

struct Recharged {
    std::int32_t owner;
    std::vector<Charge> before;
};

struct Reshaped {
    std::int32_t node;
    std::int32_t before;  // its shape
    std::int32_t nodes;   // before
};

struct Moved {
    std::int32_t node;
    StateId before;  // -1: it was no node
};

class UndoLog {
  public:
    using Step = std::variant<Charged, Refunded, Recharged, Reshaped, Moved>;

    bool is_on() const { return !marks_.empty(); }
    std::size_t marks() const { return marks_.size(); }
    void begin() { marks_.push_back(steps_.size()); }
    void end() { marks_.pop_back(); }
    void add(Step step) { steps_.push_back(std::move(step)); }
    const std::vector<Step>& steps() const { return steps_; }
    // Whether there are steps since the last mark.
    bool has_more() const { return steps_.size() > marks_.back(); }
    Step take() {
        Step last = std::move(steps_.back());
        steps_.pop_back();
        return last;
    }
    void clear() { steps_.clear(); }
    std::uint64_t bytes() const { return sizeof(Step) * steps_.capacity(); }

  private:
    std::vector<Step> steps_;
    std::vector<std::size_t> marks_;  // how many steps there were
};

}  // namespace hivecore::devices
