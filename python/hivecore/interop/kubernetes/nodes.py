"""What a network is read from: the names of nodes and their labels."""

import re

from hivecore.interop.kubernetes.documents import Objects, named_object, objects_of
from hivecore.interop.kubernetes.messages import show

__all__ = ["checked_label", "labels_of_nodes"]

_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def labels_of_nodes(nodes: Objects) -> dict[str, dict[str, str]]:
    """By name the labels of each node, in their order; objects of other kinds are passed over.

    :raises ValueError: two nodes have one name, or a node has none.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.kubernetes.nodes import labels_of_nodes
    >>> labels_of_nodes([{"kind": "Node", "metadata": {"name": "n1", "labels": {"rack": "r1"}}}])
    {'n1': {'rack': 'r1'}}
    """
    labels: dict[str, dict[str, str]] = {}
    for field in objects_of(nodes, "nodes"):
        if not field["kind"].absent and field["kind"].text() != "Node":
            continue
        with named_object(field, "Node"):
            name = field["metadata"]["name"]
            if name.name() in labels:
                raise name.error("there are two nodes of this name")
            labels[name.text()] = field["metadata"]["labels"].texts()
    return labels


def checked_label(value: str, what: str) -> str:
    """The text, if a label may have it as its value.

    >>> checked_label("rack-1", "domain")
    'rack-1'
    """
    if not _VALUE.fullmatch(value):
        rule = "up to 63 letters, digits, '-', '_', '.', and a letter or digit at both ends"
        raise ValueError(f"{what} {show(value)}: a label's value has {rule}")
    return value
