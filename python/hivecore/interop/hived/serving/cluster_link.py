"""What connects the extender with a Kubernetes cluster: what exists is watched, pods that wait are
touched when there is something for them, and nodes advertise their leaf cells.

kube-scheduler evicts pods only for a resource of nodes that is exhausted. Nodes with cells have one
of our own, ``hivecore.io/leaf-cell``; kubelet makes what is written into a node's capacity
allocatable.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hivecore.interop.hived.pods import identify
from hivecore.interop.hived.serving.service import HivedService
from hivecore.interop.hived.serving.waiting import WaitingPod
from hivecore.interop.kubernetes.client.api_server import MERGE, ApiError, ApiServer
from hivecore.interop.kubernetes.client.reflector import Reflector
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.interop.kubernetes.serving.metrics import Gauge

__all__ = ["LEAF_CELL", "RETRY", "ClusterLink"]

LEAF_CELL = "hivecore.io/leaf-cell"
"""The resource of nodes that stands for their leaf cells."""
RETRY = "hivecore.io/retry"
"""The annotation by which waiting pods are touched."""
_PARTS = ("capacity", "allocatable")
_AT_ONCE = 16
_REST = 4
_AFTER_GAINS = 0.005  # seconds: changes come in bursts


class ClusterLink:
    """Follows pods and nodes of a cluster for a service, and acts on them.

    :param service: whose extender is told; its requests may be answered from `listed` on.
    :param advertise: whether nodes are to advertise their leaf cells.
    """

    def __init__(self, service: HivedService, api: ApiServer, advertise: bool = True) -> None:
        self._service = service
        service.extender.touches = True
        self._api = api
        self._advertise = advertise
        self._cells = self._configured()
        self._patches: asyncio.Queue[tuple[str, str | None]] = asyncio.Queue()
        self._touching = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self.reflectors = [
            Reflector(api, f"/api/v1/{kind.lower()}s", kind, apply, LOG.warning)
            for kind, apply in (("Node", self._see_nodes), ("Pod", self._see_pods))
        ]

    async def listed(self) -> None:
        """Return when all nodes and pods have been listed once; `run` has to be under way."""
        for reflector in self.reflectors:
            await reflector.listed.wait()

    async def run(self) -> None:
        """Go on for ever."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run())
            group.create_task(self._touch())
            for _ in range(_AT_ONCE):
                group.create_task(self._patch_nodes())

    def gauges(self) -> tuple[Gauge, ...]:
        """What is to be measured of it."""
        return (
            (
                "hivecore_watch_silence_seconds",
                "Time since a watch said something; it does so once a minute at least",
                ("path",),
                lambda: [((one.path,), time.monotonic() - one.heard) for one in self.reflectors],
            ),
            (
                "hivecore_lists",
                "How often everything was listed",
                ("path",),
                lambda: [((one.path,), one.lists) for one in self.reflectors],
            ),
        )

    # --- what is seen

    def _see_pods(self, events: dict[str, Any]) -> None:
        for mistake in self._service.extender.apply(events):
            LOG.warning("a pod is not taken up: %s", mistake)
        self._service.look_for_gains()

    def _see_nodes(self, events: dict[str, Any]) -> None:
        for mistake in self._service.extender.apply(events):
            LOG.warning("a node is not taken up: %s", mistake)
        self._service.look_for_gains()
        if self._advertise:
            nodes = events["items"] if "items" in events else [events["object"]]
            for node in nodes if events.get("type") != "DELETED" else ():
                self._compare(node)

    # --- leaf cells as a resource

    def _compare(self, node: Mapping[str, Any]) -> None:
        name = node["metadata"]["name"]
        cells = self._cells.get(name)
        status = node.get("status") or {}
        known = {part: (status.get(part) or {}).get(LEAF_CELL) for part in _PARTS}
        if known != dict.fromkeys(_PARTS, cells):
            self._patches.put_nowait((name, cells))

    def advertise_again(self) -> None:
        """Another configuration is in force: advertise what has changed."""
        before, self._cells = self._cells, self._configured()
        if self._advertise:
            for name in {*self._cells, *before}:
                if self._cells.get(name) != before.get(name):
                    self._patches.put_nowait((name, self._cells.get(name)))

    def _configured(self) -> dict[str, str]:
        """Leaf cells by node, as they are advertised."""
        cells = self._service.extender.scheduler.leaf_cells_by_node()
        return {name: str(number) for name, number in cells.items()}

    async def _patch_nodes(self) -> None:
        while True:
            name, cells = await self._patches.get()
            patch = {"status": {part: {LEAF_CELL: cells} for part in _PARTS}}
            path = f"/api/v1/nodes/{name}/status"
            try:
                await self._api.request("PATCH", path, patch, content_type=MERGE)
            except ApiError as error:
                if error.status != 404:
                    LOG.warning("node %s does not advertise its leaf cells: %s", name, error)

    # --- pods that wait

    async def _touch(self) -> None:
        """Have waiting pods tried again whenever there may be something for them."""
        waiting, changed = self._service.extender.waiting, self._service.changed
        informer = self._service.extender.informer
        gains = informer.gains
        while True:
            pause = waiting.next_due() - time.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(pause, 0.01), 3600)):
                    await changed.wait()
            if changed.is_set():
                await asyncio.sleep(_AFTER_GAINS)
                changed.clear()
            if informer.gains != gains:
                gains = informer.gains
                waiting.look_again(time.monotonic())
            started = time.monotonic()
            for pod in waiting.to_touch(started):
                if pod is None:
                    await asyncio.sleep(0)
                else:
                    await self._touching.acquire()
                    self._meanwhile(self._touch_one(pod))
            # Where very many wait, most of the time is for those who ask.
            await asyncio.sleep(min(_REST * (time.monotonic() - started), 1.0))

    async def _touch_one(self, pod: WaitingPod) -> None:
        try:
            stamp = {RETRY: str(time.time_ns() // 1_000_000)}
            await self._api.touch(**pod.pod, annotations=stamp)
            self._service.metrics.happened("touched_pod")
        except ApiError as error:
            if error.status == 404:
                self._service.extender.forget(identify(pod.pod)[0])
            else:
                LOG.warning("pod %s is not tried again: %s", identify(pod.pod)[1], error)
        finally:
            self._touching.release()

    def _meanwhile(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
