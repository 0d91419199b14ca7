// HiveD's scheduler of affinity groups (gangs) on virtual and physical cells (OSDI'20, sections
// 3-5).
//
// From the ground up, each with its idea at the head of its file:
//
//     physical_cells, ranked_cells    the cells of a chain: free lists, loads, health, S >= 0
//     virtual_cells                   those of the tenants and their bindings, with a journal
//     groups, recovery                groups, users, reservers, guarantees; mutators
//     planning/walks, unit_choice, exact_search, confined, packing, foresight
//                                     which units, within which cells
//     planning/cell_mapping, leaf_choice, occupants, sibling_merge
//                                     which physical cells and leaves, and the victims there
//     planning/attempt, room          which way is taken
//
// `schedule` is pure: it plans on the state itself and undoes what it did. Attempt 1 takes nothing
// from guaranteed groups; then sibling cells below node level may be merged, if that is asked for;
// then attempt 2 preempts groups of lower priority in the same virtual cells, downgrading the lazy
// ones.
//
// An attempt takes the first way in the order of packing if it has no victims. Otherwise it looks
// for one on idle leaves alone, and if there is none for the one that does the least harm, in both
// cases among those that pack as well (planning/attempt.cpp).
//
// Costs for p pods of g leaves in all: a plan O(p * pools + g * levels) on the usual way, whatever
// the size of the cluster. At worst linear in the tenant's units: where the first way has victims
// or could not be mapped, in preemption and merging, and on nodes of more than 127 leaves for
// opportunistic work; a gang with foresight O(p * cells of the chain), and where it has victims
// some dozen times that, at worst some thousand times. Suggested nodes cost O(their number).
// Mutators: O(g * levels), the cells above node level of a root that is bound or unbound, and
// O(leaves of all downgraded groups) where cells may have become free.
//
// Levels, cells, chains, tenants and pools are numbered from 0; leaves are counted over all chains.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "cells/groups.hpp"
#include "cells/plan.hpp"
#include "cells/planning/cell_mapping.hpp"
#include "cells/planning/foresight.hpp"
#include "cells/planning/occupants.hpp"
#include "cells/planning/unit_choice.hpp"
#include "cells/virtual_cells.hpp"

namespace hivecore::cells {

class Room;

struct UnitView {
    std::int32_t pool;
    CellIndex index;
    CellIndex leaves;
    CellIndex available;
    CellIndex used;
    std::int64_t node;  // -1: not bound
};

struct Doomed {
    std::int32_t level;
    std::int32_t vc;
    std::int64_t count;
};

class GroupScheduler {
  public:
    // Throws std::invalid_argument when what is owned does not fit, see VirtualCells.
    GroupScheduler(std::span<const ChainSpec> chains, std::int32_t tenants,
                   std::span<const PoolSpec> pools)
        : groups_(VirtualCells(chains, tenants, pools)) {}
    // In the same state, without its marks.
    GroupScheduler(const GroupScheduler& other) : groups_(other.groups_) { groups_.keep(); }
    GroupScheduler& operator=(const GroupScheduler&) = delete;

    Groups& groups() { return groups_; }
    const Groups& groups() const { return groups_; }
    const VirtualCells& virtual_cells() const { return groups_.virtual_cells(); }

    // The request is in range.
    void schedule(const Request& request, Plan& plan);

    // The units that a request may use, as policies number them.
    std::int64_t unit_count(std::int32_t instance) const;
    std::vector<UnitView> units(std::int32_t instance);
    // Unbound roots for which no healthy hardware is left, all tenants counted together.
    std::vector<Doomed> doomed(std::int32_t chain) const;
    // Whether the group's leaves are healthy and on allowed nodes; per chain flags, empty: all.
    bool placement_good(Handle handle, std::span<const std::vector<std::uint8_t>> allowed) const;

    // Empty when all invariants hold, else what is wrong. O(cells * levels).
    std::string audit() const;
    std::uint64_t bytes() const { return groups_.bytes() + sizeof(*this); }

  private:
    struct Way {
        std::vector<Placed> placed;
        std::vector<Handle> downgrades;
    };
    // What lazy groups hold that a unit is taken from, and the anchors of those that it was tried
    // for.
    struct LazySet {
        std::vector<std::uint32_t> leaves;                     // ascending
        std::vector<std::pair<std::int32_t, CellIndex>> held;  // (pool, leaf of it), ascending
        std::set<std::tuple<std::int32_t, int, CellIndex>> tried;
    };

    void prepare(const Request& request);
    bool first_success(const Request& request);
    bool make_lasting(const Request& request);
    bool lasts(const Request& request);
    bool is_refused() const;
    bool has_too_many();
    bool found_without(const Request& request, std::span<const Handle> victims);
    void unwind();
    bool reservable(Way& way);
    bool virtual_leaf(CellIndex leaf, std::int32_t pool, VirtualLeaf& held) const;
    bool plan_opportunistic();
    // Whether the rankings are up to date.
    bool may_rank() const { return base_ == 0; }
    bool attempt(Reach reach);
    Way way() const;
    void take(Way way);
    void spare(Reach reach, const Room& room, Way& best, Harm& least);
    void try_victims(Reach reach, const Room& room, Way& best, Harm& least);
    void start_ways(Reach reach, const std::vector<Handle>* victims = nullptr,
                    const Harm* least = nullptr);
    bool next_way();
    bool next_packing();
    bool next_gentler(Harm& least);
    bool next_single();
    void map_single(const Unit& unit);
    LazySet& lazy_set();
    bool stays_bound(const LazySet& lazy, std::int32_t pool, int level, CellIndex index) const;
    std::tuple<std::int32_t, int, CellIndex> anchor_without(const LazySet& lazy,
                                                            const Unit& unit) const;
    void list_unbound(const Unit& unit);
    bool next_gang();
    void start_gangs();
    bool is_new(std::int32_t pool, int level, CellIndex index);
    bool mapped();
    bool maps();
    std::int64_t opened() const;
    std::vector<Handle> harmed_by(const Way& way) const;
    std::uint64_t idle_beside() const;
    std::uint64_t newly_bound_bad() const;
    void downgrade(std::span<const Handle> handles);
    std::vector<Handle> victims_of(std::span<const Placed> leaves) const;
    Harm harm() const;
    bool may_preempt() const;
    void find_downgrades();
    bool mergeable(const Request& request) const;
    bool merged();
    bool merge_one(const Task& alone, const Demand& pod);
    bool merge_in(int level, CellIndex cell, const Demand& pod);
    void write(const Request& request, Plan& plan) const;
    PlanReason reason();

    Groups groups_;

    // Of the request under way.
    UnitChoice unit_choice_{groups_};
    CellMapping cell_mapping_{groups_, unit_choice_};
    Task task_;
    std::vector<Demand> demands_;
    std::vector<std::uint8_t> suggested_;
    std::vector<CellIndex> pods_on_;  // nodes
    std::vector<std::uint64_t> first_;
    std::vector<Placed> placed_;
    std::vector<Handle> downgrades_;
    Choice choice_;
    LeafChoice leaves_;
    Occupants occupants_;
    std::vector<CellIndex> chosen_;
    std::size_t base_ = 0;  // of the journal: what is before was done by looking without victims
    std::vector<std::vector<Handle>> refused_;      // victims of ways that would not last
    PlanReason reason_without_ = PlanReason::none;  // why nothing was found without some
    bool cut_short_ = false;  // a search had a limit of its own, and reached it

    // The way that was found last is in `placed_` and `downgrades_`; how well it packs, less is
    // better, and where to go on.
    std::int64_t packing_ = 0;
    std::int64_t limit_ = 0;
    bool keeps_ = false;          // all ways are those to map one choice
    bool kept_left_ = false;      // which has not been tried
    Choice kept_;                 // that one
    std::uint64_t most_bad_ = 0;  // leaves in cells that a way may bind
    bool single_ = false;
    const Harm* least_ = nullptr;
    std::vector<CellIndex> cells_;  // of the unit
    std::vector<Way> ready_;        // of the unit, to be taken from the back
    std::map<std::vector<Handle>, LazySet> lazy_sets_;
    std::vector<std::uint64_t> seen_;
    std::vector<std::pair<std::int64_t, Choice>> offers_;  // with the idle units that each opens
    std::size_t next_offer_ = 0;
    int way_level_ = -1;
    bool collecting_ = false;
    bool domains_left_ = false;
    bool has_next_domain_ = false;
    Domain next_domain_;
    std::uint64_t failures_before_ = 0;
    bool foresees_ = false;
    Foresight foresight_;

    std::int64_t budget_ = 0;
    std::uint64_t failures_ = 0;  // choices that could not be mapped
};

}  // namespace hivecore::cells
