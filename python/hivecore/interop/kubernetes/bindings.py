"""The object by which a scheduler binds a pod to a node."""

from collections.abc import Mapping
from typing import Any

__all__ = ["binding_of"]


def binding_of(
    name: str, namespace: str, uid: str, node: str, annotations: Mapping[str, str]
) -> dict[str, Any]:
    """The object ``Binding``, whose annotations Kubernetes copies to the pod.

    >>> binding_of("p", "default", "1", "n", {})["target"]["name"]
    'n'
    """
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "annotations": dict(annotations),
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
