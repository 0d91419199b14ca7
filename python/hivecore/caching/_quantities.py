"""Checks of amounts, rates and times: arrays of finite floats that are not negative."""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["as_amount", "as_amounts"]


def as_amounts(
    values: Any, name: str, *, positive: bool = False, infinite: bool = False
) -> npt.NDArray[np.float64]:
    """The values as float64, or a TypeError or ValueError that names the argument."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold numbers, not {array.dtype}")
    array = array.astype(np.float64)
    good = (array > 0 if positive else array >= 0) & (infinite | np.isfinite(array))
    if not good.all():
        position = np.unravel_index(int(np.argmin(good)), array.shape)
        place = f"[{', '.join(map(str, position))}]" if position else ""
        bound = "above 0" if positive else "at least 0"
        finite = "" if infinite else " and finite"
        raise ValueError(f"{name}{place}={array[position]}: must be {bound}{finite}")
    return array


def as_amount(value: Any, name: str, *, positive: bool = False, infinite: bool = False) -> float:
    """The one number as a float, or a TypeError or ValueError that names the argument."""
    array = as_amounts(value, name, positive=positive, infinite=infinite)
    if array.ndim:
        raise ValueError(f"{name} must be one number, not an array")
    return float(array)
