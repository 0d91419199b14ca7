"""One call of the kernel: weights become integers there, duals come back as a certificate."""

import math
import time
from typing import NamedTuple

import numpy as np

from hivecore import _matching
from hivecore.errors import NoPerfectMatchingError
from hivecore.matching.certificate import Certificate, integer_weight
from hivecore.matching.graph import Graph, Int64, Sparse
from hivecore.matching.integers import Integers
from hivecore.matching.read import as_native
from hivecore.matching.result import Matching, gap_of, total_weight
from hivecore.matching.warm import Start, start_from
from hivecore.matching.witness import edges_of, explain_no_perfect_matching

__all__ = ["Answer", "Problem", "attempt", "matching_of", "no_perfect_matching", "nothing"]

_Solution = tuple[Int64, Int64, Int64, Int64, Int64]


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


class Answer(NamedTuple):
    """What the kernel found."""

    mate: Int64
    certificate: Certificate
    excess: int
    """Of the certificate's bound over twice the integer weight; 0: the best for the integers."""
    rounded: bool
    """Whether the integers are not exactly the weights."""

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
    return Answer(free, proof, 0, False)


def attempt(problem: Problem, integers: Integers, offset: int) -> Answer:
    """The matching of the greatest weight, where weights count ``sense * integer + offset``."""
    exponent, exact, low, high = integers
    sense = problem.sense
    heaviest = max(sense * low, sense * high) + offset
    start = start_from(problem.initial, exponent, offset, sense)
    mate, duals, innermost, parents, blossom_duals = _call(
        problem, (exponent, sense, offset, heaviest), start, problem.deadline
    )
    certificate = Certificate(
        duals, innermost, parents, blossom_duals, exponent, offset, sense, problem.most_edges
    )
    excess = 0
    if problem.deadline < math.inf:
        excess = certificate.bound() - 2 * integer_weight(problem.graph, mate, certificate)
    return Answer(mate, certificate, excess, not exact)


def matching_of(graph: Graph, answer: Answer, *, certificate: bool) -> Matching:
    """The answer in terms of the graph.

    :param certificate: whether the proof stays with it, and with that the graph.
    """
    mate, proof, excess, rounded = answer
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
    _, duals, *_ = _call(problem, (exponent, 0, 1, 1), Start(), math.inf)
    return explain_no_perfect_matching(problem.graph.n, *edges_of(problem.graph), duals)


def _call(
    problem: Problem, scale: tuple[int, int, int, int], start: Start, deadline: float
) -> _Solution:
    graph = problem.graph
    weights = as_native(graph.weights)
    counts = _matching.counted(weights, *scale) if isinstance(graph, Sparse) else weights
    left = deadline - time.monotonic() if deadline < math.inf else math.inf
    if isinstance(graph, Sparse):
        rows = (graph.n, graph.offsets, graph.neighbours, counts)
        return _matching.solve_sparse(*rows, *start, problem.threads, left)
    return _matching.solve_dense(weights, *scale, *start, left)
