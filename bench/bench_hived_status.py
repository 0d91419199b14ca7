"""HiveD's whole cluster status as JSON, and what a filter request waits meanwhile, 65,536 GPUs.

    python bench/bench_hived_status.py [--smoke] [--out DIR]

The cluster is that of `bench_hived_server.py`, with two thirds of what the tenants own in use.

plain       `status()` and `json.dumps` of it
cold        the first `status_json()` of a scheduler that has been read from bytes
polled      `status_json()` again and again; before each, 300 pods go and others of the same sizes
            come, as far as they find a place
filter      `schedule` and `allocate` for a new pod of 1 to 8 GPUs, two milliseconds after the last
            one (each takes the place of an older one), while another thread does nothing, or asks
            for the status all the time (plain, polled), or for the first time (cold): in a thread
            of its own, or in the event loop of the main thread; from when it was due

Filters are measured with Python's own switch interval (5 ms) and with one of 0.5 ms. Every answer
of the warm-up is read and compared with `status()`. Times are wall clock; the garbage collector is
on, as in a server; objects that are there before are frozen.
"""

import asyncio
import gc
import json
import sys
import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from time import perf_counter, sleep
from typing import Any

import numpy as np
from bench_cell_cluster import TENANTS
from bench_hived_server import SIZES, filled
from harness import command_line, save

from hivecore.interop.hived import HivedScheduler

NUMBERS = count()

Poll = Callable[[HivedScheduler], Any]


def plain(scheduler: HivedScheduler) -> bytes:
    return json.dumps(scheduler.status(), separators=(",", ":")).encode()


class Pods:
    """Pods of 1 to 8 GPUs that come and go."""

    def __init__(self, scheduler: HivedScheduler) -> None:
        self.scheduler = scheduler
        self.rng = np.random.default_rng(7)
        self.live = [
            (pod, group["virtual_cluster"], group["placements"][0]["leaf_cell_number"])
            for item in scheduler.affinity_groups()["items"]
            if (group := scheduler.affinity_group(item["metadata"]["name"]))
            for pod in group["allocated_pods"]
        ]
        self.recent: deque[str] = deque()

    def bind(self, tenant: str, size: int) -> str | None:
        pod = f"new/{next(NUMBERS)}"
        spec = {"virtualCluster": tenant, "leafCellNumber": size}
        if self.scheduler.schedule(pod, spec).outcome != "bind":
            return None
        self.scheduler.allocate(pod)
        return pod

    def turn_over(self, number: int) -> None:
        """Random pods go, then as many come."""
        gone = []
        for _ in range(min(number, len(self.live))):
            place = int(self.rng.integers(len(self.live)))
            self.live[place], self.live[-1] = self.live[-1], self.live[place]
            gone.append(self.live.pop())
        for pod, _, _ in gone:
            self.scheduler.delete(pod)
        for _, tenant, size in gone:
            pod = self.bind(tenant, size)
            if pod is not None:
                self.live.append((pod, tenant, size))

    def filter(self) -> None:
        """A pod comes; there are not more than some of them at a time."""
        if len(self.recent) == 32:
            self.scheduler.delete(self.recent.popleft())
        tenant = TENANTS[int(self.rng.integers(4))]
        size = int(self.rng.choice(SIZES))
        pod = self.bind(tenant, size)
        if pod is not None:  # a small cluster can be full
            self.recent.append(pod)

    def leave(self) -> None:
        """The pods of the filters go."""
        while self.recent:
            self.scheduler.delete(self.recent.popleft())


def milliseconds(task: Callable[[], Any]) -> float:
    begin = perf_counter()
    task()
    return (perf_counter() - begin) * 1e3


def quantiles(times: list[float]) -> dict[str, float]:
    p50, p99 = np.percentile(times, [50, 99])
    return {"p50": float(p50), "p99": float(p99), "max": max(times), "samples": len(times)}


def in_a_thread(pods: Pods, polls: Callable[[], None]) -> list[float]:
    """Filters of one thread, while this one polls."""
    times: list[float] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            due = perf_counter() + 0.002
            sleep(0.002)
            pods.filter()
            times.append((perf_counter() - due) * 1e3)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        polls()
    finally:
        done.set()
        thread.join()
    return times


def in_the_event_loop(pods: Pods, polls: Callable[[], None]) -> list[float]:
    """Filters of an event loop, while a worker thread polls."""
    times: list[float] = []

    async def run() -> None:
        polling = asyncio.create_task(asyncio.to_thread(polls))
        while not polling.done():
            due = perf_counter() + 0.002
            await asyncio.sleep(0.002)
            pods.filter()
            times.append((perf_counter() - due) * 1e3)
        await polling

    asyncio.run(run())
    return times


WAYS = {"thread": in_a_thread, "event loop": in_the_event_loop}


def beside(scheduler: HivedScheduler, poll: Poll | None, seconds: float) -> dict[str, Any]:
    """Filters while somebody polls all the time."""
    pods = Pods(scheduler)
    found = {}
    for name, way in WAYS.items():
        polls: list[float] = []

        def keep_polling(polls: list[float] = polls) -> None:
            end = perf_counter() + seconds
            while perf_counter() < end:
                if poll is None:
                    sleep(0.01)
                else:
                    polls.append(milliseconds(lambda: poll(scheduler)))

        found[name] = {"filter": quantiles(way(pods, keep_polling))}
        pods.leave()
        if polls:
            found[name]["poll"] = quantiles(polls)
    return found


def beside_the_first(state: bytes, rounds: int) -> dict[str, Any]:
    """Filters while a scheduler draws its first status."""
    found = {}
    for name, way in WAYS.items():
        filters, polls = [], []
        for _ in range(rounds):
            scheduler = HivedScheduler.from_bytes(state)
            pods = Pods(scheduler)
            filters += way(pods, lambda: polls.append(milliseconds(scheduler.status_json)))  # noqa: B023
        found[name] = {"filter": quantiles(filters), "poll": quantiles(polls)}
    return found


def measure(racks: int, rounds: int, seconds: float) -> dict[str, Any]:
    scheduler, _ = filled(racks)
    state = scheduler.to_bytes()
    pods = Pods(scheduler)
    gc.collect()
    gc.freeze()
    figures: dict[str, Any] = {"gpus": racks * 64, "bytes": len(scheduler.status_json())}
    for _ in range(2):
        pods.turn_over(300)
        assert json.loads(scheduler.status_json()) == scheduler.status()
    cold, plainly, polled, same = [], [], [], []
    for _ in range(rounds):
        plainly.append(milliseconds(lambda: plain(scheduler)))
        fresh = HivedScheduler.from_bytes(state)
        cold.append(milliseconds(fresh.status_json))
        for _ in range(5):
            pods.turn_over(300)
            polled.append(milliseconds(scheduler.status_json))
            same.append(milliseconds(scheduler.status_json))
    figures["plain"], figures["cold"] = quantiles(plainly), quantiles(cold)
    figures["polled"], figures["unchanged"] = quantiles(polled), quantiles(same)
    figures["beside"] = {}
    usual = sys.getswitchinterval()
    for interval in (usual, 0.0005):
        sys.setswitchinterval(interval)
        figures["beside"][f"switch interval {interval * 1e3:g} ms"] = {
            "nothing": beside(scheduler, None, seconds),
            "plain": beside(scheduler, plain, seconds),
            "polled": beside(scheduler, HivedScheduler.status_json, seconds),
            "cold": beside_the_first(state, rounds),
        }
    sys.setswitchinterval(usual)
    return figures


def main() -> int:
    arguments = command_line(__doc__)
    figures = measure(*((16, 2, 0.2) if arguments.smoke else (1024, 8, 6.0)))
    print(f"{figures['gpus']:,} GPUs, {figures['bytes'] / 1e6:.1f} MB")
    for name in ("plain", "cold", "polled", "unchanged"):
        times = figures[name]
        print(f"{name:>10}: p50 {times['p50']:7.1f} ms, max {times['max']:7.1f} ms")
    for interval, contenders in figures["beside"].items():
        print(interval)
        for name, ways in contenders.items():
            for way, found in ways.items():
                times = found["filter"]
                polls = f", poll p50 {found['poll']['p50']:6.1f} ms" if "poll" in found else ""
                print(
                    f"{name:>10}, {way:>10}: filter p50 {times['p50']:6.2f} ms, p99 "
                    f"{times['p99']:7.2f}, max {times['max']:7.2f} of {times['samples']}{polls}"
                )
    save(arguments, "hived_status", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
