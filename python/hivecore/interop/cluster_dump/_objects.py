"""Reads a cluster's objects by schema, with remarks on fields that the schema lacks.

A schema is a `msgspec.Struct` with the fields that are used here. Null means absent. Amounts are
exact (`Fraction`).
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec import field as default

from hivecore._arguments import some
from hivecore._quantities import read_exactly
from hivecore.interop.koordinator.quotas.amounts import MOST, in_units
from hivecore.interop.kubernetes.documents import (
    Objects,
    check_is_object,
    named_object,
    objects_of,
)
from hivecore.interop.kubernetes.messages import show

__all__ = ["Condition", "Dump", "Meta", "Object", "Schema"]

_Spec = TypeVar("_Spec", bound=Struct)
_WHERE = re.compile(r" - at `(?:key` in `)?\$\.?(.*)`$")
_STEP = re.compile(r"\.?(\w+)|\[([0-9]+)\]")
_SOME = "[...]"  # how msgspec writes any key


class Schema(Struct, rename="camel", frozen=True):
    """A part of an object, with fields spelled as in Kubernetes."""


class Condition(Schema, frozen=True):
    """An entry of the conditions in a status."""

    type: str = ""
    status: str = ""


class Owner(Schema, frozen=True):
    """The object that created another one."""

    uid: str = ""


class Meta(Schema, frozen=True):
    """The metadata of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = default(default_factory=dict)
    annotations: dict[str, str] = default(default_factory=dict)
    owner_references: tuple[Owner, ...] = ()
    creation_timestamp: Any = ""
    deletion_timestamp: Any = None

    @property
    def full(self) -> str:
        """The name, after its namespace if it has one."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Object:
    """An object whose spec has not been read yet."""

    kind: str
    meta: Meta
    value: Mapping[str, Any]


@dataclass(slots=True)
class Dump:
    """The objects of a text by kind, and remarks on what has no equivalent here.

    :param gpu: the resource that becomes "gpu".
    :param kinds: objects by kind and API group, such as "Queue.scheduling.run.ai".
    """

    gpu: str
    kinds: dict[str, list[Object]] = field(default_factory=lambda: defaultdict(list))
    _remarks: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, objects: Objects, gpu: str) -> "Dump":
        """Read the objects of a text or a list.

        :raises ValueError: an object is listed twice, or its metadata is invalid; or a document is
            no object.
        """
        dump, seen = cls(gpu), set()
        for document in objects_of(objects, "objects"):
            check_is_object(document.value)
            group = document["apiVersion"].text().rpartition("/")[0]
            kind = document["kind"].text()
            with named_object(document, kind or "object"):
                try:
                    value = _present(document.value)
                except RecursionError:
                    raise ValueError("is nested too deeply") from None
            # A component's configuration is a file, which has no metadata.
            nameless = {"name": ""} if group.startswith("config.") else {}
            given = value.get("metadata", nameless)
            name = given.get("name") if isinstance(given, Mapping) else None
            called = f" {show(name)}" if isinstance(name, str) and name else ""
            meta = _read(given, Meta, f"{kind or 'object'}{called}: metadata")
            key = f"{kind}.{group}" if group else kind
            if (key, meta.full) in seen:
                raise ValueError(f"{kind} {show(meta.full)} is there twice")
            seen.add((key, meta.full))
            dump.kinds[key].append(Object(kind, meta, value))
        return dump

    def read(
        self, item: Object, schema: type[_Spec], part: str = "spec", *, whole: bool = True
    ) -> _Spec:
        """Read a part of an object.

        :param whole: whether to add remarks on fields that the schema lacks.
        :raises ValueError: the part is invalid.
        """
        given = item.value.get(part, {})
        spec = _read(given, schema, f"{item.kind} {show(item.meta.full)}: {part}")
        if whole:
            for path in dict.fromkeys(_unread(given, to_builtins(spec, enc_hook=str), part)):
                self.remark(item.kind, item.meta.full, f"{path} has no counterpart here")
        return spec

    def remark(self, kind: str, name: str, text: str) -> None:
        """Add a remark on how an object differs from the cluster's."""
        self._remarks[kind, text].append(name)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return the remarks; equal remarks are joined into one sentence."""
        return tuple(
            f"{kind} {some(names)}: {text}" if names[0] else f"{kind}: {text}"
            for (kind, text), names in self._remarks.items()
        )

    def named(self, resource: str) -> str:
        """Return the name of a resource here."""
        return "gpu" if resource == self.gpu else resource

    def units(self, amounts: Mapping[str, Fraction]) -> dict[str, int]:
        """Return amounts in whole units of quotas."""
        units = {name: min(in_units(name, amount), MOST) for name, amount in amounts.items()}
        return {self.named(name): amount for name, amount in units.items()}


def _present(value: Any) -> Any:
    """Return the value without nulls."""
    if isinstance(value, Mapping):
        return {key: _present(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [_present(entry) for entry in value]
    return value


def _amount(_: type, value: Any) -> Fraction:
    amount = read_exactly(value, "amount")
    if amount < 0:
        raise ValueError(f"amount {show(value)} is negative")
    return amount


def _read(value: Any, schema: type[_Spec], name: str) -> _Spec:
    try:
        return convert(value, schema, dec_hook=_amount)
    except ValidationError as error:
        where = _WHERE.search(str(error))
        message, path = _WHERE.sub("", str(error)), where[1] if where else ""
        if path.endswith(_SOME):
            path = path.removesuffix(_SOME)
            path += f"[{show(_wrong_key(value, path, message))}]"
        place = f"{name}.{path}" if path else name
        raise ValueError(f"{place}: {message[:1].lower()}{message[1:]}") from None


def _wrong_key(value: Any, path: str, message: str) -> str:
    """Return the key of the first wrong entry of the mapping at a path."""
    for key, index in _STEP.findall(path):
        value = value[key] if key else value[int(index)]
    kind = str if message.startswith("Expected `str`") else Fraction
    for key, entry in value.items():
        try:
            convert(entry, kind, dec_hook=_amount)
        except ValidationError:
            return str(key)
    return _SOME


def _unread(given: Any, spec: Any, path: str) -> Iterator[str]:
    """Return the paths of fields that the schema lacks, without indices."""
    if isinstance(given, Mapping) and isinstance(spec, Mapping):
        for key, value in given.items():
            if key in spec:
                yield from _unread(value, spec[key], f"{path}.{key}")
            elif value not in ("", {}, [], False):
                yield f"{path}.{key}"
    elif isinstance(given, list) and isinstance(spec, (list, tuple)):
        for entry, other in zip(given, spec, strict=True):
            yield from _unread(entry, other, path)
