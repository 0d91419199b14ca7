"""The readable twin of the kernel behind `hivecore.matching`: Edmonds' primal-dual algorithm.

Every vertex carries a dual ``y`` and every blossom (an odd set of vertices, shrunk to one node) a
dual ``z``, all integers >= 0 in units of half a weight. The slack of an edge is

    y[u] + y[v] + (sum of z over the blossoms that hold both ends) - 2 * weight  >=  0,

and an edge is *tight* at slack 0. At all times every matched edge is tight and every blossom is
full: all but one of its vertices, the *base*, are matched inside. Once every free vertex also has
``y == 0``, duals and matching have the same value, and both are optimal (weak duality).

A search grows an alternating tree of tight edges from a free vertex with ``y > 0``. Nodes at even
depth are labelled +, at odd depth -. If no tight edge continues the tree, the duals of + nodes
decrease and those of - nodes increase by ``delta``, which keeps the tree tight, until

    1. a + vertex reaches 0: it becomes the free vertex instead of the root, which ends the search;
    2. an edge from + to an unlabelled node becomes tight: grow the tree, or, if that node holds a
       free vertex, augment along the path and end the search;
    3. an edge between two + nodes becomes tight: the cycle that it closes becomes a + blossom;
    4. the ``z`` of a - blossom reaches 0: it is replaced by its children.

All duals that a search moves have one parity (they are linked by tight edges, and weights count
twice), so the slack of an edge between two + vertices is even and delta is always an integer.

Source: J. Edmonds, "Maximum matching and a polyhedron with 0,1-vertices", J. Res. NBS 69B (1965);
Z. Galil, "Efficient algorithms for finding maximum matching in graphs", ACM Comput. Surv. 18
(1986). Here: O(n) searches of O(n^2) steps each, and more where blossoms are large.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["Solution", "brute_force", "max_weight_matching"]

_Edge = tuple[int, int]

_LAST = {"a dual is 0", "to a free node"}


class Solution(NamedTuple):
    """A maximum-weight matching and the duals that prove it."""

    mate: list[int]
    duals: list[int]
    blossoms: list[list[int]]
    blossom_duals: list[int]


class _Node:
    """A vertex, or a blossom: an odd cycle of nodes that acts as one vertex."""

    def __init__(self, base: int, children: "list[_Node]", edges: list[_Edge]) -> None:
        self.base = base
        self.children = children  # children[0] holds the base; the others are matched 1-2, 3-4, ...
        self.edges = edges  # edges[i] goes from children[i] to the next child
        self.z = 0
        self.label = ""
        self.entry: _Edge = (-1, -1)  # of a - node: the tree edge from the + vertex above

    def vertices(self) -> Iterator[int]:
        if not self.children:
            yield self.base
        for child in self.children:
            yield from child.vertices()


class _Solver:
    def __init__(self, n: int, edges: Sequence[_Edge], weights: Sequence[int]) -> None:
        self.n = n
        self.weight: list[dict[int, int]] = [{} for _ in range(n)]
        for (u, v), w in zip(edges, weights, strict=True):
            if w > max(0, self.weight[u].get(v, 0)):  # the heaviest parallel edge counts
                self.weight[u][v] = self.weight[v][u] = w
        self.mate = [-1] * n
        self.y = [max(row.values(), default=0) for row in self.weight]
        self.top = [_Node(v, [], []) for v in range(n)]  # the outermost node of each vertex
        self.near = [-1] * n  # the + vertex of another node whose edge to v has the least slack

    def slack(self, u: int, v: int) -> int:
        """Return the slack of an edge between two outermost nodes."""
        return self.y[u] + self.y[v] - 2 * self.weight[u][v]

    # --- one search

    def search(self, root: int) -> None:
        """Match ``root``, or free a vertex with dual 0 instead."""
        for node in self.top:
            node.label = ""
        self.near = [-1] * self.n
        self.become_plus(self.top[root])
        while True:
            delta, event, u, v = self.next_event()
            for x in range(self.n):
                self.y[x] -= {"+": delta, "-": -delta, "": 0}[self.top[x].label]
            for node in set(self.top):
                node.z += {"+": 2 * delta, "-": -2 * delta, "": 0}[node.label]
            if event == "a dual is 0":
                return self.augment(u, -1)
            if event == "to a free node":
                return self.augment(u, v)
            if event == "to a matched node":
                self.grow(u, v)
            elif event == "to another + node":
                self.shrink(u, v)
            else:
                self.expand(self.top[v])

    def next_event(self) -> tuple[int, str, int, int]:
        """Return the smallest delta, the event there, and its edge (u, v)."""
        events = []
        for v, node in enumerate(self.top):
            if node.label == "+" and self.near[v] >= 0 and self.top[self.near[v]] is node:
                self.near[v] = self.nearest(v)  # the old one is inside a blossom now
            u = self.near[v]
            if node.label == "+":
                events.append((self.y[v], "a dual is 0", v, -1))
                if u >= 0:
                    events.append((self.slack(u, v) // 2, "to another + node", u, v))
            elif node.label == "-":
                if node.children:
                    events.append((node.z // 2, "a blossom is 0", -1, v))
            elif u >= 0:
                free = self.mate[node.base] < 0
                kind = "to a free node" if free else "to a matched node"
                events.append((self.slack(u, v), kind, u, v))
        # Among equal deltas, prefer an event that ends the search, to save work on the tree.
        return min(events, key=lambda event: (event[0], event[1] not in _LAST))

    def nearest(self, v: int) -> int:
        """Return the + vertex outside v's node with the least slack to v, or -1."""
        others = (
            u for u in self.weight[v] if self.top[u].label == "+" and self.top[u] is not self.top[v]
        )
        return min(others, key=lambda u: self.slack(u, v), default=-1)

    def become_plus(self, node: _Node) -> None:
        """Label a node +, and update its neighbours."""
        node.label = "+"
        for u in node.vertices():
            self.offer(u)

    def offer(self, u: int) -> None:
        """Update the neighbours of ``u``, a new + vertex."""
        for v in self.weight[u]:
            if self.top[v] is not self.top[u]:
                near = self.near[v]
                inside = near >= 0 and self.top[near] is self.top[v]
                if near < 0 or inside or self.slack(u, v) < self.slack(near, v):
                    self.near[v] = u

    def grow(self, u: int, v: int) -> None:
        """Add the node of ``v`` as - below ``u``, and its mate as + below it."""
        node = self.top[v]
        node.label, node.entry = "-", (u, v)
        self.become_plus(self.top[self.mate[node.base]])

    def climb(self, node: _Node) -> Iterator[tuple[_Node, _Edge]]:
        """Yield the nodes from a + node to the root, each with its edge to the next one."""
        while self.mate[node.base] >= 0:
            edge = (node.base, self.mate[node.base])
            yield node, edge
            node = self.top[edge[1]]
            above, below = node.entry
            yield node, (below, above)
            node = self.top[above]
        yield node, (node.base, -1)

    def shrink(self, u: int, v: int) -> None:
        """Shrink the cycle that the edge (u, v) between two + nodes closes into a + blossom."""
        left, right = list(self.climb(self.top[u])), list(self.climb(self.top[v]))
        common = None
        while left and right and left[-1][0] is right[-1][0]:
            common = left.pop()[0]
            right.pop()
        assert common is not None
        blossom = _Node(
            common.base,
            [common, *(node for node, _ in reversed(left)), *(node for node, _ in right)],
            [*((b, a) for _, (a, b) in reversed(left)), (u, v), *(edge for _, edge in right)],
        )
        blossom.label = "+"
        new = [x for child in blossom.children if child.label == "-" for x in child.vertices()]
        for x in blossom.vertices():
            self.top[x] = blossom
        for x in new:
            self.offer(x)

    def expand(self, blossom: _Node) -> None:
        """Replace a - blossom by its children; the even path from entry to base
        stays in the tree.
        """
        u, v = blossom.entry
        children, edges = blossom.children, blossom.edges
        for child in children:
            child.label = ""
            for x in child.vertices():
                self.top[x] = child
        at = children.index(self.top[v])
        # The entered child's matched edge continues the path, which reaches the base on a + - path.
        step = 1 if at % 2 else -1
        entry = (u, v)
        while True:
            children[at].label, children[at].entry = "-", entry
            if at == 0:
                break
            self.become_plus(children[at + step])
            if step > 0:
                entry = edges[at + 1]
            else:
                entry = edges[at - 2][::-1]
            at = (at + 2 * step) % len(children)

    # --- changing the matching

    def augment(self, u: int, v: int) -> None:
        """Match the + vertex ``u`` with ``v`` (-1: leave it free), and rematch up to the root."""
        while True:
            node = self.top[u]
            above = self.mate[node.base]
            self.rebase(node, u)
            self.mate[u] = v
            if v >= 0:
                self.rebase(self.top[v], v)
                self.mate[v] = u
            if above < 0:
                return
            u, v = self.top[above].entry

    def rebase(self, node: _Node, base: int) -> None:
        """Rematch the inside of a node so that ``base`` is the unmatched vertex."""
        node.base = base
        if not node.children:
            return
        at = next(i for i, child in enumerate(node.children) if base in child.vertices())
        node.children = node.children[at:] + node.children[:at]
        node.edges = node.edges[at:] + node.edges[:at]
        self.rebase(node.children[0], base)
        for i in range(1, len(node.children), 2):
            a, b = node.edges[i]
            self.rebase(node.children[i], a)
            self.rebase(node.children[i + 1], b)
            self.mate[a], self.mate[b] = b, a

    def dissolve(self, node: _Node) -> None:
        """Dissolve an outermost blossom of dual 0, and such blossoms inside it."""
        if node.children and node.z == 0:
            for child in node.children:
                for v in child.vertices():
                    self.top[v] = child
                self.dissolve(child)

    # --- the whole

    def solve(self) -> Solution:
        for root in range(self.n):
            if self.mate[root] < 0 and self.y[root] > 0:
                self.search(root)
                for node in dict.fromkeys(self.top):
                    self.dissolve(node)
        blossoms: list[_Node] = []
        inside = [node for node in dict.fromkeys(self.top) if node.children]
        while inside:
            node = inside.pop()
            blossoms.append(node)
            inside += [child for child in node.children if child.children]
        blossoms = [node for node in blossoms if node.z > 0]
        return Solution(
            self.mate,
            self.y,
            [sorted(node.vertices()) for node in blossoms],
            [b.z for b in blossoms],
        )


def max_weight_matching(n: int, edges: Sequence[_Edge], weights: Sequence[int]) -> Solution:
    """Return a maximum-weight matching of a graph, and an optimal dual solution.

    :param n: number of vertices.
    :param edges: pairs of different vertices; of parallel edges the heaviest counts.
    :param weights: integers of any size; edges of weight <= 0 are never used.

    Duals are in units of half a weight: ``duals[u] + duals[v] + (blossom_duals of the blossoms
    that hold both) >= 2 * weight`` for every edge, and ``sum(duals) + sum(blossom_duals * (size -
    1) / 2)`` is twice the weight of the matching.

    >>> max_weight_matching(4, [(0, 1), (1, 2), (2, 0), (2, 3)], [6, 6, 6, 1])
    Solution(mate=[1, 0, 3, 2], duals=[1, 1, 1, 1], blossoms=[[0, 1, 2]], blossom_duals=[10])
    """
    return _Solver(n, edges, weights).solve()


def brute_force(n: int, edges: Sequence[_Edge], weights: Sequence[int]) -> list[int]:
    """Return the largest weight of a matching with exactly 0, 1, 2, ... edges, as far as they
    exist.

    O(2^n * n): for each set of vertices, try all matches of the lowest. For n <= 14.

    >>> brute_force(4, [(0, 1), (1, 2), (2, 3)], [1, 5, 2])
    [0, 5, 3]
    """
    weight: list[dict[int, int]] = [{} for _ in range(n)]
    for (u, v), w in zip(edges, weights, strict=True):
        u, v = min(u, v), max(u, v)
        weight[u][v] = max(w, weight[u].get(v, w))
    best: dict[int, dict[int, int]] = {0: {0: 0}}  # set of vertices -> edges used -> weight
    for vertices in range(1, 1 << n):
        low = (vertices & -vertices).bit_length() - 1
        rest = vertices & ~(1 << low)
        ways = dict(best[rest])
        for v, w in weight[low].items():
            if rest >> v & 1:
                for used, total in best[rest & ~(1 << v)].items():
                    ways[used + 1] = max(total + w, ways.get(used + 1, total + w))
        best[vertices] = ways
    return [best[(1 << n) - 1][used] for used in sorted(best[(1 << n) - 1])]
