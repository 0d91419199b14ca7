"""gpushare's HTTP interface without HTTP: paths and JSON bodies in, statuses and bodies out.

kube-scheduler calls *filter* to ask which nodes have a card with enough free memory; this allocates
nothing. Then *bind* sends the pod to one of them: the fitting card with the least free memory is
allocated at once, and the answer has the Binding object with gpushare's annotations, which a binder
sends to Kubernetes. If that fails, the card is released.

*bind* only names the pod, so its request is remembered from *filter*. kube-scheduler ignores the
body unless the status is 200, so errors have status 200 and a message in ``Error``.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hivecore._arguments import as_instance, as_mapping
from hivecore.devices import DeviceCluster, DeviceRequest, Feasibility
from hivecore.interop.gpushare.books import Books, Holding
from hivecore.interop.gpushare.inspect import draw_node
from hivecore.interop.gpushare.names import Unit, bytes_of
from hivecore.interop.gpushare.pods import read_pod, write_assignment
from hivecore.interop.kubernetes.calls import (
    BadCall,
    BindCall,
    BindReply,
    FilterCall,
    FilterReply,
)
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.informer import version_of
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import PodId, binding_of, owner_name
from hivecore.interop.kubernetes.recent import Recent
from hivecore.interop.kubernetes.serving.extenders import HttpExtender
from hivecore.interop.kubernetes.serving.replies import Reply
from hivecore.interop.kubernetes.serving.routes import COMMON, Call, Route, Routes, watch

__all__ = ["Extender"]

_ROOT = "/gpushare-scheduler"
_TYPES = ("ADDED", "MODIFIED", "DELETED")


class _Filtered(NamedTuple):
    """A pod that was filtered: *bind* only names it."""

    uid: str
    version: int
    """Of the object; 0: unknown."""
    request: DeviceRequest


class Extender(HttpExtender):
    """Answers kube-scheduler for a `hivecore.devices.DeviceCluster` as gpushare's extender does.

    :param cluster: may be empty at first; nothing else may change it.
    :param unit: of ``aliyun.com/gpu-mem``, "MiB" or "GiB".
    :param binder: sends a Binding object to Kubernetes, which copies its annotations to the pod;
        what it raises becomes the answer's error. With ``None``, the answer to *bind* has the
        object under ``Binding``.
    :param clock: the time in nanoseconds since 1970.

    Paths: ``/gpushare-scheduler/filter``, ``/bind``, ``/inspect`` and ``/inspect/NODE`` below the
    same prefix; ``/watch`` for a watch event or a list of Node, Pod or ConfigMap objects;
    ``/healthz``.

    >>> from hivecore.devices import DeviceCluster
    >>> from hivecore.interop.gpushare import Extender
    >>> extender = Extender(DeviceCluster(), "GiB", clock=lambda: 7)
    >>> status, _ = extender.handle("/gpushare-scheduler/watch", {"type": "ADDED", "object": {
    ...     "kind": "Node", "metadata": {"name": "n1"},
    ...     "status": {"capacity": {"aliyun.com/gpu-mem": 32, "aliyun.com/gpu-count": 2}}}})
    >>> pod = {"metadata": {"name": "p", "uid": "1"}, "spec": {"containers": [
    ...     {"resources": {"limits": {"aliyun.com/gpu-mem": 5}}}]}}
    >>> status, answer = extender.handle(
    ...     "/gpushare-scheduler/filter", {"Pod": pod, "NodeNames": ["n1"]}
    ... )
    >>> answer["NodeNames"]
    ['n1']
    >>> status, answer = extender.handle("/gpushare-scheduler/bind", {
    ...     "PodName": "p", "PodNamespace": "default", "PodUID": "1", "Node": "n1"})
    >>> answer["Binding"]["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"]
    '0'
    """

    def __init__(
        self,
        cluster: DeviceCluster,
        unit: Unit,
        binder: Callable[[dict[str, Any]], object] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        bytes_of(unit)
        as_instance(cluster, "cluster", DeviceCluster)
        super().__init__(binder)
        self._books = Books(cluster, unit)
        self._clock = clock
        self._requests = Recent[str, _Filtered]()
        self._sending: set[str] = set()

    # --- kube-scheduler

    def _filter(self, call: Call) -> Reply:
        arguments: FilterCall = call.body
        nodes = arguments.offered()
        try:
            request = read_pod(arguments.pod, self._books.unit)
            metadata = Field(arguments.pod)["metadata"]
            uid, version = metadata["uid"].text(), version_of(metadata["resourceVersion"].value)
        except (TypeError, ValueError) as error:
            raise BadCall(400, f"Pod: {error}") from None
        namespace, _, name = request.name.partition("/")
        pod = PodId(name, namespace, uid)
        with self._lock:
            holding = self._books.known_pod(request.name, uid, version)
            self._requests[request.name] = _Filtered(uid, version, request)
            if not request.needs:
                return Reply(200, arguments.passed(nodes), "bind", pod)
            sending = request.name in self._sending
            if holding is not None and (holding.bound or sending or holding.node in nodes):
                return Reply(200, _insisting(pod, holding, nodes, arguments), "bind", pod)
            self._books.release(request.name)
            known = [node for node in nodes if node in self._books.nodes]
            failed = _failures(self._books.cluster.filter(request, nodes=known))
        unknown = {node: f"node {show(node)} is unknown" for node in set(nodes) - set(known)}
        passing = [node for node in known if node not in failed]
        answer = arguments.passed(
            passing, failed_nodes=failed, failed_and_unresolvable_nodes=unknown
        )
        return Reply(200, answer, "bind" if passing else "wait", pod)

    def _bind(self, call: Call) -> Reply:
        arguments: BindCall = call.body
        pod, node = arguments.pod, arguments.node
        try:
            names = {"name": pod.name, "namespace": pod.namespace}
            owner = owner_name(Field({"metadata": names}))
        except ValueError as error:
            raise BadCall(400, str(error)) from None
        with self._lock:
            if owner in self._sending:
                raise BadCall(400, f"pod {show(owner)} is being bound")
            known = self._books.held.get(owner)
            if known is not None and known.is_of_another(pod.uid):
                known = None
            if known is not None and known.node != node:
                raise BadCall(400, f"pod {show(owner)} has a card of node {show(known.node)}")
            annotations = self._take(owner, pod.uid, node) if known is None else known.annotations
            binding = binding_of(pod, node, annotations)
            answer = BindReply(binding=binding)
            if not self.binds or known is not None:
                return Reply(200, answer, "bound", pod)
            self._sending.add(owner)
            return Reply(200, answer, "bound", pod, binding)

    def sent(self, reply: Reply, error: Exception | None) -> None:
        """Note that a Binding was sent; if that failed, release the card."""
        assert reply.pod is not None
        owner = reply.pod.full
        with self._lock:
            self._sending.discard(owner)
            holding = self._books.held.get(owner)
            # The pod may be bound despite the error.
            if error is not None and holding is not None and not holding.bound:
                self._books.release(owner)
        super().sent(reply, error)

    def _take(self, owner: str, uid: str, node: str) -> dict[str, str]:
        """Allocate the pod's card; return its annotations."""
        filtered = self._requests.get(owner)
        if filtered is None or (uid and filtered.uid and uid != filtered.uid):
            raise BadCall(400, f"pod {show(owner)} is unknown: it has to be filtered first")
        uid, request = uid or filtered.uid, filtered.request
        self._books.known_pod(owner, uid, filtered.version)
        if not request.needs:
            return {}
        if node not in self._books.nodes:
            raise BadCall(400, f"node {show(node)} is unknown")
        books = self._books
        decision = books.cluster.schedule(request, nodes=(node,), policy="best-fit")
        if decision.outcome != "bind":
            raise BadCall(400, f"node {show(node)}: {decision.reason}")
        inventory = books.cluster.inventory(node)
        annotations = write_assignment(decision.placement, inventory, books.unit, self._clock())
        books.cluster.commit(decision)
        books.held[owner] = Holding(uid, node, annotations, False, version=filtered.version)
        del self._requests[owner]
        return annotations

    # --- inspection and events

    @property
    def is_informed(self) -> bool:
        """Whether all nodes and pods have been listed; before that, free cards are unknown."""
        with self._lock:
            return self._books.listed >= {"Node", "Pod"}

    @property
    def doubtful(self) -> list[str]:
        """Pods with a card that were missing in a list: too new for it, or gone."""
        with self._lock:
            return [owner for owner, holding in self._books.held.items() if holding.missed]

    @property
    def gains(self) -> int:
        """How often resources may have become free."""
        with self._lock:
            return self._books.gains

    def may_fit(self, pod: str) -> bool:
        """Whether some node has a card for the filtered pod "namespace/name"."""
        with self._lock:
            filtered = self._requests.get(pod)
            if filtered is None:
                return False
            return not self._books.cluster.filter(filtered.request).codes.all()

    def _inspect(self, call: Call) -> dict[str, Any]:
        node = call.name
        with self._lock:
            books = self._books
            if node and node not in books.nodes:
                raise BadCall(404, f"node {show(node)} is unknown")
            names = [node] if node else sorted(books.nodes)
            return {"nodes": [draw_node(books.cluster, name, books.unit) for name in names]}

    def apply(self, events: Any) -> list[str]:
        """Apply a watch event or a list of objects; return what could not be applied."""
        if not isinstance(events, Mapping):
            return [f"the body must be an object, not {show(events)}"]
        kind, type_ = events.get("kind"), events.get("type")
        items: list[Any] = [events.get("object")]
        if isinstance(kind, str) and kind.endswith("List"):
            listed = events.get("items")
            if not isinstance(listed, (list, tuple)):
                return [f"items must be a list, not {show(listed)}"]
            type_, items = "ADDED", list(listed)
        if type_ in ("BOOKMARK", "ERROR"):
            return []
        if type_ not in _TYPES:
            return [f"type={show(type_)}: allowed are {', '.join(_TYPES)}"]
        of_list = kind.removesuffix("List") if isinstance(kind, str) else ""
        mistakes = []
        with self._lock:
            for item in items:
                try:
                    document = Field(as_mapping(item, "object"))
                    self._books.apply(type_, document["kind"].text() or of_list, document)
                except (LookupError, TypeError, ValueError) as error:
                    mistakes.append(f"{_shown(item)}: {error}")
            if of_list:
                self._books.list(of_list, {**events, "items": items})
        return mistakes

    routes = Routes(
        [
            COMMON[0],
            Route("POST", f"{_ROOT}/filter", _filter, FilterCall, FilterReply),
            Route("POST", f"{_ROOT}/bind", _bind, BindCall, BindReply),
            Route("POST", f"{_ROOT}/watch", watch),
            Route("GET", f"{_ROOT}/inspect", _inspect, is_slow=True),
            Route("GET", f"{_ROOT}/inspect/", _inspect, is_slow=True),
            *COMMON[1:],
        ]
    )


def _insisting(
    pod: PodId, holding: Holding, nodes: list[str], arguments: FilterCall
) -> FilterReply:
    """Keep a pod with a card on its node: kube-scheduler does not know yet that it is bound."""
    reason = f"pod {show(pod.full)} has a card of node {show(holding.node)}"
    failed = {node: reason for node in nodes if node != holding.node}
    left = [node for node in nodes if node == holding.node]
    return arguments.passed(left, failed_nodes=failed)


def _failures(feasibility: Feasibility) -> dict[str, str]:
    """Return node -> why the request does not fit there, with shared reason texts."""
    reasons: dict[int, str] = {}
    failed = {}
    for node, code in zip(feasibility.nodes, feasibility.codes.tolist(), strict=True):
        if code:
            if code not in reasons:
                reasons[code] = feasibility.reason(node)
            failed[node] = reasons[code]
    return failed


def _shown(item: Any) -> str:
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    return show(metadata.get("name") if isinstance(metadata, Mapping) else item)
