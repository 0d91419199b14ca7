"""Converts records to plain data for JSON and back, from their definitions.

A record is an object of its fields, without those that have their default. Pairs of a name and a
value are an object; other tuples are lists. `_FIRST` and the tables near it list the exceptions of
logs. Records check what is read; errors name the field.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

from msgspec import to_builtins

from hivecore._arguments import as_mapping, as_tuple
from hivecore._record import Record, fields_of
from hivecore._thousandths import as_number
from hivecore.cells import ClusterSpec
from hivecore.decisions import Refusal
from hivecore.devices import (
    DeviceNeed,
    DeviceRequest,
    LabelExpression,
    NodeDevices,
    PartitionTable,
    ShareTemplates,
)
from hivecore.dra import ResourceClaim
from hivecore.scheduler.actions import Action, PlacedPod
from hivecore.scheduler.job import Job, Role

__all__ = [
    "action_of_plain",
    "fields_of_plain",
    "plain_fields",
    "plain_record",
    "record_of_plain",
]

_R = TypeVar("_R")
_Plain = dict[str, Any]

#: written as lists of their fields
_ROWS = PlacedPod, Refusal
#: a last item that is left out if it has its default
_LAST: dict[type, str] = {PlacedPod: "claims"}
#: defaults that follow from other fields, or are not constant
_USUAL: dict[type, Callable[[Any], _Plain]] = {
    Job: lambda job: {"quota": job.tenant},
    Role: lambda role: {
        "min_pods": role.pods,
        "gpus": role.gpus if role.devices else 0 if role.claims else None,
    },
    ClusterSpec: lambda spec: {"pinned_cells": {}},
}
_ACTIONS = {
    re.sub("(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in get_args(Action)
}
_KINDS = {kind: name for name, kind in _ACTIONS.items()}

#: fields that come first, if the order differs from the constructor's
_FIRST: dict[type, tuple[str, ...]] = {
    Role: ("name", "pods", "resources", "min_pods"),
    DeviceNeed: ("type", "amounts"),
    NodeDevices: (
        *("devices", "partition_policy", "secondary_well_planned", "vendor", "model"),
        *("isolation_provider", "shareable"),
    ),
}
_ALWAYS = {(PartitionTable, "numbers"), (ShareTemplates, "matched")}
#: not written, as it is the same for all
_FIXED: dict[type, _Plain] = {DeviceRequest: {"name": "any pod", "priority": 0}}


_Write = Callable[[Any], Any]
_Read = Callable[[Any, str], Any]


class _Form(NamedTuple):
    """How records of a class are written and read.

    :param write: for each field in order, its default, and the function that makes its value plain;
        ``None``: it is plain.
    :param read: for each field, the function that reads plain data; ``None``: the record takes them
        as they are.
    """

    write: tuple[tuple[str, Any, _Write | None], ...]
    read: dict[str, _Read | None]
    required: tuple[str, ...]
    fixed: _Plain
    usual: Callable[[Any], _Plain] | None


_forms: dict[type, _Form] = {}


def _form_of(kind: type) -> _Form:
    fixed = _FIXED.get(kind, {})
    left_out = {*fixed, *getattr(kind, "_hidden", ())}
    known = {name: field for name, field in fields_of(kind).items() if name not in left_out}
    written, read = [], {}
    for name in dict.fromkeys((*_FIRST.get(kind, ()), *known)):
        hint, default = known[name]
        write, read[name] = _ways(hint)
        written.append((name, ... if (kind, name) in _ALWAYS else default, write))
    required = tuple(name for name, (_, default) in known.items() if default is ...)
    form = _forms[kind] = _Form(tuple(written), read, required, fixed, _USUAL.get(kind))
    return form


def _options(hint: Any) -> Iterator[Any]:
    """The types that a value may have, without ``None``."""
    if get_origin(hint) is Annotated:
        yield from _options(get_args(hint)[0])
    elif get_origin(hint) in (UnionType, Union):
        for option in get_args(hint):
            yield from _options(option)
    elif hint is not NoneType:
        yield hint


def _ways(hint: Any) -> tuple[_Write | None, _Read | None]:
    """How to write and to read a value of a type."""
    option = next(_options(hint))
    origin, inner = get_origin(option), get_args(option)
    if Decimal in _options(hint):
        return as_number, None
    if option is ResourceClaim:
        return _plain_claim, None
    if isinstance(option, type) and issubclass(option, Record):
        return plain_record, lambda value, name: record_of_plain(option, value, name)
    if origin is Mapping:
        write, read = _ways(inner[1])
        return _each_by_name(write), read and _reads(read, dict)
    if origin is Sequence or inner[1:] == (...,):
        if LabelExpression in _options(inner[0]):
            return _plain_selector, _selector
        if get_origin(inner[0]) is tuple and get_args(inner[0])[0] is str:
            return _each_by_name(_ways(get_args(inner[0])[1])[0]), None
        write, read = _ways(inner[0])
        return _each(write), read and _reads(read, list)
    return list if origin is tuple else None, None


def _each(write: _Write | None) -> _Write:
    return list if write is None else lambda value: [write(item) for item in value]


def _each_by_name(write: _Write | None) -> _Write:
    if write is None:
        return dict
    return lambda value: {key: write(item) for key, item in dict(value).items()}


def _reads(read: _Read, kind: type) -> _Read:
    def each(value: Any, name: str) -> Any:
        if kind is dict:
            items = as_mapping(value, name).items()
            return {key: read(item, f"{name}[{key!r}]") for key, item in items}
        return [read(item, f"{name}[{i}]") for i, item in enumerate(as_tuple(value, name))]

    return each


def _plain_claim(claim: ResourceClaim) -> _Plain:
    """A claim as Kubernetes writes it; fractions are in billionths."""
    devices = to_builtins(
        claim, enc_hook=lambda n: str(n) if n.denominator == 1 else f"{n * 10**9}n"
    )
    metadata = {key: devices.pop(key) for key in ("name", "namespace") if key in devices}
    return {"metadata": metadata, "spec": {"devices": devices}}


def _plain_selector(rules: Any) -> Any:
    if rules and all(type(rule) is tuple for rule in rules):
        return dict(rules)
    return [list(rule) if type(rule) is tuple else plain_record(rule) for rule in rules]


def _selector(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return value
    return [
        record_of_plain(LabelExpression, rule, name) if isinstance(rule, Mapping) else rule
        for rule in as_tuple(value, name)
    ]


def plain_record(record: Any) -> Any:
    """A job, an action, a quota, an inventory or another record as plain data.

    Fields with default values are left out. Actions have their name first.

    >>> from hivecore.scheduler import Job, Preempt, plain_record
    >>> plain_record(Job("train", "vision", 2, priority=1))
    {'name': 'train', 'tenant': 'vision', 'roles': [{'name': 'pod', 'gpus': 2}], 'priority': 1}
    >>> plain_record(Preempt("spare", "train", "opportunistic"))
    {'action': 'preempt', 'job': 'spare', 'for_job': 'train', 'why': 'opportunistic'}
    """
    kind: type = type(record)
    form = _forms.get(kind) or _form_of(kind)
    action = _KINDS.get(kind)
    data = {} if action is None else {"action": action}
    for name, default, write in form.write:
        value = getattr(record, name)
        is_cell = kind in _ROWS and name != _LAST.get(kind)
        if is_cell or (value is not default and value != default):
            data[name] = value if write is None else write(value)
    if form.usual is not None:
        for name, value in form.usual(record).items():
            if getattr(record, name) == value:
                data.pop(name, None)
    return list(data.values()) if kind in _ROWS else data


def record_of_plain(kind: type[_R], data: Any, what: str = "") -> _R:
    """Read a record of a class from plain data.

    :param what: a name for the data in errors; "": that of the class.
    :raises ValueError: a field is missing, unknown or out of range.
    :raises TypeError: a field is of a wrong type.
    :raises KeyError: a specification of cells names an unknown chain, level or tenant.

    >>> from hivecore.scheduler import Job, record_of_plain
    >>> record_of_plain(Job, {"name": "train", "tenant": "vision", "roles": [{"name": "pod"}]}).gpus
    1
    """
    known: type = kind
    what = what or known.__name__.lower()
    form = _forms.get(known) or _form_of(known)
    given: Mapping[str, Any]
    if known in _ROWS:
        row = as_tuple(data, what)
        if len(row) not in (len(form.read), len(form.read) - (known in _LAST)):
            raise ValueError(f"{what}: must be {', '.join(form.read)}")
        given = dict(zip(form.read, row, strict=False))
    else:
        given = as_mapping(data, what)
        if known in _KINDS and "action" in given:
            if given["action"] != _KINDS[known]:
                raise ValueError(f"{what}: must be {_KINDS[known]!r}, not {given['action']!r}")
            given = {name: value for name, value in given.items() if name != "action"}
    for name in form.required:
        if name not in given:
            raise ValueError(f"{what}: {name!r} is missing")
    record = kind(**form.fixed, **fields_of_plain(known, given, what))
    if isinstance(record, Record) and not hasattr(record, "__post_init__"):
        record._check()
    return record


def plain_fields(record: Any, names: Iterable[str]) -> _Plain:
    """Some fields of a record as plain data, with default values."""
    form = _forms.get(type(record)) or _form_of(type(record))
    known = {name: write for name, _, write in form.write}
    values = ((name, known[name], getattr(record, name)) for name in names)
    return {
        name: value if write is None or value is None else write(value)
        for name, write, value in values
    }


def fields_of_plain(kind: type, data: Mapping[str, Any], what: str) -> _Plain:
    """Keyword arguments for the constructor of a class, read from fields of plain data.

    :param what: names the data in errors.

    :raises ValueError: a field is unknown or invalid, see `record_of_plain`.
    :raises TypeError: a field is of a wrong type.
    """
    form = _forms.get(kind) or _form_of(kind)
    for name in data:
        if name not in form.read:
            raise ValueError(f"{what}: there is no field {name!r}")
    ways = ((name, form.read[name], value) for name, value in data.items())
    return {
        name: value if read is None or value is None else read(value, name)
        for name, read, value in ways
    }


def action_of_plain(data: Mapping[str, Any]) -> Action:
    """Read an action from plain data; a `Start` has no decisions then. Errors: see
    `record_of_plain`.
    """
    name = as_mapping(data, "action").get("action")
    if name not in _ACTIONS:
        raise ValueError(f"action={name!r}: there is no such action")
    return record_of_plain(_ACTIONS[name], data, "action")  # type: ignore[no-any-return]
