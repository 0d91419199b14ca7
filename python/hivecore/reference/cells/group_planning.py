"""A request's way to a plan: attempts, domains, choices, and choices revised when they cannot map.

Attempt 1 takes nothing from guaranteed groups; then sibling units may be merged, if that is asked
for; then attempt 2 preempts groups of lower priority in the same virtual cells. Every try works on
a copy of the state, in which the new group reserves its leaves: nothing has to be undone.

An attempt takes the first way in the order of packing if it harms nobody. Otherwise it looks for
one on idle leaves alone, and if there is none for the one that does the least harm, in both cases
among those that pack as well: a single pod in a unit that is used as much, a gang on no more units
that were idle. So a tenant's nodes are packed as in a cluster of its own, whoever else is there.
(A request for the least evictions looks among all.)
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from hivecore.reference.cells.group_cells import (
    BIND,
    CAPACITY,
    FRAGMENTED,
    MAPPING,
    NO_REASON,
    POLICY,
    PREEMPT,
    SEARCH_LIMIT,
    WAIT,
    Group,
    PhysicalCell,
    Plan,
    VirtualCell,
)
from hivecore.reference.cells.group_choice import (
    GUARANTEED,
    IDLE,
    OPPORTUNISTIC,
    Anchor,
    Choice,
    Chooser,
    Domain,
    Request,
    Unit,
    class_of_leaves,
)
from hivecore.reference.cells.group_foresight import foreseen
from hivecore.reference.cells.group_leaves import Budget, Demand, choose_leaves
from hivecore.reference.cells.group_mapping import Mapper, Placed
from hivecore.reference.cells.group_state import State

__all__ = ["Planner"]

_NEW = -1  # the handle of the group that is planned


class _Way(NamedTuple):
    """Where all pods go, whom that downgrades, and how well it packs: less is better."""

    placed: Placed
    downgrades: list[int]
    packing: int


_Harm = tuple[int, int, int]
_NO_HARM = (0, 0, 0)


class Planner:
    """Plans one request in a state that it does not change."""

    def __init__(self, state: State, request: Request) -> None:
        self.state, self.request = state, request
        self.budget = Budget()
        self.failures = 0  # choices that could not be mapped
        self.downgrades: list[int] = []

    def plan(self) -> Plan:
        """The first attempt that succeeds, or why none did."""
        request = self.request
        reach = IDLE if request.priority < 0 else OPPORTUNISTIC
        if request.priority < 0:
            placed = self._opportunistic(Chooser(self.state, request, reach, self.budget))
        else:
            placed = self._attempt(reach)
            if placed is None and request.merge and self._mergeable():
                placed = self._merged()
            if placed is None and self._preemptible():
                reach = GUARANTEED
                placed = self._attempt(reach)
        if placed is None:
            units = Chooser(self.state, request, reach, self.budget).units
            available = sum(unit.available for unit in units)
            return Plan(WAIT, self._reason(available), request.vc, request.priority)
        return self._as_plan(placed)

    def _reason(self, available: int) -> int:
        if self.budget.left == 0:
            return SEARCH_LIMIT
        if self.failures:
            return MAPPING
        if self.request.units is not None:
            return POLICY
        return FRAGMENTED if available >= self.request.total else CAPACITY

    def _as_plan(self, placed: Placed) -> Plan:
        state, request = self.state, self.request
        pairs = [placed[position] for position in range(len(placed))]
        leaves = [leaf for pod in pairs for leaf, _ in pod]
        victims = state.by_sequence({state.user[leaf] for leaf in leaves if leaf in state.user})
        reservers = {state.reserver[leaf] for leaf in leaves if leaf in state.reserver}
        cancels = state.by_sequence(reservers)
        guaranteed = request.priority >= 0
        return Plan(
            PREEMPT if victims else BIND,
            NO_REASON,
            request.vc,
            request.priority,
            [[leaf for leaf, _ in pod] for pod in pairs],
            [[virtual for _, virtual in pod] for pod in pairs] if guaranteed else None,
            victims,
            cancels,
            self.downgrades,
            tuple(state.groups[handle].sequence for handle in self.downgrades + cancels),
        )

    # Opportunistic work

    def _opportunistic(self, chooser: Chooser) -> Placed | None:
        """Nothing has to be mapped: units are nodes. (The virtual leaves are not looked at.)"""
        for domain in chooser.domains():
            choice = chooser.choose(domain, {})
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
            return placed
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

    def _attempt(self, reach: int) -> Placed | None:
        best = next(self._ways(reach), None)
        if best is None:
            return None
        least = self._harm(best)
        limit = math.inf if self.request.least_evictions else best.packing
        if least != _NO_HARM and reach == OPPORTUNISTIC:
            harmless = (way for way in self._ways(IDLE) if way.packing <= limit)
            found = next(harmless, None)
            if found is not None:
                return found.placed
        if least != _NO_HARM:
            for way in self._ways(reach):
                if way.packing <= limit and self._harm(way) < least:
                    best, least = way, self._harm(way)
        self.downgrades = best.downgrades
        return best.placed

    def _ways(self, reach: int) -> Iterator[_Way]:
        """All ways, the usual ones first; where some could not be mapped, those with foresight.

        On idle leaves alone few cells are whole: there a gang needs foresight at once.
        """
        request, state, budget = self.request, self.state, self.budget
        chooser = Chooser(state, request, reach, budget)
        if len(request.demands) == 1 and request.group_within < 0 and request.units is None:
            yield from self._single_ways(chooser)
            return
        failures, on_idle = self.failures, reach == IDLE and request.units is None
        if not on_idle:
            yield from self._gang_ways(chooser)
        if on_idle or (request.units is None and failures != self.failures):
            for places in foreseen(state, request, reach):
                yield from self._gang_ways(Chooser(state, request, reach, budget, places))

    def _single_ways(self, chooser: Chooser) -> Iterator[_Way]:
        """The pod in each unit that takes it."""
        seen: set[tuple[int, ...]] = set()
        for unit in chooser.takers():
            if chooser.alike(unit.virtual) not in seen:
                seen.add(chooser.alike(unit.virtual))
                way, _ = self._mapped(chooser, {unit: list(self.request.demands)})
                if way is not None:
                    yield way._replace(packing=chooser.packed(unit.used))

    def _gang_ways(self, chooser: Chooser) -> Iterator[_Way]:
        """The group in each domain, level by level, where it packs best first."""
        for _, domains in groupby(chooser.domains(), key=lambda domain: domain.level):
            offers: list[tuple[int, Domain]] = []
            seen: set[tuple[int, ...]] = set()
            for domain in domains:
                if domain.cell is not None:
                    if chooser.alike(domain.cell) in seen:
                        continue
                    seen.add(chooser.alike(domain.cell))
                choice = chooser.choose(domain, {})
                if choice is not None:
                    offers.append((chooser.opened(choice), domain))
            for _, domain in sorted(offers, key=lambda offer: offer[0]):
                way = self._in_domain(chooser, domain)
                if way is not None:
                    yield way

    def _in_domain(self, chooser: Chooser, domain: Domain) -> _Way | None:
        limits: dict[Anchor, int] = {}
        while (choice := chooser.choose(domain, limits)) is not None:
            way, failed = self._mapped(chooser, choice)
            if failed is None:
                return way
            if self.request.units is not None:
                return None
            self._revise(limits, choice, failed)
        return None

    def _mapped(self, chooser: Chooser, choice: Choice) -> tuple[_Way, None] | tuple[None, Unit]:
        """A choice in physical cells, or the first unit of those that cannot be mapped."""
        trial = self._trial(self.state)
        downgrades = self._downgraded(chooser, choice) if chooser.reach == GUARANTEED else []
        for handle in downgrades:
            trial.downgrade(handle)
        mapper = Mapper(trial, self.request, chooser.reach, _NEW, self.budget, chooser.foreseen)
        failed = mapper.map(choice)
        if failed is not None:
            self.failures += 1
            return None, failed
        return _Way(mapper.placed, downgrades, chooser.opened(choice)), None

    def _harm(self, way: _Way) -> _Harm:
        """Guaranteed leaves that are evicted or downgraded, evicted leaves, evicted groups."""
        state = self.state
        leaves = [leaf for pod in way.placed.values() for leaf, _ in pod]
        evicted = {state.user[leaf] for leaf in leaves if leaf in state.user}
        guaranteed = {handle for handle in evicted if state.groups[handle].virtual is not None}
        return (
            sum(len(state.groups[handle].leaves) for handle in guaranteed | set(way.downgrades)),
            sum(len(state.groups[handle].leaves) for handle in evicted),
            len(evicted),
        )

    def _revise(self, limits: dict[Anchor, int], choice: Choice, failed: Unit) -> None:
        """Allow one unit less in the anchor of ``failed``, the first that could not be mapped.

        An unbound root is like any other of its pool, but for those that were mapped before it.
        """
        fewer = sum(unit.anchor == failed.anchor for unit in choice) - 1
        alike = {failed.anchor}
        if failed.anchor not in self.state.bound:
            units = list(choice)
            mapped = {unit.anchor for unit in units[: units.index(failed)]}
            alike |= set(self.state.unbound_roots(failed.pool)) - mapped
        for anchor in alike:
            limits[anchor] = min(limits.get(anchor, fewer), fewer)

    def _trial(self, state: State) -> State:
        trial = state.copy()
        request = self.request
        trial.groups[_NEW] = Group(request.vc, request.priority, False, True, [], [], -1)
        return trial

    def _downgraded(self, chooser: Chooser, choice: Choice) -> list[int]:
        """The lazy groups that the choice would preempt."""
        state, found = self.state, set()
        for unit, demands in choice.items():
            if unit.cell is None:
                continue
            within = self.request.group_within
            chosen = choose_leaves(
                chooser.forest, unit.level, unit.cell, demands, within, chooser.leaf_class, Budget()
            )
            assert chosen is not None, "a unit takes only what it accepts"
            for leaf in (x for pod in chosen for x in pod if chooser.leaf_class(x) == GUARANTEED):
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

    def _merged(self) -> Placed | None:
        trial = self._trial(self.state)
        placed: Placed = {}
        for demand in self.request.demands:
            alone = replace(self.request, demands=(demand,))
            chooser = Chooser(trial, alone, OPPORTUNISTIC, self.budget)
            choice = chooser.choose(Domain(0, None, chooser.units), {})
            if choice is not None:
                after = trial.copy()
                mapper = Mapper(after, alone, OPPORTUNISTIC, _NEW, self.budget)
                if mapper.map(choice) is None:
                    trial = after
                    placed.update(mapper.placed)
                    continue
            merged = self._merge_one(trial, alone, demand)
            if merged is None:
                return None
            trial, placed[demand.position] = merged.state, merged.placed[demand.position]
        return placed

    def _merge_one(self, state: State, request: Request, demand: Demand) -> Mapper | None:
        """One pod on several virtual cells of one node (or of the cell that it must be within)."""
        forest = state.forests[request.chain]
        level = forest.node_level
        nodes = forest.widths[level]
        if demand.within >= 0:
            level = min(level, demand.within)
        cells = [PhysicalCell(request.chain, level, index) for index in forest.cells(level)]
        for cell in sorted(cells, key=lambda cell: (-state.held(cell), cell.number)):
            node = cell.number // (nodes // forest.widths[level])
            if request.suggested is None or node in request.suggested:
                mapper = Mapper(state.copy(), request, OPPORTUNISTIC, _NEW, self.budget)
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
