"""Time to read a trace and to replay it under each policy, on the kernels and on their twins.

    python bench/bench_sim.py [--smoke] [--out DIR]

The traces: 82,000 generated jobs of five tenants, and Microsoft's Philly trace if the folder that
HIVECORE_TRACES names (else `shared/traces` beside the checkout) holds it. The twins of
`hivecore.reference` run in the same event loop, and their replay must start every job when that of
the kernels does. The twin of the virtual clusters recomputes the whole cluster at each step, so
that one gets a short trace. The floor is the event loop alone: a policy that always says yes.
Each figure is the best of three runs.
"""

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import hivecore
from hivecore.reference.cells import BuddyAllocator, VirtualClusters
from hivecore.sim import Workload
from hivecore.sim.engine import Run, run
from hivecore.sim.opportunistic import run_opportunistic
from hivecore.sim.policies import Cells, Private, Quota
from hivecore.traces import generate, load, load_virtual_clusters, save_csv

TRACES = Path(os.environ.get("HIVECORE_TRACES") or Path(__file__).parents[2] / "shared" / "traces")
NODES = {"a": 9, "b": 14, "c": 48, "d": 9, "e": 25}
FEW_NODES = {"a": 2, "b": 2}
NO_SAMPLES = np.array([])


class PrivateTwin(Private):
    allocator = BuddyAllocator


class QuotaTwin(Quota):
    allocator = BuddyAllocator


class CellsTwin(Cells):
    allocator = VirtualClusters


class Floor:
    """Starts every job at once, so that what is left is the event loop."""

    shared = False

    def __init__(self, work: Workload) -> None:
        pass

    def try_start(self, job: int) -> bool:
        return True

    def finish(self, job: int, placement: bool) -> None:
        pass

    def free_gpus(self) -> tuple[int, int]:
        return 0, 0


POLICIES: list[tuple[str, str, Any]] = [
    ("loop", "floor", Floor),
    ("private", "kernel", Private),
    ("private", "twin", PrivateTwin),
    ("quota", "kernel", Quota),
    ("quota", "twin", QuotaTwin),
    ("cells", "kernel", Cells),
]


def best_of(repeats: int, task: Callable[[], Any]) -> tuple[float, Any]:
    """The shortest of some runs, in seconds, and what the last one returned."""
    seconds = []
    for _ in range(repeats):
        begin = perf_counter()
        result = task()
        seconds.append(perf_counter() - begin)
    return min(seconds), result


def replays(
    name: str, work: Workload, policies: list[tuple[str, str, Any]], repeats: int
) -> list[dict[str, Any]]:
    """Times each policy; kernel and twin of a policy must agree on every start."""
    figures = []
    starts: dict[str, list[float]] = {}
    for policy, implementation, make in policies:
        seconds, outcome = best_of(repeats, lambda make=make: run(work, make(work), NO_SAMPLES))
        figures.append(figure(name, policy, implementation, work.trace.jobs, seconds))
        expected = starts.setdefault(policy, outcome.start.tolist())
        assert outcome.start.tolist() == expected, f"{policy}: kernel and twin disagree"
    assert starts["cells"] == starts.get("private", starts["cells"]), "cells breaks its promise"
    return figures


def opportunistic(name: str, work: Workload, repeats: int) -> dict[str, Any]:
    def task() -> Run:
        return run_opportunistic(work, Cells(work), NO_SAMPLES)

    seconds, outcome = best_of(repeats, task)
    assert np.isfinite(outcome.start).all()
    return figure(name, "cells, opportunistic", "kernel", work.trace.jobs, seconds)


def figure(trace: str, step: str, implementation: str, jobs: int, seconds: float) -> dict[str, Any]:
    print(f"{trace:10} {step:22} {implementation:8} {jobs:7,} jobs  {seconds:8.3f} s")
    return {
        "trace": trace,
        "step": step,
        "implementation": implementation,
        "jobs": jobs,
        "seconds": seconds,
        "microseconds_per_job": 1e6 * seconds / jobs,
    }


def measure(smoke: bool) -> list[dict[str, Any]]:
    repeats, jobs, few = (1, 2_000, 60) if smoke else (3, 82_000, 400)
    figures = []

    seconds, trace = best_of(repeats, partial(generate, NODES, jobs=jobs, seed=0))
    figures.append(figure("generated", "generate", "-", jobs, seconds))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.csv"
        save_csv(trace, path)
        seconds, again = best_of(repeats, partial(load, path, "csv"))
    assert again.submit.tolist() == trace.submit.tolist()
    figures.append(figure("generated", "read", "-", jobs, seconds))
    work = Workload.of(trace, NODES)
    figures += replays("generated", work, POLICIES, repeats)
    figures.append(opportunistic("generated", work, repeats))

    short = Workload.of(generate(FEW_NODES, jobs=few, seed=0), FEW_NODES)
    both = [("cells", "kernel", Cells), ("cells", "twin", CellsTwin)]
    figures += replays("short", short, both, repeats)

    if (TRACES / "philly" / "jobs.csv").is_file() and not smoke:
        task = partial(load, TRACES / "philly" / "jobs.csv", "philly")
        seconds, trace = best_of(repeats, task)
        figures.append(figure("philly", "read", "-", trace.jobs, seconds))
        owners = load_virtual_clusters(TRACES / "philly" / "virtual_clusters.csv")
        work = Workload.of(trace, owners)
        figures += replays("philly", work, POLICIES, repeats)
        figures.append(opportunistic("philly", work, repeats))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small, to see that it runs")
    parser.add_argument("--out", type=Path, default=Path("bench/results"), metavar="DIR")
    arguments = parser.parse_args()
    figures = measure(arguments.smoke)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "sim.json"
    data = {
        "benchmark": "sim",
        "hivecore": hivecore.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "smoke": arguments.smoke,
        "figures": figures,
    }
    path.write_text(json.dumps(data, indent=1) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
