"""What Kubernetes reports of pods and nodes, for a scheduler that has to know.

Clients pass on what a watch says, event by event or in lists. A list of all pods or nodes
replaces what was known before: what it does not name any more is gone. Events may come late, twice
and out of order: an object never goes back to an older version, and a pod that was deleted never
comes back (its uid is not used again).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import PodId, identify, owner_name
from hivecore.interop.kubernetes.recent import Recent

__all__ = ["ClusterInformer", "KnownPod", "is_held_back", "mapping_in", "version_of"]

_TYPES = ("ADDED", "MODIFIED", "DELETED")


@dataclass(slots=True)
class KnownPod:
    """A pod of the scheduler's that exists and has not ended."""

    name: str
    """"namespace/name"."""
    version: int
    """Of the object; 0: unknown."""
    recovered: int | None = None
    """The hash of the record that the scheduler has taken up."""
    is_asked: bool = False
    """Whether kube-scheduler has asked about it."""
    is_leaving: bool = False
    """Whether it is being deleted, at the end of its grace period."""

    def pod_id(self, identity: str) -> PodId:
        """Its names."""
        namespace, _, name = self.name.partition("/")
        return PodId(name, namespace, "" if identity == self.name else identity)


@dataclass(slots=True)
class _Listing:
    """A list of objects that comes in pages."""

    version: str
    names: set[str]


class ClusterInformer(ABC):
    """What is known of a Kubernetes cluster; a subclass says what that means for its scheduler.

    Not for several threads at once.
    """

    kinds: tuple[str, ...] = ("Pod", "Node")
    """Those of which a list says that there are no others."""

    def __init__(self) -> None:
        self.pods: dict[str, KnownPod] = {}
        """The scheduler's pods by identity: those that were reported, or tried."""
        self.listed = False
        """Whether a list of all pods has been seen: then what is not known does not exist."""
        self.gains = 0
        """How often something may have become free."""
        self._gone = Recent[str, None]()
        self._ready: dict[str, bool] = {}
        self._versions: dict[str, int] = {}
        self._listings: dict[str, _Listing] = {}

    @property
    def is_partly_listed(self) -> bool:
        """Whether there are more pages to come of the first list of pods."""
        return not self.listed and "Pod" in self._listings

    # --- what a subclass does

    @abstractmethod
    def is_ours(self, pod: Mapping[str, Any]) -> bool:
        """Whether the scheduler has to know of this pod."""

    @abstractmethod
    def _see_pod(self, identity: str, pod: Mapping[str, Any], known: KnownPod | None) -> None:
        """A pod was reported that has not ended; `known` is None if it is not ours."""

    @abstractmethod
    def _lose_pod(self, identity: str) -> None:
        """A pod is gone, or has ended, of this scheduler or of another."""

    def _other_pods(self) -> Mapping[str, int]:
        """More pods that a list may leave out, with the versions of their objects."""
        return {}

    @abstractmethod
    def _set_health(self, node: str, ready: bool) -> None:
        """Whether a node is ready and schedulable."""

    @abstractmethod
    def _nodes(self) -> Iterable[str]:
        """The nodes that the scheduler knows."""

    def _see_other(self, kind: str, type_: str, item: Mapping[str, Any]) -> None:  # noqa: B027
        """An object that is no pod and no node was reported; most schedulers do not look."""

    def _listed(self, kind: str, names: set[str]) -> None:  # noqa: B027
        """All objects of a kind are known: pods, or nodes and those of other kinds, by names."""

    # --- pods by themselves

    def name_of(self, identity: str) -> str:
        """The pod's "namespace/name" beside its uid, as far as it is known."""
        known = self.pods.get(identity)
        return identity if known is None or known.name == identity else f"{known.name} ({identity})"

    def is_missing(self, identity: str) -> bool:
        """Whether there is no such pod, as far as lists and events say."""
        return identity in self._gone or (self.listed and identity not in self.pods)

    def is_bound(self, identity: str) -> bool:
        """Whether the pod was reported as bound."""
        known = self.pods.get(identity)
        return known is not None and known.recovered is not None

    def note(self, identity: str, name: str, pod: Mapping[str, Any]) -> None:
        """Remember a pod that was tried, or seen at its end; a list may be older than the pod."""
        if identity not in self.pods:
            version = mapping_in(pod, "metadata").get("resourceVersion")
            self.pods[identity] = KnownPod(name, version_of(version))

    def forget(self, identity: str) -> None:
        """The pod is gone, or has ended; what it had is free."""
        known = self.pods.pop(identity, None)
        if known is not None and known.name != identity:
            self._gone[identity] = None
        self._lose_pod(identity)
        self.gains += known is not None

    # --- what is reported

    def apply(self, events: Any) -> list[str]:
        """Apply a watch event, or a list of objects; returns what could not be applied.

        A pod that is deleted or has ended is forgotten. A PodList or a NodeList, the last one of
        its pages, says that there are no others. Every object must say its ``kind``, or its list
        for all; other kinds have no effect, but for what a subclass makes of them.
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
        errors = [self._event("ADDED", item, kind) for item in items]
        if kind in self.kinds:
            meta = mapping_in(page, "metadata")
            version = str(meta.get("resourceVersion") or "")
            listing = self._listings.get(kind)
            if listing is None or listing.version != version:
                listing = self._listings[kind] = _Listing(version, set())
            listing.names.update(self._key_of(item, kind) for item in items)
            if not meta.get("continue"):
                del self._listings[kind]
                self._replace(kind, listing.names, version_of(version))
        return [f"items[{i}]: {mistake}" for i, mistake in enumerate(errors) if mistake]

    def _key_of(self, item: Any, kind: str) -> str:
        """A pod's identity, a node's name, or "namespace/name" of another; "": it has none."""
        if kind == "Node":
            return str(mapping_in(item, "metadata").get("name"))
        try:
            return identify(item)[0] if kind == "Pod" else owner_name(Field(item))
        except (TypeError, ValueError):
            return ""

    def _replace(self, kind: str, names: set[str], version: int) -> None:
        """Forget what a list does not name, unless it is newer than the list."""
        if kind == "Node":
            for node in {*self._nodes(), *self._ready} - names:
                if not version or self._versions.get(node, 0) <= version:
                    self._set_ready(node, False)
            self._listed(kind, names)
            return
        if kind == "Pod":
            versions = {**self._other_pods()}
            versions |= {pod: known.version for pod, known in self.pods.items()}
            for pod, own in versions.items():
                if pod not in names and (not version or own <= version):
                    self.forget(pod)
            self.listed = True
        self._listed(kind, names)

    def _event(self, type_: str, item: Any, kind: str) -> str:
        """Apply one event; the mistake, if there is one."""
        meta = mapping_in(item, "metadata")
        kind = item.get("kind") or kind if isinstance(item, Mapping) else ""
        name = meta.get("name")
        if not isinstance(name, str) or not name:
            return "a pod or a node with metadata.name is needed"
        if not isinstance(kind, str) or not kind:
            return f"object {show(name)}: kind={show(kind or None)}: 'Pod' or 'Node' is needed"
        try:
            if kind == "Node":
                self._node(type_, item, name, version_of(meta.get("resourceVersion")))
            elif kind == "Pod":
                self._pod(type_, item, meta)
            else:
                self._see_other(kind, type_, item)
        except (TypeError, ValueError) as error:
            return f"{kind.lower()} {show(name)}: {error}"
        return ""

    # --- nodes

    def see_node(self, node: Any) -> None:
        """Take a node's health from an object that kube-scheduler has of it."""
        if mapping_in(node, "status"):
            self._event("MODIFIED", node, "Node")

    def _node(self, type_: str, node: Mapping[str, Any], name: str, version: int) -> None:
        if version and version < self._versions.get(name, 0):
            return
        self._versions[name] = version or self._versions.get(name, 0)
        self._set_ready(name, type_ != "DELETED" and _is_ready(node))

    def _set_ready(self, node: str, ready: bool) -> None:
        self.gains += ready and not self._ready.get(node, False)
        self._ready[node] = ready
        self._set_health(node, ready)

    # --- pods

    def _pod(self, type_: str, pod: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
        identity, name = identify(pod)
        if identity in self._gone:
            return
        known = self.pods.get(identity)
        if type_ == "DELETED" or mapping_in(pod, "status").get("phase") in ("Succeeded", "Failed"):
            if self.is_ours(pod):
                self.note(identity, name, pod)
            self.forget(identity)
            return
        version = version_of(meta.get("resourceVersion"))
        if known is not None:
            if version and version < known.version:
                return
            known.version = version or known.version
        elif self.is_ours(pod):
            known = self.pods[identity] = KnownPod(name, version)
        if known is not None:
            known.is_leaving = bool(meta.get("deletionTimestamp"))
        self._see_pod(identity, pod, known)


def _is_ready(node: Any) -> bool:
    if mapping_in(node, "spec").get("unschedulable") is True:
        return False
    conditions = mapping_in(node, "status").get("conditions")
    return any(
        isinstance(condition, Mapping)
        and condition.get("type") == "Ready"
        and condition.get("status") == "True"
        for condition in (conditions if isinstance(conditions, (list, tuple)) else ())
    )


def is_held_back(pod: Mapping[str, Any]) -> bool:
    """Whether kube-scheduler does not try a pod: it has scheduling gates, or is being deleted.

    >>> is_held_back({"spec": {"schedulingGates": [{"name": "quota"}]}})
    True
    """
    has_gates = mapping_in(pod, "spec").get("schedulingGates")
    return bool(has_gates or mapping_in(pod, "metadata").get("deletionTimestamp"))


def version_of(version: Any) -> int:
    """A resource version, of which later ones are larger; 0: there is none. It has 64 bits.

    >>> version_of("17"), version_of(None), version_of("9" * 5000)
    (17, 0, 0)
    """
    is_number = isinstance(version, str) and version.isdecimal() and len(version) <= 20
    return int(version) if is_number else 0


def mapping_in(value: Any, key: str) -> Mapping[str, Any]:
    """The mapping under this key of a mapping; empty where there is none.

    >>> mapping_in({"metadata": {"name": "p"}}, "metadata"), mapping_in(None, "metadata")
    ({'name': 'p'}, {})
    """
    inner = value.get(key) if type(value) is dict or isinstance(value, Mapping) else None
    return inner if type(inner) is dict or isinstance(inner, Mapping) else {}
