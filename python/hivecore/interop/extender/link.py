"""Connects a `PodService` with a Kubernetes cluster.

When a job starts or has victims, it touches those pods of the job that it refused before, so that
kube-scheduler retries them. kube-scheduler asks about the others by itself.

kube-scheduler evicts victims only for a resource that it counts itself, and only those of a lower
priority class; the others are evicted here, a while after their job had to stop.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable
from functools import partial
from math import inf
from typing import Any

from hivecore.interop.extender.claims import KINDS
from hivecore.interop.extender.gang_objects import GANG_KINDS
from hivecore.interop.extender.gang_reports import GangReports
from hivecore.interop.extender.gangs import Member
from hivecore.interop.extender.service import PodService
from hivecore.interop.kubernetes.client.api_server import ApiError, ApiServer
from hivecore.interop.kubernetes.client.link import ClusterLink
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.serving.logs import LOG

__all__ = ["EVICT_AFTER", "PodLink"]

EVICT_AFTER = 5.0
"""Seconds from when a job has to stop until its pods are evicted."""

_AFTER_CHANGES = 0.005  # seconds: changes come in bursts
_LEAST = 1.0  # seconds between two touches of a pod, or two attempts to evict it
_LONGEST = 60.0
_AT_ONCE = 16


class PodLink(ClusterLink):
    """Follows nodes, pods and definitions of gangs for a service, touches pods and evicts victims.

    :param evict_after: seconds from when a job has to stop until its pods are evicted; inf: never.
    """

    _service: PodService

    def __init__(
        self, service: PodService, api: ApiServer, evict_after: float = EVICT_AFTER
    ) -> None:
        kinds = {} if service.extender.jobs.claims is None else KINDS
        groups = {name: kind.path() for name, kind in GANG_KINDS.items()}
        paths = {"Node": "/api/v1/nodes", **groups, **kinds, "Pod": "/api/v1/pods"}
        rules = (kind for kind in kinds if "." in kind)
        super().__init__(service, api, paths, (*groups, *rules))
        service.touches = True
        self._touched: dict[str, float] = {}
        self._evict_after = evict_after
        self._evictions: dict[str, tuple[float, float]] = {}  # victim -> when, and the pause after
        self._reports = GangReports(api, service)

    async def _touch(self) -> None:
        service = self._service
        while True:
            await service.changed.wait()
            await asyncio.sleep(_AFTER_CHANGES)
            service.changed.clear()
            jobs = service.extender.jobs
            woken, jobs.woken = jobs.woken, {}
            now = time.monotonic()
            self._touched = {p: at for p, at in self._touched.items() if at > now - _LEAST}
            for job in woken:
                for pod in jobs.refused_of(job):
                    self._meanwhile(self._touch_when_due(pod))

    def _more(self) -> Iterable[Coroutine[Any, Any, None]]:
        more = () if self._service.extender.jobs.claims is None else (self._clear(),)
        return (*more, self._report(), self._evict())

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_LEAST)
            await self._reports.write()

    async def _clear(self) -> None:
        while True:
            await asyncio.sleep(_LEAST)
            await self.clear_claims()

    async def _evict(self) -> None:
        while True:
            await asyncio.sleep(_LEAST)
            while await self.evict_victims(time.monotonic()):
                pass

    async def evict_victims(self, now: float) -> bool:
        """Evict some of the victims that are due; return whether there were any.

        :param now: seconds of a clock that does not go back.
        """
        leaving = await self._service.look(self._service.extender.jobs.leaving)
        first = now + self._evict_after, _LEAST
        self._evictions = {pod: self._evictions.get(pod, first) for pod in leaving}
        due = [pod for pod, (at, _) in self._evictions.items() if at <= now][:_AT_ONCE]
        await asyncio.gather(*(self._evict_one(*leaving[pod], now) for pod in due))
        return bool(due)

    async def _evict_one(self, victim: Member, job: str, now: float) -> None:
        pod, (_, pause) = victim.pod, self._evictions[victim.identity]
        self._evictions[victim.identity] = now + pause, min(2 * pause, _LONGEST)
        try:
            await self._api.evict(pod)
        except ApiError as error:
            if error.status == 404:
                self._evictions[victim.identity] = inf, pause
            elif pause == _LEAST:
                LOG.warning("pod %s is not evicted yet, for %s: %s", pod.full, job, error)
            return
        self._evictions[victim.identity] = inf, pause
        self._service.metrics.happened("evicted_pod")
        message = f"its job {show(victim.job)} has to stop for {show(job)}"
        LOG.info("pod %s is evicted: %s", pod.full, message)
        await self._reports.write_event(pod, "Evicted", False, message)

    async def clear_claims(self) -> None:
        """Remove the devices from claims whose pods all wait for other devices."""
        jobs, writer = self._service.extender.jobs, self._service.writer
        assert jobs.claims is not None and writer is not None
        for name in list(jobs.claims.stale):
            try:
                claim = await writer.clear(name, partial(jobs.is_stale, name))
            except ApiError as error:
                LOG.warning("claim %s keeps devices that its pods do not use: %s", name, error)
                continue
            jobs.claims.stale.pop(name, None)
            if claim is not None:
                await self._service.note_claim(claim)

    async def _touch_when_due(self, pod: Member) -> None:
        # kube-scheduler may not have processed a touch of a moment ago.
        await asyncio.sleep(self._touched.get(pod.identity, 0.0) + _LEAST - time.monotonic())
        waits = partial(self._service.extender.jobs.refused.__contains__, pod.identity)
        if waits():
            self._touched[pod.identity] = time.monotonic()
            await self._touch_in_turn(pod.pod, waits)
