"""Amounts as Kubernetes writes them: "80Gi" is 80 * 2**30, "1.5k" is 1500."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from typing import Any

from hivecore._arguments import as_dict, as_int, as_name, show

__all__ = [
    "as_amounts",
    "as_units",
    "read_exactly",
    "read_quantity",
    "resource_meant",
    "write_binary",
    "write_decimal",
    "write_exactly",
]

_FORM = re.compile(r"([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([A-Za-z]*|[eE][-+]?[0-9]{1,2})")
_LONGEST = 64
_LONG = 4  # letters of a name, in which a typo leaves most as they were
_DECIMAL = ("k", "M", "G", "T", "P", "E")
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SCALES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**i) for i, suffix in enumerate(_DECIMAL, 1)},
    **{suffix: Fraction(1024**i) for i, suffix in enumerate(_BINARY, 1)},
}


def read_quantity(value: Any, name: str) -> int:
    """The whole number that a quantity stands for.

    :param value: a quantity as a string, or a number.
    :param name: what messages call it.
    :raises TypeError: it is neither.
    :raises ValueError: it is no quantity, or no whole number.

    Source: Kubernetes, ``resource.Quantity``.

    >>> from hivecore._quantities import read_quantity
    >>> read_quantity("80Gi", "memory") == 80 << 30, read_quantity("1.5k", "n")
    (True, 1500)
    """
    number = read_exactly(value, name)
    if number.denominator != 1:
        raise ValueError(f"{name}: {show(value)} is no whole number")
    return number.numerator


def read_exactly(value: Any, name: str) -> Fraction:
    """The number that a quantity stands for, which need not be whole; else as `read_quantity`.

    >>> from hivecore._quantities import read_exactly
    >>> read_exactly("1500m", "cpu"), read_exactly(0.1, "cpu")
    (Fraction(3, 2), Fraction(1, 10))
    """
    if isinstance(value, str):
        number = _number(value) if len(value) <= _LONGEST else None
        if number is None:
            raise ValueError(f"{name}: {show(value)} is no quantity, such as 100 or '80Gi'")
        return number
    if isinstance(value, float):
        if not abs(value) < 2**1000:
            raise ValueError(f"{name}: {value} is no quantity, such as 100 or '80Gi'")
        # As it is written: 0.1 is a tenth.
        return Fraction(float.__repr__(value))
    try:
        if isinstance(value, bool):
            raise TypeError
        return Fraction(as_int(value, name, -(2**63), 2**63 - 1))
    except TypeError:
        message = f"{name} must be a quantity, such as 100 or '80Gi', not {show(value)}"
        raise TypeError(message) from None


def as_units(value: Any, name: str, low: int, high: int) -> int:
    """The integer, as `as_int` reads it, or that of a quantity in a string.

    >>> from hivecore._quantities import as_units
    >>> as_units("80Gi", "memory", 0, 2**48) == as_units(80 << 30, "memory", 0, 2**48)
    True
    """
    number = read_quantity(value, name) if isinstance(value, str) else value
    return as_int(number, name, low, high)


def as_amounts(value: object, name: str, low: int, high: int) -> tuple[tuple[str, int], ...]:
    """The integers by their names, as pairs in the order of these; a string is a quantity."""
    if type(value) is tuple and not value:
        return value
    given = as_dict(value, name).items()
    return tuple(
        sorted((as_name(key, name), as_units(n, f"{name}[{key!r}]", low, high)) for key, n in given)
    )


@lru_cache(1 << 12)  # objects of a cluster repeat few amounts
def _number(text: str) -> Fraction | None:
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    digits, suffix = match.groups()
    if suffix in _SCALES:
        return Fraction(digits) * _SCALES[suffix]
    # "1E" is a suffix, "1E3" an exponent.
    if suffix[1:].lstrip("+-").isdecimal():
        return Fraction(digits) * Fraction(10) ** int(suffix[1:])
    return None


def write_binary(number: int) -> str:
    """The number in the largest power of 1024 in which it is whole.

    >>> from hivecore._quantities import write_binary
    >>> write_binary(80 << 30), write_binary(1000)
    ('80Gi', '1000')
    """
    return _write(number, 1024, _BINARY)


def write_decimal(number: int) -> str:
    """The number in the largest power of 1000 in which it is whole.

    >>> from hivecore._quantities import write_decimal
    >>> write_decimal(100), write_decimal(2000)
    ('100', '2k')
    """
    return _write(number, 1000, _DECIMAL)


def write_exactly(number: Fraction) -> str:
    """The number, which is a whole number of billionths, in the largest unit in which it is whole.

    >>> from hivecore._quantities import write_exactly
    >>> write_exactly(Fraction(80 << 30)), write_exactly(Fraction(3, 2)), write_exactly(Fraction(0))
    ('80Gi', '1500m', '0')
    """
    if number.denominator == 1:
        whole = number.numerator
        return write_decimal(whole) if whole % 1024 else write_binary(whole)
    for suffix, parts in (("m", 10**3), ("u", 10**6), ("n", 10**9)):
        if (number * parts).denominator == 1:
            return f"{number * parts}{suffix}"
    raise ValueError(f"number={number}: not a whole number of billionths")


def resource_meant(name: str, known: Iterable[str]) -> str:
    """The known resource that a name probably stands for, by another system or a typo; "": none.

    >>> from hivecore._quantities import resource_meant
    >>> known = "cpu", "gpu", "memory"
    >>> [resource_meant(name, known) for name in ("nvidia.com/gpu", "cpus", "memroy", "licenses")]
    ['gpu', 'cpu', 'memory', '']
    """
    plain = name.lower().removeprefix("requests.").removeprefix("limits.")
    if plain.count("/") == 1:  # more: what devices of a class have
        plain = plain.partition("/")[2]
    names = list(known)
    for other in names:
        if other.lower() in (plain, plain.removesuffix("s")):
            return other
    # Names that differ in a number, such as sizes of MIG, are different resources, as is "vgpu".
    alike = [
        other
        for other in names
        if re.findall(r"\d+", other) == re.findall(r"\d+", name) and not plain.endswith(other)
    ]
    near = get_close_matches(plain, alike, n=1, cutoff=0.8) if len(plain) >= _LONG else []
    return near[0] if near else ""


def _write(number: int, base: int, suffixes: tuple[str, ...]) -> str:
    power = 0
    while number and number % base == 0 and power < len(suffixes):
        number //= base
        power += 1
    return f"{number}{suffixes[power - 1]}" if power else str(number)
