"""hivecore's services behind a real kube-scheduler: what the scripts of its scenarios share.

A script needs a cluster that may be played with, an administrator's kubeconfig, and the program
kube-scheduler of its version; no kubelet. It creates nodes that are objects only, in the namespace
hivecore-bench their pods, and of `deploy/` the service accounts with their roles: hivecore runs
here, as these accounts. kube-scheduler runs here too, configured as `docs/howto/` and `deploy/`
say, but for its addresses, `apiVersion` and --scheduler-name. Nodes and pods are deleted at the
end; service accounts and roles stay.

Each scenario starts hivecore again. Its seconds count from the first request to create a pod
until the last pod is bound, unless it says otherwise; "twice" counts what two pods had at once.
"""

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import yaml
from harness import command_line, save
from kubernetes_cluster import LEAF_CELL, Cluster, until

from hivecore.interop.kubernetes.client.api_server import MERGE, ApiError, ApiServer

__all__ = [
    "GANG",
    "Figures",
    "Scenarios",
    "Service",
    "World",
    "apply",
    "deployed",
    "gang",
    "main",
    "named",
    "names_of",
    "pages_configuration",
    "priorities",
    "run_all",
]

ROOT = Path(__file__).parents[1]
GANG = "pod-group.scheduling.sigs.k8s.io"
Figures = dict[str, Any]
Scenario = Callable[["World"], Awaitable[Figures]]


class Scenarios(dict[str, tuple[str, Scenario]]):
    """The scenarios of a script by name, each with the service that it tries."""

    def of(self, service: str) -> Callable[[Scenario], Scenario]:
        """Add a scenario of a service, under the function's name."""

        def add(work: Scenario) -> Scenario:
            self[work.__name__.replace("_", " ")] = service, work
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

    async def serve_composed(self, nodes: int, more: str = "devices:") -> "Service":
        """Start the composed scheduler for these nodes."""
        model = "models: {h100: {gpus: 8}}"
        text = f'cluster:\n  {model}\n  nodes: {{"hc-[0-{nodes - 1}]": h100}}\n{more}\n'
        return await self.serve_file(text)

    async def serve_file(self, text: str) -> "Service":
        """Start the composed scheduler of such a file with a new log."""
        file, log = self.folder / "cluster.yaml", self.folder / f"log-{next(self.ports)}"
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
            "profiles": [
                {**profile, "schedulerName": self.cluster.scheduler}
                for profile in configuration.get("profiles", [{}])
            ],
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


def pages_configuration(page: str = "pods.md") -> dict[str, Any]:
    """Return kube-scheduler's configuration from a how-to."""
    text = (ROOT / "docs" / "howto" / page).read_text("utf-8")
    [document] = re.findall(r"```yaml\n(apiVersion: kubescheduler.*?)```", text, re.S)
    return dict(yaml.safe_load(document))


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


# --- pods


def gang(cluster: Cluster, name: str, pods: int, gpus: int, least: int = 0) -> list[dict[str, Any]]:
    """Pods of a gang; its minimum is all of them by default."""
    labels = {f"{GANG}/name": name, f"{GANG}/min-available": str(least or pods)}
    return [cluster.pod(f"{name}-{i}", gpus, labels=labels) for i in range(pods)]


def names_of(pods: list[dict[str, Any]]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


async def bound_of(cluster: Cluster, pods: list[dict[str, Any]], room: int) -> Figures:
    """Create more pods than there is room for: the seconds until so many are bound."""
    begin = await cluster.create(*pods)
    await until(lambda: len(cluster.bound(names_of(pods))) >= room)
    seconds = perf_counter() - begin
    await asyncio.sleep(2)
    return {"seconds": seconds, "bound": len(cluster.bound(names_of(pods))), "of": room}


async def run_all(cluster: Cluster, pods: list[dict[str, Any]], limit: float = 60.0) -> Figures:
    """Create pods; the seconds until all are bound, and how many are."""
    begin = await cluster.create(*pods)
    seconds = await cluster.seconds(begin, names_of(pods), limit)
    return {"seconds": seconds, "bound": len(cluster.bound(names_of(pods))), "of": len(pods)}


async def priorities(cluster: Cluster) -> None:
    """Create the priority classes bench-low and bench-high."""
    for name, value in (("bench-low", 100), ("bench-high", 1000)):
        document = {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        await apply(cluster.api, {"apiVersion": "scheduling.k8s.io/v1", **document})


# --- a run


async def measure(
    scenarios: Scenarios, arguments: argparse.Namespace, folder: Path
) -> dict[str, Any]:
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
            figures = {
                name: await tried(world, name, *scenarios[name])
                for name in arguments.only or scenarios
            }
        return {"kubernetes": version["gitVersion"], "scenarios": figures}
    finally:
        await api.close()


async def tried(world: World, name: str, service: str, work: Scenario) -> Figures:
    cluster = world.cluster
    cluster.twice.clear()
    try:
        figures = await work(world)
        world.check()
    except (ApiError, RuntimeError) as error:
        figures = {"failed": str(error)}
    finally:
        world.end()
    if cluster.twice:
        print(f"{name}, twice: {sorted(cluster.twice)}", file=sys.stderr)
    figures = {"service": service, **figures, "twice": len(cluster.twice)}
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
    parser.add_argument("--keep", type=Path, help="a folder for what the programs say")


def main(
    description: str | None,
    scenarios: Scenarios,
    subject: str,
    add: Callable[[argparse.ArgumentParser], None] | None = None,
) -> int:
    """Run a script's scenarios, or those that its command line names; save the figures of all.

    :param add: adds options of the script's own.
    """

    def add_all(parser: argparse.ArgumentParser) -> None:
        add_options(parser)
        parser.add_argument("--only", nargs="*", choices=scenarios, metavar="SCENARIO")
        if add:
            add(parser)

    arguments = command_line(description, add_all)
    with tempfile.TemporaryDirectory() as folder:
        if arguments.keep:
            arguments.keep.mkdir(parents=True, exist_ok=True)
        kept = (arguments.keep or Path(folder)).absolute()
        figures = asyncio.run(measure(scenarios, arguments, kept))
    if not arguments.only:
        save(arguments, subject, figures)
    return 0
