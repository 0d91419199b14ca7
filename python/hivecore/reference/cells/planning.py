"""A request's way to a plan: attempts, ways to place the group, and what they do to others.

Attempt 1 takes nothing from guaranteed groups; then sibling units may be merged, if that is asked
for; then attempt 2 preempts groups of lower priority in the same virtual cells. Every try works on
a copy of the state, in which the new group reserves its leaves: nothing has to be undone.

An attempt takes the first way in the order of packing if it harms nobody. Otherwise it looks for
one on idle leaves alone, and if there is none for the one that does the least harm, in both cases
among those that pack as well: a single pod in a unit that is used as much, a gang on no more units
that were idle. So a tenant's nodes are packed as in a cluster of its own, whoever else is there.
A request for the least evictions looks among all. A request as if alone looks among those on the
very units of the first: only where those that are bound to nothing go is up to who is there, in
cells that have no more bad leaves.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import groupby
from typing import NamedTuple

from hivecore.reference.cells.cell_mapping import Mapper, Placed
from hivecore.reference.cells.cells import (
    BIND,
    CAPACITY,
    FRAGMENTED,
    MAPPING,
    NO_REASON,
    POLICY,
    PREEMPT,
    SEARCH_LIMIT,
    WAIT,
    Forest,
    Group,
    PhysicalCell,
    Plan,
    VirtualCell,
    VirtualLeaf,
)
from hivecore.reference.cells.foresight import foreseen
from hivecore.reference.cells.leaf_choice import Budget, Demand, choose_leaves
from hivecore.reference.cells.occupants import NO_HARM, Harm, Occupants, choose_cheaply
from hivecore.reference.cells.recovery import promote
from hivecore.reference.cells.state import State
from hivecore.reference.cells.unit_choice import (
    ALONE,
    GUARANTEED,
    IDLE,
    LEAST,
    OPPORTUNISTIC,
    Choice,
    Chooser,
    Domain,
    Request,
    Unit,
    anchor,
    class_of_leaves,
)

__all__ = ["Planner"]

_NEW = -1  # the handle of the group that is planned


_MOST_LOOKS = 4  # at what is planned when the victims have gone
_MOST_REFUSED = 8  # ways that are not taken again then
_MOST_SETS = 1024  # of victims that are weighed for a gang
_MOST_TRIES = 32  # of these, to place it
_MOST_LEAVES = 1 << 17  # of the chain, for all tries together


class _Way(NamedTuple):
    """Where all pods go, whom that downgrades, and how well it packs: less is better."""

    placed: Placed
    downgrades: list[int]
    packing: int = 0
    choice: Choice | None = None  # what it maps
    idle: int = 0  # leaves that are left idle beside a single pod

    @property
    def leaves(self) -> list[int]:
        return [leaf for pod in self.placed.values() for leaf, _ in pod]


class Planner:
    """Plans one request in a state that it does not change."""

    def __init__(self, state: State, request: Request, refused: Collection[list[int]] = ()) -> None:
        self.state, self.request = state, request
        self.refused = refused  # victims of ways that would not last
        self.budget = Budget()
        self.failures = 0  # choices that could not be mapped
        self.kept: Choice | None = None  # the only one that is mapped; None: all are

    def plan(self) -> Plan:
        """What to do."""
        way = self._first_success()
        outcome = self._reason() if way is None else self._lasting(way)
        if isinstance(outcome, _Way):
            return self._as_plan(outcome)
        return Plan(WAIT, outcome, self.request.vc, self.request.priority)

    def _first_success(self) -> _Way | None:
        """The way that the first attempt takes that finds one."""
        if self.request.priority < 0:
            return self._opportunistic()
        way = self._attempt(OPPORTUNISTIC)
        if way is None and self.request.merge and self._mergeable():
            way = self._unless_refused(self._merged())
        if way is None and self._preemptible():
            way = self._attempt(GUARANTEED)
        return way

    def _lasting(self, first: _Way) -> "_Way | str":
        """A way that is taken again when its victims have gone, if a few tries find one.

        Where guaranteed groups leave or lose their cells, attempt 1 may find some that pack better
        than theirs, and groups that are downgraded may be promoted to theirs. Or why to wait: so
        many would be that there is no way even when all have gone who may have to.
        """
        victims, groups = self._victims(first), self.state.groups.values()
        guaranteed = any(self.state.groups[victim].virtual is not None for victim in victims)
        waiting = any(group.virtual is None and group.pools is not None for group in groups)
        alone = self.request.evictions == ALONE
        if not victims or not (alone or guaranteed or waiting or first.downgrades):
            return first
        way: _Way | None = first
        refused: list[list[int]] = []
        while way is not None and len(refused) < _MOST_REFUSED:
            lasting = self._lasting_near(way)
            if lasting is not None:
                return lasting
            refused.append(self._victims(way))
            way = Planner(self.state, self.request, refused)._first_success()
        last = self._without(self._preemptible_groups())
        if last._first_success() is None and (reason := last._reason()) != SEARCH_LIMIT:
            return reason
        self.budget.cut_short = True
        return first

    def _lasting_near(self, way: _Way) -> _Way | None:
        """This way, or what is planned when its victims have gone, if it is taken again then."""
        victims, lasting = self._victims(way), None
        for look in range(_MOST_LOOKS):
            again = self._without(victims)._first_success()
            if again is None:
                break
            named = self._victims(again)
            if set(named) <= set(victims):
                if look == 0:
                    lasting = way
                else:
                    lasting = self._reservable(again if named == victims else way) or lasting
            elif lasting is not None:
                break
            if named == victims:
                break
            way, victims = again, named
        return lasting

    def _without(self, victims: list[int]) -> "Planner":
        """The same request when these have gone, one after the other."""
        state = self.state.copy()
        for victim in victims:
            state.remove(victim)
            promote(state)
        return Planner(state, self.request)

    def _preemptible_groups(self) -> list[int]:
        """Those that the group may evict."""
        state, request = self.state, self.request

        def may_go(group: Group) -> bool:
            leaves = group.virtual or []
            return (
                not group.preempting
                and group.priority < request.priority
                and all(pool in request.pools for pod in leaves for pool, _ in pod)
            )

        return state.by_sequence({h for h, group in state.groups.items() if may_go(group)})

    def _victims(self, way: _Way) -> list[int]:
        user = self.state.user
        return self.state.by_sequence({user[leaf] for leaf in way.leaves if leaf in user})

    def _reservable(self, way: _Way) -> _Way | None:
        """A way that was found without its victims: as it is, or over their virtual leaves."""
        trial = self._trial(self.state)
        downgrades = [h for h in way.downgrades if trial.groups[h].virtual is not None]
        for handle in downgrades:
            trial.downgrade(handle)
        as_it_is = trial.copy()
        if all(as_it_is.book(*held) for pod in way.placed.values() for held in pod):
            return way._replace(downgrades=downgrades)
        placed: Placed = {}
        for position, pod in sorted(way.placed.items()):
            placed[position] = []
            for leaf, (pool, _) in pod:
                virtual = self._virtual_leaf(trial, leaf, pool)
                if leaf in trial.pair:
                    trial.unbook(leaf)
                if virtual is None or not trial.book(leaf, virtual):
                    return None
                placed[position].append((leaf, virtual))
        return way._replace(placed=placed, downgrades=downgrades)

    def _virtual_leaf(self, state: State, leaf: int, pool: int) -> VirtualLeaf | None:
        """The one that holds the leaf, or one in the root around it, or in a new root."""
        if leaf in state.pair:
            return state.pair[leaf] if state.pair[leaf][0] in self.request.pools else None
        root, level = self._root_around(state, leaf), state.pools[pool].level
        if root is not None:
            return state.virtual_leaf(root, state.bound[root], leaf)
        roots = state.unbound_roots(pool)
        if not roots:
            return None
        return state.virtual_leaf(roots[0], self._forest.above(leaf, level), leaf)

    @property
    def _forest(self) -> Forest:
        return self.state.forests[self.request.chain]

    def _reason(self) -> str:
        request = self.request
        if self.budget.exceeded:
            return SEARCH_LIMIT
        if self.failures:
            return MAPPING
        if request.units is not None:
            return POLICY
        reach = IDLE if request.priority < 0 else OPPORTUNISTIC
        if request.priority >= 0 and self._preemptible():
            reach = GUARANTEED
        units = Chooser(self.state, request, reach, self.budget).units
        available = sum(unit.available for unit in units)
        return FRAGMENTED if available >= request.total else CAPACITY

    def _as_plan(self, way: _Way) -> Plan:
        state, request = self.state, self.request
        pairs = [way.placed[position] for position in range(len(way.placed))]
        victims = self._victims(way)
        reservers = {state.reserver[leaf] for leaf in way.leaves if leaf in state.reserver}
        cancels = state.by_sequence(reservers)
        guaranteed = request.priority >= 0
        return Plan(
            PREEMPT if victims else BIND,
            SEARCH_LIMIT if victims and self.budget.exceeded else NO_REASON,
            request.vc,
            request.priority,
            [[leaf for leaf, _ in pod] for pod in pairs],
            [[virtual for _, virtual in pod] for pod in pairs] if guaranteed else None,
            victims,
            cancels,
            way.downgrades,
            tuple(state.groups[handle].sequence for handle in way.downgrades + cancels),
        )

    # Opportunistic work

    def _opportunistic(self) -> _Way | None:
        """Nothing has to be mapped: units are nodes. (The virtual leaves are not looked at.)"""
        chooser = Chooser(self.state, self.request, IDLE, self.budget)
        for domain in chooser.domains():
            choice = chooser.choose(domain)
            if choice is None:
                continue
            placed: Placed = {}
            for unit, demands in choice.items():
                assert unit.cell is not None
                within = self.request.group_within
                chosen = choose_leaves(
                    chooser.forest,
                    unit.level,
                    unit.cell,
                    demands,
                    within,
                    chooser.leaf_class,
                    Budget(),
                )
                assert chosen is not None, "a unit takes only what it accepts"
                for demand, leaves in zip(demands, chosen, strict=True):
                    placed[demand.position] = [(leaf, (-1, -1)) for leaf in leaves]
            return _Way(placed, [])
        return None

    # Guaranteed work

    def _preemptible(self) -> bool:
        """Whether the instance holds anything for a group of lower priority."""
        state = self.state
        holders = {
            state.holder(leaf)
            for leaf, (pool, _) in state.pair.items()
            if pool in self.request.pools
        }
        return any(
            state.groups[holder].priority < self.request.priority
            for holder in holders
            if holder is not None
        )

    def _attempt(self, reach: int) -> _Way | None:
        self.kept = None
        first = next(self._ways(reach), None)
        if first is None or self._harm(first) == NO_HARM:
            return first
        if self.request.evictions == ALONE and reach == OPPORTUNISTIC:
            self.kept = first.choice
        if reach == OPPORTUNISTIC:
            harmless = next(self._instead(first, self._ways(IDLE)), None)
            if harmless is not None:
                return harmless
        ways = self._instead(first, self._ways(reach, every_cell=True))
        best = min([first, *ways], key=lambda way: (self._harm(way), way.idle))
        if self._is_single or self.request.units is not None:
            return best
        room = _Room(self.state, self.request, reach)
        return self._fewest(reach, first, room, self._spared(reach, first, room, best))

    def _instead(self, first: _Way, ways: Iterable[_Way]) -> Iterator[_Way]:
        """Those that may be taken instead of the first, if they harm others less."""
        for way in ways:
            if self.request.evictions != LEAST and way.packing > first.packing:
                continue
            if self.kept is None or self._newly_bound_bad(way) <= self._newly_bound_bad(first):
                yield way

    def _newly_bound_bad(self, way: _Way) -> int:
        """Bad leaves in the cells that a way would bind, with all in them."""
        state, cells = self.state, set()
        for leaf, virtual in (held for pod in way.placed.values() for held in pod):
            level = state.pools[virtual[0]].level
            while level > 0 and state.around(virtual, level) in state.bound:
                level -= 1
            cells.add(PhysicalCell(self.request.chain, level, self._forest.above(leaf, level)))
        return sum(map(state.sick, cells))

    @property
    def _is_single(self) -> bool:
        request = self.request
        return len(request.demands) == 1 and request.group_within < 0 and request.units is None

    def _spared(self, reach: int, first: _Way, room: "_Room", best: _Way) -> _Way:
        """A way that needs all of its victims, the dearest having been spared first."""
        occupants, tries = Occupants(self.state), _MOST_TRIES
        again = True
        while again:
            again = False
            harmed = self.state.by_sequence({*self._victims(best), *best.downgrades})
            for handle in sorted(harmed, key=occupants.price, reverse=True):
                others = set(harmed) - {handle}
                if not room.may_suffice(others):
                    continue
                if tries == 0:
                    self.budget.cut_short = True
                    return best
                tries -= 1
                ways = self._instead(first, self._ways(reach, others))
                gentler = (way for way in ways if self._harm(way) < self._harm(best))
                found = next(gentler, None)
                if found is not None:
                    best, again = found, True
                    break
        return best

    def _fewest(self, reach: int, first: _Way, room: "_Room", best: _Way) -> _Way:
        """The way of the least harm: sets of victims are tried, the cheapest first."""
        occupants, state = Occupants(self.state), self.state
        order = sorted(state.by_sequence(set(room.more)), key=occupants.price)

        def entry(chosen: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
            prices = (occupants.price(order[place]) for place in chosen)
            return tuple(map(sum, zip(*prices, strict=True))), chosen

        queue = [entry((0,))] if order else []
        leaves = self._forest.end_leaf - self._forest.first_leaf
        tries = max(1, min(_MOST_TRIES, _MOST_LEAVES // leaves))
        sets = _MOST_SETS
        while queue and queue[0][0] < self._harm(best):
            if sets == 0 or tries == 0:
                self.budget.cut_short = True
                break
            sets -= 1
            _, chosen = heappop(queue)
            if (following := chosen[-1] + 1) < len(order):
                heappush(queue, entry((*chosen, following)))
                heappush(queue, entry((*chosen[:-1], following)))
            victims = {order[place] for place in chosen}
            if not room.may_suffice(victims):
                continue
            tries -= 1
            for way in self._instead(first, self._ways(reach, victims)):
                if self._harm(way) < self._harm(best):
                    best = way
                    break
        return best

    def _ways(
        self, reach: int, victims: Collection[int] | None = None, every_cell: bool = False
    ) -> Iterator[_Way]:
        """All ways, the usual ones first; where some could not be mapped, those with foresight.

        On idle leaves, or those of some victims, few cells are whole: there a gang needs foresight
        at once. A single pod may try every cell that its unit can be bound to.
        """
        request, state, budget = self.request, self.state, self.budget
        chooser = Chooser(state, request, reach, budget, victims)
        if self._is_single:
            yield from self._single_ways(chooser, every_cell)
            return
        if self.kept is not None:
            way = self._mapped(chooser, self.kept)
            if way is not None:
                yield way
            return
        failures = self.failures
        at_once = (reach == IDLE or victims is not None) and request.units is None
        if not at_once:
            yield from self._gang_ways(chooser)
        if at_once or (request.units is None and failures != self.failures):
            for places in foreseen(state, request, reach, victims, budget):
                yield from self._gang_ways(Chooser(state, request, reach, budget, victims, places))

    def _single_ways(self, chooser: Chooser, every_cell: bool) -> Iterator[_Way]:
        """The pod in each unit that takes it."""
        seen: set[tuple[int, ...]] = set()
        for unit in chooser.takers():
            if self.kept is not None and unit.virtual != next(iter(self.kept)).virtual:
                continue
            if chooser.alike(unit.virtual) not in seen:
                seen.add(chooser.alike(unit.virtual))
                choice = {unit: list(self.request.demands)}
                for places in self._cells_for(chooser, unit, choice) if every_cell else [None]:
                    way = self._mapped(chooser, choice, places)
                    if way is not None:
                        yield way._replace(idle=self._idle_beside(way, unit))

    def _cells_for(
        self, chooser: Chooser, unit: Unit, choice: Choice
    ) -> list[dict[VirtualCell, int] | None]:
        """The cells that a unit can be bound to, ascending; None: it is bound and stays so."""
        chain, state = self.request.chain, self._downgraded_trial(chooser, choice)[0]
        if unit.virtual in state.bound:
            return [None]
        around = anchor(state, unit.virtual)
        if around in state.bound:
            cells = [PhysicalCell(chain, around.level, state.bound[around])]
        else:
            numbers = self._forest.cells(around.level)
            cells = [PhysicalCell(chain, around.level, number) for number in numbers]
            cells = [cell for cell in cells if state.may_be_root(cell)]
        for level in range(around.level - 1, unit.level - 1, -1):
            inside = (self._forest.inside(level + 1, cell.number, level) for cell in cells)
            below = (PhysicalCell(chain, level, number) for numbers in inside for number in numbers)
            cells = [cell for cell in below if cell not in state.partner]
        nodes = self._forest.widths[self._forest.node_level] // self._forest.widths[unit.level]
        suggested = self.request.suggested
        found = (cell.number for cell in cells)
        good = (number for number in found if suggested is None or number // nodes in suggested)
        return [{unit.virtual: number} for number in good]

    def _idle_beside(self, way: _Way, unit: Unit) -> int:
        """Leaves that are left idle in the cell of a single pod's unit."""
        state, taken = self.state, way.leaves
        cell = self._forest.above(taken[0], unit.level)
        leaves = self._forest.leaves(unit.level, cell)
        idle = (x for x in leaves if state.holder(x) is None and x not in state.bad)
        return sum(leaf not in taken for leaf in idle)

    def _gang_ways(self, chooser: Chooser) -> Iterator[_Way]:
        """The group in each domain, level by level, where it packs best first."""
        for _, domains in groupby(chooser.domains(), key=lambda domain: domain.level):
            offers: list[Choice] = []
            seen: set[tuple[int, ...]] = set()
            for domain in domains:
                if domain.cell is not None and self.request.units is None:
                    if chooser.alike(domain.cell) in seen:
                        continue
                    seen.add(chooser.alike(domain.cell))
                choice = chooser.choose(domain)
                if choice is not None:
                    offers.append(choice)
            for choice in sorted(offers, key=chooser.opened):
                way = self._mapped(chooser, choice)
                if way is not None:
                    yield way

    def _mapped(
        self, chooser: Chooser, choice: Choice, places: dict[VirtualCell, int] | None = None
    ) -> _Way | None:
        """A choice in physical cells."""
        trial, downgrades = self._downgraded_trial(chooser, choice)
        mapper = Mapper(trial, chooser, _NEW, places)
        if not mapper.map(choice) or self._has_too_many(mapper.placed):
            self.failures += 1
            return None
        if self._is_single:
            packing = chooser.packed(next(iter(choice)).used)
        else:
            packing = chooser.opened(choice)
        return self._unless_refused(_Way(mapper.placed, downgrades, packing, choice))

    def _has_too_many(self, placed: Placed) -> bool:
        """Whether a node has more pods than it may get."""
        forest, most = self._forest, self.request.most
        nodes = Counter(forest.above(pod[0][0], forest.node_level) for pod in placed.values())
        return most is not None and any(pods > most[node] for node, pods in nodes.items())

    def _unless_refused(self, way: _Way | None) -> _Way | None:
        return None if way is None or self._victims(way) in self.refused else way

    def _harm(self, way: _Way) -> Harm:
        """What becomes of all groups that are evicted or downgraded."""
        groups = self.state.groups
        evicted = self._victims(way)
        guaranteed = {victim for victim in evicted if groups[victim].virtual is not None}
        return (
            sum(len(groups[handle].leaves) for handle in guaranteed | set(way.downgrades)),
            sum(len(groups[handle].leaves) for handle in evicted),
            len(evicted),
        )

    def _trial(self, state: State) -> State:
        trial = state.copy()
        request = self.request
        trial.groups[_NEW] = Group(request.vc, request.priority, False, True, [], [], -1)
        return trial

    def _downgraded_trial(self, chooser: Chooser, choice: Choice) -> tuple[State, list[int]]:
        """A state of its own, in which the lazy groups that the choice preempts are downgraded."""
        trial = self._trial(self.state)
        downgrades = self._downgraded(chooser, choice) if chooser.reach == GUARANTEED else []
        for handle in downgrades:
            trial.downgrade(handle)
        return trial, downgrades

    def _downgraded(self, chooser: Chooser, choice: Choice) -> list[int]:
        """The lazy groups that the choice would preempt."""
        state, found, occupants = self.state, set(), Occupants(self.state)
        for unit, demands in choice.items():
            if unit.cell is None:
                continue
            within = self.request.group_within
            chosen = choose_cheaply(
                chooser.forest,
                unit.level,
                unit.cell,
                demands,
                within,
                chooser.leaf_class,
                occupants,
            )
            assert chosen is not None, "a unit takes only what it accepts"
            leaves = [leaf for pod in chosen for leaf in pod]
            occupants.leave(leaves)
            for leaf in (leaf for leaf in leaves if chooser.leaf_class(leaf) == GUARANTEED):
                holder = state.holder(leaf)
                assert holder is not None
                if state.groups[holder].lazy and not state.groups[holder].preempting:
                    found.add(holder)
        return state.by_sequence(found)

    # Siblings below node level, merged

    def _mergeable(self) -> bool:
        request, node = self.request, self.state.forests[self.request.chain].node_level
        below = any(self.state.pools[pool].level < node for pool in request.pools)
        free = request.units is None and request.group_within < 0
        return below and free and not request.pinned

    def _merged(self) -> _Way | None:
        trial = self._trial(self.state)
        placed: Placed = {}
        for demand in self.request.demands:
            alone = replace(self.request, demands=(demand,))
            chooser = Chooser(trial, alone, OPPORTUNISTIC, self.budget)
            choice = chooser.choose(Domain(0, None, chooser.units))
            if choice is not None:
                after = trial.copy()
                mapper = Mapper(after, chooser, _NEW)
                if mapper.map(choice):
                    trial = after
                    placed.update(mapper.placed)
                    continue
            merged = self._merge_one(trial, chooser, demand)
            if merged is None:
                return None
            trial, placed[demand.position] = merged.state, merged.placed[demand.position]
        return None if self._has_too_many(placed) else _Way(placed, [])

    def _merge_one(self, state: State, chooser: Chooser, demand: Demand) -> Mapper | None:
        """One pod on several virtual cells of one node (or of the cell that it must be within)."""
        request, forest = self.request, chooser.forest
        level = forest.node_level
        nodes = forest.widths[level]
        if demand.within >= 0:
            level = min(level, demand.within)
        cells = [PhysicalCell(request.chain, level, index) for index in forest.cells(level)]
        for cell in sorted(cells, key=lambda cell: (-state.held(cell), cell.number)):
            node = cell.number // (nodes // forest.widths[level])
            if request.suggested is None or node in request.suggested:
                mapper = Mapper(state.copy(), chooser, _NEW)
                if self._merge_in(mapper, cell, demand):
                    return mapper
        return None

    def _merge_in(self, mapper: Mapper, cell: PhysicalCell, demand: Demand) -> bool:
        state, forest = mapper.state, mapper.forest
        leaf_class = class_of_leaves(state, self.request, OPPORTUNISTIC)
        mine = [
            (rank, leaf)
            for leaf in forest.leaves(cell.level, cell.number)
            if (rank := leaf_class(leaf)) is not None and self._root_around(state, leaf)
        ]
        pairs = mapper.placed[demand.position] = []

        def take(root: VirtualCell, index: int, leaf: int) -> None:
            virtual = state.virtual_leaf(root, index, leaf)
            held = mapper.hold(leaf, virtual)
            assert held, "the root is bound, or may be"
            pairs.append((leaf, virtual))

        for leaf in sorted(leaf for _, leaf in sorted(mine)[: demand.leaves]):
            root = self._root_around(state, leaf)
            assert root is not None
            take(root, state.bound[root], leaf)
        lower = [pool for pool in self.request.pools if state.pools[pool].level < forest.node_level]
        for pool in sorted(lower, key=lambda pool: -state.pools[pool].level):
            level = state.pools[pool].level
            if level > cell.level:
                continue
            inside = forest.inside(cell.level, cell.number, level)
            offers = [PhysicalCell(cell.chain, level, index) for index in inside]
            offers = [offer for offer in offers if state.sick(offer) == 0]
            for offer in sorted(offers, key=lambda offer: (state.load(offer), offer.number)):
                missing = demand.leaves - len(pairs)
                roots = state.unbound_roots(pool)
                if missing and roots and state.may_be_root(offer):
                    for leaf in list(forest.leaves(level, offer.number))[:missing]:
                        take(roots[0], offer.number, leaf)
        pairs.sort()
        return len(pairs) == demand.leaves

    def _root_around(self, state: State, leaf: int) -> VirtualCell | None:
        """The root of the instance whose physical cell a leaf is in."""
        forest = state.forests[self.request.chain]
        for level in range(forest.top + 1):
            cell = PhysicalCell(forest.chain, level, forest.above(leaf, level))
            if state.is_root(cell):
                root = state.partner[cell]
                return root if root.pool in self.request.pools else None
        return None


class _Room:
    """What there would be for a gang in all nodes that are not bound to others, if some left."""

    def __init__(self, state: State, request: Request, reach: int) -> None:
        self.sizes = [demand.leaves for demand in request.demands]
        self.free: Counter[int] = Counter()  # per node
        self.more: dict[int, Counter[int]] = {}  # per group and node
        forest, leaf_class = state.forests[request.chain], class_of_leaves(state, request, reach)
        for leaf in range(forest.first_leaf, forest.end_leaf):
            node = forest.above(leaf, forest.node_level)
            if leaf_class(leaf) is None or self._is_bound_to_others(state, request, node):
                continue
            suggested = request.suggested is None or node in request.suggested
            if leaf not in state.user:
                self.free[node] += suggested
            else:
                self.more.setdefault(state.user[leaf], Counter())[node] += suggested

    @staticmethod
    def _is_bound_to_others(state: State, request: Request, node: int) -> bool:
        forest = state.forests[request.chain]
        cells = (
            PhysicalCell(request.chain, level, node // (wide // forest.widths[forest.node_level]))
            for level, wide in enumerate(forest.widths)
            if level >= forest.node_level
        )
        roots = (state.partner[cell].pool for cell in cells if state.is_root(cell))
        return any(pool not in request.pools for pool in roots)

    def may_suffice(self, victims: Collection[int]) -> bool:
        """Whether there are nodes for so many pods of every size."""
        room = sum((self.more.get(victim, Counter()) for victim in victims), self.free)
        return all(
            sum(leaves // size for leaves in room.values()) >= sum(s >= size for s in self.sizes)
            for size in set(self.sizes)
        )
