"""`hivecore serve --kubeconfig`: requests per second and latencies at 65,536 GPUs, 8,192 nodes.

    python bench/bench_hived_server.py [--smoke] [--out DIR]

The server is the command itself, in a process of its own on a core of its own; kube-scheduler and
an API server (`kube_api.py`) are played by this process on another one. Two thirds of the tenants'
nodes are in use by pods that it recovers when it starts. A pod then lives as in a cluster: the
watch tells of it, *filter* names all nodes (100 KB, as kube-scheduler sends them), *bind* posts a
Binding to the API server, the watch tells that it is bound, and at last that it is deleted.

filter          16 kept-alive connections, each with one request after the other
filter + bind   the same with both
one at a time   latencies over one connection: all nodes named, none named, bind
polled          one connection filters while another one asks for clusterstatus all the time
in process      the same bodies given to `Extender.begin`, without HTTP and without a cluster, and
                such whose names are in another order each time, as kube-scheduler's may be; these
                once more of pods that go nowhere else (`ignoreK8sSuggestedNodes: false`)

A figure is the best of several rounds; times are wall clock.
"""

import argparse
import asyncio
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from bench_cell_cluster import TENANTS, document
from harness import command_line, save, show
from kube_api import KubeApi

from hivecore.interop.hived import Extender, HivedScheduler

DOMAIN = "hivedscheduler.microsoft.com"
SPEC, INFO = f"{DOMAIN}/pod-scheduling-spec", f"{DOMAIN}/pod-bind-info"
SIZES = (1, 2, 4, 8)
FILTER, BIND, STATUS = "/v1/extender/filter", "/v1/extender/bind", "/v1/inspect/clusterstatus"
Latencies = list[float]


def pod_object(name: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A pod as the API server has it."""
    annotations = {SPEC: json.dumps(spec)}
    meta = {"name": name, "namespace": "x", "uid": f"u-{name}", "annotations": annotations}
    containers = [{"name": "c", "image": "train", "resources": {"limits": {"cpu": "8"}}}]
    return {
        "kind": "Pod",
        "metadata": {**meta, "resourceVersion": "1"},
        "spec": {"containers": containers, **more},
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }


def filled(racks: int) -> tuple[HivedScheduler, list[dict[str, Any]]]:
    """A scheduler with two thirds of what the tenants own in use, and its pods."""
    scheduler = HivedScheduler(io.StringIO(document(racks)))
    rng = np.random.default_rng(racks)
    pods = []
    used, owned = 0, 4 * (max(1, 3 * racks // 16) * 64 + max(1, racks // 4) * 8)
    while 3 * used < 2 * owned:
        size = int(rng.choice(SIZES))
        spec = {"virtualCluster": TENANTS[int(rng.integers(4))], "leafCellNumber": size}
        pod = pod_object(f"full-{len(pods)}", spec)
        decision = scheduler.schedule(pod, spec)
        if decision.outcome == "bind":
            scheduler.allocate(pod)
            pod["metadata"]["annotations"][INFO] = json.dumps(scheduler.bind_info(pod))
            pod["spec"]["nodeName"] = decision.node
            pods.append(pod)
            used += size
    return scheduler, pods


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Bodies:
    """Requests and events, made before the clock runs but for the pod's name."""

    def __init__(self, nodes: list[str]) -> None:
        pods = [
            pod_object("NAME", {"virtualCluster": TENANTS[i], "leafCellNumber": size})
            for i, size in enumerate(SIZES)
        ]
        self.named, self.unnamed = (
            [compact({"Pod": pod, "Nodes": None, "NodeNames": names}) for pod in pods]
            for names in (nodes, None)
        )
        rng = np.random.default_rng(len(nodes))
        orders = [rng.permutation(nodes).tolist() for _ in range(32)]
        more = {"ignoreK8sSuggestedNodes": False}
        choosy = [
            pod_object("NAME", {"virtualCluster": TENANTS[i], "leafCellNumber": size, **more})
            for i, size in enumerate(SIZES)
        ]
        self.reordered, self.respected = (
            [
                compact({"Pod": asking[i % 4], "Nodes": None, "NodeNames": order})
                for i, order in enumerate(orders)
            ]
            for asking in (pods, choosy)
        )
        for pod in pods:
            pod["metadata"]["resourceVersion"] = "VERSION"
        self.events = [compact(pod) for pod in pods]
        self.bind = compact(
            {"PodName": "NAME", "PodNamespace": "x", "PodUID": "u-NAME", "Node": "NODE"}
        )


class Client(asyncio.Protocol):
    """One kept-alive connection."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.data = bytearray()
        self.length = -1

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self.length < 0:
            end = self.data.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.data[:end]).lower()
            assert head.startswith(b"http/1.1 200"), bytes(self.data)
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            self.start, self.length = end + 4, end + 4 + length
        if len(self.data) >= self.length:
            self.answer.set_result(bytes(self.data[self.start :]))
            self.data.clear()
            self.length = -1

    async def ask(self, path: str, body: bytes = b"") -> tuple[bytes, float]:
        """The answer, and how long it took."""
        self.answer = asyncio.get_running_loop().create_future()
        method = b"POST" if body else b"GET"
        head = b"%s %s HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n"
        started = perf_counter()
        self.transport.write(head % (method, path.encode(), len(body)) + body)
        return await self.answer, perf_counter() - started


async def connect(port: int) -> Client:
    loop = asyncio.get_running_loop()
    return (await loop.create_connection(Client, "127.0.0.1", port))[1]


class Lives:
    """Pods that come, are asked for and go."""

    def __init__(self, api: KubeApi, bodies: Bodies) -> None:
        self.api, self.bodies, self.number = api, bodies, 0

    def born(self) -> tuple[int, bytes]:
        """The next pod, of which the watch tells."""
        self.number += 1
        name = b"p%d" % self.number
        self.api.tell(b"ADDED", name, self.bodies.events[self.number % 4].replace(b"NAME", name))
        return self.number, name

    async def live(
        self, client: Client, pod: tuple[int, bytes], bind: bool, named: bool = True
    ) -> list[float]:
        """One life; the seconds of filter, and of bind."""
        number, name = pod
        bodies = self.bodies.named if named else self.bodies.unnamed
        answer, seconds = await client.ask(FILTER, bodies[number % 4].replace(b"NAME", name))
        results = [seconds]
        nodes = json.loads(answer)["NodeNames"]
        assert nodes, answer
        event = self.bodies.events[number % 4].replace(b"NAME", name)
        if bind:
            body = self.bodies.bind.replace(b"NAME", name).replace(b"NODE", nodes[0].encode())
            answer, seconds = await client.ask(BIND, body)
            assert json.loads(answer)["Error"] == "", answer
            results.append(seconds)
            self.api.tell(b"MODIFIED", name, event)
        self.api.tell(b"DELETED", name, event)
        return results

    async def many(self, clients: list[Client], lives: int, bind: bool) -> dict[str, float]:
        """Lives over all connections side by side."""
        left = lives
        times: list[list[float]] = []

        async def run(client: Client) -> None:
            nonlocal left
            pod = self.born()
            while left > 0:
                left -= 1
                following = self.born()
                times.append(await self.live(client, pod, bind))
                pod = following

        begin = perf_counter()
        await asyncio.gather(*map(run, clients))
        result = {"per_second": len(times) / (perf_counter() - begin)}
        result |= percentiles("filter_ms", [time[0] for time in times])
        return result | (percentiles("bind_ms", [time[1] for time in times]) if bind else {})


def percentiles(name: str, seconds: Latencies) -> dict[str, float]:
    p50, p99 = np.percentile(seconds, (50, 99)) * 1e3
    return {f"{name}_p50": float(p50), f"{name}_p99": float(p99)}


async def one_at_a_time(lives: Lives, client: Client, many: int) -> dict[str, float]:
    results: dict[str, Latencies] = {"named": [], "unnamed": [], "bind": []}
    pod = lives.born()
    for i in range(2 * many):
        named = i % 2 == 0
        following = lives.born()  # ahead of its request, as the watch mostly is
        filtered, bound = await lives.live(client, pod, True, named)
        pod = following
        results["named" if named else "unnamed"].append(filtered)
        results["bind"].append(bound)
    result: dict[str, float] = {}
    for name, seconds in results.items():
        result |= percentiles(f"{name}_ms", seconds)
    return result


def poll(port: int, polls: int) -> Latencies:
    """Ask for the status of the cluster, for a thread: what comes is not looked at."""
    seconds: Latencies = []
    room = memoryview(bytearray(1 << 20))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(polls):
            started = perf_counter()
            connection.sendall(f"GET {STATUS} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
            got = connection.recv_into(room)
            head, _, body = bytes(room[:got]).partition(b"\r\n\r\n")
            left = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            left -= len(body)
            while left:
                left -= connection.recv_into(room[:left])
            seconds.append(perf_counter() - started)
    return seconds


async def polled(lives: Lives, client: Client, port: int, polls: int) -> dict[str, float]:
    [first] = await asyncio.to_thread(poll, port, 1)
    filters: Latencies = []
    task = asyncio.ensure_future(asyncio.to_thread(poll, port, polls))
    pod = lives.born()
    while not task.done():
        following = lives.born()
        filters += await lives.live(client, pod, False)
        pod = following
    return {
        "first_ms": first * 1e3,
        **percentiles("poll_ms", task.result()),
        **percentiles("filter_ms", filters),
    }


def in_process(scheduler: HivedScheduler, bodies: Bodies, many: int) -> dict[str, float]:
    extender = Extender(scheduler)
    kinds = {
        "named": bodies.named,
        "reordered": bodies.reordered,
        "respected": bodies.respected,
        "unnamed": bodies.unnamed,
    }
    results: dict[str, Latencies] = {kind: [] for kind in kinds}
    for number in range(many):
        for kind, texts in kinds.items():
            name = b"%d-%s" % (number, kind.encode())
            body = texts[number % len(texts)].replace(b"NAME", name)
            started = perf_counter()
            reply = extender.begin(FILTER, body)
            results[kind].append(perf_counter() - started)
            assert reply.answer.node_names, reply
            extender.forget(f"u-{name.decode()}")
    result: dict[str, float] = {}
    for kind, seconds in results.items():
        result |= percentiles(f"{kind}_ms", seconds)
    return result


def use_core(core: int) -> None:
    """Run on one core from now on, and what is started too; where there are enough."""
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {core})


async def start(command: list[str]) -> tuple[subprocess.Popen[str], int, float]:
    """The server's process, its port, and how long it took until it was ready."""
    started = perf_counter()
    use_core(0)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    use_core(1)
    assert process.stdout is not None
    line = await asyncio.to_thread(process.stdout.readline)
    return process, int(line.strip().rpartition(":")[2]), perf_counter() - started


async def measure(racks: int, rounds: int, many: int) -> dict[str, dict[str, float]]:
    scheduler, pods = filled(racks)
    nodes = list(scheduler.config.spec.chains["rack"].nodes or ())
    bodies = Bodies(nodes)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    api = KubeApi([{"metadata": {"name": name}, "status": ready} for name in nodes], pods)
    best: dict[str, dict[str, float]] = {"in process": in_process(scheduler, bodies, many)}
    with tempfile.TemporaryDirectory() as folder:
        config, kubeconfig = Path(folder, "hived.yaml"), Path(folder, "kubeconfig")
        config.write_text(document(racks))
        kubeconfig.write_text(api.kubeconfig(await api.listen()))
        command = [sys.executable, "-m", "hivecore", "serve", str(config), "--port", "0"]
        command += ["--kubeconfig", str(kubeconfig), "--log-level", "warning", "--no-advertise"]
        process, port, seconds = await start(command)
        best["start"] = {"pods": len(pods), "seconds": seconds}
        try:
            clients = [await connect(port) for _ in range(16)]
            lives = Lives(api, bodies)
            for _ in range(rounds):
                results = {
                    "filter": await lives.many(clients, many, False),
                    "filter + bind": await lives.many(clients, many, True),
                    "one at a time": await one_at_a_time(lives, clients[0], many // 4),
                    "polled": await polled(lives, clients[0], port, max(3, many // 50)),
                }
                for name, figures in results.items():
                    known = best.setdefault(name, figures)
                    for key, value in figures.items():
                        known[key] = (max if key == "per_second" else min)(known[key], value)
        finally:
            process.terminate()
            process.wait()
    return best


def main() -> int:
    arguments: argparse.Namespace = command_line(__doc__)
    racks = 16 if arguments.smoke else 1024
    run = asyncio.run(measure(racks, *((1, 40) if arguments.smoke else (5, 2000))))
    show(run)
    save(arguments, "hived_server", {"gpus": racks * 64, "nodes": racks * 8, "contenders": run})
    return 0


if __name__ == "__main__":
    sys.exit(main())
