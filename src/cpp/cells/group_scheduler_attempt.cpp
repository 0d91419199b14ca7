// Guaranteed work: ways to place a group, in the order of packing, and which of them is taken.
//
// A single pod can go into every unit that takes it; the order is theirs, and of units that can be
// bound to the same physical cells one is enough. A gang can go into every domain, level by level;
// those of a level come by the idle units that they open, then in their own order. Where it is
// known how few a domain can open, those that do are tried at once, without a look at the others.
//
// A way that harms nobody is taken. If the first one harms somebody, a way on idle leaves alone is
// sought, then the one of the least harm; neither may pack worse than the first, unless the request
// wants the least evictions. So a tenant's nodes are packed as in a cluster of its own, whoever
// else is there.
#include <algorithm>
#include <limits>

#include "cells/group_scheduler.hpp"

namespace hivecore::cells {

bool GroupScheduler::attempt(Reach reach) {
    start_ways(reach);
    if (!next_way()) {
        return false;
    }
    Harm least = harm();
    if (least == Harm{}) {
        return true;
    }
    const std::int64_t limit =
        task_.least_evictions ? std::numeric_limits<std::int64_t>::max() : packing_;
    std::vector<Placed> best = placed_;
    std::vector<Handle> downgrades = downgrades_;
    if (reach == Reach::opportunistic) {
        start_ways(Reach::idle);
        while (next_way() && !(single_ && packing_ > limit)) {
            if (packing_ <= limit) {
                return true;
            }
        }
    }
    start_ways(reach);
    while (next_way() && !(single_ && packing_ > limit)) {
        if (const Harm now = harm(); packing_ <= limit && now < least) {
            least = now;
            best = placed_;
            downgrades = downgrades_;
        }
    }
    placed_ = std::move(best);
    downgrades_ = std::move(downgrades);
    return true;
}

void GroupScheduler::start_ways(Reach reach) {
    const std::size_t leaves = pools().tree(task_.chain).shape().size[0];
    if (reach == Reach::guaranteed && chooser_.planned().size() != leaves) {
        chooser_.planned().assign(leaves, false);  // no leaf is marked between attempts
    }
    chooser_.start(task_, reach, true);
    seen_.clear();
    single_ = task_.pods.size() == 1 && task_.group_within < 0 && task_.units.empty();
    if (single_) {
        chooser_.start_takers();
        return;
    }
    failures_before_ = failures_;
    foresees_ = reach == Reach::idle && task_.units.empty();
    if (foresees_) {
        foresight_.start(groups_.pools(), chooser_, task_);
    }
    start_gangs();
    domains_left_ = !foresees_;
}

void GroupScheduler::start_gangs() {
    chooser_.start_domains();
    offers_.clear();
    next_offer_ = 0;
    collecting_ = false;
    domains_left_ = true;
    has_next_domain_ = false;
}

// The usual ways first; where some could not be mapped, those with foresight. On idle leaves alone
// few cells are whole: there a gang needs foresight at once.
bool GroupScheduler::next_way() {
    if (single_) {
        return next_single();
    }
    if (next_gang()) {
        return true;
    }
    if (!foresees_) {
        if (!task_.units.empty() || failures_ == failures_before_) {
            return false;
        }
        foresees_ = true;
        foresight_.start(groups_.pools(), chooser_, task_);
    }
    while (foresight_.look()) {
        chooser_.start(task_, chooser_.reach(), false, &foresight_);
        start_gangs();
        if (next_gang()) {
            return true;
        }
    }
    return false;
}

// Whether no virtual cell that is bound to nothing and alike has been tried.
bool GroupScheduler::is_new(std::int32_t pool, int level, CellIndex index) {
    if (chooser_.foresees() || pools().is_bound(pool, level, index)) {
        return true;
    }
    const Anchor kind = chooser_.alike(pool, level, index);
    if (std::find(seen_.begin(), seen_.end(), kind) != seen_.end()) {
        return false;
    }
    seen_.push_back(kind);
    return true;
}

bool GroupScheduler::next_single() {
    Unit unit;
    while (chooser_.next_taker(unit)) {
        if (!is_new(unit.pool, chooser_.unit_level(unit.pool), unit.index)) {
            continue;
        }
        chooser_.choose_one(unit, choice_);
        int failed = -1;
        if (mapped(failed)) {
            packing_ = task_.spread ? unit.used : -std::int64_t{unit.used};
            return true;
        }
    }
    return false;
}

// The idle units of the choice, so that less is better.
std::int64_t GroupScheduler::opened() const {
    const auto idle = std::count_if(choice_.units.begin(), choice_.units.end(),
                                    [](const Unit& unit) { return unit.used == 0; });
    return task_.spread ? -idle : idle;
}

bool GroupScheduler::next_gang() {
    const std::uint64_t node = chooser_.width(-1);
    const bool whole_nodes =
        task_.pods.front().leaves == node && !task_.spread && chooser_.reach() != Reach::guaranteed;
    const std::int64_t fewest = whole_nodes ? std::ssize(task_.pods) : 0;
    for (;;) {
        while (!collecting_ && next_offer_ < offers_.size()) {
            if (in_domain(offers_[next_offer_++].second)) {
                return true;
            }
        }
        if (!domains_left_) {
            return false;
        }
        if (!collecting_) {
            offers_.clear();
            next_offer_ = 0;
            seen_.clear();
            way_level_ = -1;
            collecting_ = true;
        }
        while (collecting_) {
            if (!has_next_domain_ && !chooser_.next_domain(next_domain_)) {
                domains_left_ = false;
                collecting_ = false;
                break;
            }
            const Domain& domain = next_domain_;
            const int level = domain.whole ? kMaxLevels : chooser_.domain_level();
            if (way_level_ >= 0 && level != way_level_) {
                has_next_domain_ = true;
                collecting_ = false;
                break;
            }
            has_next_domain_ = false;
            way_level_ = level;
            if (!domain.whole &&
                !is_new(domain.pool, std::min<int>(level, pools().pool(domain.pool).level),
                        domain.cell)) {
                continue;
            }
            if (!chooser_.choose(domain, {}, budget_, choice_)) {
                continue;
            }
            const std::int64_t idle = opened();
            if (idle == fewest && !task_.spread) {
                const Domain found = domain;
                if (in_domain(found)) {
                    return true;
                }
            } else {
                offers_.emplace_back(idle, domain);
            }
        }
        std::stable_sort(offers_.begin(), offers_.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
    }
}

bool GroupScheduler::in_domain(const Domain& domain) {
    Limits limits;
    while (chooser_.choose(domain, limits, budget_, choice_)) {
        int failed = -1;
        if (mapped(failed)) {
            packing_ = opened();
            return true;
        }
        if (!task_.units.empty()) {
            return false;
        }
        revise(limits, static_cast<std::size_t>(failed));
    }
    return false;
}

// Maps the choice and takes the bookings back; `failed`: the first unit of those that could not be.
bool GroupScheduler::mapped(int& failed) {
    if (chooser_.reach() == Reach::guaranteed) {
        find_downgrades();
        for (const Handle handle : downgrades_) {
            for (const Placed& placed : groups_.leaves(handle)) {
                if (groups_.reserver(placed.leaf) == kNoGroup) {
                    const std::int32_t chain = pools().pool(placed.held.pool).chain;
                    groups_.pools().drop(chain, placed.leaf - groups_.first_leaf(chain),
                                         Holding::opportunistic);
                }
            }
        }
    }
    mapper_.start(task_, first_, placed_, groups_.first_leaf(task_.chain), budget_);
    failed = mapper_.map(choice_);
    groups_.pools().undo(0);
    mapper_.forget();
    if (failed >= 0) {
        ++failures_;
        downgrades_.clear();
    }
    return failed < 0;
}

// What the way that was found last does to others.
Harm GroupScheduler::harm() const {
    std::vector<Handle> evicted;
    for (const Placed& placed : placed_) {
        const Handle user = groups_.user(placed.leaf);
        if (user != kNoGroup && (evicted.empty() || evicted.back() != user)) {
            evicted.push_back(user);
        }
    }
    groups_.sort_by_sequence(evicted);
    std::vector<Handle> guaranteed = downgrades_;
    Harm sum{0, 0, evicted.size()};
    for (const Handle handle : evicted) {
        sum[1] += groups_.leaves(handle).size();
        if (groups_.group(handle).by_right) {
            guaranteed.push_back(handle);
        }
    }
    groups_.sort_by_sequence(guaranteed);
    for (const Handle handle : guaranteed) {
        sum[0] += groups_.leaves(handle).size();
    }
    return sum;
}

// Allows one unit less in the anchor of the first unit that could not be mapped. An unbound root is
// like any other of its pool, but for those that were mapped before it.
void GroupScheduler::revise(Limits& limits, std::size_t failed) const {
    std::vector<Anchor> anchors;
    for (const Unit& unit : choice_.units) {
        anchors.push_back(chooser_.anchor(unit));
    }
    const Anchor anchor = anchors[failed];
    const auto used = std::count(anchors.begin(), anchors.end(), anchor);
    const auto fewer = static_cast<std::uint32_t>(used - 1);
    const auto before = anchors.begin() + static_cast<std::ptrdiff_t>(failed);
    limits.lower(anchor, fewer);
    if ((anchor & kFreeRoot) != 0) {
        limits.lower_roots(pool_of(anchor), fewer, std::set<Anchor>(anchors.begin(), before));
    }
}

// The lazy groups that the choice would preempt.
void GroupScheduler::find_downgrades() {
    downgrades_.clear();
    for (std::size_t number = 0; number < choice_.units.size(); ++number) {
        const Unit& unit = choice_.units[number];
        if (unit.cell == kNoCell) {
            continue;
        }
        chooser_.look_into(leaves_, chooser_.unit_level(unit.pool), unit.cell);
        chosen_.clear();
        leaves_.take_all(choice_.pods_of(number), task_.group_within, chosen_);
        for (const CellIndex leaf : chosen_) {
            if (chooser_.leaf_class(leaf) == 2) {
                const Handle holder = groups_.holder(groups_.first_leaf(task_.chain) + leaf);
                if (groups_.group(holder).lazy && !groups_.group(holder).preempting) {
                    downgrades_.push_back(holder);
                }
            }
        }
    }
    groups_.sort_by_sequence(downgrades_);
}

}  // namespace hivecore::cells
