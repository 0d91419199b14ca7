"""Matchings of graphs too large for brute force == twin, networkx, rustworkx.

On two graphs of each family and size; on more by `make fuzz`.
"""

from itertools import product

import numpy as np
import pytest
from profiles import seeds

from hivecore.matching import max_weight_matching, min_weight_matching
from hivecore.reference.matching import max_weight_matching as twin

SEEDS = seeds(2)


def points(rng, n):
    where = rng.integers(0, 1000, (n, 2))
    return 3000 - np.abs(where[:, None] - where[None, :]).sum(axis=2)


def noise(rng, n):
    half = np.triu(rng.integers(-50, 10**6, (n, n)), 1)
    return half + half.T


def ties(rng, n):
    kinds = rng.integers(0, 5, n)
    return noise(rng, 5)[np.ix_(kinds, kinds)] % 7 + 1


def holes(rng, n):
    absent = np.triu(rng.random((n, n)) < 0.9, 1)
    return np.where(absent | absent.T, np.nan, noise(rng, n))


def sparse(rng, n):
    absent = np.triu(rng.random((n, n)) < 1 - 5 / n, 1)
    return np.where(absent | absent.T, np.nan, points(rng, n) - 1000)


def edge_list(weights):
    u, v = np.nonzero(np.triu(~np.isnan(weights), 1))
    return len(weights), np.stack([u, v], axis=1), weights[u, v].astype(int)


def rows(weights):
    _, ends, values = edge_list(weights)
    return list(zip(*ends.T.tolist(), values.tolist(), strict=True))


def each(family, n):
    for seed in SEEDS:
        yield family(np.random.default_rng([n, seed]), n).astype(float)
    print(f"{len(SEEDS):7,} graphs {family.__name__}, n {n}")


FAMILIES = [points, noise, ties, holes, sparse]


@pytest.mark.parametrize(("family", "n"), [*product(FAMILIES, [2, 17, 40, 75])])
def test_the_twin_agrees(family, n):
    for weights in each(family, n):
        _, ends, values = edge_list(weights)
        best = twin(n, list(map(tuple, ends.tolist())), values.tolist())
        total = sum(weights[a, b] for a, b in enumerate(best.mate) if b > a)
        for graph in (weights, edge_list(weights)):
            for matching in (max_weight_matching(graph), min_weight_matching(graph)):
                assert matching.verify()
                assert matching.exact
            assert max_weight_matching(graph).weight == total


@pytest.mark.parametrize(("family", "n"), [*product(FAMILIES, [12, 31, 50]), (sparse, 200)])
def test_networkx_agrees(family, n):
    nx = pytest.importorskip("networkx")
    for weights in each(family, n):
        graph = nx.Graph()
        graph.add_nodes_from(range(n))
        graph.add_weighted_edges_from(rows(weights))
        for solve, theirs, options in (
            (max_weight_matching, nx.max_weight_matching(graph), {}),
            (max_weight_matching, nx.max_weight_matching(graph, True), {"max_cardinality": True}),
            (min_weight_matching, nx.min_weight_matching(graph), {}),
        ):
            for form in (weights, edge_list(weights)):
                ours = solve(form, **options)
                assert ours.weight == sum(weights[pair] for pair in theirs)
                assert ours.verify()


@pytest.mark.parametrize(("family", "n"), [*product(FAMILIES, [12, 31, 100, 200])])
def test_rustworkx_agrees(family, n):
    rx = pytest.importorskip("rustworkx")
    for weights in each(family, n):
        graph = rx.PyGraph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from(rows(weights))
        for most in (False, True):
            theirs = rx.max_weight_matching(graph, max_cardinality=most, weight_fn=int)
            for form in (weights, edge_list(weights)):
                ours = max_weight_matching(form, max_cardinality=most)
                assert ours.weight == sum(weights[pair] for pair in theirs)
                assert ours.verify()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_order_of_the_vertices_does_not_matter(family):
    rng = np.random.default_rng(3)
    weights = family(rng, 300).astype(float)
    matching = max_weight_matching(weights)
    for _ in range(3):
        order = rng.permutation(300)
        again = max_weight_matching(weights[np.ix_(order, order)])
        assert again.weight == matching.weight
        assert again.verify()
