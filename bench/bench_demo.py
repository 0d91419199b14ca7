"""What each part of a scheduler gains, under easy and hard conditions.

    python bench/bench_demo.py [--smoke] [--out DIR]

The jobs are those of `hivecore demo`, and the same with other loads and another bandwidth of remote
IO, each with three seeds (the first one is the demo's). Figures are those of the simulated jobs.

Seconds: CPU time of the demo's simulations in one process, and wall time with one simulation at a
time on each processor, including the start of processes.
"""

import os
from dataclasses import asdict, replace
from functools import partial
from time import perf_counter
from typing import Any

from harness import command_line, cpu_seconds, save, show

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
    trace = generate_tenants(terms.jobs, terms.seed, terms.load, terms.days)
    demo = run_demo(trace, terms.cache_gb, terms.bandwidth_mbps)
    rows = []
    for name in demo.runs:
        about = {"setting": setting, "seed": terms.seed, "configuration": name}
        rows.append(about | asdict(demo_figures(demo, name)))
        show(rows[-1])
    return rows


def seconds(terms: Terms, processes: int) -> dict[str, float]:
    trace = generate_tenants(terms.jobs, terms.seed, terms.load, terms.days)
    run = partial(run_demo, trace, terms.cache_gb, terms.bandwidth_mbps)
    alone = cpu_seconds(run)
    begin = perf_counter()
    with workers(processes):
        run()
    results = {"cpu": alone, "wall": perf_counter() - begin, "processes": processes}
    show(results, "seconds")
    return results


if __name__ == "__main__":
    arguments = command_line(__doc__)
    configurations = []
    small = {"jobs": 100, "days": 0.1} if arguments.smoke else {}
    processes = min(2, os.cpu_count() or 1)
    times = seconds(replace(DEMO, **small), processes)
    with workers(processes):
        for setting, terms in SETTINGS.items():
            for seed in range(1 if arguments.smoke else 3):
                configurations += measure(setting, replace(terms, seed=seed, **small))
    save(arguments, "demo", {"configurations": configurations, "seconds": times})
