"""A real cluster for `kubernetes_real.py`: invented nodes and pods, and the GPUs of each.

Nodes are objects without a kubelet: their pods are bound and never run. The kubelet's part is
played: the Lease of each node is renewed, and pods that are to end do so after a moment.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from hivecore.interop.kubernetes.client.api_server import MERGE, ApiError, ApiServer

__all__ = ["GPU", "LEAF_CELL", "MEMORY", "Cluster", "until"]

GPU, LEAF_CELL, MEMORY = "nvidia.com/gpu", "hivecore.io/leaf-cell", "aliyun.com/gpu-mem"
_ISOLATION = "hivedscheduler.microsoft.com/pod-leaf-cell-isolation"
_KOORDINATOR = "scheduling.koordinator.sh/device-allocated"
_CARD, _SHARE, _WHOLE = (f"ALIYUN_COM_GPU_MEM_{key}" for key in ("IDX", "POD", "DEV"))
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_DYING = 0.3  # seconds until a pod that is to end is gone
_AT_ONCE = 16


async def until(holds: Callable[[], Any], seconds: float = 60.0, pause: float = 0.005) -> float:
    """Return the seconds until something holds; infinity if it takes longer than the limit."""
    begin = perf_counter()
    while not holds():
        if perf_counter() - begin > seconds:
            return float("inf")
        await asyncio.sleep(pause)
    return perf_counter() - begin


class Cluster:
    """The nodes and pods of the benchmark, as the API server reports them.

    :param namespace: of the pods.
    :param scheduler: the ``schedulerName`` of the pods.
    """

    def __init__(self, api: ApiServer, namespace: str, scheduler: str) -> None:
        self.api, self.namespace, self.scheduler = api, namespace, scheduler
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.nodes: dict[str, dict[str, str]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.bound_at: dict[str, float] = {}
        self.evicted: list[tuple[float, str]] = []
        """The times at which pods were asked to end, with their uids."""
        self.twice: set[str] = set()
        """What two pods had at the same time."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._deleted: set[str] = set()

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Follow the pods, and renew the leases of nodes."""
        with suppress(ApiError):
            await self.api.request("POST", "/api/v1/namespaces", _named(self.namespace))
        await self.clear()
        following = [asyncio.create_task(work) for work in (self._follow(), self._renew())]
        try:
            yield
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            await self.clear()

    # --- what there is

    async def set_nodes(
        self, nodes: dict[str, dict[str, str]], resources: dict[str, int] | None = None
    ) -> None:
        """Replace all nodes by these, with these labels."""
        await self.clear()
        await _all(self._create_node(*node, resources or {GPU: 8}) for node in nodes.items())
        self.nodes = nodes

    async def _create_node(
        self, name: str, labels: dict[str, str], resources: dict[str, int]
    ) -> None:
        room = {"cpu": "96", "memory": "1Ti", "pods": "110"}
        room |= {key: str(value) for key, value in resources.items()}
        labels = {"kubernetes.io/hostname": name, "hivecore.io/bench": "true", **labels}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        # Else a controller takes it for an earlier node of the name that has been silent since.
        ready["lastHeartbeatTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        node = {**_named(name, labels=labels), "status": status}
        await self.api.request("POST", "/api/v1/nodes", node)
        # An admission plug-in has tainted it as not ready.
        await self.patch_node(name, spec={"taints": []})
        lease = {**_named(name), "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}}
        with suppress(ApiError):
            await self.api.request("POST", _LEASES, lease)

    async def patch_node(self, name: str, sub: str = "", **changes: Any) -> None:
        """Change a node, or with ``sub="/status"`` its status."""
        path = f"/api/v1/nodes/{name}{sub}"
        await self.api.request("PATCH", path, changes, content_type=MERGE)

    async def advertised(self, resource: str) -> None:
        """Wait until all nodes have a resource, which another process writes into their status."""
        for name in self.nodes:
            while resource not in (await self.node(name))["status"]["allocatable"]:
                await asyncio.sleep(0.05)

    async def node(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = await self.api.request("GET", f"/api/v1/nodes/{name}")
        return document

    async def create(self, *pods: dict[str, Any]) -> float:
        """Create pods; return when that began."""
        begin = perf_counter()
        await _all(self.api.request("POST", self.path, pod) for pod in pods)
        return begin

    async def delete(self, *names: str) -> None:
        """Delete pods at once, and wait until they are gone; they do not count as evicted."""
        gone = [self.pods[name] for name in names if name in self.pods]
        self._deleted.update(pod["metadata"]["uid"] for pod in gone)
        await _all(self._delete(f"{self.path}/{name}") for name in names)
        await until(lambda: not any(name in self.pods for name in names))

    async def clear(self) -> None:
        """Delete all pods and nodes."""
        listed = await self.api.request("GET", self.path)
        names = [pod["metadata"]["name"] for pod in listed["items"]]
        await _all(self._delete(f"{self.path}/{name}") for name in names)
        query = {"labelSelector": "hivecore.io/bench=true"}
        listed = await self.api.request("GET", "/api/v1/nodes", query=query)
        names = [node["metadata"]["name"] for node in listed["items"]]
        await _all(self._delete(f"/api/v1/nodes/{name}") for name in names)
        await until(lambda: not self.pods)
        self.nodes = {}
        self.bound_at.clear()
        self.evicted.clear()

    async def _delete(self, path: str) -> None:
        try:
            await self.api.request("DELETE", path, query={"gracePeriodSeconds": "0"})
        except ApiError as error:
            if error.status != 404:
                raise

    def pod(
        self, name: str, gpus: int = 0, resource: str = GPU, cpu: int = 1, **more: Any
    ) -> dict[str, Any]:
        """A pod that asks for GPUs.

        :param more: ``labels`` and ``annotations``, and fields of its spec.
        """
        amounts = {"cpu": str(cpu), **({resource: str(gpus)} if gpus else {})}
        meta = {key: more.pop(key) for key in ("labels", "annotations") if key in more}
        container = {"name": "c", "image": "pause", "resources": {"limits": amounts}}
        spec = {"schedulerName": self.scheduler, "containers": [container], **more}
        return {**_named(name, **meta), "spec": spec}

    # --- what happens

    def bound(self, names: Iterable[str]) -> list[str]:
        """Return the nodes of the bound pods."""
        pods = [self.pods[name] for name in names if name in self.pods]
        return [node for pod in pods if (node := pod["spec"].get("nodeName"))]

    async def seconds(self, begin: float, names: Iterable[str], limit: float = 60.0) -> float:
        """Return the seconds from the beginning until the last of these pods is bound."""
        wanted = set(names)
        await until(lambda: len(self.bound(wanted)) == len(wanted), limit, 0.02)
        if len(self.bound(wanted)) < len(wanted):
            return float("inf")
        return max(self.bound_at[name] for name in wanted) - begin

    async def _follow(self) -> None:
        listed = await self.api.request("GET", self.path)
        version = listed["metadata"]["resourceVersion"]
        while True:
            async for event in self.api.watch(self.path, {"resourceVersion": version}):
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._see(event["type"], event["object"])

    def _see(self, type_: str, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        if type_ == "DELETED":
            self.pods.pop(name, None)
            self.bound_at.pop(name, None)
            return
        self.pods[name] = pod
        node = pod["spec"].get("nodeName")
        if node and name not in self.bound_at:
            self.bound_at[name] = perf_counter()
            self._count(node)
        uid = pod["metadata"]["uid"]
        known = self._deleted.union(evicted for _, evicted in self.evicted)
        if pod["metadata"].get("deletionTimestamp") and uid not in known:
            self.evicted.append((perf_counter(), uid))
            task = asyncio.create_task(self._end(name, uid))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _end(self, name: str, uid: str) -> None:
        """End a pod, unless it is gone; another pod may have its name by then."""
        await asyncio.sleep(_DYING)
        if name in self.pods and self.pods[name]["metadata"]["uid"] == uid:
            await self._delete(f"{self.path}/{name}")

    def _count(self, node: str) -> None:
        """Record GPUs that two pods of a node have at once."""
        pods = [pod for pod in self.pods.values() if pod["spec"].get("nodeName") == node]
        requested = sum(_asked(pod, resource) for pod in pods for resource in (GPU, LEAF_CELL))
        if requested > 8:
            self.twice.add(f"{requested} GPUs on {node}")
        held = Counter[str]()
        for pod in pods:
            for gpu, share in _held(pod):
                held[gpu] += share
        self.twice |= {f"{node}/{gpu}" for gpu, share in held.items() if share > 1000}

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(10)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            for name in self.nodes:
                with suppress(ApiError):
                    change = {"spec": {"renewTime": now}}
                    path = f"{_LEASES}/{name}"
                    await self.api.request("PATCH", path, change, content_type=MERGE)


def _named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more}}


def _asked(pod: dict[str, Any], resource: str) -> int:
    limits = [container["resources"].get("limits", {}) for container in pod["spec"]["containers"]]
    return sum(int(limit.get(resource, 0)) for limit in limits)


def _held(pod: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the GPUs in a pod's annotations, and how much of each in thousandths."""
    said = pod["metadata"].get("annotations", {})
    held = [(gpu, 1000) for gpu in filter(None, said.get(_ISOLATION, "").split(","))]
    gpus = json.loads(said.get(_KOORDINATOR, "{}")).get("gpu", [])
    held += [(str(gpu["minor"]), 1000) for gpu in gpus]
    if _CARD in said:
        held.append((said[_CARD], 1000 * int(said[_SHARE]) // int(said[_WHOLE])))
    return held


async def _all(works: Iterable[Awaitable[Any]]) -> None:
    """Await all, some concurrently."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def do(work: Awaitable[Any]) -> None:
        async with room:
            await work

    await asyncio.gather(*map(do, works))
