"""A scheduler as a service for kube-scheduler, too: pods beside events, the same jobs for both."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from hivecore.interop.events.rounds import Round, take
from hivecore.interop.events.service import MAX_STEP, Fsync, SchedulerService
from hivecore.interop.events.told import ToldActions
from hivecore.interop.extender.extender import PATHS, WATCH, PodExtender
from hivecore.interop.hived.pods import identify
from hivecore.interop.kubernetes.calls import BadCall
from hivecore.interop.kubernetes.json_text import write_json
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.replies import Reply, fields_of, log_reply
from hivecore.scheduler import Scheduler, SchedulerEvent

__all__ = ["PodService"]

_Made = TypeVar("_Made")
_MOMENT = 1.0  # seconds
_SMALL = 256 * 1024  # bytes of a body that take less time than to hand them to a thread
_NO_QUERY: Mapping[str, str] = MappingProxyType({})
_NOBODY = (
    "nobody binds pods: start the server with --kubeconfig, --in-cluster, --binder or --no-bind"
)


class PodService(SchedulerService):
    """Answers as `SchedulerService`, and kube-scheduler as `PodExtender`.

    :param scheduler: as of `SchedulerService`; so are ``told``, ``clock``, ``max_step``, ``fsync``
        and ``snapshot_every``.
    :param binder: is given the object that binds a pod; raises LookupError if there is no such
        pod, anything else if it cannot be bound. ``None``: nobody binds pods here.
    :param find_pod: asks Kubernetes for a pod by namespace and name: it may be new. Raises
        LookupError where there is none.
    :param others_bind: whether whoever calls the bind verb binds the pod.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        told: ToldActions | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        max_step: float = MAX_STEP,
        fsync: Fsync = "never",
        snapshot_every: int = 0,
        binder: Callable[[dict[str, Any]], Awaitable[object]] | None = None,
        find_pod: Callable[[str, str], Awaitable[dict[str, Any]]] | None = None,
        others_bind: bool = False,
    ) -> None:
        super().__init__(scheduler, told, clock, max_step, fsync, snapshot_every)
        self.extender = PodExtender(scheduler, self._tell)
        self._binder, self._find_pod = binder, find_pod
        self._nobody_binds = binder is None and not others_bind
        self._rounds: list[tuple[list[SchedulerEvent], Round]] = []
        self.changed = asyncio.Event()
        """Set when there may be something for pods that wait: see `PodJobs.woken`."""
        self.touches = False
        """Whether somebody touches these pods."""
        counts = self.extender.jobs.counts
        self.metrics.add_gauges(
            [
                (
                    "hivecore_pods",
                    "Pods that are known, by state",
                    ("state",),
                    lambda: [((state,), number) for state, number in counts().items()],
                )
            ]
        )

    def method(self, path: str) -> str | None:
        """The HTTP method of a path, "POST" or "GET"; None: there is no such path."""
        return "POST" if path in PATHS else super().method(path)

    async def answer(
        self, path: str, body: bytes, query: Mapping[str, str] = _NO_QUERY
    ) -> tuple[int, bytes]:
        """The status, and JSON; of a status from 400 on it is ``{"Error": ...}``."""
        if path not in PATHS:
            return await super().answer(path, body, query)
        started = time.perf_counter()
        try:
            if query:
                raise BadCall(400, f"{path} has no parameters in its URL")
            reply = await self._ask(path, body)
            if reply.outcome == "unknown" and await self._is_new(reply):
                reply = await self._ask(path, body)
        except BadCall as error:
            return error.status, write_json({"Error": str(error)})
        if reply.binding is not None:
            await self._bind(reply)
        if reply.outcome == "deferred" and self.touches:
            # kube-scheduler may just not have heard that the node is free.
            asyncio.get_running_loop().call_later(_MOMENT, self._wake_pod, reply.pod)
        if path != WATCH:
            verb = path.rpartition("/")[2]
            self.metrics.decided(verb, reply.outcome)
            log_reply(verb, reply, time.perf_counter() - started)
        return reply.status, write_json(reply.answer)

    async def apply(self, events: Any) -> list[str]:
        """Apply a watch event or a list, as ``/v1/watch``; returns what could not be applied."""

        def applied() -> list[str]:
            mistakes = self.extender.informer.apply(events)
            self.extender.jobs.settle()
            return mistakes

        return await self._in_turn(applied, is_small="items" not in events)

    # --- turns

    async def _ask(self, path: str, body: bytes) -> Reply:
        return await self._in_turn(
            lambda: self.extender.begin(path, body), is_small=len(body) <= _SMALL
        )

    async def _in_turn(self, work: Callable[[], _Made], is_small: bool = True) -> _Made:
        """Do something with pods that may change the scheduler, when it is our turn."""
        async with self._turn:
            if self.failure is not None:
                raise BadCall(503, f"not ready: {self.not_ready}")
            self._is_known = False
            try:
                return work() if is_small else await asyncio.to_thread(work)
            except BadCall:
                raise
            except Exception as error:
                self._fail(error)
                raise
            finally:
                if self._rounds:
                    await self._sync()
                self._note_rounds()

    def _tell(self, events: list[SchedulerEvent]) -> Round:
        found = take(self._scheduler, events, self._clock.now(), self.metrics.round_took)
        self._rounds.append((events, found))
        return found

    def _note_rounds(self) -> None:
        rounds, self._rounds = self._rounds, []
        for events, found in rounds:
            self._note(events, found)
        if not self.touches:
            self.extender.jobs.woken.clear()
        elif self.extender.jobs.woken:
            self.changed.set()

    async def _decided(self, events: list[SchedulerEvent]) -> Round:
        found = await super()._decided(events)
        try:
            self.extender.jobs.see(action for _, action in found.actions)
            self.extender.jobs.settle()
        except Exception as error:
            self._fail(error)
            raise
        finally:
            if self._rounds:
                await self._sync()
            self._note_rounds()
        return found

    # --- pods

    def _wake_pod(self, pod: Mapping[str, str]) -> None:
        member = self.extender.jobs.members.get(identify(pod)[0])
        if member is not None and not member.node:
            self.extender.jobs.woken[member.job] = None
            self.changed.set()

    async def _is_new(self, reply: Reply) -> bool:
        """Whether the pod exists: kube-scheduler may hear of it before anybody else."""
        if self._find_pod is None:
            return False
        try:
            pod = await self._find_pod(reply.pod["namespace"], reply.pod["name"])
        except Exception as error:
            if not isinstance(error, LookupError):
                LOG.warning("asking for a pod: %s", error, extra={"fields": fields_of(reply)})
            return False
        await self.apply({"type": "ADDED", "object": pod})
        return not self.extender.informer.is_missing(reply.pod["uid"])

    async def _bind(self, reply: Reply) -> None:
        try:
            if self._nobody_binds:
                raise RuntimeError(_NOBODY)
            if self._binder is not None:
                await self._binder(reply.binding or {})
        except Exception as mistake:
            error = mistake
            LOG.warning("binding failed: %s", error, extra={"fields": fields_of(reply)})
            await self._in_turn(lambda: self.extender.failed(reply, error))
