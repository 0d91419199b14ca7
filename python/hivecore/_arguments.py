"""Checks of arguments: the value in its plain type, or an error that names the argument."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

_Kind = TypeVar("_Kind")

#: The longest time, and the latest moment, in seconds.
LONGEST = 2.0**40
MOST_SEED = 2**64 - 1


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_WithName = TypeVar("_WithName", bound=_Named)


def show(value: Any) -> str:
    """The value as a message names it: short, whatever it is.

    >>> show("x" * 1000) == repr("x" * 40 + "...")
    True
    >>> show([1, 2])
    'a list'
    """
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:40] + "...")
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return "a huge number"
    if isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"a {type(value).__name__}"


def some(names: Iterable[str]) -> str:
    """The names as a message lists them: of five or more the first three.

    >>> some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    listed = list(dict.fromkeys(names))
    more = f" and {len(listed) - 3} more" if len(listed) > 4 else ""
    return ", ".join(listed[: 3 if more else 4]) + more


def as_int(value: Any, name: str, low: int, high: int) -> int:
    """The integer, or a TypeError or ValueError that names the argument."""
    try:
        # A subclass may compare as it likes: made plain.
        number = int.__int__(operator.index(value))
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if not low <= number <= high:
        shown = number if number.bit_length() <= 128 else "a huge number"
        raise ValueError(f"{name}={shown}: allowed are {low} to {high}")
    return number


def as_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs of a JSON object as a dict, or a ValueError if a key is there twice.

    It is the ``object_pairs_hook`` of `json.loads`, which would keep the last of equal keys.
    """
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        shown = twice if len(twice) <= 60 else twice[:40] + "..."
        raise ValueError(f"an object has the key {shown!r} twice")
    return fields


def utf8_text(path: Path) -> str:
    """The text of a file, or a ValueError that names the file if it is no UTF-8."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        what = f"is no UTF-8 text: {error.reason} at byte {error.start}"
        raise ValueError(f"{path}: {what}") from None


def as_bool(value: Any, name: str) -> bool:
    """Return a bool or a NumPy bool as a bool; anything else raises TypeError with the name."""
    if isinstance(value, bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    raise TypeError(f"{name} must be a bool, not {type(value).__name__}")


def as_text(value: Any, name: str) -> str:
    """The string in its plain type, or a TypeError that names the argument."""
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    # A subclass, such as numpy's, may compare and hash as it likes.
    plain: str = str.__str__(value)
    return plain


def as_float(value: Any, name: str) -> float:
    """The number as a float, or a TypeError or ValueError that names the argument."""
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a float, not {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large for a float") from None


def as_positive(value: Any, name: str, most: float) -> float:
    """The number above 0."""
    number = as_float(value, name)
    if not 0.0 < number <= most:
        raise ValueError(f"{name}={number!r}: must be positive, at most {most:g}")
    return number


def as_name(value: Any, name: str) -> str:
    """The non-empty plain string, or a TypeError or ValueError that names the argument."""
    text = value if type(value) is str else as_text(value, name)
    if not text:
        raise ValueError(f"{name} must not be empty")
    return text


def as_choice(value: Any, name: str, allowed: Sequence[str]) -> str:
    """The word in its plain type, or a TypeError or ValueError that says which there are."""
    word = as_text(value, name)
    if word not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {word!r}")
    return allowed[allowed.index(word)]


def as_mapping(value: Any, name: str) -> Mapping[Any, Any]:
    """The mapping, or a TypeError that names the argument."""
    if type(value) is not dict and not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, not {type(value).__name__}")
    return value


def as_tuple(value: Any, name: str) -> tuple[Any, ...]:
    """The sequence as a tuple, or a TypeError that names the argument; a string is none."""
    if type(value) is tuple:
        return value
    if type(value) is list:
        return tuple(value)
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence, not {type(value).__name__}")
    if isinstance(value, np.ndarray) and not value.ndim:
        raise TypeError(f"{name} must be a sequence, not an array without dimensions")
    return tuple(value)


def as_instance(value: Any, name: str, kind: type[_Kind]) -> _Kind:
    """The object of a class, or a TypeError that names the argument."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"{name} must be {article} {kind.__name__}, not {type(value).__name__}")
    return value


def tuple_of(value: Any, name: str, kind: type[_Kind]) -> tuple[_Kind, ...]:
    """The sequence as a tuple, all elements of which have to be of a class."""
    given = as_tuple(value, name)
    for item in given:
        if not isinstance(item, kind):
            raise TypeError(f"{name} must hold {kind.__name__}, not {type(item).__name__}")
    return given


def by_name(value: Any, argument: str, kind: type[_WithName]) -> dict[str, _WithName]:
    """The sequence of objects of a class by their names, each once."""
    named: dict[str, _WithName] = {}
    for item in tuple_of(value, argument, kind):
        if item.name in named:
            raise ValueError(f"{argument}: {item.name!r} is there twice")
        named[item.name] = item
    return named


def as_dict(value: object, name: str) -> Mapping[Any, Any]:
    """The mapping, or that of the tuple of pairs with different texts as keys."""
    if type(value) is not tuple:
        return as_mapping(value, name)
    pairs = [as_tuple(pair, name) for pair in value]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{name} must be a mapping, or pairs")
    if len({as_text(pair[0], name) for pair in pairs}) != len(pairs):
        raise ValueError(f"{name} names something twice")
    return dict(pairs)
