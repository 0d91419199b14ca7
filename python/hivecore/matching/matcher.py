"""The heaviest matching of a graph that changes, updated after each change."""

import copy
import math
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import RLock
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hivecore import _matching
from hivecore._arguments import as_int
from hivecore._stateful import Branching
from hivecore._turns import in_turn
from hivecore.matching.certificate import Certificate
from hivecore.matching.graph import Block, Graph, Int64
from hivecore.matching.integers import LIMIT, Integers, finest_exponent
from hivecore.matching.matching import Matching
from hivecore.matching.read import check_dtype, read_graph
from hivecore.matching.solve import matching_of

__all__ = ["Matcher"]

_SPARE_BITS = 2  # for heavier floats, once the grid has been too coarse
_NO_EDGE = -(2**63)  # among integer weights; among floats it is NaN
_ROWS = 1 << 7  # read at a time


class Matcher(Branching):
    """A graph that can change, and its matching with the greatest weight after each change.

    :param graph: as in `max_weight_matching`, or a number of vertices without edges. Integer
        weights stay integers; else weights are floats, which are rounded where they differ by many
        orders of magnitude: `Matching.exact` and ``gap_bound`` say whether that may matter.
    :raises TypeError, ValueError: as `max_weight_matching` does; a call that fails changes nothing.

    Vertices keep their numbers. A change costs O(n), and `solve` only what the change affects:
    duals, pairs and blossoms that still hold are kept, for odd and even numbers of vertices. It
    starts from scratch where its count of steps says that this is likely to be faster: any number
    of calls take at most about a tenth more time than as many solutions from scratch, and nearly
    always far less. Changes may be batched. Memory: 12 to 16 bytes per entry of an (n, n) array,
    also for sparse graphs. May be used by several threads: calls take turns. Source: the invariants
    of Edmonds (1965); for assignments Mills-Tettey, Stentz and Dias (CMU-RI-TR-07-27, 2007).

    >>> import numpy as np
    >>> matcher = Matcher(np.array([[0.0, 0.9, 0.5], [0.9, 0.0, 0.7], [0.5, 0.7, 0.0]]))
    >>> matcher.solve().pairs.tolist()
    [[0, 1]]
    >>> matcher.add_vertex([0.9, 0.3, 0.6])
    3
    >>> matcher.solve().pairs.tolist()
    [[0, 3], [1, 2]]
    >>> matcher.remove_vertex(0)
    >>> matcher.solve().pairs.tolist()
    [[1, 2]]
    """

    def __init__(self, graph: Any) -> None:
        if isinstance(graph, (int, np.integer)):
            n = as_int(graph, "graph", 0, 2**24)
            self._graph = _ChangingGraph(n, np.float64)
        else:
            given, _, edges, extent = read_graph(graph, lightest=False, positive=True)
            if edges:
                Integers.of_positive(extent)  # refuses what max_weight_matching refuses
            self._graph = _ChangingGraph(given.n, np.int64 if given.integral else np.float64)
            for block in given.blocks():
                u, v = (np.broadcast_to(ends, block.present.shape) for ends in (block.u, block.v))
                known = block.present
                self._graph.weights[u[known], v[known]] = block.weights[known]
        self._lock = RLock()
        self._vacant: list[int] = []
        self._exponent: int  # of the grid of floats
        self._exact: bool
        self._is_finest: bool
        self._room: int  # of the kernel, in vertices
        self._heaviest: int  # weight that it can hold
        self._kernel: object
        self._found: Matching | None = None
        self._start_over(fine=False)

    @in_turn
    def __repr__(self) -> str:
        vertices = self._graph.n - len(self._vacant)
        return f"{type(self).__name__}({vertices} {'vertex' if vertices == 1 else 'vertices'})"

    @property
    def n(self) -> int:
        """The number of vertices, removed ones included: the length of `Matching.mate`."""
        with self._lock:
            return self._graph.n

    @property
    @in_turn
    def vertices(self) -> Int64:
        """The vertices that have not been removed, ascending."""
        return np.setdiff1d(np.arange(self.n), self._vacant)

    @in_turn
    def set_vertex(self, v: int, row: npt.ArrayLike) -> None:
        """Change the weights of a vertex.

        :param row: shape (n,), as a row of a dense array: NaN is no edge; entries of ``v`` itself
            and of removed vertices are ignored.
        :raises ValueError, TypeError: ``v`` is no vertex, or ``row`` does not fit the graph.
        """
        v = self._as_vertex(v, "v")
        self._write(v, self._as_row(row, v))

    @in_turn
    def remove_vertex(self, v: int) -> None:
        """Remove a vertex; the next added vertex may get its number.

        :raises ValueError, TypeError: ``v`` is no vertex.
        """
        v = self._as_vertex(v, "v")
        self._write(v, np.full(self.n, self._graph.no_edge))
        insort(self._vacant, v)

    @in_turn
    def add_vertex(self, row: npt.ArrayLike) -> int:
        """Add a vertex; it gets the lowest free number, which is returned.

        :param row: shape (n,) for the current ``n``: its weights, as in `set_vertex`.
        :raises ValueError, TypeError: ``row`` does not fit the graph.
        """
        graph = self._graph
        v = self._vacant[0] if self._vacant else graph.n
        weights = self._as_row(row, v)
        if v < graph.n:
            self._write(v, weights)
            del self._vacant[0]
            return v
        if v == graph.capacity:
            as_int(v + 1, "the number of vertices", 0, 2**24)
            graph.make_room(v + v // 4 + 16)
        if v >= self._room:  # also if the kernel failed to grow the last time
            self._start_over(fine=False)
        graph.n += 1
        try:
            self._write(v, np.append(weights, graph.no_edge))
        except BaseException:
            graph.n -= 1
            raise
        return v

    @in_turn
    def set_edge(self, u: int, v: int, weight: float | None) -> None:
        """Change the weight of an edge; None or NaN removes it.

        :raises ValueError, TypeError: ``u`` or ``v`` is no vertex, they are the same, or the weight
            is infinite or of another kind than the graph's.
        """
        u, v = self._as_vertex(u, "u"), self._as_vertex(v, "v")
        if u == v:
            raise ValueError(f"u={u} and v={v}: loops are not allowed")
        graph = self._graph
        given = np.asarray(weight)
        if given.ndim != 0:
            raise TypeError("weight must be one number")
        if weight is None or (given.dtype.kind == "f" and np.isnan(given)):
            value = np.asarray(graph.no_edge, dtype=graph.weights.dtype)
        else:
            value = self._as_weights(given, "weight")
        counts = self._counts(value.reshape(1))
        if counts is None:
            before = graph.row(u)[v]
            graph.set_edge(u, v, value.item())
            self._refine_or(lambda: graph.set_edge(u, v, before))
        else:
            _matching.matcher_set_edge(self._kernel, u, v, int(counts[0]))
            graph.set_edge(u, v, value.item())
        self._found = None

    @in_turn
    def solve(self) -> Matching:
        """The matching with the greatest weight of the current graph, with its proof.

        Edges of weight <= 0 are not used. Ties may be broken differently than by
        `max_weight_matching`. `Matching.verify` reads the graph at the time of its call.
        """
        if self._found is None:
            if not self._exact:
                self._sharpen()
            n = self.n
            mate, duals, innermost, parents, blossom_duals = _matching.matcher_solve(self._kernel)
            certificate = Certificate(
                duals[:n], innermost[:n], parents, blossom_duals, self._exponent, 0, 1, False
            )
            answer = mate[:n], certificate, 0, not self._exact
            self._found = matching_of(self._graph, answer, certificate=True)
        return self._found

    def copy(self) -> Self:
        """An independent matcher of the same graph, for what-if questions.

        It has the current matching. Cost: O(n^2), and a solution from scratch after its first
        change.
        """
        branch = type(self).__new__(type(self))
        branch._put_back(self._state())
        return branch

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._state())

    @in_turn
    def check(self) -> None:
        """Prove the matching of the current graph.

        :raises CertificateError: the proof fails, which would be a defect of the library.
        """
        self.solve().verify()

    @in_turn
    def _state(self) -> tuple[Any, ...]:
        """Graph, removed vertices, whether floats need the finest grid, and the matching."""
        fine = not self._exact or self._is_finest
        matching = None if self._found is None else replace(self._found, _graph=None)
        return copy.deepcopy(self._graph), self._vacant.copy(), fine, matching

    def _put_back(self, state: tuple[Any, ...]) -> None:
        self._lock = RLock()
        self._graph, self._vacant, fine, matching = state
        self._found = None if matching is None else replace(matching, _graph=self._graph)
        self._start_over(fine=fine)

    # --- arguments

    def _as_vertex(self, v: int, name: str) -> int:
        v = as_int(v, name, 0, self.n - 1)
        if v in self._vacant:
            raise ValueError(f"{name}={v}: has been removed")
        return v

    def _as_row(self, row: npt.ArrayLike, v: int) -> npt.NDArray[Any]:
        given = np.asarray(row)
        if given.shape != (self.n,):
            raise ValueError(f"row must have the shape ({self.n},), not {given.shape}")
        weights = self._as_weights(given, "row")
        weights[v : v + 1] = self._graph.no_edge
        if self._vacant:
            weights[self._vacant] = self._graph.no_edge
        return weights

    def _as_weights(self, given: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
        """In the graph's dtype, without loss; a copy."""
        if given.size:
            check_dtype(given, name)
        is_float = given.dtype.kind == "f"
        if self._graph.integral:
            if is_float and given.size:
                raise TypeError(f"{name} must hold integers, as the graph does")
            if given.dtype.kind == "u":
                given = np.minimum(given, np.uint64(LIMIT + 1))
            beyond_stays_beyond: Int64 = given.astype(np.int64)
            return beyond_stays_beyond.clip(-LIMIT - 1, LIMIT + 1)
        weights = given.astype(np.float64)
        beyond = 2.0 ** (64 if given.dtype.kind == "u" else 63)
        if not is_float and (
            (weights >= beyond).any() or (weights.astype(given.dtype) != given).any()
        ):
            raise ValueError(f"{name} has an integer that is no float, as the graph's weights are")
        return weights

    # --- weights as integers

    def _write(self, v: int, row: npt.NDArray[Any]) -> None:
        graph = self._graph
        counts = self._counts(row)
        if counts is not None:
            _matching.matcher_set_row(self._kernel, v, counts)
            graph.set_row(v, row)
        else:
            before = graph.row(v)
            graph.set_row(v, row)
            self._refine_or(lambda: graph.set_row(v, before))
        self._found = None

    def _counts(self, weights: npt.NDArray[Any]) -> Int64 | None:
        """The integers for these weights; None: the present grid or kernel cannot hold them."""
        if self._graph.integral:
            counts: Int64 = weights
            if counts.max(initial=0) > LIMIT or (counts == -LIMIT - 1).any():
                raise ValueError("a weight is beyond 2**59 in magnitude")
            return counts if counts.max(initial=0) <= self._heaviest else None
        heaviest = self._heaviest
        low, high, _ = _matching.extent_of(weights)
        if high >= low:
            if math.isinf(low) or math.isinf(high):
                raise ValueError("a weight is infinite")
            if finest_exponent(0.0, max(0.0, high)) > self._exponent:
                return None
        exact = _matching.scaled_exactly(weights, self._exponent, heaviest)
        if exact is not None:
            return exact
        if not self._is_finest:
            return None
        rounded = _matching.scaled(weights, self._exponent, floor=0)
        if rounded.max() > heaviest:
            return None
        self._exact = False
        return rounded

    def _refine_or(self, undo: Callable[[], None]) -> None:
        try:
            self._start_over(fine=True)
        except BaseException:
            undo()
            raise

    def _sharpen(self) -> None:
        """Undo rounding that only weights made necessary which are gone by now. O(n^2)."""
        low, high, grid = _matching.extent_of(self._graph.all().ravel(), positive=True)
        if high < low or self._exponent <= grid:
            self._exact = True
        elif finest_exponent(0.0, max(0.0, high)) < self._exponent:
            self._start_over(fine=True)

    def _start_over(self, *, fine: bool) -> None:
        """Make a kernel for the weights as they are now.

        :param fine: whether floats get a finer grid than they need, so that others fit it too.
        """
        weights = self._graph.all()
        counts: Int64 = weights
        exponent, exact, is_finest = 0, True, False
        if not self._graph.integral:
            low, high, grid = _matching.extent_of(weights.ravel(), positive=True)
            if high >= low:
                finest = finest_exponent(0.0, max(0.0, high))
                exponent = max(finest, min(grid, finest + _SPARE_BITS) if fine else grid)
                exact, is_finest = exponent <= grid, exponent == finest
            counts = _matching.scaled(weights.ravel(), exponent, floor=0).reshape(weights.shape)
        kernel = _matching.matcher(self._graph.capacity, counts)
        self._kernel, self._room = kernel, self._graph.capacity
        self._heaviest = _matching.matcher_heaviest(kernel)
        self._exponent, self._exact, self._is_finest = exponent, exact, is_finest


def _restored(kind: type[Matcher], state: tuple[Any, ...]) -> Matcher:
    matcher = kind.__new__(kind)
    matcher._put_back(state)
    return matcher


class _ChangingGraph(Graph):
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
    def no_edge(self) -> float | int:
        """The weight of a pair that is no edge."""
        return _NO_EDGE if self.integral else np.nan

    def make_room(self, capacity: int) -> None:
        """For more vertices, without edges so far."""
        weights = np.full((capacity, capacity), self.no_edge, dtype=self.weights.dtype)
        known = self.capacity
        weights[:known, :known] = self.weights
        self._written = np.append(self._written, np.zeros(capacity - known, dtype=np.int64))
        self.weights = weights

    def is_edge(self, weights: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which of the weights are those of an edge."""
        edges: npt.NDArray[np.bool_] = (
            weights != _NO_EDGE if self.integral else weights == weights  # NaN is not
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
        weights = self._between(u, v)
        for i in np.flatnonzero(~self.is_edge(weights) | (u == v))[:1]:
            raise KeyError((int(u[i]), int(v[i])))
        return weights

    def blocks(self) -> Iterator[Block]:
        """All edges, some rows at a time."""
        every = np.arange(self.n)
        for first in range(0, self.n, _ROWS):
            u = every[first : first + _ROWS, None]
            weights = self._between(u, every)
            yield Block(u, every[None, :], weights, self.is_edge(weights) & (u != every))

    def _between(self, u: Int64, v: Int64) -> npt.NDArray[Any]:
        later = self._written[u] >= self._written[v]
        weights: npt.NDArray[Any] = self.weights[np.where(later, u, v), np.where(later, v, u)]
        return weights
