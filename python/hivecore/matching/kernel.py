"""One call of the kernel: weights become integers there, duals come back as a certificate."""

import math
import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore import _matching
from hivecore.errors import NoPerfectMatchingError
from hivecore.matching.certificate import Certificate, integer_weight, is_below_floor
from hivecore.matching.graph import Graph, Int64, Sparse, as_rows
from hivecore.matching.integers import LIMIT, Integers
from hivecore.matching.read import as_native
from hivecore.matching.result import Matching, gap_of, total_weight
from hivecore.matching.warm import Start, start_from
from hivecore.matching.witness import edges_of, explain_no_perfect_matching

__all__ = [
    "Answer",
    "Problem",
    "attempt",
    "heaviest_of",
    "matching_of",
    "no_perfect_matching",
    "nothing",
]

_Solution = tuple[Int64, Int64, Int64, Int64, Int64]

_WORDS = (2, 4, 34)  # of 64 bits, that the kernel can count in


class Problem(NamedTuple):
    """What is asked, however the weights become integers."""

    graph: Graph
    sense: int
    """-1: the lightest matching is wanted."""
    most_edges: bool
    """Whether only matchings of as many edges as possible compete."""
    threads: int = 1
    deadline: float = math.inf
    """When to end the search, on the clock `time.monotonic`."""
    initial: Matching | None = None
    """A matching of a similar graph, to begin with."""


class _Scale(NamedTuple):
    """How weights count, as the kernel takes it."""

    exponent: int
    sense: int
    offset: int
    heaviest: int
    floor: int = -(2**63)


class Answer(NamedTuple):
    """What the kernel found."""

    mate: Int64
    certificate: Certificate
    excess: int
    """Of the certificate's bound over twice the integer weight; 0: the best for the integers."""
    rounded: bool
    """Whether the integers are not exactly the weights."""
    floored: bool
    """Whether a pair counts as more than it weighs."""

    @property
    def cardinality(self) -> int:
        """The number of pairs."""
        return int(np.count_nonzero(self.mate >= 0)) // 2


def nothing(problem: Problem) -> Answer:
    """The answer for a graph without edges."""
    graph, sense, most_edges, *_ = problem
    free, none = np.full(graph.n, -1), np.zeros(0, dtype=np.int64)
    proof = Certificate(
        np.zeros_like(free), free.copy(), none, none.copy(), 0, 0, sense, most_edges
    )
    return Answer(free, proof, 0, False, False)


def attempt(problem: Problem, integers: Integers, offset: int) -> Answer:
    """The matching of the greatest weight, where weights count ``sense * integer + offset``.

    In int64 if that holds what the heaviest then counts.
    """
    exponent, exact, low, high, floor = integers
    sense = problem.sense
    heaviest = max(sense * low, sense * high) + offset
    scale = _Scale(exponent, sense, offset, heaviest)
    if heaviest > LIMIT:
        bits = max(heaviest, abs(low), abs(high)).bit_length()
        mate, duals, innermost, parents, blossom_duals = _call_wide(problem, scale, bits)
    else:
        start = start_from(problem.initial, exponent, offset, sense)
        if floor is not None:
            scale = scale._replace(floor=floor)
        solution = _call(problem, scale, start, problem.deadline)
        mate, duals, innermost, parents, blossom_duals = solution
    most = problem.most_edges
    certificate = Certificate(
        duals,
        innermost,
        parents,
        blossom_duals,
        exponent,
        offset,
        sense,
        most,
        floor if most else None,
    )
    excess = 0
    if problem.deadline < math.inf:
        excess = certificate.bound() - 2 * integer_weight(problem.graph, mate, certificate)
    floored = certificate.floor is not None and bool(
        is_below_floor(_pair_weights(problem.graph, mate), certificate).any()
    )
    return Answer(mate, certificate, excess, not exact, floored)


def heaviest_of(graph: Graph, answer: Answer) -> float:
    """The greatest magnitude of a pair's weight."""
    return float(np.abs(_pair_weights(graph, answer.mate)).max(initial=0.0))


def _pair_weights(graph: Graph, mate: Int64) -> npt.NDArray[Any]:
    u = np.flatnonzero(mate > np.arange(graph.n))
    return graph.weights_of(u, mate[u])


def matching_of(graph: Graph, answer: Answer, *, certificate: bool) -> Matching:
    """The answer in terms of the graph.

    :param certificate: whether the proof stays with it, and with that the graph.
    """
    mate, proof, excess, rounded, _ = answer
    u = np.flatnonzero(mate > np.arange(graph.n))
    pairs = np.empty((len(u), 2), dtype=np.int64)
    pairs[:, 0], pairs[:, 1] = u, mate[u]
    if isinstance(graph, Sparse):
        weights = graph.weights[
            _matching.entries_of(graph.offsets, graph.neighbours, u, pairs[:, 1])
        ]
    else:
        weights = graph.weights_of(u, mate[u])
    weight = total_weight(weights)
    gap = gap_of(excess, graph.n if rounded else 0, proof)
    forest = (proof.innermost, proof.parents, proof.blossom_duals)
    for array in (mate, pairs, proof.duals, *forest):
        array.flags.writeable = False
    kept = (proof, graph) if certificate else (None, None)
    return Matching(mate, pairs, weight, gap == 0.0, gap, *kept)


def no_perfect_matching(problem: Problem, exponent: int) -> NoPerfectMatchingError:
    """The error that says why: read off the duals of the same graph with all weights 1."""
    _, duals, *_ = _call(problem, _Scale(exponent, 0, 1, 1), Start(), math.inf)
    return explain_no_perfect_matching(problem.graph.n, *edges_of(problem.graph), duals)


def _call(problem: Problem, scale: _Scale, start: Start, deadline: float) -> _Solution:
    graph = problem.graph
    weights = as_native(graph.weights)
    if isinstance(graph, Sparse):
        counts = _matching.counted(weights, *scale)
        rows = (graph.n, graph.offsets, graph.neighbours, counts)
        return _matching.solve_sparse(*rows, *start, problem.threads, _left(deadline))
    return _matching.solve_dense(weights, *scale, *start, _left(deadline))


def _call_wide(problem: Problem, scale: _Scale, bits: int) -> _Solution:
    """The same in integers as wide as it takes, of which duals come back as Python ints."""
    rows = as_rows(problem.graph)
    words = next(words for words in _WORDS if bits + 5 <= 64 * words)
    mate, duals, innermost, parents, blossom_duals = _matching.solve_wide(
        rows.n,
        rows.offsets,
        rows.neighbours,
        as_native(rows.weights),
        scale.exponent,
        scale.sense,
        offset=_as_words(scale.offset, words),
        threads=problem.threads,
        time_limit=_left(problem.deadline),
    )
    return mate, _as_ints(duals, words), innermost, parents, _as_ints(blossom_duals, words)


def _as_words(value: int, words: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(value.to_bytes(8 * words, "little", signed=True), "<u8").astype(np.uint64)


def _as_ints(values: npt.NDArray[np.uint64], words: int) -> npt.NDArray[Any]:
    ints = np.zeros(len(values) // words, dtype=object)
    for i, row in enumerate(values.reshape(-1, words)):
        ints[i] = int.from_bytes(row.astype("<u8").tobytes(), "little")
    return ints


def _left(deadline: float) -> float:
    return deadline - time.monotonic() if deadline < math.inf else math.inf
