"""Checks numbers and arrays before they reach the storage kernel."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_float

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_Array = TypeVar("_Array", bound=npt.NDArray[Any])

BYTE = 1e-9  # in GB: the least size of a dataset
_TINY = 5e-324  # the least positive float
LARGEST = 1e15  # in MB/s or GB: sums and quotients of allowed values stay finite
LEAST = 1e-15  # smaller values count as 0: products and quotients never underflow


def as_amounts(value: Any, name: str, *, positive: bool = False, infinite: bool = False) -> Float64:
    """Return numbers >= 0 of any shape as float64; an error names the argument and the position."""
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
    least = _TINY if positive else 0.0
    most = np.inf if infinite else np.finfo(np.float64).max
    if not (numbers.min() >= least and numbers.max() <= most):
        sign = "above 0" if positive else "not negative"
        allowed = sign if infinite else f"finite and {sign}"
        refuse(numbers, ~((numbers >= least) & (numbers <= most)), name, allowed)
    return numbers


def refuse(numbers: Any, bad: Any, name: str, allowed: str) -> None:
    """Raise a ValueError that names the first bad position."""
    place = np.argwhere(bad)[0].tolist()
    where = f"{name}{place}" if place else name
    raise ValueError(f"{where}={numbers[tuple(place)]}: must be {allowed}")


def as_column(
    value: Any, name: str, length: int, low: float = 0.0, high: float = LARGEST
) -> Float64:
    """Return a read-only copy of `length` numbers from low to high; below LEAST they count as 0."""
    numbers = as_amounts(value, name)
    if numbers.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), not {numbers.shape}")
    if length and not (numbers.min() >= low and numbers.max() <= high):
        refuse(numbers, (numbers < low) | (numbers > high), name, f"from {low:g} to {high:g}")
    column = np.array(numbers, dtype=np.float64)
    column[column < LEAST] = 0.0
    return frozen(column)


def as_mask(value: Any, name: str, length: int) -> Bool:
    """Return a read-only copy of `length` booleans."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be an array of booleans") from None
    if array.size and array.dtype != np.bool_:
        raise TypeError(f"{name} must hold booleans, not {array.dtype}")
    if array.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), not {array.shape}")
    return frozen(np.array(array, dtype=np.bool_))


def as_amount(value: Any, name: str, low: float = 0.0, high: float = LARGEST) -> float:
    """Return a number from low to high; below LEAST it counts as 0, if 0 is allowed."""
    number = as_float(value, name)
    if not low <= number <= high:
        allowed = f"from {low:g} to {high:g}"
        raise ValueError(f"{name}={number}: must be {allowed}")
    return 0.0 if low == 0.0 and number < LEAST else number


def as_flag(value: Any, name: str) -> bool:
    """Return a bool; an error names the argument."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a bool, not {type(value).__name__}")
    return bool(value)


def as_one_shape(*arrays: Float64) -> tuple[Float64, ...]:
    """Broadcast all arrays to the same shape; an error lists their shapes."""
    try:
        return np.broadcast_arrays(*arrays)
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"the arguments' shapes {shapes} do not broadcast") from None


def fill_in_order(wanted: Float64, budget: float) -> Float64:
    """Return what each gets if all take what they want in turn, while the budget lasts."""
    # Not the sum minus the last one, as a large value would absorb small ones before it.
    before = np.concatenate(([0.0], np.cumsum(wanted[:-1])))[: len(wanted)]
    return np.clip(budget - before, 0.0, wanted)


def frozen(array: _Array) -> _Array:
    """Make an array read-only."""
    array.flags.writeable = False
    return array
