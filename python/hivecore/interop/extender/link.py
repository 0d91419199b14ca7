"""Connects a `PodService` with a Kubernetes cluster.

When a job starts or has victims, it touches those pods of the job that it refused before, so that
kube-scheduler retries them. kube-scheduler asks about the others by itself.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

from hivecore.interop.extender.claims import KINDS
from hivecore.interop.extender.gang_objects import GANG_KINDS
from hivecore.interop.extender.gang_reports import GangReports
from hivecore.interop.extender.gangs import Member
from hivecore.interop.extender.service import PodService
from hivecore.interop.kubernetes.client.api_server import ApiError, ApiServer
from hivecore.interop.kubernetes.client.evictor import EVICT_AFTER
from hivecore.interop.kubernetes.client.link import ClusterLink
from hivecore.interop.kubernetes.serving.logs import LOG

__all__ = ["PodLink"]

_AFTER_CHANGES = 0.005  # seconds: changes come in bursts
_LEAST = 1.0  # seconds between two touches of a pod


class PodLink(ClusterLink):
    """Follows nodes, pods and definitions of gangs for a service, touches pods and evicts victims.

    :param evict_after: see `ClusterLink`.
    """

    _service: PodService

    def __init__(
        self, service: PodService, api: ApiServer, evict_after: float = EVICT_AFTER
    ) -> None:
        kinds = {} if service.extender.jobs.claims is None else KINDS
        groups = {name: kind.path() for name, kind in GANG_KINDS.items()}
        paths = {"Node": "/api/v1/nodes", **groups, **kinds, "Pod": "/api/v1/pods"}
        rules = (kind for kind in kinds if "." in kind)
        super().__init__(service, api, paths, (*groups, *rules), evict_after=evict_after)
        service.touches = True
        self._touched: dict[str, float] = {}
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
        works = [self._reports.write]
        if self._service.extender.jobs.claims is not None:
            works += [self.clear_claims, self.end_doubts]
        return map(self._again_and_again, works)

    async def _victims(self) -> Mapping[str, str]:
        return await self._service.look(self._service.extender.jobs.leaving)

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

    async def end_doubts(self) -> None:
        """Make sure that no write of a claim in doubt can arrive, so that its devices are free."""
        claims, writer = self._service.extender.jobs.claims, self._service.writer
        assert claims is not None and writer is not None
        for name in claims.in_doubt:
            try:
                claim = await writer.outdate(name, partial(claims.is_in_doubt, name))
            except ApiError as error:
                LOG.warning("claim %s may still get devices: %s", name, error)
                continue
            if claim is not None:
                await self._service.note_claim(claim)

    async def _touch_when_due(self, pod: Member) -> None:
        # kube-scheduler may not have processed a touch of a moment ago.
        await asyncio.sleep(self._touched.get(pod.identity, 0.0) + _LEAST - time.monotonic())
        waits = partial(self._service.extender.jobs.refused.__contains__, pod.identity)
        if waits():
            self._touched[pod.identity] = time.monotonic()
            await self._touch_in_turn(pod.pod, waits)
