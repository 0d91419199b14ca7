"""The graph argument: a dense array, a scipy.sparse matrix or an edge list, checked once."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_int

__all__ = ["Block", "Dense", "Graph", "Int64", "Sparse", "read_graph"]

Int64 = npt.NDArray[np.int64]
"""An array of int64."""

_Array = npt.NDArray[Any]

_BLOCK = 1 << 18  # edges looked at in one go: their arrays stay in the cache


class Block(NamedTuple):
    """Some edges, as arrays that broadcast against each other."""

    u: Int64
    v: Int64
    weights: npt.NDArray[Any]
    """In the caller's dtype."""
    present: npt.NDArray[np.bool_]
    """Where there is an edge at all."""


class Graph(ABC):
    """An undirected graph with the weights as the caller gave them."""

    n: int
    weights: npt.NDArray[Any]
    """One entry per (ordered) pair that may be an edge."""

    @property
    def integral(self) -> bool:
        """Whether the weights are integers."""
        return self.weights.dtype.kind in "iu"

    @abstractmethod
    def missing(self) -> npt.NDArray[np.bool_] | None:
        """Where ``weights`` holds no edge; None: nowhere."""

    @abstractmethod
    def count_edges(self) -> int:
        """How many edges there are."""

    @abstractmethod
    def weights_of(self, u: Int64, v: Int64) -> npt.NDArray[Any]:
        """The weights of these edges.

        :raises KeyError: ``(u[i], v[i])`` is not an edge.
        """

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """All edges, each in both directions, a bounded number at a time."""


class Dense(Graph):
    """A symmetric array; the diagonal says nothing, and NaN is no edge."""

    def __init__(self, weights: npt.NDArray[Any]) -> None:
        self.n = len(weights)
        self.weights = weights

    def missing(self) -> npt.NDArray[np.bool_]:
        """The diagonal, and NaN."""
        absent = (
            np.zeros((self.n, self.n), dtype=np.bool_)
            if self.integral
            else self.weights != (self.weights)
        )
        np.fill_diagonal(absent, True)
        return absent

    def count_edges(self) -> int:
        """How many edges there are."""
        if self.integral:
            return self.n * (self.n - 1) // 2
        return sum(int(np.count_nonzero(block.present)) for block in self.blocks()) // 2

    def weights_of(self, u: Int64, v: Int64) -> npt.NDArray[Any]:
        """The weights of these edges."""
        found: _Array = self.weights[u, v]
        for i in np.flatnonzero((found != found) | (u == v))[:1]:
            raise KeyError((int(u[i]), int(v[i])))
        return found

    def blocks(self) -> Iterator[Block]:
        """All edges, some rows at a time."""
        every = np.arange(self.n)
        step = max(1, _BLOCK // max(1, self.n))
        for first in range(0, self.n, step):
            weights = self.weights[first : first + step]
            u = every[first : first + step, None]
            present = u != every
            if not self.integral:
                present &= weights == weights
            yield Block(u, every[None, :], weights, present)


class Sparse(Graph):
    """Rows of neighbours (CSR), ascending, every edge in both directions."""

    def __init__(
        self, n: int, offsets: Int64, neighbours: npt.NDArray[np.int32], weights: npt.NDArray[Any]
    ) -> None:
        self.n = n
        self.offsets = offsets
        self.neighbours = neighbours
        self.weights = weights

    def missing(self) -> None:
        """Nowhere."""
        return None

    def count_edges(self) -> int:
        """How many edges there are."""
        return len(self.neighbours) // 2

    def weights_of(self, u: Int64, v: Int64) -> npt.NDArray[Any]:
        """The weights of these edges."""
        rows = np.repeat(np.arange(self.n), np.diff(self.offsets))
        ends = rows * self.n + self.neighbours  # ascending, as the rows are
        found = np.searchsorted(ends, u * self.n + v)
        known = found < len(ends)
        known[known] = ends[found[known]] == (u * self.n + v)[known]
        for i in np.flatnonzero(~known)[:1]:
            raise KeyError((int(u[i]), int(v[i])))
        weights: _Array = self.weights[found]
        return weights

    def blocks(self) -> Iterator[Block]:
        """All edges, some neighbours at a time."""
        for first in range(0, len(self.neighbours), _BLOCK):
            at = np.arange(first, min(first + _BLOCK, len(self.neighbours)))
            u = np.searchsorted(self.offsets, at, side="right") - 1
            v = self.neighbours[at].astype(np.int64)
            yield Block(u, v, self.weights[at], np.ones(len(at), dtype=np.bool_))


def read_graph(graph: Any, *, lightest: bool) -> Graph:
    """The graph that the argument describes.

    :param lightest: whether of parallel edges the lightest counts, not the heaviest.
    :raises TypeError, ValueError: it describes none; what and where is named.
    """
    if isinstance(graph, tuple):
        return _from_edges(graph, lightest)
    scipy_sparse = sys.modules.get("scipy.sparse")  # not imported: then it is no such matrix
    if scipy_sparse is not None and scipy_sparse.issparse(graph):
        return _from_scipy(graph)
    return _from_dense(graph)


def _check_dtype(weights: _Array, name: str) -> None:
    kind, size = weights.dtype.kind, weights.dtype.itemsize
    if kind not in "iuf" or size > 8:
        raise TypeError(
            f"{name} must hold integers or floats of at most 64 bits, not {weights.dtype}"
        )


def _check_finite(weights: _Array, name: str) -> None:
    if weights.dtype.kind == "f" and not np.isfinite(weights).all():
        i = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise ValueError(f"{name}[{i}]={weights[i]}: must be finite")


# --- dense


def _from_dense(graph: Any) -> Dense:
    try:
        weights = np.asarray(graph)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"graph is not a square array: {error}") from None
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1]:
        if weights.size == 0 and weights.ndim == 1:  # what [] becomes
            return Dense(np.zeros((0, 0)))
        raise ValueError(f"graph must have the shape (n, n), not {weights.shape}")
    _check_dtype(weights, "graph")
    made = Dense(weights)
    _check_symmetric(made)
    if not made.integral and np.isinf(weights).any():
        for block in made.blocks():
            for i, j in np.argwhere(np.isinf(block.weights) & block.present)[:1]:
                raise ValueError(
                    f"graph[{block.u[i, 0]}, {j}]={block.weights[i, j]}: must be finite, "
                    "or NaN for no edge"
                )
    return made


def _check_symmetric(graph: Dense) -> None:
    """Compare square tiles with their mirror images: both then fit into the cache."""
    size = 256
    starts = range(0, graph.n, size)
    for top, left in ((top, left) for top in starts for left in starts if left >= top):
        tile = graph.weights[top : top + size, left : left + size]
        mirrored = graph.weights[left : left + size, top : top + size].T
        same = tile == mirrored
        if same.all():
            continue
        same |= (tile != tile) & (mirrored != mirrored)
        if top == left:
            np.fill_diagonal(same, True)
        for i, j in np.argwhere(~same)[:1]:
            raise ValueError(
                f"graph is not symmetric: graph[{top + i}, {left + j}]={tile[i, j]}, "
                f"graph[{left + j}, {top + i}]={mirrored[i, j]}"
            )


# --- sparse


def _from_scipy(graph: Any) -> Sparse:
    if len(graph.shape) != 2 or graph.shape[0] != graph.shape[1]:
        raise ValueError(f"graph must have the shape (n, n), not {graph.shape}")
    n = as_int(graph.shape[0], "the side of graph", 0, 2**31 - 1)
    _check_dtype(graph, "graph")
    entries = graph.tocoo()
    u, v = entries.row.astype(np.int64), entries.col.astype(np.int64)
    weights = np.asarray(entries.data)
    for i in np.flatnonzero(u == v)[:1]:
        raise ValueError(f"graph has the entry ({u[i]}, {v[i]}): loops are not allowed")
    if not np.isfinite(weights).all():
        i = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise ValueError(f"graph[{u[i]}, {v[i]}]={weights[i]}: must be finite")
    if (u < v).all() or (u > v).all():
        return _rows(n, u, v, weights)
    key, mirrored = u * n + v, v * n + u
    order, image = np.argsort(key, kind="stable"), np.argsort(mirrored, kind="stable")
    for i in np.flatnonzero(key[order] != mirrored[image])[:1]:
        i = order[i] if key[order[i]] < mirrored[image[i]] else image[i]
        raise ValueError(f"graph has an entry ({u[i]}, {v[i]}), but none at ({v[i]}, {u[i]})")
    for i in np.flatnonzero(weights[order] != weights[image])[:1]:
        a, b = order[i], image[i]
        raise ValueError(
            f"graph is not symmetric: graph[{u[a]}, {v[a]}]={weights[a]}, "
            f"graph[{u[b]}, {v[b]}]={weights[b]}"
        )
    once = u < v
    return _rows(n, u[once], v[once], weights[once])


def _rows(n: int, u: Int64, v: Int64, weights: _Array, combine: np.ufunc | None = None) -> Sparse:
    """The rows of neighbours of edges that are given once, or several times if ``combine`` can."""
    key = np.concatenate((u * n + v, v * n + u))
    order = np.argsort(key)
    key, weights = key[order], np.concatenate((weights, weights))[order]
    new = np.ones(len(key), dtype=np.bool_)
    new[1:] = key[1:] != key[:-1]
    if not new.all():
        if combine is None:
            again = key[np.flatnonzero(~new)[0]]
            raise ValueError(
                f"graph holds the entry ({again // n}, {again % n}) more than once: "
                "sum_duplicates() first, or give an edge list"
            )
        weights, key = combine.reduceat(weights, np.flatnonzero(new)), key[new]
    offsets = np.zeros(n + 1, dtype=np.int64)
    if n:
        np.cumsum(np.bincount(key // n, minlength=n), out=offsets[1:])
    return Sparse(n, offsets, (key % max(n, 1)).astype(np.int32), weights)


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
    _check_dtype(weights, "weights")
    _check_finite(weights, "weights")
    for i in np.flatnonzero(((edges < 0) | (edges >= n)).any(axis=1))[:1]:
        raise ValueError(f"edges[{i}]={edges[i].tolist()}: vertices run from 0 to {n - 1}")
    for i in np.flatnonzero(edges[:, 0] == edges[:, 1])[:1]:
        raise ValueError(f"edges[{i}]={edges[i].tolist()}: loops are not allowed")
    u, v = edges.astype(np.int64).T
    return _rows(n, u, v, weights, np.minimum if lightest else np.maximum)
