"""The demo as a table and sentences for people, and as JSON for programs."""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hivecore.sim.demo.figures import demo_figures
from hivecore.sim.demo.run import ALONE, CONFIGURATIONS, Demo
from hivecore.sim.tables import empty_table, minutes
from hivecore.sim.units import with_units

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["demo_findings", "demo_notes", "demo_table", "demo_to_json"]

_SCHEMA = "hivecore.demo/2"
_CAPTION = (
    "queueing: until the run begins that is completed\n"
    "useful work: what is not lost, of what all GPUs could do at full speed\n"
    "start later: jobs that do so than alone (broken guarantees); end later: alike\n"
    "alone: a tenant on its own nodes, with its part of cache and remote IO"
)


def demo_table(demo: Demo) -> "Table":
    """Return a Rich table with a row per configuration, times in minutes.

    :param demo: outcome of `run_demo`.

    >>> from hivecore.sim.demo import run_demo
    >>> from hivecore.traces import generate_tenants
    >>> demo_table(run_demo(generate_tenants(jobs=60, seed=0, days=0.1), 4000, 6000)).row_count
    6
    """
    headings = (
        "configuration",
        "mean\ncompletion",
        "p99\ncompletion",
        "mean\nqueueing",
        "useful\nwork",
        "start\nlater",
        "by up\nto",
        "end\nlater",
    )
    grid = empty_table("What each part brings; times in minutes", _CAPTION, headings)
    for name in demo.runs:
        one = demo_figures(demo, name)
        times = map(minutes, (one.mean_completion, one.p99_completion, one.mean_queueing))
        late = [f"{one.later:,}", minutes(one.max_excess), f"{one.ends_later:,}"]
        grid.add_row(name, *times, f"{one.utilisation:.1%}", *([""] * 3 if name == ALONE else late))
        if name == ALONE:
            grid.add_section()
    return grid


def demo_notes(demo: Demo) -> list[str]:
    """Return who owns and asks for what, in sentences.

    :param demo: outcome of `run_demo`.
    """
    made, trace = demo.made, demo.made.trace
    window = float(trace.submit[-1])
    nodes = sum(made.nodes.values())
    owned = ", ".join(f"{name} owns {count}" for name, count in made.nodes.items())
    load = trace.gpu_hours * 3600 / (8 * nodes * window)
    read = float(made.rate_mbps @ trace.duration) / window
    live = sum(made.datasets_gb.values())
    return [
        f"{trace.jobs:,} generated jobs in {window / 3600:,.0f} hours on {nodes} nodes of 8 GPUs: "
        f"{owned}. At full speed they ask for {load:.0%} of all GPU-hours.",
        f"At full speed they would read {read:,.0f} MB/s of {live:,.0f} GB in "
        f"{len(made.datasets_gb)} datasets; remote IO has {demo.bandwidth_mbps:,.0f} MB/s, behind a "
        f"cache of {demo.cache_gb:,.0f} GB.",
    ]


def demo_findings(demo: Demo) -> list[str]:
    """Return what the demo shows, in sentences computed from its figures.

    :param demo: outcome of `run_demo`.

    >>> from hivecore.sim.demo import run_demo
    >>> from hivecore.traces import generate_tenants
    >>> demo = run_demo(generate_tenants(jobs=60, seed=0, days=0.1), 4000, 6000)
    >>> len(demo_findings(demo))
    3
    """
    figures = {name: demo_figures(demo, name) for name in demo.runs}
    changes = []
    for before, name in pairwise(CONFIGURATIONS):
        change = figures[name].mean_completion / figures[before].mean_completion - 1.0
        said = f"{change:+.0%}" if abs(change) >= 0.005 else "nothing"
        changes.append(f"{name.removeprefix('+ ')} {said}")
    first, last = figures[CONFIGURATIONS[0]], figures[CONFIGURATIONS[-1]]
    broken = ", ".join(
        f"{name.removeprefix('+ ')} {figures[name].later:,}" for name in CONFIGURATIONS
    )
    lost = ", ".join(
        f"{name.removeprefix('+ ')} {one.lost_gpu_hours:,.0f}"
        for name, one in figures.items()
        if one.lost_gpu_hours
    )
    return [
        f"Mean completion time from {minutes(first.mean_completion)} to "
        f"{minutes(last.mean_completion)} minutes, step by step: {', '.join(changes)}.",
        f"Jobs that start later than alone, of {first.jobs:,}: {broken}.",
        f"GPU-hours lost to preemption: {lost or 'none'}.",
    ]


def demo_to_json(
    demo: Demo, configuration: Mapping[str, Any], runtime_seconds: Mapping[str, float]
) -> dict[str, Any]:
    """Return the demo as plain data for `json.dump`; times are in seconds.

    :param demo: outcome of `run_demo`.
    :param configuration: how it was asked for, stored as it is.
    :param runtime_seconds: how long the steps took; all else is equal for equal inputs.

    >>> from hivecore.sim.demo import run_demo
    >>> from hivecore.traces import generate_tenants
    >>> demo = run_demo(generate_tenants(jobs=60, seed=0, days=0.1), 4000, 6000)
    >>> demo_to_json(demo, {}, {})["configurations"]["cells"]["all"]["jobs"]
    60
    """
    made = demo.made
    return {
        "schema": _SCHEMA,
        "configuration": dict(configuration),
        "workload": {
            "jobs": made.trace.jobs,
            "gpu_hours": made.trace.gpu_hours,
            "nodes": dict(made.nodes),
            "datasets_gb": dict(made.datasets_gb),
        },
        "configurations": {
            name: {
                "all": with_units(asdict(demo_figures(demo, name))),
                "tenants": {
                    tenant: with_units(asdict(demo_figures(demo, name, tenant)))
                    for tenant in made.nodes
                },
            }
            for name in demo.runs
        },
        "findings": demo_findings(demo),
        "runtime_seconds": dict(runtime_seconds),
    }
