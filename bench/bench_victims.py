"""Which jobs are evicted for a waiting job: how many, compared with brute force, and how fast.

    python bench/bench_victims.py [--smoke] [--out DIR]

small      random instances of four nodes of 4 GPUs for each composition of parts; brute force tries
           all sets of running jobs on copies of the parts, without the scheduler. Among instances
           where a set suffices: jobs that wait nevertheless, victims of both, and instances where
           the cheapest set (guaranteed victims, then victims) costs less; seconds of both
large      1,000 nodes of 8 GPUs, all in use by jobs of 1, 2, 4 and 8 GPUs, a third of them
           opportunistic: a guaranteed job evicts some; p50 and p99 of the decision, compared with a
           job that starts on idle GPUs; victims, and how many of the jobs start

Instances and victims are the same on every machine.
"""

import statistics
import sys
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

from harness import command_line, save, show

from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Preempt, Role, Scheduler, Start

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from scheduler.victims.oracle import COMPOSITIONS, Oracle, instance


def small(name: str, count: int) -> dict[str, Any]:
    rng = Random(f"victims {name}")
    result = dict.fromkeys(("evictions", "refused", "victims", "least", "not least"), 0)
    ours = brute = 0.0
    for _ in range(count):
        scheduler, job, _ = instance(COMPOSITIONS[name], rng)
        if job.name not in scheduler:  # it could never start
            continue
        oracle = Oracle(scheduler, job)
        begin = perf_counter()
        least = oracle.least()
        middle = perf_counter()
        actions = scheduler.decide(11.0)
        ours += perf_counter() - middle
        brute += middle - begin
        if least in (None, (0, 0)):
            continue
        result["evictions"] += 1
        starts = any(isinstance(action, Start) and action.job == job.name for action in actions)
        named = [
            action.job
            for action in actions
            if isinstance(action, Preempt) and action.for_job == job.name
        ]
        if not starts:
            result["refused"] += 1
            continue
        result["victims"] += len(named)
        result["least"] += least[1]
        result["not least"] += oracle.rank(named) > least
    return {**result, "seconds": ours, "brute force seconds": brute}


def crowded(nodes: int, rng: Random) -> Scheduler:
    gpus = 8 * nodes
    quotas = [Quota(name, min={"gpu": gpus // 4}, max={"gpu": gpus}) for name in "abcd"]
    scheduler = Scheduler(
        quotas=QuotaTree(quotas, total={"gpu": gpus}, limit="max"),
        devices=DeviceCluster({f"n{i}": NodeDevices.uniform(gpus=8) for i in range(nodes)}),
        immediate=True,
    )
    for number in range(gpus // 2):
        job = Job(f"j{number}", rng.choice("abc"), rng.choice((1, 2, 4, 8)))
        scheduler.submit(job.replace(guaranteed=rng.random() < 2 / 3), float(number))
        scheduler.decide(float(number))
    for number in range(gpus):
        job = Job(f"small {number}", "a", 1, guaranteed=False)
        scheduler.submit(job, scheduler.now)
        scheduler.decide(scheduler.now)
        if scheduler.state(job.name) != "running":
            break
    for name in [name for name in scheduler if scheduler.state(name) != "running"]:
        scheduler.cancel(name, scheduler.now)
    return scheduler


def large(nodes: int, rounds: int) -> list[dict[str, Any]]:
    rng = Random("crowded")
    scheduler = crowded(nodes, rng)
    rows = []
    for roles in ([Role("w", 1, gpus=1)], [Role("w", 1, gpus=8)], [Role("w", 8, gpus=8)]):
        times, victims, idle, started = [], [], [], 0
        for turn in range(rounds):
            branch = scheduler.copy()
            now = scheduler.now + turn + 1
            branch.submit(Job("wanted", "d", roles), now)
            begin = perf_counter()
            actions = branch.decide(now, most=1)
            times.append(perf_counter() - begin)
            victims.append(sum(isinstance(action, Preempt) for action in actions))
            started += any(
                isinstance(action, Start) and action.job == "wanted" for action in actions
            )
            branch.cancel("wanted", now)
            branch.submit(Job("again", "d", roles), now)
            begin = perf_counter()
            branch.decide(now, most=1)
            idle.append(perf_counter() - begin)
            gone = rng.choice(list(scheduler))
            size = scheduler.job(gone).gpus
            scheduler.cancel(gone, now)
            name = f"more {len(rows)} {turn}"
            scheduler.submit(Job(name, "a", size, guaranteed=rng.random() < 2 / 3), now)
            scheduler.decide(now)
        rows.append(
            {
                "gpus": sum(role.pods * role.gpus for role in roles),
                "p50": statistics.median(times),
                "p99": sorted(times)[-1],
                "idle p50": statistics.median(idle),
                "victims": statistics.mean(victims),
                "started": started / rounds,
            }
        )
    return rows


def main() -> None:
    arguments = command_line(__doc__)
    count, nodes, rounds = (20, 50, 2) if arguments.smoke else (300, 1000, 20)
    figures: dict[str, Any] = {"small": {}, "nodes": nodes}
    for name in COMPOSITIONS:
        figures["small"][name] = small(name, count)
        show(figures["small"][name], name)
    figures["large"] = large(nodes, rounds)
    show(figures["large"], "large")
    save(arguments, "victims", figures)


if __name__ == "__main__":
    main()
