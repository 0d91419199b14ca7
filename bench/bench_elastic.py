"""The benefit of replacing only failed pods, and of jobs that grow and shrink.

    python bench/bench_elastic.py [--smoke] [--out DIR]

The jobs of clusters of Microsoft ITP on nodes of 8 GPUs in racks of 10, as one tenant: a job of
more than 8 GPUs is a gang with pods of 8 in one rack, others have a pod on one node. Events are
simulated, and a decision follows each.

Failures: each node fails after a random time (exponential, the same for all ways), and is repaired
after 12 hours. A job that loses a pod loses 30 minutes of work, and makes no progress until all of
its pods run again; that time is the stall, counted for gangs.

Elastic: jobs of several pods start with half of them and grow to twice as many; their speed is
proportional to a power of the number of pods, 1 if they scale perfectly. Small jobs are rigid.
"""

import heapq
from collections import Counter
from random import Random
from statistics import fmean
from typing import Any

import numpy as np
from harness import ITP, command_line, save

from hivecore.scheduler import Action, Job, Role, Scheduler, Where
from hivecore.topology import NetworkTopology
from hivecore.traces import generate, load

HOUR = 3600.0
RACK, GPUS = 10, 8
LOST = HOUR / 2
REPAIR = 12 * HOUR
NODE_DAYS = 20.0
LOAD = 0.8
#: `Job.on_failure` of gangs, and their spares.
WAYS = (
    ("job", "job", 0),
    ("pod", "pod", 0),
    ("pod-then-job", "pod-then-job", 0),
    ("pod-then-job, 1 spare", "pod-then-job", 1),
)


class World:
    """A cluster of racks whose jobs progress while their minimum of pods runs."""

    def __init__(self, nodes: int, power: float = 1.0) -> None:
        self.names = [f"n{i}" for i in range(nodes)]
        racks = {node: {"rack": f"r{i // RACK}"} for i, node in enumerate(self.names)}
        network = NetworkTopology(["rack"], racks)
        for node in self.names:
            network.set_free(node, {"gpu": GPUS})
        self.scheduler = Scheduler(topology=network, immediate=True)
        self.power = power
        self.events: list[tuple[float, int, str, Any]] = []
        self.pushed = 0
        self.left: dict[str, float] = {}
        self.speed: dict[str, float] = {}
        self.seen: dict[str, float] = {}
        self.next_end: dict[str, int] = {}
        self.came: dict[str, float] = {}
        self.waits: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.stalled: dict[str, float] = {}
        self.stalls: list[float] = []
        self.said: Counter[str] = Counter()

    def push(self, now: float, kind: str, what: Any) -> None:
        self.pushed += 1
        heapq.heappush(self.events, (now, self.pushed, kind, what))

    def run(self, jobs: list[tuple[float, float, Job]]) -> None:
        self.gangs = {job.name for _, _, job in jobs if job.roles[0].pods > 1}
        for submit, work, job in jobs:
            self.left[job.name] = work
            self.push(submit, "come", job)
        while self.events and len(self.ended) < len(jobs):
            now, number, kind, what = heapq.heappop(self.events)
            if kind == "end" and self.next_end.get(what) != number:
                continue
            touched = getattr(self, kind)(what, now)
            actions = self.scheduler.decide(now)
            self.follow(
                touched | {action.job for action in actions if hasattr(action, "job")}, actions, now
            )

    def come(self, job: Job, now: float) -> set[str]:
        self.came[job.name] = now
        self.scheduler.submit(job, now)
        return set()

    def end(self, name: str, now: float) -> set[str]:
        self.scheduler.finish(name, now)
        self.ended[name] = now
        return set()

    def fail(self, node: str, now: float) -> set[str]:
        hit = set()
        self.scheduler.set_node(node, False, now)
        for name in list(self.scheduler):
            for pod in self.scheduler.status(name).pods:
                if pod.node == node and self.scheduler.state(name) == "running":
                    self.progress(name, now)
                    if not self.scheduler.job(name).is_spare(pod.role, pod.index) and (
                        name not in self.stalled
                    ):
                        self.left[name] += LOST
                        self.stalled[name] = now
                    self.scheduler.fail(name, now, f"{pod.role}/{pod.index}")
                    hit.add(name)
        self.push(now + REPAIR, "repair", node)
        return hit

    def repair(self, node: str, now: float) -> set[str]:
        self.scheduler.set_node(node, True, now)
        return set()

    def progress(self, name: str, now: float) -> None:
        """Count the work since the last change of speed."""
        if name in self.seen:
            self.left[name] -= self.speed[name] * (now - self.seen[name])
            self.seen[name] = now

    def follow(self, names: set[str], actions: list[Action], now: float) -> None:
        self.said.update(type(action).__name__ for action in actions)
        for name in sorted(names):
            if name not in self.scheduler:
                continue
            self.progress(name, now)
            job, status = self.scheduler.job(name), self.scheduler.status(name)
            lost = [pod for pod in status.lost if not job.is_spare(*_pod(pod))]
            runs = status.state == "running" and not lost
            pods = [pod for pod in status.pods if not job.is_spare(pod.role, pod.index)]
            self.speed[name] = (len(pods) / job.roles[0].pods) ** self.power if runs else 0.0
            self.seen[name] = now
            if runs:
                self.waits.setdefault(name, now - self.came[name])
                stalled = self.stalled.pop(name, None)
                if stalled is not None and job.roles[0].pods > 1:
                    self.stalls.append(now - stalled)
                end = now + max(0.0, self.left[name]) / self.speed[name]
                self.push(end, "end", name)
            self.next_end[name] = self.pushed if runs else 0

    def figures(self) -> dict[str, Any]:
        times = {name: (end - self.came[name]) / HOUR for name, end in self.ended.items()}
        return {
            "jobs": len(times),
            "mean_wait_min": fmean(self.waits[name] for name in times) / 60,
            "mean_completion_h": fmean(times.values()),
            "mean_gang_wait_min": fmean(self.waits[name] for name in times if name in self.gangs)
            / 60,
            "mean_gang_completion_h": fmean(times[name] for name in times if name in self.gangs),
            "makespan_h": (max(self.ended.values()) - min(self.came.values())) / HOUR,
            "stalls": len(self.stalls),
            "mean_stall_min": fmean(self.stalls) / 60 if self.stalls else 0.0,
            "actions": dict(sorted(self.said.items())),
        }


def _pod(name: str) -> tuple[str, int]:
    role, _, number = name.rpartition("/")
    return role, int(number)


def jobs_of(trace: Any, on_failure: str = "job", spares: int = 0, elastic: bool = False) -> Any:
    items = []
    for i, gpus in enumerate(trace.gpus.tolist()):
        pods = -(-gpus // GPUS)
        many: dict[str, Any] = {}
        if pods > 1:
            many = {"spares": spares}
            if elastic:
                many = {"min_pods": -(-pods // 2), "max_pods": 2 * pods}
        role = Role("w", pods, gpus=min(gpus, GPUS), **many)
        where = Where(must="rack") if pods > 1 else Where()
        how = on_failure if pods > 1 else "job"
        job = Job(f"j{i}", "all", [role], where=where, on_failure=how)
        items.append((float(trace.submit[i]), float(trace.duration[i]), job))
    return items


def failures(world: World, seed: int, until: float) -> None:
    random = Random(seed)
    for node in world.names:
        now = random.expovariate(1 / (NODE_DAYS * 24 * HOUR))
        while now < until:
            world.push(now, "fail", node)
            now += REPAIR + random.expovariate(1 / (NODE_DAYS * 24 * HOUR))


def main() -> int:
    arguments = command_line(__doc__)
    small = arguments.smoke
    rows: list[dict[str, Any]] = []

    def note(world: World, **about: Any) -> None:
        rows.append(about | world.figures())
        print(rows[-1], flush=True)

    for path in ITP[1:2] if small else ITP[1:3]:
        is_there = path.is_file()
        trace = load([str(path)], "itp") if is_there else generate({"all": 16}, jobs=400, seed=0)
        if small:
            trace = trace.select(np.arange(len(trace.gpus)) < 200)
        span = float(trace.submit.max() - trace.submit.min())
        needed = float((trace.gpus * trace.duration).sum()) / span / GPUS
        nodes = -(-round(needed / LOAD) // RACK) * RACK
        about = {"trace": path.stem if is_there else "generated", "nodes": nodes}
        for name, how, spares in WAYS:
            for seed in range(1 if small else 5):
                world = World(nodes)
                failures(world, seed, 2 * span)
                world.run(jobs_of(trace, how, spares))
                note(world, **about, on_failure=name, seed=seed)
        for power in (1.0, 0.8):
            for elastic in (False, True):
                world = World(nodes, power)
                world.run(jobs_of(trace, elastic=elastic))
                note(world, **about, elastic=elastic, power=power)
    save(arguments, "elastic", rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
