"""The calls: an argument becomes integers, the kernel solves them, the answer gets its names back.

Matchings of most edges are asked of the same kernel: with a large enough ``offset`` on every weight
a matching of one more edge always weighs more. How large depends on what is known: see `_offset`.
"""

from typing import Any

import numpy as np

from hivecore import _matching
from hivecore.errors import NoPerfectMatchingError
from hivecore.matching.certificate import Certificate
from hivecore.matching.graph import Graph, Int64, Sparse
from hivecore.matching.integers import LIMIT, Extent, Integers
from hivecore.matching.read import as_native, read_graph
from hivecore.matching.result import Matching, rounding_gap, total_weight
from hivecore.matching.witness import edges_of, explain_no_perfect_matching

__all__ = ["matching_of", "max_weight_matching", "min_weight_matching"]

_Solution = tuple[Int64, Int64, Int64, Int64, Int64]


def max_weight_matching(
    graph: Any, *, max_cardinality: bool = False, perfect: bool = False
) -> Matching:
    """A matching of the greatest total weight.

    :param graph: one of
        a symmetric array of shape (n, n), integers or floats, its diagonal ignored, NaN for no
        edge (so in an integer array every pair is an edge);
        a scipy.sparse matrix or array whose stored entries are the edges, in one triangle or,
        equal, in both;
        a tuple ``(n, edges, weights)`` of shapes (), (m, 2), (m,); of parallel edges the heaviest
        counts.
    :param max_cardinality: only matchings of as many edges as possible compete.
    :param perfect: every vertex must be matched.
    :raises NoPerfectMatchingError: ``perfect``, and there is none; it says why.
    :raises ValueError: an asymmetric array, a wrong shape, a vertex out of range, a loop, an
        infinite weight, an integer beyond 2**59 in magnitude, or, with ``max_cardinality`` or
        ``perfect``, integers too far apart to compare matchings of as many edges.
    :raises TypeError: a wrong dtype.

    Integers are counted exactly, and floats too when all of them are multiples of one power of two
    of less than 58 bits, which ``exact`` tells; otherwise ``gap_bound`` says how much the rounding
    may cost. Without ``max_cardinality`` and ``perfect`` no edge of weight <= 0 is used. Among
    equally heavy matchings one is chosen, always the same for the same input. The result holds on
    to an array given as ``graph`` for `Matching.verify`. Cost: O(n^3) in the worst case, for
    sparse graphs O(n m log n). Source: Edmonds (1965); Galil (ACM Computing Surveys, 1986).

    >>> edges = [(0, 1), (1, 2), (2, 3)]
    >>> max_weight_matching((4, edges, [2, 9, 3])).pairs.tolist()
    [[1, 2]]
    >>> max_weight_matching((4, edges, [2, 9, 3]), max_cardinality=True).pairs.tolist()
    [[0, 1], [2, 3]]
    """
    return _best(*read_graph(graph, lightest=False), 1, max_cardinality or perfect, perfect)


def min_weight_matching(graph: Any, *, perfect: bool = False) -> Matching:
    """A matching of the least total weight among those of as many edges as possible.

    :param graph: as for `max_weight_matching`; of parallel edges the lightest counts.
    :param perfect: every vertex must be matched.
    :raises NoPerfectMatchingError: ``perfect``, and there is none; it says why.
    :raises ValueError, TypeError: as `max_weight_matching` with ``max_cardinality``.

    >>> min_weight_matching((4, [(0, 1), (1, 2), (2, 3)], [2.5, -9.0, 3.5])).weight
    6.0
    >>> min_weight_matching((3, [(0, 1), (0, 2)], [1, 1]), perfect=True)
    Traceback (most recent call last):
    hivecore.errors.NoPerfectMatchingError: the component of vertex 0 has 3 vertices, an odd number
    """
    return _best(*read_graph(graph, lightest=True), -1, True, perfect)


def _best(graph: Graph, extent: Extent, sense: int, most_edges: bool, perfect: bool) -> Matching:
    if extent.edges == 0:
        nothing = np.zeros(0, dtype=np.int64)
        free = np.full(graph.n, -1)
        certificate = Certificate(
            np.zeros_like(free), free.copy(), nothing, nothing.copy(), 0, 0, sense, most_edges
        )
        found = matching_of(graph, free, certificate, True)
    else:
        found = _solve(graph, extent, sense, most_edges)
    if perfect and 2 * found.cardinality < graph.n:
        raise _no_perfect_matching(graph, found.certificate.exponent)
    return found


def _solve(graph: Graph, extent: Extent, sense: int, most_edges: bool) -> Matching:
    integers = Integers.of(extent)
    if not most_edges:
        return _attempt(graph, integers, sense, 0, False)
    complete = 2 * extent.edges == graph.n * (graph.n - 1)
    offset, highest = _offset(graph.n, complete, integers, sense)
    if highest <= LIMIT:
        return _attempt(graph, integers, sense, offset, True)
    # The offset that suffices for every graph does not fit. The largest one that fits is enough if
    # the matching then has as many edges as one can have, or shows that more would weigh more.
    found = _attempt(graph, integers, sense, offset - (highest - LIMIT), True)
    if _is_of_most_edges(found, integers, sense):
        return found
    integers = Integers.of(extent, widest=(LIMIT - 1) // (graph.n // 2))
    offset, _ = _offset(graph.n, complete, integers, sense)
    return _attempt(graph, integers, sense, offset, True)


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


def _is_of_most_edges(found: Matching, integers: Integers, sense: int) -> bool:
    """Whether the offset was large enough, judged by the answer."""
    edges, certificate = found.cardinality, found.certificate
    if 2 * edges + 1 >= found.mate.size:
        return True
    low = integers.low if sense > 0 else -integers.high
    return 2 * (edges + 1) * (low + certificate.offset) > certificate.bound()


def _attempt(
    graph: Graph, integers: Integers, sense: int, offset: int, most_edges: bool
) -> Matching:
    """The matching of the greatest weight, where weights count ``sense * integer + offset``."""
    exponent, exact, low, high = integers
    heaviest = max(sense * low, sense * high) + offset
    mate, duals, innermost, parents, blossom_duals = _call_kernel(
        graph, exponent, sense, offset, heaviest
    )
    certificate = Certificate(
        duals, innermost, parents, blossom_duals, exponent, offset, sense, most_edges
    )
    return matching_of(graph, mate, certificate, exact)


def _call_kernel(
    graph: Graph, exponent: int, sense: int, offset: int, heaviest: int
) -> tuple[Int64, Int64, Int64, Int64, Int64]:
    scale = (exponent, sense, offset, heaviest)
    weights = as_native(graph.weights)
    if isinstance(graph, Sparse):
        counts = _matching.counted(weights, *scale)
        return _matching.solve_sparse(graph.n, graph.offsets, graph.neighbours, counts)
    return _matching.solve_dense(weights, *scale)


def matching_of(graph: Graph, mate: Int64, certificate: Certificate, exact: bool) -> Matching:
    """The matching with all that follows from it; the arrays become read-only."""
    u = np.flatnonzero(mate > np.arange(graph.n))
    pairs = np.empty((len(u), 2), dtype=np.int64)
    pairs[:, 0], pairs[:, 1] = u, mate[u]
    weight = total_weight(graph.weights_of(u, mate[u]))
    gap = 0.0 if exact else rounding_gap(graph.n, certificate.exponent)
    proof = (certificate.duals, certificate.innermost, certificate.parents)
    for array in (mate, pairs, *proof, certificate.blossom_duals):
        array.flags.writeable = False
    return Matching(mate, pairs, weight, exact, gap, certificate, graph)


def _no_perfect_matching(graph: Graph, exponent: int) -> NoPerfectMatchingError:
    """The error that says why: read off the duals of the same graph with all weights 1."""
    _, duals, *_ = _call_kernel(graph, exponent, sense=0, offset=1, heaviest=1)
    return explain_no_perfect_matching(graph.n, *edges_of(graph), duals)
