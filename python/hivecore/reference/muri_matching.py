"""The matching of Muri's published simulator, including its choice among equal optima.

This is the common O(n^3) form of Edmonds' weighted blossom algorithm on a dense matrix of floats:
each pair of ids, vertices and blossoms alike, has a stored edge, so that a blossom looks like a
vertex. Dual variables are compared without tolerance, except at the end of the search. Job profiles
repeat, so many matchings are optimal, and a simulation's averages depend on the choice. Use
`hivecore.matching` for fast exact matchings; this one reproduces published results to the last
digit.

Inside, vertices are 1..n, blossoms n+1.. and 0 is "none". Source: Rivendile/Muri (Apache-2.0), the
artifact of Muri (SIGCOMM'22); Galil, *Efficient Algorithms for Finding Maximum Matching in Graphs*,
ACM Computing Surveys 1986.
"""

from collections import deque
from collections.abc import Sequence
from math import inf

from hivecore.reference.interleaving import Row, group_jobs

__all__ = ["muri_groups", "muri_matching"]

_FREE, _OUTER, _INNER = -1, 0, 1
_END = 1e-5

_Edge = tuple[int, int, float]  # its vertex in the first id, its vertex in the second, its weight
_NO_EDGE: _Edge = (0, 0, 0.0)


def muri_matching(weights: Sequence[Sequence[float]]) -> list[int]:
    """Return each vertex's partner in a maximum-weight matching, -1 for none.

    :param weights: float[n][n], not negative; 0 means no edge, the diagonal is ignored. The two
        directions of an edge may differ by rounding.

    >>> muri_matching([[0, 6, 5], [6, 0, 8], [5, 8, 0]])
    [-1, 2, 1]
    """
    search = _Search(weights)
    while search.phase():
        pass
    return [search.mate[vertex] - 1 for vertex in range(1, search.n + 1)]


def muri_groups(
    rows: Sequence[Row],
    gpus: Sequence[int],
    capacity: int,
    *,
    max_group: int,
    order: str,
    interference: Sequence[float],
) -> list[list[int]]:
    """Return the simulator's groups, with its matching, recurrence and order of merges.

    For arguments see `hivecore.reference.interleaving.group_jobs`.

    >>> jobs = [(2.0, 1.0, 1.0), (1.0, 3.0, 1.0), (1.0, 1.0, 3.0), (1.0, 3.0, 1.0)]
    >>> muri_groups(jobs, [8] * 4, 16, max_group=2, order="best", interference=[1.0, 1.3])
    [[1, 2], [0, 3]]
    """
    return group_jobs(
        rows,
        gpus,
        capacity,
        matcher=muri_matching,
        max_group=max_group,
        model="artifact",
        order=order,
        merge_order="index",
        interference=interference,
    )


class _Search:
    def __init__(self, weights: Sequence[Sequence[float]]) -> None:
        n = self.n = len(weights)
        ids = n + n // 2 + 2
        self.highest = n
        self.edge = [[_NO_EDGE] * ids for _ in range(ids)]
        heaviest = 0.0
        for u in range(1, n + 1):
            for v in range(1, n + 1):
                weight = 0.0 if u == v else weights[u - 1][v - 1]
                self.edge[u][v] = (u, v, weight)
                heaviest = max(heaviest, weight)
        self.dual = [heaviest] * (n + 1) + [0.0] * (ids - n - 1)
        self.mate = [0] * ids
        self.outermost = [*range(n + 1)] + [0] * (ids - n - 1)
        self.members: list[list[int]] = [[] for _ in range(ids)]
        self.member_of = [[0] * (n + 1) for _ in range(ids)]  # [blossom][vertex]
        for vertex in range(1, n + 1):
            self.member_of[vertex][vertex] = vertex
        self.label = [_FREE] * ids
        self.parent = [0] * ids
        self.slack = [0] * ids
        self.queue: deque[int] = deque()
        self.seen = [0] * ids
        self.search_number = 0

    def distance(self, edge: _Edge) -> float:
        """Return how far the edge is from being tight."""
        u, v, _ = edge
        return self.dual[u] + self.dual[v] - 2 * self.edge[u][v][2]

    def phase(self) -> bool:
        """Grow trees from all free vertices until another pair can be matched."""
        self.label = [_FREE] * len(self.label)
        self.slack = [0] * len(self.slack)
        self.queue.clear()
        for x in range(1, self.highest + 1):
            if self.outermost[x] == x and not self.mate[x]:
                self.parent[x] = 0
                self.label[x] = _OUTER
                self.enqueue(x)
        if not self.queue:
            return False
        while True:
            if self.scan_queue():
                return True
            delta = self.step()
            if not self.move_duals(delta):
                return False
            self.queue.clear()
            if self.grow_tight():
                return True
            for b in range(self.n + 1, self.highest + 1):
                if self.outermost[b] == b and self.label[b] == _INNER and self.dual[b] <= 0:
                    self.expand(b)

    def scan_queue(self) -> bool:
        """Use the tight edges of queued vertices, and remember the nearest other edges."""
        outermost = self.outermost
        while self.queue:
            u = self.queue.popleft()
            if self.label[outermost[u]] == _INNER:
                continue
            for v in range(1, self.n + 1):
                edge = self.edge[u][v]
                if edge[2] > 0 and outermost[u] != outermost[v]:
                    if self.distance(edge) > 0:
                        self.relax(u, outermost[v])
                    elif self.grow(edge):
                        return True
        return False

    def step(self) -> float:
        """Return how far duals can move until an edge becomes tight or a blossom dissolves."""
        delta = inf
        for x in range(1, self.highest + 1):
            if self.outermost[x] != x:
                continue
            if x > self.n and self.label[x] == _INNER:
                delta = min(delta, self.dual[x] / 2)
            if self.slack[x] and self.label[x] != _INNER:
                distance = self.distance(self.edge[self.slack[x]][x])
                delta = min(delta, distance if self.label[x] == _FREE else distance / 2)
        return delta

    def move_duals(self, delta: float) -> bool:
        """Move all duals; stop with False if a free vertex's dual reaches zero."""
        for u in range(1, self.n + 1):
            label = self.label[self.outermost[u]]
            if label == _OUTER:
                dual = self.dual[u]
                if dual <= delta or abs(dual - delta) <= _END * max(abs(dual), abs(delta)):
                    return False
                self.dual[u] = dual - delta
            elif label == _INNER:
                self.dual[u] += delta
        for b in range(self.n + 1, self.highest + 1):
            if self.outermost[b] == b:
                if self.label[b] == _OUTER:
                    self.dual[b] += 2 * delta
                elif self.label[b] == _INNER:
                    self.dual[b] -= 2 * delta
        return True

    def grow_tight(self) -> bool:
        """Use edges that have become tight; new blossoms wait for the next pass."""
        for x in range(1, self.highest + 1):
            nearest = self.slack[x]
            if self.outermost[x] == x and nearest and self.outermost[nearest] != x:
                edge = self.edge[nearest][x]
                if self.distance(edge) <= 0 and self.grow(edge):
                    return True
        return False

    def relax(self, u: int, x: int) -> None:
        """Remember vertex `u` if its edge to `x` is the nearest so far."""
        nearest = self.slack[x]
        if not nearest or self.distance(self.edge[u][x]) < self.distance(self.edge[nearest][x]):
            self.slack[x] = u

    def relax_from_outer(self, x: int) -> None:
        self.slack[x] = 0
        for u in range(1, self.n + 1):
            at = self.outermost[u]
            if self.edge[u][x][2] > 0 and at != x and self.label[at] == _OUTER:
                self.relax(u, x)

    def enqueue(self, x: int) -> None:
        """Enqueue a vertex, or a blossom's vertices level by level."""
        waiting = deque([x])
        while waiting:
            x = waiting.popleft()
            if x <= self.n:
                self.queue.append(x)
            else:
                waiting.extend(self.members[x])

    def set_outermost(self, x: int, b: int) -> None:
        self.outermost[x] = b
        for member in self.members[x]:
            self.set_outermost(member, b)

    def grow(self, edge: _Edge) -> bool:
        """Use a tight edge from an outer id: grow the tree, form a blossom, or
        match another pair.
        """
        u, v = self.outermost[edge[0]], self.outermost[edge[1]]
        if self.label[v] == _FREE:
            self.parent[v] = edge[0]
            self.label[v] = _INNER
            after = self.outermost[self.mate[v]]
            self.slack[v] = self.slack[after] = 0
            self.label[after] = _OUTER
            self.enqueue(after)
        elif self.label[v] == _OUTER:
            base = self.common_ancestor(u, v)
            if not base:
                self.augment(u, v)
                self.augment(v, u)
                return True
            self.form(u, base, v)
        return False

    def common_ancestor(self, u: int, v: int) -> int:
        self.search_number += 1
        while u or v:
            if u:
                if self.seen[u] == self.search_number:
                    return u
                self.seen[u] = self.search_number
                u = self.outermost[self.mate[u]]
                if u:
                    u = self.outermost[self.parent[u]]
            u, v = v, u
        return 0

    def augment(self, u: int, v: int) -> None:
        while True:
            inner = self.outermost[self.mate[u]]
            self.match(u, v)
            if not inner:
                return
            outer = self.outermost[self.parent[inner]]
            self.match(inner, outer)
            u, v = outer, inner

    def match(self, u: int, v: int) -> None:
        edge = self.edge[u][v]
        self.mate[u] = edge[1]
        if u > self.n:
            base = self.member_of[u][edge[0]]
            place = self.position(u, base)
            members = self.members[u]
            for i in range(place):
                self.match(members[i], members[i ^ 1])
            self.match(base, v)
            self.members[u] = members[place:] + members[:place]

    def position(self, b: int, member: int) -> int:
        """Return a member's even distance from the base, reversing the cycle if needed."""
        members = self.members[b]
        place = members.index(member)
        if place % 2 == 0:
            return place
        members[1:] = members[:0:-1]
        return len(members) - place

    def form(self, u: int, base: int, v: int) -> None:
        """Form a blossom from the paths of `u` and `v` to their common ancestor."""
        b = self.n + 1
        while b <= self.highest and self.outermost[b]:
            b += 1
        self.highest = max(self.highest, b)
        self.dual[b] = 0.0
        self.label[b] = _OUTER
        self.mate[b] = self.mate[base]
        self.members[b] = [base, *self.path_up(u, base)[::-1], *self.path_up(v, base)]
        self.set_outermost(b, b)
        for x in range(1, self.highest + 1):
            self.edge[b][x] = (*self.edge[b][x][:2], 0.0)
            self.edge[x][b] = (*self.edge[x][b][:2], 0.0)
        self.member_of[b] = [0] * (self.n + 1)
        for member in self.members[b]:
            for x in range(1, self.highest + 1):
                old, new = self.edge[b][x], self.edge[member][x]
                if old[2] <= 0 or self.distance(new) < self.distance(old):
                    self.edge[b][x] = new
                    self.edge[x][b] = self.edge[x][member]
            for vertex in range(1, self.n + 1):
                if self.member_of[member][vertex]:
                    self.member_of[b][vertex] = member
        self.relax_from_outer(b)

    def path_up(self, x: int, base: int) -> list[int]:
        path = []
        while x != base:
            inner = self.outermost[self.mate[x]]
            path += [x, inner]
            self.enqueue(inner)
            x = self.outermost[self.parent[inner]]
        return path

    def expand(self, b: int) -> None:
        """Replace an inner blossom by its members."""
        for member in self.members[b]:
            self.set_outermost(member, member)
        entry = self.member_of[b][self.edge[b][self.parent[b]][0]]
        place = self.position(b, entry)
        members = self.members[b]
        for i in range(0, place, 2):
            inner, outer = members[i], members[i + 1]
            self.parent[inner] = self.edge[outer][inner][0]
            self.label[inner], self.label[outer] = _INNER, _OUTER
            self.slack[inner] = 0
            self.relax_from_outer(outer)
            self.enqueue(outer)
        self.label[entry] = _INNER
        self.parent[entry] = self.parent[b]
        for member in members[place + 1 :]:
            self.label[member] = _FREE
            self.relax_from_outer(member)
        self.outermost[b] = 0
