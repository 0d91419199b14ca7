"""Where all unbound units of a tenant could be at once, for gangs that the usual way cannot place.

The usual choice takes an unbound unit for a whole one and finds it a physical cell afterwards.
Where bad leaves, excluded nodes, or leaves that are not to be taken leave no whole cells, it has to
know what each unit would have. Below a bound cell there are as many unbound virtual cells as
physical ones, and it does not matter which is bound to which: any pairing shows what there is.
Unbound roots are paired with the free cells that have most, as far as these split off safely. What
roots of one level are paired with may lack for another level: in chains of up to 64 nodes each
number of roots of each level is tried, in larger ones only as many as there can be.
"""

from collections.abc import Iterator
from itertools import product

from hivecore.reference.cells.group_cells import PhysicalCell, VirtualCell
from hivecore.reference.cells.group_choice import Request, class_of_leaves
from hivecore.reference.cells.group_state import State

__all__ = ["foreseen"]


_MOST_NODES = 64


def foreseen(state: State, request: Request, reach: int) -> Iterator[dict[VirtualCell, int]]:
    """Physical cells for unbound units of the instance; those without one can have none."""
    forest, pods = state.forests[request.chain], len(request.demands)
    pools = sorted(request.pools, key=lambda pool: -state.pools[pool].level)
    most = [min(pods, len(state.unbound_roots(pool))) for pool in pools]
    seen = set()
    for counts in product(*(range(many, -1, -1) for many in most)):
        sight = _Foresight(state, request, reach)
        bound = tuple(map(sight.bind_roots, pools, counts))
        if bound not in seen:
            seen.add(bound)
            yield sight.units()
        if len(forest.cells(forest.node_level)) > _MOST_NODES:
            break


class _Foresight:
    def __init__(self, state: State, request: Request, reach: int) -> None:
        self.state, self.request = state.copy(), request
        self.forest = state.forests[request.chain]
        self.leaf_class = class_of_leaves(state, request, reach)
        self.largest = request.demands[-1].leaves
        self.found: dict[VirtualCell, int] = {}

    def bind_roots(self, pool: int, count: int) -> int:
        """Pair so many unbound roots of a pool with free cells; how many could be."""
        state = self.state
        for number, root in enumerate(state.unbound_roots(pool)[:count]):
            cells = self.forest.cells(root.level)
            free = [PhysicalCell(self.request.chain, root.level, cell) for cell in cells]
            free = [cell for cell in free if state.may_be_root(cell)]
            if not free:
                return number
            state.bind(root, min(free, key=self._preference))
        return count

    def units(self) -> dict[VirtualCell, int]:
        """All pairs."""
        for pool in self.request.pools:
            for root in self.state.roots(pool):
                if root in self.state.bound:
                    self._pair(root, self.state.bound[root])
        return self.found

    def _preference(self, cell: PhysicalCell) -> tuple[int, ...]:
        """Room for most pods, most leaves, the fewest cells to split, most leaves around it."""
        node = min(cell.level, self.forest.node_level)
        parts = self.forest.inside(cell.level, cell.number, node)
        usable = [self._usable(PhysicalCell(cell.chain, node, part)) for part in parts]
        pods = sum(leaves // self.largest for leaves in usable)
        source = around = cell
        while not self.state.is_listed(source):
            source = self.state.parent(source)
        outside = []
        while around.level < self.forest.top:
            around = self.state.parent(around)
            outside.append(-self._usable(around))
        return -pods, -sum(usable), source.level, *outside, cell.number

    def _usable(self, cell: PhysicalCell) -> int:
        leaves = self.forest.leaves(cell.level, cell.number)
        return sum(self._may_use(leaf) for leaf in leaves)

    def _may_use(self, leaf: int) -> bool:
        suggested = self.request.suggested
        node = self.forest.above(leaf, self.forest.node_level)
        return self.leaf_class(leaf) is not None and (suggested is None or node in suggested)

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
