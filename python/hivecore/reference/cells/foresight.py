"""Where all unbound units of a tenant could be at once, for gangs that the usual way cannot place.

The usual choice takes an unbound unit for a whole one and finds it a physical cell afterwards.
Where bad leaves, excluded nodes, or leaves that are not to be taken leave no whole cells, it has to
know what each unit would have. Below a bound cell there are as many unbound virtual cells as
physical ones, and it does not matter which is bound to which: any pairing shows what there is.

Unbound roots are paired with free cells, as far as these split off safely: at first with those that
have most, then in all other ways, up to a limit. Cells are of one kind if a symmetry of the chain
maps one to the other; of a kind only the first is tried. In chains of more than 64 nodes only the
first pairing is looked at.
"""

from collections.abc import Callable, Collection, Iterator
from functools import cache
from math import inf

from hivecore.reference.cells.cells import PhysicalCell, VirtualCell
from hivecore.reference.cells.leaf_choice import Budget
from hivecore.reference.cells.state import State
from hivecore.reference.cells.unit_choice import Request, class_of_leaves

__all__ = ["foreseen"]

_MOST_NODES = 64
_MOST_SIGHTS = 256

_Kind = tuple[object, ...]


def foreseen(
    state: State, request: Request, reach: int, victims: Collection[int] | None, budget: Budget
) -> Iterator[dict[VirtualCell, int]]:
    """Physical cells for unbound units of the instance; those without one can have none."""
    foresight = _Foresight(state, request, reach, victims)
    most = 1 if foresight.is_large else _MOST_SIGHTS
    for number, paired in enumerate(foresight.pairings(state, 0, frozenset())):
        if number == most:
            budget.cut_short = True
            return
        yield foresight.units(paired)


class _Foresight:
    def __init__(
        self, state: State, request: Request, reach: int, victims: Collection[int] | None
    ) -> None:
        self.request, self.forest = request, state.forests[request.chain]
        self.leaf_class = class_of_leaves(state, request, reach, victims)
        self.largest = request.demands[-1].leaves
        self.is_large = len(self.forest.cells(self.forest.node_level)) > _MOST_NODES
        self.usable = cache(self._usable)
        pods = len(request.demands)
        self.roots = [  # that may be paired: those of the highest level first
            root
            for pool in sorted(request.pools, key=lambda pool: -state.pools[pool].level)
            for root in state.unbound_roots(pool)[:pods]
        ]
        confined = request.group_within >= 0 or any(pod.within >= 0 for pod in request.demands)
        levels = (min(root.level, self.forest.node_level) for root in self.roots)
        self.lowest = 0 if confined or request.most is not None else min(levels, default=0)
        self.seen: set[tuple[int, frozenset[PhysicalCell]]] = set()

    # Roots

    def pairings(
        self, state: State, paired: int, cells: frozenset[PhysicalCell]
    ) -> Iterator[State]:
        """States in which the roots from ``paired`` on are bound to cells, or are left out."""
        if (paired, cells) in self.seen:
            return
        self.seen.add((paired, cells))
        if paired == len(self.roots):
            yield state
            return
        root = self.roots[paired]
        for cell in self._candidates(state, root):
            after = state.copy()
            after.bind(root, cell)
            yield from self.pairings(after, paired + 1, cells | {cell})
        rest = (place for place, other in enumerate(self.roots) if other.pool == root.pool)
        yield from self.pairings(state, max(rest) + 1, cells)

    def _candidates(self, state: State, root: VirtualCell) -> list[PhysicalCell]:
        """A cell of each kind, the best one first; of a large chain no other."""
        numbers = self.forest.cells(root.level)
        cells = [PhysicalCell(self.request.chain, root.level, number) for number in numbers]
        free = [cell for cell in cells if state.may_be_root(cell)]
        free.sort(key=lambda cell: self._preference(state, cell))
        if self.is_large:
            return free[:1]
        kind_of = self._kinds(state)
        kinds: dict[_Kind, PhysicalCell] = {}
        for cell in free:
            around, path = cell, [kind_of(cell)]
            while around.level < self.forest.top:
                around = state.parent(around)
                path.append(kind_of(around))
            kinds.setdefault(tuple(path), cell)
        return list(kinds.values())

    def _kinds(self, state: State) -> Callable[[PhysicalCell], _Kind]:
        """What the cells that a symmetry maps to each other share."""

        @cache
        def kind_of(cell: PhysicalCell) -> _Kind:
            if state.is_root(cell):
                return ("root",)
            free = state.touched[cell] == 0, self._most(cell)
            if cell.level == self.lowest:
                return free, self.usable(cell)
            below = self.forest.inside(cell.level, cell.number, cell.level - 1)
            inside = (kind_of(PhysicalCell(cell.chain, cell.level - 1, child)) for child in below)
            return free, *sorted(inside, key=repr)

        return kind_of

    def _preference(self, state: State, cell: PhysicalCell) -> tuple[float, ...]:
        """Room for most pods, most leaves, the fewest cells to split, most leaves around it."""
        node = min(cell.level, self.forest.node_level)
        parts = self.forest.inside(cell.level, cell.number, node)
        inside = [PhysicalCell(cell.chain, node, part) for part in parts]
        usable = [self.usable(each) for each in inside]
        pods = sum(min(self.usable(each) // self.largest, self._most(each)) for each in inside)
        source = around = cell
        while not state.is_listed(source):
            source = state.parent(source)
        outside = []
        while around.level < self.forest.top:
            around = state.parent(around)
            outside.append(-self.usable(around))
        return -pods, -sum(usable), source.level, *outside, cell.number

    def _most(self, cell: PhysicalCell) -> float:
        """Pods that the node may get that a cell is or is in; inf: any number."""
        most, node = self.request.most, self.forest.node_level
        if most is None or cell.level > node:
            return inf
        return most[cell.number // (self.forest.widths[node] // self.forest.widths[cell.level])]

    def _usable(self, cell: PhysicalCell) -> int:
        leaves = self.forest.leaves(cell.level, cell.number)
        return sum(self._may_use(leaf) for leaf in leaves)

    def _may_use(self, leaf: int) -> bool:
        suggested = self.request.suggested
        node = self.forest.above(leaf, self.forest.node_level)
        return self.leaf_class(leaf) is not None and (suggested is None or node in suggested)

    # Units

    def units(self, state: State) -> dict[VirtualCell, int]:
        """The cells of all units in roots that are bound, or paired."""
        found: dict[VirtualCell, int] = {}
        for pool in self.request.pools:
            for root in state.roots(pool):
                if root in state.bound:
                    self._pair(state, root, state.bound[root], found)
        return found

    def _pair(
        self, state: State, cell: VirtualCell, index: int, found: dict[VirtualCell, int]
    ) -> None:
        """A virtual cell is, or would be, bound to ``index``; so are the units in it."""
        if cell.level == min(state.pools[cell.pool].level, self.forest.node_level):
            found[cell] = index
            return
        below = cell.level - 1
        children = self.forest.inside(cell.level, cell.number, below)
        cells = [VirtualCell(cell.pool, below, child) for child in children]
        inside = self.forest.inside(cell.level, index, below)
        physical = [PhysicalCell(self.request.chain, below, child) for child in inside]
        unbound = iter([each.number for each in physical if each not in state.partner])
        for child in cells:
            place = state.bound[child] if child in state.bound else next(unbound)
            self._pair(state, child, place, found)
