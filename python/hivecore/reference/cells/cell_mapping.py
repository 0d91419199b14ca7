"""Binds chosen virtual cells to physical cells (HiveD, OSDI'20, section 3).

A virtual cell is bound to a physical cell of its level, and the parent of a bound cell to the
parent of its physical cell, so that a tenant gets the topology that it owns. A chosen unit that is
bound stays where it is. Other units are mapped below their *anchors*: the lowest bound virtual cell
around them, whose physical children they may use, or else their unbound root, which gets a free
cell.

**Which cell.** The one with the fewest bad leaves, then the fewest leaves of opportunistic work
(dynamic binding avoids evictions), then the lowest number. Of all assignments of the needed
children, the lexicographically first is taken.

**A new root** gets a healthy cell if there is one, by buddy allocation (Algorithm 1): from the free
list of its level, or else of the lowest level above, whose cell is split. It may also skip
low-level cells that cannot serve and split one of a higher level, if enough remains for all owned
cells (`State.may_split`).
"""

from functools import cache

from hivecore.reference.cells.cells import PhysicalCell, VirtualCell, VirtualLeaf
from hivecore.reference.cells.leaf_choice import LeafClass, choose_leaves
from hivecore.reference.cells.packing import Choice
from hivecore.reference.cells.requests import Request
from hivecore.reference.cells.state import State

__all__ = ["CellMapping", "Placed"]

Placed = dict[int, list[tuple[int, VirtualLeaf]]]
"""pod position -> its leaves with their virtual leaves"""

_Cells = dict[VirtualCell, int]
"""chosen units -> the physical cells to bind them to"""


class CellMapping:
    """Maps a choice in a copy of the state, where it reserves the leaves for a new group."""

    def __init__(self, state: State, request: Request, leaf_class: LeafClass, handle: int) -> None:
        self.state, self.request, self.handle = state, request, handle
        self.forest, self.leaf_class = state.forests[request.chain], leaf_class
        self.placed: Placed = {}

    def map(self, choice: Choice) -> Placed | None:
        """Return the leaves of all pods; None if some pods get none."""
        self.pods = {unit.virtual: demands for unit, demands in choice.items()}
        bound = {
            unit: cell for unit in self.pods if (cell := self.state.bound.get(unit)) is not None
        }
        if not self._settle(bound):
            return None
        anchors: dict[VirtualCell, list[VirtualCell]] = {}
        for unit in self.pods:
            if unit not in bound:
                anchors.setdefault(self._anchor(unit), []).append(unit)
        for top in sorted(anchors, key=lambda cell: cell not in self.state.bound):
            self._inside = cache(self._cells_inside)  # valid until other cells are bound
            index = self.state.bound.get(top)
            cells = self._root(top) if index is None else self._children(top, index)
            if cells is None or not self._settle({unit: cells[unit] for unit in anchors[top]}):
                return None
        return self.placed

    def _anchor(self, unit: VirtualCell) -> VirtualCell:
        """Return the lowest bound cell around a unit, or its root."""
        while unit not in self.state.bound and unit.level < self.state.pools[unit.pool].level:
            number = unit.number // self.forest.fanouts[unit.level]
            unit = VirtualCell(unit.pool, unit.level + 1, number)
        return unit

    def _settle(self, cells: _Cells) -> bool:
        """Choose and reserve the leaves of the units' pods in their physical cells."""
        for unit, cell in cells.items():
            chosen = self._leaves_in(unit, cell)
            if chosen is None:
                return False
            for demand, leaves in zip(self.pods[unit], chosen, strict=True):
                virtual = [self._reserve(unit, leaf) for leaf in leaves]
                self.placed[demand.position] = list(zip(leaves, virtual, strict=True))
        return True

    def _reserve(self, unit: VirtualCell, leaf: int) -> VirtualLeaf:
        virtual = self.state.virtual_leaf(unit, leaf)
        if leaf in self.state.pair:
            self.state.unbook(leaf)
        self.state.reserver[leaf] = self.handle
        booked = self.state.book(leaf, virtual)
        assert booked, "the cell is bound, or may be"
        return virtual

    def _leaves_in(self, unit: VirtualCell, index: int) -> list[list[int]] | None:
        demands, within = self.pods[unit], self.request.group_within
        return choose_leaves(self.forest, unit.level, index, demands, within, self.leaf_class)

    def _cells_inside(self, cell: VirtualCell, index: int) -> _Cells | None:
        """Return cells for the units in a virtual cell bound to ``index``; None if
        they do not fit.
        """
        if cell not in self.pods:
            return self._children(cell, index)
        node, most = (
            index // self.forest.many(self.forest.node_level, cell.level),
            self.request.most,
        )
        suggested = self.request.suggested
        if suggested is not None and node not in suggested:
            return None
        if most is not None and len(self.pods[cell]) > most[node]:
            return None
        return None if self._leaves_in(cell, index) is None else {cell: index}

    def _children(self, cell: VirtualCell, index: int) -> _Cells | None:
        """Return the first assignment of children that works, one child at a time."""

        def assign(needed: list[VirtualCell], candidates: list[int]) -> _Cells | None:
            if not needed:
                return {}
            for candidate in candidates:
                cells = self._inside(needed[0], candidate)
                others = [other for other in candidates if other != candidate]
                if cells is not None and (rest := assign(needed[1:], others)) is not None:
                    return cells | rest
            return None

        level, chosen = cell.level - 1, (unit for unit in self.pods if unit.pool == cell.pool)
        wanted = {unit.number // self.forest.many(level, unit.level) for unit in chosen}
        below = self.forest.inside(cell.level, cell.number, level)
        needed = [VirtualCell(cell.pool, level, number) for number in below if number in wanted]
        unbound = [child for child in needed if child not in self.state.bound]
        return assign(unbound, self._unbound_children(cell.level, index))

    def _unbound_children(self, level: int, index: int) -> list[int]:
        """Return the unbound children of a physical cell, best first."""
        numbers = self.forest.inside(level, index, level - 1)
        cells = (PhysicalCell(self.request.chain, level - 1, number) for number in numbers)
        unbound = [cell for cell in cells if cell not in self.state.partner]
        return [cell.number for cell in sorted(unbound, key=self._preference)]

    def _preference(self, cell: PhysicalCell) -> tuple[int, int, int]:
        return self.state.sick(cell), self.state.load(cell), cell.number

    def _root(self, root: VirtualCell) -> _Cells | None:
        """Return cells for the units of an unbound root, in a free cell."""
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
        """Return those in the first suitable cell inside a free one."""
        if cell.level == root.level:
            good = may_be_sick or self.state.sick(cell) == 0
            return self._inside(root, cell.number) if good else None
        below = (
            PhysicalCell(cell.chain, cell.level - 1, child)
            for child in self._unbound_children(cell.level, cell.number)
        )
        cells = (self._first_inside(root, child, may_be_sick) for child in below)
        return next((each for each in cells if each is not None), None)
