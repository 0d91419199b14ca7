"""An undirected graph with its weights: one interface to arrays and to rows of neighbours."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Block", "Dense", "Graph", "Int64", "Sparse", "as_rows", "edges_of"]

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


class Graph:
    """An undirected graph with the weights as the caller gave them."""

    n: int
    weights: npt.NDArray[Any]
    """One entry per (ordered) pair that may be an edge."""

    @property
    def integral(self) -> bool:
        """Whether the weights are integers."""
        return self.weights.dtype.kind in "iu"

    def weights_of(self, u: Int64, v: Int64) -> npt.NDArray[Any]:
        """The weights of these edges.

        :raises KeyError: ``(u[i], v[i])`` is not an edge.
        """
        raise NotImplementedError

    def blocks(self) -> Iterator[Block]:
        """All edges, each in both directions, a bounded number at a time."""
        raise NotImplementedError


class Dense(Graph):
    """A symmetric array; the diagonal is ignored, and NaN is no edge."""

    def __init__(self, weights: npt.NDArray[Any]) -> None:
        self.n = len(weights)
        self.weights = weights

    def weights_of(self, u: Int64, v: Int64) -> npt.NDArray[Any]:
        """The weights of these edges."""
        weights: _Array = self.weights[u, v]
        for i in ((weights != weights) | (u == v)).nonzero()[0][:1]:
            raise KeyError((int(u[i]), int(v[i])))
        return weights

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

    def weights_of(self, u: Int64, v: Int64) -> npt.NDArray[Any]:
        """The weights of these edges."""
        low, high = self.offsets[u], self.offsets[u + 1]
        while (low < high).any():
            middle = (low + high) // 2
            before = (low < high) & (self.neighbours.take(middle, mode="clip") < v)
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        known = low < self.offsets[u + 1]
        known[known] = self.neighbours[low[known]] == v[known]
        for i in np.flatnonzero(~known)[:1]:
            raise KeyError((int(u[i]), int(v[i])))
        weights: _Array = self.weights[low]
        return weights

    def blocks(self) -> Iterator[Block]:
        """All edges, some neighbours at a time."""
        for first in range(0, len(self.neighbours), _BLOCK):
            at = np.arange(first, min(first + _BLOCK, len(self.neighbours)))
            u = np.searchsorted(self.offsets, at, side="right") - 1
            v = self.neighbours[at].astype(np.int64)
            yield Block(u, v, self.weights[at], np.ones(len(at), dtype=np.bool_))


def as_rows(graph: Graph) -> Sparse:
    """The graph as rows of neighbours."""
    if isinstance(graph, Sparse):
        return graph
    ends, neighbours, weights = [np.zeros(0, dtype=np.int64)], [], []
    for block in graph.blocks():
        u, v = np.nonzero(block.present)
        ends.append(block.u[u, 0])
        neighbours.append(v.astype(np.int32))
        weights.append(block.weights[u, v])
    degrees = np.bincount(np.concatenate(ends), minlength=graph.n)
    offsets = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(degrees)))
    return Sparse(graph.n, offsets, np.concatenate(neighbours), np.concatenate(weights))


def edges_of(graph: Graph) -> tuple[Int64, Int64]:
    """All edges, once, the smaller vertex first."""
    u, v = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for block in graph.blocks():
        once = np.nonzero(block.present & (block.u < block.v))
        u.append(np.broadcast_to(block.u, block.present.shape)[once])
        v.append(np.broadcast_to(block.v, block.present.shape)[once])
    return np.concatenate(u), np.concatenate(v)
