"""Device claims behind a real kube-scheduler and API server, 1.36 or later.

    python bench/kubernetes_claims.py --kubeconfig FILE --kube-scheduler PROGRAM [--only NAME ...]

`kubernetes_world.py` says what this needs and what it leaves in the cluster. Slices are written by
hand, as a driver would: each node has 8 GPUs and 8 NICs, two of each at a PCIe root. The controller
manager has to make claims from templates. The API server's feature gate GenericWorkload, with
`scheduling.k8s.io/v1alpha2`, is for the PodGroup of Kubernetes alone.

"twice" counts devices that two claims had at once, and pods that were bound without their claims.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from typing import Any

from kubernetes_cluster import until
from kubernetes_world import (
    Figures,
    Scenarios,
    Service,
    World,
    bound_of,
    gang,
    main,
    named,
    names_of,
    pages_configuration,
    priorities,
    run_all,
)

from hivecore.interop.kubernetes.client.api_server import ApiError, ApiServer

SCENARIOS = Scenarios()
DEVICES = "/apis/resource.k8s.io/v1"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2"
DRIVERS = {"gpu": "gpu.bench.hivecore.io", "nic": "nic.bench.hivecore.io"}
TIME = "2026-01-01T00:00:00Z"
#: What the drivers of all kinds report before a device can be used, if it has to be attached first.
ATTACHED, BROKEN = "bench.hivecore.io/attached", "bench.hivecore.io/broken"
ROOT = "resource.kubernetes.io/pcieRoot"
EACH, AT_ROOT = 8, 2  # GPUs and NICs of a node, and of a PCIe root
Device = tuple[str, str, str]  # driver, pool and name


# --- devices and claims


def slice_of(node: str, kind: str, **more: Any) -> dict[str, Any]:
    devices = [
        {"name": f"{kind}-{i}", "attributes": {ROOT: {"string": root(i)}}, **more}
        for i in range(EACH)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVERS[kind], "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node}-{kind}"}, "spec": spec}


def root(number: int) -> str:
    """Return the PCIe root of a node's device."""
    return f"pci0000:{number // AT_ROOT:02x}"


def class_of(kind: str) -> dict[str, Any]:
    chosen = {"cel": {"expression": f'device.driver == "{DRIVERS[kind]}"'}}
    return {"metadata": {"name": f"bench-{kind}"}, "spec": {"selectors": [chosen]}}


def claim_of(gpus: int, nics: int = 0) -> dict[str, Any]:
    """What a claim for these devices says; a GPU and a NIC are at one root."""
    counts = {kind: count for kind, count in (("gpu", gpus), ("nic", nics)) if count}
    requests = [
        {"name": kind, "exactly": {"deviceClassName": f"bench-{kind}", "count": count}}
        for kind, count in counts.items()
    ]
    devices: dict[str, Any] = {"requests": requests}
    if nics:
        devices["constraints"] = [{"matchAttribute": ROOT, "requests": list(counts)}]
    return {"devices": devices}


def claiming(pods: list[dict[str, Any]], **source: str) -> list[dict[str, Any]]:
    """Pods that name a claim (`resourceClaimName`) or a template of claims."""
    for pod in pods:
        pod["spec"]["resourceClaims"] = [{"name": "devices", **source}]
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "devices"}]
    return pods


class Claims:
    """The claims of the benchmark, as the API server reports them."""

    def __init__(self, world: World) -> None:
        self.cluster, self.world = world.cluster, world
        self.api: ApiServer = world.cluster.api
        self.space = f"{DEVICES}/namespaces/{self.cluster.namespace}"
        self.claims: dict[str, dict[str, Any]] = {}
        self.reported = 0

    @asynccontextmanager
    async def followed(self, nodes: int, **more: Any) -> AsyncIterator["Claims"]:
        """Have new nodes with devices and follow the claims; all are deleted at the end.

        :param more: fields of all devices.
        """
        await self.cluster.set_nodes(named(nodes))
        for node in self.cluster.nodes:
            for kind in DRIVERS:
                await self.create(f"{DEVICES}/resourceslices", slice_of(node, kind, **more))
        for kind in DRIVERS:
            await self.create(f"{DEVICES}/deviceclasses", class_of(kind))
        following = asyncio.create_task(self._follow())
        try:
            yield self
            self._check_pods()
        finally:
            await self.cluster.clear()
            for kind in ("resourceclaimtemplates", "resourceclaims"):
                await self._delete_all(f"{self.space}/{kind}")
            await until(lambda: not self.claims)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await self._delete_all(f"{DEVICES}/resourceslices")

    async def create(self, path: str, document: dict[str, Any]) -> None:
        try:
            await self.api.request("POST", path, document)
        except ApiError as error:
            if error.status != 409:
                raise

    async def create_claim(self, name: str, *devices: int) -> None:
        document = {"metadata": {"name": name}, "spec": claim_of(*devices)}
        await self.create(f"{self.space}/resourceclaims", document)

    async def create_template(self, name: str, *devices: int) -> None:
        document = {"metadata": {"name": name}, "spec": {"spec": claim_of(*devices)}}
        await self.create(f"{self.space}/resourceclaimtemplates", document)

    async def _delete_all(self, path: str) -> None:
        for item in (await self.api.request("GET", path))["items"]:
            with suppress(ApiError):
                await self.api.request("DELETE", f"{path}/{item['metadata']['name']}")

    # --- what happens

    async def _follow(self) -> None:
        path = f"{self.space}/resourceclaims"
        listed = await self.api.request("GET", path)
        version = listed["metadata"]["resourceVersion"]
        while True:
            async for event in self.api.watch(path, {"resourceVersion": version}):
                claim = event["object"]
                version = claim["metadata"]["resourceVersion"]
                if event["type"] == "DELETED":
                    self.claims.pop(claim["metadata"]["name"], None)
                elif event["type"] != "BOOKMARK":
                    self.claims[claim["metadata"]["name"]] = claim
                    self._check_devices()

    def _check_devices(self) -> None:
        holders: dict[Device, str] = {}
        for name in self.claims:
            for device in self.devices(name):
                if holders.setdefault(device, name) != name:
                    self.cluster.twice.add("/".join(device))

    def _check_pods(self) -> None:
        """Bound pods are named by claims that have devices."""
        reserved = {
            entry["name"]
            for name, claim in self.claims.items()
            if self.devices(name)
            for entry in claim["status"].get("reservedFor", ())
        }
        self.cluster.twice |= {
            f"{name} without devices"
            for name, pod in self.cluster.pods.items()
            if pod["spec"].get("nodeName")
            and pod["spec"].get("resourceClaims")
            and name not in reserved
        }

    def devices(self, claim: str) -> list[Device]:
        """Return the devices that a claim has."""
        allocation = (self.claims[claim].get("status") or {}).get("allocation") or {}
        results = allocation.get("devices", {}).get("results", ())
        return [(result["driver"], result["pool"], result["device"]) for result in results]

    async def attach(self) -> tuple[str, ...]:
        """Report of all devices that are new in claims that they are attached, but that the first
        one is broken; return the names of the pods that were bound before.
        """
        new = {
            name: claim
            for name, claim in self.claims.items()
            if self.devices(name) and not claim["status"].get("devices")
        }
        early = [
            entry["name"]
            for claim in new.values()
            for entry in claim["status"].get("reservedFor", ())
            if self.cluster.bound([entry["name"]])
        ]
        for name, claim in new.items():
            condition = {"type": ATTACHED if self.reported else BROKEN, "status": "True"}
            condition |= {"reason": "Bench", "message": "", "lastTransitionTime": TIME}
            said = [
                {"driver": driver, "pool": pool, "device": device, "conditions": [condition]}
                for driver, pool, device in self.devices(name)
            ]
            status = {**claim["status"], "devices": said}
            path = f"{self.space}/resourceclaims/{name}/status"
            with suppress(ApiError):  # it has changed meanwhile
                await self.api.request("PUT", path, {**claim, "status": status})
                self.reported += 1
        return tuple(early)

    def in_use(self) -> int:
        """How many devices claims have."""
        return sum(len(self.devices(name)) for name in self.claims)

    def at_one_root(self) -> int:
        """How many claims have devices of one node at one PCIe root."""
        places = [
            {(pool, root(int(name.rpartition("-")[2]))) for _, pool, name in self.devices(claim)}
            for claim in self.claims
        ]
        return sum(len(place) == 1 for place in places)

    async def serve(self, *, plugin: bool = False) -> Service:
        """Start hivecore with an empty log, and kube-scheduler, whose own allocation may be on."""
        service = await self.world.serve_file("claims:\n")
        configuration = pages_configuration("device-claims.md")
        if plugin:
            configuration["profiles"] = [{}]
        self.world.schedule(configuration, service.port)
        return service


async def pairs(world: World, nodes: int, pods: int, room: int, plugin: bool = False) -> Figures:
    """Create more pods that claim a GPU and a NIC each than these nodes have room for."""
    async with Claims(world).followed(nodes) as claims:
        await claims.serve(plugin=plugin)
        await claims.create_template("pair", 1, 1)
        created = [world.cluster.pod(f"pair-{i}") for i in range(pods)]
        figures = await bound_of(
            world.cluster, claiming(created, resourceClaimTemplateName="pair"), room
        )
        return {**figures, "at one root": claims.at_one_root(), "devices": claims.in_use()}


# --- scenarios


@SCENARIOS.of("composed")
async def pairs_at_one_root(world: World) -> Figures:
    """40 pods that claim a GPU and a NIC each, and room for 32 of them."""
    return await pairs(world, nodes=4, pods=40, room=32)


@SCENARIOS.of("composed")
async def a_gang_with_claims_preempts(world: World) -> Figures:
    """A gang of low priority has all GPUs; one of high priority asks for half of them."""
    cluster = world.cluster
    await priorities(cluster)
    async with Claims(world).followed(4) as claims:
        await claims.serve()
        await claims.create_template("node", EACH)
        gangs = {name: gang(cluster, name, pods, 0) for name, pods in (("low", 4), ("high", 2))}
        for name, pods in gangs.items():
            for pod in claiming(pods, resourceClaimTemplateName="node"):
                pod["spec"]["priorityClassName"] = f"bench-{name}"
        await run_all(cluster, gangs["low"])
        figures = await run_all(cluster, gangs["high"])
        return {**figures, "evicted": len(cluster.evicted)}


@SCENARIOS.of("composed")
async def a_claim_of_several_pods(world: World) -> Figures:
    """6 pods name a claim for 4 GPUs, and 2 pods another one."""
    cluster = world.cluster
    async with Claims(world).followed(4) as claims:
        await claims.serve()
        pods = []
        for name, number in (("shared", 6), ("other", 2)):
            await claims.create_claim(name, 4)
            several = [cluster.pod(f"{name}-{i}") for i in range(number)]
            pods += claiming(several, resourceClaimName=name)
        figures = await run_all(cluster, pods)
        nodes = [len(set(cluster.bound(names_of(part)))) for part in (pods[:6], pods[6:])]
        return {**figures, "nodes of a claim": max(nodes), "devices": claims.in_use()}


@SCENARIOS.of("composed")
async def devices_that_must_be_attached(world: World) -> Figures:
    """4 pods for the devices of a node each, which are attached within 2 s; those of the first one
    break."""
    cluster = world.cluster
    conditions = {"bindingConditions": [ATTACHED], "bindingFailureConditions": [BROKEN]}
    async with Claims(world).followed(5, **conditions, bindsToNode=True) as claims:
        await claims.serve()
        await claims.create_template("node", EACH)
        pods = [cluster.pod(f"attached-{i}") for i in range(4)]
        begin = await cluster.create(*claiming(pods, resourceClaimTemplateName="node"))
        early: set[str] = set()
        while len(cluster.bound(names_of(pods))) < len(pods) and perf_counter() < begin + 60:
            await asyncio.sleep(2)
            early |= {*await claims.attach()}
        seconds = await cluster.seconds(begin, names_of(pods), 1.0)
        bound = len(cluster.bound(names_of(pods)))
        figures = {"seconds": seconds, "bound": bound, "of": len(pods), "early": len(early)}
        return {**figures, "reports": claims.reported, "devices": claims.in_use()}


@SCENARIOS.of("composed")
async def a_lost_log_while_claims_run(world: World) -> Figures:
    """A gang and single pods run, the log is lost, and pods come for the rest and more."""
    cluster = world.cluster
    async with Claims(world).followed(4) as claims:
        service = await claims.serve()
        for name, gpus in (("node", EACH), ("half", EACH // 2)):
            await claims.create_template(name, gpus)
        first = claiming(gang(cluster, "first", 2, 0), resourceClaimTemplateName="node")
        half = claiming([cluster.pod("half")], resourceClaimTemplateName="half")
        await run_all(cluster, first + half)
        await service.end()
        world.end()
        await claims.serve()
        pods = [cluster.pod(f"more-{i}") for i in range(6)]
        figures = await bound_of(cluster, claiming(pods, resourceClaimTemplateName="half"), 3)
        return {**figures, "devices": claims.in_use()}


@SCENARIOS.of("composed")
async def kube_scheduler_allocates_as_well(world: World) -> Figures:
    """Its plug-in DynamicResources is left on; 20 pods that claim pairs, and room for 16."""
    return await pairs(world, nodes=2, pods=20, room=16, plugin=True)


@SCENARIOS.of("composed")
async def a_PodGroup_of_Kubernetes(world: World) -> Figures:
    """A gang of 3 pods with claims by `schedulingGroup`: its condition before and after the last
    pod comes."""
    cluster = world.cluster
    groups = f"{GROUPS}/namespaces/{cluster.namespace}/podgroups"
    policy = {"gang": {"minCount": 3}}
    document = {"metadata": {"name": "group"}, "spec": {"schedulingPolicy": policy}}
    async with Claims(world).followed(2) as claims:
        await claims.create(groups, document)
        await claims.serve()
        await claims.create_template("half", EACH // 2)
        pods = [
            cluster.pod(f"group-{i}", schedulingGroup={"podGroupName": "group"}) for i in range(3)
        ]
        claiming(pods, resourceClaimTemplateName="half")
        early = await run_all(cluster, pods[:2], 3.0)
        before = await condition(claims.api, f"{groups}/group")
        begin = await cluster.create(pods[2])
        seconds = await cluster.seconds(begin, names_of(pods))
        written = perf_counter()
        while (after := await condition(claims.api, f"{groups}/group")) == before:
            if perf_counter() - written > 10:  # it is written once in 5 s at most
                break
            await asyncio.sleep(0.1)
        await claims.api.request("DELETE", f"{groups}/group")
        bound = len(cluster.bound(names_of(pods)))
        return {
            "seconds": seconds,
            "bound": bound,
            "of": 3,
            "early": early["bound"],
            "condition before": before,
            "condition after": after,
        }


async def condition(api: ApiServer, path: str) -> str:
    """Return the status and the reason of PodGroupScheduled."""
    status = (await api.request("GET", path)).get("status") or {}
    for entry in status.get("conditions", ()):
        if entry["type"] == "PodGroupScheduled":
            return f"{entry['status']} {entry['reason']}"
    return "none"


if __name__ == "__main__":
    raise SystemExit(main(__doc__, SCENARIOS, "kubernetes_claims"))
