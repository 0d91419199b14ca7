"""CEL's functions and operators, as a table of overloads.

CEL values are Python's bool, int, `Uint`, float, str, ``None``, tuple and dict; a quantity is a
`Fraction`, a version a `Version`, an optional value a `Maybe`.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import ceil, copysign, floor, inf, isfinite, nan
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from hivecore._arguments import show
from hivecore._quantities import read_exactly
from hivecore.dra._cel.parser import Uint
from hivecore.dra._cel.pattern import Pattern
from hivecore.dra._cel.types import STRING, Type
from hivecore.dra.attribute import SemanticVersion
from hivecore.errors import CelRuntimeError

__all__ = [
    "ABSENT",
    "COSTS",
    "FUNCTIONS",
    "KINDS",
    "Maybe",
    "Type",
    "Version",
    "pattern_of",
    "version_of",
]

ABSENT: Any = object()


class Version(NamedTuple):
    """A semantic version, as its sort key."""

    numbers: tuple[int, int, int]
    is_release: bool
    prerelease: Any


class Maybe(NamedTuple):
    """An optional value, or `ABSENT`."""

    value: Any


KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    type(None): "null",
    tuple: "list",
    dict: "map",
    Fraction: "quantity",
    Version: "semver",
    Maybe: "optional",
}


@lru_cache(1 << 12)  # drivers publish few versions, on many devices
def version_of(text: str) -> Version:
    """Parse a version; `ValueError` if it is not semantic."""
    return Version(*SemanticVersion.of(text).precedence)


@lru_cache(64)
def pattern_of(text: str) -> Pattern:
    """Parse a pattern; `ValueError` if RE2 does not allow it."""
    return Pattern(text)


# --- numbers


def _int(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise CelRuntimeError("integer overflow")
    return value


def _uint(value: int) -> Uint:
    if not 0 <= value < 2**64:
        raise CelRuntimeError("unsigned integer overflow")
    return Uint(value)


def _quotient(a: int, b: int) -> int:
    if not b:
        raise CelRuntimeError("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    if not b:
        raise CelRuntimeError("modulus by zero")
    if b == -1:
        _int(-a)  # the least integer cannot be negated
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _ratio(a: float, b: float) -> float:
    if b:
        return a / b
    return nan if not a or a != a else copysign(inf, a) * copysign(1, b)


def _whole(value: float) -> int:
    if not isfinite(value):
        raise CelRuntimeError("integer overflow")
    return int(value)


def _read_int(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,99}", text):
        raise CelRuntimeError(f"{show(text)} is no integer")
    return int(text)


def _read_double(text: str) -> float:
    if not re.fullmatch(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        raise CelRuntimeError(f"{show(text)} is no double")
    return float(text)


# --- strings; places are of characters, not of bytes


def _place(text: str, place: int) -> int:
    if not 0 <= place <= len(text):
        raise CelRuntimeError(f"index out of range: {place}")
    return place


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else _place(text, end)
    if _place(text, start) > end:
        raise CelRuntimeError(f"invalid substring range: {start}, {end}")
    return text[start:end]


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, max(count, -1))


def _split(text: str, separator: str, count: int = -1) -> tuple[str, ...]:
    if count == 0:
        return ()
    if separator:
        return tuple(text.split(separator, count - 1 if count > 0 else -1))
    cut = len(text) if count < 0 else count - 1  # in characters
    return (*text[:cut], text[cut:]) if text[cut:] else tuple(text)


def _join(values: tuple[Any, ...], separator: str = "") -> str:
    if not all(type(value) is str for value in values):
        raise CelRuntimeError("no such overload: join of other values than strings")
    return separator.join(values)


def _cased(shift: int, first: str) -> Callable[[str], str]:
    table = {ord(first) + i: ord(first) + i + shift for i in range(26)}
    return lambda text: text.translate(table)


def _matches(text: str, pattern: str) -> bool:
    try:
        return pattern_of(pattern).search(text)
    except ValueError as error:
        raise CelRuntimeError(str(error)) from None


def _joined(values: tuple[Any, ...], separator: str = "") -> int:
    sizes = [len(value) for value in values if type(value) is str]
    return len(values) * 16 + sum(sizes) + len(values) * len(separator)


def _search_cost(text: str, pattern: str) -> int:
    """Compiling costs 30 steps per character of the pattern, and a thread half a step."""
    try:
        threads = len(pattern_of(pattern).program)
    except ValueError:
        threads = 0
    return 480 * len(pattern) + 8 * (len(text) + 1) * (threads + 8)


# Cost of a call in characters, by name; a step is 16 of them.
COSTS: dict[str, Callable[..., int]] = {
    "+": lambda a, b: (len(a) + len(b)) * (1 if type(a) is str else 16),
    ".contains": lambda a, b: len(a) + len(b),
    ".indexOf": lambda a, b, start=0: len(a) + len(b),
    ".lastIndexOf": lambda a, b, start=0: len(a) + len(b),
    ".lowerAscii": len,
    ".upperAscii": len,
    ".trim": len,
    ".substring": lambda a, *places: len(a),
    ".split": lambda a, *others: 16 * len(a),
    ".join": _joined,
    ".replace": lambda a, old, new, n=-1: len(a) + (a.count(old) if n < 0 else n) * len(new),
    ".matches": _search_cost,
    "matches": _search_cost,
}


# --- versions and quantities


def _semver(text: str, normalize: bool = False) -> Version:
    try:
        return version_of(_normal(text) if normalize else text)
    except ValueError as error:
        raise CelRuntimeError(str(error)) from None


def _normal(text: str) -> str:
    """Return the version without "v", as three numbers without leading zeros."""
    text = text.removeprefix("v")
    numbers = re.split("[-+]", text)[0]
    parts = [part.lstrip("0") or "0" if part else "" for part in numbers.split(".")]
    return ".".join([*parts, "0", "0"][: max(3, len(parts))]) + text[len(numbers) :]


def _quantity(text: str) -> Fraction:
    try:
        number = read_exactly(text, "quantity") * 10**9
    except ValueError as error:
        raise CelRuntimeError(str(error)) from None
    # As in Kubernetes, parts of a billionth are rounded up.
    return Fraction(ceil(number) if number > 0 else floor(number), 10**9)


def _can(read: Callable[..., object]) -> Callable[..., bool]:
    def answer(*arguments: Any) -> bool:
        try:
            read(*arguments)
        except CelRuntimeError:
            return False
        return True

    return answer


def _compare(a: Fraction, b: Fraction) -> int:
    left, right = a.numerator * b.denominator, b.numerator * a.denominator
    return (left > right) - (left < right)


def _as_integer(value: Fraction) -> int:
    if value.denominator != 1:
        raise CelRuntimeError("the quantity is no integer")
    return _int(value.numerator)


# --- the table

#: name -> types of arguments -> (type of the result, function); methods begin with a dot.
FUNCTIONS: dict[str, dict[tuple[str, ...], tuple[Type, Callable[..., Any]]]] = {}


def _add(name: str, kinds: str, result: str, function: Callable[..., Any]) -> None:
    of = (STRING,) if result == "list" else ()
    FUNCTIONS.setdefault(name, {})[tuple(kinds.split())] = Type(result, of), function


for _name, _of_ints in (
    ("+", int.__add__),
    ("-", int.__sub__),
    ("*", int.__mul__),
    ("/", _quotient),
    ("%", _remainder),
):
    _add(_name, "int int", "int", lambda a, b, of=_of_ints: _int(of(a, b)))
    _add(_name, "uint uint", "uint", lambda a, b, of=_of_ints: _uint(of(a, b)))
for _name, _of_floats in (
    ("+", float.__add__),
    ("-", float.__sub__),
    ("*", float.__mul__),
    ("/", _ratio),
):
    _add(_name, "double double", "double", _of_floats)
_add("+", "string string", "string", str.__add__)
_add("+", "list list", "list", lambda a, b: a + b)
_add("negative", "int", "int", lambda a: _int(-a))
_add("negative", "double", "double", lambda a: -a)
_add("!", "bool", "bool", lambda a: not a)
for _name, _order in {"<": lt, "<=": le, ">": gt, ">=": ge}.items():
    _add(_name, "string string", "bool", _order)
    _add(_name, "bool bool", "bool", _order)
    for _pair in product(("int", "uint", "double"), repeat=2):
        _add(_name, " ".join(_pair), "bool", _order)

for _kind in ("string", "list", "map"):
    _add("size", _kind, "int", len)
    _add(".size", _kind, "int", len)
_CONVERSIONS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "int": {"int": int, "uint": lambda a: _int(int(a)), "double": lambda a: _int(_whole(a))},
    "uint": {"int": _uint, "uint": Uint, "double": lambda a: _uint(_whole(a))},
    "double": {"int": float, "uint": float, "double": float, "string": _read_double},
    "string": {"int": str, "uint": int.__repr__, "string": str},
    "bool": {"bool": bool},
}
for _kind, _reads in _CONVERSIONS.items():
    for _from, _read in _reads.items():
        _add(_kind, _from, _kind, _read)
_add("int", "string", "int", lambda text: _int(_read_int(text)))
_add("uint", "string", "uint", lambda text: _uint(_read_int(text)))
_add("string", "bool", "string", lambda a: "true" if a else "false")

_add(".startsWith", "string string", "bool", str.startswith)
_add(".endsWith", "string string", "bool", str.endswith)
_add(".contains", "string string", "bool", str.__contains__)
_add(".matches", "string string", "bool", _matches)
_add("matches", "string string", "bool", _matches)
_add(".lowerAscii", "string", "string", _cased(32, "A"))
_add(".upperAscii", "string", "string", _cased(-32, "a"))
_add(".trim", "string", "string", str.strip)
_add(".charAt", "string int", "string", lambda a, i: a[_place(a, i) : i + 1])
_add(".indexOf", "string string", "int", str.find)
_add(".indexOf", "string string int", "int", lambda a, b, i: a.find(b, _place(a, i)))
_add(".lastIndexOf", "string string", "int", str.rfind)
_add(
    ".lastIndexOf", "string string int", "int", lambda a, b, i: a.rfind(b, 0, _place(a, i) + len(b))
)
_add(".substring", "string int", "string", _substring)
_add(".substring", "string int int", "string", _substring)
_add(".replace", "string string string", "string", _replace)
_add(".replace", "string string string int", "string", _replace)
_add(".split", "string string", "list", _split)
_add(".split", "string string int", "list", _split)
_add(".join", "list", "string", _join)
_add(".join", "list string", "string", _join)

for _kinds in ("string", "string bool"):
    _add("semver", _kinds, "semver", _semver)
    _add("isSemver", _kinds, "bool", _can(_semver))
for _index, _name in enumerate((".major", ".minor", ".patch")):
    _add(_name, "semver", "int", lambda a, i=_index: _int(a.numbers[i]))
_add("quantity", "string", "quantity", _quantity)
_add("isQuantity", "string", "bool", _can(_quantity))
_add(".isInteger", "quantity", "bool", _can(_as_integer))
_add(".asInteger", "quantity", "int", _as_integer)
_add(".asApproximateFloat", "quantity", "double", float)
_add(".sign", "quantity", "int", lambda a: _compare(a, Fraction(0)))
for _other in ("quantity", "int"):
    _add(".add", f"quantity {_other}", "quantity", lambda a, b: a + b)
    _add(".sub", f"quantity {_other}", "quantity", lambda a, b: a - b)
_add(".compareTo", "quantity quantity", "int", _compare)
_add(".isLessThan", "quantity quantity", "bool", lambda a, b: _compare(a, b) < 0)
_add(".isGreaterThan", "quantity quantity", "bool", lambda a, b: _compare(a, b) > 0)
_add(".compareTo", "semver semver", "int", lambda a, b: (a > b) - (a < b))
_add(".isLessThan", "semver semver", "bool", lt)
_add(".isGreaterThan", "semver semver", "bool", gt)
