"""Objects of gpushare for the tests, and a cluster that decides as gpushare's article has it."""

from types import SimpleNamespace

import numpy as np

from hivecore.decisions import Refusal
from hivecore.devices import DeviceAllocation
from hivecore.interop.gpushare import read_node

__all__ = ["COUNT", "MEM", "SmallCluster", "cards_of", "node", "pod"]

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


class SmallCluster:
    """What the extender uses of a cluster: one card a pod, the fullest that is enough."""

    def __init__(self, nodes):
        self.nodes = dict(nodes)
        self.owners = {}

    def free(self, node):
        """What is left of each healthy card."""
        left = {
            card.minor: dict(card.amounts).get("memory", 0)
            for card in self.nodes[node].devices
            if card.healthy
        }
        for where, allocations in self.owners.values():
            for one in allocations:
                if where == node and one.minor in left:
                    left[one.minor] = max(left[one.minor] - dict(one.amounts)["memory"], 0)
        return left

    def filter(self, request, *, nodes):
        reasons = {name: self._refusal(request, name) for name in nodes}
        codes = np.array([bool(reason) for reason in reasons.values()], np.int8)
        return SimpleNamespace(nodes=tuple(reasons), codes=codes, reason=reasons.__getitem__)

    def _refusal(self, request, node):
        asked = dict(request.needs[0].amounts)["memory"]
        if any(free >= asked for free in self.free(node).values()):
            return ""
        return f"no card with {asked} bytes"

    def allocate(self, request, node, *, policy):
        assert policy == "best-fit"
        if request.name in self.owners:
            raise ValueError(f"{request.name} is an owner already")
        reason = self._refusal(request, node)
        if reason:
            refusal = Refusal("devices", "devices", reason, node)
            return SimpleNamespace(outcome="wait", placement=(), refusal=refusal)
        asked = dict(request.needs[0].amounts)["memory"]
        free = self.free(node)
        card = min((left, minor) for minor, left in free.items() if left >= asked)[1]
        held = (DeviceAllocation("gpu", card, {"memory": asked}),)
        self.owners[request.name] = node, held
        return SimpleNamespace(outcome="bind", placement=held, refusal=None)

    def release(self, name):
        del self.owners[name]

    def add_node(self, node, inventory):
        assert node not in self.nodes
        self.nodes[node] = inventory

    def remove_node(self, node):
        assert not any(where == node for where, _ in self.owners.values())
        del self.nodes[node]

    def set_inventory(self, node, inventory):
        assert node in self.nodes
        self.nodes[node] = inventory

    def recover(self, name, node, allocations):
        assert name not in self.owners
        if not {one.minor for one in allocations} <= {
            one.minor for one in self.nodes[node].devices
        }:
            raise ValueError(f"{name}: no such card")
        self.owners[name] = node, allocations
