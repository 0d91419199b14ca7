"""`hivecore serve`: requests per second over one and over 16 kept-alive connections, 65,536 GPUs.

    python bench/bench_hived_server.py [--smoke] [--out DIR]

The server runs in a process of its own, on the cluster of `bench_cell_cluster.py`, with two thirds
of the tenants' nodes in use. Every connection does the same over and over, one request after the
answer to the last: *filter* for a new pod of 1 to 8 GPUs, with the names of all nodes in the body
as kube-scheduler sends them, and *watch*, the event that this pod is deleted.

serve       as it is: TCP_NODELAY on every connection
plain       the same application behind a listener as `socket.create_server` makes it
in process  the same bodies given to `Extender.handle`, and its answers made JSON, without any HTTP

A figure is the best of several rounds, in which all contenders take turns; times are wall clock,
client and server share the machine.
"""

import io
import json
import multiprocessing
import selectors
import socket
import sys
from collections.abc import Iterator
from statistics import median
from time import perf_counter, sleep

import numpy as np
from bench_cell_cluster import TENANTS, document
from harness import command_line, save

from hivecore.interop.hived import Extender, HivedScheduler
from hivecore.interop.kubernetes import server as http_server

FILTER, WATCH = "/v1/extender/filter", "/v1/watch"
SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"
SIZES = (1, 2, 4, 8)


def filled(racks: int) -> HivedScheduler:
    """A scheduler with two thirds of what the tenants own in use."""
    scheduler = HivedScheduler(io.StringIO(document(racks)))
    rng = np.random.default_rng(racks)
    used, owned = 0, 4 * (max(1, 3 * racks // 16) * 64 + max(1, racks // 4) * 8)
    while 3 * used < 2 * owned:
        size = int(rng.choice(SIZES))
        pod = f"full/{used}"
        spec = {"virtualCluster": TENANTS[int(rng.integers(4))], "leafCellNumber": size}
        if scheduler.schedule(pod, spec).outcome == "bind":
            scheduler.allocate(pod)
            used += size
    return scheduler


def serve_plainly(scheduler: HivedScheduler, port: int, nodelay: bool) -> None:
    """Serve on a given port, for a process of its own."""
    if not nodelay:
        http_server._listener = lambda host, port: socket.create_server((host, port))
    http_server.serve(Extender(scheduler), "127.0.0.1", port, 64 * 2**20)


class Bodies:
    """The bodies of a client's requests, made before the clock runs but for the pod's name."""

    def __init__(self, nodes: list[str]) -> None:
        self.filters = []
        self.deleted = []
        for i, size in enumerate(SIZES):
            spec = {"virtualCluster": TENANTS[i], "leafCellNumber": size}
            meta = {"name": "NAME", "namespace": "x", "uid": "u-NAME"}
            meta["annotations"] = {SPEC: json.dumps(spec)}
            asked = {"Pod": {"metadata": meta}, "Nodes": None, "NodeNames": nodes}
            event = {"type": "DELETED", "object": {"kind": "Pod", "metadata": meta}}
            self.filters.append(json.dumps(asked).encode())
            self.deleted.append(json.dumps(event).encode())

    def endless(self, client: str) -> Iterator[tuple[str, bytes]]:
        number = 0
        while True:
            name = f"{client}-{number}".encode()
            yield FILTER, self.filters[number % 4].replace(b"NAME", name)
            yield WATCH, self.deleted[number % 4].replace(b"NAME", name)
            number += 1


class Client:
    """One kept-alive connection."""

    def __init__(self, port: int, requests: Iterator[tuple[str, bytes]]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.requests = requests
        self.times: dict[str, list[float]] = {FILTER: [], WATCH: []}

    def ask(self) -> None:
        self.path, body = next(self.requests)
        head = f"POST {self.path} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n\r\n"
        self.answer = b""
        self.started = perf_counter()
        self.socket.sendall(head.encode() + body)

    def is_answered(self) -> bool:
        """Read what is there; whether the answer is complete."""
        self.answer += self.socket.recv(1 << 16)
        head, end, body = self.answer.partition(b"\r\n\r\n")
        if not end:
            return False
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return False
        self.times[self.path].append(perf_counter() - self.started)
        found = json.loads(body)
        assert head.startswith(b"HTTP/1.1 200 "), self.answer
        assert self.path == WATCH or found["NodeNames"], found
        return True


def over_http(port: int, bodies: Bodies, connections: int, requests: int) -> dict[str, float]:
    clients = [Client(port, bodies.endless(f"c{i}")) for i in range(connections)]
    selector = selectors.DefaultSelector()
    for client in clients:
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.ask()
    done = 0
    begin = perf_counter()
    while done < requests:
        for key, _ in selector.select():
            if key.data.is_answered():
                done += 1
                key.data.ask()
    elapsed = perf_counter() - begin
    for client in clients:  # every pod is deleted again
        while not client.is_answered():
            pass
        while client.path != WATCH:
            client.ask()
            while not client.is_answered():
                pass
        client.socket.close()
    filters = [time for client in clients for time in client.times[FILTER]]
    return {"requests_per_second": done / elapsed, "filter_ms": median(filters) * 1e3}


def in_process(extender: Extender, bodies: Bodies, requests: int) -> dict[str, float]:
    filters = []
    endless = bodies.endless("p")
    begin = perf_counter()
    for _ in range(requests // 2 * 2):
        path, body = next(endless)
        started = perf_counter()
        status, answer = extender.handle(path, body)
        json.dumps(answer)
        assert status == 200
        if path == FILTER:
            filters.append(perf_counter() - started)
    elapsed = perf_counter() - begin
    return {
        "requests_per_second": requests // 2 * 2 / elapsed,
        "filter_ms": median(filters) * 1e3,
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def wait_for(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            sleep(0.01)


def measure(racks: int, rounds: int, requests: int) -> dict[str, dict[str, float]]:
    scheduler = filled(racks)
    bodies = Bodies(list(scheduler.config.spec.chains["rack"].nodes or ()))
    ports = {"serve": free_port(), "plain": free_port()}
    servers = [
        multiprocessing.Process(target=serve_plainly, args=(scheduler, port, name == "serve"))
        for name, port in ports.items()
    ]
    for server in servers:
        server.start()
    extender = Extender(scheduler)
    best: dict[str, dict[str, float]] = {}
    try:
        for port in ports.values():
            wait_for(port)
        for _ in range(rounds):
            found = {"in process": in_process(extender, bodies, requests)}
            for name, port in ports.items():
                for connections in (1, 16):
                    # Answers that wait 40 ms need no more samples than this.
                    many = requests if name == "serve" else requests // 10 * connections // 2
                    key = f"{name}, {connections} connection{'s' * (connections > 1)}"
                    found[key] = over_http(port, bodies, connections, many)
            for name, figures in found.items():
                known = best.setdefault(name, figures)
                known["filter_ms"] = min(known["filter_ms"], figures["filter_ms"])
                known["requests_per_second"] = max(
                    known["requests_per_second"], figures["requests_per_second"]
                )
    finally:
        for server in servers:
            server.terminate()
            server.join()
    return best


def main() -> int:
    arguments = command_line(__doc__)
    racks = 16 if arguments.smoke else 1024
    found = measure(racks, 1 if arguments.smoke else 8, 40 if arguments.smoke else 1000)
    for name, figures in found.items():
        print(
            f"{name:>22}: {figures['requests_per_second']:8,.0f} requests/s, "
            f"filter {figures['filter_ms']:6.2f} ms"
        )
    save(arguments, "hived_server", {"gpus": racks * 64, "nodes": racks * 8, "contenders": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
