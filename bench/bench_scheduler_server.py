"""`hivecore serve --scheduler`: requests per second and latencies at 65,536 GPUs, 8,192 nodes.

    python bench/bench_scheduler_server.py [--smoke] [--out DIR]

The server is the command itself with a decision log, in its own process on its own core; this
process plays the clients on another core. Two thirds of the GPUs are in use; queues, quotas with
1,000 leaves, cells and devices decide.

events        16 kept-alive connections; each posts submit and finish of a gang of 8 GPUs in turn
one at a time the same over one connection, latencies of both
lists         one connection posts lists of 1,000 events: events per second
to action     from posting a submit until another, waiting client has its action
explained     one at a time, while another connection repeatedly asks why a job waits
questions     latencies of explain and what-if (a finish), without other requests
in process    the same gang with `Scheduler` alone: submit, decide, finish, decide

A figure is the best of several rounds; times are wall clock.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from bench_hived_server import Client, connect, start
from bench_scheduler import fill, new_scheduler, quantiles, quota, tenant
from harness import command_line, save, show

from hivecore.scheduler import Job, Role, Scheduler, plain_record

EVENTS = "/v1/events"
GANG = [Role("worker", 1, gpus=8)]


def text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Gangs:
    """Gangs that come and go."""

    def __init__(self) -> None:
        self.number = 0

    def born(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the events of the next gang."""
        self.number += 1
        i = self.number
        job = Job(f"g{i}", tenant(i), GANG, quota=quota(i))
        submit = {"event": "submit", "job": plain_record(job)}
        return submit, {"event": "finish", "job": job.name}

    async def live(self, client: Client) -> tuple[float, float]:
        submit, finish = map(text, self.born())
        return (await client.ask(EVENTS, submit))[1], (await client.ask(EVENTS, finish))[1]


async def events(gangs: Gangs, clients: list[Client], many: int) -> dict[str, float]:
    async def run(client: Client) -> None:
        for _ in range(many // len(clients)):
            await gangs.live(client)

    begin = perf_counter()
    await asyncio.gather(*map(run, clients))
    return {"per_second": 2 * many / (perf_counter() - begin)}


def milliseconds(name: str, seconds: list[float]) -> dict[str, float]:
    return {f"{name}_ms_{at}": 1e3 * value for at, value in quantiles(seconds).items()}


async def one_at_a_time(gangs: Gangs, client: Client, many: int) -> dict[str, float]:
    spent = [await gangs.live(client) for _ in range(many)]
    submits, finishes = map(list, zip(*spent, strict=True))
    return milliseconds("submit", submits) | milliseconds("finish", finishes)


async def lists(gangs: Gangs, client: Client, count: int) -> dict[str, float]:
    now = json.loads((await client.ask("/v1/status"))[0])["now"] + 60.0
    messages = []
    for _ in range(count // 2):
        for event in gangs.born():
            now += 1e-6
            messages.append({**event, "now": now})
    answer, seconds = await client.ask(EVENTS, text(messages))
    assert json.loads(answer)["errors"] == []
    return {"per_second": len(messages) / seconds}


async def to_action(gangs: Gangs, clients: list[Client], many: int) -> dict[str, float]:
    spent = []
    last = json.loads((await clients[0].ask("/v1/status"))[0])["last"]
    for _ in range(many):
        submit, finish = map(text, gangs.born())
        waits = asyncio.ensure_future(clients[1].ask(f"/v1/actions?after={last}&wait=30"))
        await asyncio.sleep(0.002)
        begin = perf_counter()
        await asyncio.gather(clients[0].ask(EVENTS, submit), waits)
        spent.append(perf_counter() - begin)
        await clients[0].ask(EVENTS, finish)
        last += 1
    return milliseconds("action", spent)


async def explained(gangs: Gangs, clients: list[Client], many: int) -> dict[str, float]:
    requests = []
    is_over = False

    async def ask() -> None:
        while not is_over:
            requests.append((await clients[1].ask("/v1/explain/waits"))[1])

    asks = asyncio.ensure_future(ask())
    result = await one_at_a_time(gangs, clients[0], many)
    is_over = True
    await asks
    return result


async def questions(client: Client, many: int) -> dict[str, float]:
    finish = text({"event": "finish", "job": "f0"})
    explains = [(await client.ask("/v1/explain/waits"))[1] for _ in range(many)]
    branches = [(await client.ask("/v1/what-if", finish))[1] for _ in range(many)]
    return milliseconds("explain", explains) | milliseconds("what_if", branches)


def in_process(scheduler: Scheduler, many: int) -> dict[str, float]:
    spent = []
    for i in range(many):
        job = Job(f"i{i}", tenant(i), GANG, quota=quota(i))
        begin = perf_counter()
        scheduler.submit(job, 0.0)
        scheduler.decide(0.0)
        scheduler.finish(job.name, 0.0)
        scheduler.decide(0.0)
        spent.append(perf_counter() - begin)
    return milliseconds("gang", spent)


async def measure(nodes: int, rounds: int, many: int) -> dict[str, dict[str, float]]:
    scheduler = new_scheduler(nodes)
    fill(scheduler, nodes * 8 * 2 // 3)
    waits = Job("waits", tenant(0), [Role("worker", nodes // 8, gpus=8)], quota=quota(0))
    scheduler.submit(waits, 0.0)
    scheduler.decide(0.0)
    assert scheduler.state("waits") == "pending"
    best = {"in process": in_process(scheduler.copy(), many)}
    with tempfile.TemporaryDirectory() as folder:
        state, log = Path(folder, "state"), Path(folder, "log")
        state.write_bytes(scheduler.to_bytes())
        command = [sys.executable, "-m", "hivecore", "serve", "--scheduler", str(state)]
        command += ["--log", str(log), "--port", "0", "--log-level", "warning"]
        process, port, seconds = await start(command)
        best["start"] = {"jobs": len(scheduler), "seconds": seconds}
        gangs = Gangs()
        try:
            clients = [await connect(port) for _ in range(16)]
            for _ in range(rounds):
                results = {
                    "events": await events(gangs, clients, many),
                    "one at a time": await one_at_a_time(gangs, clients[0], many // 4),
                    "lists": await lists(gangs, clients[0], 1000),
                    "to action": await to_action(gangs, clients, many // 10),
                    "explained": await explained(gangs, clients, many // 4),
                    "questions": await questions(clients[0], max(3, many // 100)),
                }
                for name, figures in results.items():
                    known = best.setdefault(name, figures)
                    for key, value in figures.items():
                        known[key] = (max if key == "per_second" else min)(known[key], value)
        finally:
            process.terminate()
            process.wait()
        process, _, seconds = await start(command)
        process.kill()
        process.wait()
        lines = log.read_bytes().count(b"\n")
        best["start again"] = {"lines": lines, "seconds": seconds}
    return best


def main() -> int:
    arguments: argparse.Namespace = command_line(__doc__)
    nodes = 128 if arguments.smoke else 8192
    run = asyncio.run(measure(nodes, *((1, 40) if arguments.smoke else (3, 2000))))
    show(run)
    save(arguments, "scheduler_server", {"gpus": nodes * 8, "nodes": nodes, "contenders": run})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
