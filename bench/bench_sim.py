"""Time to read a trace and to replay it under each policy, on the kernels and on their twins.

    python bench/bench_sim.py [--smoke] [--out DIR]

The traces: 82,000 generated jobs of five tenants, and Microsoft's Philly trace if the folder that
HIVECORE_TRACES names (else `shared/traces` beside the checkout) holds it. The twin of
`hivecore.reference` runs in a loop by hand, and every job must start as on the kernel. It
recomputes the whole cluster at each step, so it gets a short trace.
Beside the replay, which lets a `Scheduler` decide, stand loops by hand for each policy: what the
generality costs. The floor is such a loop with a policy that always says yes. The whole command is
`hivecore replay tenants` on the Philly trace in a process of its own: start, reading, three
replays, report, pictures and JSON.

network        five clusters of Microsoft ITP as five tenants of one, under quotas, in a network and
               on its GPUs: a `Scheduler` made of quotas, topology and devices, and the same parts
               called by hand; "whole" is reading, replaying and counting delays together

training       jobs that are stopped and restarted, or share GPUs, under each policy of
               `hivecore.sim.preemptive`; on Muri's traces, else on generated jobs

gang           one job on every node of its tenant, and the 400 samples that a replay takes while
               it runs: time per node is to stay the same from 1,000 to 62,500 nodes

All contenders take turns; times are CPU time, the least of several rounds.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import ITP, TRACES, command_line, cpu_seconds, hivecore_seconds, save, take_turns
from network_loops import Network, jobs_on_network, on_network
from tenant_loops import Cells, Private, Quota, run
from twin_clusters import on_the_twin

from hivecore.sim import LENDING, Workload, own_nodes, simulate
from hivecore.sim import replay as replay_all
from hivecore.sim.configurations import configure, jobs_of
from hivecore.sim.preemptive import JOB_POLICIES, Jobs, schedule
from hivecore.traces import (
    Trace,
    generate,
    generate_training,
    load,
    load_training,
    load_virtual_clusters,
    save_csv,
)

NODES = {"a": 9, "b": 14, "c": 48, "d": 9, "e": 25}
FEW_NODES = {"a": 2, "b": 2}


def twin_of(policy: Any) -> Callable[[Workload], Any]:
    """The policy on clusters that run on the twin."""

    def build(work: Workload) -> Any:
        with on_the_twin():
            return policy(work)

    return build


class Floor:
    """Starts every job at once, so that what is left is the event loop."""

    shared = False

    def __init__(self, work: Workload) -> None:
        pass

    def try_start(self, job: int) -> bool:
        return True

    def finish(self, job: int) -> None:
        pass


BY_HAND = {"private, by hand": Private, "quota, by hand": Quota, "cells, by hand": Cells}


class Reading:
    """Reads a trace; the trace read last stays here."""

    def __init__(self, path: Path, format: str) -> None:
        self.read = partial(load, path, format)

    def __call__(self) -> None:
        self.trace = self.read()


class ByHand:
    """A policy in a loop of its own; the starts of the last time stay here."""

    def __init__(self, work: Workload, policy: Any) -> None:
        self.work = work
        self.policy = policy

    def __call__(self) -> None:
        self.start = run(self.work, self.policy(self.work))


class Replay:
    """A policy as a configuration of a scheduler; the starts of the last time stay here."""

    def __init__(self, work: Workload, policy: str) -> None:
        self.work = work
        self.policy = policy

    def __call__(self) -> None:
        work, policy = self.work, self.policy
        jobs, trace = jobs_of(work, policy), work.trace
        submit, duration = trace.submit.tolist(), trace.duration.tolist()
        outcome = simulate(configure(policy, work), jobs, submit, duration)
        self.start = outcome.start.tolist()
        assert np.isfinite(outcome.end).all()


class OnNetwork(Replay):
    """Quotas, topology and devices."""

    def __init__(self, work: Workload) -> None:
        super().__init__(work, "network")

    def __call__(self) -> None:
        work, trace = self.work, self.work.trace
        submit, duration = trace.submit.tolist(), trace.duration.tolist()
        outcome = simulate(on_network(work), jobs_on_network(work), submit, duration)
        self.start = outcome.start.tolist()


class Training:
    """A policy of training jobs; every job ends, and has run for as long as it takes alone.

    Not those that share GPUs: the stages of some profiles are less than an iteration takes alone.
    """

    def __init__(self, jobs: Jobs, policy: str) -> None:
        self.jobs = jobs
        self.policy = policy

    def __call__(self) -> None:
        jobs, outcome = self.jobs, schedule(self.jobs, self.policy)
        assert np.isfinite(outcome.end).all()
        if not self.policy.startswith("muri"):
            alone = np.array(jobs.iterations) * jobs.solo
            assert (np.array(outcome.held) > 0.999 * alone).all()


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
    trace: str, work: Workload, by_hand: dict[str, Any], rounds: int
) -> list[dict[str, Any]]:
    floor = ByHand(work, Floor)
    tasks: dict[str, Any] = {name: Replay(work, name) for name in ("private", "quota", "cells")}
    tasks |= {name: ByHand(work, policy) for name, policy in by_hand.items()}
    every = {"event loop alone": floor, **tasks, "cells, lending": Replay(work, LENDING)}
    figures = time(trace, work.trace.jobs, every, rounds)
    for name, task in tasks.items():
        assert task.start == tasks[name.partition(",")[0]].start, f"{name} disagrees"
    assert tasks["cells"].start == tasks["private"].start, "cells breaks its promise"
    return figures


def time_network(trace: str, read: Callable[[], Trace], rounds: int) -> list[dict[str, Any]]:
    trace_now = read()
    work = Workload.of(trace_now, own_nodes(trace_now, 1.3))
    tasks: dict[str, Any] = {"network": OnNetwork(work), "network, by hand": ByHand(work, Network)}

    def whole() -> None:
        again = read()
        task = OnNetwork(Workload.of(again, own_nodes(again, 1.3)))
        task()
        delays = np.array(task.start) - task.work.trace.submit
        for tenant in range(len(again.tenants)):
            np.percentile(delays[task.work.trace.tenant == tenant], [50, 99])

    figures = time(trace, work.trace.jobs, {**tasks, "network, whole": whole}, rounds)
    starts = [task.start for task in tasks.values()]
    assert starts[0] == starts[1], "the scheduler disagrees with its parts"
    return figures


def time_training(
    trace: str, jobs: Jobs, policies: tuple[str, ...], rounds: int
) -> list[dict[str, Any]]:
    return time(trace, len(jobs), {policy: Training(jobs, policy) for policy in policies}, rounds)


def whole_command(folder: Path) -> float:
    """CPU seconds of a process that replays the Philly trace."""
    philly = TRACES / "philly"
    given = ["--format", "philly", "--virtual-clusters", philly / "virtual_clusters.csv"]
    outputs = ["--json", folder / "replay.json", "--plots", folder]
    return hivecore_seconds("replay", "tenants", philly / "jobs.csv", *given, *outputs)


def time_gangs(sizes: list[int], rounds: int) -> list[dict[str, Any]]:
    figures = []
    for nodes in sizes:
        trace = Trace.from_columns(["gang", "one"], "ab", [0, 0], [60, 60], [8 * nodes, 8])
        work = Workload.of(trace, {"a": nodes, "b": 1})
        tasks = {
            "quota": partial(replay_all, work, ["quota"]),
            "cells": partial(replay_all, work, ["cells"]),
            "cells, lending": partial(replay_all, work, [LENDING]),
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


def measure_training(smoke: bool, rounds: int) -> list[dict[str, Any]]:
    if smoke or not (TRACES / "muri").is_dir():
        jobs = Jobs.of(generate_training(jobs=50 if smoke else 1000, seed=0))
        return time_training("training", jobs, JOB_POLICIES, rounds)
    figures = []
    for name, policies in (
        ("cluster_trace", JOB_POLICIES),
        ("trace3", JOB_POLICIES),
        ("trace2", ("fifo", "srtf", "srsf", "tiresias")),
    ):
        jobs = Jobs.of(load_training(TRACES / "muri" / f"{name}.csv"))
        figures += time_training(name, jobs, policies, rounds)
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
    figures += time_replays("generated", work, BY_HAND, rounds)

    short = Workload.of(generate(FEW_NODES, jobs=few, seed=0), FEW_NODES)
    twins = {f"{name.partition(',')[0]}, twin": twin_of(policy) for name, policy in BY_HAND.items()}
    figures += time_replays("short", short, BY_HAND | twins, rounds)

    if ITP[0].is_file() and not smoke:
        figures += time_network("itp", partial(load, ITP, "itp"), rounds)
    else:
        figures += time_network("short", partial(generate, FEW_NODES, jobs=few, seed=0), rounds)
    figures += measure_training(smoke, rounds)
    figures += time_gangs([250, 1000] if smoke else [1000, 4000, 16_000, 62_500], 3 * rounds)

    if (TRACES / "philly" / "jobs.csv").is_file() and not smoke:
        reading = Reading(TRACES / "philly" / "jobs.csv", "philly")
        figures += time("philly", 82_247, {"read": reading}, rounds)
        owners = load_virtual_clusters(TRACES / "philly" / "virtual_clusters.csv")
        work = Workload.of(reading.trace, owners)
        figures += time_replays("philly", work, BY_HAND, rounds)
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
