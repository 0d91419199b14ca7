"""hivecore's services behind a real kube-scheduler and API server: what users do, with figures.

    python bench/kubernetes_real.py --kubeconfig FILE --kube-scheduler PROGRAM [--only NAME ...]

Needs a cluster that may be played with, an administrator's kubeconfig, and the program
kube-scheduler of its version; no kubelet. It creates nodes that are objects only, in the namespace
hivecore-bench their pods, and of `deploy/` the service accounts with their roles: hivecore runs
here, as these accounts. kube-scheduler runs here too, configured as `docs/howto/pods.md` and
`deploy/` say, but for its addresses, `apiVersion` and --scheduler-name. Nodes and pods are deleted
at the end; service accounts, roles and the PodGroups' definition stay.

Each scenario starts hivecore again. Its seconds count from the first request to create a pod
until the last pod is bound, unless it says otherwise; "twice" counts what two pods had at once.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import yaml
from harness import command_line, save
from kubernetes_cluster import LEAF_CELL, MEMORY, Cluster, until

from hivecore.interop.kubernetes.client.api_server import MERGE, ApiError, ApiServer

ROOT = Path(__file__).parents[1]
GANG = "pod-group.scheduling.sigs.k8s.io"
HIVED = "hivedscheduler.microsoft.com/pod-scheduling-spec"
Figures = dict[str, Any]
Scenario = Callable[["World"], Awaitable[Figures]]
SCENARIOS: dict[str, tuple[str, Scenario]] = {}


def scenario(service: str) -> Callable[[Scenario], Scenario]:
    """A scenario of one of the services, called by its own name."""

    def add(work: Scenario) -> Scenario:
        SCENARIOS[work.__name__.replace("_", " ")] = service, work
        return work

    return add


# --- what runs here


class World:
    """A cluster, and the programs that serve it."""

    def __init__(self, cluster: Cluster, arguments: argparse.Namespace, folder: Path) -> None:
        self.cluster, self.arguments, self.folder = cluster, arguments, folder
        self.minor = 0
        self.programs: list[subprocess.Popen[bytes]] = []
        self.ports = iter(range(arguments.port, arguments.port + 1000))

    # --- hivecore

    async def serve(self, *options: object, account: str = "hivecore", port: int = 0) -> "Service":
        """Start hivecore as a service account; return it when it is ready."""
        service = Service(self, [*map(str, options)], account, port or next(self.ports))
        await service.start()
        await service.ready()
        return service

    async def composed(self, nodes: int = 64) -> "Service":
        """Start the composed scheduler for new nodes, with kube-scheduler."""
        await self.cluster.set_nodes(named(nodes))
        service = await self.serve_composed(nodes)
        self.schedule(pages_configuration(), service.port)
        return service

    async def serve_composed(self, nodes: int) -> "Service":
        """Start the composed scheduler with a new log."""
        file, log = self.folder / "cluster.yaml", self.folder / f"log-{next(self.ports)}"
        model = "models: {h100: {gpus: 8}}"
        text = f'cluster:\n  {model}\n  nodes: {{"hc-[0-{nodes - 1}]": h100}}\ndevices:\n'
        file.write_text(text)
        names = "--scheduler-name", self.cluster.scheduler
        return await self.serve("--scheduler", file, "--log", log, *names)

    async def hived(self, nodes: int, tenants: int) -> "Service":
        """Start HiveD's service for new nodes, with kube-scheduler."""
        await self.cluster.set_nodes(named(nodes))
        service = await self.serve_hived(nodes, tenants)
        self.schedule(deployed("kube-scheduler.yaml")[0], service.port)
        return service

    async def serve_hived(self, nodes: int, tenants: int, *options: str) -> "Service":
        file = self.folder / "hived.yaml"
        addresses = [{"cellAddress": name} for name in named(nodes)]
        types = {
            "GPU-NODE": {"childCellType": "GPU", "childCellNumber": 8, "isNodeLevel": True},
            "POOL": {"childCellType": "GPU-NODE", "childCellNumber": nodes},
        }
        cells = [{"cellType": "POOL.GPU-NODE", "cellNumber": nodes // tenants}]
        physical = [{"cellType": "POOL", "cellChildren": addresses}]
        config = {
            "physicalCluster": {"cellTypes": types, "physicalCells": physical},
            "virtualClusters": {f"vc{i}": {"virtualCells": cells} for i in range(tenants)},
        }
        file.write_text(json.dumps(config))
        service = await self.serve(file, *options)
        await self.cluster.advertised(LEAF_CELL)
        return service

    async def extended(
        self, kind: str
    ) -> tuple[dict[str, Any], int, "subprocess.Popen[bytes] | None"]:
        """An extender of this kind for 64 nodes: kube-scheduler's configuration, port, process."""
        if kind == "alone":
            return {"percentageOfNodesToScore": 100}, 0, None
        if kind == "hived":
            service = await self.serve_hived(64, 1)
            return deployed("kube-scheduler.yaml")[0], service.port, service.process
        configuration = pages_configuration()
        if kind == "composed":
            service = await self.serve_composed(64)
            return configuration, service.port, service.process
        del configuration["extenders"][0]["bindVerb"]
        port, file = next(self.ports), Path(__file__).with_name("null_extender.py")
        return configuration, port, self.start([sys.executable, str(file), str(port)], "null")

    # --- kube-scheduler

    async def try_first(
        self, configuration: dict[str, Any], port: int, pod: dict[str, Any]
    ) -> None:
        """Have kube-scheduler bind a pod, and end; the pod is gone again."""
        self.schedule(configuration, port)
        await run_all(self.cluster, [pod])
        program = self.programs.pop()
        program.kill()
        program.wait()
        await self.cluster.delete(*names_of([pod]))
        self.cluster.bound_at.clear()

    def schedule(self, configuration: dict[str, Any], port: int) -> None:
        """Start kube-scheduler with an extender on this port."""
        for extender in configuration.get("extenders", []):
            path = extender["urlPrefix"].partition("//")[2].partition("/")[2]
            extender["urlPrefix"] = f"http://127.0.0.1:{port}/{path}"
        version = "v1" if self.minor >= 25 else "v1beta2" if self.minor >= 22 else "v1beta1"
        kubeconfig = self.arguments.scheduler_kubeconfig or self.arguments.kubeconfig
        configuration |= {
            "apiVersion": f"kubescheduler.config.k8s.io/{version}",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": self.cluster.scheduler}],
        }
        if self.minor < 22:  # its usual port, of which --port says nothing, may be another's
            addresses = "healthzBindAddress", "metricsBindAddress"
            configuration |= dict.fromkeys(addresses, f"127.0.0.1:{next(self.ports)}")
        file = self.folder / "kube-scheduler.yaml"
        file.write_text(json.dumps(configuration))
        options = [f"--config={file}", "--secure-port=0"]
        options += ["--port=0"] if self.minor < 24 else []
        self.start([str(self.arguments.kube_scheduler), *options], "kube-scheduler")

    def start(self, command: list[str], name: str, **more: Any) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.err").open("ab") as errors:
            program = subprocess.Popen(command, stderr=errors, stdout=subprocess.DEVNULL, **more)
        self.programs.append(program)
        return program

    def check(self) -> None:
        """Raise RuntimeError if kube-scheduler has ended, with what it said."""
        for program in self.programs:
            if "kube-scheduler" in str(program.args[0]) and program.poll() is not None:
                said = (self.folder / "kube-scheduler.err").read_text(errors="replace")
                raise RuntimeError(f"kube-scheduler has ended: {said[-500:].strip()}")

    def end(self) -> None:
        """End all programs."""
        for program in self.programs:
            program.kill()
            program.wait()
        self.programs.clear()

    def kubeconfig_of(self, account: str) -> Path:
        return self.folder / f"{account}.conf"


class Service:
    """A process of `hivecore serve`."""

    def __init__(self, world: World, options: list[str], account: str, port: int) -> None:
        self.world, self.options, self.port = world, options, port
        self.kubeconfig = world.kubeconfig_of(account)

    async def start(self) -> None:
        command = [sys.executable, "-m", "hivecore", "serve", *self.options]
        command += ["--kubeconfig", str(self.kubeconfig), "--port", str(self.port)]
        self.process = self.world.start(command, f"hivecore-{self.port}")

    async def ready(self, seconds: float = 60.0) -> float:
        """Wait until it is ready; return the seconds."""
        begin = perf_counter()
        while not await self.is_ready():
            if self.process.poll() is not None or perf_counter() - begin > seconds:
                raise RuntimeError(f"hivecore is not ready: {self.errors()[-2000:]}")
            await asyncio.sleep(0.02)
        return perf_counter() - begin

    async def is_ready(self) -> bool:
        with suppress(OSError, asyncio.IncompleteReadError):
            return b" 200 " in (await self.get("/readyz"))[:20]
        return False

    async def get(self, path: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
            return await asyncio.wait_for(reader.read(), 10)
        finally:
            writer.close()

    def errors(self) -> str:
        file = self.world.folder / f"hivecore-{self.port}.err"
        return file.read_text(errors="replace")

    async def end(self, number: int = signal.SIGKILL, seconds: float = 30.0) -> int | None:
        """Send a signal; return the exit status."""
        self.process.send_signal(number)
        await until(lambda: self.process.poll() is not None, seconds)
        return self.process.poll()


def named(number: int) -> dict[str, dict[str, str]]:
    """Return nodes without labels."""
    return {f"hc-{i}": {} for i in range(number)}


def pages_configuration() -> dict[str, Any]:
    """Return kube-scheduler's configuration from the page of pods."""
    page = (ROOT / "docs" / "howto" / "pods.md").read_text("utf-8")
    [text] = re.findall(r"```yaml\n(apiVersion: kubescheduler.*?)```", page, re.S)
    return dict(yaml.safe_load(text))


def deployed(name: str) -> list[dict[str, Any]]:
    """Return the objects in a file of `deploy/`."""
    return list(yaml.safe_load_all((ROOT / "deploy" / name).read_text("utf-8")))


_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
_SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_VERSION = {"name": "v1alpha1", "served": True, "storage": True}
_POD_GROUPS = {
    "kind": "CustomResourceDefinition",
    "apiVersion": "apiextensions.k8s.io/v1",
    "metadata": {
        "name": "podgroups.scheduling.sigs.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, of a benchmark"},
    },
    "spec": {
        "group": "scheduling.sigs.k8s.io",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
        "scope": "Namespaced",
        "versions": [{**_VERSION, "schema": {"openAPIV3Schema": _SCHEMA}}],
    },
}


async def apply(api: ApiServer, document: dict[str, Any]) -> None:
    """Create or update an object; other kinds are ignored."""
    if document["kind"] not in _PATHS:
        return
    path = _PATHS[document["kind"]].format(document["metadata"].get("namespace"))
    try:
        await api.request("POST", path, document)
    except ApiError as error:
        if error.status != 409:
            raise
        name = document["metadata"]["name"]
        await api.request("PATCH", f"{path}/{name}", document, content_type=MERGE)


async def token_file(api: ApiServer, world: World, account: str) -> None:
    """Write the kubeconfig of a service account."""
    path = f"/api/v1/namespaces/hivecore/serviceaccounts/{account}/token"
    request = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
    document = {**request, "spec": {"expirationSeconds": 7200}}
    token = (await api.request("POST", path, document))["status"]["token"]
    given = yaml.safe_load(world.arguments.kubeconfig.read_text())
    contexts = {context["name"]: context["context"] for context in given["contexts"]}
    cluster = contexts[given["current-context"]]["cluster"]
    [server] = [entry for entry in given["clusters"] if entry["name"] == cluster]
    kubeconfig = {
        "clusters": [server],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": cluster, "user": "u"}}],
        "current-context": "x",
    }
    world.kubeconfig_of(account).write_text(json.dumps(kubeconfig))


# --- the composed scheduler


def gang(cluster: Cluster, name: str, pods: int, gpus: int, least: int = 0) -> list[dict[str, Any]]:
    """Pods of a gang; its minimum is all of them by default."""
    labels = {f"{GANG}/name": name, f"{GANG}/min-available": str(least or pods)}
    return [cluster.pod(f"{name}-{i}", gpus, labels=labels) for i in range(pods)]


def names_of(pods: list[dict[str, Any]]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


async def run_all(cluster: Cluster, pods: list[dict[str, Any]], limit: float = 60.0) -> Figures:
    """Create pods; the seconds until all are bound, and how many are."""
    begin = await cluster.create(*pods)
    seconds = await cluster.seconds(begin, names_of(pods), limit)
    return {"seconds": seconds, "bound": len(cluster.bound(names_of(pods))), "of": len(pods)}


@scenario("composed")
async def pods_beyond_the_minimum(world: World) -> Figures:
    """4 pods of 8 GPUs of a gang that needs 2."""
    await world.composed()
    return await run_all(world.cluster, gang(world.cluster, "beyond", 4, 8, 2))


@scenario("composed")
async def a_launcher_without_GPUs(world: World) -> Figures:
    """A gang of 4: kube-scheduler itself binds one of its pods."""
    await world.composed()
    pods = gang(world.cluster, "launched", 4, 8)
    pods[0] = {**world.cluster.pod("launched-0"), "metadata": pods[0]["metadata"]}
    return await run_all(world.cluster, pods)


@scenario("composed")
async def a_gang_of_a_PodGroup(world: World) -> Figures:
    """scheduler-plugins' PodGroup says how many there are."""
    cluster = world.cluster
    await apply(cluster.api, _POD_GROUPS)
    group = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{cluster.namespace}/podgroups"
    kind = {"kind": "PodGroup", "apiVersion": "scheduling.sigs.k8s.io/v1alpha1"}
    body = {**kind, "metadata": {"name": "grouped"}, "spec": {"minMember": 3}}
    await asyncio.sleep(2)  # the API server serves the new kind
    with suppress(ApiError):
        await cluster.api.request("POST", group, body)
    await world.composed()
    pods = [cluster.pod(f"grouped-{i}", 8, labels={GANG: "grouped"}) for i in range(3)]
    figures = await run_all(cluster, pods[:2], 2.0)
    early = figures["bound"]
    begin = await cluster.create(pods[2])
    seconds = await cluster.seconds(begin, names_of(pods))
    return {
        "seconds": seconds,
        "bound": len(cluster.bound(names_of(pods))),
        "of": 3,
        "early": early,
    }


@scenario("composed")
async def nodeSelector_on_the_13th_of_64_nodes(world: World) -> Figures:
    """A pod for which only one node is offered."""
    await world.composed()
    await world.cluster.patch_node("hc-12", metadata={"labels": {"disk": "ssd"}})
    pod = world.cluster.pod("chosen", 8, nodeSelector={"disk": "ssd"})
    return await run_all(world.cluster, [pod])


@scenario("composed")
async def four_tainted_nodes(world: World) -> Figures:
    """The first nodes are tainted."""
    await world.composed()
    taint = {"key": "bench", "value": "x", "effect": "NoSchedule"}
    for i in range(4):
        await world.cluster.patch_node(f"hc-{i}", spec={"taints": [taint]})
    return await run_all(world.cluster, gang(world.cluster, "tainted", 2, 8))


@scenario("composed")
async def nodes_full_of_foreign_pods(world: World) -> Figures:
    """Pods without GPUs use all CPUs of the first nodes, others all GPUs of the next ones."""
    await world.composed()
    cluster = world.cluster
    full = [cluster.pod(f"cpus-{i}", cpu=95, nodeName=f"hc-{i}") for i in range(4)]
    held = [foreign(cluster, f"gpus-{i}", 8, f"hc-{4 + i}") for i in range(4)]
    await run_all(cluster, full + held)
    return await run_all(cluster, [cluster.pod(f"own-{i}", 8, cpu=4) for i in range(2)])


def foreign(cluster: Cluster, name: str, gpus: int, node: str) -> dict[str, Any]:
    """A pod that another scheduler has bound."""
    return cluster.pod(name, gpus, schedulerName="another", nodeName=node)


@scenario("composed")
async def a_lost_log_while_pods_run(world: World) -> Figures:
    """A gang and single pods run, the log is lost, and pods come for the rest and more."""
    cluster = world.cluster
    service = await world.composed(16)
    await run_all(cluster, gang(cluster, "first", 4, 8))
    await run_all(cluster, [cluster.pod(f"half-{i}", 4) for i in range(3)])
    await service.end()
    world.end()
    service = await world.serve_composed(16)
    world.schedule(pages_configuration(), service.port)
    free = 16 * 2 - 4 * 2 - 3
    pods = [cluster.pod(f"more-{i}", 4) for i in range(free + 4)]
    begin = await cluster.create(*pods)
    await until(lambda: len(cluster.bound(names_of(pods))) >= free)
    seconds = perf_counter() - begin
    await asyncio.sleep(2)
    return {"seconds": seconds, "bound": len(cluster.bound(names_of(pods))), "of": free}


@scenario("composed")
async def pods_of_another_scheduler(world: World) -> Figures:
    """They hold half of the GPUs of each node; pods come for the other half and more."""
    cluster = world.cluster
    await world.composed(16)
    await run_all(cluster, [foreign(cluster, f"other-{i}", 4, f"hc-{i}") for i in range(16)])
    pods = [cluster.pod(f"own-{i}", 4) for i in range(20)]
    begin = await cluster.create(*pods)
    await until(lambda: len(cluster.bound(names_of(pods))) >= 16)
    seconds = perf_counter() - begin
    await asyncio.sleep(2)
    return {"seconds": seconds, "bound": len(cluster.bound(names_of(pods))), "of": 16}


@scenario("composed")
async def a_node_is_lost(world: World) -> Figures:
    """A pod of a running gang is replaced on another node."""
    cluster = world.cluster
    await world.composed(16)
    pods = gang(cluster, "replaced", 4, 8)
    await run_all(cluster, pods)
    node = cluster.pods["replaced-2"]["spec"]["nodeName"]
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    await cluster.patch_node(node, "/status", status={"conditions": [lost]})
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    await cluster.patch_node(node, spec={"taints": [taint]})
    await cluster.delete("replaced-2")
    figures = await run_all(cluster, [pods[2]])
    return {**figures, "elsewhere": cluster.bound(["replaced-2"]) != [node]}


@scenario("composed")
async def gangs_and_pods_by_priority(world: World) -> Figures:
    """A cluster full of pods of low priority, and a gang of high priority for half of it."""
    cluster = world.cluster
    for name, value in (("bench-low", 100), ("bench-high", 1000)):
        document = {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        await apply(cluster.api, {"apiVersion": "scheduling.k8s.io/v1", **document})
    await world.composed(8)
    low = [cluster.pod(f"low-{i}", 8, priorityClassName="bench-low") for i in range(8)]
    await run_all(cluster, low)
    high = gang(cluster, "high", 4, 8)
    for pod in high:
        pod["spec"]["priorityClassName"] = "bench-high"
    return {**await run_all(cluster, high), "evicted": len(cluster.evicted)}


@scenario("composed")
async def SIGTERM_while_pods_are_touched(world: World) -> Figures:
    """200 gangs wait for the GPUs of a job that ends; seconds until the process has ended."""
    cluster = world.cluster
    service = await world.composed(16)
    await run_all(cluster, [cluster.pod(f"run-{i}", 8) for i in range(16)])
    waiting = [cluster.pod(f"wait-{i}", 1) for i in range(128)]
    await cluster.create(*waiting)
    await asyncio.sleep(3)
    deleting = asyncio.create_task(cluster.delete(*(f"run-{i}" for i in range(16))))
    await until(lambda: cluster.bound(names_of(waiting)))
    begin = perf_counter()
    status = await service.end(signal.SIGTERM)
    seconds = perf_counter() - begin
    await deleting
    said = service.errors()
    unseen = said.count("never retrieved") + said.count("Traceback")
    return {"seconds": seconds, "status": status, "errors": unseen}


# --- HiveD


def hived_gang(
    cluster: Cluster, name: str, pods: int, gpus: int, tenant: str, priority: int
) -> list[dict[str, Any]]:
    """Pods of a group of HiveD's."""
    member = {"podNumber": pods, "leafCellNumber": gpus}
    spec = {"virtualCluster": tenant, "leafCellNumber": gpus, "priority": priority}
    spec["affinityGroup"] = {"name": name, "members": [member]}
    classes = {-1: "hived-opportunistic", 0: "hived-guaranteed", 100: "hived-urgent"}
    more = {"annotations": {HIVED: json.dumps(spec)}, "priorityClassName": classes[priority]}
    return [cluster.pod(f"{name}-{i}", gpus, LEAF_CELL, **more) for i in range(pods)]


@scenario("hived")
async def a_gang_of_HiveD_preempts_twice(world: World) -> Figures:
    """One of two tenants uses all nodes; the other's gang reclaims its own, twice."""
    cluster = world.cluster
    await world.hived(8, 2)
    figures: Figures = {}
    for number, round_ in enumerate(("seconds", "second round")):
        names = [f"low{i}-{number}" for i in range(8)]
        pods = [pod for name in names for pod in hived_gang(cluster, name, 1, 8, "vc0", -1)]
        await run_all(cluster, pods)
        cluster.evicted.clear()
        high = hived_gang(cluster, "again", 4, 8, "vc1", 0)
        figures[round_] = (await run_all(cluster, high))["seconds"]
        times = [at for at, _ in cluster.evicted]
        figures["evicted"] = len(times)
        figures["apart"] = max(times, default=0.0) - min(times, default=0.0)
        await cluster.delete(*list(cluster.pods))
    return figures


@scenario("hived")
async def the_leader_is_killed(world: World) -> Figures:
    """Two replicas, kill -9; seconds until the other one binds a new pod."""
    return await failover(world, signal.SIGKILL)


@scenario("hived")
async def the_leader_is_ended_in_good_order(world: World) -> Figures:
    """The same with SIGTERM."""
    return await failover(world, signal.SIGTERM)


async def failover(world: World, number: int) -> Figures:
    cluster = world.cluster
    await cluster.set_nodes(named(8))
    lease = "--lease", "hivecore/bench"
    with suppress(ApiError):
        path = "/apis/coordination.k8s.io/v1/namespaces/hivecore/leases/bench"
        await cluster.api.request("DELETE", path)
    first = await world.serve_hived(8, 2, *lease)
    second = Service(world, first.options, "hivecore", next(world.ports))
    await second.start()
    replicas = [first, second]
    async with front(world, replicas) as port:
        world.schedule(deployed("kube-scheduler.yaml")[0], port)
        await run_all(cluster, hived_gang(cluster, "before", 2, 8, "vc0", 0))
        begin = perf_counter()
        await first.end(number)
        pods = hived_gang(cluster, "after", 2, 8, "vc0", 0)
        await cluster.create(*pods)
        seconds = await cluster.seconds(begin, names_of(pods), 90)
    return {"seconds": seconds}


@asynccontextmanager
async def front(world: World, replicas: list[Service]) -> AsyncIterator[int]:
    """Plays a Service: a port that leads to the ready replica, checked every 2 seconds."""
    ready = [replicas[0]]

    async def probe() -> None:
        while True:
            answering = [
                replica
                for replica in replicas
                if replica.process.poll() is None and await replica.is_ready()
            ]
            ready[:] = answering
            await asyncio.sleep(2)

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not ready or ready[0].process.poll() is not None:
                return
            forward, back = await asyncio.open_connection("127.0.0.1", ready[0].port)
            pipes = [pipe(reader, back), pipe(forward, writer)]
            await asyncio.wait(map(asyncio.ensure_future, pipes), return_when="FIRST_COMPLETED")
            back.close()
        except OSError:
            pass
        finally:
            writer.close()

    async def pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()

    port = next(world.ports)
    server = await asyncio.start_server(connect, "127.0.0.1", port)
    task = asyncio.create_task(probe())
    try:
        yield port
    finally:
        task.cancel()
        server.close()


# --- gpushare


@scenario("gpushare")
async def gpushare_after_a_restart(world: World) -> Figures:
    """Pods share cards, the service is killed and restarted; pods come for more than is left."""
    cluster = world.cluster
    await cluster.set_nodes(named(4), {"aliyun.com/gpu-count": 2, MEMORY: 32552})
    service = await world.serve("--gpushare", "MiB", account="gpushare")
    world.schedule(deployed("gpushare-kube-scheduler.yaml")[0], service.port)
    pods = [cluster.pod(f"share-{i}", 8138, MEMORY) for i in range(10)]
    await run_all(cluster, pods)
    await service.end()
    await service.start()
    pods = [cluster.pod(f"more-{i}", 8138, MEMORY) for i in range(8)]
    begin = await cluster.create(*pods)
    await until(lambda: len(cluster.bound(names_of(pods))) >= 6)
    seconds = perf_counter() - begin
    await asyncio.sleep(2)
    return {"seconds": seconds, "bound": len(cluster.bound(names_of(pods))), "of": 6}


# --- throughput

_PODS = 400


@scenario("all")
async def throughput_of_400_pods(world: World) -> Figures:
    """400 pods of a GPU each wait on 64 nodes when kube-scheduler starts: pods a second from the
    first that is bound to the last, for kube-scheduler alone, with an extender that does nothing
    (`null_extender.py`) and with each service, which has bound a pod before. Of each the best turn;
    "CPU" is the milliseconds that the extender's process has computed for a pod then."""
    figures: Figures = {}
    for _ in range(world.arguments.turns):
        for kind in ("alone", "null", "composed", "hived"):
            rate, milliseconds = await throughput(world, kind)
            if rate > figures.get(kind, 0.0):
                figures |= {kind: rate, f"{kind} CPU": milliseconds}
    del figures["alone CPU"]
    for kind in ("null", "composed", "hived"):
        figures[f"{kind} / alone"] = figures[kind] / figures["alone"]
    return figures


async def throughput(world: World, kind: str) -> tuple[float, float]:
    """Pods a second, and the extender's milliseconds for one of them."""
    cluster = world.cluster
    await cluster.set_nodes(named(64))
    configuration, port, extender = await world.extended(kind)
    first, *pods = [one_GPU(cluster, kind, i) for i in range(_PODS + 1)]
    await world.try_first(configuration, port, first)
    await cluster.create(*pods)
    await asyncio.sleep(1)
    before = cpu_seconds(extender)
    world.schedule(configuration, port)
    seconds = await cluster.seconds(0.0, names_of(pods), 180)
    spent = cpu_seconds(extender) - before
    times = cluster.bound_at.values()
    world.end()
    if seconds == float("inf"):
        return 0.0, 0.0
    return (len(times) - 1) / (max(times) - min(times)), 1e3 * spent / _PODS


def one_GPU(cluster: Cluster, kind: str, number: int) -> dict[str, Any]:
    """A pod for one of the extenders."""
    if kind == "hived":
        return hived_gang(cluster, f"t{number}", 1, 1, "vc0", 0)[0]
    return cluster.pod(f"t-{number}", 1)


def cpu_seconds(program: "subprocess.Popen[bytes] | None") -> float:
    """What a process has computed so far; 0: there is none, or the system does not say."""
    file = Path(f"/proc/{program.pid}/stat") if program else Path("/nowhere")
    if not file.exists():
        return 0.0
    user, system = file.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


# --- all of them


async def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    api = await ApiServer.of_kubeconfig(arguments.kubeconfig)
    try:
        version = await api.request("GET", "/version")
        cluster = Cluster(api, "hivecore-bench", arguments.scheduler_name)
        world = World(cluster, arguments, folder)
        world.minor = int(version["gitVersion"].split(".")[1])
        files = "hivecore.yaml", "gpushare.yaml", "priority-classes.yaml"
        for document in (document for file in files for document in deployed(file)):
            await apply(api, document)
        for account in ("hivecore", "gpushare"):
            await token_file(api, world, account)
        async with cluster.followed():
            scenarios = {name: await tried(world, name) for name in arguments.only or SCENARIOS}
        return {"kubernetes": version["gitVersion"], "scenarios": scenarios}
    finally:
        await api.close()


async def tried(world: World, name: str) -> Figures:
    cluster = world.cluster
    cluster.twice.clear()
    try:
        figures = await SCENARIOS[name][1](world)
        world.check()
    except (ApiError, RuntimeError) as error:
        figures = {"failed": str(error)}
    finally:
        world.end()
    figures = {"service": SCENARIOS[name][0], **figures, "twice": len(cluster.twice)}
    print(f"{name}: " + ", ".join(f"{key} {shown(value)}" for key, value in figures.items()))
    sys.stdout.flush()
    return {key: None if value == float("inf") else value for key, value in figures.items()}


def shown(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", type=Path, required=True, help="of an administrator")
    parser.add_argument("--kube-scheduler", type=Path, required=True, help="the program")
    parser.add_argument(
        "--scheduler-kubeconfig", type=Path, help="kube-scheduler's own (default: the other one)"
    )
    parser.add_argument(
        "--scheduler-name",
        default="hivecore-bench",
        help="of the pods; the cluster's own kube-scheduler must not have it",
    )
    parser.add_argument("--port", type=int, default=19100, help="the first of those that are used")
    parser.add_argument("--turns", type=int, default=2, help="of the throughput")
    parser.add_argument("--only", nargs="*", choices=SCENARIOS, metavar="SCENARIO")
    parser.add_argument("--keep", type=Path, help="a folder for what the programs say")


def main() -> int:
    arguments = command_line(__doc__, add_options)
    with tempfile.TemporaryDirectory() as folder:
        if arguments.keep:
            arguments.keep.mkdir(parents=True, exist_ok=True)
        figures = asyncio.run(measure(arguments, (arguments.keep or Path(folder)).absolute()))
    if not arguments.only:
        save(arguments, "kubernetes_real", figures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
