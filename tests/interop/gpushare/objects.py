"""Objects of gpushare for the tests, and the card that gpushare's article takes."""

from hivecore.interop.gpushare import read_node

__all__ = ["COUNT", "MEM", "best_card", "cards_of", "node", "pod"]

MEM, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"


def node(name, cards, memory):
    """A node with so much memory in all of its cards together."""
    capacity = {COUNT: str(cards), MEM: str(memory)}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"capacity": capacity}}


def pod(name, *amounts, annotations=None, node=None, phase=None, uid=None):
    """A pod whose containers ask for so much."""
    return {
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations, "uid": uid or f"u-{name}"},
        "spec": {
            "nodeName": node,
            "containers": [{"resources": {"limits": {MEM: amount}}} for amount in amounts],
        },
        "status": {"phase": phase},
    }


def cards_of(*memory, unit="MiB"):
    """The inventory of a node with cards of these sizes."""
    capacity = {"status": {"capacity": {COUNT: len(memory), MEM: sum(memory)}}}
    return read_node(capacity, unit, cards=memory)


def best_card(free, amount):
    """The card that gpushare takes: the fullest that is enough, the lowest of these; None: none."""
    enough = [(left, card) for card, left in enumerate(free) if left >= amount]
    return min(enough)[1] if enough else None
