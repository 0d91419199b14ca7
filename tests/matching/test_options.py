"""What the options of the calls take and refuse, and what a result says without proof or time."""

import math
import signal
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hivecore import _matching
from hivecore.errors import CertificateError, InexactWarning, NoPerfectMatchingError
from hivecore.matching import max_weight_matching, min_weight_matching

PATH = (4, [(0, 1), (1, 2), (2, 3)], [2, 9, 3])
NO_TIME = 1e-9


def noise(n, seed=0):
    half = np.triu(np.random.default_rng(seed).integers(10**6, 10**6 + 10**5, (n, n)), 1)
    return half + half.T


def clusters(n, seed=0):
    """Weights as of jobs of a few types: nearly tied."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 8, n)
    return noise(8, seed)[np.ix_(kinds, kinds)] + noise(n, seed) // 1000


# --- certificate


@pytest.mark.parametrize("graph", [PATH, noise(5), (3, [], []), noise(40).astype(float)])
@pytest.mark.parametrize("solve", [max_weight_matching, min_weight_matching])
def test_without_a_certificate_all_else_is_the_same(solve, graph):
    full, bare = solve(graph), solve(graph, certificate=False)
    assert bare.certificate is None
    assert np.array_equal(bare.mate, full.mate)
    assert np.array_equal(bare.pairs, full.pairs)
    assert (bare.weight, bare.exact, bare.gap_bound) == (full.weight, full.exact, full.gap_bound)
    assert not bare.mate.flags.writeable
    with pytest.raises(CertificateError, match="certificate is None: without it nothing can be"):
        bare.verify()


# --- threads


@pytest.mark.parametrize(
    ("threads", "error", "message"),
    [
        (0, ValueError, "threads=0: allowed are 1 to"),
        (-3, ValueError, "threads=-3"),
        (2**40, ValueError, "threads="),
        (2.0, TypeError, "threads must be an integer, not float"),
        (None, TypeError, "not NoneType"),
    ],
)
def test_a_number_of_threads_that_is_none_is_refused(threads, error, message):
    for solve in (max_weight_matching, min_weight_matching):
        for graph in (PATH, noise(4)):
            with pytest.raises(error, match=message):
                solve(graph, threads=threads)


def test_a_dense_array_is_solved_by_any_number_of_threads():
    assert max_weight_matching(noise(30), threads=2**31 - 1).verify()


# --- time


@pytest.mark.parametrize(
    ("time_limit", "error", "message"),
    [
        (0, ValueError, "time_limit=0: must be positive"),
        (-1.5, ValueError, r"time_limit=-1\.5"),
        (-math.inf, ValueError, "time_limit=-inf"),
        (math.nan, ValueError, "time_limit=nan"),
        ("1", TypeError, "time_limit must be a float, not str"),
        (1j, TypeError, "not complex"),
        ([1.0], TypeError, "not list"),
    ],
)
def test_a_time_that_is_none_is_refused(time_limit, error, message):
    for solve in (max_weight_matching, min_weight_matching):
        with pytest.raises(error, match=message):
            solve(PATH, time_limit=time_limit)


@pytest.mark.parametrize("time_limit", [math.inf, 10**400, 1e300, np.float32(100), 10, 5e8])
def test_any_positive_number_is_a_time(time_limit):
    assert max_weight_matching(PATH, time_limit=time_limit).exact


@pytest.mark.parametrize("weights", [noise, clusters], ids=["noise", "clusters"])
@pytest.mark.parametrize("n", [50, 200, 700])
def test_a_search_that_is_ended_proves_its_bound(n, weights):
    best = max_weight_matching(weights(n)).weight
    for dtype in (np.int64, np.int32, float):
        for time_limit in (NO_TIME, 0.001, 0.003, 0.01):
            matching = max_weight_matching(weights(n).astype(dtype), time_limit=time_limit)
            assert matching.verify()
            assert matching.weight <= best <= matching.weight + matching.gap_bound
            assert matching.cardinality == n // 2


def test_without_time_the_bound_is_near():
    matching = max_weight_matching(noise(500), time_limit=NO_TIME)
    assert not matching.exact
    assert 0 < matching.gap_bound < 0.1 * matching.weight
    least = min_weight_matching(noise(500), time_limit=NO_TIME)
    assert (least.exact, least.gap_bound) == (False, math.inf)
    assert least.verify()


def test_a_gap_counts_in_the_unit_of_the_weights():
    whole = max_weight_matching(noise(60), time_limit=NO_TIME)
    assert whole.gap_bound == (whole.certificate.bound() - 2 * whole.weight) / 2 > 0
    floats = max_weight_matching(np.ldexp(noise(60).astype(float), -1040), time_limit=NO_TIME)
    assert 0 < floats.gap_bound < 1e-300
    assert floats.verify()
    huge = max_weight_matching(np.ldexp(noise(60).astype(float), 1003), time_limit=NO_TIME)
    assert huge.gap_bound > 1e300
    assert huge.verify()


def test_a_gap_has_two_parts_where_weights_are_rounded(monkeypatch):
    monkeypatch.setattr("hivecore.matching.solve._MANY_EDGES", 1)
    edges, weights = [(0, 1), (1, 2), (2, 0)], [1.0, 1.0, 2.0**-70]
    with pytest.warns(InexactWarning):
        rounded = max_weight_matching((3, edges, weights))
    with pytest.warns(InexactWarning):
        ended = max_weight_matching((3, edges, weights), time_limit=NO_TIME)
    assert 0 < rounded.gap_bound <= ended.gap_bound
    assert ended.verify()
    proof = replace(ended.certificate, duals=ended.certificate.duals + 2)
    more = Fraction(ended.gap_bound) + 3 * Fraction(2) ** proof.exponent
    wider = replace(ended, certificate=proof, gap_bound=float(more), exact=False)
    assert wider.verify()
    with pytest.raises(CertificateError, match=r"gap_bound=.*, but the certificate gives"):
        replace(wider, gap_bound=rounded.gap_bound).verify()


def test_what_is_claimed_of_an_ended_search_is_checked():
    matching = max_weight_matching(noise(60), time_limit=NO_TIME)
    free = max_weight_matching((3, [(0, 1), (1, 2), (0, 2)], [5, 5, 5]), time_limit=NO_TIME)
    assert free.gap_bound > 0
    for wrong, says in (
        (replace(matching, exact=True), "the duals sum up to"),
        (replace(free, exact=True), "must be 0, since the vertex is free"),
        (replace(matching, gap_bound=0.0), "gap_bound=0.0, but the certificate gives"),
        (replace(matching, gap_bound=math.inf), "gap_bound=inf, but"),
        (replace(matching, gap_bound=math.nan), "gap_bound=nan, but"),
    ):
        with pytest.raises(CertificateError, match=says):
            wrong.verify()
    best = max_weight_matching(noise(60))
    with pytest.raises(CertificateError, match=r"exact=False, but gap_bound=0\.0"):
        replace(best, exact=False).verify()
    lowered = replace(matching.certificate, duals=np.maximum(matching.certificate.duals - 10**4, 0))
    with pytest.raises(CertificateError, match="is not covered"):
        replace(matching, certificate=lowered).verify()
    least = min_weight_matching(noise(60), time_limit=NO_TIME)
    for gap in (0.0, 1e9):
        with pytest.raises(
            CertificateError, match=f"gap_bound={gap}, but the certificate gives inf"
        ):
            replace(least, gap_bound=gap).verify()


def test_without_time_for_a_perfect_matching_none_is_promised():
    star = (6, [(0, 1), (0, 2), (0, 3), (3, 4), (4, 5), (5, 3)], [1, 5, 9, 4, 4, 4])
    with pytest.raises(NoPerfectMatchingError):
        min_weight_matching(star, perfect=True)
    with pytest.raises(TimeoutError, match="time_limit was reached before a perfect matching was"):
        min_weight_matching(star, perfect=True, time_limit=NO_TIME)
    # Greedy choices happen to match all vertices: no time is needed to see it.
    assert min_weight_matching(noise(20), perfect=True, time_limit=NO_TIME).cardinality == 10


# --- earlier results


@pytest.mark.parametrize(
    ("initial", "error", "message"),
    [
        (max_weight_matching(noise(4)).mate, TypeError, "initial must be a Matching, not ndarray"),
        ([(0, 1)], TypeError, "not list"),
        (max_weight_matching(noise(5)), ValueError, "initial must be a matching of 4 vertices"),
        (max_weight_matching([]), ValueError, "initial must be a matching of 4 vertices"),
    ],
)
def test_what_is_no_earlier_result_is_refused(initial, error, message):
    for solve in (max_weight_matching, min_weight_matching):
        for graph in (PATH, noise(4), (4, [], [])):
            with pytest.raises(error, match=message):
                solve(graph, initial=initial)


def test_a_defective_result_is_refused():
    matching = max_weight_matching((3, [(0, 1), (1, 2), (2, 0)], [6, 6, 6]))
    proof = matching.certificate
    for defects in (
        {"innermost": np.full(3, 7)},
        {"parents": np.array([5])},
        {"blossom_duals": np.array([-1])},
        {"duals": np.zeros(2, dtype=np.int64)},
        {"duals": np.full(3, 2**62)},
        {"exponent": 10**9},
        {"offset": 2**70},
        {"sense": 0},
    ):
        with pytest.raises(ValueError, match=r"initial\.certificate: "):
            max_weight_matching(
                noise(3), initial=replace(matching, certificate=replace(proof, **defects))
            )
    with pytest.raises(ValueError, match=r"initial\.mate\[2\]=3: must be a vertex from 0 to 2"):
        max_weight_matching(noise(3), initial=replace(matching, mate=np.array([0, 1, 3])))
    one_sided = replace(matching, mate=np.array([1, 2, 0]))
    assert max_weight_matching(noise(3), initial=one_sided).verify()
    heavy = replace(proof, blossom_duals=np.array([2**62]))
    assert max_weight_matching(noise(3), initial=replace(matching, certificate=heavy)).verify()


def test_an_earlier_result_may_be_of_another_kind():
    weights = noise(40)
    kinds = [
        max_weight_matching(weights),
        max_weight_matching(weights, certificate=False),
        max_weight_matching(weights, max_cardinality=True),
        max_weight_matching(weights / 3),
        max_weight_matching(weights * 2.0**-1000),
        max_weight_matching(weights * 2.0**900),
        max_weight_matching(weights * 2**36),
        max_weight_matching(-weights),
        min_weight_matching(weights),
        min_weight_matching(weights / 7),
        max_weight_matching(weights, time_limit=NO_TIME),
        max_weight_matching((40, [], [])),
    ]
    for graph in (weights, weights / 3, weights * 2.0**-1000, weights * 2**38, -weights):
        for solve in (max_weight_matching, min_weight_matching):
            scratch = solve(graph)
            for initial in kinds:
                matching = solve(graph, initial=initial)
                assert matching.weight == scratch.weight
                assert matching.verify()


@pytest.mark.parametrize("high", [2**27, 2**28, 2**59])
def test_the_heaviest_weights_leave_room_for_any_beginning(high):
    rng = np.random.default_rng(4)
    for _ in range(20):
        half = np.triu(rng.choice([1, 2, high - 1, high], (9, 9)), 1)
        first = np.triu(rng.choice([1, high], (9, 9)), 1)
        initial = max_weight_matching(first + first.T)
        assert max_weight_matching(half + half.T, initial=initial).verify()
        forged = replace(initial.certificate, duals=np.full(9, 2**60))
        forged = replace(initial, certificate=forged)
        matching = max_weight_matching(half + half.T, initial=forged)
        assert matching.verify()
        assert matching.weight == max_weight_matching(half + half.T).weight


# --- the kernel's own arguments


def test_the_kernel_refuses_what_does_not_go_together():
    square = np.zeros((3, 3), dtype=np.int64)
    offsets, none = np.zeros(4, dtype=np.int64), np.zeros(0, dtype=np.int64)
    rows = (3, offsets, none.astype(np.int32), none)
    short, outside = np.zeros(2, dtype=np.int64), np.array([0, 3, 1])
    for solve in (
        lambda **start: _matching.solve_dense(square, **start),
        lambda **start: _matching.solve_sparse(*rows, **start),
    ):
        for start in ({"duals": short}, {"mate": short}):
            with pytest.raises(ValueError, match="duals and mate must have one entry per vertex"):
                solve(**start)
        for mate in (outside, -2 - outside):
            with pytest.raises(ValueError, match="mate holds an invalid vertex"):
                solve(mate=mate)
        for time_limit in (-1e300, math.nan, 0.0, math.inf):
            assert solve(time_limit=time_limit)[0].tolist() == [-1, -1, -1]
    with pytest.raises(ValueError, match="threads must be 1 or more"):
        _matching.solve_sparse(*rows, threads=0)
    with pytest.raises(ValueError, match="do not go together"):
        _matching.solve_sparse(-1, none, none.astype(np.int32), none)


# --- Ctrl-C


def slow(parts):
    """Edges at two hubs that get tight in turn: minutes of small steps, in each part again."""
    n = 200_004
    p = n // 4 - 1
    heavy, i = 8 * (p + 2) ** 2, np.arange(p)
    rows = [(2 * i, 2 * i + 1, heavy - i)]
    for side in (0, 1):
        hub, turn = 2 * p + 2 * side, np.arange(side, p, 2)
        low = 2 * p + 4 + 2 * turn
        rows += [
            (2 * i + 1, np.full(p, hub), heavy - p - side * (i + 1)),
            (np.array([hub]), np.array([hub + 1]), np.array([heavy - (side + 1) * (2 * p + 1)])),
            (np.full(len(low), hub + 1), low, heavy - turn * (2 * p + 4) - 4 * p + 1),
            (low, low + 1, heavy - (turn + 1) * 8 * p - turn * 12),
        ]
    u, v, weights = (np.concatenate(column) for column in zip(*rows, strict=True))
    edges = np.concatenate([np.stack((u, v), axis=1) + n * part for part in range(parts)])
    return n * parts, edges, np.tile(weights, parts)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no such signal here")
@pytest.mark.parametrize("parts", [1, 3])
def test_a_signal_stops_a_long_search(parts):
    graph, edges_before = slow(parts), slow(1)[1].copy()

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.0)  # long after the graph has been read
        with pytest.raises(KeyboardInterrupt):
            max_weight_matching(graph, threads=2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert np.array_equal(graph[1][: len(edges_before)], edges_before)
    assert max_weight_matching(PATH).verify()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no such signal here")
def test_a_signal_whose_handler_returns_does_not_end_a_search():
    graph, heard = clusters(500).astype(float) ** 0.5, []
    expected = min_weight_matching(graph).weight
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        matching = min_weight_matching(graph)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert heard
    assert matching.weight == expected
    assert matching.verify()
