"""Gangs under a scheduler that places pod by pod: the cost of an event.

events     with many gangs of ten pods alive: pods of new gangs are created, placed, released, bound
           and deleted; strict and non-strict gangs, groups of one and of two gangs, gangs that find
           no place and gangs that wait too long. The mean is CPU time of the same calls repeated on
           a branch; p50 and p99 are of single events. Memory is the growth of the process, with
           names and the benchmark's own lists
crowd      a pod is held up while many other groups hold what it lacks, and lack nothing; and a gang
           takes and gives back what many failed groups lack
preempt    a gang of 64 pods against 10,000 running pods in 1,000 jobs on 1,000 nodes
curve      events from 100 to 100,000 gangs

p50 and p99 are wall-clock times of single calls, including garbage collection.
"""

import gc
import os
from pathlib import Path
from random import Random
from time import perf_counter, process_time
from typing import Any

from harness import command_line, percentiles, save, show

from hivecore.gangs import Coscheduler, GangSpec, RunningPod, preempt_jobs

PODS = 10


class Cluster:
    """Gangs that come, start and end, so that their number stays constant."""

    def __init__(self, alive: int) -> None:
        self.gangs = Coscheduler()
        self.rng = Random(0)
        self.now = 0
        self.made = 0
        self.running: list[list[str]] = []
        self.times: list[float] = []
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] | None = None
        while len(self.running) < alive:
            self.life()

    def tell(self, event: str, *arguments: Any, **more: Any) -> Any:
        call = getattr(self.gangs, event)
        begin = perf_counter()
        actions = call(*arguments, self.now, **more)
        self.times.append(perf_counter() - begin)
        if self.calls is not None:
            self.calls.append((event, (*arguments, self.now), more))
        return actions

    def specs(self, kind: int) -> list[GangSpec]:
        self.made += 1
        mode: Any = "non-strict" if self.made % 3 == 0 else "strict"
        names = [f"g{self.made}a", f"g{self.made}b"] if kind == 1 else [f"g{self.made}"]
        size = PODS // len(names)
        return [GangSpec(name, size, mode=mode, wait_time=5, groups=names) for name in names]

    def life(self) -> None:
        """One group from its first pod until its last pod has a node; one in ten fails at first."""
        self.now += 1
        kind = self.made % 10
        specs = self.specs(kind)
        pods = [f"{spec.name}-{i}" for spec in specs for i in range(spec.min_members)]
        ahead: list[str] = []
        started: list[str] = []
        for spec in specs:
            for i in range(spec.min_members):
                ahead += tried(self.tell("create_pod", f"{spec.name}-{i}", spec))
        if kind == 2:
            ahead = tried(self.tell("fail_pod", ahead.pop(), lacks=("gpu",)))
        late = kind == 3
        while len(started) < PODS:
            if late and not ahead[1:] and self.rng.random() < 0.3:
                self.now += 6  # waiting pods time out
                ahead += tried(self.tell("advance"))
                late = False
            while not ahead:
                self.now = max(self.now, self.gangs.deadline or 0)
                ahead += tried(self.tell("advance"))
            pod = ahead.pop()
            actions = self.tell("assume_pod", pod, holds=(f"n{self.rng.randrange(1000)}",))
            ahead += tried(actions)
            started += [
                pod for action in actions if action.kind == "release" for pod in action.pods
            ]
        assert sorted(started) == sorted(pods)
        for pod in pods:
            self.tell("bind_pod", pod)
        self.running.append(pods)

    def turn_over(self) -> None:
        """End a gang and start another."""
        i = self.rng.randrange(len(self.running))
        self.running[i], self.running[-1] = self.running[-1], self.running[i]
        for pod in self.running.pop():
            self.tell("delete_pod", pod)
        self.life()


def tried(actions: Any) -> list[str]:
    return [pod for action in actions if action.kind == "try" for pod in action.pods]


def mean_of_an_event(gangs: Coscheduler, calls: list[Any]) -> float:
    """The least of three times."""
    seconds = []
    for _ in range(3):
        branch = gangs.copy()
        bound = [(getattr(branch, event), arguments, more) for event, arguments, more in calls]
        gc.collect()
        begin = process_time()
        for call, arguments, more in bound:
            call(*arguments, **more)
        seconds.append(process_time() - begin)
    return min(seconds) / len(calls)


def resident() -> int:
    """Return the memory of the process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def event_figures(alive: int, turns: int) -> dict[str, Any]:
    gc.collect()
    before = resident()
    cluster = Cluster(alive)
    gc.collect()
    grown = resident() - before
    branch = cluster.gangs.copy()
    cluster.times, cluster.calls = [], []
    for _ in range(turns):
        cluster.turn_over()
    cluster.gangs.check()
    assert len(cluster.gangs) == alive * PODS
    return {
        "gangs": alive,
        "pods": len(cluster.gangs),
        "events": len(cluster.times),
        "event": {"mean": mean_of_an_event(branch, cluster.calls), **percentiles(cluster.times)},
        "bytes per pod": grown / len(cluster.gangs),
    }


def crowd_figures(groups: int, turns: int) -> dict[str, Any]:
    """All groups hold the same resource; one group repeatedly fails for lack of it."""
    gangs = Coscheduler()
    for i in range(groups):
        gangs.create_pod(f"{i}a", GangSpec(f"g{i}", 2, mode="non-strict"), 0)
        gangs.create_pod(f"{i}b", f"g{i}", 0)
        gangs.assume_pod(f"{i}a", 0, holds=("gpu",))
    seconds = []
    last = f"{groups - 1}b"
    for now in range(turns):
        begin = perf_counter()
        gangs.fail_pod(last, now, lacks=("gpu",))
        seconds.append(perf_counter() - begin)
        gangs.retry(f"g{groups - 1}", now)
    return {"groups": groups, "held up": percentiles(seconds), "lost": losses(groups, turns)}


def losses(groups: int, turns: int) -> dict[str, float]:
    """Many strict gangs have failed for lack of what another gang takes and loses."""
    gangs = Coscheduler()
    gangs.define_gang(GangSpec("last", 2), 0)
    for half in "ab":
        gangs.create_pod(half, "last", 0)
    for i in range(groups):
        gangs.create_pod(f"{i}a", GangSpec(f"g{i}", 2), 0)
        gangs.create_pod(f"{i}b", f"g{i}", 0)
        gangs.fail_pod(f"{i}a", 0, lacks=("gpu",))
    seconds = []
    for _ in range(turns):
        gangs.assume_pod("a", 0, holds=("gpu",))
        begin = perf_counter()
        gangs.fail_pod("b", 0, lacks=("gpu",))
        seconds.append(perf_counter() - begin)
        gangs.retry("last", 0)
    return percentiles(seconds)


def preempt_figures(jobs: int, pending: int, turns: int) -> dict[str, Any]:
    """Each job has ten pods; each node has ten slots and is full."""
    rng = Random(1)
    nodes = [f"n{i}" for i in range(jobs)]
    spots = [node for node in nodes for _ in range(PODS)]
    rng.shuffle(spots)
    running = [
        RunningPod(f"j{i // PODS}-{i % PODS}", node, rng.randrange(5), f"j{i // PODS}")
        for i, node in enumerate(spots)
    ]
    on: dict[str, list[str]] = {node: [] for node in nodes}
    for pod in running:
        on[pod.node].append(pod.name)
    gangs = Coscheduler()
    for i in range(pending):
        gangs.create_pod(f"p{i}", GangSpec("urgent", pending), 0)

    def slots(node: str, gone: frozenset[str]) -> int:
        return sum(name in gone for name in on[node])

    seconds = []
    for _ in range(turns):
        begin = process_time()
        result = preempt_jobs(gangs, "urgent", running, slots, nodes=nodes, priority=9)
        seconds.append(process_time() - begin)
    gone = frozenset(pod for victim in result.victims for pod in victim.pods)
    placed = [node for _, node in result.placement]
    assert len(placed) == pending and all(slots(n, gone) >= placed.count(n) for n in placed)
    return {
        "running": len(running),
        "pending": pending,
        "seconds": min(seconds),
        "victims": len(result.victims),
    }


def main() -> None:
    arguments = command_line(__doc__)
    small = arguments.smoke
    sizes = [10, 100] if small else [100, 1_000, 10_000, 100_000]
    curve = []
    for alive in sizes:
        figures = event_figures(alive, 20 if small else 5_000)
        curve.append(figures)
        show(figures)
    crowd = crowd_figures(*((20, 5) if small else (10_000, 1_000)))
    show(crowd)
    preempt = preempt_figures(*((20, 8, 2) if small else (1_000, 64, 5)))
    show(preempt)
    save(
        arguments,
        "gangs",
        {"curve": curve, "crowd": crowd, "preempt": preempt},
    )


if __name__ == "__main__":
    main()
