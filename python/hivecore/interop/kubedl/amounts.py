"""Amounts in the units that quotas count: thousandths of a core, and one of everything else."""

from fractions import Fraction

__all__ = ["MOST", "in_units"]

#: The largest amount that a quota takes.
MOST = 2**63 - 1


def in_units(resource: str, amount: Fraction) -> Fraction:
    """The amount in units, which need not be whole: who adds up rounds afterwards.

    >>> in_units("cpu", Fraction(1, 2)), in_units("memory", Fraction(512))
    (Fraction(500, 1), Fraction(512, 1))
    """
    return amount * 1000 if resource == "cpu" else amount
