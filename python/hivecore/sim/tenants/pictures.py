"""Three pictures of a replay; each title states what the picture shows, from the figures.

Under cells the figures are those of the private clusters, so these are drawn broad and grey, behind
the others.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hivecore.sim.metrics import Figures, summarize
from hivecore.sim.pictures import BLUE, GREEN, GREY, VERMILION, literal, panel, set_title
from hivecore.sim.replay import LENDING, Replay

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["tenant_pictures"]

_COLORS = {"private": GREY, "quota": VERMILION, "cells": BLUE, LENDING: GREEN}
_MARKERS = {"cells": "D", LENDING: "^"}
_HOUR, _DAY = 3600.0, 86400.0
_SMOOTHED = 0.05  # of the window


def tenant_pictures(replay: Replay) -> dict[str, Callable[[], "Figure"]]:
    """Return what draws tenants, the excess of the worst one, and fragmentation.

    :param replay: outcome of a replay of all policies, perhaps with `LENDING` among them.
    """
    return {
        "tenants": partial(_tenants, replay),
        "excess": partial(_excess, replay),
        "fragmentation": partial(_fragmentation, replay),
    }


def _tenants(replay: Replay) -> "Figure":
    """Mean delay, jobs that start later than in private, and by how much, per tenant."""
    from matplotlib.figure import Figure

    summaries = {policy: summarize(replay, policy)[:-1] for policy in replay.runs}
    names = [one.tenant for one in summaries["quota"]]
    rows = np.arange(len(names))
    figure = Figure(
        figsize=(11, 1.8 + (0.15 + 0.15 * len(summaries)) * len(names)), layout="constrained"
    )
    waits, counts, amounts = figure.subplots(1, 3, sharey=True)

    for policy, figures in summaries.items():
        hours = [one.mean_delay / _HOUR for one in figures]
        size, marker = 130 if policy == "private" else 45, _MARKERS.get(policy, "o")
        waits.scatter(hours, rows, s=size, marker=marker, color=_COLORS[policy], label=policy)
    waits.set_yticks(rows, [literal(name or "") for name in names])
    waits.invert_yaxis()
    waits.set_xlabel("mean queueing delay (hours)")

    compared = [policy for policy in summaries if policy != "private"]
    height = 0.8 / len(compared)
    for place, policy in enumerate(compared):
        color, figures = _COLORS[policy], summaries[policy]
        shift = (place - (len(compared) - 1) / 2) * height
        share = [100 * one.later / max(one.jobs, 1) for one in figures]
        bars = counts.barh(rows + shift, share, 0.9 * height, color=color)
        counts.bar_label(bars, [f"{one.later:,}" for one in figures], padding=3, fontsize=8)
        mean = np.array([one.mean_excess / _HOUR for one in figures])
        longest = np.array([one.max_excess / _HOUR for one in figures])
        bars = amounts.barh(rows + shift, longest, 0.9 * height, color=color, alpha=0.35)
        amounts.barh(rows + shift, mean, 0.9 * height, color=color)
        amounts.bar_label(bars, [f"{hours:,.1f}" for hours in longest], padding=3, fontsize=8)
    counts.set_xlabel(
        "jobs that start later than in private\n(% of the tenant's; number at the bar)"
    )
    amounts.set_xlabel("how much later (hours):\nmean of these jobs, pale: the longest")
    for axes in (waits, counts, amounts):
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
        limit = max(axes.get_xlim()[1] * 1.12, 1.0)
        # Points at 0 would be cut in half by the frame; bars begin there.
        axes.set_xlim(-0.03 * limit if axes is waits else 0, limit)
    figure.legend(loc="outside lower center", ncols=len(summaries), frameon=False)
    figure.suptitle(_promise(replay), x=0.01, ha="left", fontweight="bold", fontsize=11)
    return figure


def _promise(replay: Replay) -> str:
    late = {policy: int(replay.later(policy).sum()) for policy in replay.runs}
    quota = f"Quota starts {late['quota']:,} of" if late["quota"] else "Quota starts none of"
    cells = f"cells {late['cells']:,}" if late["cells"] else "cells none"
    jobs = replay.work.trace.jobs
    lent = ""
    if LENDING in late:
        shorter = replay.delay(LENDING).mean() < replay.delay("cells").mean()
        lent = f",\nand with lending {late[LENDING]:,}{', for shorter queues' if shorter else ''}"
    return f"{quota} {jobs:,} jobs later than the tenant's private cluster does, {cells}{lent}"


def _excess(replay: Replay) -> "Figure":
    """Excess delay of the tenant that quota delays most, job by job."""
    trace = replay.work.trace
    worst = max(
        (one for one in summarize(replay, "quota")[:-1] if one.jobs),
        key=lambda one: (one.mean_excess * one.later, one.mean_delay),
    )
    own = trace.tenant == trace.tenants.index(worst.tenant or "")
    figure, axes = panel(
        "time of submission (days since the first)", "start later than in private (hours)"
    )
    days = trace.submit[own] / _DAY
    axes.axhline(0, color=_COLORS["private"], linewidth=5, alpha=0.6, label="private", zorder=0)
    for policy, size in (("quota", 9), ("cells", 4)):
        hours = replay.excess(policy)[own] / _HOUR
        axes.scatter(days, hours, s=size, color=_COLORS[policy], label=policy, linewidths=0)
    _keep_open(axes, replay.excess("quota")[own] / _HOUR)
    axes.set_xlim(0, max(float(trace.submit[-1]) / _DAY, 1e-3))
    set_title(axes, _worst_title(replay, worst, own))
    axes.legend(frameon=False, loc="best", markerscale=2)
    return figure


def _keep_open(axes: "Axes", hours: npt.NDArray[np.float64]) -> None:
    """Keep an hour in view, lest differences of seconds look like mountains."""
    low, high = float(hours.min()), float(hours.max())
    margin = 0.05 * max(high - low, 1.0)
    axes.set_ylim(min(low, -0.5) - margin, max(high, 0.5) + margin)


def _worst_title(replay: Replay, worst: Figures, own: npt.NDArray[np.bool_]) -> str:
    name = literal(worst.tenant or "")
    if not worst.later:
        return f"Quota delays no tenant beyond its private cluster; shown: {name}"
    kept = int((replay.later("cells") & own).sum())
    return (
        f"Under quota {worst.later:,} of {worst.jobs:,} jobs of {name} start later than in "
        f"its private cluster,\nby up to {worst.max_excess / _HOUR:,.1f} hours; "
        f"under cells {f'{kept:,} do' if kept else 'none does'}"
    )


def _fragmentation(replay: Replay) -> "Figure":
    """Fragmentation over time, smoothed, and as it was sampled."""
    figure, axes = panel(
        "time since the first submission (days)", "free GPUs that are not in\nwholly free nodes (%)"
    )
    days = replay.instants / _DAY
    for policy, run in replay.runs.items():
        color, width = _COLORS[policy], 5.0 if policy == "private" else 1.8
        label = f"{policy} ({run.fragmentation:.0%} of all)"
        axes.plot(days, _share(run.stranded, run.free), color=color, linewidth=0.5, alpha=0.3)
        smooth = _share(_smoothed(run.stranded), _smoothed(run.free))
        axes.plot(days, smooth, color=color, linewidth=width, label=label)
    axes.set_ylim(0, 103)
    axes.set_xlim(0, days[-1])
    quota, cells = replay.runs["quota"], replay.runs["cells"]
    title = "Quota leaves no GPU free"
    if quota.free.any():
        title = (
            f"{quota.fragmentation:.0%} of the GPUs that quota leaves free are useless for a job "
            f"of a whole node, {cells.fragmentation:.0%} with cells"
        )
    set_title(axes, title)
    figure.legend(loc="outside lower center", ncols=len(replay.runs), frameon=False)
    return figure


def _share(
    part: npt.NDArray[np.float64] | npt.NDArray[np.int64],
    whole: npt.NDArray[np.float64] | npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    # No line where nothing is free.
    return 100 * part / np.where(whole > 0, whole, np.nan)


def _smoothed(values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the sums over a sliding window, cut off at both ends."""
    width = max(int(len(values) * _SMOOTHED), 1)
    return np.convolve(values, np.ones(width), mode="same")
