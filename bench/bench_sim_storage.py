"""The storage simulator: time per fluid event, and what policies and systems come to.

    python bench/bench_sim_storage.py [--smoke] [--out DIR]

Events: so many jobs run at once, each on GPUs of its own, half of them on shared datasets. Time is
CPU time per event, the least of three runs, decisions of the scheduler included; "kernel" is what
the clockwork between the decisions takes of it, and "twin" what its twin in plain Python takes for
the same events (only with 100 jobs). Agreement: how far completion times by the fluid model are
from those of real items in real caches, 4,000 per dataset: the mean of all jobs, and the job that
differs most, seed by seed. Replay: what README's command prints for Muri's trace3 with random
datasets, seed by seed, if the folder that HIVECORE_TRACES names (else `shared/traces` beside the
checkout) holds it. Policies: the synthetic workload of `generate_storage`,
whose parameters are no measurement, so that nothing here is to be compared with a published figure.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import TRACES, command_line, cpu_seconds, save, show, take_turns

from hivecore._sim import FluidClock
from hivecore.reference.sim import FluidClock as Twin
from hivecore.sim.storage import (
    GPU_POLICIES,
    STORAGE_SYSTEMS,
    StorageCluster,
    StorageWorkload,
    schedule,
    schedule_storage,
    storage_figures,
)
from hivecore.traces import generate_storage, load_training, with_datasets

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from sim.storage.items import schedule_items

REPLAYED = TRACES / "muri" / "trace3.csv"
SEEDS = range(5)


class Clocked:
    """Contents that run like others, and add up the CPU time of that."""

    def __init__(self, kind: Any, *arguments: Any, **options: Any) -> None:
        self.contents = kind(*arguments, **options)
        self.seconds = 0.0
        CLOCKED.append(self)

    def advance(self, *arguments: Any) -> Any:
        results = []
        self.seconds += cpu_seconds(lambda: results.append(self.contents.advance(*arguments)))
        return np.array(results[0], dtype=np.int64)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.contents, name)
        return np.array(value, dtype=np.float64) if isinstance(value, list) else value


CLOCKED: list[Clocked] = []


def between_decisions(kind: Any, run: Any) -> tuple[float, Any]:
    """Seconds that contents of a kind take of a run, and what the run comes to."""
    kept = schedule.FluidClock
    schedule.FluidClock = partial(Clocked, kind)  # type: ignore[misc, assignment]
    try:
        outcome = run()
    finally:
        schedule.FluidClock = kept  # type: ignore[misc]
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
                "kernel": lambda run=run: between_decisions(FluidClock, run)[0],
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
            if running <= 100:
                twin, same = between_decisions(Twin, run)
                if same.end.tolist() != outcome.end.tolist() or same.events != outcome.events:
                    raise AssertionError("kernel and twin differ")
                row["twin_us_per_event"] = per_event * twin
            show(row, "events")
            figures.append(row)
    return figures


def agreement(smoke: bool) -> list[dict[str, Any]]:
    """How far completion times are from those of real items."""
    figures = []
    jobs, items, seeds = (4, 500, [0]) if smoke else (16, 4000, SEEDS)
    cluster = StorageCluster(16, 4000.0, 300.0)
    for storage in STORAGE_SYSTEMS:
        for seed in seeds:
            trace = generate_storage(jobs, seed=seed, gpus=16, shared=0.5)
            work = StorageWorkload.of(trace)
            fluid = schedule_storage(work, cluster, "fifo", storage).end - work.submit
            real = schedule_items(work, cluster, "fifo", storage, items=items).end - work.submit
            row = {
                "storage": storage,
                "seed": seed,
                "jobs": jobs,
                "items": items,
                "mean": float(fluid.mean() / real.mean() - 1),
                "largest": float(np.abs(fluid / real - 1).max()),
            }
            show(row, "agreement")
            figures.append(row)
    return figures


def compare(smoke: bool) -> list[dict[str, Any]]:
    """The synthetic workload under all policies and systems."""
    jobs, gpus, seeds = (40, 8, [0]) if smoke else (600, 96, SEEDS)
    cluster = StorageCluster(gpus, 125.0 * gpus, 12.5 * gpus)
    works = {
        seed: StorageWorkload.of(generate_storage(jobs, seed=seed, gpus=gpus)) for seed in seeds
    }
    return compare_on("policies", works, cluster, GPU_POLICIES)


def replay(smoke: bool) -> list[dict[str, Any]]:
    """What `hivecore replay storage trace3.csv --cache 8000 --bandwidth 800` comes to, by seed."""
    if smoke or not REPLAYED.is_file():
        return []
    trace = load_training(REPLAYED)
    works = {seed: StorageWorkload.of(with_datasets(trace, seed)) for seed in SEEDS}
    return compare_on("replay", works, StorageCluster(96, 8000.0, 800.0), ("fifo", "max-min"))


def compare_on(
    name: str, works: dict[int, StorageWorkload], cluster: StorageCluster, policies: Any
) -> list[dict[str, Any]]:
    figures = []
    for policy in policies:
        base: dict[int, float] = {}
        for system in STORAGE_SYSTEMS:
            ratios = []
            for seed, work in works.items():
                outcome = schedule_storage(work, cluster, policy, system)
                entry = storage_figures(work, cluster, outcome)
                base.setdefault(seed, entry.mean_completion)
                ratios.append(entry.mean_completion / base[seed])
                figures.append(
                    {
                        "policy": policy,
                        "storage": system,
                        "seed": seed,
                        "cache_gb": cluster.cache_gb,
                        "bandwidth_mbps": cluster.bandwidth_mbps,
                        "mean_completion_hours": entry.mean_completion / 3600,
                        "mean_completion_over_silod": ratios[-1],
                        "busy": entry.busy,
                        "hits": entry.hits,
                        "fairness_min": entry.fairness_min,
                        "fairness_mean": entry.fairness_mean,
                    }
                )
            print(
                f"{name:9} {policy:8} {system:8} "
                f"{min(ratios):5.2f} to {max(ratios):5.2f} x silod over {len(ratios)} seeds",
                flush=True,
            )
    return figures


if __name__ == "__main__":
    arguments = command_line(__doc__)
    smoke = arguments.smoke
    figures = {
        "events": time_events(smoke),
        "agreement": agreement(smoke),
        "policies": compare(smoke),
        "replay": replay(smoke),
    }
    save(arguments, "sim_storage", figures)
