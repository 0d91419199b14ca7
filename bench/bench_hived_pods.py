"""Pods of HiveD's users that come and go in a cluster of 65,536 GPUs, with and without node names.

    python bench/bench_hived_pods.py [--smoke] [--out DIR]

The cluster is that of `bench_hived_server.py`, with two thirds of what the tenants own in use. A
sample is one life: the pods of a group are deleted, and another group of the same tenant and size
is scheduled, allocated, and its bind info written, pod after pod.

pod             one of 1 to 8 GPUs
gang            8 pods of 8 GPUs

no names        nothing is said of nodes
same list       the pod respects suggested nodes: a list of all of them, the same for every pod
read again      the same names in the same order, but as new strings for every pod
other order     new strings in another order for every pod, as kube-scheduler may send them
one missing     new strings in another order, and another node is left out each time

Times are CPU time, the median and the 99th percentile over all samples of all rounds; in a round
the contenders take turns, sixteen samples at a time. The garbage collector is off.
"""

import gc
import json
from collections.abc import Callable
from itertools import count
from time import process_time_ns
from typing import Any

import msgspec
import numpy as np
from bench_cell_cluster import TENANTS
from bench_hived_server import SIZES, filled
from harness import command_line, save, show

from hivecore.interop.hived import HivedScheduler

NUMBERS = count()
Names = Callable[[], list[str] | None]


def ways(nodes: list[str]) -> dict[str, Names]:
    """Return the node names that each contender offers to pods."""
    rng = np.random.default_rng(len(nodes))
    orders = [json.dumps(rng.permutation(nodes).tolist()).encode() for _ in range(32)]
    turns = count()

    def read(text: bytes) -> list[str]:
        names = msgspec.json.decode(text, type=list[str])
        assert names[0] is not nodes[0]
        return names

    return {
        "no names": lambda: None,
        "same list": lambda: nodes,
        "read again": lambda: read(orders[0]),
        "other order": lambda: read(orders[next(turns) % 32]),
        "one missing": lambda: read(orders[next(turns) % 32])[1:],
    }


class Groups:
    """Groups of one size that come and go."""

    def __init__(self, scheduler: HivedScheduler, pods: int, sizes: tuple[int, ...]) -> None:
        self.scheduler, self.pods, self.sizes = scheduler, pods, sizes
        self.live: list[tuple[list[str], dict[str, Any]]] = []
        for i in range(64):
            self.admit(i)

    def admit(self, i: int) -> None:
        group, spec = self.named(
            {"virtualCluster": TENANTS[i % 4], "leafCellNumber": self.sizes[i % len(self.sizes)]}
        )
        for pod in group:
            if self.scheduler.schedule(pod, spec).outcome != "bind":
                return  # a small cluster can be full
            self.scheduler.allocate(pod)
        self.live.append((group, spec))

    def named(self, spec: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
        """Return the pods of a new group, and their requests."""
        name = f"x/{next(NUMBERS)}"
        spec = {**spec, "ignoreK8sSuggestedNodes": False}
        if self.pods > 1:
            members = [{"podNumber": self.pods, "leafCellNumber": spec["leafCellNumber"]}]
            spec["affinityGroup"] = {"name": name, "members": members}
        return [f"{name}-{i}" for i in range(self.pods)], spec

    def life(self, i: int, names: Names) -> int:
        """Return the nanoseconds of one group that goes and one that comes."""
        scheduler = self.scheduler
        gone, spec = self.live[i % len(self.live)]
        pods, spec = self.named(spec)
        begin = process_time_ns()
        for pod in gone:
            scheduler.delete(pod)
        spent = process_time_ns() - begin
        for pod in pods:
            nodes = names()
            begin = process_time_ns()
            decision = scheduler.schedule(pod, spec, suggested_nodes=nodes)
            assert decision.node is not None
            scheduler.allocate(pod)
            scheduler.bind_info(pod)
            del nodes  # freeing the strings of a list counts as well
            spent += process_time_ns() - begin
        self.live[i % len(self.live)] = pods, spec
        return spent


def measure(racks: int, rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Microseconds."""
    scheduler, _ = filled(racks)
    nodes = list(scheduler.leaf_cells_by_node())
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for kind, pods, sizes in (("pod", 1, SIZES), ("gang", 8, (8,))):
        groups = Groups(scheduler, pods, sizes)
        times: dict[str, list[int]] = {way: [] for way in ways(nodes)}
        offers = ways(nodes)
        for i in range(max(1, rounds * 3 // pods)):
            for way, names in offers.items():
                times[way] += [groups.life(16 * i + j, names) for j in range(16)]
        figures[kind] = {
            way: dict(zip(("p50", "p99"), np.percentile(time, (50, 99)) / 1e3, strict=True))
            for way, time in times.items()
        }
    scheduler.check()
    return figures


def main() -> None:
    arguments = command_line(__doc__)
    racks = 16 if arguments.smoke else 1024
    gc.disable()
    figures = measure(racks, 2 if arguments.smoke else 25)
    show(figures)
    save(arguments, "hived_pods", {"gpus": racks * 64, "nodes": racks * 8, "us": figures})


if __name__ == "__main__":
    main()
