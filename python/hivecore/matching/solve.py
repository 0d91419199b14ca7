"""The calls: check arguments, turn weights into integers, solve in the kernel, turn them back.

The same kernel finds matchings with the most edges: if a large enough ``offset`` is added to every
weight, a matching with one more edge always weighs more. See `_offset` for its size.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore import _matching
from hivecore._arguments import as_int
from hivecore.errors import InexactWarning, NoPerfectMatchingError
from hivecore.matching.certificate import Certificate, is_below_floor
from hivecore.matching.graph import Graph, Int64, Sparse, edges_of
from hivecore.matching.integers import LIMIT, Extent, Integers, excess_bits
from hivecore.matching.kernel import NO_FLOOR, Answer, attempt, check_initial
from hivecore.matching.matching import Matching, gap_of, total_weight
from hivecore.matching.read import read_graph

__all__ = ["matching_of", "max_weight_matching", "min_weight_matching"]

_ALONE = 1  # thread; compared by identity, as anything may be given
_FOREVER = 1e9  # seconds
_MANY_EDGES = 2**17  # of more, floats are rounded where wide integers gain little: slow and large
_FEW_BITS = 12  # that do not fit; so many may well be lost where weights are added as floats
_NAMED = 10  # vertices in a message; the error itself carries all

_Array = npt.NDArray[Any]

_Attempt = Callable[[Integers, int], Answer]
"""From integers and an offset to the answer of the kernel."""


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
    """A matching with the greatest total weight.

    :param graph: an array, a sparse matrix, a tuple or a networkx graph, see below.
    :param max_cardinality: whether only matchings with the most edges compete.
    :param perfect: whether every vertex must be matched.
    :param certificate: whether the result holds the proof, and the graph for `Matching.verify`.
    :param threads: native threads for the components of a sparse graph, large ones first; the
        result does not depend on it. A dense array is one component, for one thread.
    :param time_limit: seconds from the call after which the search ends with its current matching;
        ``gap_bound`` says how much better the best one can be. Passes over the whole graph, such as
        reading it, and the explanation why there is no perfect matching are always completed.
    :param initial: an earlier result for as many vertices: the closer its weights, the faster the
        search. The result is as good as without it, but ties may be broken differently. Ignored
        without a certificate, or with that of a lightest matching.
    :raises NoPerfectMatchingError: with ``perfect``, if there is none; the message says why.
    :raises TimeoutError: with ``perfect``, if none was found within ``time_limit``.
    :raises ValueError: an asymmetric array, a wrong shape, a vertex out of range, a loop, an
        infinite weight, or an integer beyond 2**59 in magnitude; ``threads`` < 1, a ``time_limit``
        that is not positive, or ``initial`` with another number of vertices.
    :raises TypeError: a wrong dtype or type, or a directed graph.
    :raises KeyboardInterrupt: at Ctrl-C, which a long search checks several times a second.

    A graph is one of these:

    - a symmetric array of shape (n, n): integers or floats, the diagonal is ignored and NaN is no
      edge (so every pair of an integer array is an edge); or bools, where True is an edge of weight
      1. Masked entries are no edges.
    - a scipy.sparse matrix or array whose stored entries are the edges, in one triangle or, equal,
      in both.
    - a tuple ``(n, edges, weights)`` of shapes (), (m, 2), (m,). Of parallel edges the heaviest
      counts; masked ones are ignored.
    - an undirected networkx graph, its nodes numbered in their order, with the edge attribute
      ``weight``, by default 1. Loops are ignored.

    Integers and floats are exact. Floats are fast if those that matter are multiples of one power
    of two with at most 58 bits; else wider integers take 2 to 10 times as long, for square roots
    such as distances often 60 to 70 times. An edge with a very bad weight costs other edges no
    precision. Only with more than 2**17 edges floats may be rounded, where wide integers would take
    minutes or gigabytes: then there is an `InexactWarning`, ``exact`` is False, and ``gap_bound``
    is below the rounding of adding the weights as floats.

    Without ``max_cardinality`` and ``perfect`` no edge of weight <= 0 is used. Ties are broken the
    same way for the same input, except at a time limit. The result keeps a reference to an array
    given as ``graph``. Cost: O(n^3) in the worst case, O(n m log n) for sparse graphs. Source:
    Edmonds (1965); Galil (ACM Computing Surveys, 1986).

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
    if threads is _ALONE and time_limit is None and initial is None:
        matching = _matching.solve_small(Matching, graph, 1, most_edges, perfect, certificate)
        if matching is not None:
            return matching
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
    """A matching with the least total weight, among those with the most edges.

    :param graph: as in `max_weight_matching`; of parallel edges the lightest counts.
    :param perfect: whether every vertex must be matched.
    :param certificate, threads, time_limit: as in `max_weight_matching`.
    :param initial: an earlier result of `min_weight_matching`.
    :raises NoPerfectMatchingError: with ``perfect``, if there is none; the message says why.
    :raises TimeoutError, ValueError, TypeError, KeyboardInterrupt: as `max_weight_matching` does.

    >>> min_weight_matching((4, [(0, 1), (1, 2), (2, 3)], [2.5, -9.0, 3.5])).weight
    6.0
    >>> min_weight_matching((3, [(0, 1), (0, 2)], [1, 1]), perfect=True)
    Traceback (most recent call last):
    hivecore.errors.NoPerfectMatchingError: the component of vertex 0 has 3 vertices, an odd number
    """
    if threads is _ALONE and time_limit is None and initial is None:
        matching = _matching.solve_small(Matching, graph, -1, True, perfect, certificate)
        if matching is not None:
            return matching
    return _best(graph, -1, True, perfect, certificate, threads, time_limit, initial)


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
    read, weights, edges, extent = read_graph(graph, lightest=sense < 0, positive=not most_edges)
    threads = as_int(threads, "threads", 1, 2**31 - 1)
    deadline = math.inf if time_limit is None else started + _as_seconds(time_limit)
    if initial is not None:
        check_initial(initial, read.n)
    attempt_with: _Attempt = partial(
        attempt, read, weights, sense, most_edges, threads, deadline, initial
    )
    if not edges:
        answer = _nothing(read.n, sense, most_edges)
    elif most_edges:
        answer = _of_most_edges(attempt_with, read, edges, extent, sense, deadline)
    else:
        answer = attempt_with(Integers.of_positive(extent, rounded=edges > _MANY_EDGES), 0)
    mate, proof, excess, rounded = answer
    if perfect and (mate < 0).any():
        if excess:
            raise TimeoutError("time_limit was reached before a perfect matching was found")
        raise _no_perfect_matching(read, weights, proof.exponent, threads)
    matching = matching_of(read, answer, certificate=certificate)
    if rounded:
        warnings.warn(
            "floats had to be rounded: the best matching may be better by up to "
            f"{matching.gap_bound}, its gap_bound",
            InexactWarning,
            stacklevel=3,
        )
    return matching


def matching_of(graph: Graph, answer: Answer, *, certificate: bool) -> Matching:
    """The result for the graph.

    :param certificate: whether the proof stays with it, and with that the graph.
    """
    mate, proof, excess, rounded = answer
    u = (mate > np.arange(graph.n)).nonzero()[0]
    v = mate[u]
    pairs = np.empty((len(u), 2), dtype=np.int64)
    pairs[:, 0], pairs[:, 1] = u, v
    if isinstance(graph, Sparse):
        weights = graph.weights[_matching.entries_of(graph.offsets, graph.neighbours, u, v)]
    else:
        weights = graph.weights_of(u, v)
    gap = gap_of(excess, graph.n if rounded else 0, proof) if excess or rounded else 0.0
    forest = proof.innermost, proof.parents, proof.blossom_duals
    for array in (mate, pairs, proof.duals, *forest):
        array.flags.writeable = False
    kept = (proof, graph) if certificate else (None, None)
    return Matching(mate, pairs, total_weight(weights), gap == 0.0, gap, *kept)


def _as_seconds(time_limit: Any) -> float:
    if not isinstance(time_limit, (int, float, np.number)):
        raise TypeError(f"time_limit must be a float, not {type(time_limit).__name__}")
    seconds = float(time_limit) if time_limit < _FOREVER else math.inf
    if not time_limit > 0:
        raise ValueError(f"time_limit={time_limit}: must be positive")
    return seconds


def _nothing(n: int, sense: int, most_edges: bool) -> Answer:
    """The result for a graph without edges."""
    free, none = np.full(n, -1), np.zeros(0, dtype=np.int64)
    proof = Certificate(
        np.zeros_like(free), free.copy(), none, none.copy(), 0, 0, sense, most_edges
    )
    return free, proof, 0, False


# --- of as many edges as possible --------------------------------------------------------------


def _of_most_edges(
    attempt_with: _Attempt, graph: Graph, edges: int, extent: Extent, sense: int, deadline: float
) -> Answer:
    for integers, offset in _candidates(graph.n, edges, extent, sense):
        answer = attempt_with(integers, offset)
        mate, proof, excess, _ = answer
        u = np.flatnonzero(mate > np.arange(graph.n))
        weights = graph.weights_of(u, mate[u])
        counts_more = bool(is_below_floor(weights, proof).any())
        if excess > 0 and (not counts_more or time.monotonic() > deadline):
            break
        if counts_more or not _has_most_edges(mate, proof, integers, sense):
            continue
        # Rounding is fine where adding the weights as floats loses as much anyway.
        heaviest = float(np.abs(weights).max(initial=0.0))
        if integers.exact or heaviest >= 2.0 ** (integers.exponent + 53):
            break
    return answer


def _candidates(n: int, edges: int, extent: Extent, sense: int) -> Iterator[tuple[Integers, int]]:
    """Integers and offsets to try: the fastest first, last those that cannot fail."""
    complete = 2 * edges == n * (n - 1)
    whole = Integers.whole(extent)
    excess = excess_bits(extent)
    offset, highest = _offset(n, complete, whole, sense)
    if excess == 0 and whole.high - whole.low < LIMIT:
        # An offset that suffices for every graph may not fit. The largest one that fits is enough
        # if the matching then has as many edges as one can have, or shows that more would weigh
        # more.
        yield whole, offset - max(0, highest - LIMIT)
    elif complete:
        if 0 < excess <= _FEW_BITS and edges > _MANY_EDGES:
            rounded = Integers.rounded(extent)
            yield rounded, _offset(n, complete, rounded, sense)[0]
        floored = whole.above_floor(sense)
        if floored is not None:
            yield floored, _offset(n, complete, floored, sense)[0]
    yield whole, offset


def _offset(n: int, complete: bool, integers: Integers, sense: int) -> tuple[int, int]:
    """The offset with which more edges weigh more, and the largest weight with it.

    With c the lightest and C the heaviest weight after it, k + 1 edges weigh at least (k + 1) c and
    k edges at most k C; k is at most n // 2 - 1, so c = (n // 2 - 1) (C - c) + 1 suffices. In a
    complete graph c = 1 does: any two free vertices have an edge, and it is worth taking.
    """
    spread = integers.high - integers.low
    lightest = 1 if complete else (n // 2 - 1) * spread + 1
    low = integers.low if sense > 0 else -integers.high
    return lightest - low, lightest + spread


def _has_most_edges(mate: Int64, proof: Certificate, integers: Integers, sense: int) -> bool:
    """Whether the offset was large enough for this answer."""
    edges = int(np.count_nonzero(mate >= 0)) // 2
    if 2 * edges + 1 >= mate.size:
        return True
    low = integers.low if sense > 0 else -integers.high
    return 2 * (edges + 1) * (low + proof.offset) > proof.bound()


# --- why there is no perfect matching ----------------------------------------------------------


def _no_perfect_matching(
    graph: Graph, weights: _Array, exponent: int, threads: int
) -> NoPerfectMatchingError:
    """The error that names an odd component, or a set with too many odd components around it.

    The set is read off the duals of a heaviest matching of the same edges, all of weight 1. Each
    dual is then 0, 1 or 2. Without the vertices of dual 2 every component holds at most one
    vertex that is free or matched with one of them: it would otherwise lie in one blossom with the
    other. So there are as many odd components as there are free vertices and vertices of dual 2.
    Source: Tutte (1947), Berge (1958); Cunningham and Marsh (1978) for the duals.
    """
    n = graph.n
    u, v = edges_of(graph)
    removed = np.zeros(0, dtype=np.int64)
    odd = _odd_components(n, u, v, removed)
    if odd:
        first, size = odd[0][0], len(odd[0])
        message = f"the component of vertex {first} has {size} vertices, an odd number"
        if size == 1:
            message = f"vertex {first} has no edge"
        return NoPerfectMatchingError(message, (), odd)
    ones = exponent, 0, 1, 1, NO_FLOOR  # sense 0: whatever a weight is, it counts as the offset
    if isinstance(graph, Sparse):
        counts = _matching.scaled(weights, *ones)
        rows = graph.n, graph.offsets, graph.neighbours, counts
        duals = _matching.solve_sparse(*rows, threads=threads)[1]
    else:
        duals = _matching.solve_dense(weights, *ones)[1]
    removed = np.flatnonzero(duals == 2)
    odd = _odd_components(n, u, v, removed)
    named = ", ".join(map(str, removed[:_NAMED].tolist()))
    if len(removed) > _NAMED:
        named += ", ..."
    return NoPerfectMatchingError(
        f"without the vertices {{{named}}}, {len(removed)} in number, {len(odd)} components of odd "
        "size are left over, and each needs one of them",
        removed.tolist(),
        odd,
    )


def _odd_components(n: int, u: Int64, v: Int64, removed: Int64) -> list[list[int]]:
    """The components of odd size after some vertices are removed, by their lowest vertex."""
    kept = np.ones(n, dtype=np.bool_)
    kept[removed] = False
    inside = kept[u] & kept[v]
    u, v = u[inside], v[inside]
    # Every vertex points to a lower one of its component or to itself, in the end to the lowest.
    low = np.arange(n)
    while (low[u] != low[v]).any():
        least = np.minimum(low[u], low[v])
        np.minimum.at(low, low[u], least)
        np.minimum.at(low, low[v], least)
        while (low[low] != low).any():
            low = low[low]
    order = np.argsort(low, kind="stable")
    order = order[kept[order]]
    starts = np.flatnonzero(np.diff(low[order], prepend=-1))
    parts = np.split(order, starts[1:])
    return [part.tolist() for part in parts if len(part) % 2]
