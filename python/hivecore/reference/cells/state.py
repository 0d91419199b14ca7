"""Who holds what: the part of the group scheduler that binds virtual cells to physical ones.

A leaf has a *user* (it runs there) and a *reserver* (it preempts there), each at most one; the
*holder* is the reserver if there is one, else the user. A guaranteed holder has a virtual leaf that
is paired with the leaf. A virtual cell is bound exactly while some virtual leaf in it is paired (a
pin's root always), and the parent of a bound cell is bound to the parent of its physical cell.

`book` and `unbook` change pairs and bindings. They keep S(l) >= 0
on every level l, with S(top) = F - owed and S(l) = S(l+1) * fanout + F(l) - owed(l), where F counts
the free list and owed the unbound roots of pools: whatever owed cells are asked for next, the free
lists can serve them (HiveD, OSDI'20, section 3). Free lists, loads and S are recomputed whenever
they are asked for.
"""

from collections import Counter
from copy import copy

from hivecore.reference.cells.cells import (
    Forest,
    Group,
    PhysicalCell,
    Pool,
    VirtualCell,
    VirtualLeaf,
)

__all__ = ["State"]


class State:
    """The leaves' users, reservers and pairs, and the bindings that follow from the pairs."""

    def __init__(self, forests: list[Forest], pools: list[Pool]) -> None:
        self.forests, self.pools = forests, pools
        self.bad: set[int] = set()
        self.user: dict[int, int] = {}
        self.reserver: dict[int, int] = {}
        self.groups: dict[int, Group] = {}
        self.pair: dict[int, VirtualLeaf] = {}
        self.bound: dict[VirtualCell, int] = {}
        self.partner: dict[PhysicalCell, VirtualCell] = {}
        self.used: Counter[VirtualCell] = Counter()  # paired leaves in it
        self.touched: Counter[PhysicalCell] = Counter()  # bound roots of pools at or below it

    def copy(self) -> "State":
        """An independent state; groups and shapes are shared, for they never change."""
        other = copy(self)
        for name in ("bad", "user", "reserver", "groups", "pair"):
            setattr(other, name, getattr(self, name).copy())
        for name in ("bound", "partner", "used", "touched"):
            setattr(other, name, getattr(self, name).copy())
        return other

    # The physical side

    def forest_of(self, leaf: int) -> Forest:
        return next(f for f in self.forests if f.first_leaf <= leaf < f.end_leaf)

    @property
    def end_leaf(self) -> int:
        """How many leaves there are."""
        return self.forests[-1].end_leaf if self.forests else 0

    def holder(self, leaf: int) -> int | None:
        return self.reserver.get(leaf, self.user.get(leaf))

    def load(self, cell: PhysicalCell) -> int:
        """Leaves whose holder has no right to them."""
        leaves = self.forests[cell.chain].leaves(cell.level, cell.number)
        return sum(leaf not in self.pair and self.holder(leaf) is not None for leaf in leaves)

    def held(self, cell: PhysicalCell) -> int:
        leaves = self.forests[cell.chain].leaves(cell.level, cell.number)
        return sum(leaf in self.pair for leaf in leaves)

    def sick(self, cell: PhysicalCell) -> int:
        leaves = self.forests[cell.chain].leaves(cell.level, cell.number)
        return sum(leaf in self.bad for leaf in leaves)

    def parent(self, cell: PhysicalCell) -> PhysicalCell:
        fanout = self.forests[cell.chain].fanouts[cell.level]
        return PhysicalCell(cell.chain, cell.level + 1, cell.number // fanout)

    def is_root(self, cell: PhysicalCell) -> bool:
        """Whether the cell is bound to the root of a pool."""
        virtual = self.partner.get(cell)
        return virtual is not None and virtual.level == self.pools[virtual.pool].level

    def is_listed(self, cell: PhysicalCell) -> bool:
        """Whether the cell is in the canonical free list: it is free and its parent is not."""
        if self.touched[cell]:
            return False
        if cell.level == self.forests[cell.chain].top:
            return True
        parent = self.parent(cell)
        return self.touched[parent] > 0 and not self.is_root(parent)

    def listed(self, chain: int, level: int) -> list[int]:
        cells = self.forests[chain].cells(level)
        return [i for i in cells if self.is_listed(PhysicalCell(chain, level, i))]

    def owed(self, chain: int, level: int) -> int:
        mine = (i for i, p in enumerate(self.pools) if (p.chain, p.level) == (chain, level))
        return sum(len(self.unbound_roots(pool)) for pool in mine)

    def surplus(self, chain: int) -> list[int]:
        """S of every level."""
        forest = self.forests[chain]
        spare = [0] * (forest.top + 1)
        for level in range(forest.top, -1, -1):
            spare[level] = len(self.listed(chain, level)) - self.owed(chain, level)
            if level < forest.top:
                spare[level] += spare[level + 1] * forest.fanouts[level]
        return spare

    def may_split(self, chain: int, level: int, source: int) -> bool:
        """Whether a free cell of the level ``source`` can be split for an owed cell of ``level``.

        It takes one cell from every level above that it passes, and S says who else needs those.
        """
        return source == level or min(self.surplus(chain)[level + 1 : source + 1]) >= 1

    def is_free(self, cell: PhysicalCell) -> bool:
        """Whether the cell or one around it is listed."""
        while not self.is_listed(cell):
            if cell.level == self.forests[cell.chain].top:
                return False
            cell = self.parent(cell)
        return True

    def may_be_root(self, cell: PhysicalCell) -> bool:
        """Whether an owed root can be bound to the cell: it is free, and a split is safe."""
        if not self.is_free(cell):
            return False
        source = cell
        while not self.is_listed(source):
            source = self.parent(source)
        return self.may_split(cell.chain, cell.level, source.level)

    # The virtual side

    def roots(self, pool: int) -> list[VirtualCell]:
        level = self.pools[pool].level
        return [VirtualCell(pool, level, index) for index in range(self.pools[pool].count)]

    def unbound_roots(self, pool: int) -> list[VirtualCell]:
        return [root for root in self.roots(pool) if root not in self.bound]

    def around(self, virtual: VirtualLeaf, level: int) -> VirtualCell:
        """The virtual cell of a level that a virtual leaf is in."""
        pool, leaf = virtual
        width = self.forests[self.pools[pool].chain].widths[level]
        return VirtualCell(pool, level, leaf // width)

    def path(self, leaf: int, virtual: VirtualLeaf) -> list[tuple[VirtualCell, PhysicalCell]]:
        """The cells to be bound to each other, from the root of the pool down to the leaf."""
        pool = self.pools[virtual[0]]
        forest = self.forests[pool.chain]
        return [
            (
                self.around(virtual, level),
                PhysicalCell(pool.chain, level, forest.above(leaf, level)),
            )
            for level in range(pool.level, -1, -1)
        ]

    def virtual_leaf(self, cell: VirtualCell, index: int, leaf: int) -> VirtualLeaf:
        """The virtual leaf for a leaf when a virtual cell is, or will be, bound to ``index``.

        On the way down a bound cell keeps its partner; another gets the lowest unbound child.
        """
        chain = self.pools[cell.pool].chain
        forest = self.forests[chain]
        for level in range(cell.level - 1, -1, -1):
            physical = PhysicalCell(chain, level, forest.above(leaf, level))
            if physical in self.partner:
                cell = self.partner[physical]
            else:
                children = forest.inside(cell.level, cell.number, level)
                below = (VirtualCell(cell.pool, level, child) for child in children)
                cell = next(child for child in below if child not in self.bound)
        return cell.pool, cell.number

    # Booking

    def book(self, leaf: int, virtual: VirtualLeaf) -> bool:
        """Pair a leaf with a virtual leaf and bind what is around them; False: impossible."""
        if leaf in self.pair:
            return False
        path = self.path(leaf, virtual)
        for cell, physical in path:
            if cell in self.bound:
                possible = self.bound[cell] == physical.number
            elif cell.level == self.pools[cell.pool].level:
                possible = self.may_be_root(physical)
            else:
                possible = physical not in self.partner
            if not possible:
                return False
        for cell, physical in path:
            if cell not in self.bound:
                self.bind(cell, physical)
            self.used[cell] += 1
        self.pair[leaf] = virtual
        return True

    def unbook(self, leaf: int) -> None:
        """The inverse of `book`."""
        for cell, physical in self.path(leaf, self.pair.pop(leaf)):
            self.used[cell] -= 1
            pinned = cell.level == self.pools[cell.pool].level and (
                self.pools[cell.pool].pin is not None
            )
            if self.used[cell] == 0 and not pinned:
                del self.bound[cell], self.partner[physical]
                if cell.level == self.pools[cell.pool].level:
                    self._touch(physical, -1)

    def bind(self, cell: VirtualCell, physical: PhysicalCell) -> None:
        self.bound[cell] = physical.number
        self.partner[physical] = cell
        if cell.level == self.pools[cell.pool].level:
            self._touch(physical, 1)

    def _touch(self, cell: PhysicalCell, by: int) -> None:
        self.touched[cell] += by
        while cell.level < self.forests[cell.chain].top:
            cell = self.parent(cell)
            self.touched[cell] += by

    # Groups

    def downgrade(self, handle: int) -> None:
        """Take away a group's virtual leaves; it keeps running, opportunistically."""
        group = self.groups[handle]
        for leaf, _ in group.pairs:
            if leaf not in self.reserver:
                self.unbook(leaf)
        self.groups[handle] = group.downgraded()

    def remove(self, handle: int) -> None:
        """A group has ended, or gives up to preempt."""
        if self.groups[handle].preempting:
            self.withdraw(handle)
            return
        for leaf in self.groups.pop(handle).leaves:
            del self.user[leaf]
            if leaf not in self.reserver and leaf in self.pair:
                self.unbook(leaf)

    def withdraw(self, handle: int) -> None:
        """Drop a preempting group; what it reserved goes back to the users, pair by pair."""
        group = self.groups.pop(handle)
        for leaf in group.leaves:
            self.unbook(leaf)
            del self.reserver[leaf]
        for leaf in group.leaves:
            user = self.user.get(leaf)
            virtual = None if user is None else dict(self.groups[user].pairs).get(leaf)
            if virtual is not None:
                booked = self.book(leaf, virtual)
                assert booked, "a reserver holds a leaf by the virtual leaf of its user"

    def by_sequence(self, handles: "set[int]") -> list[int]:
        return sorted(handles, key=lambda handle: self.groups[handle].sequence)
