"""Virtual clusters (HiveD, OSDI'20, sections 3 and 4), written for reading.

Nothing is cached: the free list, the opportunistic leaves, health and safety are recomputed from
what is bound, allocated and marked bad whenever they are asked for.

A *node* here is a pair (level, index) of a chain's tree; levels count from 0, the leaf.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from hivecore.cells.cell import Cell
from hivecore.cells.cluster_spec import Chain, ClusterSpec
from hivecore.errors import (
    InvariantError,
    NoFreeCellError,
    NoHealthyCellError,
    NotAllocatedError,
    QuotaExceededError,
)
from hivecore.reference.cells.buddy import BuddyAllocator

__all__ = ["Node", "Pool", "Tree", "VirtualClusters"]

Node = tuple[int, int]


@dataclass
class Tree:
    """The physical side of one chain."""

    shape: Chain
    owed: list[int] = field(default_factory=list)  # per level: owned cells that are not bound
    roots: set[Node] = field(default_factory=set)  # cells bound to a whole owned cell
    bound: set[Node] = field(default_factory=set)  # cells bound to a part of one
    guaranteed: set[Node] = field(default_factory=set)
    opportunistic: set[Node] = field(default_factory=set)
    bad: set[int] = field(default_factory=set)  # leaves

    # The tree

    @property
    def top(self) -> int:
        return len(self.shape.levels) - 1

    def width(self, level: int) -> int:
        return self.shape.leaves_per_cell()[level]

    def leaves(self, node: Node) -> range:
        level, index = node
        return range(index * self.width(level), (index + 1) * self.width(level))

    def within(self, inner: Node, outer: Node) -> bool:
        return inner[0] <= outer[0] and inner[1] * self.width(inner[0]) in self.leaves(outer)

    def overlap(self, a: Node, b: Node) -> bool:
        return self.within(a, b) or self.within(b, a)

    def parent(self, node: Node) -> Node:
        return node[0] + 1, node[1] // self.shape.fanouts[node[0]]

    def children(self, node: Node) -> list[Node]:
        fanout = self.shape.fanouts[node[0] - 1]
        return [(node[0] - 1, node[1] * fanout + i) for i in range(fanout)]

    def nodes(self, level: int) -> Iterator[Node]:
        return ((level, index) for index in range(self.shape.leaves // self.width(level)))

    def descendants(self, node: Node, level: int) -> Iterator[Node]:
        return (other for other in self.nodes(level) if self.within(other, node))

    # What is derived

    def free(self, node: Node) -> bool:
        return not any(self.overlap(node, root) for root in self.roots)

    def listed(self, level: int) -> list[Node]:
        """The canonical free list: free cells whose parent is not free."""
        return [
            node
            for node in self.nodes(level)
            if self.free(node) and (level == self.top or not self.free(self.parent(node)))
        ]

    def load(self, node: Node) -> int:
        """Leaves of the opportunistic cells at or below this one."""
        return sum(self.width(o[0]) for o in self.opportunistic if self.within(o, node))

    def healthy(self, node: Node) -> int:
        """The level of the largest wholly healthy cell at or below, -1 if there is none."""
        return self._largest(node, lambda cell: self.bad.isdisjoint(self.leaves(cell)))

    def idle(self, node: Node) -> int:
        """The same for healthy cells that nobody uses."""
        users = self.guaranteed | self.opportunistic

        def usable(cell: Node) -> bool:
            return self.bad.isdisjoint(self.leaves(cell)) and not any(
                self.overlap(cell, user) for user in users
            )

        return self._largest(node, usable)

    def _largest(self, node: Node, good: Callable[[Node], bool]) -> int:
        for level in range(node[0], -1, -1):
            if any(good(cell) for cell in self.descendants(node, level)):
                return level
        return -1

    def surplus(self) -> list[int]:
        """S(top) = F - owed; S(l) = S(l+1) * fanout + F(l) - owed(l)."""
        spare = [0] * (self.top + 1)
        for level in range(self.top, -1, -1):
            spare[level] = len(self.listed(level)) - self.owed[level]
            if level < self.top:
                spare[level] += spare[level + 1] * self.shape.fanouts[level]
        return spare

    # Binding

    def bind_root(self, level: int, need: int) -> Node | None:
        """A free cell for an owned one: as healthy as can be, down to what the request needs."""
        spare = self.surplus()
        for health in range(level, need - 1, -1):
            for source in range(level, self.top + 1):
                if any(spare[passed] < 1 for passed in range(level + 1, source + 1)):
                    break  # a split from here would take what another owned cell may need
                candidates = [n for n in self.listed(source) if self.healthy(n) >= health]
                if not candidates:
                    continue
                node = self._least_useful(candidates)
                while node[0] > level:
                    node = self._least_useful(
                        [n for n in self.children(node) if self.healthy(n) >= health]
                    )
                self.roots.add(node)
                self.owed[level] -= 1
                return node
        return None

    def _least_useful(self, candidates: list[Node]) -> Node:
        return min(candidates, key=lambda n: (self.healthy(n), self.load(n), n[1]))

    def bind_child(self, parent: Node, need: int) -> Node | None:
        candidates = [
            n for n in self.children(parent) if n not in self.bound and self.healthy(n) >= need
        ]
        if not candidates:
            return None
        node = min(candidates, key=lambda n: (-self.healthy(n), self.load(n), n[1]))
        self.bound.add(node)
        return node

    def unbind(self, node: Node) -> None:
        if node in self.roots:
            self.roots.remove(node)
            self.owed[node[0]] += 1
        else:
            self.bound.remove(node)

    # Opportunistic work

    def find_idle(self, level: int) -> Node | None:
        """Where guaranteed work would go last."""
        for hosts in (self.listed, lambda source: [n for n in self.roots if n[0] == source]):
            for source in range(self.top, level - 1, -1):
                candidates = [n for n in hosts(source) if self.idle(n) >= level]
                if not candidates:
                    continue
                node = max(candidates, key=lambda n: (self.load(n), n[1]))
                while node[0] > level:
                    node = max(
                        (n for n in self.children(node) if self.idle(n) >= level),
                        key=lambda n: (n not in self.bound, self.load(n), n[1]),
                    )
                return node
        return None


@dataclass
class Pool:
    """The cells of one level that a tenant owns in one chain."""

    level: int
    buddies: BuddyAllocator  # over virtual cells; its levels count from 1
    bound: dict[Node, Node] = field(default_factory=dict)  # virtual -> physical

    def ancestor(self, node: Node, level: int) -> Node:
        return level, self.buddies._ancestor(node[0] + 1, node[1], level + 1)


class VirtualClusters:
    """The readable twin of `hivecore.cells.VirtualClusters`."""

    def __init__(self, spec: ClusterSpec) -> None:
        spec.check_feasible()
        self.trees = {name: Tree(chain) for name, chain in spec.chains.items()}
        self.pools: dict[tuple[str, str], list[Pool]] = {}
        for tree in self.trees.values():
            tree.owed = [0] * (tree.top + 1)
        for tenant in spec.virtual_clusters:
            for name, tree in self.trees.items():
                owned = spec.virtual_clusters[tenant].get(name, {})
                self.pools[tenant, name] = [
                    Pool(level, BuddyAllocator(tree.shape.fanouts[:level], owned[level_name]))
                    for level, level_name in enumerate(tree.shape.levels)
                    if owned.get(level_name, 0) > 0
                ]
                for level, level_name in enumerate(tree.shape.levels):
                    tree.owed[level] += owned.get(level_name, 0)
        self.live: dict[int, Cell] = {}
        self.ids = 0

    def allocate(self, virtual_cluster: str, chain: str, level: str) -> Cell:
        return self.allocate_many(virtual_cluster, chain, level, 1)[0]

    def allocate_many(
        self, virtual_cluster: str, chain: str, level: str, count: int
    ) -> tuple[Cell, ...]:
        tree, row = self.trees[chain], self.trees[chain].shape.levels.index(level)
        if self.available(virtual_cluster, chain, level) < count:
            raise QuotaExceededError(virtual_cluster)
        served: list[tuple[Pool, Node, Node]] = []
        for _ in range(count):
            one = self._bind(virtual_cluster, chain, row)
            if one is None:
                for pool, virtual, _ in reversed(served):
                    self._unbind(tree, pool, virtual)
                raise NoHealthyCellError(virtual_cluster)
            served.append(one)
        # All cells are there: only now do opportunistic ones give way.
        preempted = [self._evict(chain, node) for _, _, node in served]
        return tuple(
            self._hand_out(virtual_cluster, chain, node, pool, virtual, victims)
            for (pool, virtual, node), victims in zip(served, preempted, strict=True)
        )

    def _bind(self, tenant: str, chain: str, row: int) -> tuple[Pool, Node, Node] | None:
        """The first free virtual cell, by level, pool and index, that hardware can back."""
        tree = self.trees[chain]
        for source in range(row, tree.top + 1):
            for pool in self.pools[tenant, chain]:
                if pool.level < source:
                    continue
                for index in pool.buddies.free[source + 1]:
                    if source == pool.level:
                        node = tree.bind_root(source, row)
                    else:
                        parent = pool.bound[pool.ancestor((source, index), source + 1)]
                        node = tree.bind_child(parent, row)
                    if node is None:
                        continue
                    first = index * tree.width(source) // tree.width(row)
                    virtual = (row, first)
                    pool.buddies.allocate_at(row + 1, first)
                    pool.bound[source, index] = node
                    while node[0] > row:
                        below = tree.bind_child(node, row)
                        assert below is not None, "a fresh cell has what was asked of it"
                        node = below
                        pool.bound[pool.ancestor(virtual, node[0])] = node
                    return pool, virtual, node
        return None

    def _unbind(self, tree: Tree, pool: Pool, virtual: Node) -> None:
        """Release a virtual cell, and unbind it and what is unused now around it."""
        pool.buddies.release(virtual[0] + 1, virtual[1])
        for level in range(virtual[0], pool.level + 1):
            around = pool.ancestor(virtual, level)
            if pool.buddies.is_free(level + 1, around[1]):
                tree.unbind(pool.bound.pop(around))

    def _evict(self, chain: str, node: Node) -> tuple[Cell, ...]:
        tree = self.trees[chain]
        inside = sorted(o for o in tree.opportunistic if tree.within(o, node))
        inside.sort(key=lambda o: tree.leaves(o).start)
        around = sorted(o for o in tree.opportunistic if o != node and tree.within(node, o))
        return tuple(self._drop(self._user(chain, victim)) for victim in inside + around)

    def _user(self, chain: str, node: Node) -> Cell:
        levels = self.trees[chain].shape.levels
        return next(
            cell
            for cell in self.live.values()
            if (cell.chain, cell.level, cell.index) == (chain, levels[node[0]], node[1])
        )

    def allocate_opportunistic(self, virtual_cluster: str, chain: str, level: str) -> Cell:
        return self.allocate_opportunistic_many(virtual_cluster, chain, level, 1)[0]

    def allocate_opportunistic_many(
        self, virtual_cluster: str, chain: str, level: str, count: int
    ) -> tuple[Cell, ...]:
        tree = self.trees[chain]
        cells: list[Cell] = []
        for _ in range(count):
            node = tree.find_idle(tree.shape.levels.index(level))
            if node is None:
                self.release_many(cells)
                raise NoFreeCellError(level)
            cells.append(self._hand_out(virtual_cluster, chain, node, None, (0, 0), ()))
        return tuple(cells)

    def fits(self, virtual_cluster: str, chain: str, level: str, count: int = 1) -> bool:
        tree, row = self.trees[chain], self.trees[chain].shape.levels.index(level)
        if self.available(virtual_cluster, chain, level) < count:
            return False
        served: list[tuple[Pool, Node, Node]] = []
        while len(served) < count and (one := self._bind(virtual_cluster, chain, row)):
            served.append(one)
        for pool, virtual, _ in reversed(served):
            self._unbind(tree, pool, virtual)
        return len(served) == count

    def release(self, cell: Cell) -> None:
        self.release_many((cell,))

    def release_many(self, cells: Iterable[Cell]) -> None:
        cells = tuple(cells)
        if len({cell.id for cell in cells} & self.live.keys()) != len(cells):
            raise NotAllocatedError("not allocated here, or named twice")
        for cell in cells:
            self._drop(cell)

    def _hand_out(
        self,
        tenant: str,
        chain: str,
        node: Node,
        pool: Pool | None,
        virtual: Node,
        preempted: tuple[Cell, ...],
    ) -> Cell:
        tree = self.trees[chain]
        (tree.guaranteed if pool else tree.opportunistic).add(node)
        cell = Cell(
            self.ids,
            tenant,
            chain,
            tree.shape.levels[node[0]],
            node[1],
            pool is None,
            tree.leaves(node),
            tree.shape.levels[pool.level] if pool else None,
            virtual[1],
            preempted,
        )
        self.ids += 1
        self.live[cell.id] = cell
        return cell

    def _drop(self, cell: Cell) -> Cell:
        tree = self.trees[cell.chain]
        row = tree.shape.levels.index(cell.level)
        del self.live[cell.id]
        if cell.opportunistic:
            tree.opportunistic.remove((row, cell.index))
        else:
            tree.guaranteed.remove((row, cell.index))
            for pool in self.pools[cell.virtual_cluster, cell.chain]:
                if tree.shape.levels[pool.level] == cell.owned_level:
                    self._unbind(tree, pool, (row, cell.virtual_index))
        return cell

    def set_health(self, chain: str, cells: range | tuple[str, int], healthy: bool) -> None:
        tree = self.trees[chain]
        if isinstance(cells, tuple):
            cells = tree.leaves((tree.shape.levels.index(cells[0]), cells[1]))
        tree.bad = tree.bad.difference(cells) if healthy else tree.bad.union(cells)

    def available(self, virtual_cluster: str, chain: str, level: str) -> int:
        tree, row = self.trees[chain], self.trees[chain].shape.levels.index(level)
        return sum(
            len(pool.buddies.free[source + 1]) * tree.width(source) // tree.width(row)
            for pool in self.pools[virtual_cluster, chain]
            for source in range(row, pool.level + 1)
        )

    def free_counts(self, chain: str) -> list[int]:
        tree = self.trees[chain]
        return [len(tree.listed(level)) for level in range(tree.top + 1)]

    def surplus(self, chain: str) -> dict[str, int]:
        tree = self.trees[chain]
        return dict(zip(tree.shape.levels, tree.surplus(), strict=True))

    def check(self) -> None:
        for name, tree in self.trees.items():
            if min(tree.surplus()) < 0:
                raise InvariantError(f"chain {name!r}: safety is broken, S = {tree.surplus()}")
            users = sorted(tree.guaranteed | tree.opportunistic)
            for position, user in enumerate(users):
                if any(tree.overlap(user, other) for other in users[position + 1 :]):
                    raise InvariantError(f"chain {name!r}: {user} overlaps another allocation")
        for pools in self.pools.values():
            for pool in pools:
                pool.buddies.check()
