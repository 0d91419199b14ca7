"""Graphs large enough for what small ones never reach; the certificates are the judges."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from hivecore.matching import max_weight_matching


@pytest.mark.parametrize("seed", range(4))
def test_a_core_that_lacks_edges(seed):
    """Vertices of kind a want one of the few of kind h; what else they have comes in second."""
    rng = np.random.default_rng(seed)
    n, a, h = 1500, 34 + 6 * (seed % 2), 30
    weights = rng.integers(0, 10**4, (n, n))
    weights[:a, :a] = 0
    weights[:a, a : a + h] = 10**4 + rng.integers(0, 10**4, (a, h))
    rest = np.zeros((a, n - a - h), dtype=np.int64)
    for v in range(a):
        some = rng.choice(n - a - h, 3, replace=False)
        rest[v, some] = 9000 + rng.integers(0, 1000, 3)
    weights[:a, a + h :] = rest
    weights = np.triu(weights, 1)
    weights += weights.T
    order = rng.permutation(n)
    matching = max_weight_matching(weights[np.ix_(order, order)])
    assert matching.verify()
    assert matching.weight == max_weight_matching(weights).weight


def test_many_blossoms_in_a_large_sparse_graph():
    rng = np.random.default_rng(1)
    points = rng.random((20_000, 2))
    _, near = cKDTree(points).query(points, 7)
    ends = np.column_stack([np.repeat(np.arange(len(points)), 6), near[:, 1:].ravel()])
    lengths = np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
    matching = max_weight_matching((len(points), ends, 1 - lengths))
    assert len(matching.certificate.parents) > 100
    assert matching.verify()


@pytest.mark.filterwarnings("ignore::hivecore.errors.InexactWarning")
@pytest.mark.parametrize("n", [301, 900])
def test_dense_weights_of_every_kind(n):
    rng = np.random.default_rng(n)
    points = rng.random((n, 3))
    kinds = {
        "uniform": rng.random((n, n)),
        "equal": np.ones((n, n)),
        "sums": np.add.outer(points[:, 0], points[:, 0]),
        "products": np.multiply.outer(points[:, 0], points[:, 0]),
        "far": np.abs(points[:, None] - points[None]).sum(axis=2),
        "near": 3 - np.abs(points[:, None] - points[None]).sum(axis=2),
        "wide": rng.integers(0, 2**59, (n, n)),
        "holes": np.where(rng.random((n, n)) < 0.9, np.nan, 1.0),
    }
    for weights in kinds.values():
        symmetric = np.where(np.arange(n)[:, None] < np.arange(n), weights, weights.T)
        assert max_weight_matching(symmetric).verify()
