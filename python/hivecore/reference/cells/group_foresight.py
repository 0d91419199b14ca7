"""Where all unbound units of a tenant could be at once, for gangs that the usual way cannot place.

The usual choice takes an unbound unit for a whole one and finds it a physical cell afterwards.
Where bad leaves, excluded nodes, or leaves that are not to be taken leave no whole cells, it has to
know what each unit would have. Below a bound cell there are as many unbound virtual cells as
physical ones, and it does not matter which is bound to which: any pairing shows what there is.
Unbound roots are paired with the free cells that have most, as far as these split off safely.
"""

from hivecore.reference.cells.group_cells import PhysicalCell, VirtualCell
from hivecore.reference.cells.group_choice import Request, class_of_leaves
from hivecore.reference.cells.group_state import State

__all__ = ["foreseen"]


def foreseen(state: State, request: Request, reach: int) -> dict[VirtualCell, int]:
    """A physical cell for unbound units of the instance; those without one can have none."""
    return _Foresight(state, request, reach).units()


class _Foresight:
    def __init__(self, state: State, request: Request, reach: int) -> None:
        self.state, self.request = state.copy(), request
        self.forest = state.forests[request.chain]
        self.leaf_class = class_of_leaves(state, request, reach)
        self.largest = request.demands[-1].leaves
        self.found: dict[VirtualCell, int] = {}

    def units(self) -> dict[VirtualCell, int]:
        """All pairs, from the highest roots down."""
        state = self.state
        pools = sorted(self.request.pools, key=lambda pool: -state.pools[pool].level)
        for pool in pools:
            for root in state.unbound_roots(pool):
                cells = self.forest.cells(root.level)
                free = [PhysicalCell(self.request.chain, root.level, cell) for cell in cells]
                free = [cell for cell in free if state.may_be_root(cell)]
                if not free:
                    break
                best = min(free, key=self._preference)
                state.bind(root, best)
        for pool in self.request.pools:
            for root in state.roots(pool):
                if root in state.bound:
                    self._pair(root, state.bound[root])
        return self.found

    def _preference(self, cell: PhysicalCell) -> tuple[int, int, int]:
        node = min(cell.level, self.forest.node_level)
        parts = self.forest.inside(cell.level, cell.number, node)
        usable = [self._usable(PhysicalCell(cell.chain, node, part)) for part in parts]
        pods = sum(leaves // self.largest for leaves in usable)
        return -pods, -sum(usable), cell.number

    def _usable(self, cell: PhysicalCell) -> int:
        node = cell.number // (self.forest.widths[self.forest.node_level] // self._wide(cell))
        if self.request.suggested is not None and node not in self.request.suggested:
            return 0
        leaves = self.forest.leaves(cell.level, cell.number)
        return sum(self.leaf_class(leaf) is not None for leaf in leaves)

    def _wide(self, cell: PhysicalCell) -> int:
        return self.forest.widths[cell.level]

    def _pair(self, cell: VirtualCell, index: int) -> None:
        """A virtual cell is, or would be, bound to ``index``; so are the units in it."""
        if cell.level == min(self.state.pools[cell.pool].level, self.forest.node_level):
            self.found[cell] = index
            return
        state, below = self.state, cell.level - 1
        children = self.forest.inside(cell.level, cell.number, below)
        cells = [VirtualCell(cell.pool, below, child) for child in children]
        inside = self.forest.inside(cell.level, index, below)
        physical = [PhysicalCell(self.request.chain, below, child) for child in inside]
        unbound = iter([each.number for each in physical if each not in state.partner])
        for child in cells:
            self._pair(child, state.bound[child] if child in state.bound else next(unbound))
