"""gpushare's HTTP interface without the HTTP: paths and JSON bodies in, statuses and bodies out.

kube-scheduler asks in two steps. *filter*: on which of these nodes is there one card with enough
memory left? Nothing is taken yet. *bind*: the pod goes to this node; the card with the least memory
that is enough is taken there and then, and the answer carries the object that binds the pod with
gpushare's annotations; a binder sends it to Kubernetes. If that fails the card is given back.

bind names a pod only, so what it asks for is remembered from filter. kube-scheduler reads the body
of status 200 alone: both answer all mistakes with it and the message in ``Error``.
"""

import copy
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from hivecore._arguments import as_mapping
from hivecore.devices import DeviceCluster, DeviceRequest, Feasibility
from hivecore.interop.gpushare.books import Books, Holding
from hivecore.interop.gpushare.inspect import draw_node
from hivecore.interop.gpushare.names import Unit, bytes_of
from hivecore.interop.gpushare.pods import read_pod, write_assignment
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
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import owner_name

__all__ = ["Extender"]

_ROOT = "/gpushare-scheduler"
_FILTER, _BIND, _WATCH = (f"{_ROOT}/{verb}" for verb in ("filter", "bind", "watch"))
_INSPECT = f"{_ROOT}/inspect"
_PATHS = ("/", _FILTER, _BIND, _WATCH, _INSPECT, f"{_INSPECT}/", "/healthz")
_TYPES = ("ADDED", "MODIFIED", "DELETED")
_NO_ANSWER: dict[str, dict[str, Any]] = {_FILTER: NOTHING_FILTERED, _BIND: {}}
_MOST_REMEMBERED = 100_000


class Extender:
    """Answers kube-scheduler for a `hivecore.devices.DeviceCluster`, as gpushare's extender does.

    :param cluster: the cluster, which may be empty at first; nobody else may change it.
    :param unit: of ``aliyun.com/gpu-mem``, "MiB" or "GiB".
    :param binder: is given the object to bind (``kind: Binding``) and sends it to Kubernetes, which
        copies its annotations to the pod. What it raises is the answer's error. ``None``: nobody
        is called, the answer to bind has the object under ``Binding``.
    :param clock: the time in nanoseconds since 1970.

    Calls take turns, but for the binder's.

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
        if not isinstance(cluster, DeviceCluster):
            raise TypeError(f"cluster must be a DeviceCluster, not {type(cluster).__name__}")
        self._books = Books(cluster, unit)
        self._binder = binder
        self._clock = clock
        self._asked: dict[str, tuple[str, DeviceRequest]] = {}
        self._sending: set[str] = set()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """All but whose turn it is; a copy stands alone."""
        with self._lock:
            state = {name: value for name, value in vars(self).items() if name != "_lock"}
            return state | {
                "_books": copy.deepcopy(self._books),
                "_asked": dict(self._asked),
                "_sending": set(self._sending),
            }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()

    @staticmethod
    def method(path: str) -> str | None:
        """The HTTP method of a path: POST where something may change, else GET; None: no path.

        >>> from hivecore.interop.gpushare.extender import Extender
        >>> Extender.method("/gpushare-scheduler/bind")
        'POST'
        """
        if path in (_FILTER, _BIND, _WATCH):
            return "POST"
        return "GET" if path in _PATHS or path.startswith(f"{_INSPECT}/") else None

    def handle(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Answer a request.

        :param path: of the URL, decoded, under ``/gpushare-scheduler``: ``/filter``, ``/bind``,
            ``/inspect`` and ``/inspect/`` with the name of a node; ``/watch``: an event of a
            watch, or a list of objects, of the kinds Node, Pod and ConfigMap; besides,
            ``/healthz``, and ``/`` for the list of them.
        :param body: of the request: plain data, or the JSON of it.
        :returns: status and plain data for JSON. The status of filter and bind is always 200, and
            ``Error`` in their answers says what is wrong. Of the others the body of a status from
            400 on is ``{"Error": ...}``.
        :raises TypeError: the path is no string.
        """
        if not isinstance(path, str):
            raise TypeError(f"path must be a string, not {type(path).__name__}")
        try:
            return 200, self._answer(path, body)
        except BadCall as error:
            if path in _NO_ANSWER:
                return 200, {**_NO_ANSWER[path], "Error": str(error)}
            return error.status, {"Error": str(error)}

    def _answer(self, path: str, body: Any) -> Any:
        method = self.method(path)
        if method is None:
            raise BadCall(404, f"nothing is at {show(path)}")
        if method == "POST":
            arguments = object_of(parsed(body), "the body")
            answers = {_FILTER: self._filter, _BIND: self._bind, _WATCH: self._watch}
            return answers[path](arguments)
        if path == "/":
            return {"paths": list(_PATHS)}
        if path == "/healthz":
            return {"status": "ok"}
        return self._inspect(path.removeprefix(_INSPECT).removeprefix("/"))

    # --- kube-scheduler

    def _filter(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        pod = object_of(field(arguments, "Pod"), "Pod")
        nodes = listed_nodes(arguments)
        try:
            request = read_pod(pod, self._books.unit)
            uid = Field(pod)["metadata"]["uid"].text()
        except (TypeError, ValueError) as error:
            raise BadCall(400, f"Pod: {error}") from None
        with self._lock:
            self._remember(uid, request)
            if not request.needs:
                return filtered(nodes, arguments)
            holding = self._books.known_pod(request.name, uid)
            sending = request.name in self._sending
            if holding is not None and (holding.bound or sending or holding.node in nodes):
                return self._insist(request.name, holding, nodes, arguments)
            self._books.release(request.name)
            known = [node for node in nodes if node in self._books.nodes]
            failed = _failures(self._books.cluster.filter(request, nodes=known))
        unknown = {node: f"node {show(node)} is unknown" for node in set(nodes) - set(known)}
        return {
            **filtered([node for node in known if node not in failed], arguments),
            "FailedNodes": failed,
            "FailedAndUnresolvableNodes": unknown,
        }

    def _insist(
        self, owner: str, holding: Holding, nodes: list[str], arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A pod that has a card goes where it is: kube-scheduler has not seen it bound."""
        reason = f"pod {show(owner)} has a card of node {show(holding.node)}"
        failed = {node: reason for node in nodes if node != holding.node}
        left = [node for node in nodes if node == holding.node]
        return {**filtered(left, arguments), "FailedNodes": failed}

    def _remember(self, uid: str, request: DeviceRequest) -> None:
        self._asked.pop(request.name, None)
        self._asked[request.name] = uid, request
        if len(self._asked) > _MOST_REMEMBERED:
            del self._asked[next(iter(self._asked))]

    def _bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name, namespace, node = (
            as_text(field(arguments, key), key) for key in ("PodName", "PodNamespace", "Node")
        )
        uid = as_text(field(arguments, "PodUID"), "PodUID", required=False)
        try:
            owner = owner_name(Field({"metadata": {"name": name, "namespace": namespace}}))
        except ValueError as error:
            raise BadCall(400, str(error)) from None
        with self._lock:
            if owner in self._sending:
                raise BadCall(400, f"pod {show(owner)} is being bound")
            known = self._books.known_pod(owner, uid)
            if known is not None and known.node != node:
                raise BadCall(400, f"pod {show(owner)} has a card of node {show(known.node)}")
            annotations = self._take(owner, uid, node) if known is None else known.annotations
            made = binding_of(name, namespace, uid, node, annotations)
            if self._binder is None or known is not None:
                return {"Error": "", "Binding": made}
            self._sending.add(owner)
        mistake = ""
        try:
            self._binder(made)
        except Exception as error:
            mistake = f"binding failed: {error}"
        finally:
            with self._lock:
                self._sending.discard(owner)
                holding = self._books.held.get(owner)
                # What got through to Kubernetes all the same is bound.
                if mistake and holding is not None and not holding.bound:
                    self._books.release(owner)
        return {"Error": mistake, "Binding": made}

    def _take(self, owner: str, uid: str, node: str) -> dict[str, str]:
        """Have the cluster give the pod its card; its annotations."""
        asked_by, request = self._asked.get(owner, ("", None))
        if request is None or (uid and asked_by and uid != asked_by):
            raise BadCall(400, f"pod {show(owner)} is unknown: it has to be filtered first")
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
        books.held[owner] = Holding(uid or asked_by, node, annotations, False)
        del self._asked[owner]
        return annotations

    # --- inspection and events

    def _inspect(self, node: str) -> dict[str, Any]:
        with self._lock:
            books = self._books
            if node and node not in books.nodes:
                raise BadCall(404, f"node {show(node)} is unknown")
            names = [node] if node else sorted(books.nodes)
            return {"nodes": [draw_node(books.cluster, name, books.unit) for name in names]}

    def _watch(self, event: Mapping[str, Any]) -> dict[str, Any]:
        kind, type_ = event.get("kind"), event.get("type")
        items: list[Any] = [event.get("object")]
        if isinstance(kind, str) and kind.endswith("List"):
            listed = event.get("items")
            if not isinstance(listed, (list, tuple)):
                raise BadCall(400, f"items must be a list, not {show(listed)}")
            type_, items = "ADDED", list(listed)
        if type_ in ("BOOKMARK", "ERROR"):
            return {}
        if type_ not in _TYPES:
            raise BadCall(400, f"type={show(type_)}: allowed are {', '.join(_TYPES)}")
        of_list = kind.removesuffix("List") if isinstance(kind, str) else ""
        mistakes = []
        with self._lock:
            for item in items:
                try:
                    self._apply(type_, of_list, item)
                except (LookupError, TypeError, ValueError) as error:
                    mistakes.append(f"{_shown(item)}: {error}")
        if mistakes:
            raise BadCall(400, "\n".join(mistakes))
        return {}

    def _apply(self, type_: str, kind: str, item: Any) -> None:
        found = Field(as_mapping(item, "object"))
        self._books.apply(type_, found["kind"].text() or kind, found)


def _failures(feasibility: Feasibility) -> dict[str, str]:
    """Why the request does not fit, of the nodes where it does not; one look-up for each reason."""
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
