"""Time limits, threads, earlier results and missing proofs: none of them costs the right answer."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from matching.test_twin import FLOATS, INTEGERS, dense, graphs, lightest
from profiles import examples

from hivecore import _matching
from hivecore.errors import CertificateError
from hivecore.matching import max_weight_matching, min_weight_matching
from hivecore.reference.matching import brute_force

NO_TIME = 1e-9
PAIRS_OF_4 = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]
#: 1.0 is beyond all floats in units of the least weight.
TINY_BESIDE_1 = (4, PAIRS_OF_4, [0.0, 0.0, 0.0, 0.0, 2.225073858507e-311, 1.0])


def same(item, other):
    """Whether two results are equal to the last bit."""
    return (
        np.array_equal(item.pairs, other.pairs)
        and (item.weight, item.exact, item.gap_bound)
        == (other.weight, other.exact, other.gap_bound)
        and all(
            np.array_equal(getattr(item.certificate, name), getattr(other.certificate, name))
            for name in ("duals", "innermost", "parents", "blossom_duals")
        )
    )


def true_weight(graph, result, pick=max):
    _, edges, weights = graph
    value = {}
    for (u, v), w in zip(edges, map(Fraction, weights), strict=True):
        pair = min(u, v), max(u, v)
        value[pair] = pick(w, value.get(pair, w))
    return sum(value[pair] for pair in map(tuple, result.pairs.tolist()))


# --- time


@given(graphs(st.one_of(INTEGERS, FLOATS)))
@examples(300)
def test_without_time_the_bound_holds(graph):
    n, edges, weights = graph
    best = max(brute_force(n, edges, [Fraction(w) for w in weights]))
    for form in (graph, dense(graph)):
        matching = max_weight_matching(form, time_limit=NO_TIME)
        assert matching.verify()
        assert matching.exact == (matching.gap_bound == 0.0)
        assert true_weight(graph, matching) + Fraction(matching.gap_bound) >= best
        if matching.exact:
            assert true_weight(graph, matching) == best


@example(TINY_BESIDE_1)
@given(graphs(st.one_of(INTEGERS, FLOATS)))
@examples(200)
def test_without_time_nothing_is_claimed_of_matchings_of_most_edges(graph):
    n, edges, weights = graph
    exact = n, edges, [Fraction(w) for w in weights]
    for solve, best in (
        (min_weight_matching, lightest(exact)),
        (lambda g, **kw: max_weight_matching(g, max_cardinality=True, **kw), brute_force(*exact)),
    ):
        pick = min if solve is min_weight_matching else max
        for form in (graph, dense(graph, pick)):
            matching = solve(form, time_limit=NO_TIME)
            assert matching.verify()
            if math.isfinite(matching.gap_bound):
                assert matching.cardinality == len(best) - 1
                difference = abs(true_weight(graph, matching, pick) - best[-1])
                assert difference <= Fraction(matching.gap_bound)
            else:
                assert not matching.exact


@given(graphs())
@examples(100)
def test_time_enough_changes_nothing(graph):
    for form in (graph, dense(graph)):
        assert same(max_weight_matching(form), max_weight_matching(form, time_limit=1000))
        assert same(min_weight_matching(form), min_weight_matching(form, time_limit=1e300))


@given(graphs(vertices=12))
@examples(100)
def test_without_time_a_perfect_matching_is_found_or_not(graph):
    for form in (graph, dense(graph)):
        try:
            matching = max_weight_matching(form, perfect=True, time_limit=NO_TIME)
        except (TimeoutError, ValueError) as error:
            most = len(brute_force(*graph)) - 1
            assert isinstance(error, TimeoutError) or 2 * most < graph[0]
        else:
            assert 2 * matching.cardinality == graph[0]
            assert matching.verify()


@given(graphs(vertices=9), st.data())
@examples(300)
def test_a_bound_with_one_number_changed_is_not_proven(graph, data):
    matching = max_weight_matching(graph, time_limit=NO_TIME)
    assume(len(matching.certificate.duals))
    duals = matching.certificate.duals.copy()
    duals[data.draw(st.integers(0, len(duals) - 1))] += data.draw(st.sampled_from([-2, -1, 1, 2]))
    wrong = replace(matching, certificate=replace(matching.certificate, duals=duals))
    with pytest.raises(CertificateError):
        wrong.verify()
    claimed = data.draw(
        st.sampled_from([0.0, matching.gap_bound / 2, matching.gap_bound + 1, math.inf])
    )
    assume(claimed != matching.gap_bound)
    for exact in (True, False):
        with pytest.raises(CertificateError):
            replace(matching, gap_bound=claimed, exact=exact).verify()
    with pytest.raises(CertificateError):
        replace(matching, exact=not matching.exact).verify()


# --- earlier results


@given(graphs(st.one_of(INTEGERS, FLOATS)), st.data())
@examples(300)
def test_any_earlier_result_will_do(graph, data):
    n, edges, weights = graph
    kind = data.draw(st.sampled_from(["same", "other weights", "other graph"]))
    if kind == "same":
        earlier = graph
    elif kind == "other weights":
        other = st.one_of(st.sampled_from(weights), st.integers(-50, 50)) if weights else st.none()
        new = [data.draw(other) for _ in weights]
        earlier = n, edges, new
    else:
        earlier = data.draw(graphs(st.one_of(INTEGERS, FLOATS)).filter(lambda g: g[0] == n))
    solves = [
        max_weight_matching,
        lambda g, **kw: max_weight_matching(g, max_cardinality=True, **kw),
        min_weight_matching,
    ]
    time_limit = data.draw(st.sampled_from([None, NO_TIME]))
    first = data.draw(st.sampled_from(solves))(earlier, time_limit=time_limit)
    for solve in solves:
        pick = min if solve is min_weight_matching else max
        for form in (graph, dense(graph, pick)):
            scratch, matching = solve(form), solve(form, initial=first)
            assert matching.verify()
            assert (matching.exact, matching.gap_bound) == (scratch.exact, scratch.gap_bound)
            assert (
                matching.cardinality == scratch.cardinality
                or not solve(form).certificate.most_edges
            )
            if matching.exact:
                assert true_weight(graph, matching, pick) == true_weight(graph, scratch, pick)
            assert same(matching, solve(form, initial=first))


NUMBERS = st.sampled_from([-(2**63), -1, 0, 1, 7, 2**20, 2**59, 2**60, 2**63 - 1])


@given(graphs(vertices=8), st.data())
@examples(300)
def test_any_numbers_are_a_beginning(graph, data):
    n, edges, weights = graph
    duals = np.array(data.draw(st.lists(NUMBERS, min_size=n, max_size=n)), dtype=np.int64)
    vertex = st.integers(-1, n - 1)
    mate = np.array(data.draw(st.lists(vertex, min_size=n, max_size=n)), dtype=np.int64)
    rows = _matching.rows(n, *np.array(edges, dtype=np.int64).reshape(-1, 2).T, np.array(weights))
    offsets, neighbours, chosen = rows[3:]
    values = np.array(weights, dtype=np.int64)[chosen]
    array = np.full((n, n), -1, dtype=np.int64)
    array[np.repeat(np.arange(n), np.diff(offsets)), neighbours] = values
    best = max(brute_force(*graph))
    heaviest = int(array.max(initial=0))
    for solution in (
        _matching.solve_sparse(n, offsets, neighbours, values, duals, mate),
        _matching.solve_dense(array, heaviest=heaviest, duals=duals, mate=mate),
        _matching.solve_dense(array, duals=duals, mate=mate),  # in lanes of 64 bits
    ):
        mate_found, duals_found, innermost, parents, blossom_duals = solution
        u = np.flatnonzero(mate_found > np.arange(n))
        assert sum(array[u, mate_found[u]].tolist()) == best
        sizes = [0] * len(parents)
        for at in innermost.tolist():
            while at >= 0:
                sizes[at] += 1
                at = parents[at]
        inside = sum(z * (s // 2) for z, s in zip(blossom_duals.tolist(), sizes, strict=True))
        assert sum(duals_found.tolist()) + inside == 2 * best


# --- threads


def many_parts(rng, sizes, density):
    """Random components of these sizes, their vertices mixed."""
    ends, first = [], 0
    for size in sizes:
        chain = np.arange(first, first + size - 1)
        more = rng.integers(first, first + size, (int(density * size), 2))
        ends += [np.stack([chain, chain + 1], axis=1), more[more[:, 0] != more[:, 1]]]
        first += size
    order = rng.permutation(first)
    edges = order[np.concatenate(ends)]
    return first, edges, rng.integers(1, 50, len(edges))


@pytest.mark.parametrize(
    "sizes",
    [[4000] * 6, [9000, 3, 9000, 1, 5000, *[7] * 900], [3] * 9000, [1] * 5000 + [8000] * 2],
    ids=["equal", "mixed", "small", "lonely"],
)
def test_the_number_of_threads_changes_nothing(sizes):
    graph = many_parts(np.random.default_rng(len(sizes)), sizes, 3)
    for solve in (max_weight_matching, min_weight_matching):
        first = solve(graph)
        assert first.verify()
        n, edges, weights = graph
        similar = n, edges, np.where(np.arange(len(weights)) % 97 == 0, 60, weights)
        for threads in (2, 3, 1000):
            assert same(solve(graph, threads=threads), first)
            warm = solve(similar, threads=threads, initial=first)
            assert same(warm, solve(similar, initial=first))
            assert warm.verify()
            assert warm.weight == solve(similar).weight
            late = solve(graph, threads=threads, time_limit=NO_TIME)
            assert late.verify()
