"""Improves groups by small steps, starting from rounds of matchings.

Every step increases the sum over groups of value times GPUs: two groups of a bucket redistribute
their jobs, a group splits while GPUs are left, or two groups merge so that another can split. Up to
eight jobs are redistributed in all ways, more only by moving a job or swapping two. Effort counts
the orders of jobs in the tried groups; while some is left, another pair of groups is tried.
"""

from collections.abc import Callable, Iterator
from itertools import product
from math import perm

from hivecore.reference.interleaving.candidates import Candidates, Node
from hivecore.reference.interleaving.rounds import total

__all__ = ["search_locally"]

_TOLERANCE = 1e-9  # the least relative gain of a step
_ALL_WAYS = 8  # jobs

_Value = Callable[[Node], float]
_Way = tuple[Node, ...]


def search_locally(
    jobs: Candidates,
    buckets: dict[int, list[Node]],
    largest: int,
    room: int,
    gain: bool,
    effort: float,
) -> None:
    """Improve the groups until no step or no effort is left.

    :param buckets: groups by GPUs per group; changed in place.
    :param largest: the most jobs in a group.
    :param room: the most GPUs of all groups together, which the initial groups satisfy.
    :param gain: a group's value is its progress instead of its efficiency.
    :param effort: the number of job orders to try; the last pair of groups is always finished.
    """
    for nodes in buckets.values():
        nodes[:] = map(jobs.by_type, nodes)
    _Search(jobs, buckets, largest, room, jobs.progress if gain else jobs.efficiency, effort).run()


class _Search:
    def __init__(
        self,
        jobs: Candidates,
        buckets: dict[int, list[Node]],
        largest: int,
        room: int,
        value: _Value,
        effort: float,
    ) -> None:
        self.jobs, self.buckets, self.largest, self.room = jobs, buckets, largest, room
        self.value = value
        self.effort = effort
        self.settled: set[tuple[object, object]] = set()

    def run(self) -> None:
        while True:
            for nodes in self.buckets.values():
                while self.share_out(nodes):
                    pass
            if self.effort <= 0 or not self.split_or_exchange():
                return

    def share_out(self, nodes: list[Node]) -> bool:
        """Try all pairs of groups once; return whether any was changed."""
        value, changed = self.value, False
        for i in range(len(nodes)):
            for j in range(i + 1, len(nodes)):
                if self.effort <= 0:
                    return False
                # Groups of the same types need no retry, unless jobs of a type differ.
                kinds = self.jobs.kind(nodes[i]), self.jobs.kind(nodes[j])
                if kinds in self.settled and not self.jobs.has_slowdown_limit:
                    continue
                before = value(nodes[i]) + value(nodes[j])
                best, way = self.best(_ways_to_share(self.jobs, nodes[i], nodes[j]))
                if way and best - before > _TOLERANCE * before:
                    nodes[i], nodes[j] = way
                    changed = True
                else:
                    self.settled.add(kinds)
        return changed

    def best(self, ways: Iterator[_Way]) -> tuple[float, _Way | None]:
        """Return the value of the best allowed way (the first of equals), and the way."""
        best, chosen = 0.0, None
        for way in ways:
            self.effort -= sum(map(self.orders, way))
            if max(map(len, way)) > self.largest:
                continue
            groups = tuple(map(self.jobs.by_type, way))
            if all(map(self.jobs.is_allowed, groups)):
                together = total(map(self.value, groups))
                if chosen is None or together > best:
                    best, chosen = together, groups
        return best, chosen

    def orders(self, node: Node) -> int:
        """Return the number of job orders; too many jobs are not tried."""
        return perm(self.jobs.slots - 1, len(node) - 1) if len(node) <= self.largest else 0

    def split_or_exchange(self) -> bool:
        """Make the best change (the first of equals); return whether there was one."""
        value = self.value
        slack = self.room - sum(gpus * len(nodes) for gpus, nodes in self.buckets.items())
        splits = []
        for gpus, nodes in self.buckets.items():
            for i, node in enumerate(nodes):
                best, way = self.best(_all_ways(node))
                if way:
                    splits.append(((best - value(node)) * gpus, gpus, i, way))
        gain, change, merge = _TOLERANCE * self.total_value(), None, None
        for split in splits:
            if split[1] <= slack and split[0] > gain:
                gain, change = split[0], split
        for merged in self.merges():
            loss, freed, u, v, _ = merged
            for split in splits:
                apart = split[1] != freed or split[2] not in (u, v)
                if apart and split[1] <= slack + freed and split[0] + loss > gain:
                    gain, change, merge = split[0] + loss, split, merged
        if change is None:
            return False
        _, gpus, i, (first, second) = change
        self.buckets[gpus][i] = first
        self.buckets[gpus].append(second)
        if merge is not None:
            _, freed, u, v, both = merge
            self.buckets[freed][u] = both
            del self.buckets[freed][v]
        return True

    def total_value(self) -> float:
        return total(
            self.value(node) * gpus for gpus, nodes in self.buckets.items() for node in nodes
        )

    def merges(self) -> Iterator[tuple[float, int, int, int, Node]]:
        """Yield each group's cheapest merge with a later one."""
        for gpus, nodes in self.buckets.items():
            for u, node in enumerate(nodes):
                best = None
                for v in range(u + 1, len(nodes)):
                    if len(node) + len(nodes[v]) > self.largest:
                        continue
                    value, way = self.best(iter([(node + nodes[v],)]))
                    if way:
                        gain = (value - (self.value(node) + self.value(nodes[v]))) * gpus
                        if best is None or gain > best[0]:
                            best = gain, gpus, u, v, way[0]
                if best:
                    yield best


def _ways_to_share(jobs: Candidates, a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
    if len(a) + len(b) <= _ALL_WAYS:
        yield from _all_ways(jobs.by_type(a + b))
        return
    for i in range(len(a) if len(a) > 1 else 0):
        yield a[:i] + a[i + 1 :], [*b, a[i]]
    for j in range(len(b) if len(b) > 1 else 0):
        yield [*a, b[j]], b[:j] + b[j + 1 :]
    for i, j in product(range(len(a)), range(len(b))):
        yield [*a[:i], b[j], *a[i + 1 :]], [*b[:j], a[i], *b[j + 1 :]]


def _all_ways(all_jobs: Node) -> Iterator[tuple[Node, Node]]:
    """The first job stays in the first group; bit i of the mask puts job i + 1 into the second."""
    first, *others = all_jobs
    for mask in range(1, 2 ** len(others)):
        stay = [job for i, job in enumerate(others) if not mask >> i & 1]
        go = [job for i, job in enumerate(others) if mask >> i & 1]
        yield [first, *stay], go
