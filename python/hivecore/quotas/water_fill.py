"""Amounts divided among children with minimums, requests and weights."""

from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore._quotas import fill_water, water_rounds
from hivecore._record import Record
from hivecore.quotas._amounts import MOST

__all__ = ["WaterFillRound", "water_fill", "water_fill_rounds"]

_Ints = npt.NDArray[np.int64]


class WaterFillRound(Record, frozen=True):
    """One pass over the children that still want more.

    :param amount: the amount that is divided.
    :param children: the numbers of these children, ascending.
    :param shares: the share of each; what exceeds its request is divided in the next round.
    """

    amount: int
    children: tuple[int, ...]
    shares: tuple[int, ...]


def water_fill(
    amounts: npt.ArrayLike,
    requests: npt.ArrayLike,
    minimums: npt.ArrayLike,
    weights: npt.ArrayLike,
    lends: npt.ArrayLike | None = None,
) -> _Ints:
    """The share of each child in the amounts of its parent.

    :param amounts: int, or int64[dimensions]: the amounts of the parent.
    :param requests: int64[children] or int64[dimensions, children]: the requests.
    :param minimums: of the same shape: what a child gets in any case, if it requests it.
    :param weights: of the same shape: children that request more divide the rest by weight.
    :param lends: bool[children]: whether other children may use the part of the minimum that a
        child does not request; ``None``: of all.
    :returns: int64 of the shape of the requests.
    :raises ValueError: a number is not from 0 to 2**62, or shapes do not match.
    :raises TypeError: an array does not hold integers.

    Shares are rounded down; the units left over go to the largest remainders (ties: the first
    child). What exceeds a request is divided again. Products have 128 bits, so no unit is lost.
    Cost: O(children) for each of at most 63 rounds, mostly 4 to 7. Source: Koordinator's
    redistribution of elastic quotas.

    >>> from hivecore.quotas import water_fill
    >>> water_fill(100, [5, 20, 40, 70], [10, 15, 20, 15], [40, 60, 50, 80])
    array([ 5, 20, 35, 40])
    """
    wanted = _integers(requests, "requests")
    if wanted.ndim not in (1, 2):
        raise ValueError(f"requests must have one or two dimensions, not {wanted.ndim}")
    flat = wanted.ndim == 1
    children = wanted.shape[-1]
    least = _rows(_integers(minimums, "minimums"), flat)
    by = _rows(_integers(weights, "weights"), flat)
    parents = _integers(amounts, "amounts")
    if parents.ndim != (0 if flat else 1):
        raise ValueError(f"amounts must have {wanted.ndim - 1} dimensions, not {parents.ndim}")
    runtimes = fill_water(
        np.atleast_1d(parents), _rows(wanted, flat), least, by, _as_flags(lends, children)
    )
    return runtimes[0] if flat else runtimes


def water_fill_rounds(
    amount: int,
    requests: npt.ArrayLike,
    minimums: npt.ArrayLike,
    weights: npt.ArrayLike,
    lends: npt.ArrayLike | None = None,
) -> tuple[WaterFillRound, ...]:
    """The rounds of ``water_fill`` for one dimension.

    :raises ValueError: as ``water_fill`` does.
    :raises TypeError: as ``water_fill`` does.

    >>> from hivecore.quotas import water_fill_rounds
    >>> for step in water_fill_rounds(100, [5, 20, 40, 70], [10, 15, 20, 15], [40, 60, 50, 80]):
    ...     print(step.amount, step.children, step.shares)
    45 (1, 2, 3) (14, 12, 19)
    9 (2, 3) (3, 6)
    """
    wanted = _integers(requests, "requests")
    if wanted.ndim != 1:
        raise ValueError(f"requests must have one dimension, not {wanted.ndim}")
    least, by = _integers(minimums, "minimums"), _integers(weights, "weights")
    rounds = water_rounds(amount, wanted, least, by, _as_flags(lends, len(wanted)))
    return tuple(
        WaterFillRound(left, tuple(children), tuple(shares)) for left, children, shares in rounds
    )


def _integers(values: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    """As an array of integers; an error names the argument."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array of integers") from None
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind in "Of":  # integers that are too large for any type of integers?
        plain = np.asarray(values, dtype=object).flat
        too_large = all(isinstance(value, int) and not isinstance(value, bool) for value in plain)
    else:
        too_large = array.dtype.kind == "u" and int(array.max()) > MOST
    if too_large:
        raise ValueError(f"{name}: allowed are 0 to {MOST}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, not {array.dtype}")
    return array


def _rows(array: npt.NDArray[Any], flat: bool) -> npt.NDArray[Any]:
    return array[np.newaxis] if flat else array


def _as_flags(lends: npt.ArrayLike | None, children: int) -> npt.NDArray[np.bool_]:
    if lends is None:
        return np.ones(children, dtype=np.bool_)
    try:
        flags = np.asarray(lends)
    except ValueError:
        raise ValueError("lends must be an array of bools") from None
    if flags.shape != (children,):
        raise ValueError(f"lends must have length {children}")
    if children == 0:
        return np.ones(0, dtype=np.bool_)
    if flags.dtype != np.bool_:
        raise TypeError(f"lends must hold bools, not {flags.dtype}")
    return flags
