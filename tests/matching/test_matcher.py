"""A matcher: what it takes, what it refuses without a change, and what it answers."""

import threading
from datetime import datetime_CAPI

import numpy as np
import pytest
import scipy.sparse as sp

from hivecore import _matching
from hivecore.errors import CertificateError
from hivecore.matching import Matcher, max_weight_matching

NAN, INF = np.nan, np.inf


def random_weights(n, rng, high=1000):
    weights = rng.integers(1, high, (n, n))
    return np.maximum(weights, weights.T)


def check(matcher, weights):
    """Against a solution from scratch; `weights` is the symmetric array, NaN or not."""
    matching = matcher.solve()
    assert matching.verify()
    assert matching.weight == max_weight_matching(weights).weight
    assert len(matching.mate) == matcher.n
    return matching


def test_an_empty_matcher_fills_up():
    matcher = Matcher(0)
    assert (matcher.n, matcher.solve().weight, matcher.solve().pairs.shape) == (0, 0.0, (0, 2))
    assert matcher.add_vertex([]) == 0
    assert matcher.add_vertex([2.5]) == 1
    assert matcher.add_vertex([4.0, NAN]) == 2
    assert matcher.solve().pairs.tolist() == [[0, 2]]
    assert matcher.add_vertex([1.0, 9.0, 1.0]) == 3
    assert matcher.solve().pairs.tolist() == [[0, 2], [1, 3]]
    assert matcher.solve().verify()
    assert matcher.vertices.tolist() == [0, 1, 2, 3]


def test_removed_vertices_are_free_and_their_numbers_are_used_again():
    rng = np.random.default_rng(0)
    weights = random_weights(9, rng).astype(float)
    matcher = Matcher(weights)
    for v in (3, 7, 1):
        matcher.remove_vertex(v)
    assert matcher.vertices.tolist() == [0, 2, 4, 5, 6, 8]
    gone = weights.copy()
    gone[[3, 7, 1]] = gone[:, [3, 7, 1]] = NAN
    result = check(matcher, gone)
    assert (result.mate[[3, 7, 1]] == -1).all()
    assert matcher.add_vertex(weights[1]) == 1
    gone[1, matcher.vertices] = gone[matcher.vertices, 1] = weights[1, matcher.vertices]
    check(matcher, gone)
    assert [matcher.add_vertex(np.zeros(9)) for _ in range(2)] == [3, 7]
    assert matcher.add_vertex(np.zeros(9)) == matcher.n - 1 == 9


def test_it_grows_far_beyond_its_first_size():
    rng = np.random.default_rng(1)
    weights = random_weights(90, rng)
    matcher = Matcher(weights[:3, :3])
    for v in range(3, 90):
        assert matcher.add_vertex(weights[v, :v]) == v
        if v % 10 == 0:
            check(matcher, weights[: v + 1, : v + 1])
    check(matcher, weights)


def test_an_edge_that_has_no_part_in_the_proof_changes_no_pair():
    matcher = Matcher(np.array([[0, 9, 1, 1], [9, 0, 1, 1], [1, 1, 0, 9], [1, 1, 9, 0]]))
    before = matcher.solve()
    matcher.set_edge(0, 2, 2)
    assert matcher.solve() is not before
    assert matcher.solve().mate.tolist() == before.mate.tolist()
    assert matcher.solve().verify()


def test_without_a_change_the_answer_is_the_same_object():
    matcher = Matcher(3)
    assert matcher.solve() is matcher.solve()


def test_an_answer_outdated_by_a_change_no_longer_verifies():
    matcher = Matcher(np.array([[0, 5, 4], [5, 0, 1], [4, 1, 0]]))
    matching = matcher.solve()
    assert matching.verify()
    matcher.set_edge(0, 2, 7)
    with pytest.raises(CertificateError):
        matching.verify()
    assert (matching.pairs.tolist(), matching.weight) == ([[0, 1]], 5)


@pytest.mark.parametrize("graph", ["array", "edges", "scipy"])
def test_graphs_of_every_form(graph):
    weights = np.array([[0, 3, 0], [3, 0, 4], [0, 4, 0]])
    forms = {
        "array": weights,
        "edges": (3, [(0, 1), (1, 2), (1, 0)], [3, 4, 2]),
        "scipy": sp.csr_array(weights),
    }
    matcher = Matcher(forms[graph])
    assert (matcher.solve().weight, type(matcher.solve().weight)) == (4, int)
    matcher.set_edge(0, 1, None)
    matcher.set_edge(1, 2, NAN)
    assert matcher.solve().cardinality == 0


# --- numbers


def test_integers_may_outgrow_32_bits():
    matcher = Matcher(np.array([[0, 5], [5, 0]]))
    matcher.solve()
    matcher.set_edge(0, 1, 2**59)
    assert (matcher.solve().weight, matcher.solve().exact) == (2**59, True)
    matcher.set_vertex(1, [-(2**59), 0])
    assert matcher.solve().weight == 0
    assert matcher.add_vertex([2**58, 7]) == 2
    assert matcher.solve().weight == 2**58
    assert matcher.solve().verify()


def test_floats_may_need_a_finer_grid_and_then_a_coarser_one():
    rng = np.random.default_rng(3)
    weights = random_weights(12, rng).astype(float)
    matcher = Matcher(weights)
    check(matcher, weights)
    for scale in (0.1, 2.0**-30, 1.0, 2.0**40, 1e-3, 3.0):
        v = int(rng.integers(12))
        row = rng.random(12) * scale
        weights[v] = weights[:, v] = row
        matcher.set_vertex(v, row)
        matching = matcher.solve()
        assert matching.verify()
        best = max_weight_matching(weights)
        assert abs(matching.weight - best.weight) <= matching.gap_bound + best.gap_bound
    assert not matching.exact
    assert matching.gap_bound > 0


def test_weights_above_zero_after_none():
    matcher = Matcher(np.zeros((4, 4)))
    assert matcher.solve().weight == 0.0
    matcher.set_vertex(2, [0.3, 0.1, NAN, 0.2])
    assert matcher.solve().weight == 0.3
    matcher.set_edge(0, 1, 1e-300)
    matching = matcher.solve()
    assert matching.verify()
    assert (matching.weight, matching.exact) == (0.3, False)


def test_full_floats_are_exact():
    rng = np.random.default_rng(4)
    weights = rng.uniform(0.5, 1, (30, 30))
    weights = np.maximum(weights, weights.T)
    matcher = Matcher(np.rint(weights))
    for v in range(30):
        weights[v] = weights[:, v] = row = rng.uniform(1 / 8, 1, 30)
        matcher.set_vertex(v, row)
    assert check(matcher, weights).exact


def test_halves_and_integers_become_floats_exactly():
    matcher = Matcher(2)
    matcher.set_vertex(0, np.array([0, 0.5], dtype=np.float16))
    assert matcher.solve().weight == 0.5
    matcher.set_vertex(0, np.array([0, 2**53], dtype=np.uint64))
    assert matcher.solve().weight == 2.0**53
    with pytest.raises(ValueError, match="row has an integer that is no float"):
        matcher.set_vertex(0, [0, 2**53 + 1])
    assert matcher.solve().weight == 2.0**53


# --- refusals


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda m: m.set_vertex(3, [1, 2, 3]), ValueError, "v=3: allowed are 0 to 2"),
        (lambda m: m.set_vertex(-1, [1, 2, 3]), ValueError, "v=-1"),
        (lambda m: m.set_vertex(2.0, [1, 2, 3]), TypeError, "v must be an integer"),
        (lambda m: m.set_vertex(1, [1, 2, 3]), ValueError, "v=1: has been removed"),
        (lambda m: m.remove_vertex(1), ValueError, "v=1: has been removed"),
        (lambda m: m.remove_vertex(9), ValueError, "v=9"),
        (lambda m: m.set_edge(0, 1, 3), ValueError, "v=1: has been removed"),
        (lambda m: m.set_edge(1, 0, 3), ValueError, "u=1: has been removed"),
        (lambda m: m.set_edge(0, 0, 3), ValueError, "loops are not allowed"),
        (lambda m: m.set_edge(0, 2, INF), (ValueError, TypeError), "infinite|integers"),
        (lambda m: m.set_edge(0, 2, [3]), TypeError, "weight must be one number"),
        (lambda m: m.set_edge(0, 2, "3"), TypeError, "weight must hold integers or floats"),
        (lambda m: m.set_edge(0, 2, 3j), TypeError, "weight must hold integers or floats"),
        (lambda m: m.set_vertex(0, [1, 2]), ValueError, r"row must have the shape \(3,\)"),
        (lambda m: m.set_vertex(0, [[1, 2, 3]]), ValueError, r"shape \(3,\), not \(1, 3\)"),
        (lambda m: m.set_vertex(0, ["a", "b", "c"]), TypeError, "row must hold"),
        (lambda m: m.set_vertex(0, [None, 1, 2]), TypeError, "row must hold"),
        (lambda m: m.set_vertex(0, [1, 2, -INF]), (ValueError, TypeError), "infinite|integers"),
        (lambda m: m.add_vertex([1, 2, 3, 4]), ValueError, r"row must have the shape \(3,\)"),
        (lambda m: m.add_vertex(["a", "b", "c"]), TypeError, "row must hold"),
        (lambda m: m.add_vertex([1, 2, INF]), (ValueError, TypeError), "infinite|integers"),
    ],
)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_bad_arguments_change_nothing(change, error, words, dtype):
    matcher = Matcher(np.array([[0, 3, 5], [3, 0, 4], [5, 4, 0]], dtype=dtype))
    matcher.remove_vertex(1)
    before = matcher.solve()
    with pytest.raises(error, match=words):
        change(matcher)
    assert matcher.solve() is before
    assert matcher.vertices.tolist() == [0, 2]
    assert before.verify()
    matcher.set_vertex(2, [6, 7, 8])
    assert matcher.solve().weight == 6


@pytest.mark.parametrize("weight", [2**59 + 1, -(2**59) - 1, 2**63, -(2**63), 2**64])
def test_integers_out_of_range(weight):
    matcher = Matcher(np.array([[0, 3], [3, 0]]))
    with pytest.raises((ValueError, TypeError), match=r"beyond 2\*\*59|64 bits|hold integers"):
        matcher.set_edge(0, 1, weight)
    with pytest.raises((ValueError, TypeError), match=r"beyond 2\*\*59|64 bits|hold integers"):
        matcher.set_vertex(0, [0, weight])
    assert matcher.solve().weight == 3


def test_integers_take_no_floats():
    matcher = Matcher(np.array([[0, 3], [3, 0]]))
    with pytest.raises(TypeError, match="weight must hold integers, as the graph does"):
        matcher.set_edge(0, 1, 2.0)
    with pytest.raises(TypeError, match="row must hold integers, as the graph does"):
        matcher.set_vertex(0, [0.0, 2.0])


@pytest.mark.parametrize("graph", [-1, 2**24 + 1, None, "graph", 2.5, {}, True.__class__])
def test_what_is_no_graph(graph):
    with pytest.raises((TypeError, ValueError)):
        Matcher(graph)


def test_the_kernel_refuses_what_would_harm_it():
    kernel = _matching.matcher(3, np.full((2, 2), 5))
    row = np.array([1, 2, 3])
    for call, words in [
        (lambda: _matching.matcher_set_row(kernel, 3, row), "v is not a vertex"),
        (lambda: _matching.matcher_set_row(kernel, -1, row), "v is not a vertex"),
        (
            lambda: _matching.matcher_set_row(kernel, 0, np.zeros(0, dtype=np.int64)),
            "1 to capacity",
        ),
        (
            lambda: _matching.matcher_set_row(kernel, 0, np.zeros(4, dtype=np.int64)),
            "1 to capacity",
        ),
        (lambda: _matching.matcher_set_row(kernel, 0, row + 2**40), "a weight is above"),
        (lambda: _matching.matcher_set_edge(kernel, 0, 3, 1), "v is not a vertex"),
        (lambda: _matching.matcher_set_edge(kernel, 2, 2, 1), "must differ"),
        (lambda: _matching.matcher_set_edge(kernel, 0, 1, 2**40), "a weight is above"),
        (lambda: _matching.matcher(1, np.full((2, 2), 5)), "capacity"),
        (lambda: _matching.matcher(0, np.zeros((0, 0), dtype=np.int64)), "capacity"),
        (lambda: _matching.matcher(2**40, np.full((2, 2), 5)), "capacity"),
        (lambda: _matching.matcher(4, np.full((2, 3), 5)), "square"),
        (lambda: _matching.matcher(4, np.full((2, 2), 2**60)), r"above 2\*\*59"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()
    assert _matching.matcher_solve(kernel)[0].tolist() == [1, 0, -1]
    for thing in (None, 3, datetime_CAPI):
        with pytest.raises(TypeError):
            _matching.matcher_solve(thing)


def test_two_threads_at_one_matcher_do_no_harm():
    rng = np.random.default_rng(5)
    kernel = _matching.matcher(60, random_weights(60, rng))
    rows = [rng.integers(1, 1000, 60) for _ in range(60)]

    def work(first):
        for v in range(first, 60, 2):
            _matching.matcher_set_row(kernel, v, rows[v])
            _matching.matcher_solve(kernel)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (_matching.matcher_solve(kernel)[0] >= 0).all()


# --- what a review found


@pytest.mark.parametrize(
    "weights",
    [
        np.array([[0, 2**64 - 1], [2**64 - 1, 0]], dtype=np.uint64),
        np.array([[0, -(2**60)], [-(2**60), 0]]),
        np.array([[0, -(2**63)], [-(2**63), 0]]),
    ],
)
def test_a_graph_of_integers_out_of_range(weights):
    with pytest.raises(ValueError, match=r"allowed are -2\*\*59 to 2\*\*59"):
        Matcher(weights)


@pytest.mark.parametrize("changes", [(0.5, 6.0), (0.5, -6.0), (5e-324, 1e308), (1.7e308, 5e-324)])
def test_weights_far_apart(changes):
    matcher = Matcher(3)
    for u, weight in enumerate(changes):
        matcher.set_edge(u, u + 1, weight)
        matching = matcher.solve()
        assert matching.verify()
    best = max(0.0, *changes)
    assert matching.weight <= best <= matching.weight + matching.gap_bound


def test_rounding_ends_with_the_weight_that_made_it_necessary():
    matcher = Matcher(4)
    matcher.set_edge(0, 1, 1e30)
    matcher.set_edge(2, 3, 0.1)
    assert not matcher.solve().exact
    matcher.set_edge(0, 1, None)
    assert (matcher.solve().weight, matcher.solve().exact) == (0.1, True)
    assert matcher.solve().verify()


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_a_vertex_refused_at_the_end_of_the_numbers(dtype):
    matcher = Matcher(np.array([[0, 3], [3, 0]], dtype=dtype))
    with pytest.raises((ValueError, TypeError)):
        matcher.add_vertex([1.0, INF])
    assert matcher.n == 2
    assert matcher.add_vertex(np.array([1, 9], dtype=dtype)) == 2
    assert matcher.solve().weight == 9


def broken(*_):
    raise MemoryError


def test_lack_of_memory_leaves_everything_as_it_was(monkeypatch):
    matcher = Matcher(np.array([[0, 1.5, 2], [1.5, 0, 3], [2, 3, 0]]))
    row = np.full(3, 1 / 3)
    before = matcher.solve()
    with monkeypatch.context() as patch:
        patch.setattr(_matching, "matcher", broken)
        for change in (
            lambda: matcher.set_edge(0, 2, 1e6 + 0.1),
            lambda: matcher.set_vertex(1, row),
            lambda: matcher.set_vertex(1, row * 2.0**80),
        ):
            with pytest.raises(MemoryError):
                change()
            assert matcher.solve() is before
            assert before.verify()
        rng = np.random.default_rng(0)
        with pytest.raises(MemoryError):
            while True:
                matcher.add_vertex(rng.integers(0, 9, matcher.n))
    n = matcher.n
    assert matcher.solve().verify()
    assert matcher.add_vertex(rng.integers(0, 9, n)) == n
    matcher.set_vertex(1, np.full(matcher.n, 1 / 3))
    assert matcher.solve().verify()
    assert matcher.solve().exact


def test_large_integers_into_floats_warn_of_nothing():
    matcher = Matcher(2)
    for weight in (2**63 - 1, np.uint64(2**64 - 1)):
        with pytest.raises(ValueError, match="an integer that is no float"):
            matcher.set_edge(0, 1, weight)
    matcher.set_edge(0, 1, np.uint64(2**63))
    assert matcher.solve().weight == 2.0**63


# --- what it costs, counted in passes over all vertices


def passes_of(n, rounds=20):
    """Per vertex, of each event at n vertices: one changes, one leaves, a new one comes."""
    rng = np.random.default_rng(n)
    weights = random_weights(n + 2 * rounds, rng, 2**20)
    jobs = np.arange(n)
    matcher = Matcher(weights[:n, :n])
    matcher.solve()
    passes = []

    def solve():
        before = _matching.matcher_passes(matcher._kernel)
        matcher.check()
        passes.append((_matching.matcher_passes(matcher._kernel) - before) / n)

    for new in range(n, n + 2 * rounds, 2):
        v, gone = rng.integers(n, size=2).tolist()
        jobs[v] = new
        matcher.set_vertex(v, weights[new, jobs])
        solve()
        matcher.remove_vertex(gone)
        solve()
        jobs[gone] = new + 1
        matcher.add_vertex(weights[new + 1, jobs])
        solve()
    return np.array(passes)


@pytest.mark.parametrize("n", [100, 400])
def test_odd_and_even_orders_cost_alike(n):
    even, odd = passes_of(n), passes_of(n + 1)
    assert odd.mean() < 3 * even.mean()
    assert max(odd.max(), even.max()) < 10  # a solution from scratch takes about twice as many


def efficiencies(stages):
    """Of pairs of jobs with three stages: nearly tied, so that searches are long."""
    busy = stages.sum(axis=1)
    period = np.maximum(stages[:, None], np.roll(stages, 1, axis=1)).sum(axis=2)
    return 2**20 * (busy[:, None] + busy) // (3 * np.minimum(period, period.T))


def test_searches_that_take_too_long_are_given_up():
    rng = np.random.default_rng(0)
    n = 60
    models = rng.integers(100, 4000, (6, 3))
    stages = models[rng.integers(6, size=n)] + rng.integers(0, 80, (n, 3))
    matcher = Matcher(efficiencies(stages))
    before = 0
    given_up = []
    for _ in range(30):
        for v in rng.choice(n, 10, replace=False).tolist():
            stages[v] = models[rng.integers(6)] + rng.integers(0, 80, 3)
            matcher.set_vertex(v, efficiencies(stages)[v])
        check(matcher, efficiencies(stages))
        after = _matching.matcher_passes(matcher._kernel)
        given_up.append(after - before > 10 * n)
        before = after
    assert 0 < sum(given_up) < 30 / 5  # at most every fifth search, on ten passes for each vertex


# --- an odd number of vertices


def test_the_vertex_left_over_need_not_sink_to_zero():
    rng = np.random.default_rng(3)
    weights = random_weights(31, rng) + 1000
    matcher = Matcher(weights)
    result = check(matcher, weights)
    assert sorted(result.certificate.blossoms[0].tolist()) == list(range(31))
    assert result.certificate.duals.min() == 0

    def set_row(v, row):
        weights[v] = weights[:, v] = row
        matcher.set_vertex(v, row)
        return check(matcher, weights).certificate

    nothing = np.zeros(31, dtype=np.int64)
    proof = set_row(5, nothing)  # an even number is left: no blossom around all
    assert all(len(blossom) < 29 for blossom in proof.blossoms)
    proof = set_row(6, nothing)  # odd again, and the two are outside
    assert len(proof.blossoms[0]) == 29
    assert proof.innermost[[5, 6]].tolist() == [-1, -1]
    only = nothing.copy()
    only[6] = 1
    proof = set_row(5, only)  # a part of its own
    assert (proof.innermost[5], proof.innermost[6]) in {(-1, -1), (0, 0)}
    only[7] = 1
    set_row(5, only)
    set_row(6, nothing)
    only[6] = 0
    proof = set_row(5, only)  # too light to be matched, but an edge: 30 vertices, two of them free
    assert all(len(blossom) < 30 for blossom in proof.blossoms)
