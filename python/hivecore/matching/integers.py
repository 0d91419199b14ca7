"""Weights as integers: exactly where that is possible, on a stated grid where it is not.

The kernel counts in int64 and never rounds. Integers are taken as they are. Floats are multiples of
a power of two; if one grid ``2**exponent`` holds all of them with at most 58 bits each, they are
taken as multiples of it and nothing is lost. Otherwise they are rounded to the finest such grid.
"""

import math
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hivecore.matching.graph import Graph, Int64

__all__ = ["LIMIT", "Integers"]

LIMIT = 2**59
"""The largest magnitude of a weight that the kernel takes."""

_BITS = 58
_PART = 1 << 15  # weights converted in one go: they stay in the cache


class Integers(NamedTuple):
    """The weights of a graph as ``values * 2**exponent``."""

    values: Int64
    """In the layout of ``Graph.weights``; 0 where there is no edge, or any edge's value."""
    exponent: int
    exact: bool
    """Whether no weight was rounded."""
    low: int
    """The smallest value."""
    high: int
    """The largest value."""

    @classmethod
    def of(cls, graph: Graph, widest: int = 2 * LIMIT) -> Self:
        """The weights of a graph that has edges.

        :param widest: how much ``high`` may exceed ``low``; floats are rounded until it does not.
        :raises ValueError: integers beyond 2**59, or further apart than ``widest``.
        """
        if graph.integral:
            return cls._of_integers(graph, widest)
        return cls._of_floats(graph, widest)

    @classmethod
    def _of_integers(cls, graph: Graph, widest: int) -> Self:
        weights, missing = graph.weights, graph.missing()
        if missing is not None:
            weights = np.where(missing, weights[0, 1], weights)
        low, high = int(weights.min()), int(weights.max())
        if low < -LIMIT or high > LIMIT:
            worst = low if low < -LIMIT else high
            raise ValueError(f"graph has the weight {worst}: allowed are -2**59 to 2**59")
        if high - low > widest:
            raise ValueError(
                f"graph has weights from {low} to {high}: matchings of most edges can be compared "
                f"for sure only if the weights are at most {widest} apart"
            )
        return cls(weights.astype(np.int64), 0, True, low, high)

    @classmethod
    def _of_floats(cls, graph: Graph, widest: int) -> Self:
        weights, missing = graph.weights.astype(np.float64, order="C"), graph.missing()
        if missing is not None:
            weights[missing] = np.nan
        low, high = float(np.fmin.reduce(weights, None)), float(np.fmax.reduce(weights, None))
        if missing is not None:
            weights[missing] = 0.0
        exponent = math.frexp(max(-low, high))[1] - _BITS
        values, exact = _on_grid(weights, exponent)
        if exact:
            # The coarsest grid that holds them all: small numbers leave room for an offset.
            bits = int(np.bitwise_or.reduce(values, None))
            shift = (bits & -bits).bit_length() - 1
            exponent = exponent + shift if bits else 0
            values >>= max(shift, 0)
        fine = exponent
        while _point(high, exponent) - _point(low, exponent) > widest:
            exponent += 1
        if exponent > fine:
            values, exact = _on_grid(weights, exponent)
        return cls(values, exponent, exact, _point(low, exponent), _point(high, exponent))


def _on_grid(weights: npt.NDArray[np.float64], exponent: int) -> tuple[Int64, bool]:
    """The multiples of ``2**exponent`` next to the weights, and whether they are the weights."""
    values, exact = np.empty(weights.shape, dtype=np.int64), True
    given, made = weights.reshape(-1), values.reshape(-1)
    for first in range(0, len(given), _PART):
        part = given[first : first + _PART]
        rounded = np.rint(_times(part, -exponent))
        made[first : first + _PART] = rounded
        exact = exact and bool((_times(rounded, exponent) == part).all())
    return values, exact


def _times(weights: npt.NDArray[np.float64], power: int) -> npt.NDArray[np.float64]:
    """``weights * 2**power``."""
    if -1022 <= power <= 1023:
        return weights * math.ldexp(1.0, power)
    scaled: npt.NDArray[np.float64] = np.ldexp(weights, power)  # slower
    return scaled


def _point(weight: float, exponent: int) -> int:
    """As one element of ``_on_grid``."""
    return round(math.ldexp(weight, -exponent))
