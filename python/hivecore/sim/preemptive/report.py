"""Outcomes of training jobs as a table for people and as JSON for programs."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hivecore.sim.preemptive.metrics import JobFigures
from hivecore.sim.tables import empty_table, minutes
from hivecore.sim.units import with_units

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["jobs_table", "jobs_to_json"]

_SCHEMA = "hivecore.jobs/2"


def jobs_table(figures: Mapping[str, JobFigures]) -> "Table":
    """Return a Rich table with a row per policy, times in minutes.

    :param figures: by policy. What failures did is shown if there were any.

    >>> jobs_table({"srtf": JobFigures(10.0, 20.0, 30.0, 5.0, 1, 7)}).row_count
    1
    """
    headings = ["mean\ncompletion", "p99\ncompletion", "makespan", "mean\nqueueing"]
    headings.append("preemp-\ntions")
    caption = "completion: from submission to end; queueing: without GPUs"
    failed = any(one.interruptions for one in figures.values())
    if failed:
        headings += ["interrup-\ntions", "lost\nGPU-hours"]
        caption += "\ninterruptions: by failures; lost: what they undid"
    grid = empty_table("Training jobs, times in minutes", caption, ["policy", *headings])
    for policy, one in figures.items():
        times = (one.mean_completion, one.p99_completion, one.makespan, one.mean_queueing)
        row = [*map(minutes, times), f"{one.preemptions:,}"]
        if failed:
            row += [f"{one.interruptions:,}", f"{one.lost_gpu_hours:,.0f}"]
        grid.add_row(policy, *row)
    return grid


def jobs_to_json(
    figures: Mapping[str, JobFigures],
    configuration: Mapping[str, Any],
    runtime_seconds: Mapping[str, float],
) -> dict[str, Any]:
    """Return the figures as plain data for `json.dump`; times are in seconds.

    :param figures: by policy.
    :param configuration: how they were asked for, stored as it is.
    :param runtime_seconds: how long the steps took; all else is equal for equal inputs.

    >>> found = jobs_to_json({"srtf": JobFigures(10.0, 20.0, 30.0, 5.0, 1, 7)}, {}, {})
    >>> found["policies"]["srtf"]["makespan_seconds"]
    30.0
    """
    return {
        "schema": _SCHEMA,
        "configuration": dict(configuration),
        "policies": {policy: with_units(asdict(one)) for policy, one in figures.items()},
        "runtime_seconds": dict(runtime_seconds),
    }
