"""Values of a user's document, as a message names them."""

from typing import Any

from hivecore._arguments import show

__all__ = ["is_blank", "show"]


def is_blank(value: Any) -> bool:
    """Whether nothing is said: null or an empty text."""
    return value is None or (isinstance(value, str) and not value)
