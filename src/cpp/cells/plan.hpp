// What the group scheduler is asked and what it answers.
#pragma once

#include <cstdint>
#include <vector>

#include "cells/planning/leaf_choice.hpp"
#include "cells/virtual_cells.hpp"

namespace hivecore::cells {

using Handle = std::int32_t;
inline constexpr Handle kNoGroup = -1;

// What comes before few evictions: that nodes are packed well; nothing; that the tenant's units are
// those that it would get if no other group were there.
enum class Evictions : std::uint8_t { packing, least, alone };
enum class PlanOutcome : std::uint8_t { bind, preempt, wait };
enum class PlanReason : std::uint8_t { none, capacity, fragmented, mapping, search_limit, policy };

struct Request {
    std::int32_t vc = 0;
    std::int32_t chain = 0;
    std::int32_t pin = -1;             // pool id of a pin, or -1
    std::int32_t priority = -1;        // -1: opportunistic
    std::vector<std::int64_t> sizes;   // leaves per pod
    std::vector<std::int32_t> within;  // level per pod, -1: any; empty: all -1
    std::int32_t group_within = -1;
    bool spread = false;
    bool merge = false;
    Evictions evictions = Evictions::packing;
    bool has_suggested = false;
    bool has_units = false;
    std::vector<CellIndex> suggested;  // nodes of the chain
    std::vector<std::int64_t> units;   // per pod: a policy's choice
    std::vector<CellIndex> most;       // per node of the chain: pods that it may get; empty: any
};

// A leaf of a group, counted over all chains, with the virtual leaf that it is held by.
struct Placed {
    std::uint32_t leaf = 0;
    std::int32_t pod = 0;
    VirtualLeaf held{-1, 0};
    bool operator==(const Placed&) const = default;
};

struct Plan {
    PlanOutcome outcome = PlanOutcome::wait;
    PlanReason reason = PlanReason::none;
    std::int32_t vc = 0;
    std::int32_t priority = -1;
    std::int32_t pods = 0;
    std::vector<Placed> leaves;  // in the order of the pods asked, ascending in each
    std::vector<Handle> victims;
    std::vector<Handle> cancels;
    std::vector<Handle> downgrades;
    std::vector<std::uint64_t> stamps;  // sequence numbers of the downgrades, then of the cancels
};

}  // namespace hivecore::cells
