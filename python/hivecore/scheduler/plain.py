"""Records as plain data for JSON, and back, as their definitions say.

A record is an object with its fields, those left out that are as by default; pairs of a name and a
value are an object, other tuples a list. `_FIRST` and the tables beside it have what logs do
otherwise. What is read is checked by the record itself, and its fields are named in errors.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

from hivecore._arguments import as_mapping, as_tuple
from hivecore._record import Record, fields_of
from hivecore.cells import Chain, ClusterSpec
from hivecore.decisions import Refusal
from hivecore.devices import (
    Device,
    DeviceNeed,
    DeviceRequest,
    LabelExpression,
    NodeDevices,
    Partition,
    PartitionTable,
    ShareTemplate,
    ShareTemplates,
    VirtualFunction,
    VirtualFunctionGroup,
)
from hivecore.quotas import Quota
from hivecore.scheduler.actions import Action, PlacedPod
from hivecore.scheduler.job import Job, Role

__all__ = [
    "action_of_plain",
    "inventory_of_plain",
    "job_of_plain",
    "plain",
    "plain_action",
    "plain_inventory",
    "plain_job",
    "plain_quota",
    "plain_spec",
    "quota_of_plain",
    "record_of_plain",
    "spec_of_plain",
]

_R = TypeVar("_R")
_Plain = dict[str, Any]

#: Records of the parts.
_PARTS = (
    *(Device, DeviceNeed, DeviceRequest, LabelExpression, NodeDevices, Partition, PartitionTable),
    *(ShareTemplate, ShareTemplates, VirtualFunction, VirtualFunctionGroup),
    *(Chain, ClusterSpec, Quota),
)
#: Lists of their fields.
_ROWS = PlacedPod, Refusal
#: Defaults that follow from other fields, or are not constant.
_USUAL: dict[type, Callable[[Any], _Plain]] = {
    Job: lambda job: {"quota": job.tenant},
    Role: lambda role: {"min_pods": role.pods, "gpus": role.gpus if role.devices else None},
    ClusterSpec: lambda spec: {"pinned_cells": {}},
}
_ACTIONS = {
    re.sub("(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in get_args(Action)
}
_KINDS = {kind: name for name, kind in _ACTIONS.items()}

#: Fields that come before the others, if not in the order of the constructor.
_FIRST: dict[type, tuple[str, ...]] = {
    Role: ("name", "pods", "resources", "min_pods"),
    DeviceNeed: ("type", "amounts"),
    NodeDevices: (
        *("devices", "partition_policy", "secondary_well_planned", "vendor", "model"),
        *("isolation_provider", "shareable"),
    ),
}
_ALWAYS = {(PartitionTable, "numbers"), (ShareTemplates, "matched")}
#: What is not written, since all have the same.
_FIXED: dict[type, _Plain] = {DeviceRequest: {"name": "any pod", "priority": 0}}


class _Field(NamedTuple):
    name: str
    default: Any
    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]


_forms: dict[type, tuple[_Field, ...]] = {}


def _fields(kind: type) -> tuple[_Field, ...]:
    """What is written of a record, in this order."""
    if kind in _forms:
        return _forms[kind]
    left_out = {*_FIXED.get(kind, ()), *getattr(kind, "_hidden", ())}
    known = {name: of for name, of in fields_of(kind).items() if name not in left_out}
    _forms[kind] = tuple(
        _Field(name, ... if (kind, name) in _ALWAYS else known[name][1], *_ways(known[name][0]))
        for name in dict.fromkeys((*_FIRST.get(kind, ()), *known))
    )
    return _forms[kind]


def _same(value: Any, name: str = "") -> Any:
    return value


def _options(hint: Any) -> Iterator[Any]:
    """The types that a value may have, but for ``None``."""
    if get_origin(hint) is Annotated:
        yield from _options(get_args(hint)[0])
    elif get_origin(hint) in (UnionType, Union):
        for one in get_args(hint):
            yield from _options(one)
    elif hint is not NoneType:
        yield hint


def _ways(hint: Any) -> tuple[Callable[[Any], Any], Callable[[Any, str], Any]]:
    """How a value of a type is written, and read into what its record takes."""
    option = next(_options(hint))
    origin, inner = get_origin(option), get_args(option)
    if isinstance(option, type) and (issubclass(option, Record) or option in _PARTS):
        return plain, lambda value, name: record_of_plain(option, value, name)
    if origin is Sequence or inner[1:] == (...,):
        if LabelExpression in _options(inner[0]):
            return _plain_selector, _selector
        if get_origin(inner[0]) is tuple and get_args(inner[0])[0] is str:
            write, _ = _ways(get_args(inner[0])[1])
            return lambda value: {key: write(one) for key, one in value}, _same
        write, read = _ways(inner[0])
        return lambda value: [write(one) for one in value], _same if read is _same else (
            lambda value, name: [
                read(one, f"{name}[{i}]") for i, one in enumerate(as_tuple(value, name))
            ]
        )
    if origin is Mapping:
        write, read = _ways(inner[1])
        return lambda value: {key: write(one) for key, one in value.items()}, lambda value, name: {
            key: read(one, f"{name}[{key!r}]") for key, one in as_mapping(value, name).items()
        }
    return list if origin is tuple else _same, _same


def _plain_selector(rules: Any) -> Any:
    if rules and all(type(rule) is tuple for rule in rules):
        return dict(rules)
    return [list(rule) if type(rule) is tuple else plain(rule) for rule in rules]


def _selector(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return value
    return [
        record_of_plain(LabelExpression, rule, name) if isinstance(rule, Mapping) else rule
        for rule in as_tuple(value, name)
    ]


def plain(record: Any) -> Any:
    """A record as plain data."""
    kind = type(record)
    fields = _fields(kind)
    if kind in _ROWS:
        return [field.write(getattr(record, field.name)) for field in fields]
    usual = _USUAL[kind](record) if kind in _USUAL else {}
    found = {}
    for name, default, write, _ in fields:
        value = getattr(record, name)
        if value != usual.get(name, default):
            found[name] = write(value)
    return found


def record_of_plain(kind: type[_R], data: Any, what: str) -> _R:
    """The record of a class that plain data describe.

    :param what: the data, as errors name them.
    :raises ValueError: something is missing, unknown or out of range.
    :raises TypeError: something is of a wrong type.
    """
    fields = _fields(kind)
    if kind in _ROWS:
        row = as_tuple(data, what)
        if len(row) != len(fields):
            raise ValueError(f"{what}: must be {', '.join(field.name for field in fields)}")
        given = {field.name: value for field, value in zip(fields, row, strict=True)}
    else:
        given = dict(as_mapping(data, what))
    for name, default, *_ in fields:
        if default is ... and name not in given and (kind, name) not in _ALWAYS:
            raise ValueError(f"{what}: {name!r} is missing")
    if unknown := [name for name in given if not any(name == field.name for field in fields)]:
        raise ValueError(f"{what}: there is no field {unknown[0]!r}")
    made: Any = _FIXED.get(kind, {}).copy()
    for name, default, _, read in fields:
        if name in given:
            value = given[name]
            made[name] = value if value is None and default is None else read(value, name)
    record = kind(**made)
    if isinstance(record, Record) and not hasattr(record, "__post_init__"):
        record._check()
    return record


def plain_job(job: Job) -> _Plain:
    """A job as plain data; what is as by default is left out.

    >>> from hivecore.scheduler import Job, plain_job
    >>> plain_job(Job("train", "vision", 2, priority=1))
    {'name': 'train', 'tenant': 'vision', 'roles': [{'name': 'pod', 'gpus': 2}], 'priority': 1}
    """
    return plain(job)  # type: ignore[no-any-return]


def job_of_plain(data: Mapping[str, Any]) -> Job:
    """The job of plain data.

    :raises ValueError: something is missing, unknown or out of range.
    :raises TypeError: something is of a wrong type.
    """
    return record_of_plain(Job, data, "job")


def plain_action(action: Action) -> _Plain:
    """An action as plain data.

    >>> from hivecore.scheduler import Preempt, plain_action
    >>> plain_action(Preempt("spare", "train", "opportunistic"))
    {'action': 'preempt', 'job': 'spare', 'for_job': 'train', 'why': 'opportunistic'}
    """
    return {"action": _KINDS[type(action)], **plain(action)}


def action_of_plain(data: Mapping[str, Any]) -> Action:
    """The action of plain data; of a `Start` without its decisions.

    :raises ValueError: something is missing, unknown or out of range.
    :raises TypeError: something is of a wrong type.
    """
    given = dict(as_mapping(data, "action"))
    kind = given.pop("action", None)
    if kind not in _ACTIONS:
        raise ValueError(f"action={kind!r}: there is no such action")
    return record_of_plain(_ACTIONS[kind], given, "action")  # type: ignore[no-any-return]


def plain_quota(quota: Quota) -> _Plain:
    """A quota as plain data; what is as by default is left out.

    >>> from hivecore.quotas import Quota
    >>> plain_quota(Quota("vision", max={"gpu": 8}, lends=False))
    {'name': 'vision', 'max': {'gpu': 8}, 'lends': False}
    """
    return plain(quota)  # type: ignore[no-any-return]


def quota_of_plain(data: Mapping[str, Any]) -> Quota:
    """The quota of plain data; errors as of `job_of_plain`."""
    return record_of_plain(Quota, data, "quota")


def plain_inventory(inventory: NodeDevices) -> _Plain:
    """What a node has as plain data; what is as by default is left out.

    >>> from hivecore.devices import Device, NodeDevices
    >>> plain_inventory(NodeDevices([Device("gpu", 0, {"core": 100}, numa=0)], model="H20"))
    {'devices': [{'type': 'gpu', 'minor': 0, 'amounts': {'core': 100}, 'numa': 0}], 'model': 'H20'}
    """
    return plain(inventory)  # type: ignore[no-any-return]


def inventory_of_plain(data: Mapping[str, Any]) -> NodeDevices:
    """What a node has, of plain data; errors as of `job_of_plain`."""
    return record_of_plain(NodeDevices, data, "inventory")


def plain_spec(spec: ClusterSpec) -> _Plain:
    """A specification of cells as plain data.

    >>> from hivecore.cells import Chain, ClusterSpec
    >>> plain_spec(ClusterSpec({"c": Chain(["gpu", "node"], [8], 2)}, {"a": {"c": {"node": 1}}}))
    {'chains': {'c': {'levels': ['gpu', 'node'], 'fanouts': [8], 'roots': 2, \
'node_level': 'node'}}, 'virtual_clusters': {'a': {'c': {'node': 1}}}}
    """
    return plain(spec)  # type: ignore[no-any-return]


def spec_of_plain(data: Mapping[str, Any]) -> ClusterSpec:
    """The specification of plain data; errors as of `job_of_plain`.

    :raises KeyError: an unknown chain, level or tenant is named.
    """
    return record_of_plain(ClusterSpec, data, "spec")
