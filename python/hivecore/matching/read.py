"""The graph argument: an array, a scipy.sparse matrix, an edge list or a networkx graph."""

import math
import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore import _matching
from hivecore._arguments import as_int
from hivecore.matching.graph import Dense, Graph, Int64, Sparse
from hivecore.matching.integers import LIMIT, Extent

__all__ = ["as_native", "check_dtype", "from_edges", "networkx_edges", "read_graph"]

_Array = npt.NDArray[Any]

# What compiled code reads as it is, if aligned.
_NATIVE = frozenset(map(np.dtype, ("b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "f", "d")))


def read_graph(graph: Any, *, lightest: bool, positive: bool) -> tuple[Graph, _Array, int, Extent]:
    """The graph, its weights as compiled code reads them, its number of edges, and its `Extent`.

    :param graph: an array, a scipy.sparse matrix, an edge list or a networkx graph.
    :param lightest: whether the lightest of parallel edges counts, not the heaviest.
    :param positive: whether the grid of the extent is that of the positive weights alone.
    """
    if isinstance(graph, np.ndarray):
        return _from_array(graph, positive)
    # What has not been imported cannot be the argument's type.
    scipy_sparse, networkx = sys.modules.get("scipy.sparse"), sys.modules.get("networkx")
    if isinstance(graph, tuple):
        return _surveyed(from_edges(graph, lightest), positive)
    if scipy_sparse is not None and scipy_sparse.issparse(graph):
        return _surveyed(_from_scipy(graph), positive)
    if networkx is not None and isinstance(graph, networkx.Graph):
        return _surveyed(from_edges(networkx_edges(graph, "weight")[1], lightest), positive)
    return _from_array(graph, positive)


def _surveyed(graph: Sparse, positive: bool) -> tuple[Sparse, _Array, int, Extent]:
    weights = as_native(graph.weights)
    return graph, weights, len(graph.neighbours) // 2, _matching.extent_of(weights, positive)


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


def _from_array(graph: Any, positive: bool) -> tuple[Graph, _Array, int, Extent]:
    try:
        weights = np.asanyarray(graph)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"graph is not a square array: {error}") from None
    if weights.size == 0 and weights.ndim == 1:  # what [] becomes
        weights = np.zeros((0, 0))
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1]:
        raise ValueError(
            f"graph must have the shape (n, n), not {weights.shape}; edges are (n, edges, weights)"
        )
    is_native = weights.dtype in _NATIVE and weights.flags.aligned
    if not is_native and weights.dtype != np.bool_:
        check_dtype(weights, "graph")
    if isinstance(weights, np.ma.MaskedArray):
        if weights.dtype.kind == "f":
            weights = weights.filled(np.nan)
        elif weights.mask is np.ma.nomask:
            weights = weights.data
    if weights.dtype == np.bool_ or isinstance(weights, np.ma.MaskedArray):
        return _surveyed(_from_present(weights), positive)
    weights = np.asarray(weights)
    native = weights if is_native else as_native(weights)
    asymmetric, edges, low, high, grid = _matching.survey_dense(native, positive)
    if asymmetric is not None:
        i, j = asymmetric
        raise ValueError(
            f"graph is not symmetric: graph[{i}, {j}]={weights[i, j]}, "
            f"graph[{j}, {i}]={weights[j, i]}"
        )
    dense = Dense(weights)
    if math.isinf(low) or math.isinf(high):
        for block in dense.blocks():
            for i, j in np.argwhere(np.isinf(block.weights) & block.present)[:1]:
                raise ValueError(
                    f"graph[{block.u[i, 0]}, {j}]={block.weights[i, j]}: must be finite, "
                    "or NaN for no edge"
                )
    return dense, native, edges, (low, high, grid)


def _from_present(weights: _Array) -> Sparse:
    """The edges that bools or the mask of integers say are there, of a square array."""
    present = ~np.ma.getmaskarray(weights)
    weights = np.ma.getdata(weights)
    if weights.dtype == np.bool_:
        present &= weights
        weights = weights.view(np.int8)
    for i, j in np.argwhere((present != present.T) | (present & (weights != weights.T)))[:1]:
        here, opposite = (
            weights[at] if present[at] else "no edge" for at in ((int(i), int(j)), (int(j), int(i)))
        )
        raise ValueError(
            f"graph is not symmetric: graph[{i}, {j}]={here}, graph[{j}, {i}]={opposite}"
        )
    u, v = np.nonzero(np.triu(present, 1))
    return from_edges((len(weights), np.stack((u, v), axis=1), weights[u, v]), lightest=False)


# --- edge list


def from_edges(graph: tuple[Any, ...], lightest: bool) -> Sparse:
    """The graph ``(n, edges, weights)``; of parallel edges the heaviest or the lightest."""
    if len(graph) != 3:
        raise ValueError(f"graph as a tuple must be (n, edges, weights), not of {len(graph)} parts")
    n = as_int(graph[0], "n", 0, 2**31 - 1)
    edges, weights = (
        np.zeros(shape, dtype=np.int64) if isinstance(part, (list, tuple)) and not part else part
        for part, shape in ((graph[1], (0, 2)), (graph[2], (0,)))  # NumPy takes [] for floats
    )
    edges, weights = np.asanyarray(edges), np.asanyarray(weights)
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise ValueError(f"edges must have the shape (m, 2), not {edges.shape}")
    if edges.dtype.kind not in "iu":
        raise TypeError(f"edges must hold integers, not {edges.dtype}")
    if weights.shape != (len(edges),):
        raise ValueError(f"weights must have the shape ({len(edges)},), not {weights.shape}")
    kept = None
    if isinstance(edges, np.ma.MaskedArray) or isinstance(weights, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(edges).any(axis=1) | np.ma.getmaskarray(weights)
        kept = np.flatnonzero(~masked)
        edges, weights = np.ma.getdata(edges)[kept], np.ma.getdata(weights)[kept]
    if weights.dtype == np.bool_:
        weights = weights.astype(np.int8)
    check_dtype(weights, "weights")
    for i in np.flatnonzero(~np.isfinite(weights))[:1]:
        raise ValueError(f"weights[{_at(i, kept)}]={weights[i]}: must be finite")
    u, v = as_native(edges).T
    outside, loop, _, offsets, neighbours, chosen = _matching.rows(
        n, u, v, as_native(weights), lightest
    )
    if outside >= 0:
        at = _at(outside, kept)
        raise ValueError(f"edges[{at}]={edges[outside].tolist()}: vertices run from 0 to {n - 1}")
    if loop >= 0:
        at = _at(loop, kept)
        raise ValueError(f"edges[{at}]={edges[loop].tolist()}: loops are not allowed")
    return Sparse(n, offsets, neighbours, weights[chosen])


def _at(i: int, kept: Int64 | None) -> int:
    """Where in the caller's list what stands at i of the edges that are not masked."""
    return int(i if kept is None else kept[i])


# --- networkx


def networkx_edges(graph: Any, weight: Any) -> tuple[list[Any], tuple[int, Int64, _Array]]:
    """The nodes of a networkx graph by number, and its edges but for loops.

    :param weight: name of the edge attribute; None, or where an edge has none: 1.
    :raises TypeError: a directed graph, or a weight that is no integer or float.
    :raises ValueError: a weight beyond 2**59, or a float or integer that float64 does not hold.
    """
    if graph.is_directed():
        raise TypeError("graph must be undirected: give graph.to_undirected()")
    nodes = list(graph)
    number = {node: i for i, node in enumerate(nodes)}
    ends, weights = _from_dicts(graph, number, weight) or _from_edge_view(graph, number, weight)
    return nodes, (len(nodes), ends, _as_numbers(weights))


def _from_dicts(graph: Any, number: dict[Any, int], weight: Any) -> tuple[Int64, list[Any]] | None:
    """The same edges in the same order as `_from_edge_view`, natively; None for unusual graphs."""
    kind, usual = type(graph), sys.modules["networkx"].Graph
    is_usual = kind.edges is usual.edges and kind.adjacency is usual.adjacency
    if not is_usual or not (weight is None or type(weight) is str):
        return None
    return _matching.edges_in(dict(graph.adjacency()), number, weight)


def _from_edge_view(graph: Any, number: dict[Any, int], weight: Any) -> tuple[Int64, list[Any]]:
    if weight is None:
        triples = [(u, v, 1) for u, v in graph.edges() if u != v]
    else:
        triples = [edge for edge in graph.edges(data=weight, default=1) if edge[0] != edge[1]]
    ends = [number[end] for u, v, _ in triples for end in (u, v)]
    return np.array(ends, dtype=np.int64).reshape(-1, 2), [value for _, _, value in triples]


def _as_numbers(weights: list[Any]) -> _Array:
    """The weights as an array of int64 or, if one of them is a float, of float64."""
    plain = _matching.plain_numbers(weights)
    array = _from_mixed(weights) if plain is None else plain
    if np.isnan(array).any():
        raise ValueError("weight is NaN for an edge")
    if np.isinf(array).any() or (plain is None and array.tolist() != weights):
        raise ValueError("weights that float64 does not hold exactly, or infinite ones")
    return array


def _from_mixed(weights: list[Any]) -> _Array:
    """The same, not checked, of any integers and floats."""
    kinds = set(map(type, weights))
    if all(issubclass(kind, (int, np.integer, np.bool_)) for kind in kinds):
        numbers = list(map(int, weights))
        if not -LIMIT <= min(numbers) <= max(numbers) <= LIMIT:
            raise ValueError("weights beyond 2**59 in magnitude")
        return np.array(numbers, dtype=np.int64)
    if not all(issubclass(kind, (int, float, np.integer, np.floating, np.bool_)) for kind in kinds):
        names = sorted(kind.__name__ for kind in kinds)
        raise TypeError(f"weights must be integers or floats, not {', '.join(names)}")
    try:
        return np.array(list(map(float, weights)))
    except OverflowError:
        raise ValueError("weights that are too large for float64") from None


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
    if graph.dtype == np.bool_:
        graph = graph.astype(np.int8)
    check_dtype(graph, "graph")
    coo = graph.tocoo()
    u, v, weights = as_native(coo.row), as_native(coo.col), np.asarray(coo.data)
    for i in np.flatnonzero(u == v)[:1]:
        raise ValueError(f"graph has the entry ({u[i]}, {v[i]}): loops are not allowed")
    for i in np.flatnonzero(~np.isfinite(weights))[:1]:
        raise ValueError(f"graph[{u[i]}, {v[i]}]={weights[i]}: must be finite")
    above = u < v
    triangle = _triangle(n, u, v, above if above.any() else ~above)
    if len(triangle.neighbours) < 2 * len(weights):
        _check_mirrored(n, triangle, _triangle(n, u, v, ~above), weights)
    if triangle.repeated >= 0:
        i, j = _keys(n, triangle)[triangle.repeated]
        raise ValueError(
            f"graph holds the entry ({i}, {j}) more than once: "
            "sum_duplicates() first, or give an edge list"
        )
    return Sparse(n, triangle.offsets, triangle.neighbours, weights[triangle.entries])


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
        first_keys, other = (np.append(_keys(n, part), [[n, n]], axis=0) for part in (upper, lower))
        least = min(len(first_keys), len(other))
        first = np.flatnonzero((first_keys[:least] != other[:least]).any(axis=1))[0]
        a, b = first_keys[first].tolist(), other[first].tolist()
        u, v = a if a < b else b[::-1]
        raise ValueError(f"graph has an entry ({u}, {v}), but none at ({v}, {u})")
    here, opposite = weights[upper.entries], weights[lower.entries]
    for i in np.flatnonzero(here != opposite)[:1]:
        u, v = _keys(n, upper)[i]
        raise ValueError(
            f"graph is not symmetric: graph[{u}, {v}]={here[i]}, graph[{v}, {u}]={opposite[i]}"
        )


def _keys(n: int, rows: _Triangle) -> Int64:
    """Row and neighbour of each entry."""
    return np.stack((np.repeat(np.arange(n), np.diff(rows.offsets)), rows.neighbours), axis=1)
