"""Reports on a decision log: running and waiting jobs, and what other configurations would do."""

from functools import partial
from math import isinf, nan
from typing import TYPE_CHECKING, Any

from hivecore._stateful import counted
from hivecore.scheduler import JobDifference, LogDifference, LogStanding
from hivecore.sim import columns
from hivecore.sim import pictures as draw
from hivecore.sim.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["difference_report", "figures_report", "standing_report"]

_SECONDS = "{:g}"


def standing_report(standing: LogStanding) -> Report:
    """Return a report with a row for each job that has not ended."""
    of = f" of {standing.gpus}" if standing.gpus else ""
    return Report(
        f"Jobs at {standing.now:g} s",
        [
            *map(columns.label, ("job", "tenant")),
            columns.Column("GPUs"),
            columns.label("state"),
            columns.Column("since", _SECONDS),
            columns.label("why"),
        ],
        [
            (each.job, each.tenant, each.gpus, each.state, each.since, each.reason)
            for each in standing.jobs
        ],
        ["since: when a job that runs started, or another one was submitted, in seconds"],
        [
            f"At {standing.now:g} s {standing.in_use}{of} GPUs are in use. Jobs: "
            f"{len(standing.jobs)} running or waiting, {standing.finished} ended, "
            f"{standing.rejected} rejected as they could never run."
        ],
    )


def figures_report(difference: LogDifference) -> Report:
    """Return a report with a row for the log, one for the other configuration, and a picture."""
    headings = ("started", "rejected", "preempted")
    counts = [columns.Column(heading) for heading in headings]
    wait, use = (columns.Column(heading, "{:.1f}") for heading in ("mean wait", "use"))
    rows = []
    for name, each in (("log", difference.before), ("other", difference.after)):
        gpus, used = (each.gpus, 100 * each.utilisation) if each.gpus else (nan, nan)
        rows.append(
            (name, each.started, each.rejected, each.preemptions, each.mean_wait, gpus, used)
        )
    return Report(
        f"From {difference.begin:g} to {difference.end:g} s",
        [columns.label("configuration"), *counts, wait, columns.Column("GPUs"), use],
        rows,
        [
            "mean wait: seconds until the first start, or the log's end,",
            "without jobs that either rejects. use: % of GPUs",
        ],
        pictures={"difference": partial(_difference_picture, difference)},
    )


def difference_report(difference: LogDifference, most: int) -> Report:
    """Return a report of jobs that start earlier, that start later, and that are rejected."""
    sooner, later, rejected = difference.sooner, difference.later, difference.rejected
    count = counted(len(difference.jobs), "job")
    others = f", and {len(rejected)} are rejected" if rejected else ""
    findings = [f"{len(sooner)} of {count} start sooner, {len(later)} later{others}."]
    if difference.endless:
        has, runs = ("have", "they run") if difference.endless > 1 else ("has", "it runs")
        findings.append(
            f"{counted(difference.endless, 'job')} {has} no end in the log: under the other "
            f"configuration {runs} until the log's end."
        )
    if difference.skipped:
        have, are = ("have", "are") if difference.skipped > 1 else ("has", "is")
        findings.append(
            f"{counted(difference.skipped, 'event')} of the log {have} no meaning there, and {are} "
            "left out: of nodes, quotas or cells that are missing there, say."
        )
    named = map(columns.label, ("job", "tenant"))
    times = (columns.Column(heading, _SECONDS) for heading in ("came", "log", "other"))
    why = [columns.label("why")] if rejected else []
    return Report(
        "First starts, in seconds",
        [*named, columns.Column("GPUs"), *times, columns.Column("difference"), *why],
        [
            (
                *(each.job, each.tenant, each.gpus, each.submitted),
                *(nan if start is None else start for start in (each.before, each.after)),
                _difference(each),
                *([each.rejected_after or each.rejected_before] if why else ()),
            )
            for each in (*sooner[:most], *later[:most], *rejected[:most])
        ],
        ["-: it does not start before the end of the log"],
        findings,
    )


def _difference(each: JobDifference) -> str:
    if each.rejected_before and each.rejected_after:
        return "rejected by both"
    if each.rejected_before or each.rejected_after:
        return f"rejected by {'other' if each.rejected_after else 'log'}"
    word = "sooner" if each.sooner > 0 else "later"
    if isinf(each.sooner):
        return f"never in {'log' if each.sooner > 0 else 'other'}"
    return f"{abs(each.sooner):g} {word}"


def _difference_picture(difference: LogDifference) -> "Figure":
    """Draw GPUs in use, and waiting jobs."""
    figure, (used, waiting) = draw.panels(2, 1, (9.0, 6.0), sharex=True)
    is_long = difference.end - difference.begin > 2 * draw.HOUR
    unit, scale = ("hours", draw.HOUR) if is_long else ("seconds", 1.0)
    drawn = (("log", difference.before, draw.GREY), ("other", difference.after, draw.VERMILION))
    for name, each, colour in drawn:
        for axes, points in ((used, each.usage), (waiting, each.waiting)):
            counts = [count for _, count in points] or [0]
            times = [time for time, _ in points] or [difference.begin]
            at = [(time - difference.begin) / scale for time in (*times, difference.end)]
            style: dict[str, Any] = {"where": "post", "linewidth": 1.4, "color": colour}
            axes.step(at, [*counts, counts[-1]], label=name, **style)
    draw.frame(used, "GPUs in use", "best", None, ylim=(0, None))
    xlabel = f"{unit} since the log began"
    draw.frame(waiting, "Jobs that wait", grid=None, ylim=(0, None), xlabel=xlabel)
    return figure
