"""Amounts by dimension as sorted tuples of pairs: values, so records that hold them are, too."""

from collections.abc import Iterable, Mapping

from hivecore._arguments import as_amounts as _as_amounts

__all__ = ["MOST", "Amounts", "AmountsLike", "as_amounts"]

Amounts = tuple[tuple[str, int], ...]
AmountsLike = Mapping[str, int] | Iterable[tuple[str, int]]

#: The largest amount, and the largest sum of them.
MOST = 2**62


def as_amounts(value: object, name: str, most: int = MOST) -> Amounts:
    """The amounts, sorted by their dimensions."""
    return _as_amounts(value, name, 0, most)
