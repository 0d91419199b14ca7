"""Answers kube-scheduler's calls about pods from the state of their jobs.

*filter*: a pod of a started job may go to the node that its job has for it; otherwise each node is
refused with the reason why the job waits. *preempt*: names the pods of the job's victims, one node
at a time. *bind*: binds the pod. *watch*: takes what Kubernetes reports about pods; a gang starts
once all of its pods are known.

An error of a pod has status 200 and the field ``Error``: kube-scheduler reads nothing else, and
writes it into an event of the pod. A malformed call gets status 400.

An answer is computed at once. Slow work, such as binding a pod, happens afterwards.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from hivecore.interop.events.bodies import message_of
from hivecore.interop.events.rounds import Round
from hivecore.interop.extender.annotations import annotations_of, read_devices
from hivecore.interop.extender.claim_writer import ClaimInDoubtError, ClaimTakenError
from hivecore.interop.extender.claim_writes import ClaimWrite
from hivecore.interop.extender.claims import CLAIM
from hivecore.interop.extender.gangs import Member
from hivecore.interop.extender.informer import JobInformer, is_of_others
from hivecore.interop.extender.pod_jobs import PodJobs, Standing
from hivecore.interop.kubernetes.calls import (
    BadCall,
    BindCall,
    BindReply,
    FilterCall,
    FilterReply,
    PreemptCall,
    PreemptReply,
)
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.informer import mapping_in
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import PodId, RequestError, binding_of
from hivecore.interop.kubernetes.recent import Recent
from hivecore.interop.kubernetes.serving.evictions import Evictions
from hivecore.interop.kubernetes.serving.replies import Reply, waits_for
from hivecore.interop.kubernetes.serving.routes import Call, Route, Routes, watch
from hivecore.scheduler import Scheduler, SchedulerEvent

__all__ = ["PodExtender"]


class _MissingPod(Exception):
    """The pod does not exist, or the watch has not reported it yet."""


class PodExtender:
    """Answers kube-scheduler for a scheduler; calls must take turns.

    :param tell: applies events to the scheduler and runs a round of decisions.
    >>> from functools import partial
    >>> from hivecore.interop.events.rounds import take
    >>> from hivecore.interop.extender.extender import PodExtender
    >>> from hivecore.devices import DeviceCluster, NodeDevices
    >>> from hivecore.scheduler import Scheduler
    >>> scheduler = Scheduler(devices=DeviceCluster({"n1": NodeDevices.uniform(gpus=8)}))
    >>> extender = PodExtender(scheduler, partial(take, scheduler, now=0.0))
    >>> spec = "{virtualCluster: vision, leafCellNumber: 8}"
    >>> pod = {"metadata": {"name": "train", "uid": "1", "annotations": {
    ...     "hivedscheduler.microsoft.com/pod-scheduling-spec": spec}}}
    >>> body = {"Pod": pod, "NodeNames": ["n0", "n1"]}
    >>> extender.begin("/v1/extender/filter", body).answer.node_names
    ['n1']
    """

    def __init__(self, scheduler: Scheduler, tell: Callable[[list[SchedulerEvent]], Round]) -> None:
        self._scheduler = scheduler
        self.jobs = PodJobs(scheduler, tell)
        """The known pods and their jobs."""
        self._evictions = Evictions()
        self.informer = JobInformer(scheduler, self.jobs, self._evictions.forget)
        """The known pods and nodes of the cluster."""
        self._not_ours = Recent[str, None]()

    def begin(self, path: str, body: Any) -> Reply:
        """Answer a request to one of the routes.

        :param body: plain data, or its JSON text.
        :raises BadCall: the request is malformed.
        """
        route, name = self.routes.find(path)
        answer = route.answer(self, route.call(path, name, body))
        if not isinstance(answer, Reply):
            return Reply(200, answer)
        if answer.pod is not None:
            self._note(answer.pod.identity, answer.outcome in ("bind", "bound"))
        return answer

    def _note(self, identity: str, is_placed: bool) -> None:
        if is_placed:
            self.jobs.refused.pop(identity, None)
        else:
            self.jobs.refuse(identity)

    def apply(self, events: Any) -> list[str]:
        """Apply a watch event or a list; return what could not be applied."""
        mistakes = self.informer.apply(events)
        if not self.informer.is_partly_listed:
            self.jobs.settle()
        return mistakes

    def _member(self, pod: PodId, given: dict[str, Any]) -> Member | None:
        """Note a pod; ``None`` if it asks for nothing that the scheduler manages.

        :raises _MissingPod: the pod does not exist.
        :raises ValueError: its request can never be served.
        """
        if is_of_others(given, self.informer.scheduler_names):
            other = Field(given)["spec"]["schedulerName"].text()
            raise ValueError(f"its spec.schedulerName is {show(other)}: see --scheduler-name")
        request = self.jobs.request_of(given)
        identity = pod.identity
        if request is None:
            self.jobs.lose(identity)
            self._not_ours[identity] = None
            return None
        if self.informer.is_missing(identity):
            raise _MissingPod(pod.missing)
        member = self.jobs.add(identity, pod.full, request)
        self.informer.note(identity, pod.full, given)
        self.jobs.settle()
        return member

    # --- filter and preempt

    def _filter(self, call: Call) -> Reply:
        arguments: FilterCall = call.body
        nodes, pod = arguments.offered(), _pod_of(arguments)
        try:
            member = self._member(pod, arguments.pod)
        except (_MissingPod, TypeError, ValueError) as error:
            return _mistake(FilterReply, error, pod)
        if member is None:
            return Reply(200, arguments.passed(nodes), "bind", pod)
        return self._place(member, nodes, arguments, pod)

    def _place(self, member: Member, nodes: list[str], arguments: FilterCall, pod: PodId) -> Reply:
        standing = self.jobs.standing(member)
        self.jobs.note_answer(member, standing.outcome, standing.reason)
        if standing.outcome == "error":
            return Reply(200, FilterReply(error=standing.reason), "error", pod)
        if standing.place is None:
            failed = dict.fromkeys(nodes, standing.reason) | self._leaving(member, standing)
            return Reply(200, FilterReply(failed_nodes=failed), standing.outcome, pod)
        node = standing.place.node
        fitting = nodes if not node else [node] if node in nodes else []
        if member.wants.nodes is not None:
            fitting = [node for node in fitting if member.may_use(node)]
        if fitting:
            return Reply(200, arguments.passed(fitting), "bind", pod)
        # For a pod with a nominated node, kube-scheduler first offers that node alone, later all.
        is_nominated = _is_nominated(arguments.pod, nodes)
        goes_there = self.jobs.exchange if is_nominated else self.jobs.confine
        if goes_there(member, nodes):
            return self._place(member, nodes, arguments, pod)
        unusable = "the devices of its claims cannot be used there"
        reason = f"the pod goes to {node}, which is not offered" if node else unusable
        failed = dict.fromkeys(nodes, reason)
        return Reply(200, FilterReply(failed_nodes=failed), "deferred", pod)

    def _leaving(self, member: Member, standing: Standing) -> dict[str, str]:
        """Return the nodes whose pods must leave first, with the reasons."""
        if standing.outcome != "preempt":
            return {}
        return waits_for(self.jobs.victims.of(member.job), self.informer.name_of)

    def _preempt(self, call: Call) -> Reply:
        arguments: PreemptCall = call.body
        pod = _pod_of(arguments)
        try:
            member = self._member(pod, arguments.pod)
        except (_MissingPod, TypeError, ValueError) as error:
            return _mistake(PreemptReply, error, pod)
        if member is None:
            return Reply(200, PreemptReply(), "wait", pod)
        victims = self.jobs.victims.of(member.job)
        node = self._evictions.node(member.job, member.identity, victims)
        outcome = "preempt" if victims else "wait"
        return Reply(200, PreemptReply.of(node, victims), outcome, pod)

    # --- bind

    def _bind(self, call: Call) -> Reply:
        arguments: BindCall = call.body
        pod, node = arguments.pod, arguments.node
        jobs = self.jobs
        member = jobs.members.get(pod.uid) if pod.uid else jobs.by_name(pod.full)
        annotations: dict[str, str] = {}
        mistake = ""
        writes: tuple[ClaimWrite, ...] = ()
        if member is not None and member.name == pod.full:
            standing = jobs.standing(member)
            place = standing.place
            if place is None:
                mistake = f"pod {show(pod.full)} has to be filtered again: {standing.reason}"
            elif place.node not in ("", node) or member.node not in ("", node):
                expected = show(member.node or place.node)
                mistake = f"Node={show(node)}: the pod is to be bound to {expected}"
            elif not member.may_use(node):
                mistake = f"Node={show(node)}: the devices of its claims cannot be used there"
            else:
                try:
                    annotations = annotations_of(member, place, self._scheduler)
                    writes = jobs.writes(member, place, node)
                    member.node, member.said = node, member.slot
                    member.held = read_devices(
                        {"metadata": {"annotations": annotations}}, member.request.is_of_hived
                    )
                except ValueError as error:
                    mistake = str(error)
                    jobs.settle()
        elif pod.identity not in self._not_ours:
            mistake = f"pod {show(pod.full)} ({pod.uid}) is unknown: it has to be filtered first"
        if mistake:
            return Reply(200, BindReply(mistake), "error", pod)
        binding = binding_of(pod, node, annotations)
        return Reply(200, BindReply(binding=binding), "bound", pod, binding, claims=writes)

    def sent(self, reply: Reply, error: Exception) -> None:
        """Note that a pod of an answered bind could not be bound.

        If it does not exist, it is forgotten; otherwise its place stays, and it can be bound again.

        :param reply: the answer, which becomes an error.
        :param error: why; a `LookupError` if the pod does not exist.
        """
        assert reply.pod is not None
        identity = reply.pod.identity
        claim = error.claim if isinstance(error, ClaimInDoubtError) else None
        for write in reply.claims:
            is_doubtful = claim is not None and claim["metadata"].get("uid") == write.uid
            self._ended(write, claim if is_doubtful else None)
        if isinstance(error, LookupError):
            self.informer.forget(identity)
        elif identity in self.jobs.members and not self.informer.is_bound(identity):
            member = self.jobs.members[identity]
            self.jobs.unbound(member)
            if isinstance(error, ClaimTakenError):
                self.jobs.return_devices(member)
        self.jobs.settle()
        reply.answer = replace(reply.answer, error=f"binding failed: {error}")
        reply.outcome = "error"

    def written(self, write: ClaimWrite, claim: dict[str, Any]) -> None:
        """Note that a claim has got its devices and its pod.

        :param claim: as the API server has it now.
        """
        self._ended(write)
        self.apply({"type": "MODIFIED", "object": {**claim, "kind": CLAIM}})

    def _ended(self, write: ClaimWrite, doubtful: dict[str, Any] | None = None) -> None:
        if self.jobs.claims is not None:
            self.jobs.claims.has_sent(write, doubtful)

    routes = Routes(
        [
            Route("POST", "/v1/extender/filter", _filter, FilterCall, FilterReply),
            Route("POST", "/v1/extender/bind", _bind, BindCall, BindReply),
            Route("POST", "/v1/extender/preempt", _preempt, PreemptCall, PreemptReply),
            Route("POST", "/v1/watch", watch),
        ]
    )


def _pod_of(arguments: FilterCall | PreemptCall) -> PodId:
    try:
        return PodId.read(arguments.pod, "Pod.metadata.")
    except RequestError as error:
        raise BadCall(400, message_of(error)) from None


def _is_nominated(pod: dict[str, Any], nodes: list[str]) -> bool:
    return nodes == [mapping_in(pod, "status").get("nominatedNodeName")]


def _mistake(reply: type[FilterReply | PreemptReply], error: Exception, pod: PodId) -> Reply:
    outcome = "unknown" if isinstance(error, _MissingPod) else "error"
    return Reply(200, reply(error=message_of(error)), outcome, pod)
