"""Weights of very different sizes: what is forbidden by a huge weight costs no precision."""

import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hivecore.errors import CertificateError, InexactWarning
from hivecore.interop import networkx as backend
from hivecore.matching import Matcher, max_weight_matching, min_weight_matching
from hivecore.reference.matching import brute_force

HUGE = [1e3, 1e9, 1e16, 1e17, 1e18, 1e30, 1e100, 1e300]
MODES = ["max", "max_cardinality", "min"]


def forbidding(n, huge, seed, *, density=1.0, share=0.1):
    """Edges of weight 0 to 1, some of which are forbidden: by one weight, or by several."""
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(n, 1)
    kept = rng.random(len(u)) < density
    edges, weights = np.stack((u, v), axis=1)[kept], rng.random(int(kept.sum()))
    forbidden = rng.random(len(weights)) < share
    weights[forbidden] = rng.choice(np.atleast_1d(huge), int(forbidden.sum()))
    return edges, weights, forbidden


def solve(graph, mode):
    if mode == "min":
        return min_weight_matching(graph)
    return max_weight_matching(graph, max_cardinality=mode == "max_cardinality")


def signed(weights, forbidden, mode):
    """What is forbidden is so in the sense of the mode."""
    return weights if mode == "min" else np.where(forbidden, -weights, weights)


def forms(n, edges, weights):
    """The same graph as an edge list and as an array."""
    array = np.full((n, n), np.nan)
    array[tuple(edges.T)] = array[tuple(edges.T[::-1])] = weights
    return (n, edges, weights), array


def exact_weight(result, edges, weights):
    value = {tuple(edge): Fraction(w) for edge, w in zip(edges.tolist(), weights, strict=True)}
    return sum((value[pair] for pair in map(tuple, result.pairs.tolist())), Fraction(0))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("huge", [*HUGE, HUGE, [1e17, 1.2345e17, 3e18]], ids=str)
def test_a_forbidden_edge_costs_no_precision_on_small_graphs(huge, mode):
    for seed in range(12):
        n, density = 5 + seed % 6, (0.3, 0.6, 1.0)[seed % 3]
        share = (0.1, 0.5)[seed % 2]  # with so many, some have to be used
        edges, weights, forbidden = forbidding(n, huge, seed, density=density, share=share)
        weights = signed(weights, forbidden, mode)
        sense = -1 if mode == "min" else 1
        bests = brute_force(n, edges.tolist(), [sense * Fraction(w) for w in weights.tolist()])
        for graph in forms(n, edges, weights):
            matching = solve(graph, mode)
            got = sense * exact_weight(matching, edges, weights.tolist())
            assert got == (max(bests) if mode == "max" else bests[-1])
            assert mode == "max" or matching.cardinality == len(bests) - 1
            assert matching.exact
            assert matching.verify()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("density", [0.08, 1.0])
def test_a_forbidden_edge_costs_no_precision_on_larger_graphs(density, mode):
    nx = pytest.importorskip("networkx")
    n = 50
    for seed, huge in enumerate([1e3, 1e17, 1e30, 1e300, HUGE]):
        edges, weights, forbidden = forbidding(n, huge, seed, density=density)
        weights = signed(weights, forbidden, mode)
        exact = nx.Graph()  # with integers networkx counts exactly
        exact.add_weighted_edges_from(
            (u, v, int(Fraction(w) * 2**1074))
            for (u, v), w in zip(edges.tolist(), weights.tolist(), strict=True)
        )
        if mode == "min":
            theirs = nx.min_weight_matching(exact, backend="networkx")
        else:
            theirs = nx.max_weight_matching(exact, mode == "max_cardinality", backend="networkx")
        best = sum(Fraction(exact.edges[pair]["weight"], 2**1074) for pair in theirs)
        for graph in forms(n, edges, weights):
            matching = solve(graph, mode)
            assert exact_weight(matching, edges, weights.tolist()) == best
            assert matching.exact
            assert matching.verify()
            assert mode == "max" or matching.cardinality == len(theirs)


def test_networkx_gets_what_it_would_find_itself():
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_weighted_edges_from([(0, 1, 0.9), (2, 3, 0.3), (0, 3, -1e30)])
    matching = {frozenset(pair) for pair in backend.max_weight_matching(graph)}
    assert matching == {frozenset((0, 1)), frozenset((2, 3))}


def test_a_matcher_does_not_lose_precision_to_a_forbidden_edge_either():
    edges, weights, forbidden = forbidding(30, 1e30, 0)
    weights = signed(weights, forbidden, "max")
    array = forms(30, edges, weights)[1]
    matcher = Matcher(array)
    assert matcher.solve().exact
    assert matcher.solve().weight == max_weight_matching(array).weight
    array[3] = array[:, 3] = np.where(np.arange(30) % 3, 0.7, -1e200)
    array[3, 3] = np.nan
    matcher.set_vertex(3, array[3])
    matching = matcher.solve()
    assert matching.exact
    assert matching.verify()
    assert matching.weight == max_weight_matching(array).weight


def test_distances_are_exact():
    points = np.random.default_rng(0).random((120, 2))
    distances = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    for mode in MODES:
        matching = solve(distances, mode)
        assert matching.exact
        assert matching.verify()


# --- rounding


def many_edges(n=140_000):
    """A path with weights of more bits than fit."""
    ends = np.arange(n - 1)
    weights = np.random.default_rng(0).random(n - 1) ** 3
    return n, np.stack((ends, ends + 1), axis=1), weights


def test_rounding_is_warned_of_and_costs_no_more_than_adding_floats():
    n, edges, weights = many_edges()
    with pytest.warns(InexactWarning, match="the best matching may be better by up to"):
        matching = max_weight_matching((n, edges, weights))
    assert not matching.exact
    assert 0 < matching.gap_bound <= n / 2 * 2.0**-53 * weights.max()
    assert matching.verify()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InexactWarning)
        assert max_weight_matching((n, edges, weights)).weight == matching.weight


def test_a_complete_graph_is_rounded_only_where_floats_cannot_tell(monkeypatch):
    monkeypatch.setattr("hivecore.matching.solve._MANY_EDGES", 0)
    points = np.random.default_rng(0).random((60, 2))
    distances = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    with pytest.warns(InexactWarning):
        rounded = min_weight_matching(distances)
    assert rounded.verify()
    assert 0 < rounded.gap_bound <= 30 * 2.0**-53 * distances.max()
    edges, weights, _ = forbidding(60, 1e3, 1)
    assert min_weight_matching(forms(60, edges, weights)[1]).exact


# --- what proves it


def test_the_proof_of_forbidden_edges_cannot_be_forged():
    array = np.array([[0, 1, 1e30, 5], [1, 0, 3, 1e30], [1e30, 3, 0, 2], [5, 1e30, 2, 0]]) * 0.7
    matching = min_weight_matching(array)
    assert matching.pairs.tolist() == [[0, 1], [2, 3]]
    assert matching.verify()
    assert matching.certificate.floor < 0
    mate, pairs = np.array([2, 3, 0, 1]), np.array([[0, 2], [1, 3]])
    for wrong in (
        replace(matching, mate=mate, pairs=pairs),  # the forbidden edges
        replace(matching, mate=mate, pairs=pairs, weight=1.4e30),
        replace(matching, certificate=replace(matching.certificate, floor=None)),
        replace(matching, certificate=replace(matching.certificate, floor=-(2**70))),
    ):
        with pytest.raises(CertificateError):
            wrong.verify()


@pytest.mark.parametrize("worst", [-(2**59), 1 - 2**59, -(2**58) - 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_below_the_floor_are_proved_as_floats_are(worst, sign):
    for n, rest in ((3, [5, 5]), (4, [2**58 - 1, 5, 2**58 - 1, -(2**58) - 1, 7])):
        weights = sign * np.array([worst, *rest])
        graph = n, list(zip(*np.triu_indices(n, 1), strict=True)), weights
        matching = solve(graph, "max_cardinality" if sign > 0 else "min")
        assert matching.exact
        assert matching.verify()


def test_duals_wider_than_64_bits_are_checked_like_others():
    edges, weights, forbidden = forbidding(12, 1e30, 3, density=0.4, share=0.6)
    matching = solve((12, edges, signed(weights, forbidden, "max")), "max_cardinality")
    proof = matching.certificate
    assert proof.duals.dtype == object
    assert {type(dual) for dual in proof.duals.tolist()} == {int}
    for change in (-1, 1, 2**100, -(2**100), 0.5, None):
        duals = proof.duals.copy()
        duals[4] = None if change is None else duals[4] + change
        with pytest.raises(CertificateError):
            replace(matching, certificate=replace(proof, duals=duals)).verify()
    with pytest.raises(CertificateError):
        replace(matching, certificate=replace(proof, exponent=proof.exponent + 1)).verify()


# --- integers of certificates are Python's


def witness_graphs():
    rng = np.random.default_rng(5)
    u, v = np.triu_indices(100, 1)
    tenth = rng.random(len(u)) < 0.1
    i = np.arange(30)
    ends = rng.integers(0, 90, 90)
    other = (ends + rng.integers(1, 90, 90)) % 90
    return {
        "pairs": (70, np.stack((2 * i, 2 * i + 1), axis=1), np.linspace(0.1, 1, 30)),
        "as many edges as vertices": (90, np.stack((ends, other), axis=1), rng.random(90)),
        "bipartite": (
            70,
            np.stack(np.meshgrid(np.arange(30), np.arange(30, 70)), axis=-1).reshape(-1, 2),
            rng.random(1200),
        ),
        "a tenth": (100, np.stack((u, v), axis=1)[tenth], rng.random(int(tenth.sum()))),
    }


@pytest.mark.parametrize("name", witness_graphs())
def test_that_no_matching_has_more_edges_is_proved_in_whole_numbers(name):
    n, edges, weights = witness_graphs()[name]
    for mode in MODES:
        for scale in (1.0, 2.0**-40, 1e6):
            matching = solve((n, edges, weights * scale), mode)
            assert matching.exact
            assert matching.verify()
