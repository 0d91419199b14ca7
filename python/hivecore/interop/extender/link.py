"""What connects a `PodService` with a Kubernetes cluster.

What exists is watched. kube-scheduler tries a pod again when a node or pod has changed, which says
little about its job: so the pods of a job that starts, or for which others have to go, are touched,
that is an annotation of theirs is changed, and kube-scheduler asks for them.
"""

import asyncio
import time
from typing import Any

from hivecore.interop.extender.gangs import Member
from hivecore.interop.extender.service import PodService
from hivecore.interop.koordinator.gangs.names import KIND, VERSIONS, X_KIND
from hivecore.interop.kubernetes.client.api_server import ApiError, ApiServer
from hivecore.interop.kubernetes.client.reflector import Reflector
from hivecore.interop.kubernetes.serving.logs import LOG

__all__ = ["RETRY", "PodLink"]

RETRY = "hivecore.io/retry"
"""The annotation by which waiting pods are touched."""
_PATHS = {
    "Node": "/api/v1/nodes",
    **{kind: f"/apis/{api}/podgroups" for kind, api in zip((KIND, X_KIND), VERSIONS, strict=True)},
    "Pod": "/api/v1/pods",
}
_AT_ONCE = 16
_AFTER_CHANGES = 0.005  # seconds: changes come in bursts
_LEAST = 1.0  # seconds between two touches of a pod


class PodLink:
    """Follows nodes, PodGroups and pods of a cluster for a service, and touches pods.

    :param service: its requests may be answered from `listed` on.
    """

    def __init__(self, service: PodService, api: ApiServer) -> None:
        self._service = service
        service.touches = True
        self._api = api
        self._news: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._touching = asyncio.Semaphore(_AT_ONCE)
        self._touched: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.reflectors = [
            Reflector(
                api,
                path,
                kind,
                self._news.put_nowait,
                LOG.warning,
                is_optional=kind in (KIND, X_KIND),
            )
            for kind, path in _PATHS.items()
        ]
        service.metrics.add_gauges(
            [
                (
                    "hivecore_watch_silence_seconds",
                    "Time since a watch said something; it does so once a minute at least",
                    ("path",),
                    lambda: [((r.path,), time.monotonic() - r.heard) for r in self.reflectors],
                )
            ]
        )

    async def listed(self) -> None:
        """Return when all that there is is known; `run` has to be under way."""
        for reflector in self.reflectors:
            await reflector.listed.wait()
        await self._news.join()

    async def run(self) -> None:
        """Go on for ever."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run())
            group.create_task(self._follow())
            group.create_task(self._touch())

    async def _follow(self) -> None:
        while True:
            news = await self._news.get()
            for mistake in await self._service.apply(news):
                LOG.warning("not taken up: %s", mistake)
            self._news.task_done()

    async def _touch(self) -> None:
        """Have pods tried again for which there may be something."""
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
                for pod in jobs.pods_of(job):
                    task = asyncio.create_task(self._touch_one(pod))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

    async def _touch_one(self, pod: Member) -> None:
        namespace, _, name = pod.name.partition("/")
        uid = "" if pod.identity == pod.name else pod.identity
        # One that was touched just now has perhaps not heard of this.
        await asyncio.sleep(self._touched.get(pod.identity, 0.0) + _LEAST - time.monotonic())
        self._touched[pod.identity] = time.monotonic()
        stamp = {RETRY: str(time.time_ns() // 1_000_000)}
        try:
            async with self._touching:
                await self._api.touch(namespace, name, uid, annotations=stamp)
            self._service.metrics.happened("touched_pod")
        except ApiError as error:
            if error.status != 404:
                LOG.warning("pod %s is not tried again: %s", pod.name, error)
