"""Twin of `hivecore.interleaving.group_jobs`: Muri's rounds of matchings.

Source: Muri (SIGCOMM'22), section 4.2; merging by index follows the authors' published simulator.
"""

from collections.abc import Callable, Sequence
from math import inf

from hivecore.reference.interleaving.candidates import Candidates, Node
from hivecore.reference.interleaving.local_search import search_locally
from hivecore.reference.interleaving.rounds import Row, total

__all__ = ["Matcher", "Weight", "group_jobs"]

#: weights[n][n] (only those above 0 are edges) -> the partner of each node, or -1
Matcher = Callable[[Sequence[Sequence[float]]], Sequence[int]]

#: The values of groups of job numbers.
Weight = Callable[[list[list[int]]], Sequence[float]]


def group_jobs(
    rows: Sequence[Row],
    gpus: Sequence[int],
    capacity: int | None = None,
    *,
    matcher: Matcher,
    max_group: int | None = None,
    weight: str | Weight = "efficiency",
    method: str = "muri",
    model: str = "barrier",
    order: str = "best",
    merge_order: str = "waste",
    interference: Sequence[float] | None = None,
    solo: Sequence[float] | None = None,
    priorities: Sequence[float] | None = None,
    max_slowdown: float = inf,
    memory: Sequence[int] | None = None,
    gpu_memory: float = inf,
    start: Sequence[Sequence[int]] = (),
    effort: float = inf,
) -> list[list[int]]:
    """Return the groups of Muri's rounds of matchings, optionally improved by a local search.

    :param matcher: finds a maximum-weight matching. It gets each weight in both directions, summed
        in the order (row, column) of the jobs.
    :param effort: see `search_locally`.

    >>> first_two = lambda weights: [1, 0] + [-1] * (len(weights) - 2)
    >>> group_jobs([(2.0, 1.0), (1.0, 2.0), (1.0, 1.0)], [4, 4, 4], 8, matcher=first_two)
    [[0, 1], [2]]
    """
    n = len(rows)
    jobs = Candidates(
        rows,
        model,
        order,
        [1.0] * n if interference is None else interference,
        [total(row) for row in rows] if solo is None else solo,
        range(n) if priorities is None else priorities,
        max_slowdown,
        [0] * n if memory is None else memory,
        gpu_memory,
    )
    largest = jobs.slots if max_group is None else max_group
    buckets: dict[int, list[Node]] = {}
    begun = {min(group): list(group) for group in start}
    inside = {job for group in start for job in group if job != min(group)}
    for job, size in enumerate(gpus):
        if job not in inside:
            buckets.setdefault(size, []).append(begun.get(job, [job]))
    excess = sum(size * len(nodes) for size, nodes in buckets.items()) - (capacity or 0)

    def matched(size: int) -> list[tuple[int, int, int]]:
        """Return (bucket, node, node), ordered by the second node."""
        weights = _weights(jobs, buckets[size], largest, weight)
        if not any(map(any, weights)):
            return []
        return [(size, u, v) for v, u in enumerate(matcher(weights)) if 0 <= u < v]

    def waste(pair: tuple[int, int, int]) -> float:
        size, u, v = pair
        return (1 - jobs.efficiency(buckets[size][u] + buckets[size][v])) * size

    def merge(pairs: list[tuple[int, int, int]]) -> bool:
        """Merge pairs in order while GPUs are lacking; the result replaces the second node."""
        nonlocal excess
        merged = False
        for size, u, v in pairs:
            if excess > 0:
                nodes = buckets[size]
                nodes[u], nodes[v] = [], nodes[u] + nodes[v]
                excess -= size
                merged = True
        for nodes in buckets.values():
            nodes[:] = [node for node in nodes if node]
        return merged

    for _ in range(largest):
        if excess <= 0:
            break
        if merge_order == "index":
            merges = [merge(matched(size)) for size in buckets if excess > 0]
        else:
            pairs = [pair for size in buckets for pair in matched(size)]
            merges = [merge(sorted(pairs, key=waste))]
        if not any(merges):
            break
    if method == "local":
        room = max(capacity or 0, (capacity or 0) + excess)
        search_locally(jobs, buckets, largest, room, weight == "gain", effort)
    return [node for nodes in buckets.values() for node in nodes]


def _weights(
    jobs: Candidates, nodes: list[Node], largest: int, weight: str | Weight
) -> list[list[float]]:
    weights = [[0.0] * len(nodes) for _ in nodes]
    places = [
        (u, v)
        for u, first in enumerate(nodes)
        for v, second in enumerate(nodes)
        if u != v and len(first) + len(second) <= largest and jobs.is_allowed(first + second)
    ]
    if callable(weight):
        places = [(u, v) for u, v in places if u < v]
        values = weight([nodes[u] + nodes[v] for u, v in places])
        for (u, v), value in zip(places, values, strict=True):
            weights[u][v] = weights[v][u] = value
    for u, v in places if isinstance(weight, str) else []:
        both = nodes[u] + nodes[v]
        if weight == "efficiency":
            weights[u][v] = jobs.efficiency(both)
        else:
            in_turns = (jobs.progress(nodes[u]) + jobs.progress(nodes[v])) / 2
            weights[u][v] = jobs.progress(both) - in_turns
    return weights
