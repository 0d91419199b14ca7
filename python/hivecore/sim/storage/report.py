"""Outcomes of jobs that share storage as a table for people and as JSON for programs."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hivecore.sim.storage.metrics import StorageFigures
from hivecore.sim.tables import empty_table
from hivecore.sim.units import with_units

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["storage_table", "storage_to_json"]

_SCHEMA = "hivecore.storage/2"
_HOUR = 3600.0

#: Figures by policy of the GPUs and storage system.
_Figures = Mapping[tuple[str, str], StorageFigures]


def storage_table(figures: _Figures) -> "Table":
    """Return a Rich table with a row per policy and storage system, times in hours.

    :param figures: by policy and storage system.

    >>> one = StorageFigures(9.0, 8.0, 20.0, 30.0, 100.0, 0.5, 1.0, 0.5, 0.9, 1.1, 7, 3)
    >>> storage_table({("fifo", "silod"): one}).row_count
    1
    """
    headings = ["mean\ntime", "median\ntime", "p99\ntime", "make-\nspan"]
    headings += ["GPUs\nbusy", "read\nMB/s", "remote\nTB", "hits", "least\nfair", "mean\nfair"]
    caption = (
        "time: from submission to end; busy: computing, not waiting for data\n"
        "fair: what a job read, over what it would have read with an equal share"
    )
    title = "Jobs that share storage, times in hours"
    grid = empty_table(title, caption, ["policy", "storage", *headings])
    last = None
    for (policy, system), one in figures.items():
        times = (one.mean_completion, one.median_completion, one.p99_completion, one.makespan)
        grid.add_row(
            "" if policy == last else policy,
            system,
            *map(_hours, times),
            f"{one.busy:.1%}",
            f"{one.rate_mbps:,.0f}",
            f"{one.remote_tb:,.1f}" if one.remote_tb < 1000 else f"{one.remote_tb:,.0f}",
            f"{one.hits:.1%}",
            f"{one.fairness_min:.2f}",
            f"{one.fairness_mean:.2f}",
        )
        last = policy
    return grid


def _hours(seconds: float) -> str:
    hours = seconds / _HOUR
    return f"{hours:,.2f}" if hours < 100 else f"{hours:,.1f}"


def storage_to_json(
    figures: _Figures, configuration: Mapping[str, Any], runtime_seconds: Mapping[str, float]
) -> dict[str, Any]:
    """Return the figures as plain data for `json.dump`; times are in seconds.

    :param figures: by policy and storage system.
    :param configuration: how they were asked for, stored as it is.
    :param runtime_seconds: how long the steps took; all else is equal for equal inputs.

    >>> one = StorageFigures(9.0, 8.0, 20.0, 30.0, 100.0, 0.5, 1.0, 0.5, 0.9, 1.1, 7, 3)
    >>> storage_to_json({("fifo", "silod"): one}, {}, {})["policies"]["fifo"]["silod"]["busy"]
    0.5
    """
    policies: dict[str, dict[str, Any]] = {}
    for (policy, system), one in figures.items():
        policies.setdefault(policy, {})[system] = with_units(asdict(one))
    return {
        "schema": _SCHEMA,
        "configuration": dict(configuration),
        "policies": policies,
        "runtime_seconds": dict(runtime_seconds),
    }
