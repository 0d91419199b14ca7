"""Making room by moving jobs: plans on a fragmented cluster, and emptying the emptiest nodes.

A network of racks with the devices of its nodes is filled with jobs of 1 to 8 GPUs in mixed order,
and some of them end. Then nodes must become free, or a large job must fit.

plans     the cost of a plan, a lower bound of every plan's, its number of moves, seconds
emptying  the peer: nodes are emptied one by one, those with the fewest jobs (or GPU-seconds) first,
          until it is enough; each job moves to the fullest node that takes it

Plans are carried out on a branch, which is audited outside the measured time. Times are wall-clock
seconds.
"""

import gc
from collections.abc import Iterable
from random import Random
from time import perf_counter
from typing import Any

from harness import command_line, save, show

from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.scheduler import (
    Fit,
    FreeDomain,
    FreeNodes,
    Job,
    Role,
    Scheduler,
    Start,
    Where,
)
from hivecore.topology import NetworkTopology

GPUS = 8
RACK = 8
NOW = 10_000.0
COSTS = ("jobs", "gpu_seconds")
Books = dict[str, dict[str, int]]


def empty(nodes: int) -> Scheduler:
    names = [f"n{i}" for i in range(nodes)]
    labels = {name: {"rack": f"r{i // RACK}"} for i, name in enumerate(names)}
    network = NetworkTopology(["rack"], labels)
    for name in names:
        network.set_free(name, {"gpu": GPUS})
    machine = NodeDevices.uniform(gpus=GPUS, nics=8, sockets=2, switches=4)
    devices = DeviceCluster(dict.fromkeys(names, machine))
    return Scheduler(topology=network, devices=devices, preemption=False)


def fragmented(nodes: int) -> tuple[Scheduler, Books, dict[str, float]]:
    """Return a scheduler, the GPUs of each job by node, and each job's start."""
    rng = Random(0)
    scheduler = empty(nodes)
    books: Books = {f"n{i}": {} for i in range(nodes)}
    since: dict[str, float] = {}
    full, number = 0, 0
    while full < 20:
        job = Job(f"f{number}", "all", rng.choice([1, 1, 2, 2, 4, 8]))
        now = float(number)
        scheduler.submit(job, now)
        [action] = scheduler.decide(now)
        if isinstance(action, Start):
            books[action.pods[0].node][job.name] = job.gpus
            since[job.name] = now
        else:
            scheduler.cancel(job.name, now)
            full += 1
        number += 1
    for jobs in books.values():
        for name in list(jobs):
            if rng.random() < 0.15:
                scheduler.finish(name, NOW)
                del jobs[name], since[name]
    return scheduler, books, since


def emptied(
    books: Books, costs: dict[str, float], groups: Iterable[list[str]], wanted: int
) -> tuple[float, int]:
    """Return the cost of emptying a number of groups of nodes, the cheapest first,
    and the moves.
    """
    jobs = {node: dict(present) for node, present in books.items()}
    free = {node: GPUS - sum(present.values()) for node, present in jobs.items()}

    def price(group: list[str]) -> float:
        return sum(costs[name] for node in group for name in books[node])

    cost, moves = 0.0, 0
    done: set[str] = set()
    ranked = sorted(groups, key=price)
    for group in ranked:
        if not wanted:
            break
        done.update(group)
        for node in group:
            for name, gpus in sorted(jobs[node].items(), key=lambda item: -item[1]):
                present = [other for other in free if other not in done and free[other] >= gpus]
                if not present:
                    return float("inf"), moves
                to = min(present, key=free.__getitem__)
                free[to] -= gpus
                jobs[to][name] = gpus
                cost += costs[name]
                moves += 1
            jobs[node] = {}
        wanted -= 1
    return cost, moves


def row(
    what: str,
    cost: Any,
    scheduler: Scheduler,
    goal: Any,
    peer: tuple[Books, dict[str, float], list[list[str]], int],
    rounds: int,
) -> dict[str, Any]:
    seconds, peer_seconds = [], []
    for _ in range(rounds):
        gc.collect()
        begin = perf_counter()
        plan = scheduler.plan_moves(goal, cost=cost)
        seconds.append(perf_counter() - begin)
        begin = perf_counter()
        other, moves = emptied(*peer)
        peer_seconds.append(perf_counter() - begin)
    branch = scheduler.copy()
    for step in plan.steps:
        branch.move(step, NOW)
    branch.check()
    if isinstance(goal, Fit):
        assert any(isinstance(action, Start) for action in branch.decide(NOW)) == (not plan.reason)
    return {
        "goal": what,
        "cost": cost,
        "plan": _known(plan.cost),
        "at least": _known(plan.lower_bound),
        "moves": len(plan.moves),
        "seconds": min(seconds),
        "emptying": _known(other),
        "emptying moves": moves,
        "emptying seconds": min(peer_seconds),
    }


def _known(cost: float) -> float | None:
    """None: there is no plan."""
    return None if cost == float("inf") else cost


def main() -> None:
    arguments = command_line(__doc__)
    nodes, rounds = (128, 1) if arguments.smoke else (1024, 3)
    scheduler, books, since = fragmented(nodes)
    names = list(books)
    racks = [names[i : i + RACK] for i in range(0, nodes, RACK)]
    gang = nodes // 10
    large = Job("large", "all", [Role("worker", gang, gpus=GPUS)])
    near = Job("near", "all", [Role("worker", RACK, gpus=GPUS)], where=Where(must="rack"))
    for job in (large, near):
        scheduler.submit(job, NOW)
    waits = [type(action).__name__ for action in scheduler.decide(NOW)]
    assert waits == ["Wait", "Wait"], waits
    rows = []
    for cost in COSTS:
        costs = {
            name: 1.0 if cost == "jobs" else (NOW - since[name]) * gpus
            for book in books.values()
            for name, gpus in book.items()
        }
        single = [[node] for node in names]
        for what, goal, groups, wanted in (
            ("a node gets free", FreeNodes([names[7]]), [[names[7]]], 1),
            ("a rack gets free", FreeDomain("rack", "r5"), [racks[5]], 1),
            ("any rack gets free", FreeDomain("rack"), racks, 1),
            (f"{gang} pods of {GPUS} GPUs fit", Fit("large"), single, gang),
            (f"{RACK} pods of {GPUS} GPUs fit into a rack", Fit("near"), racks, 1),
        ):
            result = row(what, cost, scheduler, goal, (books, costs, groups, wanted), rounds)
            rows.append(result)
            show(result)
    used = sum(gpus for book in books.values() for gpus in book.values())
    figures = {"nodes": nodes, "gpus": GPUS * nodes, "in use": used, "jobs": len(since)}
    save(arguments, "moves", {**figures, "plans": rows})


if __name__ == "__main__":
    main()
