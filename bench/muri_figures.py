"""Figures 9 and 10 of Muri (SIGCOMM'22) again: four traces, and each with all jobs at once.

    python bench/muri_figures.py [--smoke] [--out DIR] [--traces NAME ...]

Every job policy runs on every trace, and mean and p99 of the completion times and the makespan are
set beside what Muri's authors recorded (`published.csv`). The traces are looked for in the folder
that HIVECORE_TRACES names, else in `shared/traces` beside the checkout; a name that ends in `_pr`
is the trace of that name with all jobs submitted at time 0. Two runs go side by side.

`--smoke` takes a small generated trace instead.
"""

import argparse
import csv
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from harness import command_line, save, surroundings
from muri_page import METRICS, write_page

from hivecore.reference.muri_matching import muri_matching
from hivecore.sim.preemptive import JOB_POLICIES, Jobs, MuriOptions, job_figures, schedule
from hivecore.traces import generate_training, load_training

TRACES = Path(os.environ.get("HIVECORE_TRACES") or Path(__file__).parents[2] / "shared" / "traces")
MURI = TRACES / "muri"
NAMES = [f"trace{number}{form}" for number in (2, 4, 1, 3) for form in ("_pr", "")]
SMOKE = ["generated_pr", "generated"]
# Where the matching of the authors' simulator, written for reading, takes seconds and not hours.
RECORDED_TIES = {"trace3", "trace3_pr", *SMOKE}
#: Columns of published.csv by their names there.
RECORDED = {"avg_jct_s": "mean_completion", "makespan_s": "makespan", "p99_jct_s": "p99_completion"}

Row = dict[str, Any]


def jobs_of(name: str) -> Jobs:
    base = name.removesuffix("_pr")
    trace = generate_training(60, seed=0) if name in SMOKE else load_training(MURI / f"{base}.csv")
    if name != base:
        trace = replace(trace, submit=np.zeros_like(trace.submit))
    return Jobs.of(trace)


def run(task: tuple[str, str, bool]) -> Row:
    name, policy, recorded_ties = task
    jobs = jobs_of(name)
    # The recorded runs were made without autopack, all but one: with it, the means of trace1 under
    # Muri-S and Muri-L would be 8 and 6 % off.
    options = MuriOptions(autopack=False)
    if recorded_ties:
        options = replace(options, matcher=muri_matching)
    begin = process_time()
    figures = job_figures(jobs, schedule(jobs, policy, muri=options))
    seconds = process_time() - begin
    print(
        f"{name:12} {policy:14} {'recorded ties' * recorded_ties:14} {seconds:8.2f} s", flush=True
    )
    measured = {metric: getattr(figures, metric) for metric in METRICS}
    return {
        "trace": name,
        "policy": policy,
        "recorded_ties": recorded_ties,
        "jobs": len(jobs),
        "measured": measured,
        "cpu_seconds": round(seconds, 2),
    }


def published() -> dict[tuple[str, str], dict[str, float]]:
    """What the authors recorded: {(trace, policy): {metric: seconds}}."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in csv.DictReader((MURI / "published.csv").read_text().splitlines()):
        if row["figure"].startswith(("9", "10")):
            metric = RECORDED[row["metric"]]
            found.setdefault((row["trace"], row["policy"].lower()), {})[metric] = float(
                row["value"]
            )
    return found


def measure(names: list[str], recorded: dict[tuple[str, str], dict[str, float]]) -> list[Row]:
    # The long ones first, so that no core waits for the other at the end.
    tasks = [(name, policy, False) for name in names for policy in reversed(JOB_POLICIES)]
    tasks += [(n, f"muri-{form}", True) for n in names if n in RECORDED_TIES for form in "sl"]
    tasks.sort(key=lambda task: (not task[1].startswith("muri"), not task[2]))
    with ProcessPoolExecutor(max_workers=2) as pool:
        rows = list(pool.map(run, tasks))
    for row in rows:
        row["published"] = recorded.get((row["trace"], row["policy"]), {})
    order = [*JOB_POLICIES]
    return sorted(
        rows, key=lambda row: (row["trace"], order.index(row["policy"]), row["recorded_ties"])
    )


def add_traces(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--traces", nargs="+", default=NAMES, metavar="NAME", help="default: 1-4")


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
