"""Few vertices go a shorter way, with the same answers and errors: one native call.

`threads=2` takes the general way, and the answer does not depend on the number of threads.
"""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from profiles import examples

from hivecore import _matching
from hivecore.errors import NoPerfectMatchingError
from hivecore.matching import Certificate, Matching, max_weight_matching, min_weight_matching
from hivecore.matching.graph import Dense, Sparse
from hivecore.reference.matching import max_weight_matching as twin

WAYS = {
    "heaviest": max_weight_matching,
    "most edges": lambda graph, **options: max_weight_matching(
        graph, max_cardinality=True, **options
    ),
    "perfect": lambda graph, **options: max_weight_matching(graph, perfect=True, **options),
    "lightest": min_weight_matching,
}
PROOF = ["duals", "innermost", "parents", "blossom_duals"]
SCALE = ["exponent", "offset", "sense", "most_edges", "floor"]

KINDS = {
    "i1": (-100, 100),
    "u2": (0, 9),
    "i4": (-5, 5),
    "i8": (-(2**40), 2**40),
    "u8": (0, 2**60),
    "f4": (-(2**20), 2**20),
    "f8": (-(2**53), 2**53),
}
GRIDS = [0, 3, -1, -1070, 900, 960]


@st.composite
def weights(draw, vertices=64):
    """A square array of any dtype, of few or many different weights, sometimes with holes."""
    n = draw(st.integers(0, vertices))
    kind = draw(st.sampled_from(sorted(KINDS)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    low, high = (max(-3, KINDS[kind][0]), 4) if draw(st.booleans()) else KINDS[kind]
    array = rng.integers(low, high, (n, n))
    array = np.triu(array, 1)
    array = (array + array.T).astype(kind)
    if kind.startswith("f"):
        exponent = draw(st.sampled_from(GRIDS[:3] if kind == "f4" else GRIDS))
        array = np.ldexp(array, exponent).astype(kind)
        missing = np.triu(rng.random((n, n)) < draw(st.sampled_from([0, 0.3, 0.9])), 1)
        array[missing | missing.T] = np.nan
    return array


def edge_list(array, kind="i8"):
    u, v = np.nonzero(np.triu(array == array, 1))
    return len(array), np.stack([v, u], axis=1).astype(kind), array[u, v]


def outcome(way, graph, **options):
    """All that a call tells, as plain values; of an error its type and its message."""
    try:
        result = WAYS[way](graph, **options)
    except Exception as error:
        return type(error), str(error)
    proof = result.certificate
    assert result.verify()
    assert not result.mate.flags.writeable
    assert not result.pairs.flags.writeable
    assert result.mate.dtype == result.pairs.dtype == np.int64
    return (
        result.mate.tolist(),
        result.pairs.tolist(),
        result.pairs.shape,
        (type(result.weight), result.weight),
        (result.exact, result.gap_bound),
        [getattr(proof, name).tolist() for name in PROOF],
        [(getattr(proof, name).dtype, getattr(proof, name).flags.writeable) for name in PROOF],
        [getattr(proof, name) for name in SCALE],
        [(type(getattr(proof, name)), name) for name in SCALE],
    )


@given(weights(), st.sampled_from(sorted(WAYS)))
@examples(400)
@example(np.zeros((0, 0)), "heaviest")
@example(np.zeros((1, 1)), "lightest")
@example(np.full((2, 2), np.nan), "most edges")
@example(np.full((64, 64), 2**57 - 1), "heaviest")
@example(np.full((64, 64), 2**59), "heaviest")
@example(np.array([[0, -(2**59)], [-(2**59), 0]]), "lightest")
@example(np.array([[0, 2**59 + 1], [2**59 + 1, 0]]), "heaviest")
@example(np.array([[0, 2**64 - 1], [2**64 - 1, 0]], dtype="u8"), "heaviest")
@example(np.array([[0, 1.7e308], [1.7e308, 0]]), "most edges")
@example(np.array([[0, -1e300, 1], [-1e300, 0, 2], [1, 2, 0]]), "heaviest")
@example(np.array([[0, -0.0], [-0.0, 0]]), "most edges")
@example(np.array([[0, 5e-324], [5e-324, 0]]), "heaviest")
def test_arrays_have_the_answer_of_the_general_way(array, way):
    assert outcome(way, array) == outcome(way, array, threads=2)


@given(weights(40), st.sampled_from(sorted(WAYS)), st.sampled_from(["i8", "u1", "i4"]))
@examples(300)
@example(np.full((3, 3), np.nan), "heaviest", "i8")
def test_edge_lists_have_the_answer_of_the_general_way(array, way, kind):
    graph = edge_list(array, kind)
    assert outcome(way, graph) == outcome(way, graph, threads=2)


@given(weights(), st.sampled_from(sorted(WAYS)), st.sampled_from(["F", "reversed", "every other"]))
@examples(150)
def test_any_strides_and_read_only_arrays_are_read(array, way, order):
    n = len(array)
    wide = np.zeros((2 * n, 2 * n), array.dtype)
    wide[::2, ::2] = array
    given = {
        "F": np.asfortranarray(array),
        "reversed": array[::-1, ::-1].copy()[::-1, ::-1],
        "every other": wide[::2, ::2],
    }[order]
    given.flags.writeable = False
    assert outcome(way, given) == outcome(way, array)


@given(weights())
@examples(100)
def test_matchings_weigh_what_the_twin_finds(array):
    n, ends, values = edge_list(array)
    scale = np.abs(values.astype(float)).max(initial=0)
    assume(scale < 2**58)
    counts = [int(value * 2**20) for value in values.tolist()]
    assume([count / 2**20 for count in counts] == values.tolist())
    mate = twin(n, ends.tolist(), counts).mate
    weight = {(v, u): value for (u, v), value in zip(ends.tolist(), values.tolist(), strict=True)}
    best = sum(weight[u, v] for u, v in enumerate(mate) if u < v)
    for form in (array, (n, ends, values)):
        assert max_weight_matching(form).weight == pytest.approx(best, rel=1e-14)
        assert max_weight_matching(form, threads=2).weight == pytest.approx(best, rel=1e-14)


class Kept(np.ndarray):
    pass


HOSTILE = {
    "an asymmetric array": np.array([[0, 1], [2, 0]]),
    "an asymmetric NaN": np.array([[0, np.nan], [2.0, 0]]),
    "an infinite weight": np.array([[0, np.inf], [np.inf, 0]]),
    "minus infinity": np.array([[0, -np.inf], [-np.inf, 0]]),
    "an oblong array": np.zeros((2, 3)),
    "a cube": np.zeros((2, 2, 2)),
    "a list": np.zeros(4),
    "a number": np.float64(3),
    "objects": np.array([[0, 1], [1, 0]], dtype=object),
    "huge integers": np.array([[0, 2**70], [2**70, 0]], dtype=object),
    "too large": np.full((3, 3), 2**62),
    "too small": np.full((3, 3), -(2**62)),
    "unsigned": np.full((3, 3), 2**63 + 1, dtype=np.uint64),
    "complex": np.zeros((2, 2), dtype=complex),
    "text": np.array([["a", "b"], ["b", "a"]]),
    "times": np.zeros((2, 2), dtype="m8[s]"),
    "long doubles": np.zeros((2, 2), dtype=np.longdouble),
    "records": np.zeros((2, 2), dtype=[("a", int)]),
    "halves": np.ones((3, 3), dtype=np.float16),
    "bools": np.ones((3, 3), dtype=bool),
    "a foreign byte order": np.ones((3, 3), dtype=">i8"),
    "unaligned": np.frombuffer(b"\0" * 73, dtype=np.uint8)[1:].view("f8").reshape(3, 3),
    "masked": np.ma.array(np.ones((3, 3)), mask=np.eye(3)),
    "zero strides": np.broadcast_to(np.int64(7), (5, 5)),
    "a subclass": np.array([[0, 1], [1, 0]]).view(Kept),
    "nothing": None,
    "nested lists": [[0, 1], [1, 0]],
    "ragged lists": [[0, 1], [1]],
    "a pair": (2, np.zeros((0, 2), dtype=int)),
    "a float n": (2.0, np.array([[0, 1]]), np.array([1])),
    "a bool n": (True, np.zeros((0, 2), dtype=int), np.zeros(0)),
    "a negative n": (-1, np.array([[0, 1]]), np.array([1])),
    "no vertices": (0, np.zeros((0, 2), dtype=int), np.zeros(0)),
    "a huge n": (2**80, np.array([[0, 1]]), np.array([1])),
    "an end too high": (2, np.array([[0, 2]]), np.array([1])),
    "an end below 0": (2, np.array([[0, -1]]), np.array([1])),
    "an end beyond int64": (2, np.array([[0, 2**64 - 1]], dtype=np.uint64), np.array([1])),
    "float ends": (2, np.array([[0.0, 1.0]]), np.array([1])),
    "bool ends": (2, np.array([[False, True]]), np.array([1])),
    "a loop": (2, np.array([[1, 1]]), np.array([1])),
    "three ends": (3, np.array([[0, 1, 2]]), np.array([1])),
    "few weights": (3, np.array([[0, 1], [1, 2]]), np.array([1])),
    "many weights": (3, np.array([[0, 1]]), np.array([1, 2])),
    "weights in rows": (3, np.array([[0, 1]]), np.array([[1]])),
    "a NaN": (3, np.array([[0, 1], [1, 2]]), np.array([np.nan, 1])),
    "infinite": (3, np.array([[0, 1], [1, 2]]), np.array([1, -np.inf])),
    "object weights": (3, np.array([[0, 1]]), np.array([1], dtype=object)),
    "parallel edges": (3, np.array([[0, 1], [1, 0], [1, 2]]), np.array([1, 7, 5])),
    "reversed ends": (3, np.array([[0, 1], [1, 2]])[::-1, ::-1], np.array([1, 2, 3])[::2]),
    "masked weights": (3, np.array([[0, 1]]), np.ma.array([1], mask=[True])),
    "edges in lists": (3, [(0, 1), (1, 2)], [4, 5]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", HOSTILE)
def test_bad_input_is_refused_as_on_the_general_way(name, way):
    answers = outcome(way, HOSTILE[name])
    assert answers == outcome(way, HOSTILE[name], threads=2)
    if isinstance(answers[0], type):
        assert issubclass(answers[0], (ValueError, TypeError, NoPerfectMatchingError))


@pytest.mark.parametrize(
    "bad", [{"threads": 0}, {"threads": "1"}, {"time_limit": 0}, {"initial": 3}]
)
@pytest.mark.parametrize("solve", [max_weight_matching, min_weight_matching])
def test_bad_options_are_refused_for_few_vertices_too(solve, bad):
    with pytest.raises((ValueError, TypeError), match=next(iter(bad))):
        solve(np.ones((4, 4)), **bad)


@pytest.mark.parametrize("truth", ["yes", np.True_, 1, [0]])
def test_whatever_is_true_asks_for_most_edges(truth):
    array = -np.ones((4, 4))
    assert max_weight_matching(array, max_cardinality=truth).cardinality == 2
    assert max_weight_matching(array, perfect=truth).cardinality == 2


class Untrue:
    def __bool__(self):
        raise ZeroDivisionError


def test_the_binding_declines_what_is_not_for_it():
    for graph in (None, 3, "abcd", [], (), (1, 2, 3), np.zeros((65, 65)), np.zeros((3, 3), "c16")):
        assert _matching.solve_small(Matching, graph, 1, False, False, True) is None
    for options in ((Untrue(), False, True), (False, Untrue(), True), (False, False, Untrue())):
        with pytest.raises(ZeroDivisionError):
            _matching.solve_small(Matching, np.ones((3, 3)), 1, *options)
    with pytest.raises(TypeError):
        _matching.solve_small(3, np.ones((3, 3)), 1, False, False, True)
    with pytest.raises(AttributeError):  # a class whose objects have no fields
        _matching.solve_small(object, np.ones((3, 3)), 1, False, False, True)


# --- what is put off until it is read


@pytest.fixture(params=["array", "edge list"])
def result(request):
    array = np.array([[0, 6, 6, 1], [6, 0, 6, 0], [6, 6, 0, 0], [1, 0, 0, 0]])
    return max_weight_matching(array if request.param == "array" else edge_list(array))


def test_the_certificate_is_made_once_when_it_is_read(result):
    assert "certificate" not in vars(result)
    assert isinstance(result.certificate, Certificate)
    assert result.certificate is result.certificate
    assert "certificate=Certificate" in repr(result)
    assert isinstance(result._graph, (Dense, Sparse))
    with pytest.raises(AttributeError, match="no attribute 'gap'"):
        result.gap  # noqa: B018


def test_threads_that_read_it_at_once_get_the_same_certificate(result):
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda _: result.certificate, range(8)))
    assert all(proof is read[0] for proof in read)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))]
)
@pytest.mark.parametrize("is_read", [False, True])
def test_it_can_be_copied_before_and_after(result, again, is_read):
    proof = result.certificate if is_read else None
    other = again(result)
    assert other.verify()
    assert other.certificate.duals.tolist() == result.certificate.duals.tolist()
    assert proof is None or result.certificate is proof


def test_an_edge_list_that_is_written_to_later_does_not_change_the_proof():
    n, ends, values = edge_list(np.array([[0, 6, 5], [6, 0, 8], [5, 8, 0]]))
    matching = max_weight_matching((n, ends, values))
    ends[:], values[:] = 0, 0
    assert matching.verify()


def test_an_array_that_is_written_to_later_fails_the_proof():
    array = np.array([[0, 6, 5], [6, 0, 8], [5, 8, 0]])
    matching = max_weight_matching(array)
    array[:] = 9
    with pytest.raises(Exception, match=r"not covered|pairs weigh"):
        matching.verify()


def test_without_a_certificate_nothing_is_kept():
    matching = max_weight_matching(np.ones((4, 4)), certificate=False)
    assert matching.certificate is None
    assert matching._graph is None
    assert vars(matching)["_later"] is None


def test_it_is_where_another_search_may_begin(result):
    array = np.array([[0, 6, 6, 1], [6, 0, 6, 0], [6, 6, 0, 9], [1, 0, 9, 0]])
    assert max_weight_matching(array, initial=result).weight == 15
