"""Checks of arguments: the value in its plain type, or an error that names the argument."""

import operator
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any


def as_int(value: Any, name: str, low: int, high: int) -> int:
    """The integer, or a TypeError or ValueError that names the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if not low <= number <= high:
        raise ValueError(f"{name}={number}: allowed are {low} to {high}")
    return number


def as_float(value: Any, name: str) -> float:
    """The number as a float, or a TypeError or ValueError that names the argument."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a float, not {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large for a float") from None


def as_name(value: Any, name: str) -> str:
    """The non-empty string, or a TypeError or ValueError that names the argument."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    if not value:
        raise ValueError(f"{name} must not be empty")
    return value


def as_mapping(value: Any, name: str) -> Mapping[Any, Any]:
    """The mapping, or a TypeError that names the argument."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, not {type(value).__name__}")
    return value


def as_tuple(value: Any, name: str) -> tuple[Any, ...]:
    """The sequence as a tuple, or a TypeError that names the argument; a string is none."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence, not {type(value).__name__}")
    return tuple(value)
