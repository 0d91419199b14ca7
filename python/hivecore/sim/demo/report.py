"""The demo's report: figures, findings computed from them, and a page of pictures.

A tenant is guaranteed what it would get alone on its nodes. The guarantee is broken for a job that
starts more than a microsecond later than that. Jobs that share GPUs or wait for data take longer,
so jobs that *end* later than alone are counted separately.
"""

from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hivecore.sim import columns
from hivecore.sim.demo.figures import DemoFigures
from hivecore.sim.demo.page import demo_page
from hivecore.sim.demo.run import ALONE, CONFIGURATIONS, Demo
from hivecore.sim.figures import mean, percentile, useful_seconds
from hivecore.sim.replay import TOLERANCE
from hivecore.sim.report import Report
from hivecore.sim.workload import GPUS_PER_NODE

__all__ = ["demo_figures", "demo_findings", "demo_report"]

_NOTES = (
    "completion: from submission to the end; p99: 99 of 100 jobs take no longer",
    "queueing: from submission to the start of the run that completes the job",
    "useful work: GPU time of work that is not lost, as a part of all GPU time;",
    "of jobs that share GPUs each counts its own work, so it may exceed all of it",
    "start later, end later: jobs that do so in comparison with the row alone",
    "by up to: the longest delay of such a start",
    "alone: each tenant on its own nodes, with its part of cache and remote IO",
    "quotas: all tenants on all nodes, each on as many GPUs as it owns at most",
    "cells: each tenant has whole nodes of its own; then each row adds a part:",
    "lending of idle nodes, sharing of GPUs, and cache and remote IO for each job",
)


def demo_figures(demo: Demo, name: str, tenant: str | None = None) -> DemoFigures:
    """Return the figures of a configuration.

    :param demo: outcome of `run_demo`.
    :param name: of the configuration.
    :param tenant: only its jobs and nodes count; ``None``: those of all tenants.
    :raises KeyError: there is no such configuration or tenant.

    Cost: O(jobs).

    >>> from hivecore.sim.demo import run_demo
    >>> from hivecore.traces import generate_tenants
    >>> demo = run_demo(generate_tenants(jobs=60, seed=0, days=0.1), 4000.0, 6000.0)
    >>> demo_figures(demo, "cells").jobs, demo_figures(demo, "alone").later
    (60, 0)
    """
    trace, run, alone = demo.work.trace, demo.runs[name], demo.runs[ALONE]
    own: npt.NDArray[np.bool_] = np.ones(trace.jobs, dtype=np.bool_)
    nodes = sum(demo.work.nodes.values())
    if tenant is not None:
        nodes = demo.work.nodes[tenant]
        own = trace.tenant == trace.tenants.index(tenant)
    submit, start, end = trace.submit[own], run.start[own], run.end[own]
    excess = start - alone.start[own]
    window = float(trace.submit[-1])
    useful = useful_seconds(trace.gpus[own] * trace.duration[own], start, end, window)
    later = excess > TOLERANCE
    return DemoFigures(
        jobs=int(own.sum()),
        mean_completion=mean(end - submit),
        p99_completion=percentile(end - submit, 99),
        mean_queueing=mean(start - submit),
        utilisation=useful / (nodes * GPUS_PER_NODE * window),
        later=int(later.sum()),
        max_excess=float(excess[later].max(initial=0.0)),
        ends_later=int((end - alone.end[own] > TOLERANCE).sum()),
        lost_gpu_hours=float(trace.gpus[own] @ run.lost[own]) / 3600.0,
    )


def demo_report(demo: Demo) -> Report:
    """Return a report with a row for each configuration, and the page of pictures.

    :param demo: outcome of `run_demo`.

    >>> from hivecore.sim.demo import run_demo
    >>> from hivecore.traces import generate_tenants
    >>> report = demo_report(run_demo(generate_tenants(jobs=60, seed=0, days=0.1), 4000, 6000))
    >>> len(report.rows), list(report.pictures)
    (6, ['demo'])
    """
    work = demo.work
    figures = {name: demo_figures(demo, name) for name in demo.runs}
    rows = [[name, *columns.values(each)] for name, each in figures.items()]
    rows[0][-3:] = [None] * 3  # comparisons with "alone" itself
    tenants = {
        name: {tenant: columns.as_json(demo_figures(demo, name, tenant)) for tenant in work.nodes}
        for name in demo.runs
    }
    data = {
        "workload": {
            "jobs": work.trace.jobs,
            "gpu_hours": work.trace.gpu_hours,
            "nodes": dict(work.nodes),
            "datasets_gb": dict(work.datasets_gb),
        },
        "configurations": {
            name: {"all": columns.as_json(each), "tenants": tenants[name]}
            for name, each in figures.items()
        },
        "findings": demo_findings(demo),
    }
    return Report(
        "What each part brings; times in minutes",
        [columns.label("configuration"), *columns.of(DemoFigures)],
        rows,
        _NOTES,
        [*_notes(demo), *demo_findings(demo)],
        "hivecore.demo/2",
        data,
        {"demo": partial(demo_page, demo, figures)},
    )


def _notes(demo: Demo) -> list[str]:
    """Describe what each tenant owns and requests."""
    work, trace = demo.work, demo.work.trace
    window = float(trace.submit[-1])
    nodes = sum(work.nodes.values())
    owned = ", ".join(f"{name} owns {count}" for name, count in work.nodes.items())
    load = trace.gpu_hours * 3600 / (8 * nodes * window)
    read = float(work.rate_mbps @ trace.duration) / window
    live = sum(work.datasets_gb.values())
    return [
        f"{trace.jobs:,} generated jobs in {window / 3600:,.0f} hours on {nodes} nodes of 8 GPUs: "
        f"{owned}. At full speed they ask for {load:.0%} of all GPU-hours.",
        f"They read {len(work.datasets_gb)} datasets, {live:,.0f} GB in all, at full speed "
        f"{read:,.0f} MB/s; remote storage gives {demo.bandwidth_mbps:,.0f} MB/s, and a cache has "
        f"room for {demo.cache_gb:,.0f} GB.",
    ]


def demo_findings(demo: Demo) -> list[str]:
    """Return findings, as sentences computed from the figures.

    :param demo: outcome of `run_demo`.
    """
    figures = {name: demo_figures(demo, name) for name in demo.runs}
    short = {name: name.removeprefix("+ ") for name in figures}
    changes = []
    for before, name in pairwise(CONFIGURATIONS):
        change = figures[name].mean_completion / figures[before].mean_completion - 1.0
        changes.append(f"{short[name]} {f'{change:+.0%}' if abs(change) >= 0.005 else 'nothing'}")
    first, last = figures[CONFIGURATIONS[0]], figures[CONFIGURATIONS[-1]]
    broken = ", ".join(f"{short[name]} {figures[name].later:,}" for name in CONFIGURATIONS)
    hours = ((short[name], each.lost_gpu_hours) for name, each in figures.items())
    lost = ", ".join(f"{name} {amount:,.0f}" for name, amount in hours if amount)
    row, trace = demo.most_delayed, demo.work.trace
    waits = [columns.minutes(demo.wait(name, row)) for name in (*figures, CONFIGURATIONS[-1])]
    return [
        f"The job that quotas delay most is of {trace.tenants[trace.tenant[row]]} and has "
        f"{trace.gpus[row]} GPUs. It waits {waits[1]} minutes under quotas, {waits[0]} alone, "
        f"{waits[2]} in cells, {waits[-1]} with all parts.",
        f"The mean completion time is {columns.minutes(first.mean_completion)} minutes under "
        f"quotas and {columns.minutes(last.mean_completion)} with all parts. Each part changes it: "
        f"{', '.join(changes)}.",
        f"Of {first.jobs:,} jobs so many start later than alone: {broken}.",
        f"GPU-hours of work lost as jobs were stopped for others: {lost or 'none'}.",
    ]
