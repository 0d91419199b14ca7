"""What a decision log tells: who ran and waited, and what another configuration would have done."""

from dataclasses import dataclass
from functools import partial
from math import isinf
from typing import TYPE_CHECKING, Annotated, Any

from hivecore.scheduler import JobDifference, LogDifference, LogFigures, LogStanding
from hivecore.sim import columns
from hivecore.sim import pictures as draw
from hivecore.sim.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["difference_report", "figures_report", "standing_report"]

_SECONDS = "{:g}"


def standing_report(standing: LogStanding) -> Report:
    """Return a report with a row for each job that has not ended.

    >>> from hivecore.scheduler import JobStanding
    >>> job = JobStanding("train", "vision", 8, "pending", 5.0, "no room")
    >>> standing_report(LogStanding(9.0, 3, 8, 8, (job,), 0, 0)).cells()
    [['train', 'vision', '8', 'pending', '5', 'no room']]
    """
    of = f" of {standing.gpus}" if standing.gpus else ""
    return Report(
        f"Jobs at {standing.now:g} s",
        [
            *map(columns.label, ("job", "tenant")),
            columns.amount("GPUs"),
            columns.label("state"),
            columns.amount("since", _SECONDS),
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


@dataclass(frozen=True, slots=True)
class _Figures:
    started: Annotated[int, columns.amount("started")]
    rejected: Annotated[int, columns.amount("rejected")]
    preempted: Annotated[int, columns.amount("preempted")]
    wait: Annotated[float, columns.amount("mean wait", "{:.1f}")]
    gpus: Annotated[int | None, columns.Column("GPUs")]
    use: Annotated[float | None, columns.amount("use", "{:.1f}")]

    @classmethod
    def of(cls, one: LogFigures) -> "_Figures":
        gpus, use = (one.gpus, 100 * one.utilisation) if one.gpus else (None, None)
        return cls(one.started, one.rejected, one.preemptions, one.mean_wait, gpus, use)


def figures_report(found: LogDifference) -> Report:
    """Return a report with a row for the log, one for the other configuration, and a picture.

    >>> from hivecore.scheduler import LogFigures
    >>> figures = LogFigures(3, 0, 1, 20.0, 8, 400.0, 0.5, (), ())
    >>> figures_report(LogDifference(0.0, 100.0, (), figures, figures, 0, 0)).cells()[0]
    ['log', '3', '0', '1', '20.0', '8', '50.0']
    """
    rows = (("log", found.before), ("other", found.after))
    return Report(
        f"From {found.begin:g} to {found.end:g} s",
        [columns.label("policy"), *columns.of(_Figures)],
        [(name, *columns.values(_Figures.of(one))) for name, one in rows],
        ["mean wait: seconds until the first start, or the end of the log. use: % of GPUs"],
        pictures={"difference": partial(_difference_picture, found)},
    )


def difference_report(found: LogDifference, most: int) -> Report:
    """Return a report of the jobs that start sooner, and of those that start later, so many each.

    >>> from hivecore.scheduler import LogFigures
    >>> figures = LogFigures(1, 0, 0, 0.0, 8, 0.0, 0.0, (), ())
    >>> job = JobDifference("train", "vision", 8, 0.0, 60.0, 20.0)
    >>> difference_report(LogDifference(0.0, 99.0, (job,), figures, figures, 0, 0), 5).cells()
    [['train', 'vision', '8', '0', '60', '20', '40 sooner']]
    """
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
    times = (columns.Column(heading, _start) for heading in ("came", "log", "other"))
    return Report(
        "First starts, in seconds",
        [*named, columns.amount("GPUs"), *times, columns.Column("difference")],
        [
            (
                *(one.job, one.tenant, one.gpus, one.submitted),
                *("-" if start is None else start for start in (one.before, one.after)),
                _difference(one),
            )
            for one in (*sooner[:most], *later[:most])
        ],
        ["-: not until the end of the log"],
        findings,
    )


def _start(time: float | str) -> str:
    return time if isinstance(time, str) else f"{time:g}"


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
