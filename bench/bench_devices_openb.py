"""FGD's comparison on Alibaba's openb trace: what policies allocate, and how long replays take.

    python bench/bench_devices_openb.py [--smoke] [--out DIR]

Replays: three lists of pods, each policy, ten orders of nodes and pods: the GPUs that are allocated
while more and more is asked for, and the fragmented part of the idle ones, as medians, beside the
medians that FGD's authors recorded of their simulator (openb_reported.py says which). Curves and
pictures are of the first list.

Time: CPU time of whole replays, all included but reading the files: making the cluster, placing
every pod through a scheduler, measuring fragmentation 130 times. "replay" is the least of five with
seed 0, "orders" the sum of ten. Beside it stand "by hand", the same pods on the devices themselves
without a scheduler, and "quotas", a scheduler whose pods are of ten tenants with a quota each: both
must place every pod where the replay does. "whole" is a process of its own that runs `hivecore
replay` with one order: start, reading, the replay, the report. The twin is asked at so many
arrivals of the same replay, spread evenly, and must choose the same nodes; "twin" is the mean per
pod. The authors say of their simulator: 10 minutes for an experiment on 2 vCPU
(experiments/README.md of hkust-adsl/kubernetes-scheduler-simulator at 8f3d6417), their analysis
included.

The trace is looked for in the folder that HIVECORE_TRACES names, else in `shared/traces` beside the
checkout; without it only --smoke, on a generated cluster, is to be had.
"""

import sys
from functools import partial
from pathlib import Path
from statistics import median, stdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from harness import (
    TRACES,
    command_line,
    cpu_seconds,
    hivecore_seconds,
    save,
    save_picture,
    take_turns,
)
from openb_loops import ByHand, WithQuotas
from openb_reported import ALLOCATED, ALLOCATED_AT_100, FRAGMENTED_OF_IDLE

from hivecore.reference.devices.shared_cluster import SharedCluster
from hivecore.sim.devices import (
    SHARING_POLICIES,
    DeviceReplay,
    devices_report,
    median_at,
    replay_devices,
)
from hivecore.traces import (
    GpuNodes,
    GpuPods,
    generate_openb_nodes,
    generate_openb_pods,
    load_openb_nodes,
    load_openb_pods,
)

OPENB = TRACES / "openb"
LISTS = ("default", "gpushare100", "multigpu50")
LOADS = (50, 80, 90, 95, 100, 110, 120, 130)
CURVE = range(75, 131)


def inputs(smoke: bool) -> tuple[GpuNodes, dict[str, GpuPods]]:
    if smoke:
        return generate_openb_nodes(30, seed=0), {"generated": generate_openb_pods(150, seed=0)}
    nodes = load_openb_nodes(OPENB / "openb_node_list_gpu_node.csv")
    return nodes, {name: load_openb_pods(OPENB / f"openb_pod_list_{name}.csv") for name in LISTS}


def all_orders(
    nodes: GpuNodes, pods: GpuPods, policy: str, seeds: int
) -> tuple[float, list[DeviceReplay]]:
    """CPU seconds of one replay per seed, and the replays."""
    runs: list[DeviceReplay] = []
    seconds = cpu_seconds(
        lambda: runs.extend(replay_devices(nodes, pods, policy, seed) for seed in range(seeds))
    )
    return seconds, runs


def figures_of(name: str, policy: str, runs: list[DeviceReplay]) -> dict[str, Any]:
    """What the replays come to, in percent, and what was reported of them."""
    full = [100 * float(run.allocation[run.at(1.0)]) for run in runs]

    def fragmented(load: int) -> float:
        return 100 * median(float(run.fragmentation[run.at(load / 100)]) for run in runs)

    reported = None
    if policy in ALLOCATED.get(name, {}):
        reported = {
            "allocated": {load: ALLOCATED[name][policy][load] for load in LOADS},
            "deviation at 100": ALLOCATED_AT_100[name][policy][1],
            "fragmented of idle": {load: FRAGMENTED_OF_IDLE[name][policy][load] for load in LOADS},
        }
    return {
        "list": name,
        "policy": policy,
        "seeds": len(runs),
        "allocated": {load: 100 * median_at(runs, load / 100) for load in LOADS},
        "deviation at 100": stdev(full),
        "fragmented of idle": {load: fragmented(load) for load in LOADS},
        "reported": reported,
    }


def whole_command(policy: str) -> float:
    """CPU seconds of a process that replays one order of the first list."""
    files = OPENB / "openb_node_list_gpu_node.csv", OPENB / f"openb_pod_list_{LISTS[0]}.csv"
    return hivecore_seconds("replay", "pods", *files, "--policy", policy, "--seeds", 1)


def twin_seconds(run: DeviceReplay, nodes: GpuNodes, pods: GpuPods, wanted: int) -> float:
    """CPU seconds in which the twin places a pod, the mean of so many of a replay's arrivals."""
    twin = SharedCluster.of(nodes.select(run.order), pods, run.policy, run.seed)
    places = np.where(run.node >= 0, np.argsort(run.order)[run.node], -1).tolist()
    chosen = set(np.linspace(0, len(places) - 1, wanted).astype(int).tolist())
    seconds = 0.0
    for arrival, (row, place) in enumerate(zip(run.rows.tolist(), places, strict=True)):
        if arrival in chosen:
            results = []
            seconds += cpu_seconds(lambda: results.append(twin.find(arrival, row)))  # noqa: B023
            node = -1 if results[0] is None else results[0].node
            if node != place:
                raise AssertionError(f"arrival {arrival}: {place}, but the twin says {node}")
        if place >= 0:
            twin.take(arrival, row, place)
    return seconds / len(chosen)


def draw(runs: list[DeviceReplay], reported: Any, folder: Path) -> None:
    with TemporaryDirectory() as built:
        for path in devices_report(runs, reported).save_pictures(built):
            save_picture(path, folder / f"devices_openb_{path.name}")


def main() -> int:
    arguments = command_line(__doc__)
    smoke = arguments.smoke
    if not smoke and not OPENB.is_dir():
        print(f"{OPENB} is not here: nothing is measured", file=sys.stderr)
        return 0
    nodes, lists = inputs(smoke)
    seeds, rounds, wanted = (2, 1, 5) if smoke else (10, 5, 30)
    times, rows = [], []
    curves: dict[str, list[float]] = {}
    drawn: list[DeviceReplay] = []
    for name, pods in lists.items():
        for policy in SHARING_POLICIES:
            seconds, runs = all_orders(nodes, pods, policy, seeds)
            rows.append(figures_of(name, policy, runs))
            if name == next(iter(lists)):
                drawn += runs
                curves[policy] = [round(100 * median_at(runs, load / 100), 3) for load in CURVE]
                replay = partial(replay_devices, nodes, pods, policy, 0)
                by_hand, quotas = ByHand(runs[0], nodes, pods), WithQuotas(runs[0], nodes, pods)
                tasks = {"replay": replay, "by hand": by_hand, "quotas": quotas}
                contenders = {task: partial(cpu_seconds, each) for task, each in tasks.items()}
                if not smoke:
                    contenders["whole"] = partial(whole_command, policy)
                taken = take_turns(contenders, rounds)
                once = taken["replay"]
                by_hand.check()
                quotas.check()
                pods_come = len(runs[0].rows)
                times.append(
                    {
                        "policy": policy,
                        **taken,
                        "orders": seconds,
                        "arrivals": pods_come,
                        "per pod": once / pods_come,
                        "twin": twin_seconds(runs[0], nodes, pods, wanted),
                    }
                )
                print(
                    f"time  {policy:12} {once:.2f} s a replay, {taken['by hand']:.2f} s by hand, "
                    f"{taken['quotas']:.2f} s with quotas, {seconds:.1f} s {seeds} orders, "
                    f"{1e6 * once / pods_come:.0f} us a pod, twin {1e3 * times[-1]['twin']:.1f} ms",
                    flush=True,
                )
            said = rows[-1]["reported"]
            beside = f", reported {said['allocated'][100]:.2f}" if said else ""
            full, spread = rows[-1]["allocated"][100], rows[-1]["deviation at 100"]
            print(f"share {name:12} {policy:12} {full:.2f} % +- {spread:.2f}{beside}", flush=True)
    figures = {
        "gpus": nodes.gpu_milli // 1000,
        "nodes": len(nodes),
        "seeds": seeds,
        "time": times,
        "replays": rows,
        "curves": {"loads": list(CURVE), "allocated": curves},
    }
    save(arguments, "devices_openb", figures)
    draw(drawn, ALLOCATED.get(next(iter(lists))), arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
