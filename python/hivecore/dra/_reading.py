"""Reads Kubernetes objects into records: camel case, exact quantities, errors with paths.

msgspec checks types and nested records; each record checks its own values and names fields relative
to itself. If there is a mistake, it is looked for again, part by part, for its full path.
"""

import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from math import ceil
from types import MappingProxyType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from msgspec import ValidationError, convert
from msgspec.structs import fields

from hivecore._arguments import as_dict, as_name, show
from hivecore._quantities import read_exactly
from hivecore._record import Record

__all__ = ["KubernetesRecord", "at_most", "distinct_names", "from_plain", "only", "read"]

_FINEST = 10**9  # parts of a unit
_WIDEST = 212  # bits of a quantity that is written as a number: 64 digits
_WORDS = {str: "a string", int: "an integer", bool: "true or false"}


class KubernetesRecord(Record, frozen=True, rename="camel", omit_defaults=True):
    """A record whose fields Kubernetes writes in camel case."""


_R = TypeVar("_R", bound=KubernetesRecord)


def read(
    kind: type[_R],
    document: Mapping[str, Any],
    path: str = "spec",
    elsewhere: Mapping[str, str] = MappingProxyType({}),
    *,
    api: Collection[str] = ("resource.k8s.io/v1",),
    named: str = "",
) -> _R:
    """Return the record of an object.

    :param path: of most of its fields, in the object.
    :param elsewhere: other fields, with their paths.
    :param named: the object's kind, if the record has another name.
    :raises ValueError: the kind or API version is another, or a field is missing or has a wrong
        type or value. The message names the object and the path.
    """
    named = named or kind.__name__
    document = as_dict(document, named)
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    try:
        _check_header(document, named, api)
        as_name(name, "metadata.name")
        given = {**_part(document, path), "name": name}
        for field, place in elsewhere.items():
            part = _part(document, place)
            if field in part:
                given[field] = part[field]
            elif field in given:
                del given[field]
        try:
            return convert(given, kind, dec_hook=_as_quantity)
        except ValidationError:
            given = _without_nulls(given)
        try:
            return convert(given, kind, dec_hook=_as_quantity)
        except ValidationError as error:
            mistake = _mistake(given, kind, "") or str(error)
        first = re.split(r"\W", mistake, maxsplit=1)[0]
        raise ValueError(f"{elsewhere.get(first, path)}.{mistake}")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{named} {_shown_name(metadata)}: {error}") from None
    except RecursionError:
        raise ValueError(f"{named} {_shown_name(metadata)}: it is nested too deeply") from None


def _shown_name(metadata: Any) -> str:
    if not isinstance(metadata, Mapping) or not metadata.get("name"):
        return "without a name"
    name, namespace = metadata["name"], metadata.get("namespace")
    return show(f"{namespace}/{name}" if isinstance(namespace, str) and namespace else name)


def from_plain(value: Any, kind: Any) -> Any:
    """Return a value of this type from plain data, with amounts as texts such as "3/2"."""
    return convert(value, kind, dec_hook=lambda _, of: Fraction(of))


def _check_header(document: Mapping[str, Any], kind: str, api: Collection[str]) -> None:
    for field, allowed in (("kind", (kind,)), ("apiVersion", api)):
        if field in document and document[field] not in allowed:
            raise ValueError(f"{field}: {show(document[field])} instead of {' or '.join(allowed)}")


def _part(document: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """Return what is at a path; empty if it is absent."""
    keys = path.split(".")
    for depth, key in enumerate(keys, 1):
        part = document.get(key)
        if part is None:
            return {}
        if type(part) is not dict and not isinstance(part, Mapping):
            at = ".".join(keys[:depth])
            raise ValueError(f"{at}: must be a mapping, not {show(part)}")
        document = part
    return document


def _mistake(value: Any, kind: Any, path: str) -> str:
    """Return where a value first differs from its type, and what is allowed there, as a text; "" if
    it does not.

    :param path: where the value is, as the text names it.
    """
    of, inner = get_origin(kind), get_args(kind)
    if of in (Union, UnionType):  # with None
        return _mistake(value, inner[0], path)
    if isinstance(kind, type) and issubclass(kind, KubernetesRecord):
        return _mistake_in_record(value, kind, path)
    if of is tuple:
        if not isinstance(value, (list, tuple)):
            return f"{path}: must be a list, not {show(value)}"
        mistakes = [_mistake(entry, inner[0], f"{path}[{i}]") for i, entry in enumerate(value)]
        return next(filter(None, mistakes), "")
    if of is Mapping:
        if not isinstance(value, Mapping):
            return f"{path}: must be a mapping, not {show(value)}"
        for key, entry in value.items():
            if not isinstance(key, str):
                return f"{path}: the key {show(key)} must be a string"
            if mistake := _mistake(entry, inner[1], f"{path}[{show(key)}]"):
                return mistake
        return ""
    try:
        convert(value, kind, dec_hook=lambda of, given: _as_quantity(of, given, path))
    except ValidationError as error:
        if kind is Fraction:
            return str(error)
        allowed = "one of " + ", ".join(filter(None, inner)) if of is Literal else _WORDS[kind]
        return f"{path}: must be {allowed}, not {show(value)}"
    return ""


def _mistake_in_record(value: Any, kind: type[KubernetesRecord], path: str) -> str:
    if not isinstance(value, Mapping):
        return f"{path}: must be a mapping, not {show(value)}"
    for field in fields(kind):
        at = f"{path}.{field.encode_name}" if path else field.encode_name
        if field.encode_name in value:
            if mistake := _mistake(value[field.encode_name], field.type, at):
                return mistake
        elif field.required:
            return f"{at}: is missing"
    try:
        convert(value, kind, dec_hook=_as_quantity)
    except ValidationError as error:  # of the record itself, which names its fields
        return f"{path}.{error}" if path else str(error)
    return ""


def _as_quantity(kind: type, value: Any, name: str = "the amount") -> Any:
    if kind is not Fraction:
        raise TypeError(f"a value must be of {kind.__name__}")
    if type(value) is int and value.bit_length() < _WIDEST:
        number = Fraction(value)
    else:
        number = read_exactly(value, name)
    if number < 0:
        raise ValueError(f"{name}: {show(value)} is negative")
    if number.denominator == 1:
        return number
    # As in Kubernetes, parts of a billionth are rounded up.
    return Fraction(ceil(number * _FINEST), _FINEST)


def _without_nulls(value: Any) -> Any:
    """Drop null fields, except in parameters of drivers."""
    if isinstance(value, Mapping):
        return {
            key: inner if key == "parameters" else _without_nulls(inner)
            for key, inner in value.items()
            if inner is not None
        }
    return [_without_nulls(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def at_most(most: int, values: Collection[Any], path: str) -> None:
    """Check the number of entries."""
    if len(values) > most:
        raise ValueError(f"{path}: {len(values)} entries, at most {most} are allowed")


def distinct_names(names: Collection[str], path: str, field: str = ".name") -> None:
    """Check that the entries of a list have unique names."""
    seen = set()
    for i, name in enumerate(names):
        if not name:
            raise ValueError(f"{path}[{i}]{field}: must not be empty")
        if name in seen:
            raise ValueError(f"{path}[{i}]{field}: {show(name)} is used twice")
        seen.add(name)


def only(given: Mapping[str, bool], least: int = 0) -> None:
    """Check that at most one of these fields is set, and at least ``least``."""
    present = [name for name, is_set in given.items() if is_set]
    if len(present) > 1:
        raise ValueError(f"{present[1]}: {present[0]} is set as well, which excludes it")
    if len(present) < least:
        raise ValueError(f"{next(iter(given))}: one of {', '.join(given)} must be set")
