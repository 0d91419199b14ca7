"""Which physical cells the chosen virtual cells are bound to (HiveD, OSDI'20, section 3).

A virtual cell is bound to a physical cell of its level, and the parent of a bound cell to the
parent of its physical cell: inside a root a tenant has the topology that it was promised. A chosen
unit that is bound is where it is. The others are mapped below their *anchors*: the lowest bound
virtual cell around them, whose physical children they may choose from, or else their unbound root,
which gets a free cell.

**Which cell.** The one with the fewest bad leaves, then with the fewest leaves of opportunistic
work (dynamic binding evicts nothing where that can be avoided), then with the lowest number. Of all
ways to give the needed children cells of their own, the lexicographically first is taken.

**A new root** gets a wholly healthy cell if there is one, by buddy allocation (Algorithm 1): from
the free list of its level, or else from that of the lowest level above, whose cell is split. It may
also pass over the cells of a low level that cannot serve, and split one of a higher level, so far
as that leaves enough for all cells that are owed to tenants (`State.may_split`).
"""

from functools import cache

from hivecore.reference.cells.cells import PhysicalCell, VirtualCell, VirtualLeaf
from hivecore.reference.cells.leaf_choice import Demand, LeafClass, choose_leaves
from hivecore.reference.cells.state import State
from hivecore.reference.cells.unit_choice import Choice, Request, anchor

__all__ = ["Placed", "map_choice"]

Placed = dict[int, list[tuple[int, VirtualLeaf]]]
"""Per pod, by position: its leaves with their virtual leaves."""

_Cells = dict[VirtualCell, int]


def map_choice(
    state: State, request: Request, choice: Choice, leaf_class: LeafClass, handle: int
) -> Placed | None:
    """Reserve leaves for all pods of a choice in the state; None: for some there are none."""
    placed: Placed = {}
    pods = {unit.virtual: demands for unit, demands in choice.items()}
    bound = {unit: state.bound[unit] for unit in pods if unit in state.bound}
    anchors: dict[VirtualCell, dict[VirtualCell, list[Demand]]] = {}
    for unit, demands in pods.items():
        if unit not in bound:
            anchors.setdefault(anchor(state, unit), {})[unit] = demands

    def settle(cells: _Cells) -> bool:
        for unit, cell in cells.items():
            settled = _settle(state, request, unit, cell, pods[unit], leaf_class, handle)
            if settled is None:
                return False
            placed.update(settled)
        return True

    if not settle(bound):
        return None
    for top in sorted(anchors, key=lambda cell: cell not in state.bound):
        binding = _Binding(state, request, anchors[top], leaf_class)
        if top in state.bound:
            cells = binding.children(top, state.bound[top])
        else:
            cells = binding.root(top)
        if cells is None or not settle({unit: cells[unit] for unit in anchors[top]}):
            return None
    return placed


def _settle(
    state: State,
    request: Request,
    unit: VirtualCell,
    cell: int,
    demands: list[Demand],
    leaf_class: LeafClass,
    handle: int,
) -> Placed | None:
    """Choose the leaves of a unit's pods in its physical cell, and reserve them."""
    forest = state.forests[request.chain]
    chosen = choose_leaves(forest, unit.level, cell, demands, request.group_within, leaf_class)
    if chosen is None:
        return None
    placed: Placed = {}
    for demand, leaves in zip(demands, chosen, strict=True):
        placed[demand.position] = []
        for leaf in leaves:
            virtual = state.virtual_leaf(unit, leaf)
            if leaf in state.pair:
                state.unbook(leaf)
            state.reserver[leaf] = handle
            booked = state.book(leaf, virtual)
            assert booked, "the cell is bound, or may be"
            placed[demand.position].append((leaf, virtual))
    return placed


class _Binding:
    """Physical cells for the units below one anchor."""

    def __init__(
        self,
        state: State,
        request: Request,
        pods: dict[VirtualCell, list[Demand]],
        leaf_class: LeafClass,
    ) -> None:
        self.state, self.request, self.pods, self.leaf_class = state, request, pods, leaf_class
        self.forest = state.forests[request.chain]
        self.inside = cache(self._inside)

    def _inside(self, cell: VirtualCell, index: int) -> _Cells | None:
        """Cells for the units in a virtual cell bound to ``index``; None: they do not fit."""
        if cell in self.pods:
            return {cell: index} if self._hosts(cell, index) else None
        return self.children(cell, index)

    def _hosts(self, unit: VirtualCell, index: int) -> bool:
        request, demands = self.request, self.pods[unit]
        node = index // self.forest.many(self.forest.node_level, unit.level)
        if request.suggested is not None and node not in request.suggested:
            return False
        if request.most is not None and len(demands) > request.most[node]:
            return False
        within = request.group_within
        chosen = choose_leaves(self.forest, unit.level, index, demands, within, self.leaf_class)
        return chosen is not None

    def children(self, cell: VirtualCell, index: int) -> _Cells | None:
        """The same by the first assignment of children that works, tried one child at a time."""

        def assign(needed: list[VirtualCell], candidates: list[int]) -> _Cells | None:
            if not needed:
                return {}
            for candidate in candidates:
                cells = self.inside(needed[0], candidate)
                others = [other for other in candidates if other != candidate]
                if cells is not None and (rest := assign(needed[1:], others)) is not None:
                    return cells | rest
            return None

        level = cell.level - 1
        wanted = {unit.number // self.forest.many(level, unit.level) for unit in self.pods}
        below = self.forest.inside(cell.level, cell.number, level)
        needed = [VirtualCell(cell.pool, level, each) for each in below if each in wanted]
        return assign(needed, self._unbound_children(cell.level, index))

    def _unbound_children(self, level: int, index: int) -> list[int]:
        """The unbound children of a physical cell, best first."""
        numbers = self.forest.inside(level, index, level - 1)
        cells = (PhysicalCell(self.request.chain, level - 1, number) for number in numbers)
        unbound = [cell for cell in cells if cell not in self.state.partner]
        return [cell.number for cell in sorted(unbound, key=self._preference)]

    def _preference(self, cell: PhysicalCell) -> tuple[int, int, int]:
        return self.state.sick(cell), self.state.load(cell), cell.number

    def root(self, root: VirtualCell) -> _Cells | None:
        """The same for an unbound root, in a free cell."""
        state, chain = self.state, self.request.chain
        for may_be_sick in (False, True):
            for source in range(root.level, self.forest.top + 1):
                if not state.may_split(chain, root.level, source):
                    break
                free = [PhysicalCell(chain, source, index) for index in state.listed(chain, source)]
                free.sort(key=lambda cell: (may_be_sick and state.sick(cell), state.load(cell)))
                for cell in free:
                    cells = self._first_inside(root, cell, may_be_sick)
                    if cells is not None:
                        return cells
        return None

    def _first_inside(
        self, root: VirtualCell, cell: PhysicalCell, may_be_sick: bool
    ) -> _Cells | None:
        """The same for the first cell in a free one that will do."""
        if cell.level == root.level:
            good = may_be_sick or self.state.sick(cell) == 0
            return self.inside(root, cell.number) if good else None
        below = (
            PhysicalCell(cell.chain, cell.level - 1, child)
            for child in self._unbound_children(cell.level, cell.number)
        )
        cells = (self._first_inside(root, child, may_be_sick) for child in below)
        return next((each for each in cells if each is not None), None)
