"""Threads that share a `CellCluster` of 65,536 GPUs, or have one each.

    python bench/bench_threads.py [--smoke] [--out DIR]

one        decisions of one thread: a group of 1 to 8 GPUs is scheduled, committed and released
shared     two threads on one cluster
RLock      the same with `threading.RLock` instead of the library's lock
each       two threads with a cluster each

Figures are relative to `one` of the same round, by wall clock, because waiting is the subject; the
median of the rounds. In addition, the longest pause: how much longer than its millisecond an
unrelated thread slept at most.

apart      two threads with an object each, relative to one thread with one: `CellCluster`,
           `QuotaTree`, `DeviceCluster` and `Scheduler`; the best round of each, as other work on
           the machine only slows a round. Without the GIL two cores do up to twice the work; with
           it threads take turns, and two do as much as one
"""

import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from harness import command_line, save, show

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.errors import StaleDecisionError
from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.scheduler import Job, Scheduler
from hivecore.topology import NetworkTopology

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
    assert not any(name.startswith(f"{thread} ") for name in cluster.groups())
    return done


def new_tree() -> QuotaTree:
    """Return 100 quotas in ten groups, whose owners never use all."""
    groups = [Quota(f"group {i}", max={"gpu": 10_000}) for i in range(10)]
    teams = [Quota(f"{i}", max={"gpu": 1000}, parent=f"group {i % 10}") for i in range(100)]
    return QuotaTree([*groups, *teams], total={"gpu": 100_000})


def admit(tree: QuotaTree, thread: int, stop: threading.Event) -> int:
    done = 0
    while not stop.is_set():
        request = QuotaRequest(f"{thread} {done}", str(done % 100), {"gpu": 1 + done % 8})
        tree.commit(tree.schedule(request))
        tree.release(request.name)
        done += 1
    return done


def new_devices() -> DeviceCluster:
    node = NodeDevices.uniform(gpus=8, nics=4, sockets=2, switches=4)
    return DeviceCluster({f"n{i}": node for i in range(1000)})


def take_devices(cluster: DeviceCluster, thread: int, stop: threading.Event) -> int:
    done = 0
    while not stop.is_set():
        request = DeviceRequest(f"{thread} {done}", gpus=1 + done % 8)
        cluster.commit(cluster.schedule(request))
        cluster.release(request.name)
        done += 1
    return done


def new_scheduler() -> Scheduler:
    """Return a scheduler of 1,024 nodes in racks, with quotas for 100 teams."""
    network = NetworkTopology(["rack"], {f"n{i}": {"rack": f"r{i // 16}"} for i in range(1024)})
    for node in network.nodes:
        network.set_free(node, {"gpu": 8})
    return Scheduler(quotas=new_tree(), topology=network)


def run_jobs(scheduler: Scheduler, thread: int, stop: threading.Event) -> int:
    done, now = 0, scheduler.now
    while not stop.is_set():
        job = Job(f"{thread} {done}", str(done % 100), 1 + done % 8)
        scheduler.submit(job, now)
        assert scheduler.decide(now)
        scheduler.finish(job.name, now)
        done, now = done + 1, now + 1.0
    return done


def longest_pause(cluster: Any, thread: int, stop: threading.Event) -> float:
    longest = 0.0
    while not stop.is_set():
        begin = time.perf_counter()
        time.sleep(1e-3)
        longest = max(longest, time.perf_counter() - begin - 1e-3)
    return longest


Work = Callable[[Any, int, threading.Event], float]

#: (how to create an object for each thread, what threads do with it)
APART: dict[str, tuple[Callable[[], Any], Work]] = {
    "CellCluster": (new_cluster, decide),
    "QuotaTree": (new_tree, admit),
    "DeviceCluster": (new_devices, take_devices),
    "Scheduler": (new_scheduler, run_jobs),
}


def run(work: Sequence[Work], clusters: Sequence[Any], seconds: float) -> tuple[float, float]:
    """Return the total answers per second, and the longest pause in ms."""
    stop = threading.Event()
    result: list[float] = [0.0] * (len(work) + 1)
    errors: list[BaseException] = []

    def thread(number: int, task: Work) -> None:
        try:
            result[number] = task(clusters[number % len(clusters)], number, stop)
        except BaseException as error:
            errors.append(error)

    tasks = [*work, longest_pause]
    threads = [threading.Thread(target=thread, args=pair) for pair in enumerate(tasks)]
    for each in threads:
        each.start()
    time.sleep(seconds)
    stop.set()
    for each in threads:
        each.join()
    for error in errors:
        raise error
    for cluster in clusters:
        cluster.check()
    return sum(result[:-1]) / seconds, result[-1] * 1e3


def apart(seconds: float, rounds: int) -> dict[str, Any]:
    """Return the work of two threads with an object each, relative to one."""
    figures: dict[str, Any] = {}
    for name, (make, work) in APART.items():
        objects = [make(), make()]
        entry = two = 0.0
        for _ in range(rounds):
            entry = max(entry, run([work], objects[:1], seconds)[0])
            two = max(two, run([work, work], objects, seconds)[0])
        figures[name] = {"per_second": entry, "of_two_threads": two, "of_one_thread": two / entry}
    return figures


def main() -> None:
    arguments = command_line(__doc__)
    seconds, rounds = (0.1, 1) if arguments.smoke else (1.0, 15)
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, {'with' if gil else 'without'} the GIL")
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
    figures["apart"] = apart(seconds, rounds)
    show(figures)
    save(arguments, "threads" if gil else "threads_without_gil", {"gil": gil, **figures})


if __name__ == "__main__":
    main()
