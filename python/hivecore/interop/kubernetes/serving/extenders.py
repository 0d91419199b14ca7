"""kube-scheduler's extenders without HTTP, and the service that answers for one over HTTP.

kube-scheduler reads the body of status 200 alone. So the verbs of most extenders answer all
mistakes, those of the pod's user above all, with it and the message in ``Error``: it becomes an
event of the pod.

An answer is computed at once, under a lock and without waiting for anything: `HttpExtender.begin`.
What takes time, binding a pod, comes after it.
"""

import asyncio
import copy
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Any, ClassVar, Self

from msgspec import to_builtins
from msgspec.structs import replace

from hivecore.errors import StaleDecisionError
from hivecore.interop.kubernetes.calls import BadCall, BindReply
from hivecore.interop.kubernetes.json_text import read_json
from hivecore.interop.kubernetes.pods import PodId, RequestError
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.replies import Reply, fields_of, log_reply
from hivecore.interop.kubernetes.serving.routes import Routes
from hivecore.interop.kubernetes.serving.server import Service

__all__ = ["ExtenderService", "HttpExtender"]

_SMALL = 2**20  # bytes of a body that take less time than others may wait


class HttpExtender:
    """Answers kube-scheduler; calls take turns, but for the binder's and for pauses.

    :param binder: is given the object to bind (``kind: Binding``) and sends it to Kubernetes. What
        it raises is the answer's error. ``None``: the answer to bind has the object under
        ``Binding``, for the client that sends it.
    """

    routes: ClassVar[Routes]

    def __init__(self, binder: Callable[[dict[str, Any]], object] | None) -> None:
        self._binder = binder
        self.binds = binder is not None
        """Whether the objects that bind pods are sent."""
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

    @classmethod
    def method(cls, path: str) -> str | None:
        """The HTTP method of a path: POST where something may change, else GET; None: no path."""
        return cls.routes.method(path)

    def handle(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Answer a request.

        :param path: of the URL, decoded; "/" lists all of them.
        :param body: of the request: plain data, or the JSON of it.
        :returns: status and plain data for JSON. The status of filter, bind and preempt is always
            200; ``Error`` in their answers says what is wrong. Of the others the body of a status
            from 400 on is ``{"Error": ...}``: 400 the request makes no sense, 404 its path or name
            is unknown.
        :raises TypeError: the path is no string.
        """
        reply = self.begin(path, body)
        if reply.pause:
            time.sleep(reply.pause)
        if reply.binding is not None and self._binder is not None:
            error = None
            try:
                self._binder(reply.binding)
            except Exception as mistake:
                error = mistake
            finally:
                self.sent(reply, error)
        answer = reply.answer
        return reply.status, read_json(answer) if isinstance(answer, bytes) else to_builtins(answer)

    def begin(self, path: str, body: Any = None) -> Reply:
        """Decide on a request; what is to be done about the answer is up to the caller."""
        if not isinstance(path, str):
            raise TypeError(f"path must be a string, not {type(path).__name__}")
        route = None
        try:
            route, name = self.routes.find(path)
            answer = route.answer(self, route.call(path, name, body))
            return answer if isinstance(answer, Reply) else Reply(200, answer)
        except (BadCall, RequestError, StaleDecisionError) as error:
            if route is not None and route.reply is not None:
                return Reply(200, route.reply(error=str(error)), "error")
            status = error.status if isinstance(error, BadCall) else 400
            return Reply(status, {"Error": str(error)}, "error")

    def sent(self, reply: Reply, error: Exception | None) -> None:
        """The object that binds a pod was sent.

        :param error: why the pod is not bound; a `LookupError`: it does not exist.
        """
        if error is not None and isinstance(reply.answer, BindReply):
            reply.answer = replace(reply.answer, error=f"binding failed: {error}")
            reply.outcome = "error"


class ExtenderService(Service):
    """Answers kube-scheduler over HTTP for an extender: has pods bound, logs and counts.

    :param binder: is given the object that binds a pod; raises LookupError if the pod does not
        exist, anything else if it cannot be bound. ``None``: others bind pods.
    :param find_pod: looks up a pod in Kubernetes by namespace and name: it may be new. Raises
        LookupError if it does not exist.
    """

    def __init__(
        self,
        extender: Any,
        binder: Callable[[dict[str, Any]], Awaitable[object]] | None = None,
        find_pod: Callable[[str, str], Awaitable[dict[str, Any]]] | None = None,
    ) -> None:
        self.extender = extender
        self._binder, self._find_pod = binder, find_pod
        self.unasked: dict[str, PodId] | None = None
        """By name the new pods that no request has named; ``None``: it does not matter."""
        self.asked = -inf
        """When kube-scheduler asked last about a pod that was not touched before, by
        `time.monotonic`; -inf: never."""
        self.touched = set[str]()
        """The names of the pods that were touched as they were unasked."""
        self.reached = inf
        """When it did so for the first time; inf: never."""
        self._bindings = set[asyncio.Task[None]]()  # under way

    async def _answer(self, path: str, body: bytes, query: Mapping[str, str]) -> tuple[int, Any]:
        started = time.perf_counter()
        route, _ = self.routes.find(path)
        if route.is_slow:
            reply = await asyncio.to_thread(self.extender.begin, path, body)
            return reply.status, reply.answer
        reply = await self._begin(path, body)
        if reply.outcome == "unknown" and await self._is_new(reply):
            reply = await self._begin(path, body)
        if reply.binding is not None and self._binder is not None:
            await self._bind(reply)
        if route.verb:
            self.metrics.decided(route.verb, reply.outcome)
            log_reply(route.verb, reply, time.perf_counter() - started)
        if reply.pod is not None:
            self.note_asked(reply.pod.full)
        self._answered(reply)
        if reply.pause:
            await asyncio.sleep(reply.pause)
        return reply.status, reply.answer

    async def apply(self, events: Any) -> list[str]:
        """Apply a watch event or a list; returns what could not be applied."""
        errors: list[str] = self.extender.apply(events)
        return errors

    def note_asked(self, pod: str) -> None:
        """Note that kube-scheduler has asked about a pod."""
        if self.unasked is None:
            return
        self.unasked.pop(pod, None)
        now = time.monotonic()
        self.reached = min(self.reached, now)
        if pod not in self.touched:
            self.asked = now

    def is_ours(self, pod: dict[str, Any]) -> bool:
        """Whether kube-scheduler should ask about a pod."""
        return bool(self.extender.informer.is_ours(pod))

    async def _begin(self, path: str, body: bytes) -> Reply:
        begin: Callable[[str, bytes], Reply] = self.extender.begin
        if len(body) > _SMALL:
            return await asyncio.to_thread(begin, path, body)
        return begin(path, body)

    def _answered(self, reply: Reply) -> None:
        """A request is decided, and its pod bound."""

    async def _is_new(self, reply: Reply) -> bool:
        """Whether the pod exists: kube-scheduler may see it before the watch tells of it."""
        if self._find_pod is None or reply.pod is None:
            return False
        try:
            pod = await self._find_pod(reply.pod.namespace, reply.pod.name)
        except Exception as error:
            if not isinstance(error, LookupError):
                LOG.warning("looking up a pod: %s", error, extra={"fields": fields_of(reply)})
            return False
        await self.apply({"type": "ADDED", "object": pod})
        return not self.extender.informer.is_missing(reply.pod.identity)

    async def _bind(self, reply: Reply) -> None:
        """Bind a pod. If the request is cancelled, this goes on, so that its result is noted."""
        task = asyncio.ensure_future(self._send_and_note(reply))
        self._bindings.add(task)
        task.add_done_callback(self._bindings.discard)
        await asyncio.shield(task)

    async def _send_and_note(self, reply: Reply) -> None:
        error = None
        try:
            await self._send(reply)
        except Exception as mistake:
            error = mistake
            LOG.warning("binding failed: %s", error, extra={"fields": fields_of(reply)})
        await self._sent(reply, error)

    async def _send(self, reply: Reply) -> None:
        assert self._binder is not None and reply.binding is not None
        await self._binder(reply.binding)

    async def _sent(self, reply: Reply, error: Exception | None) -> None:
        self.extender.sent(reply, error)
