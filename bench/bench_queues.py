"""Jobs of many tenants in queues: the cost of finding the next job.

curve      push and next with many jobs alive in 1,000 tenants, per pair, for each order; compared
           with one heap of all jobs by priority, without tenants, and with KubeDL's way: a turn of
           a tenant scans a snapshot of all its jobs. Bytes per job are those of the queues alone
fairness   tenants of weights 1 to 8 with jobs of sizes 1 to 8: the largest difference of size per
           weight between two of them at any time, as a fraction of what is allowed

Times are CPU seconds of all pairs divided by their number, the least of several rounds.
"""

import gc
import tracemalloc
from fractions import Fraction
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any

from harness import command_line, cpu_seconds, save, show, take_turns

from hivecore.queues import QueuedJob, TenantQueues

TENANTS = 1_000


def new_jobs(count: int, prefix: str) -> list[QueuedJob]:
    rng = Random(prefix)
    return [
        QueuedJob(f"{prefix}{i}", f"t{i % TENANTS}", rng.choice([1, 2, 4, 8]), rng.randrange(5))
        for i in range(count)
    ]


def filled(order: Any, jobs: list[QueuedJob]) -> TenantQueues:
    queues = TenantQueues(order=order)
    for now, job in enumerate(jobs):
        queues.push(job, now)
    return queues


def bytes_per_job(jobs: list[QueuedJob]) -> float:
    tracemalloc.start()
    queues = filled("weighted", jobs)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / len(queues)


def ours(queues: TenantQueues, count: int, pairs: int, turn: list[int]) -> float:
    turn[0] += 1
    jobs = new_jobs(pairs, f"r{turn[0]}-")
    gc.collect()

    def work() -> None:
        for job in jobs:
            queues.push(job, count)
            queues.next(count)

    spent = cpu_seconds(work)
    assert len(queues) == count
    return spent / pairs


def one_heap(heap: list[Any], pairs: int, turn: list[int]) -> float:
    turn[0] += 1
    jobs = new_jobs(pairs, f"h{turn[0]}-")
    base = len(heap) * turn[0] * 10

    def work() -> None:
        for i, job in enumerate(jobs, base):
            heappush(heap, (-job.priority, i, job))
            heappop(heap)

    return cpu_seconds(work) / pairs


def scans(queues: list[dict[str, QueuedJob]], pairs: int, turn: list[int]) -> float:
    """KubeDL: scan all jobs of a tenant, and take the highest priority."""
    turn[0] += 1
    jobs = new_jobs(pairs, f"s{turn[0]}-")

    def work() -> None:
        for i, job in enumerate(jobs):
            queue = queues[i % TENANTS]
            queue[job.name] = job
            best = max(list(queue.values()), key=lambda item: item.priority)
            del queue[best.name]

    return cpu_seconds(work) / pairs


def curve_figures(count: int, pairs: int, rounds: int) -> dict[str, Any]:
    jobs = new_jobs(count, "j")
    heap = [(-job.priority, i, job) for i, job in enumerate(jobs)]
    heapify(heap)
    snapshots: list[dict[str, QueuedJob]] = [{} for _ in range(TENANTS)]
    for i, job in enumerate(jobs):
        snapshots[i % TENANTS][job.name] = job
    turn = [0]
    contenders: dict[str, Any] = {}
    for order in ("weighted", "round-robin", "key"):
        queues = filled(order, jobs)
        contenders[order] = lambda queues=queues: ours(queues, count, pairs, turn)
    contenders["one heap"] = lambda: one_heap(heap, pairs, turn)
    few = max(1, min(pairs, 2_000_000_000 // (count + 1) // 100))
    contenders["scan"] = lambda: scans(snapshots, few, turn)
    seconds = take_turns(contenders, rounds)
    return {
        "jobs": count,
        "tenants": min(count, TENANTS),
        "pairs": pairs,
        "seconds": seconds,
        "bytes per job": bytes_per_job(jobs),
    }


def fairness_figures(tenants: int, steps: int) -> dict[str, Any]:
    rng = Random(0)
    queues = TenantQueues()
    weights = {f"t{i}": 1 + i % 8 for i in range(tenants)}
    for name, weight in weights.items():
        queues.set_weight(name, weight)
        queues.push(QueuedJob(f"{name}-first", name, 8), 0)
        queues.push(QueuedJob(f"{name}-second", name, 8), 0)
    served = dict.fromkeys(weights, Fraction(0))
    worst = Fraction(0)
    for i in range(steps):
        job = queues.next(i).job  # type: ignore[union-attr]
        served[job.tenant] += Fraction(job.size, weights[job.tenant])
        queues.push(QueuedJob(f"j{i}", job.tenant, rng.randint(1, 8)), i)
        for name, amount in served.items():
            allowed = Fraction(8, weights[name]) + Fraction(8, weights[job.tenant])
            worst = max(worst, abs(amount - served[job.tenant]) / allowed)
    assert worst <= 1
    return {"tenants": tenants, "steps": steps, "share of the bound": float(worst)}


def main() -> None:
    arguments = command_line(__doc__)
    small = arguments.smoke
    sizes = [1_000] if small else [1_000, 100_000, 1_000_000]
    curve = []
    for count in sizes:
        entry = curve_figures(count, 100 if small else 20_000, 1 if small else 2)
        curve.append(entry)
        show(entry)
    fairness = fairness_figures(*((8, 200) if small else (32, 10_000)))
    show(fairness, "fairness")
    save(arguments, "queues", {"curve": curve, "fairness": fairness})


if __name__ == "__main__":
    main()
