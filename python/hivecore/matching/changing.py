"""A graph whose edges change, as a `Matching` of it sees it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore.matching.graph import Block, Graph, Int64

__all__ = ["NO_EDGE", "ChangingGraph"]

NO_EDGE = -(2**63)
"""Among integer weights; among floats it is NaN."""

_STEP = 1 << 7  # rows looked at in one go


class ChangingGraph(Graph):
    """Rows of weights, of which for each edge the one counts that was written last.

    So a new row costs O(n) next to each other, and no column is written.
    """

    def __init__(self, n: int, dtype: npt.DTypeLike) -> None:
        self.n = n
        self.weights: npt.NDArray[Any] = np.zeros((0, 0), dtype=dtype)
        self._written: Int64 = np.zeros(0, dtype=np.int64)
        self._writes = 0
        self.make_room(max(n, 1))

    @property
    def capacity(self) -> int:
        """For how many vertices there is room."""
        return len(self.weights)

    @property
    def nothing(self) -> float | int:
        """The weight of what is no edge."""
        return NO_EDGE if self.integral else np.nan

    def make_room(self, capacity: int) -> None:
        """For more vertices, without edges so far."""
        weights = np.full((capacity, capacity), self.nothing, dtype=self.weights.dtype)
        known = self.capacity
        weights[:known, :known] = self.weights
        self._written = np.append(self._written, np.zeros(capacity - known, dtype=np.int64))
        self.weights = weights

    def is_edge(self, weights: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which of the weights are those of an edge."""
        edges: npt.NDArray[np.bool_] = (
            weights != NO_EDGE if self.integral else weights == weights  # NaN is not
        )
        return edges

    def row(self, v: int) -> npt.NDArray[Any]:
        """The weights of a vertex; a copy."""
        return self._between(np.full(self.n, v), np.arange(self.n))

    def set_row(self, v: int, row: npt.NDArray[Any]) -> None:
        """The weights of a vertex."""
        self._writes += 1
        self._written[v] = self._writes
        self.weights[v, : self.n] = row

    def set_edge(self, u: int, v: int, weight: float) -> None:
        """The weight of an edge."""
        self.weights[u, v] = self.weights[v, u] = weight

    def all(self) -> npt.NDArray[Any]:
        """All weights, as a symmetric array of shape (n, n)."""
        n = self.n
        rows, written = self.weights[:n, :n], self._written[:n]
        return np.where(written[:, None] >= written, rows, rows.T)

    def weights_of(self, u: Int64, v: Int64) -> npt.NDArray[Any]:
        """The weights of these edges."""
        found = self._between(u, v)
        for i in np.flatnonzero(~self.is_edge(found) | (u == v))[:1]:
            raise KeyError((int(u[i]), int(v[i])))
        return found

    def blocks(self) -> Iterator[Block]:
        """All edges, some rows at a time."""
        every = np.arange(self.n)
        for first in range(0, self.n, _STEP):
            u = every[first : first + _STEP, None]
            weights = self._between(u, every)
            yield Block(u, every[None, :], weights, self.is_edge(weights) & (u != every))

    def _between(self, u: Int64, v: Int64) -> npt.NDArray[Any]:
        later = self._written[u] >= self._written[v]
        found: npt.NDArray[Any] = self.weights[np.where(later, u, v), np.where(later, v, u)]
        return found
