"""The graph argument: a dense array, a scipy.sparse matrix or an edge list, checked once."""

import math
import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore import _matching
from hivecore._arguments import as_int
from hivecore.matching.graph import Dense, Graph, Int64, Sparse
from hivecore.matching.integers import Extent

__all__ = ["as_native", "check_dtype", "read_graph"]

_Array = npt.NDArray[Any]


def read_graph(graph: Any, *, lightest: bool) -> tuple[Graph, Extent]:
    """The graph that the argument describes, and the extent of its weights.

    :param lightest: whether of parallel edges the lightest counts, not the heaviest.
    """
    scipy_sparse = sys.modules.get("scipy.sparse")  # not imported: then it is no such matrix
    if isinstance(graph, tuple):
        made = _from_edges(graph, lightest)
    elif scipy_sparse is not None and scipy_sparse.issparse(graph):
        made = _from_scipy(graph)
    else:
        return _from_dense(graph)
    edges = len(made.neighbours) // 2
    return made, Extent(edges, *_matching.extent_of(as_native(made.weights)))


def as_native(array: _Array) -> _Array:
    """The array as compiled code reads it: a copy only if its dtype or alignment is unusual."""
    dtype = array.dtype.newbyteorder("=")
    return np.require(array, np.dtype(np.float32) if dtype == np.float16 else dtype, "A")


def check_dtype(weights: _Array, name: str) -> None:
    """Refuse what are no integers or floats of at most 64 bits."""
    kind, size = weights.dtype.kind, weights.dtype.itemsize
    if kind not in "iuf" or size > 8:
        raise TypeError(
            f"{name} must hold integers or floats of at most 64 bits, not {weights.dtype}"
        )


# --- dense


def _from_dense(graph: Any) -> tuple[Dense, Extent]:
    try:
        weights = np.asarray(graph)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"graph is not a square array: {error}") from None
    if weights.size == 0 and weights.ndim == 1:  # what [] becomes
        weights = np.zeros((0, 0))
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1]:
        raise ValueError(f"graph must have the shape (n, n), not {weights.shape}")
    check_dtype(weights, "graph")
    asymmetric, edges, low, high, grid = _matching.survey_dense(as_native(weights))
    if asymmetric is not None:
        i, j = asymmetric
        raise ValueError(
            f"graph is not symmetric: graph[{i}, {j}]={weights[i, j]}, "
            f"graph[{j}, {i}]={weights[j, i]}"
        )
    made = Dense(weights)
    if math.isinf(low) or math.isinf(high):
        for block in made.blocks():
            for i, j in np.argwhere(np.isinf(block.weights) & block.present)[:1]:
                raise ValueError(
                    f"graph[{block.u[i, 0]}, {j}]={block.weights[i, j]}: must be finite, "
                    "or NaN for no edge"
                )
    return made, Extent(edges, low, high, grid)


# --- edge list


def _from_edges(graph: tuple[Any, ...], lightest: bool) -> Sparse:
    if len(graph) != 3:
        raise ValueError(f"graph as a tuple must be (n, edges, weights), not of {len(graph)} parts")
    n = as_int(graph[0], "n", 0, 2**31 - 1)
    edges, weights = (
        np.zeros(shape, dtype=np.int64) if isinstance(part, (list, tuple)) and not part else part
        for part, shape in ((graph[1], (0, 2)), (graph[2], (0,)))  # NumPy takes [] for floats
    )
    edges, weights = np.asarray(edges), np.asarray(weights)
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise ValueError(f"edges must have the shape (m, 2), not {edges.shape}")
    if edges.dtype.kind not in "iu":
        raise TypeError(f"edges must hold integers, not {edges.dtype}")
    if weights.shape != (len(edges),):
        raise ValueError(f"weights must have the shape ({len(edges)},), not {weights.shape}")
    check_dtype(weights, "weights")
    for i in np.flatnonzero(~np.isfinite(weights))[:1]:
        raise ValueError(f"weights[{i}]={weights[i]}: must be finite")
    u, v = as_native(edges).T
    outside, loop, _, offsets, neighbours, chosen = _matching.rows(
        n, u, v, as_native(weights), lightest
    )
    if outside >= 0:
        raise ValueError(
            f"edges[{outside}]={edges[outside].tolist()}: vertices run from 0 to {n - 1}"
        )
    if loop >= 0:
        raise ValueError(f"edges[{loop}]={edges[loop].tolist()}: loops are not allowed")
    return Sparse(n, offsets, neighbours, weights[chosen])


# --- scipy.sparse


class _Triangle(NamedTuple):
    """Rows of neighbours of the entries on one side of the diagonal."""

    offsets: Int64
    neighbours: npt.NDArray[np.int32]
    entries: Int64
    repeated: int


def _from_scipy(graph: Any) -> Sparse:
    if len(graph.shape) != 2 or graph.shape[0] != graph.shape[1]:
        raise ValueError(f"graph must have the shape (n, n), not {graph.shape}")
    n = as_int(graph.shape[0], "the side of graph", 0, 2**31 - 1)
    check_dtype(graph, "graph")
    coo = graph.tocoo()
    u, v, weights = as_native(coo.row), as_native(coo.col), np.asarray(coo.data)
    for i in np.flatnonzero(u == v)[:1]:
        raise ValueError(f"graph has the entry ({u[i]}, {v[i]}): loops are not allowed")
    for i in np.flatnonzero(~np.isfinite(weights))[:1]:
        raise ValueError(f"graph[{u[i]}, {v[i]}]={weights[i]}: must be finite")
    above = u < v
    made = _triangle(n, u, v, above if above.any() else ~above)
    if len(made.neighbours) < 2 * len(weights):
        _check_mirrored(n, made, _triangle(n, u, v, ~above), weights)
    if made.repeated >= 0:
        i, j = _keys(n, made)[made.repeated]
        raise ValueError(
            f"graph holds the entry ({i}, {j}) more than once: "
            "sum_duplicates() first, or give an edge list"
        )
    return Sparse(n, made.offsets, made.neighbours, weights[made.entries])


def _triangle(n: int, u: _Array, v: _Array, part: npt.NDArray[np.bool_]) -> _Triangle:
    entries = np.flatnonzero(part)
    outside, _, repeated, offsets, neighbours, chosen = _matching.rows(
        n, u[entries], v[entries], None
    )
    if outside >= 0:
        i = entries[outside]
        raise ValueError(f"graph has the entry ({u[i]}, {v[i]}): vertices run from 0 to {n - 1}")
    return _Triangle(offsets, neighbours, entries[chosen], repeated)


def _check_mirrored(n: int, upper: _Triangle, lower: _Triangle, weights: _Array) -> None:
    """Both triangles must hold the same pairs with the same weights."""
    if not (
        np.array_equal(upper.offsets, lower.offsets)
        and np.array_equal(upper.neighbours, lower.neighbours)
    ):
        one, other = (np.append(_keys(n, part), [[n, n]], axis=0) for part in (upper, lower))
        least = min(len(one), len(other))
        first = np.flatnonzero((one[:least] != other[:least]).any(axis=1))[0]
        a, b = one[first].tolist(), other[first].tolist()
        u, v = a if a < b else b[::-1]
        raise ValueError(f"graph has an entry ({u}, {v}), but none at ({v}, {u})")
    here, there = weights[upper.entries], weights[lower.entries]
    for i in np.flatnonzero(here != there)[:1]:
        u, v = _keys(n, upper)[i]
        raise ValueError(
            f"graph is not symmetric: graph[{u}, {v}]={here[i]}, graph[{v}, {u}]={there[i]}"
        )


def _keys(n: int, rows: _Triangle) -> Int64:
    """Row and neighbour of each entry."""
    return np.stack((np.repeat(np.arange(n), np.diff(rows.offsets)), rows.neighbours), axis=1)
