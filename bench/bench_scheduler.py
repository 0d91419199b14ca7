"""The composed scheduler: the cost of a decision, compared with direct calls of its parts.

decisions  submit, decide and finish of one gang, with queues, quotas (1,000 leaves), cells and
           devices, two thirds of the GPUs in use: p50 and p99; "parts" is the same work by hand
no cells   two of these gangs where devices choose the nodes
profile    the time of such a decision by part and method
waiting    many jobs wait for quotas and cells: an event that changes nothing for them, with the
           decide that follows
explain    why a gang waits for its tenant's cells, all of which are in use, and which jobs must end
           so that it starts now
full       a cluster in use that jobs of ten kinds wait for, of quotas that take back from each
           other: why a job waits, a change of a quota, a new job while a node drains, the end of
           a job with the decide that tries all kinds
together   ten pairs of gangs that start together wait for cells: a job of their tenant ends, which
           frees too little for a pair, with the decide that tries them
copy       a branch of all of it
log        the same jobs with and without a decision log, and the log run again

Times are CPU seconds; contenders take turns.

    python bench/bench_scheduler.py --restart

only measures a restart after many events, with and without snapshots of the log, just before the
next snapshot: CPU seconds of `recover`, and those of the decisions.
"""

import argparse
import gc
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from harness import command_line, cpu_seconds, save, show
from scheduler_profile import profile

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.queues import QueuedJob, TenantQueues
from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.scheduler import Job, Role, Scheduler, Start, recover, replay

TENANTS = 8
LEAVES = 125  # quotas of each tenant
NICS = DeviceRequest("any", gpus=8, nics=8, joint=("gpu", "rdma"))
GANGS = {
    "8 GPUs": [Role("worker", 1, gpus=8)],
    "2 pods of 4 GPUs": [Role("worker", 2, gpus=4)],
    "8 pods of 1 GPU": [Role("worker", 8, gpus=1)],
    "8 pods of 8 GPUs and 8 NICs": [Role("worker", 8, devices=NICS)],
}


def tenant(i: int) -> str:
    return f"t{i % TENANTS}"


def quota(i: int) -> str:
    return f"t{i % TENANTS}/{i % LEAVES}"


def new_scheduler(nodes: int, log: Path | None = None, *, has_cells: bool = True) -> Scheduler:
    racks = nodes // 8
    chain = Chain(["gpu", "pair", "quad", "node", "rack"], [2, 2, 2, 8], racks)
    owned = {tenant(i): {"H100": {"rack": racks // TENANTS}} for i in range(TENANTS)}
    cells = CellCluster(ClusterSpec({"H100": chain}, owned))
    all_of_it = {"gpu": 8 * nodes}
    quotas = [Quota("all", max=all_of_it)]
    for i in range(TENANTS):
        share = {"gpu": nodes}
        quotas.append(Quota(tenant(i), max=all_of_it, min=share, parent="all"))
        least = {"gpu": nodes // LEAVES}
        quotas += [
            Quota(f"{tenant(i)}/{k}", max=share, min=least, parent=tenant(i)) for k in range(LEAVES)
        ]
    machine = NodeDevices.uniform(gpus=8, nics=8, sockets=2, switches=4)
    return Scheduler(
        queues=TenantQueues(),
        quotas=QuotaTree(quotas, total=all_of_it),
        cells=cells if has_cells else None,
        devices=DeviceCluster(dict.fromkeys(cells.nodes, machine)),
        immediate=True,
        log=log,
    )


def fill(scheduler: Scheduler, gpus: int) -> int:
    """Start jobs until so many GPUs are in use."""
    rng = Random(0)
    used = number = 0
    while used < gpus:
        size = rng.choice([1, 2, 4, 8, 8, 16, 32])
        roles = [Role("worker", max(1, size // 8), gpus=min(8, size))]
        of = tenant(number)
        job = Job(f"f{number}", of, roles, quota=f"{of}/{rng.randrange(LEAVES)}")
        scheduler.submit(job, 0.0)
        used += sum(size for entry in scheduler.decide(0.0) if isinstance(entry, Start))
        number += 1
    return used


def whole(scheduler: Scheduler, roles: list[Role], count: int, turn: str) -> list[float]:
    jobs = [Job(f"{turn}-{i}", tenant(i), roles, quota=quota(i)) for i in range(count)]
    spent = []
    for job in jobs:
        begin = process_time()
        scheduler.submit(job, 1.0)
        actions = scheduler.decide(1.0)
        scheduler.finish(job.name, 1.0)
        spent.append(process_time() - begin)
        assert [type(action) for action in actions] == [Start]
    return spent


def by_hand(scheduler: Scheduler, roles: list[Role], count: int, turn: str) -> list[float]:
    """The calls of the parts for such a gang."""
    role = roles[0]
    quotas, cells, devices = scheduler.quotas, scheduler.cells, scheduler.devices
    assert quotas is not None and devices is not None
    queues = TenantQueues()
    request = role.devices or DeviceRequest("any", gpus=role.gpus)
    devices.fits(request)
    size = role.pods * role.gpus
    spent = []
    for i in range(count):
        name, of = f"{turn}-{i}", quota(i)
        begin = process_time()
        queues.push(QueuedJob(name, tenant(i), size), 0)
        queues.next(0)
        quotas.submit(QuotaRequest(name, of, {"gpu": size}))
        admitted = quotas.schedule(name)
        pods = [request.replace(name=f"{name}/{k}") for k in range(role.pods)]
        if cells is None:
            for mine in pods:
                devices.commit(devices.schedule(mine))
        else:
            placed = cells.schedule(AffinityGroup(name, tenant(i), [(role.pods, role.gpus)]))
            for mine, pod in zip(pods, placed.placement, strict=True):
                chosen = devices.schedule(mine, nodes=(pod.node,), gpus=pod.leaf_indices)
                devices.commit(chosen)
            cells.commit(placed)
        quotas.commit(admitted)
        for mine in pods:
            devices.release(mine.name)
        if cells is not None:
            cells.release(name)
        quotas.release(name)
        spent.append(process_time() - begin)
    return spent


def quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[int(len(ordered) * 0.99)]}


def decision_figures(
    scheduler: Scheduler, count: int, rounds: int, gangs: Iterable[str] = GANGS
) -> list[dict[str, Any]]:
    results = []
    for gang in gangs:
        roles = GANGS[gang]
        times: dict[str, list[float]] = {"scheduler": [], "parts": []}
        for turn in range(rounds):
            times["scheduler"] += whole(scheduler, roles, count, f"s{turn}")
            times["parts"] += by_hand(scheduler, roles, count, f"p{turn}")
        results.append({"gang": gang, **{name: quantiles(spent) for name, spent in times.items()}})
    return results


def waiting_figures(scheduler: Scheduler, waiting: int, count: int) -> dict[str, Any]:
    """All tenants except the last have more jobs than they can start; its jobs are the events."""
    rng = Random(1)
    last = tenant(TENANTS - 1)
    for i in range(waiting):
        size = rng.choice([8, 16, 32])
        of = rng.randrange(TENANTS - 1)
        roles = [Role("worker", size, gpus=8)]
        name = f"{tenant(of)}/{rng.randrange(LEAVES)}"
        scheduler.submit(Job(f"w{i}", tenant(of), roles, quota=name), 1.0)
        if i % 1000 == 0:
            scheduler.decide(1.0)
    scheduler.decide(1.0)
    wait = sum(scheduler.state(name) == "pending" for name in scheduler)

    def job(i: int) -> Job:
        return Job(f"e{i}", last, [Role("worker", 1, gpus=8)], quota=f"{last}/{i % LEAVES}")

    def more(i: int) -> Job:
        return Job(f"m{i}", tenant(0), [Role("worker", 8, gpus=8)], quota=quota(0))

    events: dict[str, Callable[[int], None]] = {
        "another tenant's job comes and starts": lambda i: scheduler.submit(job(i), 1.0),
        "it ends": lambda i: scheduler.finish(f"e{i}", 1.0),
        "one more waits": lambda i: scheduler.submit(more(i), 1.0),
        "it is cancelled": lambda i: scheduler.cancel(f"m{i}", 1.0),
    }
    spent: dict[str, list[float]] = {name: [] for name in events}
    for i in range(count):
        for name, event in events.items():
            begin = process_time()
            event(i)
            scheduler.decide(1.0)
            spent[name].append(process_time() - begin)
    return {"jobs": wait, **{name: quantiles(times) for name, times in spent.items()}}


def fill_cells_of_first(scheduler: Scheduler) -> int:
    """Fill the first tenant's cells; return the number of one-node jobs that this took."""
    number = 0
    while True:
        job = Job(f"x{number}", tenant(0), [Role("worker", 1, gpus=8)], quota=quota(8 * number))
        scheduler.submit(job, 1.0)
        if not any(isinstance(entry, Start) for entry in scheduler.decide(1.0)):
            return number
        number += 1


def together_figures(scheduler: Scheduler, pairs: int) -> dict[str, Any]:
    jobs = fill_cells_of_first(scheduler)
    scheduler.cancel(f"x{jobs}", 1.0)
    most = min(jobs, 20)
    for i in range(pairs):
        for name, other, pods in (("a", "b", most), ("b", "a", 1)):
            roles = [Role("worker", pods, gpus=8)]
            terms = {"quota": quota(8 * i), "together": [f"{other}{i}"]}
            scheduler.submit(Job(f"{name}{i}", tenant(0), roles, **terms), 1.0)
    scheduler.decide(1.0)
    times = []
    for i in range(most):
        begin = process_time()
        scheduler.finish(f"x{i}", 1.0)
        actions = scheduler.decide(1.0)
        times.append(process_time() - begin)
        assert not any(isinstance(action, Start) for action in actions)
    return {"pairs": pairs, **quantiles(times)}


def explain_figures(scheduler: Scheduler, rounds: int) -> list[dict[str, Any]]:
    """Gangs that ask for more than the rest of their tenant's cells, which is nothing."""
    fill_cells_of_first(scheduler)
    results = []
    for pods in (1, 8, 32):
        scheduler.submit(
            Job("asks", tenant(0), [Role("worker", pods, gpus=8)], quota=quota(0)), 1.0
        )
        scheduler.decide(1.0)
        times = []
        for _ in range(rounds):
            begin = process_time()
            explained = scheduler.explain("asks")
            times.append(process_time() - begin)
        assert explained.reason
        leave = max((len(change.jobs) for change in explained.changes), default=0)
        results.append({"pods": pods, "leave": leave, **quantiles(times)})
        scheduler.cancel("asks", 1.0)
        scheduler.decide(1.0)
    return results


def full_figures(nodes: int, rounds: int) -> dict[str, Any]:
    """Quotas without minimums share a cluster where each node has one important job."""
    all_of_it = {"gpu": 8 * nodes}
    quotas = [Quota("all", max=all_of_it)]
    quotas += [Quota(f"q{i}", max=all_of_it, parent="all") for i in range(20)]
    names = [f"n{i}" for i in range(nodes)]
    machine = NodeDevices.uniform(gpus=8, nics=8, sockets=2, switches=4)
    scheduler = Scheduler(
        queues=TenantQueues(blocking="best-effort"),
        quotas=QuotaTree(quotas, total=all_of_it),
        devices=DeviceCluster(dict.fromkeys(names, machine)),
    )

    def submit(name: str, i: int, pods: int, gpus: int, priority: int = 0) -> None:
        roles = [Role("worker", pods, gpus=gpus)]
        job = Job(f"{name}{i}", f"t{i % 10}", roles, quota=f"q{i % 20}", priority=priority)
        scheduler.submit(job, 1.0)

    for i in range(8 * rounds):
        submit("small", i, 1, 1)
    for i in range(nodes - rounds):
        submit("large", i, 1, 8, priority=5)
    for i in range(100):
        submit("waits", i, 1 + i % 10, 8)
    scheduler.decide(1.0)
    scheduler.drain(names[-1], 1.0)
    scheduler.decide(1.0)
    running = (name for name in scheduler if scheduler.state(name) == "running")
    events: dict[str, Callable[[int], Any]] = {
        "explain": lambda i: scheduler.explain(f"waits{i}"),
        "quota": lambda i: scheduler.set_quota(quotas[1 + i % 20], 1.0),
        "drained": lambda i: (submit("more", i, 1, 8), scheduler.decide(1.0)),
        "end": lambda i: (scheduler.finish(next(running), 1.0), scheduler.decide(1.0)),
    }
    figures: dict[str, Any] = {}
    jobs = len(scheduler)
    assert scheduler.explain("waits0").reason
    for event, happens in events.items():
        times = []
        for i in range(rounds):
            begin = process_time()
            happens(i)
            times.append(process_time() - begin)
        figures[event] = quantiles(times)
        scheduler.decide(1.0)
    scheduler.check()
    return {"nodes": nodes, "jobs": jobs, "events": figures}


def copy_seconds(scheduler: Scheduler, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        gc.collect()
        begin = process_time()
        branch = scheduler.copy()
        times.append(process_time() - begin)
        del branch
    return min(times)


def log_figures(nodes: int, jobs: int, rounds: int) -> dict[str, Any]:
    def run(log: Path | None) -> float:
        scheduler = new_scheduler(nodes, log)
        gc.collect()
        begin = process_time()
        fill(scheduler, 8 * nodes // 3)
        whole(scheduler, GANGS["8 GPUs"], jobs, "j")
        spent = process_time() - begin
        scheduler.close()
        return spent

    results: dict[str, list[float]] = {"without": [], "with": [], "replay": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log"
            results["without"].append(run(None))
            results["with"].append(run(path))
            size = path.stat().st_size
            begin = process_time()
            replay(path)
            results["replay"].append(process_time() - begin)
    least = {name: min(times) for name, times in results.items()}
    return {"nodes": nodes, "seconds": least, "bytes": size}


def restart_figures(nodes: int, gangs: int, every: int) -> dict[str, Any]:
    """Gangs that come and end, with two events and two decisions each."""
    result: dict[str, Any] = {"gpus": 8 * nodes, "snapshot every": every}
    for name, limit in (("with", every), ("without", 0)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log"
            scheduler = new_scheduler(nodes, path)
            fill(scheduler, 8 * nodes // 3)
            begin, snapshots, i = process_time(), [0.0], 0
            while i < gangs or 0 < scheduler.logged - scheduler.log_begin < limit - 4:
                if 0 < limit <= scheduler.logged - scheduler.log_begin:
                    snapshots.append(cpu_seconds(scheduler.snapshot))
                now, of = float(i), f"g{i}"
                scheduler.submit(Job(of, tenant(i), GANGS["8 GPUs"], quota=quota(i)), now)
                scheduler.decide(now)
                scheduler.finish(of, now)
                scheduler.decide(now)
                i += 1
            life = process_time() - begin
            gangs = i  # the other one does the same
            size, lines = len(scheduler.to_bytes()), scheduler.logged - scheduler.log_begin
            scheduler.close()
            again: list[Scheduler] = []
            seconds = cpu_seconds(lambda path=path, again=again: again.append(recover(path)))
            assert again[0].summary() == scheduler.summary()
            again[0].close()
            result[name] = {"life": life, "restart": seconds, "lines run again": lines}
            if limit:
                result[name] |= {"snapshots": len(snapshots) - 1, "a snapshot": max(snapshots)}
    result |= {"events": 2 * gangs, "state bytes": size}
    result["ratio"] = result["without"]["restart"] / result["with"]["restart"]
    return result


def only_restart(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--restart", action="store_true", help="measure only what a restart costs")


def main() -> None:
    arguments = command_line(__doc__, only_restart)
    small = arguments.smoke
    if arguments.restart:
        restart = (
            restart_figures(128, 1000, 400) if small else restart_figures(1024, 25_000, 10_000)
        )
        show(restart)
        save(arguments, "scheduler_restart", restart)
        return
    nodes = 512 if small else 8192
    scheduler = new_scheduler(nodes)
    # A small cluster has tenants that are nearly full at two thirds.
    used = fill(scheduler, 8 * nodes * (1 if small else 2) // 3)
    count, rounds = (50, 1) if small else (1000, 3)
    without = new_scheduler(nodes, has_cells=False)
    fill(without, used)
    figures: dict[str, Any] = {
        "gpus": 8 * nodes,
        "in use": used,
        "decisions": decision_figures(scheduler, count, rounds),
        "no cells": decision_figures(without, count, rounds, [*GANGS][::3]),
        "profile": profile(lambda: whole(scheduler, GANGS["8 GPUs"], count, "q")),
        "jobs": len(scheduler),
        "explain": explain_figures(scheduler.copy(), 2 if small else 20),
        "full": full_figures(64 if small else 4000, 4 if small else 20),
        "together": together_figures(scheduler.copy(), 10),
        "copy seconds": copy_seconds(scheduler, 2 if small else 10),
        "log": log_figures(512 if small else 1024, 200 if small else 5000, 1 if small else 3),
    }
    figures["waiting"] = waiting_figures(
        scheduler, 1000 if small else 100_000, 20 if small else 500
    )
    scheduler.check()
    show(figures)
    save(arguments, "scheduler", figures)


if __name__ == "__main__":
    main()
