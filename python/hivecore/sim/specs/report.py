"""Compares what specs made of the jobs.

Specs refuse different jobs, so completion and queueing times are of the jobs that completed under
all specs.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt

from hivecore._stateful import counted
from hivecore.sim import columns
from hivecore.sim import pictures as draw
from hivecore.sim.figures import mean, percentile, useful_seconds
from hivecore.sim.report import Report, dropped
from hivecore.sim.specs.run import SpecRun
from hivecore.sim.specs.trace_jobs import TraceJobs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SpecFigures", "spec_figures", "specs_report"]

_REASONS = 3  # reasons listed for each spec
_NOTES = (
    "completion, queueing: of jobs that run to their end under all specs",
    "queueing: from submission to the start of the run that completes the job",
    "useful work: GPU time of work that is not lost, as a part of all GPU time until",
    "the last submission, or until the last end if all jobs come at once",
)
_COLOURS = (draw.BLUE, draw.VERMILION, draw.GREEN, draw.ORANGE, draw.SKY, draw.PURPLE, draw.BLACK)
_STYLES = ("-", "--", ":", "-.")
_COLUMNS = 4  # of the legend


@dataclass(frozen=True, slots=True)
class SpecFigures:
    """What a tenant, or all tenants together, got under a spec; times in seconds.

    :param jobs: submitted jobs.
    :param refused: jobs that were rejected or waited forever.
    :param compared: jobs that completed under all specs; times are theirs, NaN if there are none.
    :param mean_completion: mean time from submission to end.
    :param p50_completion: its median.
    :param p99_completion: its 99th percentile; both are interpolated linearly.
    :param mean_queueing: mean time from submission to the start of the completed run; preempted
        runs count as waiting.
    :param utilisation: useful work of all jobs until the last submission (or the last end, if all
        came at once), divided by the capacity of the cluster's GPUs. Useful work is GPUs times
        seconds at full speed, without lost work, spread evenly over the completed run. NaN if the
        number of GPUs is unknown.
    :param preemptions: how often jobs were preempted.
    :param lost_gpu_hours: work lost by preempted runs.
    """

    jobs: Annotated[int, columns.count()]
    refused: Annotated[int, columns.count("jobs\nrefused")]
    compared: Annotated[int, columns.count()]
    mean_completion: Annotated[float, columns.time("mean\ncompletion")]
    p50_completion: Annotated[float, columns.time("p50")]
    p99_completion: Annotated[float, columns.time("p99")]
    mean_queueing: Annotated[float, columns.time("mean\nqueueing")]
    utilisation: Annotated[float, columns.share("useful\nwork")]
    preemptions: Annotated[int, columns.count("pre-\nempted")]
    lost_gpu_hours: Annotated[float, columns.Column("GPU-h\nlost", "{:,.0f}")]


def _compared_jobs(runs: Mapping[str, SpecRun]) -> npt.NDArray[np.bool_]:
    """Return which jobs completed under all specs, bool[jobs]."""
    ends = np.array([run.outcome.end for run in runs.values()])
    done: npt.NDArray[np.bool_] = np.isfinite(ends).all(axis=0)
    return done


def spec_figures(
    trace: TraceJobs, runs: Mapping[str, SpecRun], name: str, tenant: str | None = None
) -> SpecFigures:
    """Return the figures of a spec.

    :param trace: the jobs.
    :param runs: of `replay_specs` on them.
    :param name: of the spec.
    :param tenant: whose jobs count, on all GPUs; ``None`` for all.
    :raises KeyError: there is no such spec or tenant.

    Cost: O(specs jobs).

    >>> from hivecore.interop.scheduler_file import SchedulerSpec
    >>> from hivecore.sim.specs import replay_specs
    >>> from hivecore.traces import Trace
    >>> text = "{cluster: {models: {m: {gpus: 8}}, nodes: {n: m}}, devices: {}}"
    >>> specs = {"one": SchedulerSpec.of_yaml(text)}
    >>> columns = ["a", "b", "c"], ["x", "x", "x"], [0, 0, 9], [60, 30, 5], [8, 8, 99]
    >>> trace = TraceJobs.of(Trace.from_columns(*columns))
    >>> figures = spec_figures(trace, replay_specs(trace, specs), "one")
    >>> figures.refused, figures.mean_completion, figures.mean_queueing
    (1, 75.0, 30.0)
    """
    run = runs[name]
    outcome = run.outcome
    own = np.ones(len(trace), dtype=np.bool_)
    if tenant is not None:
        own = np.array([each == tenant for each in trace.tenant])
        if not own.any():
            raise KeyError(f"there is no tenant {tenant!r}")
    done = own & np.isfinite(outcome.end)
    both = own & _compared_jobs(runs)
    completion = (outcome.end - trace.submit)[both]
    queueing = (outcome.start - trace.submit)[both]
    return SpecFigures(
        jobs=int(own.sum()),
        refused=int(own.sum() - done.sum()),
        compared=len(completion),
        mean_completion=mean(completion),
        p50_completion=percentile(completion, 50),
        p99_completion=percentile(completion, 99),
        mean_queueing=mean(queueing),
        utilisation=_utilisation(trace, run, done),
        preemptions=int(outcome.preemptions[own].sum()),
        lost_gpu_hours=float(trace.gpus[own] @ outcome.lost[own]) / 3600.0,
    )


def _utilisation(trace: TraceJobs, run: SpecRun, done: npt.NDArray[np.bool_]) -> float:
    if not run.gpus:
        return nan
    if not done.any():
        return 0.0
    start, end = run.outcome.start[done], run.outcome.end[done]
    window = float(trace.submit[-1]) or float(end.max())
    work = trace.gpus[done] * trace.duration[done]
    return useful_seconds(work, start, end, window) / (run.gpus * window)


def specs_report(trace: TraceJobs, runs: Mapping[str, SpecRun]) -> Report:
    """Return a report with a row for each spec, including which jobs are refused, and why.

    :param trace: the jobs.
    :param runs: of `replay_specs` on them.
    """
    figures = {name: spec_figures(trace, runs, name) for name in runs}
    refusals = {name: Counter(run.outcome.refused.values()) for name, run in runs.items()}
    compared = int(_compared_jobs(runs).sum())
    findings = dropped(trace.dropped)
    findings.append(
        f"{compared:,} of {counted(len(trace), 'job')} run to their end under all specs."
    )
    for name, reasons in refusals.items():
        listed = [f"{reason} ({jobs:,})" for reason, jobs in reasons.most_common(_REASONS)]
        if rest := sum(jobs for _, jobs in reasons.most_common()[_REASONS:]):
            listed.append(f"other reasons ({rest:,})")
        if listed:
            findings.append(
                f"{name} refuses {counted(reasons.total(), 'job')}: {'; '.join(listed)}."
            )
    return Report(
        "Specs side by side; times in minutes",
        [columns.label("spec"), columns.count("GPUs"), *columns.of(SpecFigures)],
        [(name, runs[name].gpus or nan, *columns.values(each)) for name, each in figures.items()],
        _NOTES,
        findings,
        "hivecore.specs/2",
        {
            "workload": {
                "jobs": len(trace),
                "gpu_hours": float(trace.gpus @ trace.duration) / 3600.0,
                "dropped": dict(trace.dropped),
                "compared": compared,
            },
            "specs": {
                name: {
                    "gpus": run.gpus or None,
                    "all": columns.as_json(figures[name]),
                    "tenants": {
                        tenant: columns.as_json(spec_figures(trace, runs, name, tenant))
                        for tenant in dict.fromkeys(trace.tenant)
                    },
                    "refusals": dict(refusals[name].most_common()),
                }
                for name, run in runs.items()
            },
        },
        {"completions": partial(_completions, trace, runs)},
    )


def _completions(trace: TraceJobs, runs: Mapping[str, SpecRun]) -> "Figure":
    """Draw how many jobs are complete by when, and how long they take, by spec."""
    rows = -(-(1 + len(runs)) // _COLUMNS)
    figure, (done, took) = draw.panels(1, 2, (11.0, 4.5 + 0.2 * rows))
    compared = _compared_jobs(runs)
    ends = {name: run.outcome.end for name, run in runs.items()}
    times = {name: (end - trace.submit)[compared] for name, end in ends.items()}
    ended = {name: end[np.isfinite(end)] for name, end in ends.items()}
    last = max(float(end.max(initial=0.0)) for end in (trace.submit, *ended.values()))
    longest = max(float(time.max(initial=0.0)) for time in times.values())
    _count(done, trace.submit, last, label="submitted", color=draw.GREY)
    for number, name in enumerate(runs):
        style = _STYLES[number // len(_COLOURS) % len(_STYLES)]
        look = {"color": _COLOURS[number % len(_COLOURS)], "linestyle": style}
        _count(done, ended[name], last, label=draw.literal(name), **look)
        _count(took, times[name], longest, **look)
    from_zero: dict[str, Any] = {"grid": None, "ylim": (0, None)}
    draw.frame(done, "Jobs done", xlabel="hours since the first submission", **from_zero)
    title = "Jobs that took no longer, of those that all specs run"
    draw.frame(took, title, xlabel="hours from submission to end", xscale="log", **from_zero)
    draw.legend_below(figure, _COLUMNS, fontsize=8)
    return figure


def _count(axes: "Axes", seconds: draw.Floats, until: float, **style: Any) -> None:
    hours, jobs = draw.rising(seconds / draw.HOUR, until / draw.HOUR)
    axes.step(hours, jobs, where="post", linewidth=1.4, **style)
