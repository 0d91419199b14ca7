"""The extender as a service: it answers, has pods bound, logs and counts what it does."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from hivecore.interop.hived.serving.extender import Extender
from hivecore.interop.kubernetes.json_text import write_json
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.metrics import Metrics
from hivecore.interop.kubernetes.serving.replies import Reply, fields_of, log_reply

__all__ = ["HivedService"]

_VERBS = {f"/v1/extender/{verb}": verb for verb in ("filter", "bind", "preempt")}
_FILTER = "/v1/extender/filter"


class HivedService:
    """Answers kube-scheduler over HTTP for an `Extender`.

    :param binder: is given the object that binds a pod; raises LookupError if there is no such
        pod, anything else if it cannot be bound. ``None``: somebody else binds pods.
    :param find_pod: asks Kubernetes for a pod by namespace and name: it may be new. Raises
        LookupError where there is none.
    """

    def __init__(
        self,
        extender: Extender,
        binder: Callable[[dict[str, Any]], Awaitable[object]] | None = None,
        find_pod: Callable[[str, str], Awaitable[dict[str, Any]]] | None = None,
    ) -> None:
        self.extender = extender
        extender.binds = binder is not None
        self._binder = binder
        self._find_pod = find_pod
        self.not_ready = ""
        """Why requests cannot be answered yet; "": they can."""
        self.changed = asyncio.Event()
        """Set when something may have become free, or pods may be due."""
        self._gains = 0
        self._sending: set[asyncio.Task[None]] = set()
        self.metrics = Metrics(
            (*_VERBS, "/v1/watch"),
            (
                (
                    "hivecore_waiting_pods",
                    "Pods that asked and could not be bound",
                    (),
                    lambda: [((), len(extender.waiting))],
                ),
                (
                    "hivecore_leaf_cells",
                    "Leaf cells (GPUs) in use, by virtual cluster",
                    ("virtual_cluster", "guaranteed"),
                    self._used,
                ),
            ),
        )

    def _used(self) -> Iterator[tuple[tuple[str, ...], float]]:
        for vc, (sure, unsure) in self.extender.scheduler.used_leaf_cells().items():
            yield (vc, "true"), sure
            yield (vc, "false"), unsure

    def method(self, path: str) -> str | None:
        """The HTTP method of a path: see `Extender.method`."""
        return self.extender.method(path)

    async def answer(
        self, path: str, body: bytes, query: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """The status, and JSON: see `Extender.handle`; no path has a query."""
        if path.startswith("/v1/inspect"):
            return await asyncio.to_thread(self.extender.inspect_json, path)
        started = time.perf_counter()
        extender = self.extender
        reply = extender.begin(path, body)
        if reply.outcome == "unknown" and self._find_pod is not None and await self._is_new(reply):
            reply = extender.begin(path, body)
        if reply.binding is not None and self._binder is not None:
            if path == _FILTER:
                self._send_meanwhile(reply)
            else:
                await self._send(reply)
        if path in _VERBS:
            verb = _VERBS[path]
            self.metrics.decided(verb, reply.outcome)
            log_reply(verb, reply, time.perf_counter() - started)
            if reply.outcome == "deferred":
                self.changed.set()
        self.look_for_gains()
        if reply.pause:
            await asyncio.sleep(reply.pause)
        return reply.status, write_json(reply.answer)

    def look_for_gains(self) -> None:
        """Notice that something may have become free."""
        gains = self.extender.informer.gains
        if gains != self._gains:
            self._gains = gains
            self.changed.set()

    async def _is_new(self, reply: Reply) -> bool:
        """Whether the pod exists: kube-scheduler may hear of it before anybody else."""
        assert self._find_pod is not None
        try:
            pod = await self._find_pod(reply.pod["namespace"], reply.pod["name"])
        except Exception as error:
            if not isinstance(error, LookupError):
                LOG.warning("asking for a pod: %s", error, extra={"fields": fields_of(reply)})
            return False
        self.extender.apply({"type": "ADDED", "object": pod})
        return not self.extender.informer.is_missing(reply.pod["uid"])

    async def _send(self, reply: Reply) -> None:
        assert self._binder is not None and reply.binding is not None
        try:
            await self._binder(reply.binding)
        except Exception as error:
            self.extender.failed(reply, error)
            LOG.warning("binding failed: %s", error, extra={"fields": fields_of(reply)})

    def _send_meanwhile(self, reply: Reply) -> None:
        """Bind a pod that kube-scheduler does not get bound; it need not wait for that."""
        self.metrics.happened("forced_bind")
        task = asyncio.get_running_loop().create_task(self._send(reply))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
