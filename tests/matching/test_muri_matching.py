import numpy as np
import pytest
from profiles import seeds

from hivecore.matching import max_weight_matching
from hivecore.reference.matching import brute_force
from hivecore.reference.muri_matching import muri_matching


def weight(weights, mate):
    return sum(weights[u][v] for u, v in enumerate(mate) if u < v)


@pytest.mark.parametrize("weights", [[], [[0.0]], [[0.0, 0.0], [0.0, 0.0]]])
def test_without_edges_nothing_is_matched(weights):
    assert muri_matching(weights) == [-1] * len(weights)


def test_among_equal_weights_the_choice_is_that_of_the_search():
    assert muri_matching(np.ones((4, 4)).tolist()) == [1, 0, 3, 2]
    assert muri_matching(np.ones((5, 5)).tolist()) == [1, 0, 3, 2, -1]


@pytest.mark.parametrize("seed", seeds(200))
def test_small_matchings_are_the_heaviest(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 11))
    upper = np.triu(random.integers(1, 6, (n, n)), 1)
    weights = (upper + upper.T).tolist()
    mate = muri_matching(weights)
    assert all(mate[v] == u for u, v in enumerate(mate) if v >= 0)
    edges = [(u, v) for u in range(n) for v in range(u)]
    assert weight(weights, mate) == max(brute_force(n, edges, [weights[u][v] for u, v in edges]))


@pytest.mark.parametrize("seed", seeds(10))
def test_efficiencies_of_a_few_kinds_are_matched_as_heavily_as_by_the_kernel(seed):
    random = np.random.default_rng(seed)
    kinds = random.uniform(0.25, 1.0, (8, 8))
    kind = random.integers(0, 8, 40)
    weights = np.triu((kinds + kinds.T)[kind[:, None], kind], 1)
    weights += weights.T
    mate = muri_matching(weights.tolist())
    assert weight(weights, mate) == pytest.approx(max_weight_matching(weights).weight, rel=1e-5)
