"""kube-scheduler's questions about pods, answered by their jobs.

*filter*: where may this pod go? To the place that its job has for it, once that has started; else
each node is refused with the reason why the job waits. *preempt*: whom to evict for it? The pods of
the jobs that have to stop for its own, one node at a time. *bind*: do it. A gang starts when all of
its pods are known, so somebody has to tell of them: *watch* takes what Kubernetes reports.

What is wrong with a pod is said with status 200 under ``Error``: kube-scheduler reads nothing else,
and makes an event of the pod of it. What no kube-scheduler would send is refused with 400.

An answer is made in one go and waits for nobody; what takes time, binding a pod, comes after it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from hivecore.interop.events.bodies import message_of
from hivecore.interop.events.rounds import Round
from hivecore.interop.extender.annotations import written
from hivecore.interop.extender.asked import Asked, read_asked
from hivecore.interop.extender.gangs import Member
from hivecore.interop.extender.informer import JobInformer
from hivecore.interop.extender.pod_jobs import PodJobs, Standing
from hivecore.interop.hived.pods import identify
from hivecore.interop.kubernetes.bindings import binding_of
from hivecore.interop.kubernetes.calls import (
    NOTHING_FILTERED,
    BadCall,
    as_text,
    field,
    filtered,
    listed_nodes,
    object_of,
    parsed,
)
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.serving.evictions import Evictions, evicting
from hivecore.interop.kubernetes.serving.replies import Reply
from hivecore.scheduler import Scheduler, SchedulerEvent

__all__ = ["BIND", "FILTER", "PATHS", "PREEMPT", "WATCH", "PodExtender"]

FILTER, BIND, PREEMPT = (f"/v1/extender/{verb}" for verb in ("filter", "bind", "preempt"))
WATCH = "/v1/watch"
PATHS = FILTER, BIND, PREEMPT, WATCH
"""All are posted to."""
_MOST_REMEMBERED = 100_000
_MOST_MISSES = 10  # a node may be missing for a moment


class PodExtender:
    """Answers kube-scheduler for a scheduler; calls must take turns.

    :param tell: tells the scheduler events and has it decide.

    >>> from functools import partial
    >>> from hivecore.interop.events.rounds import take
    >>> from hivecore.interop.extender.extender import FILTER, PodExtender
    >>> from hivecore.devices import DeviceCluster, NodeDevices
    >>> from hivecore.scheduler import Scheduler
    >>> scheduler = Scheduler(devices=DeviceCluster({"n1": NodeDevices.uniform(gpus=8)}))
    >>> extender = PodExtender(scheduler, partial(take, scheduler, now=0.0))
    >>> spec = "{virtualCluster: vision, leafCellNumber: 8}"
    >>> pod = {"metadata": {"name": "train", "uid": "1", "annotations": {
    ...     "hivedscheduler.microsoft.com/pod-scheduling-spec": spec}}}
    >>> extender.begin(FILTER, {"Pod": pod, "NodeNames": ["n0", "n1"]}).answer["NodeNames"]
    ['n1']
    """

    def __init__(self, scheduler: Scheduler, tell: Callable[[list[SchedulerEvent]], Round]) -> None:
        self._scheduler = scheduler
        self.jobs = PodJobs(scheduler, tell)
        """The pods that are known, and their jobs."""
        self.informer = JobInformer(scheduler, self.jobs)
        """What is known of the pods and nodes of the cluster."""
        self._evictions = Evictions()
        self._not_ours: dict[str, None] = {}

    def begin(self, path: str, body: Any) -> Reply:
        """Answer a request, of one of `PATHS`.

        :param body: plain data, or the JSON of it.
        :raises BadCall: it makes no sense.
        """
        data = parsed(body)
        if path == WATCH:
            mistakes = self.informer.apply(data)
            self.jobs.settle()
            if mistakes:
                raise BadCall(400, "\n".join(mistakes))
            return Reply(200, {})
        arguments = object_of(data, "the body")
        if path == BIND:
            return self._bind(arguments)
        pod = object_of(field(arguments, "Pod"), "Pod")
        nodes = listed_nodes(arguments) if path == FILTER else []
        empty = NOTHING_FILTERED if path == FILTER else evicting(None, {})
        try:
            identity, name = identify(pod)
        except ValueError as error:
            raise BadCall(400, message_of(error)) from None
        asked_of = _naming(pod, name)
        try:
            asked = read_asked(pod)
            if asked is not None and self.informer.is_missing(identity):
                missing = f"pod {show(name)} ({identity}) does not exist, or is not known yet"
                return Reply(200, {**empty, "Error": missing}, "unknown", asked_of)
            member = self._member(identity, name, asked)
        except (TypeError, ValueError) as error:
            return Reply(200, {**empty, "Error": message_of(error)}, "error", asked_of)
        if path == PREEMPT:
            return self._preempt(member, asked_of)
        if member is None:
            return Reply(200, filtered(nodes, arguments), "bind", asked_of)
        return self._filter(member, nodes, arguments, asked_of)

    def _member(self, identity: str, name: str, asked: Asked | None) -> Member | None:
        """The pod, which is noted; None: it asks for nothing that the scheduler has."""
        if asked is None:
            self._not_ours.pop(identity, None)
            self._not_ours[identity] = None
            if len(self._not_ours) > _MOST_REMEMBERED:
                del self._not_ours[next(iter(self._not_ours))]
            return None
        member = self.jobs.add(identity, name, asked)
        self.informer.note(identity, name)
        self.jobs.settle()
        return member

    # --- filter

    def _filter(
        self,
        member: Member,
        nodes: list[str],
        arguments: Mapping[str, Any],
        asked_of: Mapping[str, str],
    ) -> Reply:
        standing = self.jobs.standing(member)
        if standing.outcome == "error":
            answer = {**NOTHING_FILTERED, "Error": standing.reason}
            return Reply(200, answer, "error", asked_of)
        if standing.place is None:
            failed = dict.fromkeys(nodes, standing.reason) | self._leaving(member, standing)
            answer = {**NOTHING_FILTERED, "FailedNodes": failed}
            return Reply(200, answer, standing.outcome, asked_of)
        node = standing.place.node
        fitting = nodes if not node else [node] if node in nodes else []
        if fitting:
            member.misses = 0
            return Reply(200, filtered(fitting, arguments), "bind", asked_of)
        member.misses += 1
        if member.misses >= _MOST_MISSES:
            member.misses = 0
            if self.jobs.avoid(member, node):
                return self._filter(member, nodes, arguments, asked_of)
        failed = dict.fromkeys(nodes, f"the pod goes to {node}, which is not offered")
        return Reply(200, {**NOTHING_FILTERED, "FailedNodes": failed}, "deferred", asked_of)

    def _leaving(self, member: Member, standing: Standing) -> dict[str, str]:
        """What is said of the nodes whose pods have to go first."""
        if standing.outcome != "preempt":
            return {}
        return {
            node: f"node({node}) is waiting for victim Pod(s) to be preempted: "
            + ", ".join(map(self.informer.name_of, victims))
            for node, victims in self.jobs.victims_for(member).items()
        }

    # --- preempt

    def _preempt(self, member: Member | None, asked_of: Mapping[str, str]) -> Reply:
        victims = {} if member is None else self.jobs.victims_for(member)
        node = None
        if member is not None:
            node = self._evictions.node(member.job, member.identity, victims)
        return Reply(200, evicting(node, victims), "preempt" if victims else "wait", asked_of)

    # --- bind

    def _bind(self, arguments: Mapping[str, Any]) -> Reply:
        name, namespace, node = (
            as_text(field(arguments, key), key) for key in ("PodName", "PodNamespace", "Node")
        )
        uid = as_text(field(arguments, "PodUID"), "PodUID", required=False)
        asked_of = {"name": name, "namespace": namespace, "uid": uid}
        identity, full = identify(asked_of)
        member = self.jobs.members.get(identity) if uid else self.jobs.by_name(full)
        annotations: dict[str, str] = {}
        mistake = ""
        if member is not None and member.name == full:
            standing = self.jobs.standing(member)
            place = standing.place
            if place is None:
                mistake = f"pod {show(full)} has to be filtered again: {standing.reason}"
            elif place.node not in ("", node) or member.node not in ("", node):
                there = show(member.node or place.node)
                mistake = f"Node={show(node)}: the pod is to be bound to {there}"
            else:
                annotations = written(member, place, self._scheduler)
                member.node = node
        elif identity not in self._not_ours:
            mistake = f"pod {show(full)} ({uid}) is unknown: it has to be filtered first"
        if mistake:
            return Reply(200, {"Error": mistake}, "error", asked_of)
        made = binding_of(name, namespace, uid, node, annotations)
        return Reply(200, {"Error": "", "Binding": made}, "bound", asked_of, made)

    def failed(self, reply: Reply, error: Exception) -> None:
        """Note that a pod could not be bound; a `LookupError`: because it does not exist."""
        identity = identify(reply.pod)[0]
        if isinstance(error, LookupError):
            self.informer.forget(identity)
        elif identity in self.jobs.members:
            self.jobs.unbound(self.jobs.members[identity])
        self.jobs.settle()
        reply.answer["Error"] = f"binding failed: {error}"
        reply.outcome = "error"


def _naming(pod: Mapping[str, Any], name: str) -> dict[str, str]:
    uid = pod["metadata"].get("uid") if "metadata" in pod else pod.get("uid")
    namespace, _, short = name.partition("/")
    return {"name": short, "namespace": namespace, "uid": uid or ""}
