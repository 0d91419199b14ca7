"""Records: frozen values that are described once, by the types of their fields.

A type says what a field may be: ``str`` is any string, ``Annotated[int, within(1, 8)]`` what
`within` lets pass, another record that record. A record that users make checks its fields when it
is made, by ``_check`` in its ``__post_init__``. One that only the library makes has no such method,
and is checked where it is read from outside.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from inspect import Signature, signature
from types import GenericAlias, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Struct, StructMeta
from msgspec.structs import force_setattr, replace

from hivecore._arguments import (
    as_bool,
    as_choice,
    as_dict,
    as_float,
    as_int,
    as_name,
    as_positive,
    as_text,
    as_tuple,
)
from hivecore._quantities import as_amounts

__all__ = [
    "FOLLOWS",
    "Check",
    "Name",
    "Named",
    "Names",
    "Record",
    "RecordType",
    "amounts",
    "any_value",
    "between",
    "check_fields",
    "check_of",
    "distinct",
    "fields_of",
    "force_setattr",
    "one_of",
    "positive",
    "renamed",
    "sorted_names",
    "with_name",
    "with_plain_types",
    "within",
]

#: The value in its plain type, or an error that names the field.
Check = Callable[[Any, str], Any]
#: In place of the default of a field that has none: no value is this one.
_REQUIRED: Any = object()
#: The default of a field that follows from the others if it is not given.
FOLLOWS: Any = None


def any_value(value: Any, name: str) -> Any:
    """A value that the record itself checks, as it depends on other fields."""
    return value


def one_of(words: tuple[str, ...]) -> Check:
    """One of these words."""
    return lambda value, name: as_choice(value, name, words)


def within(low: int, high: int) -> Check:
    """Integers from ``low`` to ``high``."""
    return lambda value, name: as_int(value, name, low, high)


def between(low: float, high: float) -> Check:
    """Floats from ``low`` to ``high``."""

    def check(value: Any, name: str) -> float:
        number = as_float(value, name)
        if not low <= number <= high:
            raise ValueError(f"{name}={number!r}: allowed are {low:g} to {high:g}")
        return number

    return check


def positive(most: float) -> Check:
    """Floats above 0, at most ``most``."""
    return lambda value, name: as_positive(value, name, most)


def amounts(low: int, high: int) -> Check:
    """Integers by their names, given as a mapping or as pairs."""
    return lambda value, name: as_amounts(value, name, low, high)


def sorted_names(value: Any, name: str) -> tuple[str, ...]:
    """Names in alphabetical order, each once."""
    return tuple(sorted(set(_names(value, name))))


def distinct(value: Any, name: str) -> tuple[str, ...]:
    """Names in their order, each once."""
    return tuple(dict.fromkeys(_names(value, name)))


def _names(value: Any, name: str) -> tuple[str, ...]:
    given = as_tuple(value, name)
    return tuple([as_name(text, name) for text in given]) if given else ()


Name = Annotated[str, as_name]
Names = Annotated[tuple[str, ...], _names]

_PLAIN: dict[Any, Check] = {
    str: as_text,
    bool: as_bool,
    float: as_float,
    int: within(-(2**63), 2**63 - 1),
    Any: any_value,
}


def check_of(hint: Any) -> Check:
    """How a value of a type is checked."""
    if get_origin(hint) is Annotated:
        check: Check = hint.__metadata__[0]
        return check
    if get_origin(hint) is Literal:
        return lambda value, name: as_choice(value, name, get_args(hint))
    if get_origin(hint) in (UnionType, Union):
        (check,) = [check_of(each) for each in get_args(hint) if each is not NoneType]
        return lambda value, name: None if value is None else check(value, name)
    if get_origin(hint) is tuple:
        return _check_of_tuple(*get_args(hint))
    return _PLAIN.get(hint) or _instance_of(hint)


def _check_of_tuple(first: Any, *others: Any) -> Check:
    if others != (...,):
        return _row([check_of(kind) for kind in (first, *others)])
    if get_origin(first) is tuple and get_args(first)[0] is str:
        each = check_of(get_args(first)[1])
        return lambda value, name: tuple(
            [(as_name(key, name), each(item, name)) for key, item in as_dict(value, name).items()]
        )
    each = check_of(first)
    return lambda value, name: tuple([each(item, name) for item in as_tuple(value, name)])


def _row(checks: list[Check]) -> Check:
    def check(value: Any, name: str) -> tuple[Any, ...]:
        row = as_tuple(value, name)
        if len(row) != len(checks):
            raise ValueError(f"{name}: {len(row)} values instead of {len(checks)}")
        return tuple([each(item, name) for each, item in zip(checks, row, strict=True)])

    return check


def _instance_of(kind: type) -> Check:
    def check(value: Any, name: str) -> Any:
        if not isinstance(value, kind):
            article = "an " if kind.__name__[0] in "AEIOU" else "a "
            wanted = kind.__name__ if kind.__name__.endswith("s") else article + kind.__name__
            raise TypeError(f"{name} must be {wanted}, not {type(value).__name__}")
        return value

    return check


@lru_cache(None)
def fields_of(kind: type) -> Mapping[str, tuple[Any, Any]]:
    """The type and the default of each field, in the order of the constructor; `FOLLOWS` and
    ``None`` are alike, and what is required has the default ``...``.
    """
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in signature(kind).parameters.items()
        if name in hints
    }


_checks: dict[type, tuple[tuple[str, Any, Check], ...]] = {}


def _checks_of(kind: "type[Record]") -> tuple[tuple[str, Any, Check], ...]:
    checks = _checks[kind] = tuple(
        (name, _REQUIRED if default is ... else default, check_of(hint))
        for name, (hint, default) in fields_of(kind).items()
        if name not in kind._hidden
    )
    return checks


_AnyRecord = TypeVar("_AnyRecord", bound="Record")


class RecordType(StructMeta):
    """The type of records: `help` and `inspect.signature` show types of fields without checks."""

    @property
    def __signature__(cls) -> Signature:
        return with_plain_types(super().__signature__, cls)


def with_plain_types(given: Signature, of: Any) -> Signature:
    """A signature without the checks in its types; a default that follows shows as ``None``."""
    hints = get_type_hints(of)
    fields = []
    for field in given.parameters.values():
        hint = hints[field.name]
        if field.default is FOLLOWS and isinstance(hint, type | GenericAlias):
            hint |= None
        fields.append(field.replace(annotation=hint))
    return Signature(fields)


class Record(Struct, frozen=True, gc=False, metaclass=RecordType):
    """A frozen value; two of one class with equal fields are equal."""

    #: Fields that are no part of the value: neither compared, nor shown, nor written.
    _hidden: ClassVar[frozenset[str]] = frozenset()
    #: Fields with the field that says their default.
    _follows: ClassVar[dict[str, str]] = {}

    def _check(self) -> None:
        """Bring all fields into their plain types.

        :raises ValueError: a field has a value that its type does not allow; the message names it.
        :raises TypeError: a field has another type.
        """
        kind = type(self)
        for name, default, check in _checks.get(kind) or _checks_of(kind):
            value = getattr(self, name)
            if value is not default:
                checked = check(value, name)
                if checked is not value:
                    force_setattr(self, name, checked)

    def replace(self, **changes: Any) -> Self:
        """The same record with other values of some fields. A field of `_follows` that had its
        default has that of the new value.
        """
        for name, source in self._follows.items():
            if source in changes and getattr(self, name) == getattr(self, source):
                changes.setdefault(name, changes[source])
        return replace(self, **changes)

    def __replace__(self, **changes: Any) -> Self:
        return self.replace(**changes)


def check_fields(record: Record, name: str) -> None:
    """Check a record without a check of its own that comes from outside.

    :param name: of the record, for the message.
    """
    try:
        record._check()
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}.{error}") from None


class Named(Record, frozen=True):
    """A record with a name on which no other field depends."""

    name: Name

    def replace(self, **changes: Any) -> Self:
        """The same record with other values of some fields."""
        return with_name(self, changes) or Record.replace(self, **changes)


def with_name(record: _AnyRecord, changes: dict[str, Any]) -> _AnyRecord | None:
    """A record on whose ``name`` no other field depends with another name, if no other field
    changes; otherwise, or if the name has to be checked, ``None``.
    """
    name = changes.get("name")
    if type(name) is not str or not name or len(changes) > 1:
        return None
    return renamed(record, name)


def renamed(record: _AnyRecord, name: str) -> _AnyRecord:
    """The same for a name that is checked already."""
    other: _AnyRecord = record.__copy__()  # type: ignore[attr-defined]
    force_setattr(other, "name", name)
    return other
