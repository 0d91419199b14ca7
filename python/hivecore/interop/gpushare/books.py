"""The extender's view of nodes and pods, kept in step with the cluster that decides.

A node that is deleted while pods have its cards stays, unhealthy, until the last of these pods is
gone: it may come back, and no card may be given twice. A pod whose node is unknown waits for it.
Pods are known by name; the same name with another uid is another pod. Events may come late, twice
and out of order: a pod never goes back to an older version, and one that has ended never comes
back.
"""

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from hivecore.devices import DeviceCluster
from hivecore.interop.gpushare.names import Unit
from hivecore.interop.gpushare.nodes import CONFIG_MAP, read_node, read_unhealthy, with_unhealthy
from hivecore.interop.gpushare.pods import read_bound_pod
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.informer import mapping_in, version_of
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import (
    BoundPod,
    RequestError,
    has_ended,
    node_of,
    owner_name,
)
from hivecore.interop.kubernetes.recent import Recent

__all__ = ["Books", "Holding"]


class Holding(NamedTuple):
    """A pod that has a card, or waits for the node with it."""

    uid: str
    node: str
    annotations: dict[str, str]
    """As written; empty for pods from before a restart."""
    bound: bool
    """Whether Kubernetes has reported it as bound."""
    missed: bool = False
    """Whether it was missing in a list of all pods."""
    version: int = 0
    """The latest of the pod's versions that was seen; 0: unknown."""

    def is_of_another(self, uid: str) -> bool:
        """Whether it is known to be of a pod with another uid."""
        return "" != self.uid != uid != ""


class Books:
    """The nodes and pods of a cluster.

    :param cluster: makes the decisions; nothing else may change it.
    :param unit: of ``aliyun.com/gpu-mem``.
    """

    def __init__(self, cluster: DeviceCluster, unit: Unit) -> None:
        self.cluster = cluster
        self.unit = unit
        self.nodes = set(cluster.nodes)
        """Nodes for new pods."""
        self.held = {
            owner: Holding("", node, {}, True)
            for node in cluster.nodes
            for owner in cluster.owners(node)
        }
        self._gone: set[str] = set()
        """Deleted nodes whose cards are still in use."""
        self._sick: dict[str, tuple[int, ...]] = {}
        self._waiting: dict[str, BoundPod] = {}
        """Owner -> cards, on a node that is not known yet."""
        self._ended = Recent[str, None]()
        """The uids of pods that have ended, the latest last."""
        self._pages: dict[str, tuple[str, set[str]]] = {}
        """Kind -> the version of a list that comes in pages, and the names in it so far."""
        self.listed: set[str] = set()
        """Kinds that have been listed completely."""
        self.gains = 0
        """How often resources may have become free."""

    def known_pod(self, name: str, uid: str, version: int) -> Holding | None:
        """Return what the pod has; an earlier pod of that name is released.

        :param version: of the pod when it was filtered; 0: unknown.
        :raises RequestError: the pod has ended, or a later one of its name is known.
        """
        known = self.held.get(name)
        other = known if known is not None and known.is_of_another(uid) else None
        if uid in self._ended or (other is not None and 0 < version < other.version):
            raise RequestError(f"pod {show(name)} with the uid {show(uid)} is gone")
        if other is not None:
            self.release(name)
            return None
        return known

    def release(self, name: str) -> None:
        """Release a pod that has ended; an unknown name has no effect."""
        holding = self.held.pop(name, None)
        if holding is None or self._waiting.pop(name, None) is not None:
            return
        self.gains += 1
        self.cluster.release(name)
        if holding.node in self._gone and not self.cluster.owners(holding.node):
            self._gone.discard(holding.node)
            self.cluster.remove_node(holding.node)

    def apply(self, type_: str, kind: str, item: Field) -> None:
        """Apply a watch event; a wrong value is a ValueError or TypeError.

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

    def list(self, kind: str, page: Mapping[str, Any]) -> None:
        """Apply a page of a list; after the last page, other objects are gone."""
        meta = mapping_in(page, "metadata")
        version = str(meta.get("resourceVersion") or "")
        before, names = self._pages.pop(kind, (version, set()))
        if before != version:
            names = set()  # the list before this one broke off
        names.update(_name_of(item) for item in page["items"])
        if meta.get("continue"):
            self._pages[kind] = version, names
            return
        self.listed.add(kind)
        if kind == "Node":
            for node in self.nodes - {name.rpartition("/")[2] for name in names}:
                self._remove(node)
        elif kind == "Pod":
            self._keep_pods(names, version_of(version))
        elif kind == "ConfigMap":
            for node in [
                node for node in self._sick if f"kube-system/{CONFIG_MAP}{node}" not in names
            ]:
                self._set_sick(node, ())

    def _keep_pods(self, names: Set[str], version: int) -> None:
        for owner, holding in list(self.held.items()):
            if owner in names or 0 < version < holding.version:
                continue
            # A pod that was just bound may be newer than this list, but not than the next one.
            if holding.bound or holding.missed:
                self.release(owner)
            else:
                self.held[owner] = holding._replace(missed=True)

    def _apply_node(self, item: Field, deleted: bool) -> None:
        name = item["metadata"]["name"].name()
        if deleted:
            self._remove(name)
            return
        inventory = read_node(item.value, self.unit, unhealthy=self._sick.get(name, ()))
        self.gains += name not in self.nodes or self.cluster.inventory(name) != inventory
        if name not in self.nodes and name not in self._gone:
            self.cluster.add_node(name, inventory)
        elif self.cluster.inventory(name) != inventory:
            self.cluster.set_inventory(name, inventory)
        self._gone.discard(name)
        self.nodes.add(name)
        for pod in list(self._waiting.values()):
            if pod.node == name:
                del self._waiting[pod.name]
                self.cluster.recover(*pod)

    def _remove(self, name: str) -> None:
        if name not in self.nodes:
            return
        self.nodes.discard(name)
        if self.cluster.owners(name):
            self.cluster.set_health(name, False)
            self._gone.add(name)
        else:
            self.cluster.remove_node(name)

    def _apply_pod(self, item: Field, deleted: bool) -> None:
        owner, metadata = owner_name(item), item["metadata"]
        uid, version = metadata["uid"].text(), version_of(metadata["resourceVersion"].value)
        over = deleted or has_ended(item)
        if over:
            self._note_end(uid)
        elif uid in self._ended:
            return
        known = self.held.get(owner)
        if known is not None:
            is_older = 0 < version < known.version
            if known.is_of_another(uid):
                if is_older or (over and not 0 < known.version < version):
                    return  # of an earlier pod of this name
                self.release(owner)
                known = None
            elif is_older and not over:
                return
        if over:
            self.release(owner)
            return
        bound = read_bound_pod(item.value, self.unit)
        if bound is None:
            if node_of(item) and known is not None and not known.bound:
                self.release(owner)  # another scheduler has bound it
            return
        if known is not None and not self._has(known, bound):
            self.release(owner)  # an earlier attempt to bind it has worked, despite its error
            known = None
        if known is not None:
            self.held[owner] = known._replace(
                uid=known.uid or uid, bound=True, missed=False, version=version or known.version
            )
            return
        if bound.node in self.nodes or bound.node in self._gone:
            self.cluster.recover(*bound)
        else:
            self._waiting[owner] = bound
        self.held[owner] = Holding(uid, bound.node, {}, True, version=version)

    def _note_end(self, uid: str) -> None:
        if uid:
            self._ended[uid] = None

    def _has(self, known: Holding, bound: BoundPod) -> bool:
        """Whether the pod has the card with which it is bound, and as much of it."""
        if bound.name in self._waiting:
            return self._waiting[bound.name] == bound
        cards = self.cluster.allocations(bound.name)
        return (known.node, cards) == (bound.node, bound.allocations)

    def _apply_config_map(self, item: Field, deleted: bool) -> None:
        name = item["metadata"]["name"].name()
        namespace = item["metadata"]["namespace"].text()
        if not name.startswith(CONFIG_MAP) or namespace not in ("", "kube-system"):
            return
        self._set_sick(name.removeprefix(CONFIG_MAP), () if deleted else read_unhealthy(item.value))

    def _set_sick(self, node: str, sick: tuple[int, ...]) -> None:
        self._sick.pop(node, None)
        if sick:
            self._sick[node] = sick
        if node in self.nodes:
            self.gains += 1
            inventory = with_unhealthy(self.cluster.inventory(node), sick)
            if inventory != self.cluster.inventory(node):
                self.cluster.set_inventory(node, inventory)


def _name_of(item: Any) -> str:
    meta = mapping_in(item, "metadata")
    return f"{meta.get('namespace') or 'default'}/{meta.get('name')}"
