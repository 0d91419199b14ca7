"""What Kubernetes reports of pods and nodes, applied to a `HivedScheduler`.

Clients pass on what a watch says, see `ClusterInformer`: bound pods are recovered from their
annotations, in any order.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hivecore.interop.hived.scheduler import HivedScheduler
from hivecore.interop.hived.serving.annotations import BIND_INFO, SPEC, read_bind_info, read_spec
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.informer import (
    ClusterInformer,
    KnownPod,
    is_held_back,
    mapping_in,
    version_of,
)
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import PodId, RequestError, requested

__all__ = ["Informer"]


class Informer(ClusterInformer):
    """What is known of a Kubernetes cluster, and tells a scheduler of it.

    :param foreign: the name of a resource, such as ``nvidia.com/gpu``: a node where pods without
        HiveD's annotation hold some of it is no good, nor is a node with a pod that has the
        annotation and unknown cells. ``None``: such pods are not looked at.
    :param settled: are called for every pod that does not wait any more: it is bound, or gone.

    A node is good if it is ready and schedulable. Not for several threads at once.
    """

    def __init__(
        self,
        scheduler: HivedScheduler,
        foreign: str | None = None,
        settled: Iterable[Callable[[str], object]] = (),
    ) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._settled = tuple(settled)
        self._foreign = foreign
        self.unasked: dict[str, tuple[PodId, str]] = {}
        """The pods that are not bound and were never asked about, with their annotation."""
        self._strangers: dict[str, tuple[str, int]] = {}
        self._crowds: dict[str, int] = {}

    def is_ours(self, pod: Mapping[str, Any]) -> bool:
        """Whether the scheduler has to know of this pod."""
        return isinstance(_annotations(pod).get(SPEC), str)

    def _see_pod(self, identity: str, pod: Mapping[str, Any], known: KnownPod | None) -> None:
        node = mapping_in(pod, "spec").get("nodeName")
        spec, info = (_annotations(pod).get(name) for name in (SPEC, BIND_INFO))
        if not isinstance(node, str) or not node:
            if is_held_back(pod):
                self._settle(identity)
            elif known is not None and isinstance(spec, str) and not known.is_asked:
                self.unasked[identity] = PodId.read(pod), spec
            return
        self._settle(identity)
        if known is None or not isinstance(spec, str) or not isinstance(info, str):
            seat = self.seat_of(identity)
            if known is not None and seat != node:
                self._scheduler.delete(identity)  # another scheduler has bound it
                self.gains += bool(seat)
            self._visit(identity, node, pod, is_ours=known is not None)
        elif known.recovered != hash(info):
            try:
                self._recover(pod, node, known, spec, info)
            except (TypeError, ValueError):
                if known.recovered is None:
                    self._visit(identity, node, pod, is_ours=True)
                raise
            known.recovered = hash(info)
            self._leave(identity)

    def _recover(
        self, pod: Mapping[str, Any], node: str, known: KnownPod, spec: str, info: str
    ) -> None:
        """Take up a bound pod. Where it is bound counts, not where it was to be bound."""
        request, record = read_spec(spec), read_bind_info(info)
        if record.get("node", node) != node:
            raise RequestError(
                f"bind_info: node={show(record.get('node'))}, but the pod is bound to {show(node)}"
            )
        try:
            self._scheduler.recover(pod, request, record)
        except RequestError:
            if known.recovered is not None:
                raise
            self._scheduler.delete(pod)
            self.gains += 1
            self._scheduler.recover(pod, request, record)

    def seat_of(self, identity: str) -> str:
        """Return the node that a pod is bound to or has a place on; "": none."""
        try:
            return str(self._scheduler.bind_info(identity)["node"])
        except RequestError:
            return ""

    def _lose_pod(self, identity: str) -> None:
        self._leave(identity)
        self._settle(identity)
        self._scheduler.delete(identity)

    def note_question(self, pod: PodId, given: Mapping[str, Any]) -> None:
        """Kube-scheduler has asked about a pod, as it is given."""
        self.note(pod.identity, pod.full, given)
        self.pods[pod.identity].is_asked = True
        self.unasked.pop(pod.identity, None)

    def _settle(self, identity: str) -> None:
        self.unasked.pop(identity, None)
        for tell in self._settled:
            tell(identity)

    def _other_pods(self) -> Mapping[str, int]:
        strangers = {pod: version for pod, (_, version) in self._strangers.items()}
        return strangers | dict.fromkeys(self._scheduler.pods(), 0)

    def _set_health(self, node: str, ready: bool) -> None:
        self._scheduler.set_node(node, ready and node not in self._crowds)

    def _nodes(self) -> Iterable[str]:
        return self._scheduler.leaf_cells_by_node()

    # --- bound pods with unknown cells: without HiveD's annotation, or with an unreadable one

    def _visit(self, identity: str, node: str, pod: Mapping[str, Any], is_ours: bool) -> None:
        if self._foreign is None or identity in self._strangers:
            return
        if is_ours or requested(Field(pod), [self._foreign]):
            version = mapping_in(pod, "metadata").get("resourceVersion")
            self._strangers[identity] = node, version_of(version)
            self._crowds[node] = self._crowds.get(node, 0) + 1
            self._scheduler.set_node(node, False)

    def _leave(self, identity: str) -> None:
        node, _ = self._strangers.pop(identity, ("", 0))
        if not node:
            return
        self._crowds[node] -= 1
        if not self._crowds[node]:
            del self._crowds[node]
            self.gains += 1
            self._set_health(node, self._ready.get(node, self._scheduler.initially_healthy))


def _annotations(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping_in(mapping_in(pod, "metadata"), "annotations")
