"""The storage simulator: time per fluid event and per item, and what policies and systems come to.

    python bench/bench_caching_sim.py [--smoke] [--out DIR]

Events: so many jobs run at once, each on GPUs of its own, half of them on shared datasets. Time is
CPU time per event, decisions of the scheduler included; "loop" leaves those out. Items: accesses
per second of CPU time in the item mode. Policies: the synthetic workload of `generate_storage`,
whose parameters are no measurement, so that nothing here is to be compared with a published figure.
"""

from functools import partial
from typing import Any

from harness import command_line, cpu_seconds, save, take_turns

from hivecore.sim.storage import (
    GPU_POLICIES,
    STORAGE_SYSTEMS,
    StorageCluster,
    StorageWorkload,
    events,
    schedule_items,
    schedule_storage,
    storage_figures,
)
from hivecore.traces import generate_storage


class Run:
    """Runs a workload; the outcome, and the CPU time of all decisions, stay here."""

    def __init__(self, function: Any, *arguments: Any, **options: Any) -> None:
        self.function = partial(function, *arguments, **options)

    def __call__(self) -> float:
        decide = events._Run._decide
        self.deciding = 0.0

        def timed(run: Any) -> float:
            found: list[float] = []
            self.deciding += cpu_seconds(lambda: found.append(decide(run)))
            return found[0]

        events._Run._decide = timed  # type: ignore[method-assign]
        try:
            return cpu_seconds(self.run)
        finally:
            events._Run._decide = decide  # type: ignore[method-assign]

    def run(self) -> None:
        self.outcome = self.function()


def time_events(smoke: bool) -> list[dict[str, Any]]:
    figures = []
    for running in (20,) if smoke else (100, 1000):
        # All come within a moment of their lives, and GPUs are enough for all.
        trace = generate_storage(running, seed=0, gpus=8 * running, load=40.0, shared=0.5)
        work = StorageWorkload.of(trace)
        gpus = int(work.gpus.sum())
        cluster = StorageCluster(gpus, 125.0 * gpus, 20.0 * gpus)
        for system in STORAGE_SYSTEMS:
            run = Run(schedule_storage, work, cluster, "fifo", system)
            seconds = take_turns({"run": run}, 1)["run"]
            outcome = run.outcome
            row = {
                "jobs": running,
                "storage": system,
                "events": outcome.events,
                "decisions": outcome.decisions,
                "us_per_event": 1e6 * seconds / outcome.events,
                "loop_us_per_event": 1e6 * (seconds - run.deciding) / outcome.events,
            }
            print(
                f"events    {running:5} jobs  {system:8} {row['us_per_event']:8.1f} us per event, "
                f"loop {row['loop_us_per_event']:.1f} us, {outcome.events:,} events"
            )
            figures.append(row)
    return figures


def time_items(smoke: bool) -> dict[str, Any]:
    work = StorageWorkload.of(generate_storage(4 if smoke else 16, seed=0, gpus=16, shared=0.5))
    cluster = StorageCluster(16, 4000.0, 300.0)
    run = Run(schedule_items, work, cluster, items=2000 if smoke else 20_000)
    seconds = run()
    accesses = float((work.total / work.size[work.dataset]).sum()) * (2000 if smoke else 20_000)
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
