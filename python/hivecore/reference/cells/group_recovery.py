"""Virtual leaves for a group that runs already: which of its tenant's cells its leaves are in.

A leaf that is in a root of its pool joins it. Otherwise the free cell around it becomes a new root,
for which the least important groups may have to be downgraded. If any leaf finds none, the group
is not accounted for at all: it goes on opportunistically.
"""

from collections.abc import Sequence

from hivecore.reference.cells.group_cells import PhysicalCell, VirtualCell, VirtualLeaf
from hivecore.reference.cells.group_state import State

__all__ = ["Recovery"]


class Recovery:
    """Finds the virtual leaves in a state of its own, in which it downgrades others."""

    def __init__(
        self,
        state: State,
        priority: int,
        pods: Sequence[Sequence[int]],
        pools: Sequence[Sequence[int]],
    ) -> None:
        self.state, self.priority, self.pods, self.pools = state, priority, pods, pools
        self.displaced: list[int] = []
        self.mine: list[int] = []  # the leaves that are booked so far

    def virtual(self) -> list[list[VirtualLeaf]] | None:
        """Per pod and leaf its virtual leaf; none of them is booked afterwards."""
        found = self._book_all()
        for leaf in self.mine:
            self.state.unbook(leaf)
        return found

    def _book_all(self) -> list[list[VirtualLeaf]] | None:
        if self.priority < 0 or any(pool < 0 for pod in self.pools for pool in pod):
            return None
        virtual: list[list[VirtualLeaf]] = []
        for pod, pools in zip(self.pods, self.pools, strict=True):
            virtual.append([])
            for leaf, pool in zip(pod, pools, strict=True):
                held = self._virtual_leaf(leaf, pool)
                if held is None or not self.state.book(leaf, held):
                    return None
                self.mine.append(leaf)
                virtual[-1].append(held)
        return virtual

    def _virtual_leaf(self, leaf: int, pool: int) -> VirtualLeaf | None:
        state, owner = self.state, self.state.pools[pool]
        index = state.forests[owner.chain].above(leaf, owner.level)
        cell = PhysicalCell(owner.chain, owner.level, index)
        root = state.partner.get(cell)
        if root not in state.roots(pool):
            root = self._new_root(pool, cell)
        return None if root is None else state.virtual_leaf(root, index, leaf)

    def _new_root(self, pool: int, cell: PhysicalCell) -> VirtualCell | None:
        state = self.state
        if not state.is_free(cell):
            return None
        if not state.unbound_roots(pool):
            self._displace(pool)
        roots = state.unbound_roots(pool)
        return roots[0] if roots and state.may_be_root(cell) else None

    def _displace(self, pool: int) -> None:
        """Downgrade all that is in the root whose most important group is the least important."""
        state = self.state
        if state.pools[pool].pin is not None:
            return
        holders: dict[VirtualCell, set[int]] = {root: set() for root in state.roots(pool)}
        mine = set()
        for leaf, virtual in state.pair.items():
            around = state.around(virtual, state.pools[virtual[0]].level)
            holder = state.holder(leaf)
            if around in holders and holder is None:
                mine.add(around)
            elif around in holders and holder is not None:
                holders[around].add(holder)
        highest = {
            root: max(state.groups[holder].priority for holder in holders[root])
            for root in holders
            if root not in mine and not any(state.groups[h].preempting for h in holders[root])
        }
        root = min(highest, key=lambda root: (highest[root], root.number), default=None)
        if root is not None and highest[root] < self.priority:
            for holder in state.by_sequence(holders[root]):
                state.downgrade(holder)
                self.displaced.append(holder)
