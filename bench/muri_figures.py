"""Figures 9 and 10 of Muri (SIGCOMM'22) again: four traces, and each with all jobs at once.

    python bench/muri_figures.py [--smoke] [--out DIR] [--traces NAME ...]

Every job policy runs on every trace, and mean and p99 of the completion times and the makespan are
set beside what Muri's authors recorded (`published.csv`); and beside each other, on these traces
and on that of their testbed, what matchings and what the best groups give. The traces are looked
for in the folder that HIVECORE_TRACES names, else in `shared/traces` beside the checkout; a name
that ends in `_pr` is the trace of that name with all jobs submitted at time 0. Two runs go side by
side.

`--smoke` takes a small generated trace instead.
"""

import argparse
import csv
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from time import process_time
from typing import Any

import numpy as np
from harness import TRACES, command_line, save, surroundings
from muri_page import METRICS, write_page

from hivecore.reference.muri_matching import muri_groups
from hivecore.sim.preemptive import JOB_POLICIES, Jobs, MuriOptions, job_figures, schedule
from hivecore.traces import generate_training, load_training

MURI = TRACES / "muri"
FIGURES = [f"trace{number}{form}" for number in (2, 4, 1, 3) for form in ("_pr", "")]
NAMES = [*FIGURES, "cluster_trace"]
SMOKE = ["generated_pr", "generated"]
# Where the matching of the authors' simulator, written for reading, takes seconds and not hours.
RECORDED_TIES = {"trace3", "trace3_pr", *SMOKE}
#: Columns of published.csv by their names there.
RECORDED = {"avg_jct_s": "mean_completion", "makespan_s": "makespan", "p99_jct_s": "p99_completion"}

# The recorded runs were made without autopack, all but one: with it, the means of trace1 under
# Muri-S and Muri-L would be 8 and 6 % off.
VARIANTS = {
    "": {"autopack": False},
    "recorded ties": {"autopack": False, "rounds": muri_groups},
    "autopack": {},
    "exact": {},
    "same candidates": {"candidates": (4, 4)},
}

Row = dict[str, Any]


def jobs_of(name: str) -> Jobs:
    base = name.removesuffix("_pr")
    trace = generate_training(60, seed=0) if name in SMOKE else load_training(MURI / f"{base}.csv")
    if name != base:
        trace = replace(trace, submit=np.zeros_like(trace.submit))
    return Jobs.of(trace)


def run(task: tuple[str, str, str]) -> Row:
    name, policy, variant = task
    jobs = jobs_of(name)
    begin = process_time()
    options = MuriOptions(**VARIANTS[variant])
    outcome = schedule(jobs, policy, muri=options)
    # The authors do not interpolate: theirs is the job at place floor(0.99 jobs).
    times = sorted(end - submit for end, submit in zip(outcome.end, jobs.submit, strict=True))
    figures = replace(job_figures(jobs, outcome), p99_completion=times[int(0.99 * len(times))])
    seconds = process_time() - begin
    print(f"{name:13} {policy:13} {variant:16} {seconds:8.2f} s", flush=True)
    return {
        "trace": name,
        "policy": policy,
        "variant": variant,
        "jobs": len(jobs),
        "measured": {metric: getattr(figures, metric) for metric in METRICS},
        "cpu_seconds": round(seconds, 2),
    }


def published() -> dict[tuple[str, str], dict[str, float]]:
    """What the authors recorded: {(trace, policy): {metric: seconds}}."""
    results: dict[tuple[str, str], dict[str, float]] = {}
    for row in csv.DictReader((MURI / "published.csv").read_text().splitlines()):
        if row["figure"].startswith(("9", "10")):
            metric = RECORDED[row["metric"]]
            results.setdefault((row["trace"], row["policy"].lower()), {})[metric] = float(
                row["value"]
            )
    return results


def tasks_of(name: str) -> list[tuple[str, str, str]]:
    """The runs of a trace, the long ones first."""
    tasks = []
    for policy in reversed(JOB_POLICIES):
        if "exact" in policy:
            tasks += [(name, policy, "exact"), (name, policy, "same candidates")]
        elif policy.startswith("muri"):
            ties = ["recorded ties"] if name in RECORDED_TIES else []
            tasks += [(name, policy, variant) for variant in (*ties, "", "autopack")]
        else:
            tasks.append((name, policy, ""))
    return tasks


def measure(names: list[str], recorded: dict[tuple[str, str], dict[str, float]]) -> list[Row]:
    # No core should wait for the other at the end.
    tasks = [task for name in names for task in tasks_of(name)]
    tasks.sort(key=lambda task: task[2] != "recorded ties")
    with ProcessPoolExecutor(max_workers=2) as pool:
        rows = list(pool.map(run, tasks))
    for row in rows:
        row["published"] = recorded.get((row["trace"], row["policy"]), {})
    order = [(policy, variant) for policy in JOB_POLICIES for variant in VARIANTS]
    return sorted(
        rows, key=lambda row: (row["trace"], order.index((row["policy"], row["variant"])))
    )


def add_traces(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--traces", nargs="+", default=NAMES, metavar="NAME")


if __name__ == "__main__":
    arguments = command_line(__doc__, add_traces)
    if arguments.smoke:
        figures = measure(SMOKE, {})
    elif MURI.is_dir():
        figures = measure(arguments.traces, published())
    else:
        print(f"Muri's traces are not in {MURI}; HIVECORE_TRACES names the folder of traces.")
        raise SystemExit
    save(arguments, "muri_figures", figures)
    write_page(arguments.out, figures, surroundings(arguments))
