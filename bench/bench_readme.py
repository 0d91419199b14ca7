"""The rows of README's table, in one run of some minutes.

    python bench/bench_readme.py [--smoke] [--out DIR]

Each row calls functions of its subject's benchmark, which describes what is measured. Missing peers
are left out and named. HiveD's Go code decides on the pods of `peers/hived.py`, on one processor,
with wall-clock time on both sides; all else is CPU time. The matching of 1,000 vertices is of one
family; the worst case is that of all families up to 60 vertices.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import bench_matching
import numpy as np
from bench_caching_policies import kinds_of_ids
from bench_cell_cluster import TENANTS, document
from bench_devices import filter_figures
from bench_dra import pairs_figures
from bench_interleaving import pairs
from bench_quotas import Forest, change_figures, runtimes_figures
from bench_replicas import cache_figures
from bench_scheduler import decision_figures, fill, new_scheduler
from bench_sim import BY_HAND, NODES, time_replays
from bench_storage import Setting, numpy_greedy
from bench_topology import place_figures
from harness import TRACES, command_line, milliseconds, save, take_turns
from peers import hived

from hivecore.sim import Workload
from hivecore.traces import generate, load, load_virtual_clusters


def scheduler(small: bool) -> Any:
    nodes = 512 if small else 8192
    whole = new_scheduler(nodes)
    used = fill(whole, 8 * nodes * (1 if small else 2) // 3)
    decisions = decision_figures(whole, 20 if small else 1000, 1 if small else 2)
    return {"gpus": 8 * nodes, "in use": used, "decisions": decisions}


def pods(small: bool) -> Any:
    """Lives of HiveD's pods, with two thirds of the tenants' GPUs in use."""
    racks = 16 if small else 256
    owned = 4 * (max(1, 3 * racks // 16) * 64 + max(1, racks // 4) * 8)
    text, run = document(racks), hived.run_of(TENANTS, 2 * owned // 3, 50 if small else 1000)
    results = {"gpus": racks * 64, "hivecore": hived.hivecore(text, run)}
    with tempfile.TemporaryDirectory() as folder:
        program = hived.compiled(Path(folder))
        if program is None:
            print(f"HiveD is left out: {hived.LACKING}", file=sys.stderr)
        else:
            results["HiveD"] = hived.hived(program, text, run)
            ours, theirs = results["hivecore"], results["HiveD"]
            assert (ours["bound"], ours["lost"]) == (theirs["bound"], theirs["lost"])
    return results


def devices(small: bool) -> Any:
    return filter_figures(*((300, 20, 1) if small else (10_000, 200, 5)))


def claims(small: bool) -> Any:
    return pairs_figures(1 if small else 9)


def quotas(small: bool) -> Any:
    """The children of one quota."""
    flat = Forest(1, 150 if small else 40_000)
    every = runtimes_figures(flat, 1 if small else 5)["seconds"]
    return {"every": every, "change": change_figures(flat, 20 if small else 1000)}


def topology(small: bool) -> Any:
    return place_figures(*((1000, 40, 5) if small else (10_000, 256, 200)))


def matching(small: bool) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        optimize = "-O0" if small else "-O3"
        drivers = bench_matching.drivers_in(Path(folder), ("LEMON", "Boost"), optimize)
        largest = 6 if small else 60
        results = [
            bench_matching.held(family, n, drivers)
            for family, (_, sizes, _) in bench_matching.FAMILIES.items()
            for n in sizes
            if n <= largest or (family == "noise" and n == 1000 and not small)
        ]
    return {"peers": sorted(drivers), "largest": largest, "contests": results}


def interleaving(small: bool) -> Any:
    return pairs(*((60, 60, 1) if small else (2000, 100, 5)))


def caching(small: bool) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return kinds_of_ids(*((2000, 1) if small else (1_000_000, 3)), Path(folder, "ids"))


def storage(small: bool) -> Any:
    setting = Setting(500 if small else 100_000)
    turns = {
        "hivecore": milliseconds(lambda: setting.allocate("greedy")),
        "NumPy": milliseconds(lambda: numpy_greedy(setting, "throughput")),
    }
    rates, by_hand = setting.allocate("greedy").rates_mbps, numpy_greedy(setting, "throughput")
    np.testing.assert_allclose(rates, by_hand, rtol=1e-6, atol=1e-6)
    return take_turns(turns, 1 if small else 7)


def replicas(small: bool) -> Any:
    blocks, length = (1000, 2000) if small else (100_000, 100_000)
    return cache_figures(blocks, length, 1 if small else 5)


def simulator(small: bool) -> Any:
    """Philly's jobs, or as many generated ones without that trace."""
    philly = TRACES / "philly"
    if small or not philly.is_dir():
        name, trace = "generated", generate(NODES, jobs=500 if small else 82_000, seed=0)
        work = Workload.of(trace, NODES)
    else:
        name, trace = "Philly's", load(philly / "jobs.csv", "philly")
        work = Workload.of(trace, load_virtual_clusters(philly / "virtual_clusters.csv"))
    seconds = {row["task"]: row["seconds"] for row in time_replays(name, work, BY_HAND, 1)}
    return {"trace": name, "jobs": work.trace.jobs, "seconds": seconds}


ROWS: tuple[Callable[[bool], Any], ...] = (
    scheduler,
    pods,
    devices,
    claims,
    quotas,
    topology,
    matching,
    interleaving,
    caching,
    storage,
    replicas,
    simulator,
)


def main() -> None:
    arguments = command_line(__doc__)
    figures = {}
    for row in ROWS:
        begin = perf_counter()
        figures[row.__name__] = row(arguments.smoke)
        print(f"{row.__name__}: {perf_counter() - begin:.0f} s", flush=True)
    save(arguments, "readme", figures)


if __name__ == "__main__":
    main()
