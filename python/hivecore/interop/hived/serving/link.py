"""What connects HiveD's extender with a Kubernetes cluster.

Pods that wait are touched when there is something for them, and nodes advertise their leaf cells.

kube-scheduler evicts pods only for a resource of nodes that is exhausted. Nodes with cells have one
of our own, ``hivecore.io/leaf-cell``; kubelet makes what is written into a node's capacity
allocatable.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any

from hivecore.interop.hived.serving.service import HivedService
from hivecore.interop.kubernetes.client.api_server import MERGE, ApiError, ApiServer
from hivecore.interop.kubernetes.client.evictor import EVICT_AFTER
from hivecore.interop.kubernetes.client.link import ClusterLink
from hivecore.interop.kubernetes.pods import PodId
from hivecore.interop.kubernetes.serving.logs import LOG

__all__ = ["LEAF_CELL", "HivedLink"]

LEAF_CELL = "hivecore.io/leaf-cell"
"""The resource of nodes that stands for their leaf cells."""
_PARTS = ("capacity", "allocatable")
_PATCHES = 16  # at a time
_REST = 4
_AFTER_GAINS = 0.005  # seconds: changes come in bursts


class HivedLink(ClusterLink):
    """Follows pods and nodes of a cluster for a service, and acts on them.

    :param advertise: whether nodes are to advertise their leaf cells.
    :param evict_after: see `ClusterLink`.
    """

    _service: HivedService

    def __init__(
        self,
        service: HivedService,
        api: ApiServer,
        advertise: bool = True,
        evict_after: float = EVICT_AFTER,
    ) -> None:
        paths = {"Node": "/api/v1/nodes", "Pod": "/api/v1/pods"}
        super().__init__(service, api, paths, evict_after=evict_after)
        service.extender.touches = True
        self._advertise = advertise
        self._cells = self._configured()
        self._patches: asyncio.Queue[tuple[str, str | None]] = asyncio.Queue()

    async def _victims(self) -> Mapping[str, str]:
        victims = self._service.extender.victims()
        self._service.look_for_gains()
        return victims

    def _more(self) -> Iterable[Coroutine[Any, Any, None]]:
        return [self._patch_nodes() for _ in range(_PATCHES)]

    # --- leaf cells as a resource

    def _seen(self, news: dict[str, Any]) -> None:
        if not self._advertise or news.get("type") == "DELETED":
            return
        if news.get("kind") == "NodeList":
            for node in news["items"]:
                self._compare(node)
        elif "object" in news and news["object"]["kind"] == "Node":
            self._compare(news["object"])

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
        extender = self._service.extender
        waiting, changed = extender.waiting, self._service.changed
        gains = extender.gains
        while True:
            pause = waiting.next_due() - time.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(pause, 0.01), 3600)):
                    await changed.wait()
            if changed.is_set():
                await asyncio.sleep(_AFTER_GAINS)
                changed.clear()
            if extender.gains != gains:
                gains = extender.gains
                waiting.look_again(time.monotonic())
            started = time.monotonic()
            for pod in waiting.to_touch(started):
                if pod is None:
                    await asyncio.sleep(0)
                else:
                    await self._touching.acquire()
                    self._meanwhile(self._touch_and_release(pod.pod))
            # Where very many pods wait, most of the time is for requests.
            await asyncio.sleep(min(_REST * (time.monotonic() - started), 1.0))

    async def _touch_and_release(self, pod: PodId) -> None:
        try:
            if not await self._touch_one(pod):
                self._service.extender.forget(pod.identity)
        finally:
            self._touching.release()
