"""What kube-scheduler asks of an extender, and the answers, as JSON has them.

Names of fields are written as in kube-scheduler's types (``NodeNames``) and read in any case.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hivecore.interop.kubernetes.json_text import read_body
from hivecore.interop.kubernetes.messages import is_blank, show

__all__ = [
    "NOTHING_FILTERED",
    "BadCall",
    "as_text",
    "field",
    "filtered",
    "listed_nodes",
    "names_of",
    "object_of",
    "parsed",
]


class BadCall(Exception):
    """What is asked makes no sense; ``status`` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


NOTHING_FILTERED: dict[str, Any] = {
    "Nodes": None,
    "NodeNames": None,
    "FailedNodes": None,
    "FailedAndUnresolvableNodes": None,
    "Error": "",
}
"""The answer to filter that names no node."""


def field(value: Mapping[str, Any], name: str) -> Any:
    """The field of this name in any case; None: there is none.

    >>> field({"nodeNames": ["a"]}, "NodeNames")
    ['a']
    """
    if name in value:
        return value[name]
    low = name.lower()
    for key, found in value.items():
        if str(key).lower() == low:
            return found
    return None


def parsed(body: Any) -> Any:
    """The plain data in the body of a request, which may be plain data already."""
    if isinstance(body, (str, bytes, bytearray)):
        try:
            body = read_body(body)
        except ValueError as error:
            raise BadCall(400, f"the body is no JSON: {error}") from None
        if isinstance(body, Mapping):
            _check_spellings(body)
    return body


def _check_spellings(body: Mapping[str, Any]) -> None:
    """Refuse a field that is there twice, as fields are read in any case."""
    seen: dict[str, str] = {}
    for key in body:
        other = seen.setdefault(key.lower(), key)
        if other != key:
            raise BadCall(400, f"the body has both {show(other)} and {show(key)}")


def object_of(value: Any, what: str) -> Mapping[str, Any]:
    """The mapping, or a `BadCall`."""
    if not isinstance(value, Mapping):
        raise BadCall(400, f"{what} must be an object, not {show(value)}")
    return value


def as_text(value: Any, what: str, required: bool = True) -> str:
    """The string, or a `BadCall`; "": there is none, and none is required."""
    if is_blank(value):
        if required:
            raise BadCall(400, f"{what} is missing")
        return ""
    if not isinstance(value, str):
        raise BadCall(400, f"{what} must be a string, not {show(value)}")
    return value


def listed_nodes(arguments: Mapping[str, Any]) -> list[str]:
    """The names of the nodes that filter is asked about.

    >>> listed_nodes({"nodes": {"items": [{"metadata": {"name": "n1"}}]}})
    ['n1']
    """
    nodes = field(arguments, "Nodes")
    if nodes is None:
        return names_of(field(arguments, "NodeNames"), "NodeNames")
    items = field(object_of(nodes, "Nodes"), "items")
    if items is not None and not isinstance(items, (list, tuple)):
        raise BadCall(400, f"Nodes.items must be a list, not {show(items)}")
    return names_of([_name_of(entry) for entry in items or ()], "names of Nodes.items")


def names_of(value: Any, what: str) -> list[str]:
    """The list of strings, or a `BadCall`; nothing is an empty one."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or not {str}.issuperset(map(type, value)):
        raise BadCall(400, f"{what} must be a list of strings")
    return list(value)


def filtered(names: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to filter with these nodes, in the form in which nodes were listed.

    >>> filtered(["n1"], {"NodeNames": ["n1", "n2"]})["NodeNames"]
    ['n1']
    """
    nodes = field(arguments, "Nodes")
    if nodes is None:
        return {**NOTHING_FILTERED, "NodeNames": list(names)}
    left = dict.fromkeys(names)
    listed = [entry for entry in field(nodes, "items") or () if _name_of(entry) in left]
    for entry in listed:
        left.pop(_name_of(entry), None)
    items = [*listed, *({"metadata": {"name": name}} for name in left)]
    return {**NOTHING_FILTERED, "Nodes": {"items": items}}


def _name_of(node: Any) -> Any:
    meta = field(node, "metadata") if isinstance(node, Mapping) else None
    return field(meta, "name") if isinstance(meta, Mapping) else None
