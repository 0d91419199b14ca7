"""What connects a service with a Kubernetes cluster: it watches objects, and touches pods.

kube-scheduler tries a pod again when a node or pod has changed, often before the service has heard
of it. So pods for which there may be something are touched: an annotation of theirs is changed, and
kube-scheduler asks for them. A pod about which it asked while no service answered may be tried
again after a minute or more: after a start pods are touched until they are asked about. While it
asks about one pod after the other it is at its queue, and touches would only get in its way.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from math import inf
from typing import Any

from hivecore.interop.kubernetes.client.api_server import ApiError, ApiServer
from hivecore.interop.kubernetes.client.evictor import Evictor
from hivecore.interop.kubernetes.client.reflector import Reflector
from hivecore.interop.kubernetes.informer import mapping_in
from hivecore.interop.kubernetes.pods import PodId
from hivecore.interop.kubernetes.serving.extenders import ExtenderService
from hivecore.interop.kubernetes.serving.logs import LOG

__all__ = ["RETRY", "ClusterLink"]

RETRY = "hivecore.io/retry"
"""The annotation by which waiting pods are touched."""
_AT_ONCE = 16
_PAUSE = 1.0  # seconds between two rounds of what is done again and again
_UNASKED_AFTER = 0.0, 1.0, 2.0, 4.0, 8.0  # seconds between touches
_MOST_UNASKED = 1000  # pods that are touched then
_LATE = 1.0  # seconds by which the watch may be behind kube-scheduler
_QUIET, _MOST_QUIET = 0.25, 10.0  # seconds without a question, and how long they are waited for


class ClusterLink:
    """Follows objects of a cluster for a service; a subclass touches its pods.

    :param service: its requests may be answered from `listed` on.
    :param paths: of the lists, by the kind of their objects; what comes last, the pods, is listed
        when all the others are known.
    :param optional: the kinds that the cluster need not have.
    :param evict_after: seconds from when a pod becomes a victim until it is evicted; inf: never.
    """

    _gone: tuple[int, ...] = (404,)
    """The statuses by which the touch of a pod is refused that does not exist."""

    def __init__(
        self,
        service: ExtenderService,
        api: ApiServer,
        paths: Mapping[str, str],
        optional: Iterable[str] = (),
        evict_after: float = inf,
    ) -> None:
        self._service, self._api = service, api
        self._news: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._touching = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[object]] = set()
        self._evictor: Evictor | None = None
        if evict_after < inf:
            pods, metrics = service.extender.informer.pods, service.metrics
            self._evictor = Evictor(api, pods, metrics, evict_after)
        put = self._news.put_nowait
        self.reflectors = [
            Reflector(api, path, kind, put, LOG.warning, is_optional=kind in optional)
            for kind, path in paths.items()
        ]
        service.metrics.add_gauge(
            "hivecore_watch_silence_seconds",
            "Time since a watch said something; it does so once a minute at least",
            ("path",),
            lambda: [
                ((reflector.path,), time.monotonic() - reflector.heard)
                for reflector in self.reflectors
            ],
        )
        service.metrics.add_gauge(
            "hivecore_lists",
            "How often everything was listed",
            ("path",),
            lambda: [((reflector.path,), reflector.lists) for reflector in self.reflectors],
        )

    async def listed(self) -> None:
        """Return when all objects are known; `run` has to be under way."""
        for reflector in self.reflectors:
            await reflector.listed.wait()
        await self._news.join()

    async def run(self) -> None:
        """Follow the cluster for ever."""
        try:
            async with asyncio.TaskGroup() as group:
                for reflector in self.reflectors[:-1]:
                    group.create_task(reflector.run())
                group.create_task(self._follow_last())
                works = [self._follow(), self._touch(), self._touch_unasked(), *self._more()]
                if self._evictor is not None:
                    works.append(self._again_and_again(self._evict))
                for work in works:
                    group.create_task(work)
        finally:
            # Touches that are under way need the connection, which is closed next.
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow_last(self) -> None:
        for reflector in self.reflectors[:-1]:
            await reflector.listed.wait()
        await self.reflectors[-1].run()

    def _note_unasked(self, news: dict[str, Any]) -> None:
        """Note pods that wait: kube-scheduler may have asked about them before."""
        unasked = self._service.unasked
        is_reached = time.monotonic() > self._service.reached + _LATE
        if unasked is None or ("type" in news and is_reached):
            return  # kube-scheduler asks us about a pod that is new
        for pod in _waiting_pods(news):
            if len(unasked) < _MOST_UNASKED and self._service.is_ours(pod):
                identity = PodId.read(pod)
                unasked[identity.full] = identity

    async def _touch_unasked(self) -> None:
        self._service.unasked = unasked = dict[str, PodId]()
        await self.listed()
        for pause in _UNASKED_AFTER:
            await asyncio.sleep(pause)
            latest = time.monotonic() + _MOST_QUIET
            while not self._is_quiet(latest):
                await asyncio.sleep(_QUIET)
            for pod in list(unasked.values()):
                waits = partial(self._is_left_out, pod, latest)
                self._meanwhile(self._touch_in_turn(pod, waits))
        self._service.unasked = None
        self._service.touched.clear()

    def _is_quiet(self, latest: float) -> bool:
        """Whether kube-scheduler has stopped asking, or it is too late to wait for that."""
        return time.monotonic() >= min(self._service.asked + _QUIET, latest)

    def _is_left_out(self, pod: PodId, latest: float) -> bool:
        """Whether kube-scheduler seems to have forgotten a pod, which is noted as touched then."""
        is_left_out = pod.full in (self._service.unasked or ()) and self._is_quiet(latest)
        if is_left_out:
            self._service.touched.add(pod.full)
        return is_left_out

    async def _touch_in_turn(self, pod: PodId, waits: Callable[[], bool] = lambda: True) -> bool:
        """Touch a pod if it still waits when its turn comes; False: it does not exist."""
        async with self._touching:
            return not waits() or await self._touch_one(pod)

    async def _touch(self) -> None:
        """Have pods tried again for which there may be something, for ever."""
        raise NotImplementedError

    async def _again_and_again(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(_PAUSE)
            await work()

    async def _evict(self) -> None:
        await self.listed()
        while await self.evict_victims(time.monotonic()):
            pass

    async def evict_victims(self, now: float) -> bool:
        """Evict some of the victims that are due; see `Evictor.evict`."""
        if self._evictor is None:
            return False
        return await self._evictor.evict(await self._victims(), now)

    async def _victims(self) -> Mapping[str, str]:
        """The running pods that have to stop for others, by identity, each with the reason."""
        return {}

    def _more(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What else is to run beside."""
        return ()

    def _seen(self, news: dict[str, Any]) -> None:
        """An event or a list was applied."""

    async def _follow(self) -> None:
        while True:
            news = await self._news.get()
            for mistake in await self._service.apply(news):
                LOG.warning("not taken up: %s", mistake)
            self._note_unasked(news)
            self._seen(news)
            self._news.task_done()

    def _meanwhile(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _touch_one(self, pod: PodId) -> bool:
        """Touch a pod; whether it exists."""
        stamp = {RETRY: str(time.time_ns() // 1_000_000)}
        try:
            await self._api.touch(pod, stamp)
            self._service.metrics.happened("touched_pod")
        except ApiError as error:
            if error.status in self._gone:
                return False
            LOG.warning("pod %s is not tried again: %s", pod.full, error)
        return True


def _waiting_pods(news: dict[str, Any]) -> list[dict[str, Any]]:
    """The pods of a list, or of the event that there is a new one, which are not bound."""
    pods = news["items"] if news.get("kind") == "PodList" else []
    if news.get("type") == "ADDED" and news["object"]["kind"] == "Pod":
        pods = [news["object"]]
    return [
        pod
        for pod in pods
        if not mapping_in(pod, "spec").get("nodeName")
        if mapping_in(pod, "status").get("phase") not in ("Succeeded", "Failed")
    ]
