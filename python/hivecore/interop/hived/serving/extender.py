"""HiveD's HTTP interface without the HTTP: paths and JSON bodies in, statuses and bodies out.

kube-scheduler asks in three steps. *filter*: where may this pod go? A decision to bind is committed
at once, so that the next pod sees it; the pod insists on its node whenever it comes back.
*preempt*: which pods are to be evicted for it? The pod is scheduled again, and now reserves cells.
Victims are named one node at a time, to each pod of a group those of another node. *bind*: do it. A
`binder` sends the object that binds the pod, with HiveD's annotations, to Kubernetes.

The answer to preempt has no ``Error`` in kube-scheduler's types, which ignores it there, and names
no victims then.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from msgspec import Struct

from hivecore.cells import NodeSet
from hivecore.errors import StaleDecisionError
from hivecore.interop.hived.pod_decision import PodDecision
from hivecore.interop.hived.pods import PodRequest
from hivecore.interop.hived.scheduler import HivedScheduler, OfferedNodes
from hivecore.interop.hived.serving.annotations import SPEC, bind_annotations, read_spec
from hivecore.interop.hived.serving.informer import Informer
from hivecore.interop.hived.serving.node_names import NamesAtEnd, split_names
from hivecore.interop.hived.serving.waiting import WaitingPods
from hivecore.interop.kubernetes.calls import (
    BadCall,
    BindCall,
    BindReply,
    FilterCall,
    FilterReply,
    PreemptCall,
    PreemptReply,
    read_call,
)
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import PodId, RequestError, binding_of, identify
from hivecore.interop.kubernetes.recent import Recent
from hivecore.interop.kubernetes.serving.evictions import Evictions
from hivecore.interop.kubernetes.serving.extenders import HttpExtender
from hivecore.interop.kubernetes.serving.replies import Reply, waits_for
from hivecore.interop.kubernetes.serving.routes import COMMON, Call, Route, Routes, watch

__all__ = ["Extender"]

_GROUPS = "/v1/inspect/affinitygroups"
_STATUS = "/v1/inspect/clusterstatus"
_ATTEMPTS = 3
_MOST_UNASKED = 64  # pods that are decided on at a time though kube-scheduler does not ask


class Extender(HttpExtender):
    """Answers kube-scheduler, and inspections, for a `HivedScheduler`.

    :param scheduler: the scheduler; others may use it at the same time.
    :param binder: is given the object to bind (``kind: Binding``) and sends it to Kubernetes. What
        it raises is the answer's error; a `LookupError`, the pod does not exist, also forgets the
        pod. It is also called when a pod has come back to filter more often than
        ``forcePodBindThreshold`` of the configuration, or with other nodes than its own:
        kube-scheduler does not get such a pod bound. ``None``: the answer to bind has the object
        under ``Binding``.
    :param foreign: the name of a resource, such as ``nvidia.com/gpu``: nodes where pods that are
        not HiveD's hold some of it are avoided, as far as ``/v1/watch`` tells of them.

    Its paths are ``/v1/extender/filter``, ``bind`` and ``preempt``; ``/v1/inspect/affinitygroups/``
    and the name of one, ``/v1/inspect/clusterstatus``, its ``/physicalcluster``,
    ``/virtualclusters/`` and the name of one; ``/v1/watch``: an event of pods or nodes, or a
    PodList or NodeList, which says that there are no others; ``/healthz``.

    >>> from hivecore.interop.hived import HivedScheduler
    >>> scheduler = HivedScheduler({
    ...     "physicalCluster": {
    ...         "cellTypes": {"V100-NODE": {"childCellType": "V100", "childCellNumber": 4,
    ...                                     "isNodeLevel": True}},
    ...         "physicalCells": [{"cellType": "V100-NODE", "cellAddress": "node-0"}],
    ...     },
    ...     "virtualClusters": {
    ...         "A": {"virtualCells": [{"cellType": "V100-NODE", "cellNumber": 1}]},
    ...     },
    ... })
    >>> extender = Extender(scheduler)
    >>> spec = "{virtualCluster: A, leafCellNumber: 2}"
    >>> pod = {"metadata": {"name": "train", "namespace": "default", "uid": "1", "annotations": {
    ...     "hivedscheduler.microsoft.com/pod-scheduling-spec": spec}}}
    >>> status, answer = extender.handle(
    ...     "/v1/extender/filter", {"Pod": pod, "NodeNames": ["node-0"]}
    ... )
    >>> status, answer["NodeNames"]
    (200, ['node-0'])
    >>> status, answer = extender.handle("/v1/extender/bind", {
    ...     "PodName": "train", "PodNamespace": "default", "PodUID": "1", "Node": "node-0"})
    >>> answer["Binding"]["target"]["name"]
    'node-0'
    >>> pod["metadata"]["annotations"].clear()
    >>> status, answer = extender.handle("/v1/extender/filter", {"Pod": pod})
    >>> status, answer["NodeNames"], answer["Error"]  # doctest: +ELLIPSIS
    (200, None, "Pod.metadata.annotations['hivedscheduler...pod-scheduling-spec']: is missing")
    """

    def __init__(
        self,
        scheduler: HivedScheduler,
        binder: Callable[[dict[str, Any]], object] | None = None,
        *,
        foreign: str | None = None,
    ) -> None:
        super().__init__(binder)
        self.scheduler = scheduler
        self.waiting = WaitingPods(scheduler)
        """The pods that could not be bound."""
        self._evictions = Evictions()
        settled = self.waiting.forget, self._evictions.forget
        self.informer = Informer(scheduler, foreign, settled)
        """What is known of the pods and nodes of the cluster."""
        self.touches = False
        """Whether pods that wait are touched when they are due."""
        self._last_names: NamesAtEnd | None = None
        self._attempts = Recent[str, int]()

    def sent(self, reply: Reply, error: Exception | None) -> None:
        """The object that binds a pod was sent; a `LookupError`: the pod does not exist."""
        if isinstance(error, LookupError) and reply.pod is not None:
            self.forget(reply.pod.identity)
        super().sent(reply, error)

    def forget(self, identity: str) -> None:
        """The pod is gone, or has ended."""
        with self._lock:
            self.informer.forget(identity)

    @property
    def gains(self) -> int:
        """How often something may have become free."""
        with self._lock:
            return self.informer.gains + self.scheduler.given_up

    def apply(self, events: Any) -> list[str]:
        """Apply a watch event or a list, as ``/v1/watch``; returns what could not be applied."""
        with self._lock:
            return self.informer.apply(events)

    # --- filter

    def _filter(self, call: Call) -> Reply:
        body, names = split_names(call.body, self._last_names)
        self._last_names = names or self._last_names
        arguments = read_call(body, FilterCall)
        try:
            asking = _AskingPod.read(arguments.pod)
        except (BadCall, RequestError):
            with self._lock, suppress(TypeError, ValueError):
                self._withdraw(identify(arguments.pod)[0])
            raise
        suggested: OfferedNodes | NodeSet | None = names
        if arguments.nodes is not None or arguments.node_names is not None:
            suggested = NodeSet(arguments.offered())
        with self._lock:
            for node in (arguments.nodes and arguments.nodes.items) or ():
                self.informer.see_node(node)  # as kube-scheduler knows it; the watch may be behind
            if self.informer.is_missing(asking.pod.identity):
                return _missing(asking.pod, FilterReply)
            self.informer.note_question(asking.pod, arguments.pod)
            if self.waiting.asks_otherwise(asking.pod.identity, asking.spec):
                self._withdraw(asking.pod.identity)
            try:
                decision = self._decide(asking, suggested)
            except RequestError:
                self._withdraw(asking.pod.identity)
                raise
            if decision.hopeless:
                self.waiting.forget(asking.pod.identity)
                return Reply(200, FilterReply(error=decision.reason), "error", asking.pod)
            self.waiting.note(asking.pod, asking.spec, decision.outcome)
            if decision.outcome == "bind":
                return self._placed(asking, str(decision.node), suggested, arguments)
            if decision.outcome == "preempt":
                return self._victims(asking.pod, decision)
        waits = "Pod is waiting for preemptible or free resource to appear"
        answer = _failed("hivedscheduler", f"{waits}: {decision.reason}")
        pause = self.scheduler.config.waiting_block_milliseconds / 1000
        return Reply(200, answer, "wait", asking.pod, pause=pause)

    def _decide(
        self, asking: "_AskingPod", suggested: OfferedNodes | NodeSet | None
    ) -> PodDecision:
        """Schedule and commit; others may use the scheduler as well, and be in between."""
        attempts = 0
        while True:
            decision = self.scheduler.schedule(asking.pod, asking.spec, "Filtering", suggested)
            if decision.outcome != "bind":
                return decision
            try:
                self.scheduler.allocate(asking.pod)
                return decision
            except StaleDecisionError:
                attempts += 1
                if attempts == _ATTEMPTS:
                    raise

    def _placed(
        self,
        asking: "_AskingPod",
        node: str,
        suggested: OfferedNodes | NodeSet | None,
        arguments: FilterCall,
    ) -> Reply:
        """The answer about a pod that has a node, which kube-scheduler may not have offered."""
        pod, promised = asking.pod, asking.nominated
        is_offered = suggested is None or node in suggested
        if not is_offered and promised and suggested and promised in suggested:
            # The node that it was promised is tried alone; all of them come after it.
            return Reply(200, _failed(promised, f"the pod goes to {node}"), "bind", pod)
        attempts = self._attempts.get(pod.identity, -1) + 1
        self._attempts[pod.identity] = attempts
        if not is_offered and not attempts and self.touches:
            # kube-scheduler may just not have heard that the node is free.
            self.waiting.try_again(pod, asking.spec, time.monotonic())
            why = f"the pod goes to {node}, which is not offered yet"
            return Reply(200, _failed(node, why), "deferred", pod)
        reply = Reply(200, arguments.passed([node]), "bind", pod)
        is_stuck = not is_offered or attempts >= self.scheduler.config.force_bind_threshold
        if self.binds and is_stuck:
            reply.binding = binding_of(pod, node, bind_annotations(self.scheduler.bind_info(pod)))
        return reply

    def _victims(self, pod: PodId, decision: PodDecision) -> Reply:
        """The answer about a pod for which others have to leave."""
        failed = waits_for(decision.victims_by_node, self.informer.name_of)
        return Reply(200, FilterReply(failed_nodes=failed), "preempt", pod)

    # --- bind and preempt

    def _bind(self, call: Call) -> Reply:
        arguments: BindCall = call.body
        pod, node = arguments.pod, arguments.node
        with self._lock:
            info = self.scheduler.bind_info(pod)
            if info["node"] != node:
                expected = show(info["node"])
                raise BadCall(400, f"Node={show(node)}: the pod is to be bound to {expected}")
            self.scheduler.allocate(pod)
        sent = binding_of(pod, node, bind_annotations(info))
        return Reply(200, BindReply(binding=sent), "bound", pod, sent)

    def _preempt(self, call: Call) -> Reply:
        arguments: PreemptCall = call.body
        asking = _AskingPod.read(arguments.pod)
        by_node = arguments.node_name_to_victims or {}
        suggested = list(by_node | (arguments.node_name_to_meta_victims or {}))
        with self._lock:
            if self.informer.is_missing(asking.pod.identity):
                return _missing(asking.pod, PreemptReply)
            decision = self.scheduler.schedule(asking.pod, asking.spec, "Preempting", suggested)
            victims = decision.victims_by_node
            group = PodRequest.read(asking.spec, asking.pod.full).gang
            node = self._evictions.node(group, asking.pod.identity, victims)
        return Reply(200, PreemptReply.of(node, victims), decision.outcome, asking.pod)

    def victims(self) -> dict[str, str]:
        """The running pods that have to go for pods that wait, by identity, each with the reason.

        Their cells are reserved, as by the preempt verb. kube-scheduler does not use that where no
        pod is of a lower class, and asks nothing at all about a pod that fits no node.
        """
        reasons: dict[str, str] = {}
        with self._lock:
            self._decide_unasked()
            decided: set[str] = set()
            for pod in self.waiting.preempting():
                group = pod.request.gang
                if group not in decided:
                    with suppress(RequestError):  # its group is complete by now, or its tenant gone
                        decision = self.scheduler.schedule(pod.pod, pod.spec, "Preempting")
                        decided.add(group)
                        reason = f"it has to stop for the group {show(group)}"
                        reasons |= dict.fromkeys(decision.victims, reason)
        return reasons

    def _withdraw(self, identity: str) -> None:
        """Evict nothing for what a pod has asked for; it asks for something else, or a mistake."""
        self.waiting.forget(identity)
        if not self.informer.seat_of(identity):
            self.scheduler.delete(identity)

    def _decide_unasked(self) -> None:
        """Find some of the pods about which kube-scheduler does not ask that have victims."""
        unasked = self.informer.unasked
        for identity in [*islice(unasked, _MOST_UNASKED)]:
            pod, text = unasked.pop(identity)
            with suppress(RequestError):
                spec = read_spec(text)
                if self.scheduler.schedule(pod, spec).outcome == "preempt":
                    self.waiting.note(pod, spec, "preempt")
                else:
                    unasked[identity] = pod, text  # the others come before it

    # --- inspection

    def _groups(self, call: Call) -> Any:
        if not call.name:
            return self.scheduler.affinity_groups()
        group = self.scheduler.affinity_group_status(call.name)
        if group is None:
            raise BadCall(404, f"no affinity group {show(call.name)} is allocated or preempting")
        return group

    def _status(self, call: Call) -> bytes:
        if call.name:
            raise BadCall(404, f"nothing is at {show(call.path)}")
        return self.scheduler.status_json("physical" if "physical" in call.path else None)

    def _virtual(self, call: Call) -> bytes:
        if not call.name:
            return self.scheduler.status_json("virtual")
        known = sorted(self.scheduler.config.spec.virtual_clusters)
        if call.name not in known:
            raise BadCall(404, f"no virtual cluster {show(call.name)}, known are {known}")
        return self.scheduler.virtual_cluster_json(call.name)

    routes = Routes(
        [
            COMMON[0],
            Route("POST", "/v1/extender/filter", _filter, reply=FilterReply),
            Route("POST", "/v1/extender/bind", _bind, BindCall, BindReply),
            Route("POST", "/v1/extender/preempt", _preempt, PreemptCall, PreemptReply),
            Route("GET", f"{_GROUPS}/", _groups, is_slow=True),
            Route("GET", _STATUS, _status, is_slow=True),
            Route("GET", f"{_STATUS}/", _status, is_slow=True, is_listed=False),
            Route("GET", f"{_STATUS}/physicalcluster", _status, is_slow=True),
            Route("GET", f"{_STATUS}/virtualclusters/", _virtual, is_slow=True),
            Route("POST", "/v1/watch", watch),
            *COMMON[1:],
        ]
    )


class _AskingPod(Struct, frozen=True):
    """The pod that kube-scheduler asks about."""

    pod: PodId
    spec: Mapping[str, Any]
    nominated: str
    """The node that it was promised after a preemption; "": none."""

    @classmethod
    def read(cls, pod: Mapping[str, Any]) -> "_AskingPod":
        try:
            named = PodId.read(pod, "Pod.metadata.")
            text = Field(pod, "Pod")["metadata"]["annotations"][SPEC].name()
        except (TypeError, ValueError) as error:
            raise BadCall(400, str(error)) from None
        status = pod.get("status")
        nominated = status.get("nominatedNodeName") if isinstance(status, Mapping) else None
        promised = nominated if isinstance(nominated, str) else ""
        return cls(named, read_spec(text), promised)


def _failed(node: str, reason: str) -> FilterReply:
    return FilterReply(failed_nodes={node: reason})


def _missing(pod: PodId, reply: type[FilterReply | PreemptReply]) -> Reply:
    """The answer about a pod that does not exist."""
    return Reply(200, reply(error=pod.missing), "unknown", pod)
