"""Checks of numbers and arrays of them, before they reach the storage kernel."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_float

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_Array = TypeVar("_Array", bound=npt.NDArray[Any])

BYTE = 1e-9  # in GB: no dataset is smaller
TINY = 5e-324  # the least float above 0
LARGEST = 1e15  # in MB/s or GB: sums and quotients of what is allowed stay finite


def as_amounts(value: Any, name: str, *, positive: bool = False, infinite: bool = False) -> Float64:
    """Numbers >= 0 of any shape as float64, or an error that names the argument and the place."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be a number or an array of numbers") from None
    if array.size == 0:
        return np.zeros(array.shape)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold numbers, not {array.dtype}")
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float64, copy=False)
    least = TINY if positive else 0.0
    most = np.inf if infinite else np.finfo(np.float64).max
    if not (numbers.min() >= least and numbers.max() <= most):
        sign = "above 0" if positive else "not negative"
        allowed = sign if infinite else f"finite and {sign}"
        refuse(numbers, ~((numbers >= least) & (numbers <= most)), name, allowed)
    return numbers


def refuse(numbers: Any, bad: Any, name: str, allowed: str) -> None:
    """Raise a ValueError that names the first bad place."""
    place = np.argwhere(bad)[0].tolist()
    where = f"{name}{place}" if place else name
    raise ValueError(f"{where}={numbers[tuple(place)]}: must be {allowed}")


def as_column(
    value: Any, name: str, length: int, low: float = 0.0, high: float = LARGEST
) -> Float64:
    """A read-only copy of `length` numbers from low to high."""
    numbers = as_amounts(value, name)
    if numbers.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), not {numbers.shape}")
    if length and not (numbers.min() >= low and numbers.max() <= high):
        refuse(numbers, (numbers < low) | (numbers > high), name, f"from {low:g} to {high:g}")
    return frozen(np.array(numbers, dtype=np.float64))


def as_mask(value: Any, name: str, length: int) -> Bool:
    """A read-only copy of `length` booleans."""
    array = np.asarray(value)
    if array.size and array.dtype != np.bool_:
        raise TypeError(f"{name} must hold booleans, not {array.dtype}")
    if array.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), not {array.shape}")
    return frozen(np.array(array, dtype=np.bool_))


def as_amount(value: Any, name: str, low: float = 0.0, high: float = LARGEST) -> float:
    """One number from low to high."""
    number = as_float(value, name)
    if not low <= number <= high:
        allowed = "above 0" if low == TINY else f"from {low:g} to {high:g}"
        raise ValueError(f"{name}={number}: must be {allowed}")
    return number


def as_choice(value: Any, name: str, allowed: Sequence[str]) -> str:
    """The word, or an error that says which there are."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    if value not in allowed:
        raise ValueError(f"{name}={value!r}: must be one of {', '.join(allowed)}")
    return value


def frozen(array: _Array) -> _Array:
    """The array, read-only from now on."""
    array.flags.writeable = False
    return array
