"""The cluster scheduler: decisions, gangs, node events, copies, recovery, from 10^3 to 10^6 GPUs.

    python bench/bench_cell_cluster.py [--smoke] [--out DIR]

The chain is that of HiveD's micro-benchmark, 64 GPUs in a rack of five levels: GPU - pair - socket
- node - rack with fan-outs 2, 2, 2, 8. Four tenants own 3/16 of the racks each as racks, 1/32 as
nodes and 1/32 as sockets. *Two thirds full*: groups of 1, 2, 4 and 8 GPUs and now and then a gang
of eight pods of 8 GPUs, a quarter of them opportunistic, until two thirds of the GPUs are in use.

group      a random live group of 1 to 8 GPUs is released, another one of the same size is
           scheduled and committed: one sample, all three calls through Python; its median and 99th
           percentile, also of the parts
read       the same, and the placement is read before the commit
gang       the same for gangs of 8 pods of 8 GPUs
wait       a decision that a group of 8 GPUs has to wait, for the tenant's nodes are all in use
node event a node gets bad, or healthy again
copy       a what-if branch
recovery   2,048 committed groups of 8 GPUs (fewer in small clusters) booked in another cluster
status     all figures as plain data
start      from a HiveD document (YAML text) to a scheduler that answers

The peer is the pure-Python twin, in the same calls of the same class, at the smallest size, which
must lead to the same state to the byte; the
original's own figures, from another run on such a machine, stand in the specification of HiveD's
baseline: schedule 1.5 to 7 ms, commit of 8 GPUs 23 ms, of a gang 121 ms at 65,536 GPUs.
Times are wall clock, but for the recovery, which is CPU time; the garbage collector is off.
"""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from harness import command_line, cpu_seconds, percentiles, save, save_figure, show
from twin_clusters import on_the_twin

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.interop.hived import HivedScheduler

LEVELS = ("gpu", "pair", "socket", "node", "rack")
FANOUTS = (2, 2, 2, 8)
TENANTS = "ABCD"
SIZES = (1, 1, 2, 2, 4, 8)
GANG = [(8, 8)]


def cluster_of(racks: int) -> CellCluster:
    whole = max(1, 3 * racks // 16)
    owned = {"rack": whole, "node": racks // 4, "socket": racks // 2}
    return CellCluster(
        ClusterSpec({"c": Chain(LEVELS, FANOUTS, racks)}, {t: {"c": owned} for t in TENANTS})
    )


class Filled:
    """A cluster that is two thirds full, and its groups."""

    def __init__(self, racks: int) -> None:
        self.cluster = cluster_of(racks)
        self.rng = np.random.default_rng(racks)
        self.number = 0
        self.live: dict[str, AffinityGroup] = {}
        used, refused = 0, 0
        while used < racks * 64 * 2 // 3 and refused < 100:
            gang = self.rng.random() < 0.02
            group = self.group(GANG if gang else [(1, int(self.rng.choice(SIZES)))])
            if self.admit(group):
                used += group.leaves
            else:
                refused += 1
        self.small = [group for group in self.live.values() if group.pods == 1]
        self.gangs = [group for group in self.live.values() if group.pods > 1]

    def group(self, members: list[tuple[int, int]], kind: int | None = None) -> AffinityGroup:
        self.number += 1
        kind = int(self.rng.integers(0, 16)) if kind is None else kind
        priority = -1 if kind % 4 == 3 else kind // 4
        return AffinityGroup(f"g{self.number}", TENANTS[kind % 4], members, priority=priority)

    def admit(self, group: AffinityGroup) -> bool:
        decision = self.cluster.schedule(group)
        for victim in decision.victims:
            self.cluster.release(victim)
            del self.live[victim]
        if decision.victims:
            decision = self.cluster.schedule(group)
        if decision.outcome == "bind":
            self.cluster.commit(decision)
            self.live[group.name] = group
        return decision.outcome == "bind"

    def churn(
        self, live: list[AffinityGroup], samples: int, reads: bool = False
    ) -> dict[str, float]:
        """Nanoseconds of release, schedule and commit; a group that finds no place is replaced.

        :param reads: the placement is read, within the time of schedule.
        """
        cluster, clock = self.cluster, perf_counter_ns
        parts = np.zeros((samples, 3))
        done = 0
        while done < samples:
            picked = int(self.rng.integers(0, len(live)))
            gone = live[picked]
            members = [tuple(member)[:2] for member in gone.members]
            group = AffinityGroup(
                f"r{self.number}", gone.virtual_cluster, members, priority=gone.priority
            )
            self.number += 1
            start = clock()
            cluster.release(gone.name)
            released = clock()
            decision = cluster.schedule(group)
            if reads:
                assert decision.outcome != "bind" or decision.placement
            decided = clock()
            if decision.outcome != "bind":
                live.pop(picked)
                continue
            cluster.commit(decision)
            end = clock()
            parts[done] = released - start, decided - released, end - decided
            live[picked] = group
            done += 1
        total = parts.sum(axis=1)
        figures = percentiles(total)
        for name, column in zip(("release", "schedule", "commit"), parts.T, strict=True):
            figures[name] = float(np.median(column))
        return figures


def timed(task: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Return median and 99th percentile of single calls in nanoseconds."""
    times = []
    for _ in range(rounds):
        start = perf_counter_ns()
        task()
        times.append(perf_counter_ns() - start)
    return percentiles(times)


def node_events(filled: Filled, rounds: int) -> dict[str, float]:
    racks = filled.cluster.spec.chains["c"].roots
    names = [f"c/{i}" for i in filled.rng.integers(0, racks * 8, rounds)]
    events = [(name, healthy) for name in names for healthy in (False, True)]
    turns = iter(events)

    def event() -> None:
        filled.cluster.set_health(*next(turns))

    return timed(event, len(events))


def recovery(racks: int) -> dict[str, float]:
    """Recover groups of 8 GPUs, at most half of what the tenants own, into a new cluster."""
    cluster, records = cluster_of(racks), []
    for i in range(min(2048, racks * 4)):
        group = AffinityGroup(f"g{i}", TENANTS[i % 4], [(1, 8)])
        decision = cluster.schedule(group)
        if decision.outcome == "bind":
            cluster.commit(decision)
            records.append((group, decision.placement))
    fresh = cluster_of(racks)

    def recover() -> None:
        for group, placement in records:
            fresh.recover(group, placement)

    elapsed = cpu_seconds(recover) * 1e9
    assert all(fresh.group(group.name).placement == placement for group, placement in records)
    return {"groups": len(records), "ns": float(elapsed)}


def waiting(racks: int, rounds: int) -> dict[str, float]:
    """Ask for one node more than a tenant owns, with all of its nodes in use."""
    cluster = cluster_of(racks)
    pods = 4096
    while pods:  # gangs fill it quickly
        name = f"full{len(cluster.groups())}"
        decision = cluster.schedule(AffinityGroup(name, "A", [(pods, 8)]))
        if decision.outcome == "bind":
            cluster.commit(decision)
        else:
            pods //= 2
    group = AffinityGroup("waits", "A", [(1, 8)])
    assert cluster.schedule(group).outcome == "wait"
    return timed(lambda: cluster.schedule(group), rounds)


def document(racks: int) -> str:
    """Return the cluster as a HiveD configuration."""
    types = "\n".join(
        f"    {LEVELS[i + 1]}: {{childCellType: {LEVELS[i]}, childCellNumber: {FANOUTS[i]}"
        f"{', isNodeLevel: true' if LEVELS[i + 1] == 'node' else ''}}}"
        for i in range(4)
    )
    cells = "\n".join(f"  - {{cellType: rack, cellAddress: rack{i}}}" for i in range(racks))
    path = ".".join(reversed(LEVELS[3:]))
    tenants = "\n".join(
        f"  {t}:\n    virtualCells:\n"
        f"    - {{cellType: rack, cellNumber: {max(1, 3 * racks // 16)}}}\n"
        f"    - {{cellType: {path}, cellNumber: {max(1, racks // 4)}}}"
        for t in TENANTS
    )
    return (
        f"physicalCluster:\n  cellTypes:\n{types}\n  physicalCells:\n{cells}\n"
        f"virtualClusters:\n{tenants}\n"
    )


def start(racks: int, rounds: int) -> dict[str, float]:
    import io

    text = document(racks)
    spec = {"virtualCluster": "A", "priority": 0, "leafCellNumber": 8}

    def begin() -> None:
        scheduler = HivedScheduler(io.StringIO(text))
        assert scheduler.schedule("default/first", spec).outcome == "bind"

    return timed(begin, rounds)


def measure(racks: int, samples: int) -> dict[str, Any]:
    filled = Filled(racks)
    status = filled.cluster.status()["chains"]["c"]
    figures: dict[str, Any] = {
        "gpus": racks * 64,
        "used": status["used"] / status["leaves"],
        "groups": len(filled.cluster.groups()),
        "group": filled.churn(filled.small, samples),
        "read": filled.churn(filled.small, samples, reads=True),
    }
    if filled.gangs:
        figures["gang"] = filled.churn(filled.gangs, max(50, samples // 20))
    figures["wait"] = waiting(racks, 100)
    figures["node_event"] = node_events(filled, max(50, samples // 10))
    figures["copy"] = timed(filled.cluster.copy, 20)
    figures["status"] = timed(filled.cluster.status, 3)
    figures["recovery"] = recovery(racks)
    figures["start"] = start(racks, 3)
    figures["bytes_per_gpu"] = filled.cluster.__sizeof__() / (racks * 64)
    return figures


def against_twin(racks: int, samples: int) -> dict[str, Any]:
    """Compare kernel and pure-Python core in the same calls, up to equal states."""
    ours = Filled(racks)
    kernel = ours.churn(ours.small, samples)
    with on_the_twin():
        theirs = Filled(racks)
        twin = theirs.churn(theirs.small, samples)
        assert theirs.cluster.to_bytes() == ours.cluster.to_bytes()
    return {
        "gpus": racks * 64,
        "group": twin,
        "kernel": kernel,
        "ratio": twin["p50"] / kernel["p50"],
    }


def picture(curve: list[dict[str, Any]], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    gpus = [point["gpus"] for point in curve]
    lines = {
        "group of 1 to 8 GPUs, p50": [point["group"]["p50"] for point in curve],
        "group of 1 to 8 GPUs, p99": [point["group"]["p99"] for point in curve],
        "8 x 8 gang, p50": [point.get("gang", {}).get("p50", np.nan) for point in curve],
        "node event, p50": [point["node_event"]["p50"] for point in curve],
    }
    for name, values in lines.items():
        axes.plot(gpus, np.array(values) / 1000, marker="o", label=name)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="GPUs in the cluster",
        ylabel="microseconds",
        title="release + schedule + commit, through Python",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    save_figure(figure, folder / "cell_cluster.png", bbox_inches="tight")
    pyplot.close(figure)


def main() -> int:
    arguments = command_line(__doc__)
    sizes = (16, 64) if arguments.smoke else (16, 64, 256, 1024, 4096, 16384)
    samples = 200 if arguments.smoke else 20_000
    gc.disable()
    curve = [measure(racks, samples) for racks in sizes]
    peer = against_twin(sizes[0], 20 if arguments.smoke else 200)
    show({"curve": curve, "twin": peer})
    save(arguments, "cell_cluster", {"curve": curve, "twin": peer})
    picture(curve, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
