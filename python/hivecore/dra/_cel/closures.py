"""The closures that an expression is compiled into.

A closure takes a frame: the device, its driver, the remaining steps, then a slot for each variable.
It raises `CelRuntimeError`, which ``&&``, ``||``, ``all`` and ``exists`` absorb, or `LimitError`,
which they do not. Loops are charged the number of nodes in their body, functions the sizes of their
arguments; everything else runs once and is small.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from hivecore._arguments import show
from hivecore.dra._cel.functions import ABSENT, COSTS, KINDS, Maybe, version_of
from hivecore.dra._cel.parser import Uint
from hivecore.dra.attribute import Attribute
from hivecore.errors import CelRuntimeError

#: A part of an expression, evaluated on a frame.
Run: TypeAlias = Callable[[list[Any]], Any]
SLOTS = 3  # where the slots of variables begin
STEPS = 1_000_000
_LARGEST = 1 << 16  # characters of a text, elements of a list
_NUMBERS = frozenset((int, Uint, float))


class LimitError(Exception):
    """An evaluation takes too many steps, or a value is too large."""


class _Failure(NamedTuple):
    message: str


class _Domains(dict[str, dict[str, Any]]):
    """A device's attributes or capacities by domain; a missing domain is empty."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, {})


KINDS[_Domains] = "map"


def _charge(f: list[Any], steps: int) -> None:
    f[2] -= steps
    if f[2] < 0:
        raise LimitError(f"it takes more than {STEPS:,} steps")


def _no_overload(name: str, *values: Any) -> CelRuntimeError:
    given = ", ".join([KINDS[type(value)] for value in values])
    return CelRuntimeError(f"no such overload: {name.lstrip('.')} of ({given})")


def _is_true(value: Any, name: str) -> bool:
    if type(value) is not bool:
        raise _no_overload(name, value)
    return value


# --- the device


def _value(of: Attribute) -> Any:
    if (text := of.string) is not None:
        return text
    if (version := of.version) is not None:
        return version_of(version)
    for value in (of.int_, of.bool_, of.strings, of.ints, of.bools):
        if value is not None:
            return value
    if of.versions is None:
        raise CelRuntimeError("an attribute is of an unknown type")
    return tuple(map(version_of, of.versions))


_READ: dict[str, Callable[[Any], Any]] = {"attributes": _value, "capacity": attrgetter("value")}


def scalar(which: str, domain: str, name: str) -> Run:
    """Read an attribute or a capacity, or `ABSENT`; a full name precedes a short one."""
    every, read, full = attrgetter(which), _READ[which], f"{domain}/{name}"
    is_short = "/" not in name
    if "/" in domain:
        return lambda f: ABSENT

    def find(f: list[Any]) -> Any:
        values = every(f[0])
        value = values.get(full)
        if value is None and is_short and f[1] == domain:
            value = values.get(name)
        return ABSENT if value is None else read(value)

    return find


def domains(which: str) -> Run:
    """Read all attributes or all capacities."""

    def run(f: list[Any]) -> _Domains:
        chosen, every = _Domains(), getattr(f[0], which)
        _charge(f, len(every))
        for written in sorted(every, key=lambda name: "/" in name):
            domain, sign, name = written.partition("/")
            own = chosen.setdefault(domain if sign else f[1], {})
            own[name if sign else written] = _READ[which](every[written])
        return chosen

    return run


def names(which: str, domain: str) -> Run:
    """Read the attributes or capacities of a domain."""
    every = domains(which)
    return lambda f: every(f).get(domain)


# --- members


def _member(container: Any, key: Any) -> Any:
    kind = type(key)
    if isinstance(container, dict) and kind in (str, bool, *_NUMBERS):
        return ABSENT if kind is bool else container.get(key, ABSENT)
    if type(container) is tuple and kind in _NUMBERS and key == key // 1:
        return container[int(key)] if 0 <= key < len(container) else ABSENT
    raise _no_overload("[]", container, key)


def finder(of: Run, key: Run) -> Run:
    """Read a member, also of an optional value; `ABSENT` if it is missing."""

    def find(f: list[Any]) -> Any:
        container, at = of(f), key(f)
        if type(container) is not Maybe:
            return _member(container, at)
        return ABSENT if container.value is ABSENT else _member(container.value, at)

    return find


def required(find: Run, key: Run) -> Run:
    """Read a member; a missing one is an error."""

    def run(f: list[Any]) -> Any:
        value = find(f)
        if value is ABSENT:
            raise CelRuntimeError(f"no such key: {key(f)}")
        return value

    return run


def optional(find: Run) -> Run:
    """Read a member as an optional value."""
    return lambda f: Maybe(find(f))


def map_of(keys: Sequence[Run], values: Sequence[Run]) -> Run:
    """Build a map literal."""
    pairs = list(zip(keys, values, strict=True))

    def run(f: list[Any]) -> dict[Any, Any]:
        entries: dict[Any, Any] = {}
        for of_key, of_value in pairs:
            key = of_key(f)
            if type(key) not in (str, int, Uint):
                raise _no_overload("{}", key)
            if key in entries:
                raise CelRuntimeError(f"the key {show(key)} is repeated")
            entries[key] = of_value(f)
        return entries

    return run


# --- operators


def _decided(f: list[Any], tests: Iterable[Run], decisive: bool, name: str) -> bool:
    """Whether a test gives the decisive value; if none does, an error is raised."""
    failure = ""
    for test in tests:
        try:
            if _is_true(test(f), name) is decisive:
                return decisive
        except CelRuntimeError as error:
            failure = failure or str(error)
    if failure:
        raise CelRuntimeError(failure)
    return not decisive


def joined(runs: Sequence[Run], decisive: bool) -> Run:
    """``||`` (decided by true) and ``&&`` (by false)."""
    name = "||" if decisive else "&&"
    return lambda f: _decided(f, runs, decisive, name)


def ternary(test: Run, yes: Run, no: Run) -> Run:
    """``?:``."""
    return lambda f: yes(f) if _is_true(test(f), "?:") else no(f)


def _equal(f: list[Any], a: Any, b: Any) -> bool:
    kind = type(a)
    if isinstance(a, dict) and isinstance(b, dict):
        _charge(f, len(a) + 1)
        return a.keys() == b.keys() and all(_equal(f, a[key], b[key]) for key in a)
    if kind is not type(b) and KINDS[kind] != KINDS[type(b)]:
        return kind in _NUMBERS and type(b) in _NUMBERS and bool(a == b)
    if kind is tuple:
        _charge(f, len(a) + 1)
        return len(a) == len(b) and all(map(_equal, [f] * len(a), a, b))
    if kind is Maybe and ABSENT not in (a.value, b.value):
        return _equal(f, a.value, b.value)
    return bool(a == b)


def equality(left: Run, right: Run, text: Any, is_simple: bool) -> Run:
    """``==``.

    :param text: the right side, if it is a constant text.
    :param is_simple: both sides have the same simple type.
    """
    if type(text) is str:
        return lambda f: left(f) == text
    if is_simple:
        return lambda f: left(f) == right(f)
    return lambda f: _equal(f, left(f), right(f))


def _holds(f: list[Any], values: tuple[Any, ...], value: Any) -> bool:
    _charge(f, len(values))
    return any(_equal(f, value, each) for each in values)


def membership(item: Run, of: Run, constant: Any) -> Run:
    """``in``."""
    if type(constant) is tuple and all(type(value) is str for value in constant):
        texts = frozenset(constant)
        return lambda f: type(value := item(f)) is str and value in texts

    def run(f: list[Any]) -> bool:
        value, container = item(f), of(f)
        if type(container) is tuple:
            return _holds(f, container, value)
        if isinstance(container, dict) and type(value) in (str, bool, *_NUMBERS):
            return type(value) is not bool and value in container
        raise _no_overload("in", value, container)

    return run


def inclusion(of: Run, item: Run) -> Run:
    """``includes``: in a list, or equal to a single value."""

    def run(f: list[Any]) -> bool:
        values, value = of(f), item(f)
        return _holds(f, values if type(values) is tuple else (values,), value)

    return run


def call(
    name: str, overloads: Mapping[Any, tuple[Any, Any]], runs: Sequence[Run], is_static: bool
) -> Run:
    """Call a function of the table.

    :param is_static: all types of arguments are known at compile time.
    """
    cost = COSTS.get(name)
    function = next(iter(overloads.values()))[1]
    if is_static and cost is None and len(runs) == 1:
        (only,) = runs
        return lambda f: function(only(f))
    if is_static and cost is None and len(runs) == 2:
        first, second = runs
        return lambda f: function(first(f), second(f))

    def binary(f: list[Any]) -> Any:
        a, b = runs[0](f), runs[1](f)
        overload = overloads.get((KINDS[type(a)], KINDS[type(b)]))
        if overload is None:
            raise _no_overload(name, a, b)
        return overload[1](a, b)

    if cost is None and len(runs) == 2:
        return binary

    def run(f: list[Any]) -> Any:
        values = [each(f) for each in runs]
        overload = overloads.get(tuple([KINDS[type(value)] for value in values]))
        if overload is None:
            raise _no_overload(name, *values)
        if cost is None or type(values[0]) not in (str, tuple):
            return overload[1](*values)
        _charge(f, 1 + cost(*values) // 16)
        value = overload[1](*values)
        if type(value) in (str, tuple) and len(value) > _LARGEST:
            raise LimitError(f"a value has more than {_LARGEST:,} parts")
        return value

    return run


# --- optional values


def _maybe(value: Any) -> Any:
    if type(value) is not Maybe:
        raise CelRuntimeError(f"no such overload: {KINDS[type(value)]} instead of optional")
    return value.value


def _forced(value: Any) -> Any:
    if value is ABSENT:
        raise CelRuntimeError("the optional value is none")
    return value


#: (name, number of arguments) -> the closure for a method of an optional value.
OPTIONAL: dict[tuple[str, int], Callable[[Run, Run], Run]] = {
    (".hasValue", 1): lambda of, _: lambda f: _maybe(of(f)) is not ABSENT,
    (".value", 1): lambda of, _: lambda f: _forced(_maybe(of(f))),
    (".orValue", 2): lambda of, other: (
        lambda f: other(f) if (value := _maybe(of(f))) is ABSENT else value
    ),
    (".or", 2): lambda of, other: (
        lambda f: other(f) if (value := _maybe(of(f))) is ABSENT else Maybe(value)
    ),
}


# --- variables


def variable(slot: int) -> Run:
    """Read a variable, or raise its error."""

    def run(f: list[Any]) -> Any:
        value = f[slot]
        if type(value) is _Failure:
            raise CelRuntimeError(value.message)
        return value

    return run


def binding(init: Run, slot: int, body: Run) -> Run:
    """``cel.bind``; an error of the value is raised only where the variable is used."""

    def run(f: list[Any]) -> Any:
        try:
            f[slot] = init(f)
        except CelRuntimeError as error:
            f[slot] = _Failure(str(error))
        return body(f)

    return run


class Loop(NamedTuple):
    """A macro over the elements of a list or the keys of a map."""

    of: Run
    slot: int
    cost: int  # of a round
    test: Run | None

    def _rounds(self, f: list[Any]) -> Any:
        values = self.of(f)
        if type(values) is not tuple and not isinstance(values, dict):
            raise CelRuntimeError(f"no such overload: {KINDS[type(values)]} has no elements")
        for value in values:
            f[self.slot] = value
            _charge(f, self.cost)
            yield value

    def quantifier(self, decisive: bool) -> Run:
        """``exists`` (true decides) and ``all`` (false decides)."""
        return lambda f: _decided(f, (self.tested for _ in self._rounds(f)), decisive, "")

    def tested(self, f: list[Any]) -> bool:
        """Whether an element passes the test."""
        return self.test is None or _is_true(self.test(f), "a predicate")

    def collection(self, change: Run | None) -> Run:
        """``filter`` and ``map``."""
        return lambda f: tuple(
            [value if change is None else change(f) for value in self._rounds(f) if self.tested(f)]
        )
