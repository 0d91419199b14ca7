"""Threads that share a `CellCluster` of 65,536 GPUs, or have one each.

    python bench/bench_threads.py [--smoke] [--out DIR]

one        decisions of one thread: a group of 1 to 8 GPUs is scheduled, committed and released
shared     two threads on one cluster, together
RLock      the same with `threading.RLock` in the place of the library's lock
each       two threads with a cluster each, together

Figures are relative to `one` of the same round, by the wall clock, as threads that wait are the
subject; the median of the rounds. Beside them, how much longer than its millisecond a thread
slept at most that has nothing to do with the cluster (its pause).

batches    one thread allocates and releases a million cells of a `BuddyAllocator` at a time
waiting    and another one asks that allocator whether a cell is free, again and again: how much of
           a core it takes, which is the work of its answers and not of its waiting
"""

import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from harness import command_line, save

from hivecore.cells import AffinityGroup, BuddyAllocator, CellCluster, Chain, ClusterSpec
from hivecore.errors import StaleDecisionError

LEVELS = ["gpu", "socket", "node", "rack", "row"]


def new_cluster() -> CellCluster:
    owned = {tenant: {"c": {"row": 16}} for tenant in "ABCD"}
    return CellCluster(ClusterSpec({"c": Chain(LEVELS, [4, 2, 8, 16], 64)}, owned))


def decide(cluster: CellCluster, thread: int, stop: threading.Event) -> int:
    done = 0
    while not stop.is_set():
        group = AffinityGroup(f"{thread} {done}", "ABCD"[done % 4], [(1, 1 + done % 8)])
        try:
            cluster.commit(cluster.schedule(group))
        except StaleDecisionError:  # the other thread has taken these leaves
            continue
        cluster.release(group.name)
        done += 1
    return done


def longest_pause(cluster: CellCluster, thread: int, stop: threading.Event) -> float:
    longest = 0.0
    while not stop.is_set():
        begin = time.perf_counter()
        time.sleep(1e-3)
        longest = max(longest, time.perf_counter() - begin - 1e-3)
    return longest


Work = Callable[[CellCluster, int, threading.Event], float]


def run(work: Sequence[Work], clusters: list[CellCluster], seconds: float) -> tuple[float, float]:
    """The sum of what the threads answer, per second, and the longest pause in ms."""
    stop = threading.Event()
    found: list[float] = [0.0] * (len(work) + 1)

    def thread(number: int, task: Work) -> None:
        found[number] = task(clusters[number % len(clusters)], number, stop)

    tasks = [*work, longest_pause]
    threads = [threading.Thread(target=thread, args=pair) for pair in enumerate(tasks)]
    for one in threads:
        one.start()
    time.sleep(seconds)
    stop.set()
    for one in threads:
        one.join()
    for cluster in clusters:
        cluster.check()
        assert not cluster.groups()
    return sum(found[:-1]) / seconds, found[-1] * 1e3


def waiting(seconds: float, rounds: int) -> dict[str, Any]:
    """How a thread fares that waits for long batches, and one that has nothing to do with them."""
    buddies = BuddyAllocator([2] * 10, roots=1 << 14)
    levels = np.ones(1 << 20, dtype=np.int64)

    def allocate(cluster: CellCluster, thread: int, stop: threading.Event) -> float:
        while not stop.is_set():
            buddies.release_many(levels, buddies.allocate_many(levels))
        return 0.0

    def ask(cluster: CellCluster, thread: int, stop: threading.Event) -> float:
        begin = time.thread_time()
        while not stop.is_set():
            buddies.fits(1)
        return time.thread_time() - begin

    small = CellCluster(ClusterSpec({"c": Chain(["gpu"], [], 1)}, {}))
    found: dict[str, list[tuple[float, float]]] = {"batches": [], "waiting": []}
    for _ in range(rounds):
        found["batches"].append(run([allocate], [small], seconds))
        found["waiting"].append(run([allocate, ask], [small], seconds))
    return {
        name: {
            "of_a_core": statistics.median(share for share, _ in each),
            "longest_pause_ms": statistics.median(pause for _, pause in each),
        }
        for name, each in found.items()
    }


def main() -> None:
    arguments = command_line(__doc__)
    seconds, rounds = (0.1, 1) if arguments.smoke else (1.0, 15)
    first, second, slow = new_cluster(), new_cluster(), new_cluster()
    slow._lock = threading.RLock()  # type: ignore[assignment]
    contenders: dict[str, tuple[list[Work], list[CellCluster]]] = {
        "one": ([decide], [first]),
        "shared": ([decide, decide], [first]),
        "RLock": ([decide, decide], [slow]),
        "each": ([decide, decide], [first, second]),
    }
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    pauses: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (work, clusters) in contenders.items():
            rate, pause = run(work, clusters, seconds)
            rates[name].append(rate)
            pauses[name].append(pause)
    figures: dict[str, Any] = {
        name: {
            "decisions_per_second": statistics.median(rates[name]),
            "of_one_thread": statistics.median(
                ours / alone for ours, alone in zip(rates[name], rates["one"], strict=True)
            ),
            "longest_pause_ms": statistics.median(pauses[name]),
        }
        for name in contenders
    }
    figures |= waiting(seconds, rounds)
    for name, found in figures.items():
        if "of_a_core" in found:
            share, pause = found["of_a_core"], found["longest_pause_ms"]
            print(f"{name:>8} {share:5.2f} of a core, pause {pause:5.1f} ms")
            continue
        print(
            f"{name:>8} {found['decisions_per_second']:>9,.0f} decisions/s"
            f" {found['of_one_thread']:5.2f} of one thread,"
            f" pause {found['longest_pause_ms']:5.1f} ms"
        )
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    save(arguments, "threads", {"gil": gil, **figures})


if __name__ == "__main__":
    main()
