"""What one change of a graph costs a `Matcher`, beside solving the changed graph from scratch."""

from collections.abc import Callable
from statistics import median
from typing import Any

import matching_graphs as graphs
import numpy as np
from harness import cpu_seconds

from hivecore.matching import Matcher, max_weight_matching


def changes(n: int, rounds: int) -> dict[str, Any]:
    """Median CPU seconds over jobs that change, leave and come back, in a graph of noisy weights.

    A job that changes gets the weights that it had in another sample of the same family; weights
    are floats. Each answer weighs as much as that from scratch.
    """
    one, other = (graphs.as_array(graphs.noise(n)) / graphs.SCALE for _ in range(2))
    rng = np.random.default_rng(n)
    shuffled = rng.permutation(n)
    other = other[np.ix_(shuffled, shuffled)]
    matcher = Matcher(one)
    matcher.solve()
    seconds: dict[str, list[float]] = {name: [] for name in ("scratch", "change", "leave", "come")}

    def measure(name: str, change: Callable[[], object]) -> None:
        seconds[name].append(cpu_seconds(lambda: (change(), matcher.solve())))

    for v in rng.choice(n, rounds, replace=False).tolist():
        one[v] = one[:, v] = other[v]
        measure("change", lambda v=v: matcher.set_vertex(v, one[v]))
        measure("leave", lambda v=v: matcher.remove_vertex(v))
        measure("come", lambda v=v: matcher.add_vertex(one[v]))
        seconds["scratch"].append(cpu_seconds(lambda: max_weight_matching(one)))
        assert abs(matcher.solve().weight - max_weight_matching(one).weight) < 1e-6
    assert matcher.solve().verify()
    return {"n": n, "seconds": {name: median(each) for name, each in seconds.items()}}
