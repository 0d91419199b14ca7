"""What groups hold: bindings of virtual to physical cells, and why they are safe.

**Owners.** A leaf has at most one *user*, the group that runs there, and at most one *reserver*,
the group that evicts it; the *holder* is the reserver if there is one, else the user. A guaranteed
holder has a virtual leaf of its tenant, which is paired with the leaf.

**Bindings** (HiveD, OSDI'20, section 3). A virtual cell is bound exactly while a virtual leaf in it
is paired (a pin's root always), and the parent of a bound cell is bound to the parent of its
physical cell. So a tenant's root is one physical cell with its topology, chosen only when the
tenant starts to use it.

**Safety.** A physical cell is free if no root is bound at, inside or around it; it is listed if it
is free and its parent is not. On level l let F(l) be the listed cells, owed(l) the tenants' unbound
roots, and

    S(top) = F(top) - owed(top)        S(l) = S(l+1) * fanout + F(l) - owed(l)

S(l) is what remains on a level after the levels above have served their owed cells and split the
rest. While S >= 0 on all levels, every owed root can be bound, in any order (Theorem 1): binding
one to a listed cell of its level changes no S, as F and owed both fall. If no cell is listed up to
level m, then S(l) >= 0 and owed >= 0 imply S > 0 on the levels above l up to m; splitting a cell of
level m takes just one from each of them, and S(l) and all below stay the same. Bad leaves count
like others: cells are guaranteed, and which of them are bad changes.

Free lists, loads and S are recomputed whenever they are needed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
        self.partner: dict[PhysicalCell, VirtualCell] = {}  # the inverse
        self.rooted: set[int] = set()  # leaves in cells bound to roots
        for number, pool in enumerate(pools):
            if pool.pin is not None:
                cell = PhysicalCell(pool.chain, pool.level, pool.pin)
                if not self.is_free(cell):
                    raise ValueError("pins must not overlap another pinned cell")
                self._bind(VirtualCell(number, pool.level, 0), cell)

    @classmethod
    def new(
        cls,
        chains: Sequence[tuple[Sequence[int], int, int]],
        pools: Sequence[tuple[int, int, int, int]],
        pins: Sequence[tuple[int, int, int, int]],
    ) -> "State":
        """Return the state of a new cluster, with pins bound; all pools can be served."""
        forests: list[Forest] = []
        for number, (fanouts, roots, node_level) in enumerate(chains):
            first = forests[-1].end_leaf if forests else 0
            forests.append(Forest(number, tuple(fanouts), roots, node_level, first))
        owned = [Pool(*pool) for pool in pools]
        owned += [Pool(vc, chain, level, 1, pin=cell) for vc, chain, level, cell in pins]
        state = cls(forests, owned)
        for chain in range(len(forests)):
            for level, spare in reversed(list(enumerate(state.surplus(chain)))):
                if spare < 0:
                    raise ValueError(f"chain {chain} lacks {-spare} owned cells of level {level}")
        return state

    def copy(self) -> "State":
        """Return an independent state; groups and shapes are immutable and shared."""
        other = copy(self)
        for name in ("bad", "user", "reserver", "groups", "pair", "bound", "partner", "rooted"):
            setattr(other, name, getattr(self, name).copy())
        return other

    # The physical side

    def forest_of(self, leaf: int) -> Forest:
        """Return the chain of a leaf."""
        return next(f for f in self.forests if f.first_leaf <= leaf < f.end_leaf)

    @property
    def end_leaf(self) -> int:
        """The number of leaves."""
        return self.forests[-1].end_leaf if self.forests else 0

    def holder(self, leaf: int) -> int | None:
        """Return the group that has, or will have, the leaf."""
        return self.reserver.get(leaf, self.user.get(leaf))

    def _leaves(self, cell: PhysicalCell) -> range:
        return self.forests[cell.chain].leaves(cell.level, cell.number)

    def load(self, cell: PhysicalCell) -> int:
        """Count leaves with opportunistic holders."""
        held = (leaf for leaf in self._leaves(cell) if self.holder(leaf) is not None)
        return sum(leaf not in self.pair for leaf in held)

    def idle(self, cell: PhysicalCell) -> int:
        """Count healthy leaves without a holder."""
        free = (leaf for leaf in self._leaves(cell) if self.holder(leaf) is None)
        return sum(leaf not in self.bad for leaf in free)

    def held(self, cell: PhysicalCell) -> int:
        """Count leaves with guaranteed holders."""
        return sum(leaf in self.pair for leaf in self._leaves(cell))

    def sick(self, cell: PhysicalCell) -> int:
        """Count bad leaves."""
        return sum(leaf in self.bad for leaf in self._leaves(cell))

    def around(self, cell: PhysicalCell) -> Iterator[PhysicalCell]:
        """Yield a cell and those around it, upwards."""
        forest = self.forests[cell.chain]
        for level in range(cell.level, forest.top + 1):
            yield PhysicalCell(cell.chain, level, cell.number // forest.many(level, cell.level))

    def parent(self, cell: PhysicalCell) -> PhysicalCell | None:
        """Return the parent cell; None at the top."""
        _, *above = self.around(cell)
        return above[0] if above else None

    def is_root(self, cell: PhysicalCell) -> bool:
        """Whether the cell is bound to a pool's root."""
        virtual = self.partner.get(cell)
        return virtual is not None and virtual.level == self.pools[virtual.pool].level

    def is_free(self, cell: PhysicalCell) -> bool:
        """Whether no root is bound at, inside or around the cell."""
        return self.rooted.isdisjoint(self._leaves(cell))

    def is_listed(self, cell: PhysicalCell) -> bool:
        """Whether the cell is free and its parent is not."""
        parent = self.parent(cell)
        return self.is_free(cell) and (parent is None or not self.is_free(parent))

    def listed(self, chain: int, level: int) -> list[int]:
        """Return the free list of a level."""
        cells = self.forests[chain].cells(level)
        return [i for i in cells if self.is_listed(PhysicalCell(chain, level, i))]

    def surplus(self, chain: int) -> list[int]:
        """Return S of every level."""
        forest = self.forests[chain]
        owed = Counter[int]()
        for number, pool in enumerate(self.pools):
            if pool.chain == chain:
                owed[pool.level] += len(self.unbound_roots(number))
        spare = [0] * (forest.top + 1)
        for level in range(forest.top, -1, -1):
            spare[level] = len(self.listed(chain, level)) - owed[level]
            if level < forest.top:
                spare[level] += spare[level + 1] * forest.fanouts[level]
        return spare

    def may_split(self, chain: int, level: int, source: int) -> bool:
        """Whether a free cell of level ``source`` may be split for an owed cell of ``level``.

        Algorithm 1 asks only if all lists below are empty; then the answer is always yes.
        """
        return source == level or min(self.surplus(chain)[level + 1 : source + 1]) >= 1

    def may_be_root(self, cell: PhysicalCell) -> bool:
        """Whether an owed root can be bound to the cell: it is free, and splitting is safe."""
        listed = (around.level for around in self.around(cell) if self.is_listed(around))
        source = next(listed, None)
        return source is not None and self.may_split(cell.chain, cell.level, source)

    # The virtual side

    def roots(self, pool: int) -> list[VirtualCell]:
        """Return the roots of a pool."""
        level = self.pools[pool].level
        return [VirtualCell(pool, level, index) for index in range(self.pools[pool].count)]

    def unbound_roots(self, pool: int) -> list[VirtualCell]:
        """Return the owed roots."""
        return [root for root in self.roots(pool) if root not in self.bound]

    def path(self, leaf: int, virtual: VirtualLeaf) -> list[tuple[VirtualCell, PhysicalCell]]:
        """Return the pairs of cells to bind, from the pool's root down to the leaf."""
        pool, number = virtual
        chain, top = self.pools[pool].chain, self.pools[pool].level
        forest = self.forests[chain]
        return [
            (
                VirtualCell(pool, level, number // forest.widths[level]),
                PhysicalCell(chain, level, forest.above(leaf, level)),
            )
            for level in range(top, -1, -1)
        ]

    def virtual_leaf(self, cell: VirtualCell, leaf: int) -> VirtualLeaf:
        """Return the virtual leaf for a leaf when a virtual cell is, or will be, bound around it.

        On the way down, a bound cell keeps its partner; an unbound one gets the lowest unbound
        child.
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
        """Pair a leaf with a virtual leaf and bind the cells around them; False if impossible."""
        path = self.path(leaf, virtual)
        if leaf in self.pair or not all(self._may_bind(*cells) for cells in path):
            return False
        for cell, physical in path:
            if cell not in self.bound:
                self._bind(cell, physical)
        self.pair[leaf] = virtual
        return True

    def _may_bind(self, cell: VirtualCell, physical: PhysicalCell) -> bool:
        if cell in self.bound:
            return self.bound[cell] == physical.number
        if cell.level == self.pools[cell.pool].level:
            return self.may_be_root(physical)
        return physical not in self.partner

    def book_all(self, pairs: Iterable[tuple[int, VirtualLeaf]]) -> bool:
        """Book all pairs, or change nothing."""
        booked: list[int] = []
        for leaf, virtual in pairs:
            if not self.book(leaf, virtual):
                for other in booked:
                    self.unbook(other)
                return False
            booked.append(leaf)
        return True

    def unbook(self, leaf: int) -> None:
        """Undo `book`."""
        for cell, physical in self.path(leaf, self.pair.pop(leaf)):
            pool = self.pools[cell.pool]
            is_pinned = pool.pin is not None and cell.level == pool.level
            if self.held(physical) == 0 and not is_pinned:
                if self.is_root(physical):
                    self.rooted.difference_update(self._leaves(physical))
                del self.bound[cell], self.partner[physical]

    def _bind(self, cell: VirtualCell, physical: PhysicalCell) -> None:
        self.bound[cell] = physical.number
        self.partner[physical] = cell
        if self.is_root(physical):
            self.rooted.update(self._leaves(physical))

    # Groups

    def downgrade(self, handle: int) -> None:
        """Remove a group's virtual leaves; it keeps running opportunistically."""
        group = self.groups[handle]
        for leaf, _ in group.pairs:
            if leaf not in self.reserver:
                self.unbook(leaf)
        self.groups[handle] = group.downgraded()

    def remove(self, handle: int) -> None:
        """Remove a group that has ended or cancels its reservation."""
        if self.groups[handle].preempting:
            self.withdraw(handle)
            return
        for leaf in self.groups.pop(handle).leaves:
            del self.user[leaf]
            if leaf not in self.reserver and leaf in self.pair:
                self.unbook(leaf)

    def withdraw(self, handle: int) -> None:
        """Drop a preempting group; its leaves return to their users, pair by pair."""
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
        """Return the groups in the order in which they came."""
        return sorted(handles, key=lambda handle: self.groups[handle].sequence)
