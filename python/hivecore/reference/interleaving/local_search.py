"""Groups made better by small steps, from those that rounds of matchings gave.

The sum of the groups' values, each times its GPUs, rises with every step: two groups of a bucket
share their jobs out anew, or one group splits while GPUs are left, or two merge for another to
split. All ways of sharing out up to eight jobs are tried, of more only moving one job or swapping
two.
"""

from collections.abc import Callable, Iterator
from itertools import product

from hivecore.reference.interleaving.candidates import Candidates, Node
from hivecore.reference.interleaving.rounds import total

__all__ = ["search_locally"]

_LEAST = 1e-9  # a step has to bring more, relatively
_ALL_WAYS = 8  # jobs

_Value = Callable[[Node], float]


def search_locally(
    jobs: Candidates, buckets: dict[int, list[Node]], largest: int, room: int, gain: bool
) -> None:
    """Make the groups better, until no step is left.

    :param buckets: groups by the GPUs that each needs; changed in place.
    :param largest: jobs in a group at most.
    :param room: how many GPUs the groups may need together; they need no more at first.
    :param gain: the value of a group is its progress, not its efficiency.
    """
    value = jobs.progress if gain else jobs.efficiency
    for nodes in buckets.values():
        nodes[:] = map(jobs.by_type, nodes)
    while True:
        for nodes in buckets.values():
            while _share_out(jobs, nodes, largest, value):
                pass
        slack = room - sum(gpus * len(nodes) for gpus, nodes in buckets.items())
        if not _split_or_exchange(jobs, buckets, largest, slack, value):
            return


def _share_out(jobs: Candidates, nodes: list[Node], largest: int, value: _Value) -> bool:
    """One pass over the pairs of groups; whether any was changed."""
    changed = False
    for i in range(len(nodes)):
        for j in range(i + 1, len(nodes)):
            before = value(nodes[i]) + value(nodes[j])
            best, way = _best(jobs, _ways_to_share(jobs, nodes[i], nodes[j]), largest, value)
            if way and best - before > _LEAST * before:
                nodes[i], nodes[j] = way
                changed = True
    return changed


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


def _best(
    jobs: Candidates, ways: Iterator[tuple[Node, Node]], largest: int, value: _Value
) -> tuple[float, tuple[Node, Node] | None]:
    """The best of the ways that may be, of equal ones the first, and its value."""
    best, chosen = 0.0, None
    for way in ways:
        if max(map(len, way)) > largest:
            continue
        first, second = map(jobs.by_type, way)
        if jobs.may_be(first) and jobs.may_be(second):
            together = value(first) + value(second)
            if chosen is None or together > best:
                best, chosen = together, (first, second)
    return best, chosen


def _split_or_exchange(
    jobs: Candidates, buckets: dict[int, list[Node]], largest: int, slack: int, value: _Value
) -> bool:
    """Make the best change, of equal ones the first; whether there was one."""
    splits = []
    for gpus, nodes in buckets.items():
        for i, node in enumerate(nodes):
            best, way = _best(jobs, _all_ways(node), largest, value)
            if way:
                splits.append(((best - value(node)) * gpus, gpus, i, way))
    total_value = total(value(node) * gpus for gpus, nodes in buckets.items() for node in nodes)
    gain, change, merge = _LEAST * total_value, None, None
    for split in splits:
        if split[1] <= slack and split[0] > gain:
            gain, change = split[0], split
    for merged in _merges(jobs, buckets, largest, value):
        loss, freed, u, v, _ = merged
        for split in splits:
            apart = split[1] != freed or split[2] not in (u, v)
            if apart and split[1] <= slack + freed and split[0] + loss > gain:
                gain, change, merge = split[0] + loss, split, merged
    if change is None:
        return False
    _, gpus, i, (first, second) = change
    buckets[gpus][i] = first
    buckets[gpus].append(second)
    if merge is not None:
        _, freed, u, v, both = merge
        buckets[freed][u] = both
        del buckets[freed][v]
    return True


def _merges(
    jobs: Candidates, buckets: dict[int, list[Node]], largest: int, value: _Value
) -> Iterator[tuple[float, int, int, int, Node]]:
    """Of each group the merge with a later one that costs least."""
    for gpus, nodes in buckets.items():
        for u, node in enumerate(nodes):
            best = None
            for v in range(u + 1, len(nodes)):
                both = jobs.by_type(node + nodes[v])
                if len(both) <= largest and jobs.may_be(both):
                    gain = (value(both) - (value(node) + value(nodes[v]))) * gpus
                    if best is None or gain > best[0]:
                        best = gain, gpus, u, v, both
            if best:
                yield best
