"""HiveD's HTTP interface without the HTTP: paths and JSON bodies in, statuses and bodies out.

kube-scheduler asks in three steps. *filter*: where may this pod go? A decision to bind is committed
at once, so that the next pod sees it; the pod insists on its node whenever it comes back.
*preempt*: whom to evict for it? The pod is scheduled anew, now for good reserving cells; the
victims are named one node at a time. *bind*: do it. The answer to bind carries the object that
binds the pod, with HiveD's annotations; a `binder` sends it to Kubernetes.

kube-scheduler reads the body of status 200 alone. So the three answer all mistakes, those of the
pod's user above all, with it and the message in ``Error``: it becomes an event of the pod. The
answer to preempt has no such field in kube-scheduler's types, which ignores it there, and names no
victims then: where nothing can be said nobody is evicted.

Nothing is kept here but how often a pod has come back. Names of fields are written as in
kube-scheduler's types (``NodeNames``) and read in any case.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Self, TypeVar

from hivecore.errors import StaleDecisionError
from hivecore.interop.hived.pods import RequestError
from hivecore.interop.hived.scheduler import HivedScheduler
from hivecore.interop.hived.serving.annotations import SPEC, binding, read_spec
from hivecore.interop.hived.serving.watch import apply_events
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
from hivecore.interop.kubernetes.messages import show

__all__ = ["Extender"]

_EXTENDER = "/v1/extender/"
_GROUPS = "/v1/inspect/affinitygroups"
_STATUS = "/v1/inspect/clusterstatus"
_WATCH = "/v1/watch"
_PATHS = (
    *("/", f"{_EXTENDER}filter", f"{_EXTENDER}bind", f"{_EXTENDER}preempt"),
    *(f"{_GROUPS}/", _STATUS, f"{_STATUS}/physicalcluster", f"{_STATUS}/virtualclusters/"),
    *(_WATCH, "/healthz"),
)
_MOST_REMEMBERED = 100_000
_ATTEMPTS = 3


_Made = TypeVar("_Made", bound="Extender")


class Extender:
    """Answers kube-scheduler, and whoever inspects, for a `HivedScheduler`.

    :param scheduler: the scheduler; others may use it at the same time.
    :param binder: is given the object to bind (``kind: Binding``) and sends it to Kubernetes. What
        it raises is the answer's error. It is also called when a pod has come back to filter more
        often than ``forcePodBindThreshold`` of the configuration, or with other nodes than its
        own: kube-scheduler does not get such a pod bound. ``None``: nobody is called, the answer
        to bind has the object under ``Binding``.

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
        self, scheduler: HivedScheduler, binder: Callable[[dict[str, Any]], object] | None = None
    ) -> None:
        self._scheduler = scheduler
        self._binder = binder
        self._attempts: dict[str, int] = {}
        self._lock = threading.Lock()

    def __copy__(self) -> Self:
        return _restored(type(self), self._scheduler.copy(), *self._rest())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._scheduler, *self._rest())

    def _rest(self) -> tuple[Any, dict[str, int]]:
        with self._lock:
            return self._binder, dict(self._attempts)

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
            ``/physicalcluster``, ``/virtualclusters/`` and the name of one; ``/v1/watch``
            (`apply_events`); ``/healthz``; ``/`` for the list of them.
        :param body: of the request: plain data, or the JSON of it. Of no matter where nothing
            changes.
        :returns: status and plain data for JSON. The status of filter, bind and preempt is always
            200; ``Error`` in their answers says what is wrong, a mistake in what is asked, or that
            somebody else has changed the scheduler meanwhile, and the same may be asked again. Of
            the others the body of a status from 400 on is ``{"Error": ...}``: 400 what is asked
            makes no sense, 404 there is no such thing.
        :raises TypeError: the path is no string.

        Calls take turns.
        """
        if not isinstance(path, str):
            raise TypeError(f"path must be a string, not {type(path).__name__}")
        try:
            return 200, self._answer(path, body)
        except (BadCall, RequestError, StaleDecisionError) as error:
            if path in _SAYING_NOTHING:
                return 200, {**_SAYING_NOTHING[path], "Error": str(error)}
            status = error.status if isinstance(error, BadCall) else 400
            return status, {"Error": str(error)}

    def _answer(self, path: str, body: Any) -> Any:
        method = self.method(path)
        if method is None:
            raise BadCall(404, f"nothing is at {show(path)}")
        if method == "POST":
            body = parsed(body)
            if path == _WATCH:
                return self._watch(body)
            verb = path.removeprefix(_EXTENDER)
            answers = {"filter": self._filter, "bind": self._bind, "preempt": self._preempt}
            return answers[verb](object_of(body, "the body"))
        if path == "/":
            return {"paths": list(_PATHS)}
        if path == "/healthz":
            return {"status": "ok"}
        with self._lock:
            return self._inspect(path)

    # --- kube-scheduler

    def _filter(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        pod, spec = _pod(arguments)
        suggested = listed_nodes(arguments)
        info = None
        with self._lock:
            decision = self._decide(pod, spec, suggested)
            if decision.outcome == "bind":
                identity = pod["uid"] or f"{pod['namespace']}/{pod['name']}"
                if self._must_force(identity, decision.node, suggested):
                    info = self._scheduler.bind_info(pod)
            elif decision.outcome == "wait":
                # Pods that come later do not overtake this one for a while.
                time.sleep(self._scheduler.config.waiting_block_milliseconds / 1000)
        if info is not None:
            self._send(binding(pod["name"], pod["namespace"], pod["uid"], info))
        if decision.outcome == "bind":
            return filtered([decision.node], arguments)
        if decision.outcome == "preempt":
            failed = {
                node: f"node({node}) is waiting for victim Pod(s) to be preempted: "
                + ", ".join(victims)
                for node, victims in decision.victims_by_node.items()
            }
        else:
            waits = "Pod is waiting for preemptible or free resource to appear"
            failed = {"hivedscheduler": f"{waits}: {decision.reason}"}
        return {**NOTHING_FILTERED, "FailedNodes": failed}

    def _decide(self, pod: Mapping[str, Any], spec: Mapping[str, Any], suggested: list[str]) -> Any:
        """Schedule and commit; others may use the scheduler as well, and be in between."""
        attempts = 0
        while True:
            decision = self._scheduler.schedule(pod, spec, "Filtering", suggested)
            if decision.outcome != "bind":
                return decision
            try:
                self._scheduler.allocate(pod)
                return decision
            except StaleDecisionError:
                attempts += 1
                if attempts == _ATTEMPTS:
                    raise

    def _must_force(self, identity: str, node: str, suggested: Sequence[str]) -> bool:
        """Whether kube-scheduler needs help to bind a pod that filter has answered for."""
        if self._binder is None:
            return False
        attempts = self._attempts.pop(identity, -1) + 1
        self._attempts[identity] = attempts
        if len(self._attempts) > _MOST_REMEMBERED:
            del self._attempts[next(iter(self._attempts))]
        threshold = self._scheduler.config.force_bind_threshold
        return attempts >= threshold or node not in suggested

    def _bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name, namespace, node = (
            as_text(field(arguments, key), key) for key in ("PodName", "PodNamespace", "Node")
        )
        uid = as_text(field(arguments, "PodUID"), "PodUID", required=False)
        pod = {"name": name, "namespace": namespace, "uid": uid}
        with self._lock:
            info = self._scheduler.bind_info(pod)
            if info["node"] != node:
                expected = info["node"]
                raise BadCall(400, f"Node={show(node)}: the pod is to be bound to {show(expected)}")
            self._scheduler.allocate(pod)
        made = binding(name, namespace, uid, info)
        return {"Error": self._send(made), "Binding": made}

    def _send(self, made: dict[str, Any]) -> str:
        """Have the pod bound; the error, if there is one. Not under the lock: it takes time."""
        if self._binder is None:
            return ""
        try:
            self._binder(made)
        except Exception as error:
            return f"binding failed: {error}"
        return ""

    def _preempt(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        pod, spec = _pod(arguments)
        suggested: dict[str, None] = {}
        for key in ("NodeNameToVictims", "NodeNameToMetaVictims"):
            victims = field(arguments, key)
            if victims is not None:
                suggested.update(dict.fromkeys(names_of(list(object_of(victims, key)), key)))
        with self._lock:
            decision = self._scheduler.schedule(pod, spec, "Preempting", list(suggested))
        # Kubernetes evicts the pods of one node at a time.
        first = islice(decision.victims_by_node.items(), 1)
        return {
            "NodeNameToMetaVictims": {
                node: {"Pods": [{"UID": uid} for uid in pods], "NumPDBViolations": 0}
                for node, pods in first
            }
        }

    # --- inspection and events

    def _inspect(self, path: str) -> Any:
        scheduler = self._scheduler
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
                return scheduler.virtual_clusters()
            if name not in scheduler.config.spec.virtual_clusters:
                known = sorted(scheduler.config.spec.virtual_clusters)
                raise BadCall(404, f"no virtual cluster {show(name)}, known are {known}")
            return scheduler.virtual_cluster(name)
        if name or part not in ("", "physicalcluster"):
            raise BadCall(404, f"nothing is at {show(path)}")
        return scheduler.physical_cluster() if part else scheduler.status()

    def _watch(self, events: Any) -> dict[str, Any]:
        with self._lock:
            mistakes = apply_events(self._scheduler, events)
        if mistakes:
            raise BadCall(400, "\n".join(mistakes))
        return {}


_SAYING_NOTHING: dict[str, dict[str, Any]] = {
    f"{_EXTENDER}filter": NOTHING_FILTERED,
    f"{_EXTENDER}bind": {},
    f"{_EXTENDER}preempt": {"NodeNameToMetaVictims": {}},
}


def _pod(arguments: Mapping[str, Any]) -> tuple[dict[str, str], Mapping[str, Any]]:
    """The pod's names, and its scheduling spec."""
    meta = object_of(field(object_of(field(arguments, "Pod"), "Pod"), "metadata"), "Pod.metadata")
    name = as_text(field(meta, "name"), "Pod.metadata.name")
    namespace = as_text(field(meta, "namespace"), "Pod.metadata.namespace", required=False)
    uid = as_text(field(meta, "uid"), "Pod.metadata.uid", required=False)
    annotations = field(meta, "annotations")
    found = {} if annotations is None else object_of(annotations, "Pod.metadata.annotations")
    spec = read_spec(as_text(found.get(SPEC), f"Pod.metadata.annotations[{SPEC!r}]"))
    return {"name": name, "namespace": namespace or "default", "uid": uid}, spec


def _restored(
    made: type[_Made], scheduler: HivedScheduler, binder: Any, attempts: dict[str, int]
) -> _Made:
    extender = made(scheduler, binder)
    extender._attempts = attempts
    return extender
