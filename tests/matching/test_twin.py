"""Matchings == brute force, twin and peers; every one proven by its own certificate."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from profiles import examples

from hivecore.errors import CertificateError, NoPerfectMatchingError
from hivecore.matching import max_weight_matching, min_weight_matching
from hivecore.reference.matching import brute_force
from hivecore.reference.matching import max_weight_matching as twin

INTEGERS = st.sampled_from(
    [
        st.integers(0, 1),
        st.integers(1, 3),
        st.integers(-4, 4),
        st.integers(-100, 10_000),
        st.integers(-(2**40), 2**40),
        st.integers(-(2**52), 2**52),
        st.sampled_from([-(2**52), 0, 1, 2**52 - 1, 2**52]),
    ]
)
FLOATS = st.sampled_from(
    [
        st.floats(0, 1),
        st.floats(0, 1, width=32),
        st.floats(-1e300, 1e300),
        st.floats(-17, 0).map(lambda decades: 10.0**decades),
        st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True),
        st.sampled_from([0.1, 0.2, 0.3, 0.1 + 0.2, 1 / 3]),
        st.integers(-1000, 1000).map(lambda i: i / 7),
    ]
)


@st.composite
def graphs(draw, weights=INTEGERS, vertices=10):
    """An edge list, with parallel edges now and then, sparse to complete, often disconnected."""
    n = draw(st.integers(0, vertices))
    pairs = [(u, v) for v in range(n) for u in range(v)]
    kind = draw(st.sampled_from(["some", "some", "all", "parts"])) if n > 1 else "none"
    if kind == "some":
        edges = draw(st.lists(st.sampled_from(pairs), max_size=3 * n))
    elif kind == "all":
        edges = pairs
    else:
        edges = [(u, v) for u, v in pairs if u // 3 == v // 3]
    edges = [edge[::-1] if draw(st.booleans()) else edge for edge in edges] if n < 5 else edges
    weight = draw(weights)
    return n, edges, draw(st.lists(weight, min_size=len(edges), max_size=len(edges)))


def lightest(graph):
    """Per number of edges, the least weight (parallel edges: the lightest)."""
    n, edges, weights = graph
    return [-best for best in brute_force(n, edges, [-w for w in weights])]


def dense(graph, best=max):
    """The same graph as an array of floats."""
    n, edges, weights = graph
    array = np.full((n, n), np.nan)
    for (u, v), w in zip(edges, weights, strict=True):
        w = w if np.isnan(array[u, v]) else best(w, array[u, v])
        array[u, v] = array[v, u] = w
    return array


@given(graphs())
@examples(300)
def test_the_twin_is_right(graph):
    result = twin(*graph)
    best = brute_force(*graph)
    assert sum(result.duals) + sum(
        z * (len(b) // 2) for b, z in zip(result.blossoms, result.blossom_duals, strict=True)
    ) == 2 * max(best)


@given(graphs())
@examples(300)
@example((2, [(0, 1), (1, 0)], [1, 2]))
def test_integers_match_brute_force_in_every_sense(graph):
    most = brute_force(*graph)
    for matching, weight in (
        (max_weight_matching(graph), max(most)),
        (max_weight_matching(graph, max_cardinality=True), most[-1]),
        (min_weight_matching(graph), lightest(graph)[-1]),
    ):
        assert matching.weight == weight
        assert isinstance(matching.weight, int)
        assert matching.exact
        assert matching.verify()
    assert matching.cardinality == len(most) - 1


@given(graphs(FLOATS))
@examples(300)
def test_floats_are_counted_exactly_however_many_bits_they_span(graph):
    n, edges, weights = graph
    fractions = [Fraction(w) for w in weights]
    most, least = brute_force(n, edges, fractions), lightest((n, edges, fractions))
    for solve, form, cardinality, best in (
        (max_weight_matching, graph, False, max(most)),
        (max_weight_matching, graph, True, most[-1]),
        (max_weight_matching, dense(graph), False, max(most)),
        (max_weight_matching, dense(graph), True, most[-1]),
        (min_weight_matching, graph, None, least[-1]),
        (min_weight_matching, dense(graph, min), None, least[-1]),
    ):
        matching = solve(form) if cardinality is None else solve(form, max_cardinality=cardinality)
        pick = min if cardinality is None else max
        value = {}
        for (u, v), w in zip(edges, fractions, strict=True):
            pair = min(u, v), max(u, v)
            value[pair] = pick(w, value.get(pair, w))
        got = sum(value[pair] for pair in map(tuple, matching.pairs.tolist()))
        assert got == best
        assert matching.exact
        assert cardinality is False or matching.cardinality == len(most) - 1
        if math.isfinite(matching.weight):
            assert matching.weight == pytest.approx(float(got), rel=1e-15, abs=0.0)
        assert matching.verify()


@given(graphs(vertices=12))
@examples(300)
def test_a_perfect_matching_is_found_or_disproved(graph):
    n, edges, _ = graph
    most = brute_force(*graph)
    for form in (graph, dense(graph)):
        if 2 * (len(most) - 1) == n:
            matching = max_weight_matching(form, perfect=True)
            assert matching.weight == type(matching.weight)(most[-1])
            assert matching.verify()
            continue
        with pytest.raises(NoPerfectMatchingError) as caught:
            max_weight_matching(form, perfect=True)
        removed, components = set(caught.value.removed), caught.value.odd_components
        assert len(components) > len(removed)
        place = {v: i for i, part in enumerate(components) for v in part}
        assert len(place) == sum(map(len, components))
        assert not removed & set(place)
        assert all(len(part) % 2 == 1 for part in components)
        for u, v in edges:  # no edge leads out of a component but into the set
            assert {u, v} & removed or place.get(u) == place.get(v)


@given(graphs(vertices=9), st.data())
@examples(300)
def test_a_certificate_with_one_number_changed_proves_nothing(graph, data):
    matching = max_weight_matching(graph)
    proof = matching.certificate
    assume(len(proof.duals))
    name = data.draw(st.sampled_from(["duals", "innermost", "parents", "blossom_duals"]))
    array = getattr(proof, name).copy()
    assume(len(array))
    at = data.draw(st.integers(0, len(array) - 1))
    array[at] += data.draw(st.sampled_from([-2, -1, 1, 2, 2**61, -(2**61)]))
    with pytest.raises(CertificateError):
        replace(matching, certificate=replace(proof, **{name: array})).verify()


@given(graphs(vertices=9), st.data())
@examples(200)
def test_a_worse_matching_is_not_proven(graph, data):
    matching = max_weight_matching(graph)
    assume(matching.cardinality)
    dropped = data.draw(st.integers(0, matching.cardinality - 1))
    mate, pairs = matching.mate.copy(), np.delete(matching.pairs, dropped, axis=0)
    mate[matching.pairs[dropped]] = -1
    with pytest.raises(CertificateError):
        replace(matching, mate=mate, pairs=pairs).verify()
    n, edges, weights = graph
    u, v = matching.pairs[dropped].tolist()
    kept = [{u, v} != set(edge) for edge in edges]
    other = max_weight_matching(
        (
            n,
            [e for e, k in zip(edges, kept, strict=True) if k],
            [w for w, k in zip(weights, kept, strict=True) if k],
        )
    )
    assert other.weight <= matching.weight
    if other.weight < matching.weight:
        with pytest.raises(CertificateError):
            replace(other, _graph=matching._graph).verify()
