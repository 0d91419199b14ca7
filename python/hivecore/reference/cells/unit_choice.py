"""Which units a group gets: nodes (or smaller whole virtual cells), pods put into them.

A *unit* is a virtual cell of the node level, or of the level of its pool's roots where that is
lower; for opportunistic work it is a node. A *domain* is a set of units in order of preference: the
most used first, and of a pool's idle ones those in the most used cell of the next level, so that
whole racks stay idle. What may be preempted is not in use, but comes after what is idle. In each
domain pods are placed by next-fit in ascending size, and where that fails although sizes differ, by
a search that is complete over what the units, and the cells in them that pods are confined to, have
left.

Opportunistic work goes where guaranteed work will come last: into racks that are promised to
nobody, then into those that are promised and idle, last of all where guaranteed work runs; of these
into the one with most opportunistic work, and at the far end of the indices, for guaranteed work is
bound from the near one.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from hivecore.reference.cells.cells import PhysicalCell, VirtualCell
from hivecore.reference.cells.leaf_choice import Budget, Demand, LeafClass, choose_leaves
from hivecore.reference.cells.state import State

__all__ = [
    "ALONE",
    "GUARANTEED",
    "IDLE",
    "LEAST",
    "OPPORTUNISTIC",
    "PACKING",
    "Choice",
    "Chooser",
    "Domain",
    "Request",
    "Unit",
    "anchor",
    "class_of_leaves",
    "numbered_units",
]

IDLE, OPPORTUNISTIC, GUARANTEED = range(3)
"""How far a choice reaches: to idle leaves, also to those with opportunistic work, also to those of
groups that may be preempted. It is the class of a leaf that it reaches."""


PACKING, LEAST, ALONE = range(3)
"""What comes before few evictions: that nodes are packed well; nothing; that the tenant's units are
those that it would get if nobody else were there."""


@dataclass(frozen=True)
class Request:
    """What `GroupScheduler.schedule` is asked; demands ascend in size."""

    vc: int
    chain: int
    pools: tuple[int, ...]  # the instance: those that the group may use
    pinned: bool
    priority: int
    demands: tuple[Demand, ...]
    group_within: int
    spread: bool
    merge: bool
    suggested: frozenset[int] | None
    units: tuple[int, ...] | None  # a policy's choice, by position
    evictions: int = PACKING
    most: tuple[int, ...] | None = None  # by node: pods that it may get

    @property
    def total(self) -> int:
        return sum(demand.leaves for demand in self.demands)


@dataclass(frozen=True)
class Unit:
    """A node or a smaller virtual cell; ``cell`` is where it is, None if it is not bound."""

    pool: int  # -1: a physical node
    level: int
    number: int
    cell: int | None
    leaves: int
    available: int
    used: int  # by those who stay
    held: int  # of a node: by guaranteed groups; else by those who may be preempted

    @property
    def virtual(self) -> VirtualCell:
        return VirtualCell(self.pool, self.level, self.number)


Choice = dict[Unit, list[Demand]]
"""The chosen units in order of first use, with the pods of each, ascending."""


@dataclass(frozen=True)
class Domain:
    """Units in order of preference: those of a cell, or all of them (``cell`` is None)."""

    level: int
    cell: VirtualCell | None
    units: list[Unit]


class Chooser:
    """Units, domains and choices in one state, for one attempt."""

    def __init__(
        self,
        state: State,
        request: Request,
        reach: int,
        budget: Budget,
        victims: Collection[int] | None = None,
        foreseen: dict[VirtualCell, int] | None = None,
    ) -> None:
        self.state, self.request, self.reach, self.victims = state, request, reach, victims
        self.foreseen = foreseen
        self.leaf_class = class_of_leaves(state, request, reach, victims)
        self.forest = state.forests[request.chain]
        self.budget = budget
        self.lower = self._lower() if reach == GUARANTEED else Counter[VirtualCell]()
        self.units = [unit for unit in self.all_units() if self._suggested(unit)]
        self.units.sort(key=self._preference)

    # Units and domains

    def all_units(self) -> Iterator[Unit]:
        if self.request.priority < 0:
            level = self.forest.node_level
            for index in self.forest.cells(level):
                cell = PhysicalCell(self.request.chain, level, index)
                used, held = self.state.load(cell), self.state.held(cell)
                free = self._available(level, index)
                width = self.forest.widths[level]
                yield Unit(-1, level, index, index, width, free, used, held)
            return
        for pool in self.request.pools:
            for root in self.state.roots(pool):
                level = min(root.level, self.forest.node_level)
                for index in self.forest.inside(root.level, root.number, level):
                    yield self._virtual_unit(VirtualCell(pool, level, index))

    def _virtual_unit(self, unit: VirtualCell) -> Unit:
        cell = self.state.bound.get(unit)
        width = self.forest.widths[unit.level]
        if cell is None and self.foreseen is not None:
            cell = self.foreseen.get(unit)
            free = 0 if cell is None else self._available(unit.level, cell)
        else:
            free = width if cell is None else self._available(unit.level, cell)
        return Unit(*unit, cell, width, free, self._used(unit), self.lower[unit])

    def _used(self, cell: VirtualCell) -> int:
        """Leaves of a virtual cell in use; those that may be preempted count as idle."""
        return self.state.used[cell] - self.lower[cell]

    def _lower(self) -> Counter[VirtualCell]:
        """Leaves that groups of lower priority hold, in units and the cells around them."""
        state, lower = self.state, Counter[VirtualCell]()
        for leaf, virtual in state.pair.items():
            holder = state.holder(leaf)
            assert holder is not None, "no root is paired, but leaves of groups"
            if state.groups[holder].priority < self.request.priority:
                for level in range(state.pools[virtual[0]].level + 1):
                    lower[state.around(virtual, level)] += 1
        return lower

    def _available(self, level: int, cell: int) -> int:
        return sum(self.leaf_class(x) is not None for x in self.forest.leaves(level, cell))

    def _suggested(self, unit: Unit) -> bool:
        if self.request.suggested is None or unit.cell is None:
            return True
        nodes = self.forest.widths[self.forest.node_level] // self.forest.widths[unit.level]
        return unit.cell // nodes in self.request.suggested

    def _preference(self, unit: Unit, placed: int = 0) -> tuple[int, ...]:
        used = unit.used + placed
        if unit.pool < 0:
            return self.packed(used), unit.held, -unit.number
        around = 0 if used or self.request.spread else -self._used_around(unit)
        return self.packed(used), unit.held, unit.pool, around, unit.number

    def packed(self, used: int) -> int:
        """What is used, so that less is better."""
        return used if self.request.spread else -used

    def opened(self, choice: Choice) -> int:
        """The idle units in a choice, so that less is better."""
        return -self.packed(sum(unit.used == 0 for unit in choice))

    def _used_around(self, unit: Unit) -> int:
        """Leaves in use in the virtual cell of the next level around a virtual node."""
        if unit.level < self.forest.node_level or unit.level == self.state.pools[unit.pool].level:
            return 0
        number = unit.number // self.forest.fanouts[unit.level]
        return self._used(VirtualCell(unit.pool, unit.level + 1, number))

    def domains(self) -> Iterator[Domain]:
        """Sets of units, each to be tried as a whole; only those with room enough."""
        within, node, top = self.request.group_within, self.forest.node_level, self.forest.top
        single = len(self.request.demands) == 1
        if within >= 0:
            yield from self._cells_as_domains(max(within, node), lower_roots=True)
            return
        if self.request.units is None and not (single and self.request.priority >= 0):
            for level in range(node + 1, (node + 1 if single and node < top else top) + 1):
                yield from self._cells_as_domains(level, lower_roots=False)
        if not single or self.request.priority >= 0 or node == top:
            yield Domain(top + 1, None, self.units)

    def _cells_as_domains(self, level: int, lower_roots: bool) -> list[Domain]:
        groups: dict[VirtualCell, list[Unit]] = {}
        for unit in self.units:
            highest = self.forest.top if unit.pool < 0 else self.state.pools[unit.pool].level
            if level <= highest or lower_roots:
                wide = min(level, highest)
                many = self.forest.widths[wide] // self.forest.widths[unit.level]
                cell = VirtualCell(unit.pool, wide, unit.number // many)
                groups.setdefault(cell, []).append(unit)
        roomy = (cell for cell in groups if _room(groups[cell]) >= self.request.total)
        return [
            Domain(level, cell, groups[cell]) for cell in sorted(roomy, key=self._domain_preference)
        ]

    def _domain_preference(self, cell: VirtualCell) -> tuple[int, ...]:
        if cell.pool < 0:
            physical = PhysicalCell(self.request.chain, cell.level, cell.number)
            load, held = self.state.load(physical), self.state.held(physical)
            if cell.level == self.forest.node_level:
                return self.packed(load), held, -cell.number
            return self._promised(physical), self.packed(load), -cell.number
        return self.packed(self._used(cell)), cell.pool, cell.number

    def _promised(self, cell: PhysicalCell) -> int:
        """0: the cell is free, 1: it is promised to a tenant, 2: guaranteed work is in it."""
        if self.state.held(cell):
            return 2
        return 0 if self.state.is_free(cell) else 1

    def alike(self, cell: VirtualCell) -> tuple[int, ...]:
        """What unbound cells share that can be bound to the same physical ones."""
        around = anchor(self.state, cell)
        if self.foreseen is not None:
            return cell
        if around in self.state.bound:
            return cell.level, *around
        return cell.level, cell.pool

    # Choices

    def takers(self) -> Iterator[Unit]:
        """The units that take the only pod, in order of preference."""
        (demand,) = self.request.demands
        for unit in self.units:
            if self._takes(unit, demand, {}, Budget(0)):
                yield unit

    def choose(self, domain: Domain) -> Choice | None:
        """Units for all pods."""
        if self.request.units is not None:
            return self._units_of_policy(domain)
        if _room(domain.units) < self.request.total:
            return None
        place = self._fan_out if self.request.spread else self._next_fit
        choice = place(domain.units)
        if choice is None and len({demand[:2] for demand in self.request.demands}) > 1:
            choice = self._search(domain.units)
        return choice

    def _units_of_policy(self, domain: Domain) -> Choice | None:
        assert self.request.units is not None
        numbered = list(self.all_units())
        choice: Choice = {}
        for demand in self.request.demands:
            choice.setdefault(numbered[self.request.units[demand.position]], []).append(demand)
        told = all(
            unit in domain.units and self._accepts(unit, choice[unit], self.budget)
            for unit in choice
        )
        return choice if told else None

    def _next_fit(self, domain: list[Unit]) -> Choice | None:
        choice: Choice = {}
        units = iter(domain)
        unit = next(units, None)
        for demand in self.request.demands:
            while unit is not None and not self._takes(unit, demand, choice, Budget(0)):
                unit = next(units, None)
            if unit is None:
                return None
            choice.setdefault(unit, []).append(demand)
        return choice

    def _fan_out(self, domain: list[Unit]) -> Choice | None:
        choice: Choice = {}

        def preference(unit: Unit) -> tuple[int, ...]:
            return self._preference(unit, sum(d.leaves for d in choice.get(unit, [])))

        for demand in self.request.demands:
            order = sorted(domain, key=preference)
            taking = (unit for unit in order if self._takes(unit, demand, choice, Budget(0)))
            unit = next(taking, None)
            if unit is None:
                return None
            choice.setdefault(unit, []).append(demand)
        return choice

    def _takes(self, unit: Unit, demand: Demand, choice: Choice, budget: Budget) -> bool:
        demands = sorted([*choice.get(unit, []), demand], key=_ascending)
        return self._accepts(unit, demands, budget)

    def _accepts(self, unit: Unit, demands: list[Demand], budget: Budget) -> bool:
        """Whether the pods fit into the unit together, or into an empty one if it is not bound."""
        if sum(demand.leaves for demand in demands) > unit.available:
            return False
        if not self._constrained:
            return True
        if not self.may_get(unit, len(demands)):
            return False
        cell, leaf_class = unit.cell, self.leaf_class
        if cell is None:
            cell, leaf_class = 0, _free
        within = self.request.group_within
        found = choose_leaves(self.forest, unit.level, cell, demands, within, leaf_class, budget)
        return found is not None

    def may_get(self, unit: Unit, pods: int) -> bool:
        """Whether the node that a unit is on, or any of those allowed, may get so many pods."""
        most, allowed = self.request.most, self.request.suggested
        if most is None or allowed is None:
            return True
        if unit.cell is None:
            return pods <= max((most[node] for node in allowed), default=0)
        nodes = self.forest.widths[self.forest.node_level] // self.forest.widths[unit.level]
        return pods <= most[unit.cell // nodes]

    @property
    def _constrained(self) -> bool:
        request = self.request
        confined = request.group_within >= 0 or any(pod.within >= 0 for pod in request.demands)
        return confined or request.most is not None

    def _search(self, domain: list[Unit]) -> Choice | None:
        """Depth first, biggest pods first, tightest units first; one unit of every kind.

        Units that have the same left (and, under constraints, got the same) are of one kind: the
        first in order stands for all. A failed state is remembered by the kinds of its units.
        """
        demands = sorted(self.request.demands, key=lambda d: (-d.leaves, d.position))
        choice: Choice = {}
        failed: set[tuple[object, ...]] = set()

        def left(unit: Unit) -> int:
            return unit.available - sum(demand.leaves for demand in choice.get(unit, []))

        def kind(unit: Unit) -> tuple[object, ...]:
            if not self._constrained:
                return (left(unit),)
            got = tuple(demand[:2] for demand in choice.get(unit, []))
            return unit.leaves if unit.cell is None else unit.virtual, got

        def place(depth: int) -> bool:
            if depth == len(demands):
                return True
            kinds: dict[tuple[object, ...], Unit] = {}
            for unit in domain:
                kinds.setdefault(kind(unit), unit)
            state = (depth, *sorted(map(repr, map(kind, domain))))
            if state in failed:
                return False
            demand = demands[depth]
            for unit in sorted(kinds.values(), key=left):  # stable: then by order in the domain
                if left(unit) < demand.leaves:
                    continue
                if self.budget.left == 0:
                    return False
                self.budget.spend(1)
                if not self._takes(unit, demand, choice, self.budget):
                    continue
                choice.setdefault(unit, []).append(demand)
                if place(depth + 1):
                    return True
                choice[unit].pop()
                if not choice[unit]:
                    del choice[unit]
            failed.add(state)
            return False

        if not place(0):
            return None
        for pods in choice.values():
            pods.sort(key=_ascending)
        return dict(sorted(choice.items(), key=lambda item: _ascending(item[1][0])))


def numbered_units(state: State, chain: int, pools: tuple[int, ...]) -> list[Unit]:
    """The units of an instance as policies number them, as attempt 1 sees them."""
    request = Request(-1, chain, pools, False, 0, (), -1, False, False, None, None)
    return list(Chooser(state, request, OPPORTUNISTIC, Budget()).all_units())


def anchor(state: State, unit: VirtualCell) -> VirtualCell:
    """The lowest bound cell at or above a unit, or else its root."""
    pool = state.pools[unit.pool]
    fanouts = state.forests[pool.chain].fanouts
    while unit not in state.bound and unit.level < pool.level:
        unit = VirtualCell(unit.pool, unit.level + 1, unit.number // fanouts[unit.level])
    return unit


def class_of_leaves(
    state: State, request: Request, reach: int, victims: Collection[int] | None = None
) -> LeafClass:
    """How far one must reach for a leaf; None: further than this, or it is bad.

    With ``victims`` only those may leave.
    """

    def leaf_class(leaf: int) -> int | None:
        holder = state.holder(leaf)
        if leaf in state.bad:
            return None
        if victims is not None and leaf in state.user and state.user[leaf] not in victims:
            return None
        if holder is None:
            return IDLE
        if leaf not in state.pair:
            return OPPORTUNISTIC if reach >= OPPORTUNISTIC else None
        lower = state.groups[holder].priority < request.priority
        return GUARANTEED if reach == GUARANTEED and lower else None

    return leaf_class


def _ascending(demand: Demand) -> tuple[int, int]:
    return demand.leaves, demand.position


def _room(units: list[Unit]) -> int:
    return sum(unit.available for unit in units)


def _free(leaf: int) -> int:
    return 0
