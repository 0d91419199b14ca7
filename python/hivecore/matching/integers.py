"""Weights as integers: exactly where that is possible, on a stated grid where it is not.

The kernel counts in int64 and never rounds. Integers are taken as they are. Floats are multiples of
a power of two; if one grid ``2**exponent`` holds all of them with at most 58 bits each, they are
taken as multiples of it and nothing is lost. Otherwise they are rounded to the finest such grid.
"""

import math
from typing import NamedTuple, Self

__all__ = ["FLOAT_BITS", "LIMIT", "Extent", "Integers", "finest_exponent"]

LIMIT = 2**59
"""The largest magnitude of a weight that the kernel takes."""

FLOAT_BITS = 58
"""Of the heaviest float in integers, at most."""


class Extent(NamedTuple):
    """What is known of a graph's weights; all but ``edges`` is void where there are none."""

    edges: int
    """How many edges there are."""
    low: int | float
    """The smallest weight: an int if weights are integers."""
    high: int | float
    """The largest weight."""
    grid: int
    """Floats are multiples of ``2**grid``, and of no larger power; 0 if all are 0."""


class Integers(NamedTuple):
    """How the weights of a graph become integers, ``round(weight / 2**exponent)``."""

    exponent: int
    exact: bool
    """Whether no weight is rounded."""
    low: int
    """The smallest of the integers."""
    high: int
    """The largest of the integers."""

    @classmethod
    def of(cls, extent: Extent, widest: int = 2 * LIMIT) -> Self:
        """The integers for a graph that has edges.

        :param widest: how much ``high`` may exceed ``low``; floats are rounded until it does not.
        :raises ValueError: integers beyond 2**59, or further apart than ``widest``.
        """
        _, low, high, grid = extent
        if isinstance(low, int) and isinstance(high, int):
            _check_integers(low, high, widest)
            return cls(0, True, low, high)
        # The coarsest grid that holds them all: small numbers leave room for an offset.
        exponent = max(grid, finest_exponent(low, high))
        while _point(high, exponent) - _point(low, exponent) > widest:
            exponent += 1
        return cls(exponent, exponent <= grid, _point(low, exponent), _point(high, exponent))


def finest_exponent(low: float, high: float) -> int:
    """Of the finest grid on which floats from low to high have `FLOAT_BITS` bits at most."""
    return math.frexp(max(-low, high))[1] - FLOAT_BITS


def _check_integers(low: int, high: int, widest: int) -> None:
    if low < -LIMIT or high > LIMIT:
        worst = low if low < -LIMIT else high
        raise ValueError(f"graph has the weight {worst}: allowed are -2**59 to 2**59")
    if high - low > widest:
        raise ValueError(
            f"graph has weights from {low} to {high}: matchings of most edges can be compared "
            f"for sure only if the weights are at most {widest} apart"
        )


def _point(weight: float, exponent: int) -> int:
    """The multiple of ``2**exponent`` next to the weight."""
    return round(math.ldexp(weight, -exponent))
