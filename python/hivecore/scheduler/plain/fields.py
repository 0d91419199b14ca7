"""Records as plain data: fields that are as by default are left out, unknown ones refused."""

from collections.abc import Callable, Mapping
from typing import Any

from hivecore._arguments import as_mapping

__all__ = ["Plain", "read_fields", "told_fields"]

Plain = dict[str, Any]


def told_fields(thing: Any, defaults: Mapping[str, Any]) -> Plain:
    """The fields that are not as by default."""
    found = {}
    for name, usual in defaults.items():
        value = getattr(thing, name)
        if value != usual:
            pairs = value and type(value) is tuple and all(type(one) is tuple for one in value)
            found[name] = dict(value) if pairs else list(value) if type(value) is tuple else value
    return found


def read_fields(
    plain: Any,
    what: str,
    required: tuple[str, ...],
    optional: set[str],
    /,
    **read: Callable[[Any], Any],
) -> Plain:
    """The fields of plain data, those named in ``read`` as these make them."""
    given = dict(as_mapping(plain, what))
    for name in required:
        if name not in given:
            raise ValueError(f"{what}: {name!r} is missing")
    for name in given:
        if name not in required and name not in optional:
            raise ValueError(f"{what}: there is no field {name!r}")
    for name, make in read.items():
        if name in given:
            given[name] = make(given[name])
    return given
