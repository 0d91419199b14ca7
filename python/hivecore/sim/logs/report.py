"""What a decision log tells: who ran and waited, and what another configuration would have done."""

from functools import partial
from math import isinf, nan
from typing import TYPE_CHECKING, Any

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
            (one.job, one.tenant, one.gpus, one.state, one.since, one.reason)
            for one in standing.jobs
        ],
        ["since: of a job that runs its start, else when it came, in seconds"],
        [
            f"At {standing.now:g} s {standing.in_use}{of} GPUs are in use, {len(standing.jobs)} "
            f"jobs are there, {standing.finished} are gone, {standing.rejected} were rejected."
        ],
    )


def figures_report(found: LogDifference) -> Report:
    """Return a report with a row for the log, one for the other configuration, and a picture."""
    headings = ("started", "rejected", "preempted")
    counts = [columns.Column(heading) for heading in headings]
    wait, use = (columns.Column(heading, "{:.1f}") for heading in ("mean wait", "use"))
    rows = []
    for name, one in (("log", found.before), ("other", found.after)):
        gpus, used = (one.gpus, 100 * one.utilisation) if one.gpus else (nan, nan)
        rows.append((name, one.started, one.rejected, one.preemptions, one.mean_wait, gpus, used))
    return Report(
        f"From {found.begin:g} to {found.end:g} s",
        [columns.label("policy"), *counts, wait, columns.Column("GPUs"), use],
        rows,
        ["mean wait: seconds until the first start, or the end of the log. use: % of GPUs"],
        pictures={"difference": partial(_difference_picture, found)},
    )


def difference_report(found: LogDifference, most: int) -> Report:
    """Return a report of the jobs that start sooner, and of those that start later."""
    sooner, later = found.sooner, found.later
    findings = [f"{len(sooner)} of {len(found.jobs)} jobs start sooner, {len(later)} later."]
    if found.endless:
        findings.append(
            f"Of {found.endless} that start the log does not tell for how long they run: they run "
            "on."
        )
    if found.skipped:
        findings.append(f"{found.skipped} events say nothing to the other configuration.")
    named = map(columns.label, ("job", "tenant"))
    times = (columns.Column(heading, _SECONDS) for heading in ("came", "log", "other"))
    return Report(
        "First starts, in seconds",
        [*named, columns.Column("GPUs"), *times, columns.Column("difference")],
        [
            (
                *(one.job, one.tenant, one.gpus, one.submitted),
                *(nan if start is None else start for start in (one.before, one.after)),
                _difference(one),
            )
            for one in (*sooner[:most], *later[:most])
        ],
        ["-: not until the end of the log"],
        findings,
    )


def _difference(one: JobDifference) -> str:
    word = "sooner" if one.sooner > 0 else "later"
    if isinf(one.sooner):
        return "only so" if one.sooner > 0 else "not so"
    return f"{abs(one.sooner):g} {word}"


def _difference_picture(found: LogDifference) -> "Figure":
    """GPUs in use, and jobs that wait."""
    figure, (used, waiting) = draw.panels(2, 1, (9.0, 6.0), sharex=True)
    is_long = found.end - found.begin > 2 * draw.HOUR
    unit, scale = ("hours", draw.HOUR) if is_long else ("seconds", 1.0)
    drawn = (("log", found.before, draw.GREY), ("other", found.after, draw.VERMILION))
    for name, one, colour in drawn:
        for axes, points in ((used, one.usage), (waiting, one.waiting)):
            counts = [count for _, count in points] or [0]
            times = [time for time, _ in points] or [found.begin]
            at = [(time - found.begin) / scale for time in (*times, found.end)]
            style: dict[str, Any] = {"where": "post", "linewidth": 1.4, "color": colour}
            axes.step(at, [*counts, counts[-1]], label=name, **style)
    draw.frame(used, "GPUs in use", "best", None, ylim=(0, None))
    xlabel = f"{unit} since the log began"
    draw.frame(waiting, "Jobs that wait", grid=None, ylim=(0, None), xlabel=xlabel)
    return figure
