"""CEL's functions and operators, as a table of overloads.

CEL values are Python's bool, int, `Uint`, float, str, ``None``, tuple and dict; a quantity is a
`Quantity`, or a `Fraction` if it is a device's capacity, a version a `Version`, an optional value a
`Maybe`.
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
from hivecore._quantities import read_exactly, write_binary, write_decimal
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


class Quantity(Fraction):
    """A quantity that was computed.

    Kubernetes keeps it as a number of 64 bits times ten to the ``scale``. If that is ``None``, it
    keeps a decimal of any length, which it never takes for an integer.
    """

    __slots__ = ("scale",)
    scale: int | None


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
    Quantity: "quantity",
    Version: "semver",
    Maybe: "optional",
}


@lru_cache(1 << 12)  # drivers publish few versions, on many devices
def version_of(text: str) -> Version:
    """Parse a version; `CelRuntimeError` if it is not semantic, or if numbers exceed 64 bits."""
    try:
        version = Version(*SemanticVersion.of(text).precedence)
    except ValueError as error:
        raise CelRuntimeError(str(error)) from None
    if any(number >= 2**64 for _, number, _ in version.prerelease):
        raise CelRuntimeError(f"{show(text)}: a number of the pre-release exceeds 64 bits")
    return version


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


def _read_int(text: str, signs: str = "[+-]?") -> int:
    if not re.fullmatch(signs + "[0-9]{1,99}", text):
        raise CelRuntimeError(f"{show(text)} is no integer")
    return int(text)


def _read_double(text: str) -> float:
    form = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
    if not re.fullmatch(form, text) or not isfinite(float(text)):
        raise CelRuntimeError(f"{show(text)} is no double")
    return float(text)


_TRUE = "1", "t", "T", "true", "TRUE", "True"
_FALSE = "0", "f", "F", "false", "FALSE", "False"


def _read_bool(text: str) -> bool:
    if text not in _TRUE + _FALSE:
        raise CelRuntimeError(f"{show(text)} is no bool")
    return text in _TRUE


# --- strings; places are of characters, not of bytes

#: What is white space in Unicode; for Python, some separators of ASCII are, too.
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


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
    "semver": lambda text, *_: len(text),
    "isSemver": lambda text, *_: len(text),
}
_MOST_KEPT = 64  # characters of a version


# --- versions and quantities


def _semver(text: str, normalize: bool = False) -> Version:
    text = _normal(text) if normalize else text
    return (version_of if len(text) <= _MOST_KEPT else version_of.__wrapped__)(text)


def _normal(text: str) -> str:
    """Return the version without "v", as three numbers without leading zeros.

    Only a version of three numbers may have a pre-release or build metadata.
    """
    given = text.removeprefix("v").split(".", 2)
    parts = [re.sub("^(?=[^0-9].)", "0", re.sub("^0+(?=[0-9])", "", part)) for part in given]
    return ".".join([*parts, "0", "0"][:3])


def _quantity(text: str) -> Quantity:
    try:
        number = read_exactly(text, "quantity") * 10**9
    except ValueError as error:
        raise CelRuntimeError(str(error)) from None
    # As in Kubernetes, parts of a billionth are rounded up.
    rounded = Fraction(ceil(number) if number > 0 else floor(number), 10**9)
    return _scaled(rounded, _scale_of(text))


def _scaled(value: Fraction, scale: int | None) -> Quantity:
    quantity = Quantity(value)
    quantity.scale = scale
    return quantity


def _scale_of(text: str) -> int | None:
    """Return the scale of a quantity, which depends on how it is written: 1 is not 1.0."""
    whole, part, suffix = re.findall(r"^[-+]?0*([0-9]*)\.?([0-9]*)(.*)", text)[0]
    digits = len(whole or "0") + len(part)
    if suffix.endswith("i"):
        power = "KMGTPE".index(suffix[0]) + 1
        return 0 if not part and digits + 3 * power < 15 else None
    exponent = int(suffix[1:]) if suffix[1:] else 3 * ("num kMGTPE".index(suffix or " ") - 3)
    scale = exponent - len(part)
    return scale if digits <= 18 and scale >= -9 else None


def _sum(a: Fraction, b: Fraction | int, sign: int = 1) -> Quantity:
    """Return a sum or difference, at the smaller scale if 64 bits suffice."""
    total = a + sign * b
    scales = [
        of.scale if isinstance(of, Quantity) else 0 if of.denominator == 1 else -9 for of in (a, b)
    ]
    known = [scale for scale in scales if scale is not None]
    if len(known) < 2:
        return _scaled(total, None)
    if not (a and b):
        return _scaled(total, known[1] if b else known[0])
    most = 2**63 * Fraction(10) ** min(known)
    fits = all(-most < Fraction(of) < most for of in (a, b, total))
    return _scaled(total, min(known) if fits else None)


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


def _is_integer(value: Fraction) -> bool:
    """Whether Kubernetes takes a quantity for an integer.

    A capacity is known without its suffix, on which this depends if it is large.
    """
    if isinstance(value, Quantity):
        is_integer = value.scale is not None and value.scale >= 0
        return is_integer and -(2**63) <= value < 2**63
    if value.denominator > 1:
        return False
    either = {_is_integer(_quantity(write(int(value)))) for write in (write_binary, write_decimal)}
    if len(either) > 1:
        raise CelRuntimeError("whether the capacity is an integer depends on how it is written")
    return True in either


def _as_integer(value: Fraction) -> int:
    if not _is_integer(value):
        raise CelRuntimeError("the quantity is no integer of 64 bits")
    return value.numerator


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
    "bool": {"bool": bool, "string": _read_bool},
}
for _kind, _reads in _CONVERSIONS.items():
    for _from, _read in _reads.items():
        _add(_kind, _from, _kind, _read)
_add("int", "string", "int", lambda text: _int(_read_int(text)))
_add("uint", "string", "uint", lambda text: _uint(_read_int(text, signs="")))
_add("string", "bool", "string", lambda a: "true" if a else "false")

_add(".startsWith", "string string", "bool", str.startswith)
_add(".endsWith", "string string", "bool", str.endswith)
_add(".contains", "string string", "bool", str.__contains__)
_add(".matches", "string string", "bool", _matches)
_add("matches", "string string", "bool", _matches)
_add(".lowerAscii", "string", "string", _cased(32, "A"))
_add(".upperAscii", "string", "string", _cased(-32, "a"))
_add(".trim", "string", "string", lambda text: text.strip(_SPACES))
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
_add(".isInteger", "quantity", "bool", _is_integer)
_add(".asInteger", "quantity", "int", _as_integer)
_add(".asApproximateFloat", "quantity", "double", float)
_add(".sign", "quantity", "int", lambda a: _compare(a, Fraction(0)))
for _other in ("quantity", "int"):
    _add(".add", f"quantity {_other}", "quantity", _sum)
    _add(".sub", f"quantity {_other}", "quantity", lambda a, b: _sum(a, b, -1))
_add(".compareTo", "quantity quantity", "int", _compare)
_add(".isLessThan", "quantity quantity", "bool", lambda a, b: _compare(a, b) < 0)
_add(".isGreaterThan", "quantity quantity", "bool", lambda a, b: _compare(a, b) > 0)
_add(".compareTo", "semver semver", "int", lambda a, b: (a > b) - (a < b))
_add(".isLessThan", "semver semver", "bool", lt)
_add(".isGreaterThan", "semver semver", "bool", gt)
