"""The cost of a change to a `Matcher`, compared with solving the changed graph from scratch."""

from collections.abc import Callable
from statistics import median
from typing import Any

import matching_graphs as graphs
import numpy as np
from harness import cpu_seconds
from matching_graphs import Graph

from hivecore.matching import Matcher, max_weight_matching

EVENTS = ("change", "leave", "come")


def changes(family: str, make: Callable[[int], Graph], n: int, rounds: int) -> dict[str, Any]:
    """Median CPU seconds over jobs that change, leave and come, beside the same from scratch.

    In each round one of n jobs gets other weights, one leaves (n - 1 are left), and one that is
    new comes (n again). All jobs are of one sample of the family; weights are floats. What is
    solved from scratch is the graph after each event, and each answer weighs as much.
    """
    rng = np.random.default_rng(n)
    pool = graphs.as_array(make(n + 2 * rounds)) / graphs.SCALE
    shuffled = rng.permutation(len(pool))
    pool = pool[np.ix_(shuffled, shuffled)]
    jobs = np.arange(n)  # of each vertex of the matcher
    matcher = Matcher(pool[:n, :n])
    matcher.solve()
    warm: dict[str, list[float]] = {event: [] for event in EVENTS}
    scratch: dict[str, list[float]] = {event: [] for event in EVENTS}

    def measure(event: str, change: Callable[[], object], left: Any) -> None:
        warm[event].append(cpu_seconds(lambda: (change(), matcher.solve())))
        now = pool[np.ix_(left, left)]
        scratch[event].append(cpu_seconds(lambda: max_weight_matching(now)))
        assert abs(matcher.solve().weight - max_weight_matching(now).weight) < 1e-6

    for new in range(n, n + 2 * rounds, 2):
        v, gone = rng.integers(n, size=2).tolist()
        jobs[v] = new
        measure("change", lambda v=v: matcher.set_vertex(v, pool[jobs[v], jobs]), jobs)
        measure("leave", lambda v=gone: matcher.remove_vertex(v), np.delete(jobs, gone))
        jobs[gone] = new + 1
        measure("come", lambda v=gone: matcher.add_vertex(pool[jobs[v], jobs]), jobs)
    assert matcher.solve().verify()
    return {
        "family": family,
        "n": n,
        "seconds": {event: median(each) for event, each in warm.items()},
        "scratch": {event: median(each) for event, each in scratch.items()},
    }


def worst(measured: list[dict[str, Any]]) -> tuple[float, float]:
    """Return the most expensive event relative to a solution from scratch, and odd n relative to
    even n.

    For n and n + 1, the total of a round's three events is compared.
    """
    by_scratch = max(
        each["seconds"][event] / each["scratch"][event] for each in measured for event in EVENTS
    )
    rounds = {(each["family"], each["n"]): sum(each["seconds"].values()) for each in measured}
    by_parity = max(
        seconds / rounds[family, n - 1] for (family, n), seconds in rounds.items() if n % 2 == 1
    )
    return by_scratch, by_parity
