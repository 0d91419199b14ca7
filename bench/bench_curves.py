"""Decisions and memory, from 1,024 to 1,048,576 GPUs and from 10 to 1,000,000 waiting jobs.

    python bench/bench_curves.py [--smoke] [--out DIR] [--only PART]

GPUs       clusters of nodes of 8 GPUs, two thirds of them in use. A life is one job that comes,
           starts and ends: 8 GPUs in cells and devices, 8 pods in a network, a request and its
           runtime in a tree of a quota for 64 GPUs, and a job of 8 GPUs in a scheduler composed of
           queues, quotas (1,000), cells and devices
jobs       so many jobs wait, of a thousand tenants in queues and in quotas, and in a scheduler of
           8,192 GPUs; the life is that of a job of another tenant, which starts
memory     how much the process grows by what is built, per node and per waiting job

Each point is measured in a process of its own: CPU time, median and 99th percentile of lives.
`--only scheduler` measures that part again and keeps the others of DIR.
"""

import gc
import json
from argparse import ArgumentParser
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any

import bench_scheduler
from bench_cell_cluster import Filled
from bench_queues import filled
from bench_queues import new_jobs as queued
from bench_quotas import DIMENSIONS, Forest
from bench_topology import SLOTS, labels_of, network_of
from harness import command_line, percentiles, save, show
from matching_memory import STATUS, kibibytes

from hivecore.cells import AffinityGroup
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.queues import QueuedJob
from hivecore.quotas import QuotaRequest
from hivecore.scheduler import Job, Role, Start
from hivecore.topology import TopologyRequest

Life = Callable[[str], None]
GPUS = [1024 * 4**i for i in range(6)]
JOBS = [10**i for i in range(1, 7)]


def cells(gpus: int) -> Life:
    full = Filled(gpus // 64)
    cluster = full.cluster
    gone = next(group for group in full.small if group.leaves == 8 and group.priority >= 0)
    cluster.release(gone.name)

    def life(name: str) -> None:
        decision = cluster.schedule(AffinityGroup(name, gone.virtual_cluster, [(1, 8)]))
        assert decision.outcome == "bind"
        cluster.commit(decision)
        cluster.release(name)

    return life


def devices(gpus: int) -> Life:
    machine = NodeDevices.uniform(gpus=8, nics=8, sockets=2, switches=4)
    cluster = DeviceCluster({f"n{i}": machine for i in range(gpus // 8)})

    def begin(name: str) -> None:
        cluster.commit(cluster.schedule(DeviceRequest(name, gpus=8)))

    for i in range(gpus // 12):
        begin(f"full{i}")

    def life(name: str) -> None:
        begin(name)
        cluster.release(name)

    return life


def topology(gpus: int) -> Life:
    network = network_of(labels_of(gpus // 8))
    network.set_slots([SLOTS * (i * 7 % 3 == 0) for i in range(gpus // 8)])

    def life(name: str) -> None:
        network.commit(network.schedule(TopologyRequest(name, 8)))
        network.release(name)

    return life


def come_and_go(forest: Forest) -> Life:
    tree, leaf = forest.tree, forest.leaves[-1]

    def life(name: str) -> None:
        tree.submit(QuotaRequest(name, leaf, dict.fromkeys(DIMENSIONS, 8)))
        tree.runtime(leaf)
        tree.release(name)

    return life


def quotas(gpus: int) -> Life:
    groups = int((gpus // 64) ** 0.5)
    return come_and_go(Forest(groups, gpus // 64 // groups))


def start_and_end(scheduler: Any, tenant: str, quota: str) -> Life:
    def life(name: str) -> None:
        scheduler.submit(Job(name, tenant, [Role("worker", 1, gpus=8)], quota=quota), 1.0)
        actions = scheduler.decide(1.0)
        scheduler.finish(name, 1.0)
        assert [type(action) for action in actions] == [Start]

    return life


def scheduler(gpus: int) -> Life:
    whole = bench_scheduler.new_scheduler(gpus // 8)
    # Tenants of a small cluster are nearly full at two thirds.
    bench_scheduler.fill(whole, gpus * (1 if gpus < 8192 else 2) // 3)
    return start_and_end(whole, "t0", "t0/0")


def waiting_in_queues(jobs: int) -> Life:
    queues = filled("weighted", queued(jobs, "j"))

    def life(name: str) -> None:
        queues.push(QueuedJob(name, "t1", 1), jobs)
        queues.next(jobs)

    return life


def waiting_in_quotas(jobs: int) -> Life:
    leaves = min(jobs, 1000)
    forest = Forest(1 if leaves < 1000 else 10, min(leaves, 100))
    amounts = dict.fromkeys(DIMENSIONS, 8)
    forest.tree.submit_many(
        [QuotaRequest(f"w{i}", forest.leaves[i % len(forest.leaves)], amounts) for i in range(jobs)]
    )
    return come_and_go(forest)


def waiting_in_scheduler(jobs: int) -> Life:
    """All wait for cells of their tenants, which are in use; those of the last tenant are idle."""
    whole, tenants = bench_scheduler.new_scheduler(1024), bench_scheduler.TENANTS - 1
    for i in range(tenants):
        name = f"t{i}"
        job = Job(f"full{i}", name, [Role("worker", 128, gpus=8)], quota=f"{name}/0")
        whole.submit(job, 0.0)
    whole.decide(0.0)
    for i in range(jobs):
        name, roles = f"t{i % tenants}", [Role("worker", 1, gpus=8)]
        quota = f"{name}/{i % bench_scheduler.LEAVES}"
        whole.submit(Job(f"w{i}", name, roles, quota=quota), 0.0)
        if i % 10_000 == 0:
            whole.decide(0.0)
    whole.decide(0.0)
    return start_and_end(whole, f"t{tenants}", f"t{tenants}/0")


CURVES: dict[str, dict[str, Callable[[int], Life]]] = {
    "GPUs": {entry.__name__: entry for entry in (cells, devices, topology, quotas, scheduler)},
    "jobs": {
        "queues": waiting_in_queues,
        "quotas": waiting_in_quotas,
        "scheduler": waiting_in_scheduler,
    },
}


def resident() -> int:
    gc.collect()
    return 1024 * kibibytes("VmRSS") if STATUS.exists() else 0


def point(axis: str, part: str, size: int, samples: int) -> dict[str, Any]:
    things = size // 8 if axis == "GPUs" else size
    before, begin = resident(), process_time()
    life = CURVES[axis][part](size)
    built, bytes_ = process_time() - begin, resident() - before
    life("warm")
    spans = []
    for i in range(samples):
        begin = process_time()
        life(f"new{i}")
        spans.append(process_time() - begin)
    return {"size": size, "built": built, "bytes each": bytes_ / things, **percentiles(spans)}


def curve(axis: str, part: str, sizes: list[int], samples: int) -> list[dict[str, Any]]:
    points = []
    for size in sizes:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            result = process.submit(point, axis, part, size, samples).result()
        points.append(result)
        show(result, f"{part}, {axis}")
    return points


def add_only(parser: ArgumentParser) -> None:
    names = sorted({part for parts in CURVES.values() for part in parts})
    parser.add_argument("--only", choices=names, help="measure this part again")


def main() -> None:
    arguments = command_line(__doc__, add_only)
    samples = 20 if arguments.smoke else 1000
    file: Path = arguments.out / "curves.json"
    kept = json.loads(file.read_text("utf-8"))["figures"] if arguments.only else {}
    figures: dict[str, Any] = {}
    for axis, sizes in (("GPUs", GPUS), ("jobs", JOBS)):
        figures[axis] = {}
        for part in CURVES[axis]:
            if arguments.only in (None, part):
                measured = curve(axis, part, sizes[:1] if arguments.smoke else sizes, samples)
                figures[axis][part] = measured
            else:
                figures[axis][part] = kept[axis][part]
    save(arguments, "curves", figures)


if __name__ == "__main__":
    main()
