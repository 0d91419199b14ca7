"""Converts amounts to the units of quotas: thousandths of a core, or one of everything else."""

from fractions import Fraction

__all__ = ["MOST", "in_units"]

#: The largest amount in a quota.
MOST = 2**63 - 1


def in_units(resource: str, amount: Fraction) -> Fraction:
    """Return the amount in units, not rounded; callers round sums.

    >>> in_units("cpu", Fraction(1, 2)), in_units("memory", Fraction(512))
    (Fraction(500, 1), Fraction(512, 1))
    """
    return amount * 1000 if resource == "cpu" else amount
