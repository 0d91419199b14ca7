"""What kube-scheduler sends to an extender, and the answers: records of its JSON.

Fields are written as in kube-scheduler's types (``NodeNames``) and read in any case, as Go does.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, convert
from msgspec import field as named

from hivecore.interop.kubernetes.json_text import read_body
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import PodId

__all__ = [
    "BadCall",
    "BindCall",
    "BindReply",
    "FilterCall",
    "FilterReply",
    "MetaPod",
    "MetaVictims",
    "NodeList",
    "PreemptCall",
    "PreemptReply",
    "parsed",
    "read_call",
    "record_of",
]

_TYPES = re.compile(r"Expected (\w+)(?: \| null)?, got (\w+)")
_MISSING = "Object missing required field "
_WORDS = {"str": "a string", "object": "an object", "array": "a list", "null": "nothing"}
_WORDS |= {"int": "an integer", "float": "a number", "bool": "a truth value"}
_Name = Annotated[str, Meta(min_length=1)]
_Record = TypeVar("_Record", bound=Struct)


class BadCall(Exception):
    """A request makes no sense; ``status`` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NodeList(Struct, frozen=True):
    """Nodes as whole objects."""

    items: list[dict[str, Any]] | None = None


class FilterReply(Struct, frozen=True, rename="pascal"):
    """The answer to filter, in the form in which the nodes were listed."""

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class BindReply(Struct, frozen=True, rename="pascal"):
    """The answer to bind; kube-scheduler reads its error only."""

    error: str = ""
    binding: dict[str, Any] | UnsetType = UNSET


class MetaPod(Struct, frozen=True):
    """A victim."""

    uid: str = named(name="UID")


class MetaVictims(Struct, frozen=True):
    """The victims on a node."""

    pods: list[MetaPod] = named(name="Pods")
    violations: int = named(name="NumPDBViolations", default=0)


class PreemptReply(Struct, frozen=True, rename="pascal"):
    """The answer to preempt: the victims by node."""

    node_name_to_meta_victims: dict[str, MetaVictims] = {}
    error: str | UnsetType = UNSET

    @classmethod
    def of(cls, node: str | None, victims: Mapping[str, Iterable[str]]) -> "PreemptReply":
        """The victims of this node leave, by uid; ``None``: no pod leaves.

        >>> from hivecore.interop.kubernetes.calls import PreemptReply
        >>> PreemptReply.of("n1", {"n1": ["a"]}).node_name_to_meta_victims["n1"].pods
        [MetaPod(uid='a')]
        """
        if node is None:
            return cls({})
        return cls({node: MetaVictims([MetaPod(uid) for uid in victims[node]])})


class FilterCall(Struct, frozen=True, rename="pascal"):
    """Where may this pod go? Of these nodes, which are listed by name or as objects."""

    pod: dict[str, Any]
    nodes: NodeList | None = None
    node_names: list[str] | None = None

    def offered(self) -> list[str]:
        """The names of the nodes.

        :raises BadCall: an object has no name.

        >>> from hivecore.interop.kubernetes.calls import FilterCall, read_call
        >>> read_call({"pod": {}, "nodes": {"items": [{"metadata": {"name": "n1"}}]}},
        ...           FilterCall).offered()
        ['n1']
        """
        if self.nodes is None:
            return self.node_names or []
        names = [_name_of(item) for item in self.nodes.items or ()]
        if not all(isinstance(name, str) for name in names):
            raise BadCall(400, "names of Nodes.items must be a list of strings")
        return names

    def passed(self, names: Iterable[str], **more: Any) -> FilterReply:
        """The answer that these nodes pass.

        >>> FilterCall({}, node_names=["n1", "n2"]).passed(["n1"]).node_names
        ['n1']
        """
        if self.nodes is None:
            return FilterReply(node_names=list(names), **more)
        left = dict.fromkeys(names)
        listed = [item for item in self.nodes.items or () if _name_of(item) in left]
        for item in listed:
            left.pop(_name_of(item), None)
        items = [*listed, *({"metadata": {"name": name}} for name in left)]
        return FilterReply(NodeList(items), **more)


class PreemptCall(Struct, frozen=True, rename="pascal"):
    """Which pods have to leave for this one?"""

    pod: dict[str, Any]
    node_name_to_victims: dict[str, Any] | None = None
    node_name_to_meta_victims: dict[str, Any] | None = None


class BindCall(Struct, frozen=True, rename="pascal"):
    """Bind this pod to this node."""

    pod_name: _Name
    pod_namespace: _Name
    node: _Name
    pod_uid: str | None = named(name="PodUID", default=None)

    @property
    def pod(self) -> PodId:
        """The pod's names."""
        return PodId(self.pod_name, self.pod_namespace, self.pod_uid or "")


def parsed(body: Any) -> Any:
    """The plain data in the body of a request, which may be plain data already."""
    if isinstance(body, (str, bytes, bytearray)):
        try:
            body = read_body(body)
        except ValueError as error:
            raise BadCall(400, f"the body is no JSON: {error}") from None
        if isinstance(body, Mapping):
            seen: dict[str, str] = {}
            for key in body:
                other = seen.setdefault(key.lower(), key)
                if other != key:  # fields are read in any case
                    raise BadCall(400, f"the body has both {show(other)} and {show(key)}")
    return body


def read_call(body: Any, kind: type[_Record]) -> _Record:
    """The record in the body of a request.

    :raises BadCall: the body is something else.
    """
    data = parsed(body)
    if not isinstance(data, Mapping):
        raise BadCall(400, f"the body must be an object, not {show(data)}")
    plain = _spelled(data, _keys_of(kind))
    nodes, pod = plain.get("Nodes"), plain.get("Pod")
    if nodes is not None:
        plain["Nodes"] = _spelled(nodes, _OF_NODES)
    if isinstance(pod, Mapping):
        plain["Pod"] = pod = _spelled(pod, _OF_POD)
        if "metadata" in pod:
            pod["metadata"] = _spelled(pod["metadata"], _OF_METADATA)
    return record_of(plain, kind)


def record_of(plain: Any, kind: type[_Record]) -> _Record:
    """The record in plain data; a `BadCall` names the path of what is wrong."""
    try:
        return convert(plain, kind)
    except ValueError as error:  # half a character of UTF-16 is one, too
        text, _, place = str(error).replace("`", "").partition(" - at ")
        path = place.replace("$.", "") or "the body"
        if types := _TYPES.fullmatch(text):
            needed, given = (_WORDS.get(name, name) for name in types.groups())
            text = f"{path} must be {needed}, not {given}"
        elif text.startswith(_MISSING):
            text = f"{text.removeprefix(_MISSING)} is missing"
        else:
            text = f"{path}: {text[0].lower()}{text[1:]}"
        raise BadCall(400, text) from None


def _by_lower(*names: str) -> dict[str, str]:
    return {name.lower(): name for name in names}


@cache
def _keys_of(kind: type[Struct]) -> dict[str, str]:
    return _by_lower(*kind.__struct_encode_fields__)


def _spelled(value: Any, names: Mapping[str, str]) -> Any:
    """A mapping with these names for the keys that differ from them in their case only."""
    if not isinstance(value, dict | Mapping):
        return value
    return {names.get(str(key).lower(), key): field for key, field in value.items()}


_OF_NODES = _by_lower("items")
_OF_POD = _by_lower("metadata", "spec", "status")
_OF_METADATA = _by_lower("name", "namespace", "uid", "annotations", "labels")


def _name_of(node: Mapping[str, Any]) -> Any:
    meta = _spelled(node, _OF_POD).get("metadata")
    return _spelled(meta, _OF_METADATA).get("name") if isinstance(meta, Mapping) else None
