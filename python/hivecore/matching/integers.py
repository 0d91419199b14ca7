"""Weights as integers: exactly where that is possible, on a stated grid where it is not.

The kernel computes in int64 and never rounds; a slower one in as many bits as it takes.
Integers are taken as they are. Floats are multiples of a power of two: a grid ``2**exponent`` on
which all of them fall loses nothing. If only a coarser one fits into int64, they are rounded to the
finest that fits, where no more is lost than by adding floats, or left to the slower kernel. Weights
far below all others may often be replaced by a floor.
"""

import math
from typing import NamedTuple, Self

__all__ = ["FLOAT_BITS", "LIMIT", "Extent", "Integers", "excess_bits", "finest_exponent"]

LIMIT = 2**59
"""The largest magnitude of a weight that the kernel takes."""

FLOAT_BITS = 58
"""Of the heaviest float in integers, at most."""

Extent = tuple[int | float, int | float, int]
"""The smallest and the largest weight, ints if weights are integers, and the grid: floats are
multiples of ``2**grid`` and of no larger power (0 if all are 0), of weights that matter: where
edges may be left out, of positive ones. All three mean nothing where there are no edges."""


class Integers(NamedTuple):
    """How the weights of a graph become integers, ``round(weight / 2**exponent)``."""

    exponent: int
    exact: bool
    """Whether no weight above the floor is rounded."""
    low: int
    """The smallest of the integers."""
    high: int
    """The largest of the integers."""
    floor: int | None = None
    """Replaces whatever is less in the sense of the search; None: nothing is replaced."""

    @classmethod
    def of_positive(cls, extent: Extent, *, rounded: bool = True) -> Self:
        """Where only positive weights matter.

        :param rounded: whether floats that take more than `FLOAT_BITS` bits are rounded.
        :raises ValueError: integers beyond 2**59.
        """
        low, high, grid = extent
        if isinstance(low, int) and isinstance(high, int):
            _check_integers(low, high)
            return cls(0, True, 0, max(0, high), 0)
        high = max(0.0, high)
        exponent = max(grid, finest_exponent(0.0, high)) if rounded else grid
        return cls(exponent, exponent == grid, 0, _on_grid(high, exponent), 0)

    @classmethod
    def whole(cls, extent: Extent) -> Self:
        """All weights exactly, however large the integers get.

        :raises ValueError: integers beyond 2**59.
        """
        low, high, grid = extent
        if isinstance(low, int) and isinstance(high, int):
            _check_integers(low, high)
        return cls(grid, True, _on_grid(low, grid), _on_grid(high, grid))

    @classmethod
    def rounded(cls, extent: Extent) -> Self:
        """Rounded to `FLOAT_BITS` bits at most, and less than 2**59 apart."""
        low, high, grid = extent
        exponent = finest_exponent(low, high)
        if _on_grid(high, exponent) - _on_grid(low, exponent) >= LIMIT:
            exponent += 1
        return cls(exponent, exponent <= grid, _on_grid(low, exponent), _on_grid(high, exponent))

    def above_floor(self, sense: int) -> Self | None:
        """The same with one floor for the worst weights, those that take too many bits.

        None where others take too many as well.
        """
        floor = -(2**FLOAT_BITS)
        worst, best = (self.low, self.high)[::sense]
        if not floor < sense * best < -floor:
            return None
        worst = sense * max(floor, sense * worst)
        return self._replace(low=min(worst, best), high=max(worst, best), floor=floor)


def finest_exponent(low: float, high: float) -> int:
    """Of the finest grid on which floats from low to high have `FLOAT_BITS` bits at most."""
    return math.frexp(max(-low, high))[1] - FLOAT_BITS


def excess_bits(extent: Extent) -> int:
    """How many bits more than `FLOAT_BITS` some floats take; 0 for integers."""
    low, high, grid = extent
    return 0 if isinstance(low, int) else max(0, finest_exponent(low, high) - grid)


def _check_integers(low: int, high: int) -> None:
    if low < -LIMIT or high > LIMIT:
        worst = low if low < -LIMIT else high
        raise ValueError(f"graph has the weight {worst}: allowed are -2**59 to 2**59")


def _on_grid(weight: float, exponent: int) -> int:
    """The multiple of ``2**exponent`` next to the weight, of two the even one."""
    numerator, denominator = weight.as_integer_ratio()  # a power of two
    shift = exponent + denominator.bit_length() - 1
    if shift <= 0:
        return numerator << -shift
    odd = numerator >> shift & 1
    return (numerator + (1 << (shift - 1)) - 1 + odd) >> shift
