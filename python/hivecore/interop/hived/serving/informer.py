"""What Kubernetes reports of pods and nodes, applied to a scheduler.

HiveD watches Kubernetes itself. Here somebody passes on what a watch says, event by event or in
lists: bound pods are recovered from their annotations, in any order, and a list of all pods or
nodes replaces what was known before. What it does not name any more is gone.

Events may come late, twice and out of order: an object never goes back to an older version, and a
pod that was deleted never comes back (its uid is not used again).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hivecore.interop.hived.pods import RequestError, identify
from hivecore.interop.hived.scheduler import HivedScheduler
from hivecore.interop.hived.serving.annotations import BIND_INFO, SPEC, read_bind_info, read_spec
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import requested

__all__ = ["Informer", "KnownPod"]

_TYPES = ("ADDED", "MODIFIED", "DELETED")
_MOST_GONE = 100_000


@dataclass(slots=True)
class KnownPod:
    """A pod of HiveD's that exists and has not ended."""

    name: str
    """"namespace/name"."""
    version: int
    """Of the object; 0: unknown."""
    recovered: int | None = None
    """The hash of the bind info that the scheduler has taken up."""


@dataclass(slots=True)
class _Listing:
    """A list of objects that comes in pages."""

    version: str
    names: set[str]


class Informer:
    """What is known of a Kubernetes cluster, and tells a scheduler of it.

    :param foreign: the name of a resource, such as ``nvidia.com/gpu``: a node where pods without
        HiveD's annotation hold some of it is no good. ``None``: such pods are not looked at.

    :param settled: is told of every pod that does not wait any more: it is bound, or gone.

    A node is good if it is ready and schedulable. Not for several threads at once.

    >>> from hivecore.interop.hived import HivedScheduler
    >>> scheduler = HivedScheduler({
    ...     "physicalCluster": {
    ...         "cellTypes": {"V100-NODE": {"childCellType": "V100", "childCellNumber": 4,
    ...                                     "isNodeLevel": True}},
    ...         "physicalCells": [{"cellType": "V100-NODE", "cellAddress": "node-0"}],
    ...     },
    ... })
    >>> node = {"kind": "Node", "metadata": {"name": "node-0"}, "spec": {"unschedulable": True}}
    >>> view = Informer(scheduler)
    >>> view.apply({"type": "MODIFIED", "object": node})
    []
    >>> scheduler.status()["physicalCluster"][0]["cellHealthiness"]
    'Bad'
    """

    def __init__(
        self,
        scheduler: HivedScheduler,
        foreign: str | None = None,
        settled: Callable[[str], object] | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._settled = settled
        self._foreign = foreign
        self.pods: dict[str, KnownPod] = {}
        """HiveD's pods by identity: those that were reported, or asked for."""
        self.listed = False
        """Whether a list of all pods has been seen: then what is not known does not exist."""
        self.gains = 0
        """How often something may have become free."""
        self._gone: dict[str, None] = {}
        self._ready: dict[str, bool] = {}
        self._versions: dict[str, int] = {}
        self._strangers: dict[str, tuple[str, int]] = {}
        self._crowds: dict[str, int] = {}
        self._listings: dict[str, _Listing] = {}

    # --- pods by themselves

    def name_of(self, identity: str) -> str:
        """The pod's "namespace/name" beside its uid, as far as it is known."""
        known = self.pods.get(identity)
        return identity if known is None or known.name == identity else f"{known.name} ({identity})"

    def is_missing(self, identity: str) -> bool:
        """Whether there is no such pod, as far as lists and events say."""
        return identity in self._gone or (self.listed and identity not in self.pods)

    def note(self, identity: str, name: str) -> None:
        """Remember a pod that was asked for."""
        if identity not in self.pods:
            self.pods[identity] = KnownPod(name, 0)

    def forget(self, identity: str) -> None:
        """The pod is gone, or has ended; what it had is free."""
        known = self.pods.pop(identity, None)
        if known is not None and known.name != identity:
            self._gone[identity] = None
            if len(self._gone) > _MOST_GONE:
                del self._gone[next(iter(self._gone))]
        self._leave(identity)
        if self._settled is not None:
            self._settled(identity)
        self._scheduler.delete(identity)
        self.gains += known is not None

    # --- what is reported

    def apply(self, events: Any) -> list[str]:
        """Apply a watch event, or a list of objects; returns what could not be applied.

        A pod that is deleted or has ended is forgotten; one that is bound and has HiveD's
        annotations is recovered if it is not known yet. A PodList or a NodeList, the last one of
        its pages, says that there are no others. Every object must say its ``kind``, or its list
        for all; other kinds have no effect.
        """
        if not isinstance(events, Mapping):
            return [f"an event or a list of nodes or pods must be an object, not {show(events)}"]
        kind = events.get("kind")
        if isinstance(kind, str) and kind.endswith("List"):
            return self._list(kind.removesuffix("List"), events)
        type_ = events.get("type")
        if type_ in ("BOOKMARK", "ERROR"):
            return []
        if type_ not in _TYPES:
            return [f"type={show(type_)}: allowed are {', '.join(_TYPES)}"]
        mistake = self._event(type_, events.get("object"), "")
        return [mistake] if mistake else []

    def _list(self, kind: str, page: Mapping[str, Any]) -> list[str]:
        items = page.get("items")
        if not isinstance(items, (list, tuple)):
            return [f"items must be a list, not {show(items)}"]
        found = [self._event("ADDED", item, kind) for item in items]
        if kind in ("Pod", "Node"):
            meta = _mapping(page, "metadata")
            version = str(meta.get("resourceVersion") or "")
            listing = self._listings.get(kind)
            if listing is None or listing.version != version:
                listing = self._listings[kind] = _Listing(version, set())
            listing.names.update(_key_of(item, kind) for item in items)
            if not meta.get("continue"):
                del self._listings[kind]
                self._replace(kind, listing.names, _number(version))
        return [f"items[{i}]: {mistake}" for i, mistake in enumerate(found) if mistake]

    def _replace(self, kind: str, names: set[str], version: int) -> None:
        """Forget what a list does not name, unless it is newer than the list."""
        if kind == "Node":
            for node in {*self._scheduler.leaf_cells_by_node(), *self._ready} - names:
                if not version or self._versions.get(node, 0) <= version:
                    self._set_ready(node, False)
            return
        versions = {pod: version for pod, (_, version) in self._strangers.items()}
        versions |= dict.fromkeys(self._scheduler.pods(), 0)
        versions |= {pod: known.version for pod, known in self.pods.items()}
        for pod, own in versions.items():
            if pod not in names and (not version or own <= version):
                self.forget(pod)
        self.listed = True

    def _event(self, type_: str, item: Any, kind: str) -> str:
        """Apply one event; the mistake, if there is one."""
        meta = _mapping(item, "metadata")
        kind = item.get("kind") or kind if isinstance(item, Mapping) else ""
        name = meta.get("name")
        if not isinstance(name, str) or not name:
            return "a pod or a node with metadata.name is needed"
        if not isinstance(kind, str) or not kind:
            return f"object {show(name)}: kind={show(kind or None)}: 'Pod' or 'Node' is needed"
        if kind == "Node":
            self._node(type_, item, name, _number(meta.get("resourceVersion")))
        elif kind == "Pod":
            try:
                self._pod(type_, item, meta)
            except (RequestError, TypeError, ValueError) as error:
                return f"pod {show(name)}: {error}"
        return ""

    # --- nodes

    def see_node(self, node: Any) -> None:
        """Take a node's health from an object that somebody else has of it."""
        if _mapping(node, "status"):
            self._event("MODIFIED", node, "Node")

    def _node(self, type_: str, node: Mapping[str, Any], name: str, version: int) -> None:
        if version and version < self._versions.get(name, 0):
            return
        self._versions[name] = version or self._versions.get(name, 0)
        self._set_ready(name, type_ != "DELETED" and _is_ready(node))

    def _set_ready(self, node: str, ready: bool) -> None:
        self.gains += ready and not self._ready.get(node, False)
        self._ready[node] = ready
        self._scheduler.set_node(node, ready and node not in self._crowds)

    # --- pods

    def _pod(self, type_: str, pod: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
        identity, name = identify(pod)
        if identity in self._gone:
            return
        annotations = _mapping(meta, "annotations")
        spec, info = annotations.get(SPEC), annotations.get(BIND_INFO)
        known = self.pods.get(identity)
        if type_ == "DELETED" or _mapping(pod, "status").get("phase") in ("Succeeded", "Failed"):
            if isinstance(spec, str):
                self.note(identity, name)
            self.forget(identity)
            return
        version = _number(meta.get("resourceVersion"))
        if known is not None:
            if version and version < known.version:
                return
            known.version = version or known.version
        elif isinstance(spec, str):
            known = self.pods[identity] = KnownPod(name, version)
        node = _mapping(pod, "spec").get("nodeName")
        if not isinstance(node, str) or not node:
            return
        if self._settled is not None:
            self._settled(identity)
        if known is None or not isinstance(spec, str) or not isinstance(info, str):
            self._visit(identity, node, pod, version)
        elif known.recovered != hash(info):
            self._scheduler.recover(pod, read_spec(spec), read_bind_info(info))
            known.recovered = hash(info)

    # --- pods of others

    def _visit(self, identity: str, node: str, pod: Mapping[str, Any], version: int) -> None:
        if self._foreign is None or identity in self._strangers:
            return
        if requested(Field(pod), [self._foreign]):
            self._strangers[identity] = node, version
            self._crowds[node] = self._crowds.get(node, 0) + 1
            self._set_ready(node, self._ready.get(node, False))

    def _leave(self, identity: str) -> None:
        node, _ = self._strangers.pop(identity, ("", 0))
        if not node:
            return
        self._crowds[node] -= 1
        if not self._crowds[node]:
            del self._crowds[node]
            self.gains += 1
            self._set_ready(node, self._ready.get(node, False))


def _is_ready(node: Any) -> bool:
    if _mapping(node, "spec").get("unschedulable") is True:
        return False
    conditions = _mapping(node, "status").get("conditions")
    return any(
        isinstance(one, Mapping) and one.get("type") == "Ready" and one.get("status") == "True"
        for one in (conditions if isinstance(conditions, (list, tuple)) else ())
    )


def _key_of(item: Any, kind: str) -> str:
    """A pod's identity, or a node's name; "": it has none."""
    if kind == "Node":
        return str(_mapping(item, "metadata").get("name"))
    try:
        return identify(item)[0]
    except RequestError:
        return ""


def _number(version: Any) -> int:
    """A resource version, of which later ones are larger; 0: there is none."""
    return int(version) if isinstance(version, str) and version.isdecimal() else 0


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}
