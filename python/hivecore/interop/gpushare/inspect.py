"""The cards of a node in gpushare's format, in the cluster's unit."""

from typing import Any

from hivecore.devices import DeviceCluster
from hivecore.interop.gpushare.names import Unit, bytes_of

__all__ = ["draw_node"]


def draw_node(cluster: DeviceCluster, node: str, unit: Unit) -> dict[str, Any]:
    """Return the cards of a node and the pods on them.

    Source: gpushare-scheduler-extender, ``pkg/scheduler/inspect.go``.

    >>> from hivecore.devices import Device, NodeDevices
    >>> cluster = DeviceCluster({"n": NodeDevices([Device("gpu", 0, {"memory": 8 << 30})])})
    >>> draw_node(cluster, "n", "GiB")["devs"]
    [{'id': 0, 'totalGPU': 8, 'usedGPU': 0, 'pods': []}]
    """
    scale = bytes_of(unit)
    pods: dict[int, list[dict[str, Any]]] = {}
    for owner in cluster.owners(node):
        namespace, _, name = owner.partition("/")
        for allocation in cluster.allocations(owner):
            used = dict(allocation.amounts).get("memory", 0) // scale
            pod = {"name": name, "namespace": namespace, "usedGPU": used}
            pods.setdefault(allocation.minor, []).append(pod)
    cards = [
        {
            "id": card.minor,
            "totalGPU": dict(card.amounts).get("memory", 0) // scale,
            "usedGPU": sum(pod["usedGPU"] for pod in pods.get(card.minor, [])),
            "pods": pods.get(card.minor, []),
        }
        for card in cluster.inventory(node).of_type("gpu")
    ]
    return {
        "name": node,
        "totalGPU": sum(card["totalGPU"] for card in cards),
        "usedGPU": sum(card["usedGPU"] for card in cards),
        "devs": cards,
    }
