"""Graphs whose structure is the difficulty: blossoms in blossoms, and a very long path."""

from itertools import pairwise

import numpy as np
import pytest
from profiles import seeds

from hivecore.matching import max_weight_matching
from hivecore.reference.matching import max_weight_matching as twin


def rings_in_rings(rng, depth, leaves):
    """A ring of three or five members, each such a ring again, of heavier edges the deeper inside.

    The inner rings become blossoms in blossoms. Leaves hang on some vertices by light edges: to
    match one of them, a blossom must let its vertex go, and is taken apart on the way.
    """
    edges = []

    def ring(first, depth):
        if depth == 0:
            return first + 1
        ends = [first]
        for _ in range(rng.choice([3, 5])):
            ends.append(ring(ends[-1], depth - 1))
        members = list(pairwise(ends))
        for member, other in zip(members, members[1:] + members[:1], strict=True):
            weight = 20 * (height - depth + 1) + rng.integers(3)
            edges.append((rng.integers(*member), rng.integers(*other), weight))
        return ends[-1]

    height = depth
    n = ring(0, depth)
    held = rng.choice(n, min(leaves, n), replace=False)
    edges += [(v, n + i, rng.integers(1, 20)) for i, v in enumerate(held)]
    return n + len(held), np.array(edges)


@pytest.mark.parametrize("leaves", [1, 3, 9, 27])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_blossoms_in_blossoms_are_made_and_taken_apart(depth, leaves):
    for seed in seeds(10):
        n, edges = rings_in_rings(np.random.default_rng([depth, leaves, seed]), depth, leaves)
        ends, weights = edges[:, :2], edges[:, 2]
        for offset in (0, 10**6):
            pairs, values = list(map(tuple, ends.tolist())), (weights + offset).tolist()
            best = twin(n, pairs, values)
            total = sum(w for (u, v), w in zip(pairs, values, strict=True) if best.mate[u] == v)
            matching = max_weight_matching((n, ends, weights + offset))
            assert matching.weight == total
            assert matching.verify()
        array = np.full((n, n), np.nan)
        array[*ends.T] = array[*ends.T[::-1]] = weights
        most = max_weight_matching(array, max_cardinality=True)
        assert most.weight == total - offset * most.cardinality
        assert most.verify()


def nested(blossoms):
    """How many of them lie one in the other at most."""
    sets = [set(blossom.tolist()) for blossom in blossoms]
    return max((sum(inner <= outer for outer in sets) for inner in sets), default=0)


def test_the_rings_do_need_nested_blossoms():
    n, edges = rings_in_rings(np.random.default_rng(0), 4, 1)
    matching = max_weight_matching((n, edges[:, :2], edges[:, 2]))
    assert matching.verify()
    assert nested(matching.certificate.blossoms) >= 2


def test_a_path_of_a_million_vertices():
    n = 10**6
    weights = np.random.default_rng(1).integers(1, 2**26, n - 1)
    without, with_last = 0, 0  # the heaviest matching of the vertices so far
    for weight in weights.tolist():
        without, with_last = with_last, max(with_last, without + weight)
    matching = max_weight_matching(
        (n, np.column_stack([np.arange(n - 1), np.arange(1, n)]), weights)
    )
    assert matching.weight == with_last
    assert matching.verify()
