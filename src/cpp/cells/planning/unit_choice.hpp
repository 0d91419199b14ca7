// Which units a group gets, and which of its pods goes where.
//
// A *unit* is a virtual node, or a whole virtual cell of a pool below node level; for opportunistic
// work it is a physical node. A *domain* is a set of units that is tried as a whole: a cell above
// node level (a rack), or all. In a domain pods are placed by next-fit in ascending size: a pointer
// walks the units in order of preference and never goes back. Where that fails although the pods
// differ, a search decides, complete over what units have left (planning/exact_search.cpp), and
// over the cells in them that pods are confined to (planning/confined.cpp).
//
// Opportunistic work goes where guaranteed work will come last: into racks that are not promised,
// then into idle ones that are promised, last of all to where guaranteed work is; of these into the
// tenant's cell of which the fewest quarters are taken.
//
// What may be preempted is not in use, but comes after what is idle.
//
// Where the rankings serve (`ranked`), units are visited as they are needed and nothing is linear
// in the size of the cluster. For preemption, and where nodes are large, all units are listed and
// sorted first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cells/groups.hpp"
#include "cells/plan.hpp"
#include "cells/planning/leaf_choice.hpp"
#include "cells/planning/walks.hpp"

namespace hivecore::cells {

// A request as the attempts see it.
struct Task {
    std::int32_t chain = 0;
    std::int32_t instance = -1;  // -1: opportunistic
    std::int32_t priority = -1;
    bool spread = false;
    Evictions evictions = Evictions::packing;
    std::int32_t group_within = -1;
    bool constrained = false;  // units have to be looked into before they get pods
    std::uint64_t total = 0;
    std::span<const Demand> pods;             // ascending
    std::span<const std::uint8_t> suggested;  // per node; empty: all
    std::span<const std::int64_t> units;      // per pod by position, a policy's; empty: none
    std::span<const CellIndex> most;          // per node: pods that it may get; empty: any number
    CellIndex most_of_any = 0;                // the largest of these

    bool allows(CellIndex node) const { return suggested.empty() || suggested[node] != 0; }
    bool allows(CellIndex node, std::size_t pods_there) const {
        return most.empty() || pods_there <= most[node];
    }
};

// How far a choice reaches: to idle leaves, also to those with opportunistic work, also to those of
// groups that may be preempted. It is the class of a leaf that it reaches.
enum class Reach : std::uint8_t { idle, opportunistic, guaranteed };

struct Unit {
    std::int32_t pool = -1;    // -1: a physical node
    CellIndex index = 0;       // of the virtual cell, or the node
    CellIndex cell = kNoCell;  // where it is bound
    CellIndex available = 0;
    CellIndex used = 0;    // by those that stay
    CellIndex held = 0;    // of a node: by guaranteed groups; else by those that may be preempted
    CellIndex around = 0;  // of an idle unit: the leaves in use in the cell of the next level
};

struct Domain {
    bool whole = true;
    std::int32_t pool = -1;
    CellIndex begin = 0;  // the units of the pool in it
    CellIndex end = 0;
    CellIndex used = 0;
    CellIndex held = 0;      // of nodes
    CellIndex nearness = 0;  // of cells above: to guaranteed work
    CellIndex cell = 0;
    bool contains(const Unit& unit) const {
        return whole || (unit.pool == pool && unit.index >= begin && unit.index < end);
    }
};

// Chosen units in order of first use, each with its pods, ascending.
struct Choice {
    std::vector<Unit> units;
    std::vector<Demand> pods;
    std::vector<std::uint32_t> begin;  // of each unit's pods, and the end
    CellIndex at = kNoCell;            // for a single unit, where it is to be, if it is not bound
    std::span<const Demand> pods_of(std::size_t unit) const {
        return std::span(pods).subspan(begin[unit], begin[unit + 1] - begin[unit]);
    }
};

class Foresight;

class UnitChoice {
  public:
    explicit UnitChoice(const Groups& groups) : groups_(groups) {}

    // Looks at the state for an attempt of this task that reaches so far. Where the rankings are
    // not up to date it may not use them. With victims (ascending) only those may leave; with
    // foresight unbound units have what they would have.
    void start(const Task& task, Reach reach, bool may_rank,
               const std::vector<Handle>* victims = nullptr, const Foresight* foresight = nullptr);
    std::int32_t chain() const { return task_.chain; }
    const std::vector<Handle>* victims() const { return victims_; }
    bool foresees() const { return foresight_ != nullptr; }
    Reach reach() const { return reach_; }
    // What all units have available together.
    std::uint64_t available() const;

    void start_domains();
    bool next_domain(Domain& domain);
    int domain_level() const { return domain_level_; }
    // How tightly so many units are packed, or how little they are spread, as the task wants it.
    CellIndex packing(std::int32_t pool, CellIndex units, CellIndex used) const;
    // The units that take the only pod, in order of preference.
    void start_takers();
    bool next_taker(Unit& unit);
    void choose_one(const Unit& unit, Choice& choice) const;

    // `budget`: the placements that searches may still try.
    bool choose(const Domain& domain, std::int64_t& budget, Choice& choice);

    // What unbound virtual cells share that can be bound to the same physical ones: the lowest
    // bound cell around them, or else their pool.
    std::uint64_t alike(std::int32_t pool, int level, CellIndex index) const;
    int unit_level(std::int32_t pool) const;
    CellIndex width(std::int32_t pool) const;
    // Starts a choice of leaves in the physical cell, but for some.
    template <class Excluded>
    void look_into(LeafChoice& leaves, int level, CellIndex cell, Excluded excluded) const {
        const CellIndex wide = physical_->shape().leaves[level];
        leaves.start(physical_->shape(), level, cell * wide);
        for (CellIndex leaf = cell * wide; leaf < (cell + 1) * wide; ++leaf) {
            leaves.set_class(leaf, excluded(leaf) ? LeafChoice::kTaken : leaf_class(leaf));
        }
        leaves.count();
    }
    void look_into(LeafChoice& leaves, int level, CellIndex cell) const {
        look_into(leaves, level, cell, [](CellIndex) { return false; });
    }
    // How far one must reach for it; LeafChoice::kTaken: further, or it is bad.
    std::uint8_t leaf_class(CellIndex leaf) const;
    // Leaves of the chain that count as taken, held or not: what the plan has so far.
    std::vector<bool>& planned() { return planned_; }
    Unit unit_at(std::int32_t pool, CellIndex index) const;
    // Leaves that can be had, and those that are not held, of a cell up to node level.
    CellIndex available_in(int level, CellIndex cell) const;
    CellIndex idle_in(int level, CellIndex cell) const;

  private:
    friend class Search;

    void list_units();
    bool spares(std::int32_t pool) const;
    bool is_spared(std::int32_t pool) const {
        return std::find(spared_.begin(), spared_.end(), pool) != spared_.end();
    }
    bool prefers(const Unit& a, const Unit& b) const;
    bool unit_suggested(const Unit& unit) const;

    void count_lower();
    CellIndex lower(std::int32_t pool, int level, CellIndex index) const;
    CellIndex used(std::int32_t pool, int level, CellIndex index) const;
    CellIndex used_around(std::int32_t pool, CellIndex index) const;
    Domain domain_of(std::int32_t pool, int level, CellIndex cell) const;
    void walk_domains();
    std::uint64_t room(const Domain& domain) const;
    template <class Visit>
    void for_units(Visit visit) const;
    void list_domains();

    void enter(const Domain& domain);
    bool visit(CellIndex least, Unit& unit);
    bool next_fit(const Domain& domain);
    bool fan_out(const Domain& domain);
    bool take_units_of_policy(const Domain& domain, std::int64_t& budget, Choice& choice);
    void gather(const Domain& domain, bool all);
    bool search(const Domain& domain, std::int64_t& budget, Choice& choice);
    bool takes(const Unit& unit, std::int32_t chosen, const Demand& pod);
    bool accepts(const Unit& unit, std::span<const Demand> pods, std::int64_t& budget);
    void add(std::int32_t chosen, const Demand& pod);
    void arrange(Choice& choice);

    const Groups& groups_;
    const PhysicalCells* physical_ = nullptr;
    Task task_;
    Reach reach_ = Reach::idle;
    const std::vector<Handle>* victims_ = nullptr;
    const Foresight* foresight_ = nullptr;
    bool ranked_ = false;
    bool as_filed_ = false;             // what is available is what the rankings say
    std::vector<std::int32_t> spared_;  // pools with idle units that come last
    std::vector<Unit> units_;           // sorted, when not ranked
    // By pool, level from that of units, and cell: leaves that may be preempted, if any may.
    std::vector<std::vector<std::vector<CellIndex>>> lower_;
    std::size_t position_ = 0;
    RankedWalk walk_;
    Domain walked_;

    RankedWalk domain_walk_;
    PhysicalWalk physical_walk_;
    std::vector<Domain> domains_;  // sorted, when not ranked
    std::size_t domain_position_ = 0;
    int domain_level_ = 0;
    int last_level_ = 0;
    bool whole_left_ = false;
    bool lower_roots_ = false;
    bool walking_domains_ = false;

    LeafChoice leaves_;
    std::vector<CellIndex> chosen_leaves_;
    std::vector<bool> planned_;
    std::vector<Unit> gathered_;

    // The choice under way: units, each with the leaves it gives, and per pod its unit.
    std::vector<Unit> chosen_;
    std::vector<std::uint64_t> given_;
    std::vector<std::int32_t> unit_of_;
    std::vector<Demand> together_;
    std::vector<std::int32_t> places_;
    std::vector<std::uint32_t> next_pods_;
};

}  // namespace hivecore::cells
