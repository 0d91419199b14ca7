"""HiveD's HTTP interface without the HTTP: paths and JSON bodies in, statuses and bodies out.

kube-scheduler asks in three steps. *filter*: where may this pod go? A decision to bind is committed
at once, so that the next pod sees it; the pod insists on its node whenever it comes back.
*preempt*: whom to evict for it? The pod is scheduled anew, now for good reserving cells. Victims
are named one node at a time, to each pod of a group those of another node. *bind*: do it. A
`binder` sends the object that binds the pod, with HiveD's annotations, to Kubernetes.

kube-scheduler reads the body of status 200 alone. So the three answer all mistakes, those of the
pod's user above all, with it and the message in ``Error``: it becomes an event of the pod. The
answer to preempt has no such field in kube-scheduler's types, which ignores it there, and names no
victims then: where nothing can be said nobody is evicted.

An answer is made in one go, under a lock and without waiting for anybody: `Extender.begin`. What
takes time, binding a pod, comes after it. Names of fields are written as in kube-scheduler's types
(``NodeNames``) and read in any case.
"""

import copy
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from hivecore.cells import NodeSet
from hivecore.errors import StaleDecisionError
from hivecore.interop.hived.pods import PodRequest, RequestError, identify
from hivecore.interop.hived.scheduler import HivedScheduler, OfferedNodes
from hivecore.interop.hived.serving.annotations import SPEC, binding, read_spec
from hivecore.interop.hived.serving.informer import Informer
from hivecore.interop.hived.serving.node_names import NamesAtEnd, split_names
from hivecore.interop.hived.serving.waiting import WaitingPods
from hivecore.interop.kubernetes.calls import (
    NOTHING_FILTERED,
    BadCall,
    as_text,
    field,
    filtered,
    listed_nodes,
    names_of,
    object_of,
    parsed,
)
from hivecore.interop.kubernetes.json_text import write_json
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.serving.evictions import Evictions, evicting
from hivecore.interop.kubernetes.serving.replies import Reply

__all__ = ["Extender"]

_EXTENDER = "/v1/extender/"
_FILTER, _BIND, _PREEMPT = (f"{_EXTENDER}{verb}" for verb in ("filter", "bind", "preempt"))
_GROUPS = "/v1/inspect/affinitygroups"
_STATUS = "/v1/inspect/clusterstatus"
_WATCH = "/v1/watch"
_PATHS = (
    *("/", _FILTER, _BIND, _PREEMPT),
    *(f"{_GROUPS}/", _STATUS, f"{_STATUS}/physicalcluster", f"{_STATUS}/virtualclusters/"),
    *(_WATCH, "/healthz"),
)
_SAYING_NOTHING: dict[str, dict[str, Any]] = {
    _FILTER: NOTHING_FILTERED,
    _BIND: {},
    _PREEMPT: {"NodeNameToMetaVictims": {}},
}
_MOST_REMEMBERED = 100_000
_ATTEMPTS = 3

_Made = TypeVar("_Made", bound="Extender")


class Extender:
    """Answers kube-scheduler, and whoever inspects, for a `HivedScheduler`.

    :param scheduler: the scheduler; others may use it at the same time.
    :param binder: is given the object to bind (``kind: Binding``) and sends it to Kubernetes. What
        it raises is the answer's error; a `LookupError`, there is no such pod, also forgets the
        pod. It is also called when a pod has come back to filter more often than
        ``forcePodBindThreshold`` of the configuration, or with other nodes than its own:
        kube-scheduler does not get such a pod bound. ``None``: nobody is called, the answer to
        bind has the object under ``Binding``.
    :param foreign: the name of a resource, such as ``nvidia.com/gpu``: nodes where pods that are
        not HiveD's hold some of it are avoided, as far as ``/v1/watch`` tells of them.

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
    (200, None, "Pod.metadata.annotations['hivedscheduler...pod-scheduling-spec'] is missing")
    """

    def __init__(
        self,
        scheduler: HivedScheduler,
        binder: Callable[[dict[str, Any]], object] | None = None,
        *,
        foreign: str | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.waiting = WaitingPods(scheduler)
        """The pods that could not be bound."""
        self.informer = Informer(scheduler, foreign, self.waiting.forget)
        """What is known of the pods and nodes of the cluster."""
        self._binder = binder
        self.binds = binder is not None
        """Whether somebody sends the objects that bind pods."""
        self.touches = False
        """Whether somebody touches pods that wait when they are due."""
        self._last_names: NamesAtEnd | None = None
        self._attempts: dict[str, int] = {}
        self._evictions = Evictions()
        self._lock = threading.RLock()

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = {name: value for name, value in vars(self).items() if name != "_lock"}
            # What binds pods is no part of the state. The copy is made here: what reads the state
            # later, such as pickle, does so out of turn.
            return copy.deepcopy(state, {id(self._binder): self._binder})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    @staticmethod
    def method(path: str) -> str | None:
        """The HTTP method of a path: POST where something may change, else GET; None: no path.

        >>> Extender.method("/v1/extender/bind"), Extender.method("/v1/inspect/clusterstatus")
        ('POST', 'GET')
        """
        if path == _WATCH or path in _SAYING_NOTHING:
            return "POST"
        inspects = path in (_GROUPS, _STATUS) or path.startswith((f"{_GROUPS}/", f"{_STATUS}/"))
        return "GET" if inspects or path in _PATHS else None

    def handle(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Answer a request.

        :param path: of the URL, decoded: ``/v1/extender/filter``, ``bind`` or ``preempt``;
            ``/v1/inspect/affinitygroups/`` and the name of one, ``/v1/inspect/clusterstatus``, its
            ``/physicalcluster``, ``/virtualclusters/`` and the name of one; ``/v1/watch``: an event
            of pods or nodes, or a PodList or NodeList, which says that there are no others;
            ``/healthz``; ``/`` for the list of them.
        :param body: of the request: plain data, or the JSON of it. Of no matter where nothing
            changes.
        :returns: status and plain data for JSON. The status of filter, bind and preempt is always
            200; ``Error`` in their answers says what is wrong, a mistake in what is asked, a pod
            that does not exist, or that somebody else has changed the scheduler meanwhile, and the
            same may be asked again. Of the others the body of a status from 400 on is
            ``{"Error": ...}``: 400 what is asked makes no sense, 404 there is no such thing.
        :raises TypeError: the path is no string.

        Calls take turns, but for the binder's and for ``waitingPodSchedulingBlockMilliSec``.
        """
        reply = self.begin(path, body)
        if reply.pause:
            time.sleep(reply.pause)
        if reply.binding is not None and self._binder is not None:
            try:
                self._binder(reply.binding)
            except Exception as error:
                self.failed(reply, error)
        return reply.status, reply.answer

    def begin(self, path: str, body: Any = None) -> Reply:
        """Decide on a request; what is to be done about the answer is up to the caller."""
        if not isinstance(path, str):
            raise TypeError(f"path must be a string, not {type(path).__name__}")
        try:
            return self._answer(path, body)
        except (BadCall, RequestError, StaleDecisionError) as error:
            if path in _SAYING_NOTHING:
                return Reply(200, {**_SAYING_NOTHING[path], "Error": str(error)}, "error")
            status = error.status if isinstance(error, BadCall) else 400
            return Reply(status, {"Error": str(error)}, "error")

    def failed(self, reply: Reply, error: Exception) -> None:
        """Note that a pod could not be bound; a `LookupError`: because it does not exist."""
        if isinstance(error, LookupError):
            with self._lock:
                self.forget(identify(reply.pod)[0])
        if "Binding" in reply.answer:
            reply.answer["Error"] = f"binding failed: {error}"
            reply.outcome = "error"

    def forget(self, identity: str) -> None:
        """The pod is gone, or has ended."""
        with self._lock:
            self.informer.forget(identity)

    def apply(self, events: Any) -> list[str]:
        """Apply a watch event or a list, as ``/v1/watch``; returns what could not be applied."""
        with self._lock:
            return self.informer.apply(events)

    def _answer(self, path: str, body: Any) -> Reply:
        method = self.method(path)
        if method is None:
            raise BadCall(404, f"nothing is at {show(path)}")
        if path == _FILTER:
            arguments, names = split_names(body, self._last_names)
            self._last_names = names or self._last_names
            return self._filter(object_of(arguments, "the body"), names)
        if method == "POST":
            arguments = parsed(body)
            if path == _WATCH:
                mistakes = self.apply(arguments)
                if mistakes:
                    raise BadCall(400, "\n".join(mistakes))
                return Reply(200, {})
            verb = self._bind if path == _BIND else self._preempt
            return verb(object_of(arguments, "the body"))
        if path == "/":
            return Reply(200, {"paths": list(_PATHS)})
        return Reply(200, {"status": "ok"} if path == "/healthz" else self._inspect(path, False))

    # --- kube-scheduler

    def _filter(self, arguments: Mapping[str, Any], names: NamesAtEnd | None) -> Reply:
        asked = _Asked.read(arguments)
        objects = field(arguments, "Nodes")
        suggested: OfferedNodes | NodeSet | None = names
        if objects is not None or (names is None and field(arguments, "NodeNames") is not None):
            suggested = NodeSet(listed_nodes(arguments))
        with self._lock:
            if objects is not None:
                # They are what kube-scheduler knows; the watch may be behind.
                for node in field(objects, "items") or ():
                    self.informer.see_node(node)
            missing = self._missing(asked, _FILTER)
            if missing is not None:
                return missing
            self.informer.note(asked.identity, asked.full)
            decision = self._decide(asked, suggested)
            if decision.hopeless:
                self.waiting.forget(asked.identity)
                error = {**NOTHING_FILTERED, "Error": decision.reason}
                return Reply(200, error, "error", asked.pod)
            self.waiting.note(asked.pod, asked.spec, decision.outcome)
            if decision.outcome == "bind":
                answer = filtered([decision.node], arguments)
                reply = Reply(200, answer, "bind", asked.pod)
                is_offered = suggested is None or decision.node in suggested
                promised = asked.nominated
                if not is_offered and promised and suggested and promised in suggested:
                    # The node that it was promised is tried alone; all of them come after it.
                    why = f"the pod goes to {decision.node}"
                    reply.answer = {**NOTHING_FILTERED, "FailedNodes": {promised: why}}
                    return reply
                attempts = self._attempts.pop(asked.identity, -1) + 1
                self._attempts[asked.identity] = attempts
                if len(self._attempts) > _MOST_REMEMBERED:
                    del self._attempts[next(iter(self._attempts))]
                if not is_offered and not attempts and self.touches:
                    # kube-scheduler may just not have heard that the node is free.
                    why = f"the pod goes to {decision.node}, which is not offered yet"
                    reply.answer = {**NOTHING_FILTERED, "FailedNodes": {str(decision.node): why}}
                    reply.outcome = "deferred"
                    self.waiting.try_again(asked.pod, asked.spec, time.monotonic())
                elif self.binds and (
                    not is_offered or attempts >= self.scheduler.config.force_bind_threshold
                ):
                    info = self.scheduler.bind_info(asked.pod)
                    reply.binding = binding(**asked.pod, info=info)
                return reply
            if decision.outcome == "preempt":
                failed = {
                    node: f"node({node}) is waiting for victim Pod(s) to be preempted: "
                    + ", ".join(map(self.informer.name_of, victims))
                    for node, victims in decision.victims_by_node.items()
                }
                return Reply(200, {**NOTHING_FILTERED, "FailedNodes": failed}, "preempt", asked.pod)
        waits = "Pod is waiting for preemptible or free resource to appear"
        failed = {"hivedscheduler": f"{waits}: {decision.reason}"}
        return Reply(
            200,
            {**NOTHING_FILTERED, "FailedNodes": failed},
            "wait",
            asked.pod,
            pause=self.scheduler.config.waiting_block_milliseconds / 1000,
        )

    def _missing(self, asked: "_Asked", path: str) -> Reply | None:
        """The answer about a pod that does not exist."""
        if not self.informer.is_missing(asked.identity):
            return None
        error = f"pod {show(asked.full)} ({asked.identity}) does not exist, or is not known yet"
        return Reply(200, {**_SAYING_NOTHING[path], "Error": error}, "unknown", asked.pod)

    def _decide(self, asked: "_Asked", suggested: OfferedNodes | NodeSet | None) -> Any:
        """Schedule and commit; others may use the scheduler as well, and be in between."""
        attempts = 0
        while True:
            decision = self.scheduler.schedule(asked.pod, asked.spec, "Filtering", suggested)
            if decision.outcome != "bind":
                return decision
            try:
                self.scheduler.allocate(asked.pod)
                return decision
            except StaleDecisionError:
                attempts += 1
                if attempts == _ATTEMPTS:
                    raise

    def _bind(self, arguments: Mapping[str, Any]) -> Reply:
        name, namespace, node = (
            as_text(field(arguments, key), key) for key in ("PodName", "PodNamespace", "Node")
        )
        uid = as_text(field(arguments, "PodUID"), "PodUID", required=False)
        pod = {"name": name, "namespace": namespace, "uid": uid}
        with self._lock:
            info = self.scheduler.bind_info(pod)
            if info["node"] != node:
                expected = info["node"]
                raise BadCall(400, f"Node={show(node)}: the pod is to be bound to {show(expected)}")
            self.scheduler.allocate(pod)
        made = binding(name, namespace, uid, info)
        return Reply(200, {"Error": "", "Binding": made}, "bound", pod, made)

    def _preempt(self, arguments: Mapping[str, Any]) -> Reply:
        asked = _Asked.read(arguments)
        suggested: dict[str, None] = {}
        for key in ("NodeNameToVictims", "NodeNameToMetaVictims"):
            victims = field(arguments, key)
            if victims is not None:
                suggested.update(dict.fromkeys(names_of(list(object_of(victims, key)), key)))
        with self._lock:
            missing = self._missing(asked, _PREEMPT)
            if missing is not None:
                return missing
            decision = self.scheduler.schedule(asked.pod, asked.spec, "Preempting", list(suggested))
            victims = decision.victims_by_node
            group = PodRequest.read(asked.spec, asked.full).gang
            node = self._evictions.node(group, asked.identity, victims)
        return Reply(200, evicting(node, victims), decision.outcome, asked.pod)

    # --- inspection

    def inspect_json(self, path: str) -> tuple[int, bytes]:
        """As ``handle`` for what is below ``/v1/inspect``, with the answer as JSON.

        The status of the cluster is drawn beside other calls, and only where it has changed.
        """
        try:
            found = self._inspect(path, True)
        except (BadCall, RequestError) as error:
            status = error.status if isinstance(error, BadCall) else 400
            return status, write_json({"Error": str(error)})
        return 200, found if isinstance(found, bytes) else write_json(found)

    def _inspect(self, path: str, as_json: bool) -> Any:
        scheduler = self.scheduler
        if path.startswith(_GROUPS):
            name = path.removeprefix(_GROUPS).removeprefix("/")
            if not name:
                return scheduler.affinity_groups()
            group = scheduler.affinity_group_status(name)
            if group is None:
                raise BadCall(404, f"no affinity group {show(name)} is allocated or preempting")
            return group
        part, _, name = path.removeprefix(_STATUS).removeprefix("/").partition("/")
        if part == "virtualclusters":
            if not name:
                return scheduler.status_json("virtual") if as_json else scheduler.virtual_clusters()
            if name not in scheduler.config.spec.virtual_clusters:
                known = sorted(scheduler.config.spec.virtual_clusters)
                raise BadCall(404, f"no virtual cluster {show(name)}, known are {known}")
            if as_json:
                return scheduler.virtual_cluster_json(name)
            return scheduler.virtual_cluster(name)
        if name or part not in ("", "physicalcluster"):
            raise BadCall(404, f"nothing is at {show(path)}")
        if as_json:
            return scheduler.status_json("physical" if part else None)
        return scheduler.physical_cluster() if part else scheduler.status()


@dataclass(slots=True)
class _Asked:
    """What kube-scheduler says of the pod that it asks about."""

    pod: dict[str, str]
    """Its name, namespace and uid."""
    spec: Mapping[str, Any]
    nominated: str
    """The node that it was promised after a preemption; "": none."""

    @property
    def full(self) -> str:
        return identify(self.pod)[1]

    @property
    def identity(self) -> str:
        return identify(self.pod)[0]

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> "_Asked":
        pod = object_of(field(arguments, "Pod"), "Pod")
        meta = object_of(field(pod, "metadata"), "Pod.metadata")
        name = as_text(field(meta, "name"), "Pod.metadata.name")
        namespace = as_text(field(meta, "namespace"), "Pod.metadata.namespace", required=False)
        uid = as_text(field(meta, "uid"), "Pod.metadata.uid", required=False)
        annotations = field(meta, "annotations")
        found = {} if annotations is None else object_of(annotations, "Pod.metadata.annotations")
        spec = read_spec(as_text(found.get(SPEC), f"Pod.metadata.annotations[{SPEC!r}]"))
        status = field(pod, "status")
        nominated = field(status, "nominatedNodeName") if isinstance(status, Mapping) else None
        return cls(
            {"name": name, "namespace": namespace or "default", "uid": uid},
            spec,
            nominated if isinstance(nominated, str) else "",
        )
