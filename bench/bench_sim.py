"""Time to read a trace and to replay it under each policy, on the kernels and on their twins.

    python bench/bench_sim.py [--smoke] [--out DIR]

The traces: 82,000 generated jobs of five tenants, and Microsoft's Philly trace if the folder that
HIVECORE_TRACES names (else `shared/traces` beside the checkout) holds it. The twin of
`hivecore.reference` runs in the same event loop, and every job must start as on the kernel. It
recomputes the whole cluster at each step, so it gets a short trace.
The floor is the event loop alone, with a policy that always says yes. The whole command is
`hivecore replay` on the Philly trace in a process of its own: start, reading, the three replays,
report, pictures and JSON.

gang           one job on every node of its tenant, and the 400 samples that a replay takes while
               it runs: time per node is to stay the same from 1,000 to 62,500 nodes

All contenders take turns; times are CPU time, the least of several rounds.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import TRACES, command_line, cpu_seconds, save, take_turns
from twin_clusters import on_the_twin

from hivecore.sim import Workload, replay
from hivecore.sim.engine import run
from hivecore.sim.opportunistic import run_opportunistic
from hivecore.sim.policies import Cells, Private, Quota
from hivecore.traces import Trace, generate, load, load_virtual_clusters, save_csv

NODES = {"a": 9, "b": 14, "c": 48, "d": 9, "e": 25}
FEW_NODES = {"a": 2, "b": 2}
NO_SAMPLES = np.array([])


def twin_of(policy: Any) -> Callable[[Workload], Any]:
    """The policy on clusters that run on the twin."""

    def made(work: Workload) -> Any:
        with on_the_twin():
            return policy(work)

    return made


class Floor:
    """Starts every job at once, so that what is left is the event loop."""

    shared = False

    def __init__(self, work: Workload) -> None:
        pass

    def try_start(self, job: int) -> bool:
        return True

    def finish(self, job: int) -> None:
        pass

    def free_gpus(self) -> tuple[int, int]:
        return 0, 0


ALL = {
    "event loop alone": Floor,
    "private": Private,
    "quota": Quota,
    "cells": Cells,
}


class Reading:
    """Reads a trace; the trace read last stays here."""

    def __init__(self, path: Path, format: str) -> None:
        self.read = partial(load, path, format)

    def __call__(self) -> None:
        self.trace = self.read()


class Replay:
    """Replays a workload; the starts of the last time stay here."""

    def __init__(self, work: Workload, policy: Any) -> None:
        self.work = work
        self.policy = policy

    def __call__(self) -> None:
        self.start = run(self.work, self.policy(self.work), NO_SAMPLES).start.tolist()


def time(
    trace: str, jobs: int, tasks: dict[str, Callable[[], Any]], rounds: int
) -> list[dict[str, Any]]:
    contenders = {name: partial(cpu_seconds, task) for name, task in tasks.items()}
    figures = []
    for name, seconds in take_turns(contenders, rounds).items():
        print(f"{trace:10} {name:22} {jobs:7,} jobs  {seconds:7.3f} s")
        per_job = 1e6 * seconds / jobs
        figures.append(
            {"trace": trace, "task": name, "jobs": jobs, "seconds": seconds, "us_per_job": per_job}
        )
    return figures


def time_replays(
    trace: str, work: Workload, policies: dict[str, Any], rounds: int
) -> list[dict[str, Any]]:
    tasks = {name: Replay(work, policy) for name, policy in policies.items()}
    figures = time(trace, work.trace.jobs, dict(tasks), rounds)
    for name, task in tasks.items():
        assert task.start == tasks[name.removesuffix(", twin")].start, f"{name} disagrees"
    if "private" in tasks:
        assert tasks["cells"].start == tasks["private"].start, "cells breaks its promise"
    return figures


def time_borrowing(trace: str, work: Workload, rounds: int) -> list[dict[str, Any]]:
    def task() -> None:
        assert np.isfinite(run_opportunistic(work, Cells(work), NO_SAMPLES).start).all()

    return time(trace, work.trace.jobs, {"cells, opportunistic": task}, rounds)


def whole_command(folder: Path) -> float:
    """CPU seconds of a process that replays the Philly trace."""
    philly = TRACES / "philly"
    main = [sys.executable, "-c", "from hivecore.cli import main; raise SystemExit(main())"]
    given = ["--format", "philly", "--virtual-clusters", philly / "virtual_clusters.csv"]
    outputs = ["--json", folder / "replay.json", "--plots", folder]
    before = os.times()
    command = [*main, "replay", philly / "jobs.csv", *given, *outputs]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )


def time_gangs(sizes: list[int], rounds: int) -> list[dict[str, Any]]:
    figures = []
    for nodes in sizes:
        trace = Trace.from_columns(["gang", "one"], "ab", [0, 0], [60, 60], [8 * nodes, 8])
        work = Workload.of(trace, {"a": nodes, "b": 1})
        tasks = {
            "quota": partial(replay, work, ["quota"]),
            "cells": partial(replay, work, ["cells"]),
            "cells, opportunistic": partial(replay, work, ["cells"], opportunistic=True),
        }
        contenders = {name: partial(cpu_seconds, task) for name, task in tasks.items()}
        for name, seconds in take_turns(contenders, rounds).items():
            print(f"{'gang':10} {name:22} {nodes:7,} nodes {seconds:7.3f} s")
            per_node = 1e6 * seconds / nodes
            figures.append(
                {
                    "trace": "gang",
                    "task": name,
                    "nodes": nodes,
                    "seconds": seconds,
                    "us_per_node": per_node,
                }
            )
    return figures


def measure(smoke: bool) -> list[dict[str, Any]]:
    rounds, jobs, few = (1, 2_000, 60) if smoke else (3, 82_000, 400)
    make = partial(generate, NODES, jobs=jobs, seed=0)
    trace = make()
    figures = time("generated", jobs, {"generate": make}, rounds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.csv"
        save_csv(trace, path)
        reading = Reading(path, "csv")
        figures += time("generated", jobs, {"read": reading}, rounds)
    assert reading.trace.submit.tolist() == trace.submit.tolist()
    work = Workload.of(trace, NODES)
    figures += time_replays("generated", work, ALL, rounds)
    figures += time_borrowing("generated", work, rounds)

    short = Workload.of(generate(FEW_NODES, jobs=few, seed=0), FEW_NODES)
    policies = {"private": Private, "quota": Quota, "cells": Cells}
    twins = {f"{name}, twin": twin_of(policy) for name, policy in policies.items()}
    figures += time_replays("short", short, policies | twins, rounds)

    figures += time_gangs([250, 1000] if smoke else [1000, 4000, 16_000, 62_500], 3 * rounds)

    if (TRACES / "philly" / "jobs.csv").is_file() and not smoke:
        reading = Reading(TRACES / "philly" / "jobs.csv", "philly")
        figures += time("philly", 82_247, {"read": reading}, rounds)
        owners = load_virtual_clusters(TRACES / "philly" / "virtual_clusters.csv")
        work = Workload.of(reading.trace, owners)
        figures += time_replays("philly", work, ALL, rounds)
        figures += time_borrowing("philly", work, rounds)
        with tempfile.TemporaryDirectory() as folder:
            seconds = min(whole_command(Path(folder)) for _ in range(rounds))
        figures.append(
            {
                "trace": "philly",
                "task": "the whole command",
                "jobs": work.trace.jobs,
                "seconds": seconds,
                "us_per_job": 1e6 * seconds / work.trace.jobs,
            }
        )
        print(f"philly     the whole command      {work.trace.jobs:7,} jobs  {seconds:7.3f} s")
    return figures


if __name__ == "__main__":
    arguments = command_line(__doc__)
    save(arguments, "sim", measure(arguments.smoke))
