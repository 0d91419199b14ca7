"""What is on the cards of a node, as gpushare shows it: amounts in the cluster's unit."""

from typing import Any

from hivecore.interop.gpushare.books import Books
from hivecore.interop.gpushare.names import bytes_of

__all__ = ["draw_node"]


def draw_node(books: Books, node: str) -> dict[str, Any]:
    """The cards of a node and the pods on them; the node has to be one of the books.

    Source: gpushare-scheduler-extender, ``pkg/scheduler/inspect.go``.
    """
    scale = bytes_of(books.unit)
    pods: dict[int, list[dict[str, Any]]] = {}
    for owner, holding in sorted(books.held.items()):
        if holding.node == node:
            namespace, _, name = owner.partition("/")
            for one in holding.allocations:
                used = dict(one.amounts).get("memory", 0) // scale
                pod = {"name": name, "namespace": namespace, "usedGPU": used}
                pods.setdefault(one.minor, []).append(pod)
    cards = [
        {
            "id": card.minor,
            "totalGPU": dict(card.amounts).get("memory", 0) // scale,
            "usedGPU": sum(pod["usedGPU"] for pod in pods.get(card.minor, [])),
            "pods": pods.get(card.minor, []),
        }
        for card in books.nodes[node].of_type("gpu")
    ]
    return {
        "name": node,
        "totalGPU": sum(card["totalGPU"] for card in cards),
        "usedGPU": sum(card["usedGPU"] for card in cards),
        "devs": cards,
    }
