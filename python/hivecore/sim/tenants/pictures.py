"""Three pictures of a replay; titles state what they show, from the figures.

Under cells the figures equal those of the private clusters, so the latter are drawn wide and grey,
behind the others.
"""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hivecore.sim import pictures as draw
from hivecore.sim.metrics import Figures, summarize
from hivecore.sim.replay import BACKFILL, LENDING, Replay

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["excess_picture", "fragmentation_picture", "tenants_picture"]

_COLORS = {
    "private": draw.GREY,
    "quota": draw.VERMILION,
    "cells": draw.BLUE,
    LENDING: draw.GREEN,
    BACKFILL: draw.BLACK,
}
_MARKERS = {"cells": "D", LENDING: "^"}
_SMOOTHED = 0.05  # of the window


def tenants_picture(replay: Replay) -> "Figure":
    """Draw mean delay, jobs that start later than in private, and by how much, per tenant."""
    summaries = {policy: summarize(replay, policy)[:-1] for policy in replay.runs}
    names = [draw.literal(each.tenant or "") for each in summaries["quota"]]
    rows = np.arange(len(names))
    height = 1.8 + (0.15 + 0.15 * len(summaries)) * len(names)
    figure, (waits, counts, amounts) = draw.panels(1, 3, (11, height), sharey=True)
    for policy, figures in summaries.items():
        delays = [each.mean_delay / draw.HOUR for each in figures]
        size, marker = 130 if policy == "private" else 45, _MARKERS.get(policy, "o")
        waits.scatter(delays, rows, s=size, marker=marker, color=_COLORS[policy], label=policy)
    compared = [policy for policy in summaries if policy != "private"]
    thick = 0.8 / len(compared)
    for place, policy in enumerate(compared):
        color, figures = _COLORS[policy], summaries[policy]
        at = rows + (place - (len(compared) - 1) / 2) * thick
        later = [100 * each.later / max(each.jobs, 1) for each in figures]
        bars = counts.barh(at, later, 0.9 * thick, color=color)
        counts.bar_label(bars, [f"{each.later:,}" for each in figures], padding=3, fontsize=8)
        mean = [each.mean_excess / draw.HOUR for each in figures]
        longest = [each.max_excess / draw.HOUR for each in figures]
        bars = amounts.barh(at, longest, 0.9 * thick, color=color, alpha=0.35)
        amounts.barh(at, mean, 0.9 * thick, color=color)
        amounts.bar_label(bars, [f"{hours:,.1f}" for hours in longest], padding=3, fontsize=8)
    waits.set_yticks(rows, names)
    waits.invert_yaxis()
    for axes, xlabel in (
        (waits, "mean queueing delay (hours)"),
        (counts, "jobs that start later than in private\n(% of the tenant's; number at the bar)"),
        (amounts, "how much later (hours):\nmean of these jobs, pale: the longest"),
    ):
        limit = max(axes.get_xlim()[1] * 1.12, 1.0)
        # The frame would hide half of a point at 0; bars begin there.
        left = -0.03 * limit if axes is waits else 0
        draw.frame(axes, "", grid="x", xlabel=xlabel, xlim=(left, limit))
    draw.legend_below(figure, len(summaries))
    figure.suptitle(_promise(replay), x=0.01, ha="left", fontweight="bold", fontsize=11)
    return figure


def _promise(replay: Replay) -> str:
    late = {policy: int(replay.later(policy).sum()) for policy in replay.runs}
    quota, cells = (
        f"{late[policy]:,}" if late[policy] else "none" for policy in ("quota", "cells")
    )
    text = (
        f"Quota starts {quota} of {replay.work.trace.jobs:,} jobs later than the tenant's private "
    )
    text += f"cluster does, cells {cells}"
    if LENDING not in late:
        return text
    shorter = replay.delay(LENDING).mean() < replay.delay("cells").mean()
    return f"{text},\nand with lending {late[LENDING]:,}{', for shorter queues' if shorter else ''}"


def excess_picture(replay: Replay) -> "Figure":
    """Draw the excess delay of the tenant that quota delays most, job by job."""
    trace = replay.work.trace
    worst = max(
        (each for each in summarize(replay, "quota")[:-1] if each.jobs),
        key=lambda each: (each.mean_excess * each.later, each.mean_delay),
    )
    own = trace.tenant == trace.tenants.index(worst.tenant or "")
    figure, (axes,) = draw.panels()
    axes.axhline(0, color=draw.GREY, linewidth=5, alpha=0.6, label="private", zorder=0)
    for policy, size in (("quota", 9), ("cells", 4)):
        hours = replay.excess(policy)[own] / draw.HOUR
        days, color = trace.submit[own] / draw.DAY, _COLORS[policy]
        axes.scatter(days, hours, s=size, color=color, label=policy, linewidths=0)
    # An hour is always visible, so that seconds do not look large.
    hours = replay.excess("quota")[own] / draw.HOUR
    low, high = min(float(hours.min()), -0.5), max(float(hours.max()), 0.5)
    margin = 0.05 * (high - low)
    draw.frame(
        axes,
        _worst_title(replay, worst, own),
        "best",
        xlim=(0, max(float(trace.submit[-1]) / draw.DAY, 1e-3)),
        ylim=(low - margin, high + margin),
        xlabel="time of submission (days since the first)",
        ylabel="start later than in private (hours)",
    )
    return figure


def _worst_title(replay: Replay, worst: Figures, own: npt.NDArray[np.bool_]) -> str:
    name = draw.literal(worst.tenant or "")
    if not worst.later:
        return f"Quota delays no tenant beyond its private cluster; shown: {name}"
    kept = int((replay.later("cells") & own).sum())
    return (
        f"Under quota {worst.later:,} of {worst.jobs:,} jobs of {name} start later than in "
        f"its private cluster,\nby up to {worst.max_excess / draw.HOUR:,.1f} hours; "
        f"under cells {f'{kept:,} do' if kept else 'none does'}"
    )


def fragmentation_picture(replay: Replay) -> "Figure":
    """Draw fragmentation over time, smoothed and as sampled."""
    figure, (axes,) = draw.panels()
    days = replay.instants / draw.DAY
    for policy, run in replay.runs.items():
        color, width = _COLORS[policy], 5.0 if policy == "private" else 1.8
        axes.plot(days, _share(run.stranded, run.free), color=color, linewidth=0.5, alpha=0.3)
        smooth = _share(_smoothed(run.stranded), _smoothed(run.free))
        label = f"{policy} ({run.fragmentation:.0%} of all)"
        axes.plot(days, smooth, color=color, linewidth=width, label=label)
    quota, cells = replay.runs["quota"], replay.runs["cells"]
    title = "Quota leaves no GPU free"
    if quota.free.any():
        title = (
            f"{quota.fragmentation:.0%} of the GPUs that quota leaves free are useless for a job "
            f"of a whole node, {cells.fragmentation:.0%} with cells"
        )
    xlabel = "time since the first submission (days)"
    ylabel = "free GPUs that are not in\nwholly free nodes (%)"
    draw.frame(axes, title, xlim=(0, days[-1]), ylim=(0, 103), xlabel=xlabel, ylabel=ylabel)
    draw.legend_below(figure, len(replay.runs))
    return figure


_Counts = npt.NDArray[np.float64] | npt.NDArray[np.int64]


def _share(part: _Counts, whole: _Counts) -> npt.NDArray[np.float64]:
    # No line where nothing is free.
    return 100 * part / np.where(whole > 0, whole, np.nan)


def _smoothed(values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return sums over a sliding window, truncated at both ends."""
    width = max(int(len(values) * _SMOOTHED), 1)
    return np.convolve(values, np.ones(width), mode="same")
