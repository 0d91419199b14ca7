"""Amounts by dimension as sorted tuples of pairs: values, so records that hold them are, too."""

from hivecore._thousandths import Amount, Amounts, AmountsLike, as_fractions

__all__ = ["MOST", "Amount", "Amounts", "AmountsLike", "as_amounts"]

#: The largest amount, and the largest sum of them.
MOST = 2**62


def as_amounts(value: object, name: str, most: int = MOST) -> Amounts:
    """The amounts, sorted by their dimensions."""
    return as_fractions(value, name, 0, most)
