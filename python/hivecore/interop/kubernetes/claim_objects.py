"""The objects of device claims in files of Kubernetes' objects."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields

from hivecore._arguments import utf8_text
from hivecore.dra import (
    DeviceClass,
    DeviceTaintRule,
    DraCluster,
    NodeSelector,
    ResourceClaim,
    ResourceSlice,
)
from hivecore.dra.ledger import record_of
from hivecore.interop.kubernetes.documents import objects_of
from hivecore.interop.kubernetes.messages import show

__all__ = ["OF_CLAIMS", "FileObject", "put_objects", "read_objects"]

OF_CLAIMS = ("ResourceSlice", "DeviceClass", "DeviceTaintRule", "ResourceClaim", "Node")
"""Their kinds; claims are also read from templates."""
_TEMPLATE, _SLICE = "ResourceClaimTemplate", "ResourceSlice"
_OF_OBJECT = "apiVersion", "kind", "metadata", "spec", "status"
_OTHERS = {  # fields of Kubernetes that are not read
    "Device": ("nodeAllocatableResourceMappings",),
    "Taint": ("timeAdded",),
    "TaintedDevices": ("deviceClassName", "selectors"),
}


class FileObject(NamedTuple):
    """An object of a file, as a record of `hivecore.dra`.

    :param kind: of the object, which may be a template.
    """

    path: Path
    kind: str
    record: Any

    @property
    def name(self) -> str:
        """Its name, with its namespace if it has one."""
        return str(getattr(self.record, "full_name", self.record.name))

    def mistake(self, what: object) -> str:
        """What is wrong with it."""
        return f"{self.path}: {self.kind} {show(self.name)}: {what}"


def read_objects(paths: Iterable[Path]) -> tuple[list[FileObject], list[str]]:
    """The objects of files, and what is wrong with others: also each field that is unknown, and
    an object other than a claim that is there once more and differs.

    :raises ValueError: a file holds no objects of Kubernetes.
    """
    objects, mistakes = [], []
    seen: dict[tuple[str, str], Any] = {}
    for path in paths:
        text = utf8_text(path)
        try:
            documents = objects_of(text, "document")
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None
        for number, field in enumerate(documents):
            document = field.value
            kind = document.get("kind")
            if kind is None:
                raise ValueError(f"{path}: a document without a kind is no object of Kubernetes")
            if kind != _TEMPLATE and kind not in OF_CLAIMS:
                continue
            try:
                mistakes += [f"{path}: {mistake}" for mistake in _unknown_fields(document)]
                record = (
                    ResourceClaim.of_template(document)
                    if kind == _TEMPLATE
                    else record_of(document, number)
                )
                entry = FileObject(path, kind, record)
                objects.append(entry)
                first = seen.setdefault((kind, entry.name), record)
                if first != record and not isinstance(record, ResourceClaim):
                    mistakes.append(entry.mistake("is there twice, and differs"))
            except (TypeError, ValueError) as error:
                mistakes.append(f"{path}: {error}")
    return objects, mistakes


def put_objects(cluster: DraCluster, objects: Iterable[FileObject]) -> list[str]:
    """Give a cluster the objects of files; return what it does not take, and why."""
    mistakes = []
    last = ResourceClaim  # it holds devices of slices
    for entry in sorted(objects, key=lambda entry: isinstance(entry.record, last)):
        try:
            cluster.update(entry.record)
        except (TypeError, ValueError) as error:
            mistakes.append(f"{entry.path}: {error}")
    return mistakes


# --- fields that no record has


_SPECS = {
    "DeviceClass": DeviceClass,
    "DeviceTaintRule": DeviceTaintRule,
    _SLICE: ResourceSlice,
}


def _unknown_fields(document: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the names of fields: with a typo, a field would not count."""
    kind, metadata = document["kind"], document.get("metadata")
    if kind == "Node":
        return []
    named = metadata if isinstance(metadata, Mapping) else {}
    name = "/".join(str(named[key]) for key in ("namespace", "name") if named.get(key))
    where = f"{kind} {show(name) if named.get('name') else 'without a name'}"
    mistakes = []
    for unknown in _of_object(kind, document):
        near = get_close_matches(unknown.key, unknown.known, n=1, cutoff=0.6)
        if near or kind != _SLICE:  # drivers may know more of Kubernetes than this release
            meant = f"is {near[0]} meant?" if near else f"known are {', '.join(unknown.known)}"
            mistakes.append(f"{where}: {unknown.path}: is unknown, {meant}")
    return mistakes


class _Unknown(NamedTuple):
    key: str
    path: str
    known: Sequence[str]


def _of_object(kind: str, document: Mapping[str, Any]) -> Iterator[_Unknown]:
    yield from _others(document, _OF_OBJECT, "")
    spec, path = document.get("spec"), "spec."
    if kind == _TEMPLATE and isinstance(spec, Mapping):
        yield from _others(spec, ("metadata", "spec"), path)
        spec, path = spec.get("spec"), "spec.spec."
    if not isinstance(spec, Mapping):
        return
    if kind in _SPECS:
        known = _known(_SPECS[kind])
        yield from _in_struct(spec, {key: known[key] for key in known if key != "name"}, kind, path)
        return
    yield from _others(spec, ("devices",), path)
    known = _known(ResourceClaim)
    own = {key: known[key] for key in ("requests", "constraints", "config")}
    if isinstance(spec.get("devices"), Mapping):
        yield from _in_struct(spec["devices"], own, kind, f"{path}devices.")


@cache
def _known(record: type[Struct]) -> dict[str, Any]:
    return {field.encode_name: field.type for field in fields(record)}


def _others(given: Mapping[Any, Any], known: Sequence[str], path: str) -> Iterator[_Unknown]:
    for key in given:
        if key not in known:
            shown = key if isinstance(key, str) and key.isidentifier() else show(key)
            yield _Unknown(str(key), f"{path}{shown}", known)


def _in_struct(
    given: Mapping[Any, Any], known: Mapping[str, Any], name: str, path: str
) -> Iterator[_Unknown]:
    yield from _others(given, (*known, *_OTHERS.get(name, ())), path)
    for key, type_ in known.items():
        if given.get(key) is not None:
            yield from _in_value(given[key], type_, f"{path}{key}")


def _in_value(given: Any, type_: Any, path: str) -> Iterator[_Unknown]:
    """Yield the unknown fields of a value; one of a wrong type is refused elsewhere."""
    origin, inner = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        for each in inner:
            yield from _in_value(given, each, path)
    elif isinstance(type_, type) and issubclass(type_, Struct) and type_ is not NodeSelector:
        if isinstance(given, Mapping):
            yield from _in_struct(given, _known(type_), type_.__name__, f"{path}.")
    elif origin is tuple and isinstance(given, list):
        for i, entry in enumerate(given):
            yield from _in_value(entry, inner[0], f"{path}[{i}]")
    elif isinstance(given, Mapping) and len(inner) == 2:
        for key, entry in given.items():
            yield from _in_value(entry, inner[1], f"{path}[{show(key)}]")
