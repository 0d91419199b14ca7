"""The storage simulator: time per fluid event and per item, and what policies and systems come to.

    python bench/bench_caching_sim.py [--smoke] [--out DIR]

Events: so many jobs run at once, each on GPUs of its own, half of them on shared datasets. Time is
CPU time per event, the least of three runs, decisions of the scheduler included; "kernel" is what
the clockwork between the decisions takes of it, and "twin" what its twin in plain Python takes for
the same events (only with 100 jobs). Items: accesses
per second of CPU time in the item mode. Policies: the synthetic workload of `generate_storage`,
whose parameters are no measurement, so that nothing here is to be compared with a published figure.
"""

from functools import partial
from typing import Any

import numpy as np
from harness import command_line, cpu_seconds, save, take_turns

from hivecore import reference
from hivecore.caching import FluidStorage
from hivecore.sim.storage import (
    GPU_POLICIES,
    STORAGE_SYSTEMS,
    StorageCluster,
    StorageWorkload,
    schedule,
    schedule_items,
    schedule_storage,
    storage_figures,
)
from hivecore.traces import generate_storage


class Clocked:
    """Contents that run like others, and add up the CPU time of that."""

    def __init__(self, kind: Any, *arguments: Any, **options: Any) -> None:
        self.contents = kind(*arguments, **options)
        self.seconds = 0.0
        CLOCKED.append(self)

    def advance(self, *arguments: Any) -> Any:
        found = []
        self.seconds += cpu_seconds(lambda: found.append(self.contents.advance(*arguments)))
        return np.array(found[0], dtype=np.int64)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.contents, name)
        return np.array(value, dtype=np.float64) if isinstance(value, list) else value


CLOCKED: list[Clocked] = []


def between_decisions(kind: Any, run: Any) -> tuple[float, Any]:
    """Seconds that contents of a kind take of a run, and what the run comes to."""
    kept = schedule.FluidStorage
    schedule.FluidStorage = partial(Clocked, kind)  # type: ignore[misc, assignment]
    try:
        outcome = run()
    finally:
        schedule.FluidStorage = kept  # type: ignore[misc]
    return CLOCKED.pop().seconds, outcome


def time_events(smoke: bool) -> list[dict[str, Any]]:
    figures = []
    for running in (20,) if smoke else (100, 300, 1000):
        # All come within a moment of their lives, and GPUs are enough for all.
        trace = generate_storage(running, seed=0, gpus=8 * running, load=40.0, shared=0.5)
        work = StorageWorkload.of(trace)
        gpus = int(work.gpus.sum())
        cluster = StorageCluster(gpus, 125.0 * gpus, 20.0 * gpus)
        for system in STORAGE_SYSTEMS:
            run = partial(schedule_storage, work, cluster, "fifo", system)
            contenders = {
                "all": partial(cpu_seconds, run),
                "kernel": lambda run=run: between_decisions(FluidStorage, run)[0],
            }
            seconds = take_turns(contenders, 3)
            outcome = run()
            per_event = 1e6 / outcome.events
            row = {
                "jobs": running,
                "storage": system,
                "events": outcome.events,
                "decisions": outcome.decisions,
                "us_per_event": per_event * seconds["all"],
                "kernel_us_per_event": per_event * seconds["kernel"],
            }
            says = (
                f"{row['us_per_event']:6.1f} us per event, kernel {row['kernel_us_per_event']:.1f}"
            )
            if running <= 100:
                twin, same = between_decisions(reference.caching.FluidStorage, run)
                if same.end.tolist() != outcome.end.tolist() or same.events != outcome.events:
                    raise AssertionError("kernel and twin differ")
                row["twin_us_per_event"] = per_event * twin
                says += f" us, twin {row['twin_us_per_event']:,.0f}"
            print(f"events    {running:5} jobs  {system:8} {says} us, {outcome.events:,} events")
            figures.append(row)
    return figures


def time_items(smoke: bool) -> dict[str, Any]:
    work = StorageWorkload.of(generate_storage(4 if smoke else 16, seed=0, gpus=16, shared=0.5))
    cluster = StorageCluster(16, 4000.0, 300.0)
    items = 2000 if smoke else 20_000
    seconds = cpu_seconds(partial(schedule_items, work, cluster, items=items))
    accesses = float((work.total / work.size[work.dataset]).sum()) * items
    print(f"items     {accesses:,.0f} accesses, {accesses / seconds / 1e6:.2f} M per second")
    return {"accesses": accesses, "per_second": accesses / seconds}


def compare(smoke: bool) -> list[dict[str, Any]]:
    jobs, gpus = (40, 8) if smoke else (600, 96)
    work = StorageWorkload.of(generate_storage(jobs, seed=0, gpus=gpus))
    cluster = StorageCluster(gpus, 125.0 * gpus, 12.5 * gpus)
    figures = []
    for policy in GPU_POLICIES:
        base = 0.0
        for system in STORAGE_SYSTEMS:
            one = storage_figures(work, cluster, schedule_storage(work, cluster, policy, system))
            base = base or one.mean_completion
            row = {
                "policy": policy,
                "storage": system,
                "mean_completion_hours": one.mean_completion / 3600,
                "mean_completion_over_silod": one.mean_completion / base,
                "busy": one.busy,
                "hits": one.hits,
                "fairness_min": one.fairness_min,
                "fairness_mean": one.fairness_mean,
            }
            print(
                f"policies  {policy:8} {system:8} mean {row['mean_completion_hours']:7.2f} h, "
                f"{row['mean_completion_over_silod']:5.2f} x silod, busy {one.busy:.1%}, "
                f"hits {one.hits:.1%}, fairness {one.fairness_min:.2f} {one.fairness_mean:.2f}"
            )
            figures.append(row)
    return figures


if __name__ == "__main__":
    arguments = command_line(__doc__)
    smoke = arguments.smoke
    found = {"events": time_events(smoke), "items": time_items(smoke), "policies": compare(smoke)}
    save(arguments, "caching_sim", found)
