"""Amounts of which a thousandth is the least: integers, and Decimals of what is not whole.

Sums of them are exact, as sums of floats are not. In JSON they are numbers.
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from math import ulp
from typing import Any, TypeAlias

from hivecore._arguments import as_dict, as_int, as_name
from hivecore._quantities import read_exactly

__all__ = [
    "THOUSAND",
    "Amount",
    "Amounts",
    "AmountsLike",
    "as_fraction",
    "as_fractions",
    "as_number",
    "counted",
    "exact",
    "of_thousandths",
]

#: Decimal: only of what is not whole.
Amount: TypeAlias = int | Decimal
Amounts = tuple[tuple[str, Amount], ...]
AmountsLike = (
    Mapping[str, int | float | str | Decimal | Fraction]
    | tuple[tuple[str, int | float | str | Decimal | Fraction], ...]
)

THOUSAND = 1000
#: The largest amount that is not whole: as a float, too, it is not mistaken for another one.
_MOST_FRACTION = 2**40


def of_thousandths(number: int) -> Amount:
    """The amount of so many thousandths.

    >>> of_thousandths(250), of_thousandths(2000)
    (Decimal('0.25'), 2)
    """
    whole, rest = divmod(number, THOUSAND)
    return Decimal(number) / THOUSAND if rest else whole


def exact(amount: Amount) -> Amount:
    """The amount in its plain form: a sum of Decimals may be whole."""
    return amount if type(amount) is int else of_thousandths(int(amount * THOUSAND))


def counted(amount: Amount, in_thousandths: bool) -> int:
    """The number of units, or of thousandths."""
    return int(amount * THOUSAND) if in_thousandths else int(amount)


def as_number(amount: Amount) -> int | float:
    """The amount for JSON, a float that reads as it if it is not whole."""
    return float(amount) if type(amount) is Decimal else amount  # type: ignore[return-value]


def as_fractions(value: object, name: str, low: int, high: int) -> Amounts:
    """The amounts by their names, as pairs in the order of these.

    :param low: the least whole one; those that are not whole are above 0, up to 2**40.
    """
    if type(value) is tuple and not value:
        return value
    return tuple(
        sorted(
            (as_name(key, name), as_fraction(amount, f"{name}[{key!r}]", low, high))
            for key, amount in as_dict(value, name).items()
        )
    )


def as_fraction(value: Any, name: str, low: int, high: int) -> Amount:
    """The amount, or a TypeError or ValueError that names the argument; see `as_fractions`.

    A string is a quantity, such as "80Gi".
    """
    if isinstance(value, str):
        value = read_exactly(value, name)
    if not isinstance(value, (float, Decimal, Fraction)):
        return as_int(value, name, low, high)
    try:
        number = round(Fraction(value) * THOUSAND)
    except (ValueError, OverflowError):
        raise ValueError(f"{name}={value}: is no number of units") from None
    if isinstance(value, float):  # the one that is nearest to what is meant, or a sum of such
        same = abs(value - number / THOUSAND) <= max(1e-9, ulp(value))
    else:
        same = value == Fraction(number, THOUSAND)
    if not same:
        raise ValueError(f"{name}={value}: is no multiple of 0.001")
    if number % THOUSAND == 0:
        return as_int(number // THOUSAND, name, low, high)
    most = min(high, _MOST_FRACTION)
    if not 0 < number <= most * THOUSAND:
        raise ValueError(f"{name}={value}: allowed are {low} to {most}")
    return of_thousandths(number)
