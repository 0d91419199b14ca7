"""Durations in Go's notation, such as "1h30m"."""

import re
from fractions import Fraction

__all__ = ["read_duration"]

_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_LONGEST = Fraction(2**63 - 1, 10**9)


def read_duration(text: str) -> Fraction | None:
    """Return the seconds of a duration; ``None`` if Go could not parse or hold it.

    >>> read_duration("1h0.5s"), read_duration("ten")
    (Fraction(7201, 2), None)
    """
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Fraction(0)
    total, end = Fraction(0), 0
    if not rest or len(rest) > 200:
        return None
    while end < len(rest):
        part = _PART.match(rest, end)
        if part is None:
            return None
        total += Fraction(part[1].rstrip(".") if part[1] != "." else "0") * _SECONDS[part[2]]
        end = part.end()
    return sign * total if total <= _LONGEST else None
