"""Reads Kubernetes objects into records: camel case, exact quantities, errors with paths.

msgspec checks types and nested records; each record checks its own values and names fields relative
to itself. The paths are joined here.
"""

import re
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from math import ceil
from typing import Any, TypeVar

from msgspec import ValidationError, convert

from hivecore._arguments import as_dict, as_name, show
from hivecore._quantities import read_exactly
from hivecore._record import Record

__all__ = ["KubernetesRecord", "at_most", "distinct_names", "from_plain", "only", "read"]

_FINEST = 10**9  # parts of a unit
_WIDEST = 212  # bits of a quantity that is written as a number: 64 digits
_OWN = re.compile(r"[a-z][\w\[\]./'-]*: ")  # messages of records begin with a path


class KubernetesRecord(Record, frozen=True, rename="camel", omit_defaults=True):
    """A record whose fields Kubernetes writes in camel case."""


_R = TypeVar("_R", bound=KubernetesRecord)


def read(
    kind: type[_R],
    document: Mapping[str, Any],
    fields: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    *,
    api: Collection[str] = ("resource.k8s.io/v1",),
) -> _R:
    """Return the record of an object: its name and what ``fields`` takes from it.

    :raises ValueError: the kind or API version is another, or a field is missing or has a wrong
        type or value. The message names the object and the path.
    """
    document = as_dict(document, kind.__name__)
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    where = f"{kind.__name__} {show(name) if name else 'without a name'}"
    try:
        _check_header(document, kind.__name__, api)
        as_name(name, "metadata.name")
        given = {**fields(document), "name": name}
        try:
            return convert(given, kind, dec_hook=_as_quantity)
        except ValidationError:
            return convert(_without_nulls(given), kind, dec_hook=_as_quantity)
    except ValidationError as error:
        raise ValueError(f"{where}: {_message(str(error))}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None
    except RecursionError:
        raise ValueError(f"{where}: it is nested too deeply") from None


def from_plain(value: Any, kind: Any) -> Any:
    """Return a value of this type from plain data, with amounts as texts such as "3/2"."""
    return convert(value, kind, dec_hook=lambda _, of: Fraction(of))


def _check_header(document: Mapping[str, Any], kind: str, api: Collection[str]) -> None:
    for field, allowed in (("kind", (kind,)), ("apiVersion", api)):
        if field in document and document[field] not in allowed:
            raise ValueError(f"{field}: {show(document[field])} instead of {' or '.join(allowed)}")


def _message(text: str) -> str:
    message, _, path = text.rpartition(" - at `$")
    if not message:
        return text
    path = path.rstrip("`").removeprefix(".")
    if not path:
        return message
    return f"{path}.{message}" if _OWN.match(message) else f"{path}: {message}"


def _as_quantity(kind: type, value: Any) -> Any:
    if kind is not Fraction:
        raise TypeError(f"a value must be of {kind.__name__}")
    if type(value) is int and value.bit_length() < _WIDEST:
        number = Fraction(value)
    else:
        number = read_exactly(value, "the amount")
    if number < 0:
        raise ValueError(f"the amount: {show(value)} is negative")
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
