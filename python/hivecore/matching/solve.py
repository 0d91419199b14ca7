"""The calls: arguments are checked, the kernel solves integers, the answer gets its names back.

Matchings of most edges are asked of the same kernel: with a large enough ``offset`` on every weight
a matching of one more edge always weighs more. How large depends on what is known: see `_offset`.
"""

import math
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from hivecore._arguments import as_int
from hivecore.errors import InexactWarning
from hivecore.matching.integers import LIMIT, Extent, Integers
from hivecore.matching.kernel import (
    Answer,
    Problem,
    attempt,
    heaviest_of,
    matching_of,
    no_perfect_matching,
    nothing,
)
from hivecore.matching.read import read_graph
from hivecore.matching.result import Matching
from hivecore.matching.warm import as_initial

__all__ = ["max_weight_matching", "min_weight_matching"]

_FOREVER = 1e9  # seconds
_MANY_EDGES = 2**17  # of more, floats are rounded where wide integers gain little: slow and large
_FEW_BITS = 12  # that do not fit; so many may well be lost where weights are added as floats


def max_weight_matching(
    graph: Any,
    *,
    max_cardinality: bool = False,
    perfect: bool = False,
    certificate: bool = True,
    threads: int = 1,
    time_limit: float | None = None,
    initial: Matching | None = None,
) -> Matching:
    """A matching of the greatest total weight.

    :param graph: one of
        a symmetric array of shape (n, n), integers or floats, its diagonal ignored, NaN for no
        edge (so in an integer array every pair is an edge), or of bools, True for an edge of
        weight 1; what a masked array masks is no edge;
        a scipy.sparse matrix or array whose stored entries are the edges, in one triangle or,
        equal, in both;
        a tuple ``(n, edges, weights)`` of shapes (), (m, 2), (m,); of parallel edges the heaviest
        counts, and masked ones do not;
        an undirected networkx graph, its nodes numbered in their order: the edge attribute
        ``weight``, where there is none, 1; loops are ignored.
    :param max_cardinality: only matchings of as many edges as possible compete.
    :param perfect: every vertex must be matched.
    :param certificate: whether the result holds the proof, and the graph for `Matching.verify`.
    :param threads: how many native threads solve the components of a sparse graph, large ones
        first; the answer does not depend on it. A dense array is one component, solved by one.
    :param time_limit: seconds, counted from the call, after which the search ends with the
        matching that it has; ``gap_bound`` then says how much better the best one can be. Passes
        over the whole graph, as to read it, are always completed, and so is the explanation why
        there is no perfect matching.
    :param initial: an earlier result, for as many vertices: the closer its weights, the sooner
        the search ends. The answer is as good as without, but may be another one of equal weight.
        Without a certificate, or with that of a lightest matching, it has no effect.
    :raises NoPerfectMatchingError: ``perfect``, and there is none; it says why.
    :raises TimeoutError: ``perfect``, and none was found when the time was up.
    :raises ValueError: an asymmetric array, a wrong shape, a vertex out of range, a loop, an
        infinite weight, or an integer beyond 2**59 in magnitude; ``threads`` < 1, a ``time_limit``
        that is not positive, or ``initial`` of another number of vertices.
    :raises TypeError: a wrong dtype or type, or a directed graph.
    :raises KeyboardInterrupt: at Ctrl-C, for which a long search looks some times a second.

    Integers are counted exactly, and floats too: quickly where all that matter are multiples of one
    power of two of at most 58 bits, otherwise in wider integers, 2 to 10 times as slowly; square
    roots, such as distances, often take 60 to 70. An edge that a very bad weight forbids, however
    bad, costs the others no precision. Only of more than 2**17 edges floats may be rounded, where
    wide integers would take minutes or gigabytes: with an `InexactWarning`, ``exact`` False, and a
    ``gap_bound`` that is below what adding the weights as floats may lose.

    Without ``max_cardinality`` and ``perfect`` no edge of weight <= 0 is used. Among equally heavy
    matchings one is chosen, always the same for the same input, unless a time limit ends the
    search. The result holds on to an array given as ``graph``. Cost: O(n^3) in the worst case, for
    sparse graphs O(n m log n). Source: Edmonds (1965); Galil (ACM Computing Surveys, 1986).

    >>> edges = [(0, 1), (1, 2), (2, 3)]
    >>> first = max_weight_matching((4, edges, [2, 9, 3]))
    >>> first.pairs.tolist()
    [[1, 2]]
    >>> max_weight_matching((4, edges, [2, 9, 3]), max_cardinality=True).pairs.tolist()
    [[0, 1], [2, 3]]
    >>> max_weight_matching((4, edges, [7, 9, 3]), initial=first).pairs.tolist()
    [[0, 1], [2, 3]]
    """
    most_edges = max_cardinality or perfect
    return _best(graph, 1, most_edges, perfect, certificate, threads, time_limit, initial)


def min_weight_matching(
    graph: Any,
    *,
    perfect: bool = False,
    certificate: bool = True,
    threads: int = 1,
    time_limit: float | None = None,
    initial: Matching | None = None,
) -> Matching:
    """A matching of the least total weight among those of as many edges as possible.

    :param graph: as for `max_weight_matching`; of parallel edges the lightest counts.
    :param perfect: every vertex must be matched.
    :param certificate, threads, time_limit: as for `max_weight_matching`.
    :param initial: likewise, the result of a `min_weight_matching`.
    :raises NoPerfectMatchingError: ``perfect``, and there is none; it says why.
    :raises TimeoutError, ValueError, TypeError, KeyboardInterrupt: as `max_weight_matching`.

    >>> min_weight_matching((4, [(0, 1), (1, 2), (2, 3)], [2.5, -9.0, 3.5])).weight
    6.0
    >>> min_weight_matching((3, [(0, 1), (0, 2)], [1, 1]), perfect=True)
    Traceback (most recent call last):
    hivecore.errors.NoPerfectMatchingError: the component of vertex 0 has 3 vertices, an odd number
    """
    return _best(graph, -1, True, perfect, certificate, threads, time_limit, initial)


def _as_seconds(time_limit: Any) -> float:
    if time_limit is None:
        return math.inf
    if not isinstance(time_limit, (int, float, np.number)):
        raise TypeError(f"time_limit must be a float, not {type(time_limit).__name__}")
    seconds = float(time_limit) if time_limit < _FOREVER else math.inf
    if not time_limit > 0:
        raise ValueError(f"time_limit={time_limit}: must be positive")
    return seconds


def _best(
    graph: Any,
    sense: int,
    most_edges: bool,
    perfect: bool,
    certificate: bool,
    threads: int,
    time_limit: float | None,
    initial: Matching | None,
) -> Matching:
    started = time.monotonic()
    read, extent = read_graph(graph, lightest=sense < 0, positive=not most_edges)
    problem = Problem(
        read,
        sense,
        most_edges,
        as_int(threads, "threads", 1, 2**31 - 1),
        started + _as_seconds(time_limit),
        as_initial(initial, read.n),
    )
    answer = _solve(problem, extent) if extent.edges else nothing(problem)
    if perfect and 2 * answer.cardinality < read.n:
        if answer.excess:
            raise TimeoutError("time_limit was reached before a perfect matching was found")
        raise no_perfect_matching(problem, answer.certificate.exponent)
    found = matching_of(read, answer, certificate=certificate)
    if answer.rounded:
        warnings.warn(
            "floats had to be rounded: the best matching may be better by up to "
            f"{found.gap_bound}, its gap_bound",
            InexactWarning,
            stacklevel=3,
        )
    return found


def _solve(problem: Problem, extent: Extent) -> Answer:
    if not problem.most_edges:
        return attempt(problem, Integers.of_positive(extent, rounded=extent.edges > _MANY_EDGES), 0)
    for integers, offset in _ways(problem.graph.n, extent, problem.sense):
        answer = attempt(problem, integers, offset)
        is_late = answer.excess > 0 and (not answer.floored or time.monotonic() > problem.deadline)
        if is_late or _is_settled(problem, answer, integers):
            break
    return answer


def _ways(n: int, extent: Extent, sense: int) -> Iterator[tuple[Integers, int]]:
    """What weights may count, and the offset: the quickest way first, and last one that is sure."""
    complete = 2 * extent.edges == n * (n - 1)
    whole = Integers.whole(extent)
    offset, highest = _offset(n, complete, whole, sense)
    if extent.excess_bits == 0 and whole.high - whole.low < LIMIT:
        # An offset that suffices for every graph may not fit. The largest one that fits is enough
        # if the matching then has as many edges as one can have, or shows that more would weigh
        # more.
        yield whole, offset - max(0, highest - LIMIT)
    elif complete:
        if 0 < extent.excess_bits <= _FEW_BITS and extent.edges > _MANY_EDGES:
            rounded = Integers.rounded(extent)
            yield rounded, _offset(n, complete, rounded, sense)[0]
        floored = whole.above_floor(sense)
        if floored is not None:
            yield floored, _offset(n, complete, floored, sense)[0]
    yield whole, offset


def _is_settled(problem: Problem, answer: Answer, integers: Integers) -> bool:
    """Whether the answer is proved, up to what adding its weights as floats loses anyway."""
    if answer.floored or not _is_of_most_edges(answer, integers, problem.sense):
        return False
    return integers.exact or heaviest_of(problem.graph, answer) >= 2.0 ** (integers.exponent + 53)


def _offset(n: int, complete: bool, integers: Integers, sense: int) -> tuple[int, int]:
    """What to add to each weight, so that more edges weigh more; and the largest weight then.

    With c the lightest and C the heaviest weight after it, k + 1 edges weigh at least (k + 1) c and
    k edges at most k C; k is at most n // 2 - 1, so c = (n // 2 - 1) (C - c) + 1 suffices. In a
    complete graph c = 1 does: any two free vertices have an edge, and it is worth taking.
    """
    spread = integers.high - integers.low
    lightest = 1 if complete else (n // 2 - 1) * spread + 1
    low = integers.low if sense > 0 else -integers.high
    return lightest - low, lightest + spread


def _is_of_most_edges(answer: Answer, integers: Integers, sense: int) -> bool:
    """Whether the offset was large enough, judged by the answer."""
    edges, certificate = answer.cardinality, answer.certificate
    if 2 * edges + 1 >= answer.mate.size:
        return True
    low = integers.low if sense > 0 else -integers.high
    return 2 * (edges + 1) * (low + certificate.offset) > certificate.bound()
