"""Where chosen units go: virtual units get physical cells, and pods their leaves.

A bound unit is where it is. The others are mapped anchor by anchor: below the lowest bound cell
around them, whose children are theirs to choose from, or as whole new roots in free cells. Choices
are lexicographic by (bad leaves, opportunistic leaves, index), and each is checked to leave enough
for the rest: needed virtual cells and physical ones must have a perfect matching at every level.
"""

from hivecore.reference.cells.cells import PhysicalCell, VirtualCell, VirtualLeaf
from hivecore.reference.cells.leaf_choice import Budget, Demand, LeafClass, choose_leaves
from hivecore.reference.cells.occupants import Occupants, choose_cheaply
from hivecore.reference.cells.state import State
from hivecore.reference.cells.unit_choice import (
    Choice,
    Chooser,
    Request,
    anchor,
    class_of_leaves,
)

__all__ = ["Mapper", "Placed"]

Placed = dict[int, list[tuple[int, VirtualLeaf]]]
"""Per pod, by position: its leaves with their virtual leaves."""


class Mapper:
    """Maps one choice, in a state of its own that it changes."""

    def __init__(
        self,
        state: State,
        chooser: Chooser,
        handle: int,
        foreseen: dict[VirtualCell, int] | None = None,
    ) -> None:
        self.state, self.handle = state, handle
        self.request, self.budget = chooser.request, chooser.budget
        self.forest = state.forests[chooser.request.chain]
        self.leaf_class = class_of_leaves(state, self.request, chooser.reach, chooser.victims)
        self.foreseen = foreseen or chooser.foreseen or {}
        self.occupants = Occupants(state)
        self.placed: Placed = {}

    def map(self, choice: Choice) -> bool:
        """Hold leaves for all pods; False: for some there are none."""
        for unit, demands in choice.items():
            index = self.state.bound.get(unit.virtual, self.foreseen.get(unit.virtual))
            if index is not None and not self._settle(unit.virtual, index, demands):
                return False
        anchors: dict[VirtualCell, dict[VirtualCell, list[Demand]]] = {}
        for unit, demands in choice.items():
            if unit.virtual not in self.state.bound:
                around = anchor(self.state, unit.virtual)
                anchors.setdefault(around, {})[unit.virtual] = demands
        order = sorted(anchors, key=lambda cell: cell not in self.state.bound)
        return all(self._map_anchor(cell, anchors[cell]) for cell in order)

    def _map_anchor(self, top: VirtualCell, pods: dict[VirtualCell, list[Demand]]) -> bool:
        finder = _Finder(self.state, self.request, pods, self.leaf_class, self.budget)
        if top in self.state.bound:
            cells: dict[VirtualCell, int] | None = finder.children(top, self.state.bound[top])
        else:
            cells = finder.root(top)
        if cells is None:
            return False
        return all(self._settle(unit, cells[unit], pods[unit]) for unit in pods)

    def _settle(self, unit: VirtualCell, cell: int, demands: list[Demand]) -> bool:
        """Choose the leaves of a unit's pods in its physical cell, and hold them."""
        within = self.request.group_within
        chosen = choose_cheaply(
            self.forest, unit.level, cell, demands, within, self.leaf_class, self.occupants
        )
        if chosen is None:
            return False
        self.occupants.leave(leaf for leaves in chosen for leaf in leaves)
        for demand, leaves in zip(demands, chosen, strict=True):
            self.placed[demand.position] = []
            for leaf in leaves:
                virtual = self.state.virtual_leaf(unit, cell, leaf)
                held = self.hold(leaf, virtual)
                assert held, "the cell is bound, or may be"
                self.placed[demand.position].append((leaf, virtual))
        return True

    def hold(self, leaf: int, virtual: VirtualLeaf) -> bool:
        """Reserve a leaf for the new group, over whoever holds it now."""
        if leaf in self.state.pair:
            self.state.unbook(leaf)
        self.state.reserver[leaf] = self.handle
        return self.state.book(leaf, virtual)


class _Finder:
    """Physical cells for the units of one anchor."""

    def __init__(
        self,
        state: State,
        request: Request,
        pods: dict[VirtualCell, list[Demand]],
        leaf_class: LeafClass,
        budget: Budget,
    ) -> None:
        self.state, self.request, self.pods, self.leaf_class = state, request, pods, leaf_class
        self.budget = budget
        self.chain, self.forest = request.chain, state.forests[request.chain]
        self.known: dict[tuple[VirtualCell, int], bool] = {}

    def needed(self, cell: VirtualCell) -> list[VirtualCell]:
        """The children of a virtual cell that have chosen units in them, ascending."""
        level = cell.level - 1
        wanted = {unit.number // self._many(unit, level) for unit in self.pods}
        children = self.forest.inside(cell.level, cell.number, level)
        return [VirtualCell(cell.pool, level, child) for child in children if child in wanted]

    def _many(self, unit: VirtualCell, level: int) -> int:
        return self.forest.widths[level] // self.forest.widths[unit.level]

    def fits(self, cell: VirtualCell, index: int) -> bool:
        """Whether a physical cell could be bound to the virtual one and serve all units in it."""
        if (cell, index) not in self.known:
            if cell in self.pods:
                fits = self._hosts(cell, index)
            else:
                fits = self._matches(self.needed(cell), self._candidates(cell.level, index))
            self.known[cell, index] = fits
        return self.known[cell, index]

    def _hosts(self, unit: VirtualCell, index: int) -> bool:
        suggested = self.request.suggested
        nodes = self._many(unit, self.forest.node_level)
        if suggested is not None and index // nodes not in suggested:
            return False
        within, most = self.request.group_within, self.request.most
        demands = self.pods[unit]
        if most is not None and len(demands) > most[index // nodes]:
            return False
        found = choose_leaves(
            self.forest, unit.level, index, demands, within, self.leaf_class, self.budget
        )
        return found is not None

    def _candidates(self, level: int, index: int) -> list[int]:
        """The unbound children of a physical cell, best first."""
        children = self.forest.inside(level, index, level - 1)
        cells = (PhysicalCell(self.chain, level - 1, child) for child in children)
        unbound = [cell for cell in cells if cell not in self.state.partner]
        return [cell.number for cell in sorted(unbound, key=self._preference)]

    def _preference(self, cell: PhysicalCell) -> tuple[int, int, int]:
        return self.state.sick(cell), self.state.load(cell), cell.number

    def _matches(self, cells: list[VirtualCell], candidates: list[int]) -> bool:
        """Whether each virtual cell can have a physical one of its own (augmenting paths)."""
        owner: dict[int, VirtualCell] = {}

        def augment(cell: VirtualCell, seen: set[int]) -> bool:
            for index in candidates:
                if index not in seen and self.fits(cell, index):
                    seen.add(index)
                    if index not in owner or augment(owner[index], seen):
                        owner[index] = cell
                        return True
            return False

        return all(augment(cell, set()) for cell in cells)

    def children(self, cell: VirtualCell, index: int) -> dict[VirtualCell, int] | None:
        """Cells for the units in a virtual cell that is, or will be, bound to ``index``."""
        waiting, candidates = self.needed(cell), self._candidates(cell.level, index)
        if not self._matches(waiting, candidates):
            return None
        found: dict[VirtualCell, int] = {}
        while waiting:
            child = waiting.pop(0)
            for candidate in candidates:
                rest = [other for other in candidates if other != candidate]
                if self.fits(child, candidate) and self._matches(waiting, rest):
                    candidates = rest
                    found.update(self.inside(child, candidate))
                    break
        return found

    def inside(self, cell: VirtualCell, index: int) -> dict[VirtualCell, int]:
        """The same for a cell that is known to fit."""
        if cell in self.pods:
            return {cell: index}
        found = self.children(cell, index)
        assert found is not None, "what fits can be mapped"
        return found

    def root(self, root: VirtualCell) -> dict[VirtualCell, int] | None:
        """Cells for the units in an unbound root: in a wholly healthy free cell if there is one."""
        for may_be_sick in (False, True):
            for source in range(root.level, self.forest.top + 1):
                if not self.state.may_split(self.chain, root.level, source):
                    break
                listed = self.state.listed(self.chain, source)
                cells = [PhysicalCell(self.chain, source, index) for index in listed]
                key = self._preference if may_be_sick else self._load
                for cell in sorted(cells, key=key):
                    index = self._first_below(root, cell, may_be_sick)
                    if index is not None:
                        return self.inside(root, index)
        return None

    def _load(self, cell: PhysicalCell) -> tuple[int, int]:
        return self.state.load(cell), cell.number

    def _first_below(self, root: VirtualCell, cell: PhysicalCell, may_be_sick: bool) -> int | None:
        if cell.level == root.level:
            good = may_be_sick or self.state.sick(cell) == 0
            return cell.number if good and self.fits(root, cell.number) else None
        for child in self._candidates(cell.level, cell.number):
            below = PhysicalCell(self.chain, cell.level - 1, child)
            index = self._first_below(root, below, may_be_sick)
            if index is not None:
                return index
        return None
