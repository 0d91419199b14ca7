"""Passes on to jobs what Kubernetes reports about pods."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hivecore.interop.extender.annotations import read_devices, read_place
from hivecore.interop.extender.claims import KINDS
from hivecore.interop.extender.gang_objects import GANG_KINDS, called_by_api, read_gangs
from hivecore.interop.extender.pod_jobs import PodJobs
from hivecore.interop.extender.requests import Request
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.informer import (
    ClusterInformer,
    KnownPod,
    is_held_back,
    mapping_in,
)
from hivecore.interop.kubernetes.pods import node_of, owner_name
from hivecore.scheduler import Scheduler

__all__ = ["JobInformer", "is_of_others"]

_DEFAULT = "default-scheduler"


class JobInformer(ClusterInformer):
    """Follows a cluster's pods, nodes, definitions of gangs and objects of device claims.

    A node is healthy if it is ready and schedulable. Nodes that are not reported keep the health
    that the scheduler has for them.

    :param settled: called for every pod that is bound or gone.
    """

    kinds = (*ClusterInformer.kinds, *GANG_KINDS, *KINDS)

    def __init__(
        self, scheduler: Scheduler, jobs: PodJobs, settled: Callable[[str], object]
    ) -> None:
        super().__init__()
        self._settled = settled
        self._scheduler = scheduler
        self._jobs = jobs
        self._has_nodes = False  # whether all are known
        self.scheduler_names: frozenset[str] = frozenset({_DEFAULT})
        """The kube-scheduler profiles whose pods are ours."""
        self._crowds: dict[str, str] = {}  # pod of another scheduler -> node
        self._crowded = Counter[str]()
        state = scheduler.summary()  # a drain does not end because a node is ready
        self._healthy = dict.fromkeys({*state.unhealthy}.difference(state.draining), False)
        self._last: tuple[object, Request | None] = None, None  # a pod and what it asks for

    def apply(self, events: Any) -> list[str]:
        """Apply a watch event or a list of objects, as `ClusterInformer.apply`."""
        self._last = None, None
        return super().apply(called_by_api(events))

    def is_ours(self, pod: Mapping[str, Any]) -> bool:
        """Whether the scheduler must know this pod."""
        try:
            is_theirs = is_of_others(pod, self.scheduler_names) and not node_of(Field(pod))
            if is_theirs:
                return False
            self._last = pod, self._jobs.request_of(pod)
            return self._last[1] is not None
        except (TypeError, ValueError):
            return True

    def _see_pod(self, identity: str, pod: Mapping[str, Any], known: KnownPod | None) -> None:
        if is_of_others(pod, self.scheduler_names):
            self._see_other_pod(identity, pod)
            return
        if known is None:
            return
        namesake = self._jobs.by_name(known.name)
        if namesake is not None and 0 < known.version < self._version(namesake.identity):
            self.forget(identity)  # it is gone, and the watch is late
            return
        last, request = self._last
        self._last = None, None
        if last is not pod:
            request = self._jobs.request_of(pod)
        node = node_of(Field(pod))
        if request is None or (not node and is_held_back(pod)):
            self._jobs.lose(identity)
            return
        member = self._jobs.add(identity, known.name, request, is_bound=bool(node))
        if not node:
            if not member.node:
                self._jobs.follow_claims(member, request)
            return
        self._settled(identity)
        job, slot = read_place(pod)
        held = read_devices(pod, request.is_of_hived) if request.has_devices else ()
        record = hash((node, job, slot, held))
        if known.recovered != record:
            known.recovered = record
            self._jobs.bound(member, node, job, slot, held)

    def _version(self, identity: str) -> int:
        return self.pods[identity].version if identity in self.pods else 0

    def _see_other_pod(self, identity: str, pod: Mapping[str, Any]) -> None:
        """Count what another scheduler's pod uses; with cells, its node counts as unhealthy."""
        node = node_of(Field(pod))
        request = self._jobs.request_of(pod) if node else None
        if request is None or not request.has_devices:
            return
        if self._scheduler.cells is None:
            name = owner_name(Field(pod))
            held = read_devices(pod, request.is_of_hived)
            self._jobs.set_other(identity, name, request, node, held)
        elif identity not in self._crowds:
            self._crowds[identity] = node
            self._crowded[node] += 1
            self._set_ready(node, self._ready.get(node, node in self._nodes()))

    def _see_other(self, kind: str, type_: str, item: Mapping[str, Any]) -> None:
        if kind in GANG_KINDS:
            groups = {} if type_ == "DELETED" else read_gangs(kind, item)
            self._jobs.set_groups(kind, owner_name(Field(item)), groups)
        elif kind in KINDS:
            self._jobs.see_object(kind, type_, item)
            node = mapping_in(item, "spec").get("nodeName")
            if self._has_nodes and isinstance(node, str) and node not in self._ready:
                self._set_ready(node, False)  # it has slices but no Node object

    def _node(self, type_: str, node: Mapping[str, Any], name: str, version: int) -> None:
        super()._node(type_, node, name, version)
        self._jobs.see_object("Node", type_, node)

    def _lose_pod(self, identity: str) -> None:
        self._settled(identity)
        self._jobs.lose(identity)
        if node := self._crowds.pop(identity, ""):
            self._crowded[node] -= 1
            self._set_ready(node, self._ready.get(node, True))

    def _set_health(self, node: str, ready: bool) -> None:
        ready = ready and not self._crowded[node]
        if self._healthy.get(node, True) != ready:
            self._healthy[node] = ready
            if not (ready and node in self._scheduler.summary().draining):
                self._jobs.set_node(node, ready)

    def cluster_changed(self) -> None:
        """Tell the health of nodes that are new in the scheduler, which are healthy there."""
        for node in sorted({*self._nodes()}.difference(self._scheduler.summary().unhealthy)):
            is_there = not self._has_nodes or node in self._ready
            if not self._healthy.setdefault(node, is_there):
                self._jobs.set_node(node, False)

    def _nodes(self) -> Iterable[str]:
        scheduler = self._scheduler
        parts = scheduler.cells, scheduler.topology, scheduler.devices, scheduler.claims
        return [node for part in parts if part is not None for node in part.nodes]

    def _listed(self, kind: str, names: set[str]) -> None:
        if kind == "Pod":
            self._jobs.listed()
        elif kind in GANG_KINDS:
            self._jobs.keep_groups(kind, names)
        else:
            self._has_nodes |= kind == "Node"
            self._jobs.keep_objects(kind, names)


def is_of_others(pod: Mapping[str, Any], names: frozenset[str]) -> bool:
    """Whether another scheduler manages a pod.

    :param names: the names of our own schedulers.
    """
    return (Field(pod)["spec"]["schedulerName"].text() or _DEFAULT) not in names
