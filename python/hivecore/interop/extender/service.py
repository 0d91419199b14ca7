"""A scheduler served to kube-scheduler: pods and events act on the same jobs."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from hivecore.interop.events.recent_actions import RecentActions
from hivecore.interop.events.rounds import Round, take
from hivecore.interop.events.service import SchedulerService
from hivecore.interop.extender.claim_conditions import unready
from hivecore.interop.extender.claim_writer import (
    ClaimInDoubtError,
    ClaimTakenError,
    ClaimWriter,
)
from hivecore.interop.extender.claim_writes import ClaimWrite
from hivecore.interop.extender.claims import CLAIM
from hivecore.interop.extender.extender import PodExtender
from hivecore.interop.extender.requests import PREFIX
from hivecore.interop.kubernetes.calls import BadCall
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import PodId
from hivecore.interop.kubernetes.serving.extenders import ExtenderService
from hivecore.interop.kubernetes.serving.replies import Reply
from hivecore.interop.kubernetes.serving.routes import Routes
from hivecore.interop.kubernetes.serving.server import Service
from hivecore.scheduler import Scheduler, SchedulerEvent

__all__ = ["DevicesNotReadyError", "PodService"]

_Result = TypeVar("_Result")
_OF_CLUSTER = "add_node", "remove_node", "reconfigure", "set_quota", "set_total", "update_claims"
#: Events after which running jobs may move, which pods cannot.
_MOVING = "drain", "move", "regroup", "defragment"
#: Events after which a job that has to stop holds nothing.
_STOPPING = "finish", "cancel", "fail", "stopped"
_MOMENT = 1.0  # seconds
_UNREADY = 3.0  # seconds after which devices are looked at again
_SMALL = 256 * 1024  # bytes of a body that take less time than to hand them to a thread


class DevicesNotReadyError(Exception):
    """A pod cannot be bound before its devices are ready."""


class PodService(ExtenderService, SchedulerService):
    """A `SchedulerService` that also answers kube-scheduler, as `PodExtender` does.

    :param scheduler, actions: as in `SchedulerService`.
    :param binder, find_pod: as in `ExtenderService`; no binder: no pods are bound.
    :param others_bind: whether the client that calls the bind verb binds the pod itself.
    :param writer: writes the device claims of pods; ``None`` refuses pods with claims.
    :param scheduler_names: values of ``spec.schedulerName`` that are ours; by default
        "default-scheduler".
    :param limits: ``clock``, ``max_step``, ``fsync`` and ``snapshot_every`` of `SchedulerService`.
    """

    extender: PodExtender
    routes = Routes([*SchedulerService.routes.routes, *PodExtender.routes.routes])

    def __init__(
        self,
        scheduler: Scheduler,
        actions: RecentActions | None = None,
        *,
        binder: Callable[[dict[str, Any]], Awaitable[object]] | None = None,
        find_pod: Callable[[str, str], Awaitable[dict[str, Any]]] | None = None,
        others_bind: bool = False,
        writer: ClaimWriter | None = None,
        scheduler_names: Iterable[str] = (),
        **limits: Any,
    ) -> None:
        SchedulerService.__init__(self, scheduler, actions, **limits)
        if binder is None and not others_bind:
            binder = _refuse_to_bind
        ExtenderService.__init__(self, PodExtender(scheduler, self._tell), binder, find_pod)
        if names := frozenset(scheduler_names):
            self.extender.informer.scheduler_names = names
        self.writer = writer
        """Writes the device claims of pods."""
        if self.extender.jobs.claims is not None:
            self.extender.jobs.claims.is_written = writer is not None
        self._rounds: list[tuple[list[SchedulerEvent], Round]] = []
        self.changed = asyncio.Event()
        """Set when waiting pods should be retried, see `PodJobs.woken`."""
        self._is_amid = False  # amid events: nothing is decided yet
        self.touches = False
        """Whether these pods are touched."""
        counts = self.extender.jobs.counts
        self.metrics.add_gauge(
            "hivecore_pods",
            "Pods that are known, by state",
            ("state",),
            lambda: [((state,), number) for state, number in counts().items()],
        )

    async def _answer(self, path: str, body: bytes, query: Mapping[str, str]) -> tuple[int, Any]:
        if path not in PodExtender.routes.posted:
            return await Service._answer(self, path, body, query)
        if query:
            raise BadCall(400, f"{path} has no parameters in its URL")
        return await ExtenderService._answer(self, path, body, query)

    async def apply(self, events: Any) -> list[str]:
        """Apply a watch event or a list, as ``/v1/watch``; return what could not be applied."""
        return await self._in_turn(
            lambda: self.extender.apply(events), is_small="items" not in events
        )

    # --- turns

    async def _begin(self, path: str, body: bytes) -> Reply:
        return await self._in_turn(
            lambda: self.extender.begin(path, body), is_small=len(body) <= _SMALL
        )

    async def _in_turn(self, work: Callable[[], _Result], is_small: bool = True) -> _Result:
        """Run work that may change the scheduler, in its turn."""
        async with self._turn:
            if self.failure is not None:
                raise BadCall(503, f"not ready: {self.not_ready}")
            try:
                return work() if is_small else await asyncio.to_thread(work)
            except BadCall:
                raise
            except Exception as error:
                self._fail(error)
                raise
            finally:
                self._is_known = False
                await self._note_rounds()

    async def look(self, work: Callable[[], _Result]) -> _Result:
        """Run work that only reads the scheduler, in its turn."""
        async with self._turn:
            return work()

    def _tell(self, events: list[SchedulerEvent]) -> Round:
        if self._is_amid:
            round = take(self._scheduler, events, self._scheduler.now, decides=False)
        else:
            round = take(self._scheduler, events, self._clock.now(), self.metrics.round_took)
        self._rounds.append((events, round))
        return round

    async def _note_rounds(self) -> None:
        if self._rounds:
            await self._sync()
        rounds, self._rounds = self._rounds, []
        for events, round in rounds:
            self._note(events, round)
        if not self.touches:
            self.extender.jobs.woken.clear()
            self.extender.jobs.answered.clear()
        elif self.extender.jobs.woken:
            self.changed.set()

    async def _decided(self, events: list[SchedulerEvent]) -> Round:
        round = await super()._decided(events)
        try:
            self.extender.jobs.see(action for _, action in round.actions)
            self.extender.jobs.settle()
        except Exception as error:
            self._fail(error)
            raise
        finally:
            await self._note_rounds()
        return round

    def _applied(self, event: SchedulerEvent) -> None:
        """Count running pods again that have lost their places, before others get these."""
        if event.name in _OF_CLUSTER or _job_of(event).startswith(PREFIX):
            self._is_amid = True
            try:
                self.extender.jobs.cluster_changed()
                self.extender.informer.cluster_changed()
                self.extender.jobs.settle()
            finally:
                self._is_amid = False

    def _check(self, event: SchedulerEvent) -> None:
        if event.name in _STOPPING and self._has_to_stop(_job_of(event)):
            raise ValueError(f"{event.name}: {show(_job_of(event))} has to stop, and its pods run")
        if event.name not in _MOVING:
            return
        given = dict(event.arguments)
        named = {move.job for move in given["moves"]} if "moves" in given else None
        for job in self._scheduler:
            if job.startswith(PREFIX) and (named is None or job in named):
                status = self._scheduler.status(job)
                nodes = {pod.node for pod in status.pods if status.since is not None}
                if nodes and given.get("node", next(iter(nodes))) in nodes:
                    raise ValueError(f"{event.name}: {show(job)} runs, and pods cannot move")

    def _has_to_stop(self, job: str) -> bool:
        """Whether a job has to stop for another one, which starts once no pod of it runs."""
        if not job.startswith(PREFIX) or job not in self._scheduler:
            return False
        gang = self.extender.jobs.gang(job)
        return bool(self._scheduler.status(job).for_job) and (gang is None or gang.is_bound)

    # --- pods

    def _answered(self, reply: Reply) -> None:
        if reply.outcome == "deferred" and self.touches and reply.pod is not None:
            # kube-scheduler may not know yet that the node is free.
            asyncio.get_running_loop().call_later(_MOMENT, self._wake_pod, reply.pod)

    def _wake_pod(self, pod: PodId) -> None:
        member = self.extender.jobs.members.get(pod.identity)
        if member is not None and not member.node:
            self.extender.jobs.woken[member.job] = None
            self.changed.set()

    async def _send(self, reply: Reply) -> None:
        pod = reply.pod
        assert pod is not None
        claims = [await self._reserve(write, pod) for write in reply.claims]
        for write, claim in zip(reply.claims, claims, strict=True):
            await self._check_ready(write, claim, pod)
        await super()._send(reply)

    async def _reserve(self, write: ClaimWrite, pod: PodId) -> dict[str, Any]:
        """Write a claim's devices and the pod, and return the claim."""
        assert self.writer is not None
        try:
            claim = await self.writer.reserve(write, pod)
        except (ClaimTakenError, ClaimInDoubtError) as error:
            await self.note_claim(error.claim)
            raise
        await self._in_turn(partial(self.extender.written, write, claim))
        return claim

    async def _check_ready(self, write: ClaimWrite, claim: dict[str, Any], pod: PodId) -> None:
        """Raise an error if the devices of a claim are not ready; kube-scheduler tries again."""
        known = unready(claim, time.time())
        if known is None:
            return
        if known.is_over:
            assert self.writer is not None
            is_waiting = self.extender.jobs.is_waiting  # but for the pod that is being bound
            claim = await self.writer.give_up(
                write.claim, lambda uid: uid == pod.uid or is_waiting(uid)
            )
            await self.note_claim(claim)
            raise ClaimTakenError(claim, f"needs other devices: {known.reason}")
        if self.touches:
            asyncio.get_running_loop().call_later(_UNREADY, self._wake_pod, pod)
        raise DevicesNotReadyError(f"the claim {show(write.claim)} waits: {known.reason}")

    async def note_claim(self, claim: dict[str, Any]) -> None:
        """Store a claim as the API server has it."""
        await self.apply({"type": "MODIFIED", "object": {**claim, "kind": CLAIM}})

    async def _sent(self, reply: Reply, error: Exception | None) -> None:
        if error is not None:
            await self._in_turn(lambda: self.extender.sent(reply, error))


def _job_of(event: SchedulerEvent) -> str:
    job = dict(event.arguments).get("job", "")
    return job if isinstance(job, str) else job.name


async def _refuse_to_bind(binding: dict[str, Any]) -> None:
    ways = "--kubeconfig, --in-cluster, --binder or --no-bind"
    raise RuntimeError(f"pods cannot be bound: start the server with {ways}")
