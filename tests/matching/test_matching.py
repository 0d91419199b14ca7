"""What a graph may be, what is refused, when floats are exact, and what a certificate must hold."""

import math
import pickle
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hivecore.errors import (
    CertificateError,
    HivecoreError,
    InexactWarning,
    NoPerfectMatchingError,
)
from hivecore.matching import max_weight_matching, min_weight_matching

NAN, INF = math.nan, math.inf

SQUARE = [[0, 6, 1, 5], [6, 0, 5, 1], [1, 5, 0, 6], [5, 1, 6, 0]]


# --- forms of a graph


@pytest.mark.parametrize(
    "dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
)
def test_every_dtype_of_numbers_is_welcome(dtype):
    matching = max_weight_matching(np.array(SQUARE, dtype=dtype))
    assert matching.pairs.tolist() == [[0, 1], [2, 3]]
    assert matching.weight == 12
    assert type(matching.weight) is (float if "f" in dtype else int)
    assert (matching.exact, matching.gap_bound, matching.cardinality) == (True, 0.0, 2)
    assert matching.mate.tolist() == [1, 0, 3, 2]
    assert matching.verify() is True


@pytest.mark.parametrize("dtype", ["i8", "f8"])
def test_a_dense_call_takes_at_most_fifteen_python_frames(dtype):
    graph = np.array(SQUARE, dtype=dtype)
    max_weight_matching(graph)
    frames = []
    sys.setprofile(lambda frame, event, _: event == "call" and frames.append(frame.f_code.co_name))
    try:
        max_weight_matching(graph)
    finally:
        sys.setprofile(None)
    assert len(frames) <= 15, frames


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_of_any_layout_is_read_and_not_changed(order):
    weights = np.array(np.kron(SQUARE, np.eye(2)), order=order)[::2, ::2]
    before = weights.copy()
    assert max_weight_matching(weights).weight == 12
    assert np.array_equal(weights, before)
    weights.flags.writeable = False
    assert min_weight_matching(weights).weight == 2


def test_the_diagonal_says_nothing_and_nan_is_no_edge():
    weights = np.array([[INF, 2.0, NAN], [2.0, NAN, 1.0], [NAN, 1.0, -INF]])
    matching = max_weight_matching(weights)
    assert matching.pairs.tolist() == [[0, 1]]
    assert matching.verify()
    assert max_weight_matching(np.full((3, 3), NAN)).pairs.shape == (0, 2)
    diagonal = np.array([[2**62, 1], [1, -(2**62)]])
    assert max_weight_matching(diagonal).verify()


def test_all_forms_of_one_graph_give_one_matching():
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(1)
    n = 12
    upper = np.triu(np.where(rng.random((n, n)) < 0.5, rng.integers(-5, 50, (n, n)), 0), 1)
    u, v = np.nonzero(upper)
    dense = np.where(upper + upper.T == 0, NAN, upper + upper.T)
    for solve in (max_weight_matching, min_weight_matching):
        expected = solve((n, np.stack((u, v), axis=1), upper[u, v])).weight
        assert type(expected) is int
        assert solve((n, np.stack((v, u), axis=1)[::-1], upper[u, v][::-1])).weight == expected
        assert solve(dense).weight == expected
        for make in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_matrix):
            for half in (upper, upper.T, upper + upper.T):
                matching = solve(make(half))
                assert matching.weight == expected
                assert matching.verify()


def test_a_stored_zero_is_an_edge_and_an_absent_entry_is_none():
    sparse = pytest.importorskip("scipy.sparse")
    graph = sparse.coo_array(([0.0, 3.0], ([0, 1], [1, 2])), shape=(3, 3))
    assert min_weight_matching(graph).pairs.tolist() == [[0, 1]]
    assert max_weight_matching(graph).pairs.tolist() == [[1, 2]]


def test_of_parallel_edges_the_best_one_counts():
    graph = (2, [(0, 1), (1, 0), (0, 1)], [3, 7, 5])
    assert max_weight_matching(graph).weight == 7
    assert min_weight_matching(graph).weight == 3
    assert max_weight_matching(graph).verify()
    assert min_weight_matching(graph).verify()


EMPTY = [
    [],
    np.zeros((0, 0)),
    [[3]],
    [[NAN]],
    (0, [], []),
    (1, [], []),
    (5, [], []),
    (3, np.zeros((0, 2), dtype=np.int8), np.zeros(0)),
    np.full((4, 4), NAN),
]


@pytest.mark.parametrize("graph", EMPTY)
def test_without_edges_the_matching_is_empty(graph):
    for matching in (
        max_weight_matching(graph),
        max_weight_matching(graph, max_cardinality=True),
        min_weight_matching(graph),
    ):
        assert matching.pairs.shape == (0, 2)
        assert matching.pairs.dtype == matching.mate.dtype == np.int64
        assert set(matching.mate.tolist()) <= {-1}
        assert (matching.weight, matching.exact, matching.gap_bound) == (0, True, 0.0)
        assert matching.verify()


def test_nothing_is_matched_perfectly():
    assert min_weight_matching((0, [], []), perfect=True).verify()


def test_without_a_demand_for_edges_none_of_weight_zero_or_less_is_used():
    graph = (6, [(0, 1), (2, 3), (4, 5)], [-1, 0, 2])
    assert max_weight_matching(graph).pairs.tolist() == [[4, 5]]
    assert max_weight_matching(graph, max_cardinality=True).cardinality == 3
    assert max_weight_matching(graph, perfect=True).weight == 1
    assert max_weight_matching((2, [(0, 1)], [-3])).pairs.tolist() == []


def test_results_are_read_only_and_can_be_pickled():
    matching = max_weight_matching((3, [(0, 1), (1, 2), (2, 0)], [6, 6, 6]))
    proof = matching.certificate
    forest = (proof.innermost, proof.parents, proof.blossom_duals, *proof.blossoms)
    for array in (matching.mate, matching.pairs, proof.duals, *forest):
        assert array.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    assert pickle.loads(pickle.dumps(matching)).verify()


# --- what is refused


@pytest.mark.parametrize(
    ("graph", "error", "message"),
    [
        (3, ValueError, r"graph must have the shape \(n, n\), not \(\)"),
        ([1, 2], ValueError, r"graph must have the shape \(n, n\), not \(2,\)"),
        ([(0, 1, 6), (1, 2, 8)], ValueError, r"not \(2, 3\); edges are .n, edges, weights."),
        (np.zeros((2, 3)), ValueError, r"not \(2, 3\)"),
        (np.zeros((2, 2, 2)), ValueError, r"not \(2, 2, 2\)"),
        ([[1, 2], [3]], ValueError, "graph is not a square array"),
        ([[0, 1], [2, 0]], ValueError, r"not symmetric: graph\[0, 1\]=1, graph\[1, 0\]=2"),
        ([[0, NAN], [2.0, 0]], ValueError, r"not symmetric: graph\[0, 1\]=nan"),
        ([[0, INF], [INF, 0]], ValueError, r"graph\[0, 1\]=inf: must be finite, or NaN"),
        ([[0, -INF], [-INF, 0]], ValueError, r"graph\[0, 1\]=-inf"),
        (np.zeros((2, 2), dtype=complex), TypeError, "graph must hold integers or floats"),
        (np.zeros((2, 2), dtype=object), TypeError, "not object"),
        ([["a", "b"], ["b", "a"]], TypeError, "not <U1"),
        (None, ValueError, "graph must have the shape"),
        ((2, []), ValueError, r"graph as a tuple must be \(n, edges, weights\), not of 2"),
        ((-1, [], []), ValueError, "n=-1"),
        ((2**31, [], []), ValueError, "n=2147483648"),
        ((2.0, [], []), TypeError, "n must be an integer, not float"),
        (([0, 1], [1, 0], [0, 0]), TypeError, "n must be an integer, not list"),
        ((2, [0, 1], [1]), ValueError, r"edges must have the shape \(m, 2\), not \(2,\)"),
        ((2, [(0, 1, 1)], [1]), ValueError, r"not \(1, 3\)"),
        ((2, [(0.0, 1.0)], [1]), TypeError, "edges must hold integers, not float64"),
        ((2, [(False, True)], [1]), TypeError, "edges must hold integers, not bool"),
        ((2, [(0, 1)], [1, 2]), ValueError, r"weights must have the shape \(1,\), not \(2,\)"),
        ((2, [(0, 1)], 1), ValueError, r"weights must have the shape \(1,\), not \(\)"),
        ((2, [(0, 1), (0, 2)], [1, 1]), ValueError, r"edges\[1\]=\[0, 2\]: vertices run from 0"),
        ((2, [(0, -1)], [1]), ValueError, r"edges\[0\]=\[0, -1\]"),
        (
            (2, np.array([[0, 2**64 - 1]], dtype=np.uint64), [1]),
            ValueError,
            r"edges\[0\]=\[0, 1844674407370955",
        ),
        ((0, [(0, 1)], [1]), ValueError, r"edges\[0\]"),
        ((2, [(1, 1)], [1]), ValueError, r"edges\[0\]=\[1, 1\]: loops are not allowed"),
        ((2, [(0, 1)], [NAN]), ValueError, r"weights\[0\]=nan: must be finite"),
        ((2, [(0, 1)], [-INF]), ValueError, r"weights\[0\]=-inf"),
        ((2, [(0, 1)], ["1"]), TypeError, "weights must hold integers or floats"),
        ((2, [(0, 1)], [1j]), TypeError, "not complex128"),
        ((2, [(0, 1)], [Fraction(1, 3)]), TypeError, "not object"),
        ((2, [(0, 1)], [2**70]), TypeError, "not object"),
        ((2, [(0, 1)], [2**59 + 1]), ValueError, "the weight 576460752303423489: allowed are"),
        ((2, [(0, 1)], [-(2**63)]), ValueError, "the weight -9223372036854775808"),
        ((2, [(0, 1)], np.array([2**64 - 1])), ValueError, "the weight 18446744073709551615"),
        (np.full((2, 2), 2**63, dtype=np.uint64), ValueError, "the weight 9223372036854775808"),
    ],
)
def test_what_is_no_graph_is_named(graph, error, message):
    for solve in (max_weight_matching, min_weight_matching):
        with pytest.raises(error, match=message):
            solve(graph)


@pytest.mark.skipif(np.finfo(np.longdouble).bits == 64, reason="longdouble is float64 here")
def test_longer_floats_are_refused():
    with pytest.raises(TypeError, match="of at most 64 bits"):
        max_weight_matching(np.zeros((2, 2), dtype=np.longdouble))


@pytest.mark.parametrize(
    ("entries", "error", "message"),
    [
        (([1, 2], ([0, 1], [1, 0])), ValueError, "graph is not symmetric: graph"),
        (([1, 1, 1], ([0, 1, 1], [1, 0, 2])), ValueError, r"entry \(1, 2\), but none at \(2, 1\)"),
        (([1, 1], ([0, 2], [1, 1])), ValueError, r"but none at"),
        (([1], ([1], [1])), ValueError, r"entry \(1, 1\): loops are not allowed"),
        (([1, 1], ([0, 0], [1, 1])), ValueError, r"entry \(0, 1\) more than once"),
        (([1, 1, 2], ([0, 1, 0], [1, 0, 1])), ValueError, "graph"),
        (([NAN], ([0], [1])), ValueError, r"graph\[0, 1\]=nan: must be finite"),
        (([INF], ([0], [1])), ValueError, r"graph\[0, 1\]=inf"),
        (([1j], ([0], [1])), TypeError, "graph must hold integers or floats"),
    ],
)
def test_what_is_no_sparse_graph_is_named(entries, error, message):
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(error, match=message):
        max_weight_matching(sparse.coo_array(entries, shape=(3, 3)))


def test_a_sparse_matrix_must_be_square():
    sparse = pytest.importorskip("scipy.sparse")
    for wrong in (sparse.csr_array((2, 3)), sparse.coo_array(np.ones(3))):
        with pytest.raises(ValueError, match="graph must have the shape"):
            max_weight_matching(wrong)


# --- exactness


@pytest.mark.parametrize("sign", [1, -1])
def test_integers_up_to_the_limit_are_exact(sign):
    high = 2**59
    graph = (4, [(0, 1), (1, 2), (2, 3)], [sign * high, sign * (high - 1), sign * (high - 3)])
    matching = max_weight_matching(graph)
    assert matching.weight == (2 * high - 3 if sign > 0 else 0)
    assert matching.verify()


def test_most_edges_are_found_where_the_offset_for_any_graph_does_not_fit():
    # Twelve vertices could have six edges, for which the weights are too far apart; the path of
    # six that has all the edges takes three, which weigh too little to leave room for a fourth.
    high = 2**57
    graph = (12, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], [1, high, 1, high, 1])
    matching = max_weight_matching(graph, max_cardinality=True)
    assert (matching.weight, matching.cardinality, matching.exact) == (3, 3, True)
    assert matching.verify()


def test_integers_however_far_apart_are_compared():
    # Eight paths of length 3: one matching with more edges must outweigh all of the middle edges.
    edges = [(4 * i + j, 4 * i + j + 1) for i in range(8) for j in range(3)]
    for high in (2**50, 2**59):
        graph = (33, edges, [-high, high, -high] * 8)
        matching = max_weight_matching(graph, max_cardinality=True)
        assert matching.weight == -16 * high
        assert matching.verify()
        floats = (33, edges, np.array(graph[2], dtype=float) / 3)
        matching = max_weight_matching(floats, max_cardinality=True)
        assert matching.cardinality == 16
        assert matching.verify()


@pytest.mark.parametrize(
    "weights",
    [
        [0.1, 0.2, 0.3],
        [1.0, 2.0**-57, 3.0],
        [1.0, 2.0**-58, 3.0],
        [1e300, 1e-300, 1.0],
        [5e-324, 1e-323, 5e-324],
        [5e-324, 2.0**-1015, 5e-324],
        [1.7976931348623157e308, 1e308, 1.7e308],
        [1.7976931348623157e308, 5e-324, 1.0],
        [-1.7976931348623157e308, 5e-324, 1.7976931348623157e308],
        [0.0, 0.0, 0.0],
        [-0.0, 0.0, 1.0],
        [2.0**100, 2.0**158, 0.0],
        [2.0**100, 2.0**159, 0.0],
    ],
)
def test_floats_are_exact_however_many_bits_they_span(weights):
    graph = (4, [(0, 1), (1, 2), (2, 3)], weights)
    matching = max_weight_matching(graph)
    value = dict(zip([(0, 1), (1, 2), (2, 3)], map(Fraction, weights), strict=True))
    best = max(max(0, value[0, 1]) + max(0, value[2, 3]), value[1, 2])
    assert sum(value[pair] for pair in map(tuple, matching.pairs.tolist())) == best
    assert (matching.exact, matching.gap_bound) == (True, 0.0)
    assert matching.verify()
    for other in (min_weight_matching(graph), max_weight_matching(graph, perfect=True)):
        assert other.cardinality == 2
        assert other.weight == weights[0] + weights[2]
        assert other.verify()


def test_floats_of_a_complete_graph_stay_exact_when_most_edges_are_asked_for():
    rng = np.random.default_rng(3)
    weights = rng.random((60, 60))
    matching = min_weight_matching(weights + weights.T)
    assert matching.exact
    assert matching.cardinality == 30
    assert matching.verify()


def test_what_the_rounding_costs_is_stated():
    rng = np.random.default_rng(5)
    edges = [(i, 0) for i in range(1, 400)]
    matching = max_weight_matching((400, edges, rng.random(399)), max_cardinality=True)
    assert matching.cardinality == 1
    assert matching.verify()
    assert matching.exact == (matching.gap_bound == 0.0)


def test_a_weight_beyond_the_floats_is_infinite():
    matching = max_weight_matching((4, [(0, 1), (2, 3)], [1.7e308, 1.7e308]))
    assert matching.weight == INF
    assert matching.cardinality == 2


# --- no perfect matching


def the_reason(graph):
    with pytest.raises(NoPerfectMatchingError) as caught:
        min_weight_matching(graph, perfect=True)
    with pytest.raises(NoPerfectMatchingError):
        max_weight_matching(graph, perfect=True)
    return caught.value


def test_an_odd_component_is_named():
    error = the_reason((6, [(0, 1), (2, 3), (3, 4)], [1, 1, 1]))
    assert str(error) == "the component of vertex 2 has 3 vertices, an odd number"
    assert (error.removed, error.odd_components) == ((), ((2, 3, 4), (5,)))
    assert isinstance(error, ValueError)
    assert isinstance(error, HivecoreError)
    assert pickle.loads(pickle.dumps(error)).odd_components == error.odd_components


def test_a_vertex_without_edges_is_named():
    assert str(the_reason((4, [(0, 2)], [5]))) == "vertex 1 has no edge"
    assert str(the_reason([[7]])) == "vertex 0 has no edge"


def test_a_set_that_too_many_components_need_is_named():
    star = the_reason((4, [(0, 3), (1, 3), (2, 3)], [1, 2, 3]))
    assert (star.removed, star.odd_components) == ((3,), ((0,), (1,), (2,)))
    assert str(star).startswith("without the vertices {3}, 1 in number, 3 components of odd size")
    # Three triangles that share one neighbour.
    edges = [(3 * i + a, 3 * i + b) for i in range(3) for a, b in ((0, 1), (1, 2), (0, 2))]
    edges += [(0, 9), (3, 9), (6, 9)]
    dense = np.full((10, 10), NAN)
    for u, v in edges:
        dense[u, v] = dense[v, u] = -2.0
    for graph in ((10, edges, [4] * len(edges)), dense):
        error = the_reason(graph)
        assert error.removed == (9,)
        assert error.odd_components == ((0, 1, 2), (3, 4, 5), (6, 7, 8))


# --- certificates


@pytest.fixture
def two_triangles():
    """Two triangles joined by an edge, with one blossom in the proof."""
    edges = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]
    matching = max_weight_matching((6, edges, [8, 8, 8, 8, 8, 8, 1]))
    assert matching.verify()
    assert matching.certificate.blossoms
    return matching


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


def corruptions(result):
    proof = result.certificate
    yield "mate must be int64", replace(result, mate=result.mate[:-1])
    yield "mate must be int64", replace(result, mate=result.mate.astype(np.int32))
    yield r"mate\[0\]=6: vertices run", replace(result, mate=changed(result.mate, 0, 6))
    yield r"mate\[0\]=-2: vertices run", replace(result, mate=changed(result.mate, 0, -2))
    yield r"mate\[0\]=0, but", replace(result, mate=changed(result.mate, 0, 0))
    u, v = result.pairs[0].tolist()
    yield rf"mate\[{v}\]={u}, but mate\[{u}\]=-1", replace(result, mate=changed(result.mate, u, -1))
    yield "pairs and mate differ", replace(result, pairs=result.pairs[::-1])
    yield "pairs and mate differ", replace(result, mate=np.full(6, -1))
    no_edge = np.array([5, -1, -1, -1, -1, 0])
    wrong = replace(result, mate=no_edge, pairs=np.array([[0, 5]]))
    yield r"pair \(0, 5\) is not an edge", wrong
    yield "weight=1,", replace(result, weight=1)
    yield "weight=.*, but the pairs weigh", replace(result, weight=float(result.weight))
    yield "gap_bound=1.0", replace(result, gap_bound=1.0)

    def proven(**fields):
        return replace(result, certificate=replace(proof, **fields))

    free = int(np.flatnonzero(result.mate < 0)[0]) if (result.mate < 0).any() else None
    if free is not None:
        yield "must be 0, since the vertex is free", proven(duals=changed(proof.duals, free, 2))
    yield "must be from 0 to", proven(duals=changed(proof.duals, 0, -1))
    yield "must be from 0 to", proven(duals=changed(proof.duals, 0, 2**62))
    yield "duals must be int64", proven(duals=proof.duals[:-1])
    yield "duals must be int64", proven(duals=proof.duals.astype(float))
    for name in ("innermost", "parents", "blossom_duals"):
        array = getattr(proof, name)
        yield f"{name} must be int64", proven(**{name: array.astype(np.int32)})
        yield f"{name} must be int64", proven(**{name: array[None]})
    yield "innermost must be int64", proven(innermost=proof.innermost[:-1])
    yield "blossom_duals must be int64", proven(parents=np.append(proof.parents, -1))
    nothing = np.zeros(0, dtype=np.int64)
    yield "blossoms run from 0 to -1", proven(parents=nothing, blossom_duals=nothing)
    outside = np.full(6, -1)
    yield (
        "edge .* is not covered",
        proven(innermost=outside, parents=nothing, blossom_duals=nothing),
    )
    yield "has 0 vertices: not odd, or < 3", proven(innermost=outside)
    k = len(proof.parents)
    for i in range(k):
        for value, says in (
            (0, "must be positive"),
            (proof.blossom_duals[i] - 1, "is not covered|sum up to|must be positive"),
            (proof.blossom_duals[i] + 1, "sum up to"),
            (2**62, "too large to be optimal"),
        ):
            yield says, proven(blossom_duals=changed(proof.blossom_duals, i, value))
        for parent in (i, i + 1, -2, 2**40):
            yield (
                rf"parents\[{i}\]={parent}: must be a blossom before it",
                proven(parents=changed(proof.parents, i, parent)),
            )
        inside, outside = proof.blossoms[i], np.setdiff1d(np.arange(6), proof.blossoms[i])
        for v, blossom, says in (
            (inside[0], -1, "2 vertices: not odd, or < 3"),
            (inside[:2], -1, "1 vertices: not odd, or < 3"),
            (outside[0], i, r"[24] vertices: not odd, or < 3"),
            (outside[:2], i, r"1 vertices: not odd|\d matched edges, too few"),
            (0, k, rf"innermost\[0\]={k}: blossoms run from 0 to {k - 1}"),
            (5, -2, r"innermost\[5\]=-2: blossoms run"),
        ):
            yield says, proven(innermost=changed(proof.innermost, v, blossom))
    yield "blossom 0 has 6 vertices: not odd", proven(parents=np.array([-1, 0]))
    yield "sense=0", proven(sense=0)
    yield "offset=0", proven(sense=-1)
    yield "offset=7: must be 0", proven(offset=7)
    yield "is not covered|sum up to", proven(offset=7, most_edges=True)
    yield "beyond 2.*61", proven(offset=2**62, most_edges=True)
    yield "exponent=1", proven(exponent=1)


def test_every_corruption_is_found(two_triangles):
    for says, wrong in corruptions(two_triangles):
        with pytest.raises(CertificateError, match=says):
            wrong.verify()


def test_a_blossom_that_is_not_full_is_found():
    matching = max_weight_matching((3, [(0, 1), (1, 2), (0, 2)], [5, 5, 5]))
    proof = matching.certificate
    unmatched = replace(matching, mate=np.full(3, -1), pairs=np.zeros((0, 2), dtype=np.int64))
    with pytest.raises(CertificateError, match="blossom 0 has 0 matched edges, too few"):
        unmatched.verify()
    twice = replace(proof, parents=np.array([-1, 0]), blossom_duals=np.array([6, 4]))
    with pytest.raises(CertificateError, match="blossom 1 has 0 vertices: not odd"):
        replace(matching, certificate=twice).verify()
    inner = replace(twice, innermost=proof.innermost + 1)  # two blossoms of the same vertices
    assert replace(matching, certificate=inner).verify()


def test_the_sum_of_nested_duals_is_bounded():
    matching = max_weight_matching((3, [(0, 1), (1, 2), (0, 2)], [5, 5, 5]))
    k = 17
    parents, heavy = np.arange(-1, k - 1), np.full(k, 2**60)
    proof = replace(matching.certificate, innermost=np.full(3, k - 1), parents=parents)
    with pytest.raises(CertificateError, match=r"blossom_duals\[1\]=1152.*too large"):
        replace(matching, certificate=replace(proof, blossom_duals=heavy)).verify()


def test_an_offset_that_shows_nothing_is_found():
    # Heaviest alone, the middle edge wins; it is no proof about matchings of two edges.
    graph = (4, [(0, 1), (1, 2), (2, 3)], [1, 9, 1])
    matching = max_weight_matching(graph)
    claimed = replace(matching, certificate=replace(matching.certificate, most_edges=True))
    with pytest.raises(CertificateError, match="offset=0 does not show that no matching has more"):
        claimed.verify()
    assert max_weight_matching(graph, max_cardinality=True).certificate.offset > 0


def test_a_claim_of_exactness_is_checked(monkeypatch):
    monkeypatch.setattr("hivecore.matching.solve._MANY_EDGES", 1)
    with pytest.warns(InexactWarning):
        rounded = max_weight_matching((3, [(0, 1), (1, 2)], [1.0, 2.0**-100]))
    assert not rounded.exact
    with pytest.raises(CertificateError, match="does not divide every weight"):
        replace(rounded, exact=True, gap_bound=0.0).verify()
    with pytest.raises(CertificateError, match=r"gap_bound=0\.0, but the certificate gives"):
        replace(rounded, gap_bound=0.0).verify()
    coarse = replace(rounded.certificate, exponent=2)
    with pytest.raises(CertificateError):
        replace(rounded, certificate=coarse).verify()
    fine = replace(rounded.certificate, exponent=-70)
    with pytest.raises(CertificateError, match="too large for this certificate"):
        replace(rounded, certificate=fine).verify()


def test_a_graph_that_changed_since_is_found():
    weights = np.array(SQUARE, dtype=float)
    matching = max_weight_matching(weights)
    weights[0, 3] = weights[3, 0] = 50.0
    with pytest.raises(CertificateError, match=r"edge \(0, 3\) is not covered"):
        matching.verify()
    weights[0, 3] = weights[3, 0] = INF
    with pytest.raises(CertificateError, match="a weight is not finite"):
        matching.verify()
    weights[0, 1] = weights[1, 0] = NAN
    with pytest.raises(CertificateError, match=r"pair \(0, 1\) is not an edge"):
        matching.verify()


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_nested_blossoms_are_verified(k):
    """Blossom i holds the vertices 0 to 2i: an edge is covered by all those that hold both ends."""
    rng = np.random.default_rng(k)
    blossom_duals = 2 * rng.integers(1, 100, k)
    around = np.append(np.cumsum(blossom_duals[::-1])[::-1] // 2, 0)
    last = np.arange(2 * k + 1)
    weights = around[np.maximum((np.maximum(last[:, None], last) + 1) // 2 - 1, 0)]
    matching = max_weight_matching(weights)
    assert matching.weight == around[:k].sum()
    proof = replace(
        matching.certificate,
        duals=np.zeros(2 * k + 1, dtype=np.int64),
        innermost=k - 1 - np.maximum((last + 1) // 2 - 1, 0),
        parents=np.arange(-1, k - 1),
        blossom_duals=blossom_duals[::-1].copy(),
    )
    assert [sorted(blossom.tolist()) for blossom in proof.blossoms] == [
        list(range(2 * i + 3)) for i in reversed(range(k))
    ]
    mate = np.array([-1, *(v + 1 if v % 2 else v - 1 for v in range(1, 2 * k + 1))])
    pairs = np.arange(1, 2 * k + 1).reshape(k, 2)
    by_hand = replace(matching, mate=mate, pairs=pairs, certificate=proof)
    assert by_hand.verify()
    for u, v in rng.integers(0, 2 * k + 1, (20, 2)):
        if u != v and mate[u] != v:
            weights[u, v] = weights[v, u] = weights[u, v] + 1
            edge = rf"edge \(({u}, {v}|{v}, {u})\) is not covered: its duals are 2 less"
            with pytest.raises(CertificateError, match=edge):
                by_hand.verify()
            weights[u, v] = weights[v, u] = weights[u, v] - 1
    assert by_hand.verify()


def test_a_nesting_of_100_000_blossoms_is_no_burden():
    """Blossom i holds the vertices 0 to 2i + 2; only the matched edges exist."""
    k = 100_000
    pairs = np.arange(1, 2 * k + 1).reshape(k, 2)
    weights = np.arange(k, 0, -1)
    matching = max_weight_matching((2 * k + 1, pairs, weights))
    vertices = np.arange(2 * k + 1)
    proof = replace(
        matching.certificate,
        duals=np.zeros(2 * k + 1, dtype=np.int64),
        innermost=k - 1 - np.maximum((vertices + 1) // 2 - 1, 0),
        parents=np.arange(-1, k - 1),
        blossom_duals=np.full(k, 2),
    )
    nested = replace(matching, certificate=proof)
    assert nested.verify()
    assert len(proof.blossoms) == k
    assert set(proof.blossoms[-2].tolist()) == {0, 1, 2, 3, 4}
    short = replace(proof, blossom_duals=changed(proof.blossom_duals, 0, 1))
    with pytest.raises(CertificateError, match=r"is not covered: its duals are 1 less"):
        replace(nested, certificate=short).verify()
