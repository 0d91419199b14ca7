#include "cells/group_scheduler.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace hivecore::cells {

namespace {

constexpr int kMostLooks = 4;            // at what is planned when the victims have gone
constexpr std::size_t kMostRefused = 8;  // ways that are not taken again then

}  // namespace

void GroupScheduler::schedule(const Request& request, Plan& plan) {
    const std::int32_t instance = request.priority < 0 ? -1
                                  : request.pin >= 0
                                      ? virtual_cells().pool(request.pin).instance
                                      : virtual_cells().instance_of(request.vc, request.chain);
    const std::uint64_t leaves = instance < 0
                                     ? virtual_cells().physical(request.chain).shape().size[0]
                                     : virtual_cells().instance(instance).leaves;
    plan.vc = request.vc;
    plan.priority = request.priority;
    plan.outcome = PlanOutcome::wait;
    std::uint64_t total = 0;
    for (const std::int64_t size : request.sizes) {
        total += static_cast<std::uint64_t>(size);
        if (total > leaves) {
            plan.reason = request.has_units ? PlanReason::policy : PlanReason::capacity;
            return;
        }
    }
    task_ = Task{};
    task_.instance = instance;
    task_.total = total;
    refused_.clear();
    prepare(request);
    try {
        if (!first_success(request)) {
            plan.reason = reason();
        } else if (!make_lasting(request)) {
            plan.reason = reason_without_;
        } else {
            write(request, plan);
        }
    } catch (...) {  // out of memory
        unwind();
        throw;
    }
}

// The first attempt that finds a way takes it.
bool GroupScheduler::first_success(const Request& request) {
    downgrades_.clear();
    budget_ = kSearchLimit;
    cut_short_ = false;
    failures_ = 0;
    if (request.priority < 0 ? plan_opportunistic() : attempt(Reach::opportunistic)) {
        return true;
    }
    if (request.priority >= 0 && request.merge && mergeable(request)) {
        if (merged() && !has_too_many() && !is_refused()) {
            return true;
        }
        unit_choice_.start(task_, Reach::opportunistic, may_rank());
    }
    return may_preempt() && attempt(Reach::guaranteed);
}

// Goes on to a way that is taken again when its victims have gone, if a few tries find one. Where
// guaranteed groups leave or lose their cells, attempt 1 may find some that pack better than
// theirs, and groups that are downgraded may be promoted to theirs. False: so many would be that
// there is no way even when all possible victims have gone.
bool GroupScheduler::make_lasting(const Request& request) {
    const std::vector<Handle> victims = victims_of(placed_);
    const bool guaranteed = std::any_of(victims.begin(), victims.end(), [&](Handle victim) {
        return groups_.group(victim).guaranteed;
    });
    const bool is_sure = task_.evictions != Evictions::alone && !guaranteed &&
                         !groups_.any_is_downgraded() && downgrades_.empty();
    if (victims.empty() || is_sure) {
        return true;
    }
    const auto searched = std::pair(budget_, cut_short_);
    Way first = way();
    do {
        std::vector<Handle> now = victims_of(placed_);
        if (lasts(request)) {
            std::tie(budget_, cut_short_) = searched;
            return true;
        }
        refused_.push_back(std::move(now));
    } while (refused_.size() < kMostRefused && first_success(request));
    if (!found_without(request, groups_.preemptible(task_.instance, task_.priority)) &&
        reason_without_ != PlanReason::search_limit) {
        return false;
    }
    take(std::move(first));
    std::tie(budget_, cut_short_) = std::pair(searched.first, true);
    return true;
}

// Whether this way, or what is planned when its victims have gone, is taken again then; goes on to
// that one.
bool GroupScheduler::lasts(const Request& request) {
    const auto earlier = [&](Handle a, Handle b) {
        return groups_.group(a).sequence < groups_.group(b).sequence;
    };
    Way now = way();
    Way lasting;
    std::vector<Handle> victims = victims_of(placed_);
    for (int look = 0; look < kMostLooks && found_without(request, victims); ++look) {
        std::vector<Handle> again = victims_of(placed_);
        if (std::includes(victims.begin(), victims.end(), again.begin(), again.end(), earlier)) {
            if (again == victims && look != 0) {
                now = way();
            }
            if (look == 0 || reservable(now)) {
                lasting = std::move(now);
            }
        } else if (!lasting.placed.empty()) {
            break;
        }
        if (again == victims) {
            break;
        }
        now = way();
        victims = std::move(again);
    }
    if (lasting.placed.empty()) {
        return false;
    }
    take(std::move(lasting));
    return true;
}

// Whether the way that was found last has more pods on a node than that may get.
bool GroupScheduler::has_too_many() {
    if (task_.most.empty()) {
        return false;
    }
    const PhysicalCells& physical = virtual_cells().physical(task_.chain);
    pods_on_.assign(task_.most.size(), 0);
    return std::ranges::any_of(first_, [&](std::uint64_t first) {
        const CellIndex leaf = placed_[first].leaf - groups_.first_leaf(task_.chain);
        const CellIndex node = physical.shape().ancestor(0, leaf, physical.node_level());
        return ++pods_on_[node] > task_.most[node];
    });
}

// Whether the way that was found last is known not to last.
bool GroupScheduler::is_refused() const {
    return base_ == 0 && !refused_.empty() &&
           std::find(refused_.begin(), refused_.end(), victims_of(placed_)) != refused_.end();
}

// Whether there is a way when these have gone, one after the other.
bool GroupScheduler::found_without(const Request& request, std::span<const Handle> victims) {
    groups_.lift(victims);
    base_ = virtual_cells().journal_size();
    const bool has_way = first_success(request);
    reason_without_ = has_way ? PlanReason::none : reason();
    unwind();
    return has_way;
}

// Makes the state what it was before it was planned in.
void GroupScheduler::unwind() {
    base_ = 0;
    cell_mapping_.forget();
    foresight_.unbind();
    groups_.virtual_cells().undo(0);
    groups_.put_back();
}

// Whether a way that was found without its victims can be had now: as it is, or over the virtual
// leaves that they hold; it gets those.
bool GroupScheduler::reservable(Way& way) {
    std::erase_if(way.downgrades, [&](Handle handle) { return !groups_.group(handle).guaranteed; });
    downgrade(way.downgrades);
    const std::uint32_t first = groups_.first_leaf(task_.chain);
    const PhysicalCells& physical = virtual_cells().physical(task_.chain);
    const std::size_t downgraded = virtual_cells().journal_size();
    const bool as_it_is =
        std::all_of(way.placed.begin(), way.placed.end(), [&](const Placed& placed) {
            return groups_.virtual_cells().book(placed.held, placed.leaf - first);
        });
    if (as_it_is) {
        groups_.virtual_cells().undo(0);
        return true;
    }
    groups_.virtual_cells().undo(downgraded);
    const bool all = std::all_of(way.placed.begin(), way.placed.end(), [&](Placed& placed) {
        const CellIndex leaf = placed.leaf - first;
        if (!virtual_leaf(leaf, placed.held.pool, placed.held)) {
            return false;
        }
        if (physical.holding(leaf) == Holding::virtually) {
            groups_.virtual_cells().drop(task_.chain, leaf, Holding::none);
        }
        return groups_.virtual_cells().book(placed.held, leaf);
    });
    groups_.virtual_cells().undo(0);
    return all;
}

// The virtual leaf that holds the leaf, or one in the root around it, or in a new root.
bool GroupScheduler::virtual_leaf(CellIndex leaf, std::int32_t pool, VirtualLeaf& held) const {
    const PhysicalCells& physical = virtual_cells().physical(task_.chain);
    if (physical.holding(leaf) == Holding::virtually) {
        held = virtual_cells().booked_at(task_.chain, leaf);
        return virtual_cells().pool(held.pool).instance == task_.instance;
    }
    CellIndex cell = leaf;
    for (int level = 0; level < physical.shape().levels; ++level) {
        if (physical.state(level, cell) == CellState::root) {
            const PhysicalCells::Cell& root = physical.cell(level, cell);
            held = virtual_cells().virtual_leaf(root.pool, level, root.partner, leaf);
            return virtual_cells().pool(root.pool).instance == task_.instance;
        }
        cell /= level == physical.shape().top() ? 1 : physical.shape().fanout[level];
    }
    const IndexSet& roots = virtual_cells().pool(pool).free_roots;
    if (roots.empty()) {
        return false;
    }
    held = virtual_cells().virtual_leaf(pool, virtual_cells().pool(pool).level,
                                        static_cast<CellIndex>(roots.first()), leaf);
    return true;
}

void GroupScheduler::prepare(const Request& request) {
    const std::size_t pods = request.sizes.size();
    demands_.resize(pods);
    first_.resize(pods);
    std::uint64_t before = 0;
    bool sorted = true;
    for (std::size_t pod = 0; pod < pods; ++pod) {
        const std::int32_t within = request.within.empty() ? -1 : request.within[pod];
        demands_[pod] = {static_cast<CellIndex>(request.sizes[pod]), within,
                         static_cast<std::int32_t>(pod)};
        task_.constrained |= within >= 0;
        sorted = sorted && (pod == 0 || demands_[pod - 1].leaves <= demands_[pod].leaves);
        first_[pod] = before;
        before += demands_[pod].leaves;
    }
    if (!sorted) {
        std::sort(demands_.begin(), demands_.end(), [](const Demand& a, const Demand& b) {
            return a.leaves != b.leaves ? a.leaves < b.leaves : a.position < b.position;
        });
    }
    suggested_.clear();
    if (request.has_suggested) {
        const PhysicalCells& physical = virtual_cells().physical(request.chain);
        suggested_.assign(physical.shape().size[physical.node_level()], 0);
        for (const CellIndex node : request.suggested) {
            suggested_[node] = 1;
        }
    }
    if (std::ranges::any_of(request.most, [&](auto most) { return most < demands_.size(); })) {
        suggested_.resize(request.most.size(), request.has_suggested ? 0 : 1);
        for (std::size_t node = 0; node < suggested_.size(); ++node) {
            suggested_[node] &= request.most[node] > 0 ? 1 : 0;
            task_.most_of_any =
                std::max(task_.most_of_any, suggested_[node] != 0 ? request.most[node] : 0);
        }
        task_.most = request.most;
        task_.constrained = true;
    }
    task_.chain = request.chain;
    task_.priority = request.priority;
    task_.spread = request.spread;
    task_.evictions = request.evictions;
    task_.group_within = request.group_within;
    task_.constrained |= request.group_within >= 0;
    task_.pods = demands_;
    task_.suggested = suggested_;
    if (request.has_units) {
        task_.units = request.units;
    }
    placed_.resize(task_.total);
}

// Whether groups of lower priority hold anything, and enough of it that preempting them could help.
bool GroupScheduler::may_preempt() const {
    if (task_.instance < 0) {
        return false;
    }
    std::uint64_t leaves = groups_.held_below(task_.instance, task_.priority);
    if (leaves == 0) {
        return false;
    }
    for (const std::int32_t pool : virtual_cells().instance(task_.instance).pools) {
        leaves += virtual_cells().pool(pool).available;
    }
    return leaves >= task_.total;
}

PlanReason GroupScheduler::reason() {
    if (budget_ == 0 || cut_short_) {
        return PlanReason::search_limit;
    }
    if (failures_ != 0) {
        return PlanReason::mapping;
    }
    if (!task_.units.empty()) {
        return PlanReason::policy;
    }
    return unit_choice_.available() >= task_.total ? PlanReason::fragmented : PlanReason::capacity;
}

void GroupScheduler::write(const Request& request, Plan& plan) const {
    plan.pods = static_cast<std::int32_t>(request.sizes.size());
    plan.leaves = placed_;
    plan.downgrades = downgrades_;
    plan.victims = victims_of(placed_);
    for (const Placed& placed : placed_) {
        if (const Handle reserver = groups_.reserver(placed.leaf); reserver != kNoGroup) {
            plan.cancels.push_back(reserver);
        }
    }
    groups_.sort_by_sequence(plan.cancels);
    for (const auto* handles : {&plan.downgrades, &plan.cancels}) {
        for (const Handle handle : *handles) {
            plan.stamps.push_back(groups_.group(handle).sequence);
        }
    }
    plan.outcome = plan.victims.empty() ? PlanOutcome::bind : PlanOutcome::preempt;
    const bool exceeded = budget_ == 0 || cut_short_;
    plan.reason = !plan.victims.empty() && exceeded ? PlanReason::search_limit : PlanReason::none;
}

// --- opportunistic work: nothing has to be mapped

bool GroupScheduler::plan_opportunistic() {
    unit_choice_.start(task_, Reach::idle, true);
    unit_choice_.start_domains();
    Domain domain;
    while (unit_choice_.next_domain(domain)) {
        if (!unit_choice_.choose(domain, budget_, choice_)) {
            continue;
        }
        const std::uint32_t first_leaf = groups_.first_leaf(task_.chain);
        for (std::size_t number = 0; number < choice_.units.size(); ++number) {
            unit_choice_.look_into(leaves_, unit_choice_.unit_level(-1),
                                   choice_.units[number].cell);
            chosen_.clear();
            leaves_.take_all(choice_.pods_of(number), task_.group_within, chosen_);
            std::size_t next = 0;
            for (const Demand& pod : choice_.pods_of(number)) {
                const auto position = static_cast<std::size_t>(pod.position);
                for (CellIndex slot = 0; slot < pod.leaves; ++slot, ++next) {
                    placed_[first_[position] + slot] = {
                        first_leaf + chosen_[next], pod.position, {-1, 0}};
                }
            }
        }
        return true;
    }
    return false;
}

}  // namespace hivecore::cells
