"""Matchings == brute force on 3,000 small graphs; on 100,000 by `make fuzz`."""

import numpy as np
import pytest
from profiles import times

from hivecore.matching import max_weight_matching, min_weight_matching

COUNT = times(3000)
SIZES = range(3, 13)
AN_EDGE = 2**56  # outweighs every matching of at most 6 edges of at most 2**52
NO_EDGE = -(2**62)

WEIGHTS = {
    "ties": (1, 3),
    "zeros": (-1, 1),
    "negative": (-20, -1),
    "mixed": (-20, 100),
    "wide": (-(2**52), 2**52),
    "floats": (-(2**40), 2**40),
}
GRID = 2.0**-45  # of the floats


def disconnected(rng, count, n):
    part = rng.integers(0, 3, (count, n))
    return part[:, :, None] == part[:, None, :]


SHAPES = {
    "complete": lambda rng, count, n: np.ones((count, n, n), dtype=bool),
    "dense": lambda rng, count, n: rng.random((count, n, n)) < 0.6,
    "sparse": lambda rng, count, n: rng.random((count, n, n)) < 0.25,
    "disconnected": disconnected,
}


def heaviest(values):
    """The weight of the heaviest matching of each graph; values[i, u, v] with u < v are weights.

    best[s] is that of the vertices in the bit set s: the last one of them, v, is free or matched.
    """
    count, n, _ = values.shape
    best = np.zeros((2**n, count), dtype=np.int64)
    for v in range(n):
        rest = np.arange(2**v)
        with_v = best[2**v : 2 ** (v + 1)]
        with_v[:] = best[rest]
        for u in range(v):
            has_u = rest[rest >> u & 1 == 1]
            matched = best[has_u ^ (1 << u)] + values[:, u, v]
            with_v[has_u] = np.maximum(with_v[has_u], matched)
    return best[-1]


def heaviest_of_most_edges(weights, present):
    total = heaviest(np.where(present, weights + AN_EDGE, NO_EDGE))
    cardinality = (total + AN_EDGE // 2) // AN_EDGE
    return cardinality, total - cardinality * AN_EDGE


def forms(weights, present, grid):
    """One graph as an array and as a list of edges, in multiples of the grid."""
    u, v = np.nonzero(np.triu(present, 1))
    array = weights * grid
    if len(u) < len(weights) * (len(weights) - 1) // 2:
        array = np.full(weights.shape, np.nan)
        array[u, v] = weights[u, v] * grid
    upper = np.triu(array, 1)
    return upper + upper.T, (len(weights), np.stack([u, v], axis=1), weights[u, v] * grid)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", WEIGHTS)
def test_small_graphs_match_brute_force(kind, shape):
    per_size = -(-COUNT // (len(SIZES) * len(WEIGHTS) * len(SHAPES)))
    low, high = WEIGHTS[kind]
    grid = GRID if kind == "floats" else 1
    for n in SIZES:
        rng = np.random.default_rng([n, *f"{kind} {shape}".encode()])
        weights = rng.integers(low, high, (per_size, n, n), endpoint=True)
        present = SHAPES[shape](rng, per_size, n)
        most = heaviest(np.where(present, weights, NO_EDGE)).tolist()
        edges, most_of_edges = heaviest_of_most_edges(weights, present)
        _, negated_least = heaviest_of_most_edges(-weights, present)
        for i in range(per_size):
            for graph in forms(weights[i], present[i], grid):
                for matching, weight in (
                    (max_weight_matching(graph), most[i]),
                    (max_weight_matching(graph, max_cardinality=True), int(most_of_edges[i])),
                    (min_weight_matching(graph), -int(negated_least[i])),
                ):
                    assert matching.weight == type(matching.weight)(weight * grid)
                    assert matching.exact
                    assert matching.verify()
                assert matching.cardinality == edges[i]
    print(f"{per_size * len(SIZES):7,} graphs {shape}, {kind}: 6 matchings each")
