"""CEL's static types; "dyn" may be any type."""

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["BOOL", "DYN", "INT", "NULL", "STRING", "Type", "common"]


class Type(NamedTuple):
    """A type by name, with the types of its keys and values."""

    kind: str
    parts: "tuple[Type, ...]" = ()

    @property
    def first(self) -> "Type":
        """The type of a list's elements, an optional value, or a map's keys."""
        return self.parts[0] if self.parts else DYN

    @property
    def last(self) -> "Type":
        """The type of a list's elements, an optional value, or a map's values."""
        return self.parts[-1] if self.parts else DYN

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.parts))})" if self.parts else self.kind


DYN, BOOL, INT, STRING, NULL = map(Type, ("dyn", "bool", "int", "string", "null"))


def common(types: Iterable[Type]) -> Type | None:
    """Return the common type of values of these types; ``None`` if there is none.

    >>> from hivecore.dra._cel.types import BOOL, DYN, INT, Type, common
    >>> str(common([Type("list", (INT,)), Type("list", (DYN,))])), common([INT, BOOL])
    ('list(dyn)', None)
    """
    result: Type | None = None
    for each in types:
        result = each if result is None else _join(result, each)
        if result is None:
            return None
    return result or DYN


def _join(a: Type, b: Type) -> Type | None:
    if a == b:
        return a
    if DYN in (a, b):
        return DYN
    if a.kind == b.kind:
        parts = [_join(x, y) for x, y in zip(a.parts, b.parts, strict=True)]
        return None if None in parts else Type(a.kind, tuple(filter(None, parts)))
    if NULL in (a, b) and {a.kind, b.kind} & {"semver", "quantity", "optional"}:
        return a if b == NULL else b
    return None
