"""Threads that share a `CellCluster` of 65,536 GPUs, or have one each.

    python bench/bench_threads.py [--smoke] [--out DIR]

one        decisions of one thread: a group of 1 to 8 GPUs is scheduled, committed and released
shared     two threads on one cluster, together
RLock      the same with `threading.RLock` in the place of the library's lock
each       two threads with a cluster each, together
batch      two threads of which one copies the cluster all the time, the decisions of the other

Figures are relative to `one` of the same round, by the wall clock, as threads that wait are the
subject; the median of the rounds. Beside them, how much longer than its millisecond a thread
slept at most that has nothing to do with the cluster (its pause).
"""

import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from harness import command_line, save

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
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


def copy_always(cluster: CellCluster, thread: int, stop: threading.Event) -> int:
    while not stop.is_set():
        cluster.copy()
    return 0


def longest_pause(cluster: CellCluster, thread: int, stop: threading.Event) -> float:
    longest = 0.0
    while not stop.is_set():
        begin = time.perf_counter()
        time.sleep(1e-3)
        longest = max(longest, time.perf_counter() - begin - 1e-3)
    return longest


Work = Callable[[CellCluster, int, threading.Event], float]


def run(work: Sequence[Work], clusters: list[CellCluster], seconds: float) -> tuple[float, float]:
    """Decisions per second of all threads, and the longest pause in ms."""
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
        "batch": ([decide, copy_always], [first]),
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
    for name, found in figures.items():
        print(
            f"{name:>8} {found['decisions_per_second']:>9,.0f} decisions/s"
            f" {found['of_one_thread']:5.2f} of one thread,"
            f" pause {found['longest_pause_ms']:5.1f} ms"
        )
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    save(arguments, "threads", {"gil": gil, **figures})


if __name__ == "__main__":
    main()
