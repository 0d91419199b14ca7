"""Values of somebody's document, as a message names them."""

from collections.abc import Mapping
from typing import Any

__all__ = ["is_blank", "show"]


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


def is_blank(value: Any) -> bool:
    """Whether nothing is said: null or an empty text."""
    return value is None or (isinstance(value, str) and not value)
