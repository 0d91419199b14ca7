"""Chooses virtual cells for a group: HiveD's intra-VC scheduler (OSDI'20, section 3).

A virtual cluster looks like a private cluster to its tenant, and groups are packed into it as in a
private cluster, whatever other tenants do. Pods are put into *units*: virtual cells of node level,
or of the level of the pool's roots if that is lower. An opportunistic group has no virtual cells;
its units are the physical nodes.

**The order of units.** Units in use come first, the one with the fewest remaining leaves first, so
that few units are opened and small gaps are filled; ties: the largest. (HiveD takes the most used
one, which is the same if all units are nodes.) Of idle units, the smallest come first, then those
in the most used cell of the next level, so that whole racks stay idle. But a single pod
does not open one of 16 or more small units if three units have the gap that it would leave there,
unless the larger units have been used up faster than these n, by more than chance explains: sqrt(n)
of them. So gaps do not pile up, and no size runs out long before the others. Leaves that the group
may preempt count as idle, but among equally used units those without such leaves come first.

**The order of domains.** A gang is fastest in one rack. A *domain* is the set of units in a virtual
cell above node level, lower levels first, and finally all units. In a domain, pods are placed by
next fit in ascending size. HiveD stops there; here, unequal pods are also searched for, with the
largest pod and the tightest unit first.

**Opportunistic work** goes where guaranteed work comes last: into racks that no tenant owns, then
into owned idle racks, then where guaranteed work runs; among these, into the tenant's cell with the
fewest quarters taken, the ones with most opportunistic work, and from the far end, because
guaranteed work is bound from the near end.
"""

from collections.abc import Iterator
from math import isqrt

from hivecore.reference.cells.cells import PhysicalCell, VirtualCell
from hivecore.reference.cells.leaf_choice import GUARANTEED, IDLE, Demand, choose_leaves
from hivecore.reference.cells.packing import Choice, Unit, fan_out, next_fit, tightest_fit
from hivecore.reference.cells.requests import Request, class_of_leaves, is_lower
from hivecore.reference.cells.state import State

__all__ = ["Chooser"]

_MANY_UNITS = 16
_MANY_GAPS = 3


class Chooser:
    """The units, domains and choices of a request in a state, for a given reach."""

    def __init__(self, state: State, request: Request, reach: int) -> None:
        self.state, self.request, self.reach = state, request, reach
        self.forest = state.forests[request.chain]
        self.leaf_class = class_of_leaves(state, request, reach)
        single = request.priority >= 0 and len(request.demands) == 1 and not request.spread
        self.spared = set(filter(self._spares, request.pools)) if single else set()
        self.units = sorted(filter(self._is_suggested, self.all_units()), key=self._preference)

    # Units

    def all_units(self) -> Iterator[Unit]:
        """Yield all units, in the order in which policies number them."""
        node, state = self.forest.node_level, self.state
        if self.request.priority < 0:
            for number in self.forest.cells(node):
                here = PhysicalCell(self.request.chain, node, number)
                width, free = self.forest.widths[node], self._available(node, number)
                used = state.load(here), state.held(here)
                yield Unit(-1, node, number, number, number, width, free, *used)
            return
        for pool in self.request.pools:
            for root in state.roots(pool):
                level = min(root.level, node)
                for number in self.forest.inside(root.level, root.number, level):
                    unit = VirtualCell(pool, level, number)
                    cell, width = state.bound.get(unit), self.forest.widths[level]
                    at = None if cell is None else cell // self.forest.many(node, level)
                    free = width if cell is None else self._available(level, cell)
                    yield Unit(*unit, cell, at, width, free, self._used(unit), self._lower(unit))

    def _available(self, level: int, cell: int) -> int:
        return sum(self.leaf_class(x) is not None for x in self.forest.leaves(level, cell))

    def _held(self, cell: VirtualCell) -> list[int]:
        """Return the leaves that groups hold in a virtual cell."""
        if cell not in self.state.bound:
            return []
        leaves = self.forest.leaves(cell.level, self.state.bound[cell])
        return [leaf for leaf in leaves if leaf in self.state.pair]

    def _lower(self, cell: VirtualCell) -> int:
        """Count the leaves of these groups that may be preempted."""
        lower = (is_lower(self.state, self.request, leaf) for leaf in self._held(cell))
        return sum(lower) if self.reach == GUARANTEED else 0

    def _used(self, cell: VirtualCell) -> int:
        """Count the leaves of these groups that stay."""
        return len(self._held(cell)) - self._lower(cell)

    def _used_around(self, unit: Unit) -> int:
        """Count the same in the virtual cell of the next level around a virtual node."""
        if unit.level < self.forest.node_level or unit.level == self.state.pools[unit.pool].level:
            return 0
        number = unit.number // self.forest.fanouts[unit.level]
        return self._used(VirtualCell(unit.pool, unit.level + 1, number))

    def _is_suggested(self, unit: Unit) -> bool:
        suggested = self.request.suggested
        return unit.node is None or suggested is None or unit.node in suggested

    def packing(self, leaves: int, used: int) -> int:
        """Return a score for how tightly a cell is packed, or how little it is spread; less is
        better.
        """
        if self.request.spread:
            return used
        return leaves - used if used else self.state.end_leaf

    def opened(self, choice: Choice) -> int:
        """Count the idle units in a choice; less is better."""
        idle = sum(unit.used == 0 for unit in choice)
        return -idle if self.request.spread else idle

    def _preference(self, unit: Unit, placed: int = 0) -> tuple[int, ...]:
        used = unit.used + placed
        if unit.pool < 0:
            return self.packing(unit.leaves, used), unit.held, -unit.number
        around = 0 if used or self.request.spread else -self._used_around(unit)
        packing, spared = self.packing(unit.leaves, used), not used and unit.pool in self.spared
        return packing, -used, unit.held, spared, unit.pool, around, unit.number

    def _spares(self, pool: int) -> bool:
        """Whether a single pod avoids the idle units of a pool while there are larger ones."""
        left: dict[int, list[int]] = {}  # pool -> per unit, the leaves that no group holds
        for unit in self.all_units():
            free = unit.leaves - len(self._held(unit.virtual))
            left.setdefault(unit.pool, []).append(free)
        many, width = len(left[pool]), self._width(pool)
        gap = width - self.request.total
        gaps = sum(free == gap < self._width(each) for each in left for free in left[each])
        larger = [each for each in left if self._width(each) > width]
        idle_larger = sum(left[each].count(self._width(each)) for each in larger)
        many_larger, idle = sum(len(left[each]) for each in larger), left[pool].count(width)
        are_left = idle_larger * many > (idle - isqrt(many)) * many_larger
        return gap > 0 and many >= _MANY_UNITS and gaps >= _MANY_GAPS and are_left

    def _width(self, pool: int) -> int:
        """Count the leaves of a unit of a pool."""
        return self.forest.widths[min(self.state.pools[pool].level, self.forest.node_level)]

    # Domains

    def domains(self) -> Iterator[list[list[Unit]]]:
        """Yield sets of units in order of preference, level by level."""
        within, node, top = self.request.group_within, self.forest.node_level, self.forest.top
        single, guaranteed = len(self.request.demands) == 1, self.request.priority >= 0
        if within >= 0:
            yield self._cells_as_domains(max(within, node), lower_roots=True)
            return
        if self.request.units is None and not (single and guaranteed):
            highest = node + 1 if single and node < top else top
            for level in range(node + 1, highest + 1):
                yield self._cells_as_domains(level, lower_roots=False)
        if not single or guaranteed or node == top:
            yield [self.units]

    def _cells_as_domains(self, level: int, lower_roots: bool) -> list[list[Unit]]:
        """Return the units in each cell of a level, including lower roots if they count as cells of
        it.
        """
        domains: dict[VirtualCell, list[Unit]] = {}
        for unit in self.units:
            highest = self.forest.top if unit.pool < 0 else self.state.pools[unit.pool].level
            if level <= highest or lower_roots:
                wide = min(level, highest)
                number = unit.number // self.forest.many(wide, unit.level)
                domains.setdefault(VirtualCell(unit.pool, wide, number), []).append(unit)
        roomy = [cell for cell in domains if _room(domains[cell]) >= self.request.total]
        roomy.sort(key=self._domain_preference)
        return [domains[cell] for cell in roomy]

    def _domain_preference(self, cell: VirtualCell) -> tuple[int, ...]:
        if cell.pool >= 0:
            used = self._used(cell)
            packing = self.packing(self.forest.widths[cell.level], used)
            return packing, -used, cell.pool, cell.number
        physical = PhysicalCell(self.request.chain, cell.level, cell.number)
        load, held = self.state.load(physical), self.state.held(physical)
        packing = self.packing(self.forest.widths[cell.level], load)
        if cell.level == self.forest.node_level:
            return packing, held, -cell.number
        promised = 2 if held else 1 - self.state.is_free(physical)
        return promised, self._taken_around(physical), packing, -cell.number

    def _taken_around(self, cell: PhysicalCell) -> int:
        """Count the quarters of the tenant's cell around it that are taken or bad."""
        root = next(filter(self.state.is_root, self.state.around(cell)), None)
        if root is None:
            return 0
        return 4 - 4 * self.state.idle(root) // self.forest.widths[root.level]

    # Choices

    def choices(self) -> Iterator[Choice]:
        """Yield all choices in order of preference; within a level, fewest opened units first."""
        demands, guaranteed = list(self.request.demands), self.request.priority >= 0
        if guaranteed and self.request.is_single:
            yield from ({unit: demands} for unit in self.units if self._takes(unit, demands))
            return
        for domains in self.domains():
            choices = [choice for choice in map(self.choose, domains) if choice is not None]
            yield from sorted(choices, key=self.opened) if guaranteed else choices

    def choose(self, domain: list[Unit]) -> Choice | None:
        """Return units for all pods."""
        if self.request.units is not None:
            return self._units_of_policy(domain)
        if _room(domain) < self.request.total:
            return None
        demands = self.request.demands
        if self.request.spread:
            choice = fan_out(domain, demands, self._takes, self._preference)
        else:
            choice = next_fit(domain, demands, self._takes)
        if choice is None and self.request.is_mixed and not self.request.is_constrained:
            choice = tightest_fit(domain, demands)
        return choice

    def _units_of_policy(self, domain: list[Unit]) -> Choice | None:
        numbered, choice = list(self.all_units()), Choice()
        for demand in self.request.demands:
            number = (self.request.units or ())[demand.position]
            choice.setdefault(numbered[number], []).append(demand)
        fits = all(unit in domain and self._takes(unit, choice[unit]) for unit in choice)
        return choice if fits else None

    def _takes(self, unit: Unit, demands: list[Demand]) -> bool:
        """Whether the pods fit into the unit together, or into an idle unit if it is unbound."""
        if sum(demand.leaves for demand in demands) > unit.available:
            return False
        if not self.request.is_constrained:
            return True
        if self.request.most is not None:
            nodes = self.request.suggested or () if unit.node is None else [unit.node]
            if len(demands) > max((self.request.most[node] for node in nodes), default=0):
                return False
        cell, leaf_class = (0, _idle) if unit.cell is None else (unit.cell, self.leaf_class)
        within = self.request.group_within
        return choose_leaves(self.forest, unit.level, cell, demands, within, leaf_class) is not None


def _room(units: list[Unit]) -> int:
    return sum(unit.available for unit in units)


def _idle(leaf: int) -> int | None:
    return IDLE
