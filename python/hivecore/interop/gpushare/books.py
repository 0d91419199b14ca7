"""What the extender knows of nodes and pods, kept in step with the cluster that decides.

A node that is deleted while pods still have cards of it keeps them, unhealthy, until the last pod
is gone: it may come back, and a card must not be given twice. A pod whose node is not known yet
waits for it. A pod is known by its name; one of the same name and another uid is another pod.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from hivecore.devices import DeviceAllocation, DeviceRequest, NodeDevices
from hivecore.interop.gpushare.names import Unit
from hivecore.interop.gpushare.nodes import CONFIG_MAP, read_node, read_unhealthy, with_unhealthy
from hivecore.interop.gpushare.pods import read_bound_pod
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import has_ended, owner_name

__all__ = ["Books", "Cluster", "Holding"]


class Cluster(Protocol):
    """What of `hivecore.devices.DeviceCluster` is used here."""

    def filter(self, request: DeviceRequest, /, *, nodes: Any) -> Any:
        """Whether the request fits on each node."""

    def allocate(self, request: DeviceRequest, node: str, /, *, policy: str) -> Any:
        """Schedule and commit on one node."""

    def release(self, name: str, /) -> Any:
        """The end of an owner."""

    def add_node(self, node: str, inventory: NodeDevices, /) -> Any:
        """A node comes."""

    def remove_node(self, node: str, /) -> Any:
        """A node goes."""

    def set_inventory(self, node: str, inventory: NodeDevices, /) -> Any:
        """A node has other devices, or other health."""

    def recover(self, name: str, node: str, allocations: tuple[DeviceAllocation, ...], /) -> Any:
        """An owner has these devices, says its record."""


class Holding(NamedTuple):
    """What a pod has."""

    uid: str
    node: str
    allocations: tuple[DeviceAllocation, ...]
    annotations: dict[str, str]
    """As they were written; none for pods of before a restart."""
    bound: bool
    """Whether Kubernetes has said that it is bound."""


class Books:
    """The nodes and pods of one cluster.

    :param cluster: a `hivecore.devices.DeviceCluster` without owners.
    :param nodes: what it has been made with.
    :param unit: of ``aliyun.com/gpu-mem``.
    """

    def __init__(self, cluster: Cluster, nodes: Mapping[str, NodeDevices], unit: Unit) -> None:
        self.cluster = cluster
        self.unit = unit
        self.nodes = dict(nodes)
        self.held: dict[str, Holding] = {}
        self._gone: set[str] = set()
        """Deleted nodes whose cards pods still have; they are in `nodes`."""
        self._sick: dict[str, tuple[int, ...]] = {}
        self._waiting: dict[str, tuple[str, str, tuple[DeviceAllocation, ...]]] = {}
        """Owner -> uid, node, cards: bound to a node that is not known yet."""

    def is_known(self, node: str) -> bool:
        """Whether pods can go to the node."""
        return node in self.nodes and node not in self._gone

    def hold(self, name: str, holding: Holding) -> None:
        """The cluster has just given a pod its cards."""
        self.held[name] = holding

    def release(self, name: str) -> None:
        """The end of a pod; an unknown one changes nothing."""
        self._waiting.pop(name, None)
        holding = self.held.pop(name, None)
        if holding is None:
            return
        self.cluster.release(name)
        if holding.node in self._gone and not self._is_used(holding.node):
            self._gone.discard(holding.node)
            del self.nodes[holding.node]
            self.cluster.remove_node(holding.node)

    def known_pod(self, name: str, uid: str) -> Holding | None:
        """What the pod has already; another one of this name is over, and leaves."""
        known = self.held.get(name)
        if known is not None and uid and known.uid and uid != known.uid:
            self.release(name)
            return None
        return known

    def apply(self, type_: str, kind: str, item: Field) -> None:
        """One event of a watch; what it says wrongly is a ValueError or TypeError.

        :param type_: "ADDED", "MODIFIED" or "DELETED".
        :param kind: of the object; only Node, Pod and ConfigMap have an effect.
        """
        deleted = type_ == "DELETED"
        if kind == "Node":
            self._apply_node(item, deleted)
        elif kind == "Pod":
            self._apply_pod(item, deleted)
        elif kind == "ConfigMap":
            self._apply_config_map(item, deleted)

    def _apply_node(self, item: Field, deleted: bool) -> None:
        name = item["metadata"]["name"].name()
        if deleted:
            self._remove(name)
            return
        inventory = read_node(item.value, self.unit, unhealthy=self._sick.get(name, ()))
        self._gone.discard(name)
        if name not in self.nodes:
            self.cluster.add_node(name, inventory)
        elif self.nodes[name] != inventory:
            self.cluster.set_inventory(name, inventory)
        self.nodes[name] = inventory
        mistakes = []
        for owner, (uid, node, allocations) in list(self._waiting.items()):
            if node == name:
                del self._waiting[owner]
                try:
                    self._recover(owner, uid, node, allocations)
                except (LookupError, TypeError, ValueError) as error:
                    mistakes.append(f"pod {owner!r}: {error}")
        if mistakes:
            raise ValueError("; ".join(mistakes))

    def _remove(self, name: str) -> None:
        if not self.is_known(name):
            return
        if not self._is_used(name):
            self.cluster.remove_node(name)
            del self.nodes[name]
            return
        every = [card.minor for card in self.nodes[name].devices]
        self.nodes[name] = with_unhealthy(self.nodes[name], every)
        self.cluster.set_inventory(name, self.nodes[name])
        self._gone.add(name)

    def _apply_pod(self, item: Field, deleted: bool) -> None:
        owner = owner_name(item)
        uid = item["metadata"]["uid"].text()
        known = self.held.get(owner)
        if known is not None and uid and known.uid and uid != known.uid:
            if deleted or has_ended(item):
                return  # the end of an earlier pod of this name
            self.release(owner)
            known = None
        if deleted or has_ended(item):
            self.release(owner)
            return
        found = read_bound_pod(item.value, self.unit)
        if found is None:
            return
        if known is not None:
            self.held[owner] = known._replace(bound=True)
            return
        if found.node in self.nodes:
            self._recover(owner, uid, found.node, found.allocations)
        else:
            self._waiting[owner] = uid, found.node, found.allocations

    def _recover(
        self, owner: str, uid: str, node: str, allocations: tuple[DeviceAllocation, ...]
    ) -> None:
        self.cluster.recover(owner, node, allocations)
        self.held[owner] = Holding(uid, node, allocations, {}, True)

    def _apply_config_map(self, item: Field, deleted: bool) -> None:
        name = item["metadata"]["name"].name()
        namespace = item["metadata"]["namespace"].text()
        if not name.startswith(CONFIG_MAP) or namespace not in ("", "kube-system"):
            return
        node = name.removeprefix(CONFIG_MAP)
        self._sick[node] = () if deleted else read_unhealthy(item.value)
        if self.is_known(node):
            inventory = with_unhealthy(self.nodes[node], self._sick[node])
            if inventory != self.nodes[node]:
                self.cluster.set_inventory(node, inventory)
                self.nodes[node] = inventory
        if not self._sick[node]:
            del self._sick[node]

    def _is_used(self, node: str) -> bool:
        return any(holding.node == node for holding in self.held.values())
