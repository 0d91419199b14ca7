"""What each part of a scheduler brings, where there is more and less to be had.

    python bench/bench_demo.py [--smoke] [--out DIR]

The jobs are those of `hivecore demo`, and the same with other loads and another bandwidth of remote
IO, each with three seeds (the first one is the demo's). Figures are those of the simulated jobs.

Seconds: what the demo's simulations take, CPU time of one process, and until all are done where
each processor takes one at a time, start of the processes included.
"""

import os
from dataclasses import asdict, replace
from functools import partial
from time import perf_counter
from typing import Any

from harness import command_line, cpu_seconds, save

from hivecore.sim.demo import demo_figures, run_demo
from hivecore.sim.demo.command import Terms
from hivecore.sim.workers import workers
from hivecore.traces import generate_tenants

DEMO = Terms()
SETTINGS = {
    "as in the demo": DEMO,
    "load 70 %": replace(DEMO, load=0.7),
    "load 110 %": replace(DEMO, load=1.1),
    "half the remote IO": replace(DEMO, bandwidth_mbps=DEMO.bandwidth_mbps / 2),
    "three times the remote IO": replace(DEMO, bandwidth_mbps=3 * DEMO.bandwidth_mbps),
}


def measure(setting: str, terms: Terms) -> list[dict[str, Any]]:
    made = generate_tenants(terms.jobs, terms.seed, terms.load, terms.days)
    demo = run_demo(made, terms.cache_gb, terms.bandwidth_mbps)
    rows = []
    for name in demo.runs:
        one = demo_figures(demo, name)
        rows.append({"setting": setting, "seed": terms.seed, "configuration": name, **asdict(one)})
        print(
            f"{setting:26} seed {terms.seed} {name:10} {one.mean_completion / 60:6,.0f} min, "
            f"queueing {one.mean_queueing / 60:6,.0f} min, useful work {one.utilisation:.1%}, "
            f"{one.later:4,} start later, {one.ends_later:4,} end later than alone",
            flush=True,
        )
    return rows


def seconds(terms: Terms, processes: int) -> dict[str, float]:
    made = generate_tenants(terms.jobs, terms.seed, terms.load, terms.days)
    run = partial(run_demo, made, terms.cache_gb, terms.bandwidth_mbps)
    alone = cpu_seconds(run)
    begin = perf_counter()
    with workers(processes):
        run()
    found = {"cpu": alone, "wall": perf_counter() - begin, "processes": processes}
    print(f"seconds: {alone:.1f} of CPU, {found['wall']:.1f} in {processes} processes")
    return found


if __name__ == "__main__":
    arguments = command_line(__doc__)
    found = []
    small = {"jobs": 100, "days": 0.1} if arguments.smoke else {}
    processes = min(2, os.cpu_count() or 1)
    times = seconds(replace(DEMO, **small), processes)
    with workers(processes):
        for setting, terms in SETTINGS.items():
            for seed in range(1 if arguments.smoke else 3):
                found += measure(setting, replace(terms, seed=seed, **small))
    save(arguments, "demo", {"configurations": found, "seconds": times})
