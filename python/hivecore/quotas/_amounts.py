"""Amounts by dimension as sorted tuples of pairs: values, so records that hold them are, too."""

from collections.abc import Iterable, Mapping

from hivecore._arguments import as_dict, as_int, as_name

__all__ = ["MOST", "Amounts", "AmountsLike", "as_amounts"]

Amounts = tuple[tuple[str, int], ...]
AmountsLike = Mapping[str, int] | Iterable[tuple[str, int]]

#: The largest amount, and the largest sum of them.
MOST = 2**62


def as_amounts(value: object, name: str, most: int = MOST) -> Amounts:
    """The amounts, sorted by their dimensions."""
    given = as_dict(value, name).items()
    return tuple(
        sorted((as_name(key, name), as_int(one, f"{name}[{key!r}]", 0, most)) for key, one in given)
    )
