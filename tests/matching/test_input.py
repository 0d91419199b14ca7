"""What the native passes over a caller's arrays find, make and refuse, against plain NumPy."""

import math
import threading
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from hivecore import _matching
from hivecore.errors import NoPerfectMatchingError
from hivecore.matching import Matcher, max_weight_matching, min_weight_matching
from hivecore.reference.matching import max_weight_matching as twin

NAN, INF = math.nan, math.inf
DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
SIZES = [2, 3, 31, 32, 33, 64, 65, 100]


def symmetric(n, dtype, seed=0, holes=False):
    rng = np.random.default_rng(seed)
    limits = (-(2.0**40), 2.0**40) if "f" in dtype else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if "f" in dtype:
        values = np.round(rng.uniform(*limits, (n, n))).astype(dtype)
        values[rng.random((n, n)) < (0.6 if holes else 0.0)] = NAN
    else:
        values = rng.integers(*limits, (n, n), dtype=dtype, endpoint=True)
    return np.triu(values) + np.triu(values, 1).T


def layouts(weights):
    n = len(weights)
    yield weights
    yield np.asfortranarray(weights)
    yield weights[::-1, ::-1][::-1, ::-1]
    mirrored = weights[::-1, ::-1].copy()[::-1, ::-1]
    mirrored.flags.writeable = False
    yield mirrored
    wide = np.zeros((2 * n, 3 * n), dtype=weights.dtype)
    wide[::2, ::3] = weights
    yield wide[::2, ::3]
    record = np.zeros((n, n), dtype=[("pad", "u8"), ("weight", weights.dtype)])
    record["weight"] = weights
    yield np.require(record["weight"], requirements="A")


def coarsest_grid(values):
    """The largest e such that all are multiples of 2**e."""
    ratios = [float(value).as_integer_ratio() for value in values if value]
    return min(
        ((top & -top).bit_length() - bottom.bit_length() for top, bottom in ratios), default=0
    )


# --- arrays


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_edges_and_extent_of_an_array_are_found(n, dtype):
    for holes in (False, True):
        weights = symmetric(n, dtype, holes=holes)
        edges = weights[np.triu_indices(n, 1)]
        edges = edges[edges == edges]
        expected = (None, len(edges), 0, 0, 0)
        if len(edges):
            grid = coarsest_grid(edges) if "f" in dtype else 0
            expected = (None, len(edges), edges.min().item(), edges.max().item(), grid)
        np.fill_diagonal(weights, INF if "f" in dtype else np.iinfo(dtype).max)
        for array in layouts(weights):
            assert _matching.survey_dense(array) == expected
            if len(edges):
                positive = coarsest_grid(edges[edges > 0]) if "f" in dtype else 0
                assert _matching.survey_dense(array, positive=True) == (*expected[:4], positive)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 33, 100])
def test_the_first_asymmetric_pair_in_row_order_is_found(n, dtype):
    rng = np.random.default_rng(n)
    for _ in range(5):
        weights = symmetric(n, dtype)
        wrong = [sorted(rng.choice(n, 2, replace=False).tolist()) for _ in range(3)]
        for i, j in wrong:
            weights[i, j] = 1 if weights[j, i] != 1 else 2
        for array in layouts(weights):
            assert _matching.survey_dense(array)[0] == tuple(min(wrong))
            assert _matching.survey_dense(array.T)[0] == tuple(min(wrong))
    i, j = min(wrong)
    with pytest.raises(ValueError, match=rf"not symmetric: graph\[{i}, {j}\]={weights[i, j]}, "):
        max_weight_matching(weights)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_nan_opposite_a_number_is_asymmetric_and_signs_of_zero_are_not(dtype):
    weights = np.zeros((40, 40), dtype=dtype)
    weights[3, 37] = -0.0
    assert _matching.survey_dense(weights) == (None, 780, 0.0, 0.0, 0)
    for i, j in ((4, 36), (36, 4)):
        one_sided = weights.copy()
        one_sided[i, j] = NAN
        assert _matching.survey_dense(one_sided)[0] == (4, 36)


@pytest.mark.parametrize("infinity", [INF, -INF])
def test_an_infinity_shows_in_the_extent_and_is_named(infinity):
    weights = np.ones((50, 50))
    weights[7, 45] = weights[45, 7] = weights[8, 9] = weights[9, 8] = infinity
    assert infinity in _matching.survey_dense(weights)
    with pytest.raises(ValueError, match=rf"graph\[7, 45\]={infinity}: must be finite, or NaN"):
        min_weight_matching(weights)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([5e-324, 1.5], "f8"),
        ([2.0**-1074 * 12, 2.0**-1070], "f8"),
        ([2.0**-1022, 2.0**-1021], "f8"),
        ([1.7976931348623157e308, 2.0**1000], "f8"),
        ([0.1, -0.75, 0.0], "f8"),
        ([2.0**-149, 1.0], "f4"),
        ([0.1, 3.0], "f4"),
        ([-(2.0**127), 0.0], "f4"),
        ([0.0, -0.0], "f8"),
    ],
)
def test_the_coarsest_grid_is_found_for_every_kind_of_float(values, dtype):
    given = np.array(values, dtype=dtype)
    assert _matching.extent_of(given) == (given.min(), given.max(), coarsest_grid(given))
    for spread in (given.repeat(40), np.stack((given, given), axis=1)[:, 1]):
        assert _matching.extent_of(spread)[2] == coarsest_grid(given)


def test_nothing_has_no_extent():
    for dtype in DTYPES:
        assert _matching.extent_of(np.zeros(0, dtype=dtype)) == (0, 0, 0)
        for n in (0, 1):
            assert _matching.survey_dense(np.ones((n, n), dtype=dtype)) == (None, 0, 0, 0, 0)
            assert _matching.solve_dense(np.ones((n, n), dtype=dtype))[0].tolist() == [-1] * n


def test_a_broadcast_array_is_a_graph():
    everywhere = np.broadcast_to(np.int16(3), (70, 70))
    assert _matching.survey_dense(everywhere) == (None, 2415, 3, 3, 0)
    assert max_weight_matching(everywhere).weight == 105


# --- integers


def test_weights_count_as_the_multiples_next_to_them():
    rng = np.random.default_rng(4)
    values = np.concatenate(
        [
            rng.normal(size=500) * 2.0 ** rng.integers(-60, 59, 500),
            np.arange(-8, 9) / 2,
            2.0**51 + np.arange(-6, 7) / 2,
            2.0**52 + np.arange(-6, 7) / 2,
            -(2.0**53) + np.arange(-6, 7),
            [2.0**59, -(2.0**59), 2.0**59 - 64, 0.0, -0.0, 5e-324],
        ]
    )
    values = values[np.abs(values) <= 2.0**59]
    rounded = [round(Fraction(value)) for value in values.tolist()]
    for sense, offset in ((1, 0), (-1, 0), (1, 7), (-1, -(2**60)), (0, 1)):
        expected = [sense * value + offset for value in rounded]
        kept = np.array(expected, dtype=object) <= 2**59
        counts = _matching.scaled(values[kept], 0, sense, offset)
        assert counts.tolist() == np.array(expected)[kept].tolist()
    for exponent in (-40, -1, 3, 50):
        part = values[np.abs(values) < 2.0 ** min(58 + exponent, 59)]
        counts = _matching.scaled(part, exponent)
        assert counts.tolist() == [round(Fraction(v) / Fraction(2) ** exponent) for v in part]
    tiny = np.array([5e-324, 1e-323, 2.0**-1022])
    assert _matching.scaled(tiny, -1074).tolist() == [1, 2, 2**52]
    assert _matching.scaled(tiny, -1080).tolist() == [64, 128, 2**58]
    huge = np.array([2.0**1023, 2.0**970])
    assert _matching.scaled(huge, 966).tolist() == [2**57, 16]


@pytest.mark.parametrize("dtype", DTYPES)
def test_lists_of_every_dtype_count(dtype):
    values = np.arange(100, dtype=dtype)[::3]
    assert _matching.scaled(values, 0, -1, 5).tolist() == [5 - 3 * i for i in range(34)]


def test_what_does_not_count_is_refused():
    beyond = [2**59 + 1, -(2**59) - 1, 2**63 - 1, -(2**63)]
    lists = [np.array([value]) for value in beyond]
    lists += [np.array([value]) for value in (INF, -INF, 2.0**60, 1e300)]
    lists += [np.array([2**64 - 1], dtype=np.uint64)]
    for values in lists:
        with pytest.raises(ValueError, match="not finite or more than heaviest"):
            _matching.scaled(values)
        with pytest.raises(ValueError, match="not finite or more than heaviest"):
            _matching.solve_dense(np.broadcast_to(values[0], (40, 40)))
    assert _matching.scaled(np.array([NAN, 3.0])).tolist() == [-(2**63), 3]
    with pytest.raises(ValueError, match="more than heaviest"):
        _matching.solve_dense(np.full((40, 40), 8), heaviest=7)
    for scale in ({"exponent": 1201}, {"exponent": -1201}, {"sense": 2}, {"offset": 2**61 + 1}):
        with pytest.raises(ValueError, match="exponent, sense or offset is out of range"):
            _matching.solve_dense(np.ones((2, 2)), **scale)
    with pytest.raises(ValueError, match=r"above 2\*\*59"):
        _matching.solve_dense(np.ones((2, 2)), heaviest=2**59 + 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 31, 32, 33, 70])
def test_an_array_of_any_layout_and_dtype_is_solved_alike(n, dtype):
    weights = symmetric(n, dtype, holes=True)
    if np.dtype(dtype).itemsize == 8 and "f" not in dtype:
        weights //= 32
    low, high = (np.nanmin(weights).item(), np.nanmax(weights).item())
    present = weights == weights
    np.fill_diagonal(present, False)
    for sense, offset in ((1, 0), (-1, 5), (0, 1)):
        counts = np.where(present, sense * np.where(present, weights, 0).astype("i8") + offset, 0)
        expected = _matching.solve_dense(counts)
        heaviest = int(max(sense * low, sense * high) + offset)
        for array in layouts(weights):
            result = _matching.solve_dense(array, 0, sense, offset, heaviest)
            for ours, theirs in zip(result, expected, strict=True):
                assert np.array_equal(ours, theirs)


def test_no_array_of_n_times_n_is_made_beside_the_kernel():
    n = 400
    for dtype in ("f8", "f4", "i8", "i4", "u1"):
        weights = symmetric(n, dtype) // (64 if dtype == "i8" else 1)
        tracemalloc.start()
        max_weight_matching(weights, max_cardinality=True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < n * n


def test_an_array_that_changes_meanwhile_does_no_harm():
    weights = np.ones((150, 150))
    done = threading.Event()

    def scribble():
        rng = np.random.default_rng(0)
        while not done.is_set():
            i, j = rng.integers(150, size=2)
            weights[i, j] = rng.choice([1.0, 2.0, NAN, INF, -1e300, 0.3])
            weights[i, j] = 1.0

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        for _ in range(100):
            try:
                mate = max_weight_matching(weights).mate
            except (ValueError, OverflowError, KeyError):
                continue
            assert (mate[mate[mate >= 0]] >= 0).all()
    finally:
        done.set()
        thread.join()


# --- rows of neighbours


def sorted_rows(n, u, v):
    ends = np.concatenate((u, v)).astype(np.int64), np.concatenate((v, u)).astype(np.int64)
    edges = np.tile(np.arange(len(u)), 2)
    order = np.lexsort((edges, ends[1], ends[0]))
    offsets = np.searchsorted(ends[0][order], np.arange(n + 1))
    return offsets, ends[1][order], edges[order]


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if "f" not in dtype])
def test_rows_are_sorted_and_stable(dtype):
    rng = np.random.default_rng(8)
    for n, m in ((0, 0), (5, 0), (2, 9), (100, 40), (100, 900)):
        ends = rng.integers(n, size=(m, 2)) if m else np.zeros((0, 2), dtype=int)
        ends = ends[ends[:, 0] != ends[:, 1]].astype(dtype)
        for part in (ends, np.asfortranarray(ends), ends[::-1], ends[::2, ::-1]):
            outside, loop, repeated, *rows = _matching.rows(n, part[:, 0], part[:, 1], None)
            expected = sorted_rows(n, *part.T)
            assert (outside, loop) == (-1, -1)
            for row, wanted in zip(rows, expected, strict=True):
                assert row.tolist() == wanted.tolist()
            same = (rows[1][1:] == rows[1][:-1]) & ~np.isin(np.arange(1, len(rows[1])), rows[0])
            assert repeated == (np.flatnonzero(same)[0] + 1 if same.any() else -1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_parallel_edges_the_first_of_the_best_stays(dtype):
    rng = np.random.default_rng(9)
    n, m = 12, 200
    u = rng.integers(1, n, m)
    v = (u + rng.integers(1, n, m)) % n
    weights = rng.integers(0, 6, m).astype(dtype)
    if "u" not in dtype:
        weights -= np.array(3, dtype=dtype)
    best = {}
    for lightest in (False, True):
        best = {}
        for e in reversed(range(m)):
            pair = frozenset((int(u[e]), int(v[e])))
            old = best.get(pair, e)
            better = weights[e] <= weights[old] if lightest else weights[e] >= weights[old]
            best[pair] = e if better else old
        for given in (weights, weights.repeat(2)[::2]):
            *_, offsets, neighbours, edges = _matching.rows(n, u, v, given, lightest)
            rows = np.repeat(np.arange(n), np.diff(offsets))
            pairs = list(zip(rows.tolist(), neighbours.tolist(), strict=True))
            assert pairs == sorted(set(pairs))
            assert len(pairs) == 2 * len(best)
            assert [best[frozenset(pair)] for pair in pairs] == edges.tolist()


def test_the_first_edge_that_is_none_is_found():
    u, v = np.array([0, 1, 2, 3, 3]), np.array([1, 1, 3, 4, -1])
    assert _matching.rows(4, u, v, None)[0] == 3
    assert _matching.rows(5, u, v, None)[0] == 4
    assert _matching.rows(5, u[:4], v[:4], None)[:2] == (-1, 1)
    far = np.array([0, 2**32 + 1, 2**64 - 1], dtype=np.uint64)
    assert _matching.rows(4, u[2:], far, None)[0] == 1
    assert _matching.rows(4, far[::-2], u[:2], None)[0] == 0


# --- what is refused


def unaligned(dtype):
    created = np.zeros(41 * 8 + 1, dtype=np.uint8)[1:].view(dtype)
    return created[:36].reshape(6, 6)


REFUSED = [
    np.zeros((6, 6), dtype=object),
    np.zeros((6, 6), dtype=bool),
    np.zeros((6, 6), dtype=np.float16),
    np.zeros((6, 6), dtype=complex),
    np.zeros((6, 6), dtype=">f8"),
    np.zeros((6, 6), dtype=">i4"),
    np.zeros((6, 6), dtype="M8[s]"),
    np.zeros((6, 6), dtype="S8"),
    unaligned(np.float64),
    unaligned(np.int32),
]


@pytest.mark.parametrize("array", REFUSED, ids=lambda array: str(array.dtype))
def test_an_array_that_cannot_be_read_is_refused(array):
    good = np.zeros(6, dtype=np.int64)
    for call in (
        lambda: _matching.survey_dense(array),
        lambda: _matching.solve_dense(array),
        lambda: _matching.extent_of(array[0]),
        lambda: _matching.scaled(array[0]),
        lambda: _matching.rows(6, array[0], good, None),
        lambda: _matching.rows(6, good, array[0], None),
        lambda: _matching.rows(6, good, good, array[0]),
    ):
        with pytest.raises(TypeError, match="must hold integers, float32 or float64, native"):
            call()


def test_unusual_arrays_are_converted_first():
    for weights in (unaligned(np.float64), unaligned(np.int32), np.ones((6, 6), dtype=">i2")):
        weights[...] = 1
        assert max_weight_matching(weights).cardinality == 3
        assert max_weight_matching(weights).verify()


def test_wrong_shapes_and_numbers_are_refused():
    good = np.zeros(3, dtype=np.int64)
    for call in (_matching.survey_dense, _matching.solve_dense):
        for array in (np.zeros(4), np.zeros((2, 3)), np.zeros((2, 2, 2)), np.array(1.0)):
            with pytest.raises(ValueError, match="must be a square matrix"):
                call(array)
        with pytest.raises(TypeError):
            call([[0.0]])
    for call in (_matching.extent_of, _matching.scaled):
        with pytest.raises(ValueError, match="must be a list"):
            call(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="must hold integers"):
        _matching.rows(3, np.zeros(3), good, None)
    with pytest.raises(ValueError, match="of different lengths"):
        _matching.rows(3, good, good, good[:2])
    for n, v in ((-1, good), (2**31, good), (3, good[:2])):
        with pytest.raises(ValueError, match="out of range"):
            _matching.rows(n, good, v, None)


def test_entries_of_edges():
    offsets = np.array([0, 2, 3, 4])
    neighbours = np.array([1, 2, 0, 0], dtype=np.int32)
    u, v = np.array([0, 2, 0]), np.array([2, 0, 1])
    assert _matching.entries_of(offsets, neighbours, u, v).tolist() == [1, 3, 0]
    for args in [
        (offsets, neighbours, np.array([1]), np.array([2])),
        (offsets, neighbours, np.array([3]), np.array([0])),
        (offsets, neighbours, np.array([-1]), np.array([0])),
        (offsets + 9, neighbours, np.array([0]), np.array([1])),
        (-offsets, neighbours, np.array([0]), np.array([1])),
        (offsets[:0], neighbours, np.array([0]), np.array([1])),
    ]:
        with pytest.raises(ValueError, match=r"u holds an invalid row|no edge"):
            _matching.entries_of(*args)
    with pytest.raises(ValueError, match="different lengths"):
        _matching.entries_of(offsets, neighbours, u, v[:2])


# --- other forms of a graph


def test_a_networkx_graph_is_taken_with_its_nodes_in_their_order():
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_nodes_from("abcde")
    graph.add_weighted_edges_from([("a", "b", 2), ("b", "c", 9), ("c", "d", 3), ("b", "b", 99)])
    graph.add_edge("d", "e")
    edges = ([(0, 1), (1, 2), (2, 3), (3, 4)], [2, 9, 3, 1])
    for solve in (max_weight_matching, min_weight_matching):
        matching, expected = solve(graph), solve((5, *edges))
        assert np.array_equal(matching.mate, expected.mate)
        assert (matching.weight, type(matching.weight)) == (expected.weight, int)
        assert matching.verify()
        double = nx.MultiGraph(graph)
        double.add_edge("a", "b", weight=2)
        assert solve(double).weight == expected.weight
    assert Matcher(graph).solve().weight == max_weight_matching((5, *edges)).weight
    assert max_weight_matching(nx.empty_graph(3)).mate.tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        (Fraction(1, 3), TypeError, "must be integers or floats, not Fraction"),
        ("1", TypeError, "not str"),
        (2**60, ValueError, "beyond 2"),
        (INF, ValueError, "infinite"),
        (NAN, ValueError, "NaN"),
    ],
)
def test_weights_of_a_networkx_graph_that_are_none_are_named(weight, error, message):
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=weight)
    with pytest.raises(error, match=message):
        max_weight_matching(graph)
    with pytest.raises(TypeError, match="graph must be undirected"):
        max_weight_matching(nx.DiGraph([(0, 1)]))


@pytest.mark.parametrize("solve", [max_weight_matching, min_weight_matching])
def test_an_array_of_bools_has_an_edge_of_weight_1_where_it_is_true(solve):
    rng = np.random.default_rng(7)
    joined = np.triu(rng.random((30, 30)) < 0.08, 1)
    joined |= joined.T
    expected = solve((30, np.argwhere(np.triu(joined)), np.ones(int(joined.sum()) // 2, dtype=int)))
    scipy_sparse = pytest.importorskip("scipy.sparse")
    diagonal = joined | np.eye(30, dtype=bool)  # says nothing
    for graph in (joined, diagonal, joined[::-1].copy()[::-1], scipy_sparse.coo_array(joined)):
        matching = solve(graph)
        assert (matching.weight, matching.cardinality) == (expected.weight, expected.cardinality)
        assert isinstance(matching.weight, int)
        assert matching.verify()
    assert solve((2, [(0, 1)], [True])).weight == 1
    with pytest.raises(NoPerfectMatchingError):
        solve(np.zeros((2, 2), dtype=bool), perfect=True)
    joined[3, 4] = not joined[4, 3]
    with pytest.raises(ValueError, match=r"graph is not symmetric: graph\[3, 4\]="):
        solve(joined)


@pytest.mark.parametrize("dtype", ["i4", "u8", "f4", "f8"])
@pytest.mark.parametrize("solve", [max_weight_matching, min_weight_matching])
def test_what_is_masked_is_no_edge(solve, dtype):
    rng = np.random.default_rng(3)
    weights = np.triu(rng.integers(1, 100, (20, 20)), 1).astype(dtype)
    weights += weights.T
    masked = np.triu(rng.random((20, 20)) < 0.7, 1)
    masked |= masked.T
    edges = np.argwhere(np.triu(~masked, 1))
    expected = solve((20, edges, weights[tuple(edges.T)]))
    u, v = np.triu_indices(20, 1)
    as_edges = (20, np.stack((u, v), axis=1), np.ma.array(weights[u, v], mask=masked[u, v]))
    for graph in (np.ma.array(weights, mask=masked), as_edges):
        matching = solve(graph)
        assert (matching.weight, matching.cardinality) == (expected.weight, expected.cardinality)
        assert type(matching.weight) is type(expected.weight)
        assert matching.verify()
    whole = solve(np.ma.array(weights))  # nothing is masked
    assert whole.weight == solve(weights).weight
    masked[3, 4] = not masked[4, 3]
    with pytest.raises(ValueError, match="graph is not symmetric"):
        solve(np.ma.array(weights, mask=masked))


def test_edges_behind_masked_ones_are_named_by_their_place():
    edges = np.ma.array([(0, 7), (0, 1), (0, 5)], mask=[(1, 1), (0, 0), (0, 0)])
    with pytest.raises(ValueError, match=r"edges\[2\]=\[0, 5\]: vertices run from 0 to 1"):
        max_weight_matching((2, edges, [1, 1, 1]))
    weights = np.ma.array([INF, 1.0, INF], mask=[1, 0, 0])
    with pytest.raises(ValueError, match=r"weights\[2\]=inf"):
        max_weight_matching((2, [(0, 1)] * 3, weights))
    assert max_weight_matching((2, edges[:2], [1, 1])).weight == 1


# --- integers of several words


@pytest.mark.parametrize("words", [2, 4, 34])
def test_wide_integers_find_what_the_twin_finds(words):
    rng = np.random.default_rng(words)
    highest = min(64 * words - 6, 1000)
    for _ in range(40):
        n = int(rng.integers(2, 14))
        kept = rng.random(n * (n - 1) // 2) < 0.7
        edges = np.stack(np.triu_indices(n, 1), axis=1)[kept]
        weights = np.ldexp(
            rng.integers(-3, 9, len(edges)).astype(float), rng.integers(0, highest - 60)
        )
        weights += rng.integers(0, 9, len(edges))  # is lost, or not
        offset = int(rng.integers(0, 2)) << int(rng.integers(0, highest))
        _, _, _, offsets, neighbours, chosen = _matching.rows(n, *edges.T, None)
        mate, duals, *_, blossom_duals = _matching.solve_wide(
            n,
            offsets,
            neighbours,
            weights[chosen],
            offset=np.frombuffer(offset.to_bytes(8 * words, "little"), np.uint64),
        )
        counts = [int(weight) + offset for weight in weights.tolist()]
        best = twin(n, edges.tolist(), counts)
        value = dict(zip(map(tuple, edges.tolist()), counts, strict=True))
        assert sum(value[u, v] for u, v in enumerate(mate.tolist()) if u < v) == sum(
            value[u, v] for u, v in enumerate(best.mate) if u < v
        )
        assert (len(duals), len(blossom_duals) % words) == (n * words, 0)


def test_wide_integers_refuse_what_they_cannot_hold():
    path = (2, np.array([0, 1, 2]), np.array([1, 0], dtype=np.int32))
    offset = np.zeros(2, dtype=np.uint64)
    for weights, how, says in (
        ([1.5, 1.5], {}, "multiple of 2"),
        ([2.0**124, 2.0**124], {}, "too large"),
        ([1e300, 1e300], {}, "too large"),
        ([INF, INF], {}, "too large"),
        ([1.0, 1.0], {"offset": np.zeros(3, dtype=np.uint64)}, "2, 4 or 34 words"),
        ([1.0, 1.0], {"sense": 0}, "out of range"),
        ([1.0, 1.0], {"threads": 0}, "threads must be"),
        ([1.0], {}, "do not go together"),
    ):
        with pytest.raises(ValueError, match=says):
            _matching.solve_wide(*path, np.array(weights), **{"offset": offset, **how})
    mate, *_ = _matching.solve_wide(*path, np.array([2.0**122, 2.0**122]), offset=offset)
    assert mate.tolist() == [1, 0]
