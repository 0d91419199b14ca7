// Guaranteed work: ways to place a group, in the order of packing, and which of them is taken.
//
// A single pod can go into every unit that takes it; the order is theirs, and of units that can be
// bound to the same physical cells one is enough. A gang can go into every domain, level by level;
// those of a level come by the idle units that they open, then in their own order. Where it is
// known how few a domain can open, those that do are tried at once, without a look at the others.
//
// A way without victims is taken. If the first one has some, a way on idle leaves alone is
// sought, at first one that packs as well, which is to open no more idle units; then the way of the
// least harm, which has to pack as well unless the request wants the least evictions. A request as
// if alone stays in the very units of the first way: only where those that are bound to nothing go
// depends on other groups. For a single pod this looks at every cell; for a gang the victims of the
// best way are spared one by one, and then cheaper sets of victims are tried, within limits.
#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "cells/group_scheduler.hpp"
#include "cells/planning/room.hpp"

namespace hivecore::cells {

namespace {

constexpr int kMostSets = 1024;              // of victims that are weighed for a gang
constexpr CellIndex kMostTries = 32;         // of these, to place it
constexpr CellIndex kMostLeaves = 1U << 17;  // of the chain, for all tries together

}  // namespace

bool GroupScheduler::attempt(Reach reach) {
    keeps_ = false;
    start_ways(reach);
    if (!next_way()) {
        return false;
    }
    Harm least = harm();
    if (least == Harm{}) {
        return true;
    }
    constexpr auto kAny = std::numeric_limits<std::int64_t>::max();
    const std::int64_t as_well = task_.evictions == Evictions::least ? kAny : packing_;
    Way best = way();
    if (task_.evictions == Evictions::alone && reach == Reach::opportunistic) {
        keeps_ = true;
        kept_ = choice_;
        most_bad_ = newly_bound_bad();
    }
    std::uint64_t idle = idle_beside();
    if (reach == Reach::opportunistic) {
        for (const std::int64_t limit : {as_well, kAny}) {
            limit_ = limit;
            start_ways(Reach::idle);
            if (next_packing()) {
                return true;
            }
        }
    }
    limit_ = as_well;
    start_ways(reach, nullptr, &least);
    while (next_packing()) {
        if (const auto now = std::tuple(harm(), idle_beside()); now < std::tie(least, idle)) {
            std::tie(least, idle) = now;
            best = way();
        }
    }
    if (!single_ && task_.units.empty()) {
        unit_choice_.start(task_, reach, may_rank());
        const Room room(groups_, unit_choice_, task_);
        spare(reach, room, best, least);
        try_victims(reach, room, best, least);
    }
    take(std::move(best));
    return true;
}

GroupScheduler::Way GroupScheduler::way() const {
    return {placed_, downgrades_};
}

void GroupScheduler::take(Way way) {
    placed_ = std::move(way.placed);
    downgrades_ = std::move(way.downgrades);
}

// The leaves that are left idle in the cell of a single pod's unit.
std::uint64_t GroupScheduler::idle_beside() const {
    if (!single_) {
        return 0;
    }
    const std::uint32_t first = groups_.first_leaf(task_.chain);
    const int level = unit_choice_.unit_level(placed_.front().held.pool);
    const Shape& shape = virtual_cells().physical(task_.chain).shape();
    std::uint64_t idle =
        unit_choice_.idle_in(level, shape.ancestor(0, placed_.front().leaf - first, level));
    for (const Placed& placed : placed_) {
        idle -= groups_.holder(placed.leaf) == kNoGroup;
    }
    return idle;
}

// The bad leaves in the cells that the way that was found last would bind, with all in them.
std::uint64_t GroupScheduler::newly_bound_bad() const {
    const PhysicalCells& physical = virtual_cells().physical(task_.chain);
    const Shape& shape = physical.shape();
    std::set<std::pair<int, CellIndex>> counted;
    std::uint64_t bad = 0;
    for (const Placed& placed : placed_) {
        const auto& [pool, held] = placed.held;
        int level = virtual_cells().pool(pool).level;
        while (level > 0 && virtual_cells().is_bound(pool, level, held / shape.leaves[level])) {
            --level;
        }
        const CellIndex leaf = placed.leaf - groups_.first_leaf(task_.chain);
        const CellIndex cell = leaf / shape.leaves[level];
        if (counted.emplace(level, cell).second) {
            bad += physical.cell(level, cell).bad;
        }
    }
    return bad;
}

// The next way that packs well enough.
bool GroupScheduler::next_packing() {
    while (next_way()) {
        if (packing_ <= limit_ && (!keeps_ || newly_bound_bad() <= most_bad_)) {
            return true;
        }
        if (single_ && packing_ > limit_) {  // they come in the order of packing
            return false;
        }
    }
    return false;
}

// The next one that does less harm than this.
bool GroupScheduler::next_gentler(Harm& least) {
    while (next_packing()) {
        if (const Harm now = harm(); now < least) {
            least = now;
            return true;
        }
    }
    return false;
}

// Goes on to ways that need all of their victims; the dearest are spared first.
void GroupScheduler::spare(Reach reach, const Room& room, Way& best, Harm& least) {
    CellIndex tries = kMostTries;
    for (bool spared = true; spared;) {
        std::vector<Handle> harmed = harmed_by(best);
        occupants_.start(groups_, unit_choice_, {});
        std::stable_sort(harmed.begin(), harmed.end(), [&](Handle a, Handle b) {
            return occupants_.price(a) > occupants_.price(b);
        });
        spared = std::any_of(harmed.begin(), harmed.end(), [&](Handle handle) {
            std::vector<Handle> others = harmed;
            std::erase(others, handle);
            std::sort(others.begin(), others.end());
            if (!room.may_suffice(others)) {
                return false;
            }
            if (tries == 0) {
                cut_short_ = true;
                return false;
            }
            --tries;
            start_ways(reach, &others);
            return next_gentler(least);
        });
        if (spared) {
            best = way();
        }
    }
}

// Sets of victims, the cheapest first, while they are cheaper than the best way.
void GroupScheduler::try_victims(Reach reach, const Room& room, Way& best, Harm& least) {
    using Entry = std::pair<Harm, std::vector<std::size_t>>;
    std::vector<Handle> order = room.groups();
    groups_.sort_by_sequence(order);
    occupants_.start(groups_, unit_choice_, {});
    std::stable_sort(order.begin(), order.end(),
                     [&](Handle a, Handle b) { return occupants_.price(a) < occupants_.price(b); });
    std::vector<Harm> prices;
    for (const Handle handle : order) {
        prices.push_back(occupants_.price(handle));
    }
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    const auto add = [&](std::vector<std::size_t> chosen) {
        Harm sum{};
        for (const std::size_t place : chosen) {
            sum = sum + prices[place];
        }
        queue.emplace(sum, std::move(chosen));
    };
    if (!order.empty()) {
        add({0});
    }
    const CellIndex leaves = virtual_cells().physical(task_.chain).shape().size[0];
    CellIndex tries = std::clamp<CellIndex>(kMostLeaves / leaves, 1, kMostTries);
    for (int sets = 0; !queue.empty() && queue.top().first < least; ++sets) {
        if (sets == kMostSets || tries == 0) {
            cut_short_ = true;
            return;
        }
        std::vector<std::size_t> chosen = queue.top().second;
        queue.pop();
        std::vector<Handle> victims;
        for (const std::size_t place : chosen) {
            victims.push_back(order[place]);
        }
        std::sort(victims.begin(), victims.end());
        if (const std::size_t following = chosen.back() + 1; following < order.size()) {
            std::vector<std::size_t> more = chosen;
            more.push_back(following);
            add(std::move(more));
            chosen.back() = following;
            add(std::move(chosen));
        }
        if (!room.may_suffice(victims)) {
            continue;
        }
        --tries;
        start_ways(reach, &victims);
        if (next_gentler(least)) {
            best = way();
        }
    }
}

// With `least` a single pod tries every cell that its unit can be bound to, as long as it may do
// no more harm than that.
void GroupScheduler::start_ways(Reach reach, const std::vector<Handle>* victims,
                                const Harm* least) {
    const std::size_t leaves = virtual_cells().physical(task_.chain).shape().size[0];
    if (reach == Reach::guaranteed && unit_choice_.planned().size() != leaves) {
        unit_choice_.planned().assign(leaves, false);  // no leaf is marked between attempts
    }
    unit_choice_.start(task_, reach, may_rank(), victims);
    seen_.clear();
    single_ = task_.pods.size() == 1 && task_.group_within < 0 && task_.units.empty();
    if (single_) {
        least_ = least;
        ready_.clear();
        lazy_sets_.clear();
        unit_choice_.start_takers();
        return;
    }
    failures_before_ = failures_;
    kept_left_ = true;
    if (keeps_) {
        return;
    }
    foresees_ = (reach == Reach::idle || victims != nullptr) && task_.units.empty();
    if (foresees_) {
        foresight_.start(groups_.virtual_cells(), unit_choice_, task_);
    }
    start_gangs();
    domains_left_ = !foresees_;
}

void GroupScheduler::start_gangs() {
    unit_choice_.start_domains();
    offers_.clear();
    next_offer_ = 0;
    collecting_ = false;
    domains_left_ = true;
    has_next_domain_ = false;
}

// The usual ways first; where some could not be mapped, those with foresight. On idle leaves, or
// those of some victims, few cells are whole: there a gang needs foresight at once.
bool GroupScheduler::next_way() {
    if (single_) {
        return next_single();
    }
    if (keeps_) {
        choice_ = kept_;
        return std::exchange(kept_left_, false) && mapped();
    }
    if (next_gang()) {
        return true;
    }
    if (!foresees_) {
        if (!task_.units.empty() || failures_ == failures_before_) {
            return false;
        }
        foresees_ = true;
        foresight_.start(groups_.virtual_cells(), unit_choice_, task_);
    }
    while (foresight_.look()) {
        unit_choice_.start(task_, unit_choice_.reach(), false, unit_choice_.victims(), &foresight_);
        start_gangs();
        if (next_gang()) {
            return true;
        }
    }
    cut_short_ |= foresight_.was_cut_short();
    return false;
}

// Whether no virtual cell that is bound to nothing and alike has been tried.
bool GroupScheduler::is_new(std::int32_t pool, int level, CellIndex index) {
    if (unit_choice_.foresees() || !task_.units.empty() ||
        virtual_cells().is_bound(pool, level, index)) {
        return true;
    }
    const std::uint64_t kind = unit_choice_.alike(pool, level, index);
    if (std::find(seen_.begin(), seen_.end(), kind) != seen_.end()) {
        return false;
    }
    seen_.push_back(kind);
    return true;
}

bool GroupScheduler::next_single() {
    for (;;) {
        if (!ready_.empty()) {
            take(std::move(ready_.back()));
            ready_.pop_back();
            return true;
        }
        Unit unit;
        if (!unit_choice_.next_taker(unit)) {
            return false;
        }
        const bool is_kept = !keeps_ || (unit.pool == kept_.units.front().pool &&
                                         unit.index == kept_.units.front().index);
        if (is_kept && is_new(unit.pool, unit_choice_.unit_level(unit.pool), unit.index)) {
            unit_choice_.choose_one(unit, choice_);
            downgrades_.clear();
            if (unit_choice_.reach() == Reach::guaranteed) {
                find_downgrades();
            }
            map_single(unit);
            groups_.virtual_cells().undo(base_);
            std::reverse(ready_.begin(), ready_.end());
        }
    }
}

// All ways to have the unit of the choice, first of all the lazy groups in it downgraded. A unit
// that stays bound has one, and then of the lazy groups only what is in it matters. Units that are
// bound no more are alike if the same groups are downgraded for them.
void GroupScheduler::map_single(const Unit& unit) {
    cells_.assign(1, kNoCell);
    if (least_ == nullptr) {
        downgrade(downgrades_);
    } else if (downgrades_.empty()) {
        if (!virtual_cells().is_bound(unit.pool, unit_choice_.unit_level(unit.pool), unit.index)) {
            list_unbound(unit);
        }
    } else {
        LazySet& lazy = lazy_set();
        const int level = unit_choice_.unit_level(unit.pool);
        if (stays_bound(lazy, unit.pool, level, unit.index)) {
            const CellIndex width = virtual_cells().physical(task_.chain).shape().leaves[level];
            const auto begin =
                std::lower_bound(lazy.leaves.begin(), lazy.leaves.end(),
                                 groups_.first_leaf(task_.chain) + unit.cell * width);
            const auto end =
                std::lower_bound(begin, lazy.leaves.end(),
                                 groups_.first_leaf(task_.chain) + (unit.cell + 1) * width);
            std::for_each(begin, end, [&](std::uint32_t leaf) {
                groups_.virtual_cells().drop(task_.chain, leaf - groups_.first_leaf(task_.chain),
                                             Holding::opportunistic);
            });
        } else if (!lazy.tried.insert(anchor_without(lazy, unit)).second) {
            return;
        } else {
            downgrade(downgrades_);
            list_unbound(unit);
        }
    }
    for (const CellIndex cell : cells_) {
        choice_.at = cell;
        if (maps()) {
            ready_.push_back(way());
        }
    }
}

// What the groups that the choice would downgrade hold.
GroupScheduler::LazySet& GroupScheduler::lazy_set() {
    const auto [entry, is_new] = lazy_sets_.try_emplace(downgrades_);
    LazySet& set = entry->second;
    if (is_new) {
        for (const Handle handle : downgrades_) {
            for (const Placed& placed : groups_.leaves(handle)) {
                if (groups_.reserver(placed.leaf) == kNoGroup) {
                    set.leaves.push_back(placed.leaf);
                    set.held.emplace_back(placed.held.pool, placed.held.leaf);
                }
            }
        }
        std::sort(set.leaves.begin(), set.leaves.end());
        std::sort(set.held.begin(), set.held.end());
    }
    return set;
}

// Whether a virtual cell is bound when the lazy groups hold nothing.
bool GroupScheduler::stays_bound(const LazySet& lazy, std::int32_t pool, int level,
                                 CellIndex index) const {
    if (virtual_cells().pool(pool).pinned() && level == virtual_cells().pool(pool).level) {
        return true;
    }
    const CellIndex width = virtual_cells().shape(pool).leaves[level];
    const auto begin =
        std::lower_bound(lazy.held.begin(), lazy.held.end(), std::pair(pool, index * width));
    const auto end =
        std::lower_bound(begin, lazy.held.end(), std::pair(pool, index * width + width));
    return virtual_cells().cell(pool, level, index).used > end - begin;
}

// The lowest cell around a unit that stays bound; above its root there is none.
std::tuple<std::int32_t, int, CellIndex> GroupScheduler::anchor_without(const LazySet& lazy,
                                                                        const Unit& unit) const {
    int level = unit_choice_.unit_level(unit.pool);
    CellIndex index = unit.index;
    while (!stays_bound(lazy, unit.pool, level, index)) {
        if (level == virtual_cells().pool(unit.pool).level) {
            return {unit.pool, kMaxLevels, 0};
        }
        index /= virtual_cells().shape(unit.pool).fanout[level++];
    }
    return {unit.pool, level, index};
}

// The cells that the unit of the choice can be bound to.
void GroupScheduler::list_unbound(const Unit& unit) {
    cells_.clear();
    const PhysicalCells& physical = virtual_cells().physical(task_.chain);
    const Shape& shape = physical.shape();
    const int unit_level = unit_choice_.unit_level(unit.pool);
    int level = unit_level;
    CellIndex around = unit.index;
    while (!virtual_cells().is_bound(unit.pool, level, around) &&
           level < virtual_cells().pool(unit.pool).level) {
        around /= shape.fanout[level++];
    }
    const auto add = [&](int at, CellIndex cell, const auto& again) -> void {
        if (at > unit_level) {
            const CellIndex begin = shape.first_child(at, cell);
            for (CellIndex child = begin; child < begin + shape.fanout[at - 1]; ++child) {
                if (!physical.is_bound(at - 1, child)) {
                    again(at - 1, child, again);
                }
            }
            return;
        }
        const CellIndex idle = unit_choice_.idle_in(unit_level, cell);
        const Harm at_least{0, task_.total - std::min<std::uint64_t>(task_.total, idle), 0};
        if (physical.cell(at, cell).open >= task_.total && at_least <= *least_ &&
            task_.allows(shape.ancestor(at, cell, physical.node_level()))) {
            cells_.push_back(cell);
        }
    };
    if (virtual_cells().is_bound(unit.pool, level, around)) {
        add(level, virtual_cells().cell(unit.pool, level, around).partner, add);
        return;
    }
    for (CellIndex cell = 0; cell < shape.size[level]; ++cell) {
        const int from = physical.listed_level(level, cell);
        if (from >= 0 && physical.may_split(level, from)) {
            add(level, cell, add);
        }
    }
}

// The idle units of the choice, so that less is better.
std::int64_t GroupScheduler::opened() const {
    const auto idle = std::count_if(choice_.units.begin(), choice_.units.end(),
                                    [](const Unit& unit) { return unit.used == 0; });
    return task_.spread ? -idle : idle;
}

bool GroupScheduler::next_gang() {
    const std::uint64_t node = unit_choice_.width(-1);
    const bool whole_nodes = task_.pods.front().leaves == node && !task_.spread &&
                             unit_choice_.reach() != Reach::guaranteed;
    const std::int64_t fewest = whole_nodes ? std::ssize(task_.pods) : 0;
    for (;;) {
        while (!collecting_ && next_offer_ < offers_.size()) {
            choice_ = std::move(offers_[next_offer_++].second);
            if (mapped()) {
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
            if (!has_next_domain_ && !unit_choice_.next_domain(next_domain_)) {
                domains_left_ = false;
                collecting_ = false;
                break;
            }
            const Domain& domain = next_domain_;
            const int level = domain.whole ? kMaxLevels : unit_choice_.domain_level();
            if (way_level_ >= 0 && level != way_level_) {
                has_next_domain_ = true;
                collecting_ = false;
                break;
            }
            has_next_domain_ = false;
            way_level_ = level;
            if (!domain.whole &&
                !is_new(domain.pool, std::min<int>(level, virtual_cells().pool(domain.pool).level),
                        domain.cell)) {
                continue;
            }
            if (!unit_choice_.choose(domain, budget_, choice_)) {
                continue;
            }
            const std::int64_t idle = opened();
            if (idle != fewest || task_.spread) {
                offers_.emplace_back(idle, choice_);
            } else if (mapped()) {
                return true;
            }
        }
        std::stable_sort(offers_.begin(), offers_.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
    }
}

// Maps the choice and takes the bookings back.
bool GroupScheduler::mapped() {
    if (unit_choice_.reach() == Reach::guaranteed) {
        find_downgrades();
        downgrade(downgrades_);
    }
    const bool all = maps();
    groups_.virtual_cells().undo(base_);
    return all;
}

// The same where the lazy groups that it preempts are downgraded.
bool GroupScheduler::maps() {
    const std::size_t before = virtual_cells().journal_size();
    cell_mapping_.start(task_, first_, placed_, downgrades_, budget_);
    const bool all = cell_mapping_.map(choice_);
    groups_.virtual_cells().undo(before);
    cell_mapping_.forget();
    if (!all || has_too_many()) {
        ++failures_;
        return false;
    }
    if (is_refused()) {
        return false;
    }
    packing_ = opened();
    return true;
}

// The groups that are evicted or downgraded, by sequence.
std::vector<Handle> GroupScheduler::harmed_by(const Way& way) const {
    std::vector<Handle> harmed = victims_of(way.placed);
    harmed.insert(harmed.end(), way.downgrades.begin(), way.downgrades.end());
    groups_.sort_by_sequence(harmed);
    return harmed;
}

// Until the next undo these are not guaranteed.
void GroupScheduler::downgrade(std::span<const Handle> handles) {
    for (const Handle handle : handles) {
        groups_.drop_bookings(handle);
    }
}

// The groups that use the leaves, by sequence.
std::vector<Handle> GroupScheduler::victims_of(std::span<const Placed> leaves) const {
    std::vector<Handle> users;
    for (const Placed& placed : leaves) {
        const Handle user = groups_.user(placed.leaf);
        if (user != kNoGroup && (users.empty() || users.back() != user)) {
            users.push_back(user);
        }
    }
    groups_.sort_by_sequence(users);
    return users;
}

// What the way that was found last does to others.
Harm GroupScheduler::harm() const {
    const std::vector<Handle> evicted = victims_of(placed_);
    std::vector<Handle> guaranteed = downgrades_;
    Harm sum{0, 0, evicted.size()};
    for (const Handle handle : evicted) {
        sum[1] += groups_.leaves(handle).size();
        if (groups_.group(handle).guaranteed) {
            guaranteed.push_back(handle);
        }
    }
    groups_.sort_by_sequence(guaranteed);
    for (const Handle handle : guaranteed) {
        sum[0] += groups_.leaves(handle).size();
    }
    return sum;
}

// The lazy groups that the choice would preempt.
void GroupScheduler::find_downgrades() {
    downgrades_.clear();
    occupants_.start(groups_, unit_choice_, {});
    for (std::size_t number = 0; number < choice_.units.size(); ++number) {
        const Unit& unit = choice_.units[number];
        if (unit.cell == kNoCell) {
            continue;
        }
        chosen_.clear();
        occupants_.take(unit_choice_.unit_level(unit.pool), unit.cell, choice_.pods_of(number),
                        task_.group_within, chosen_);
        for (const CellIndex leaf : chosen_) {
            if (unit_choice_.leaf_class(leaf) == 2) {
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
