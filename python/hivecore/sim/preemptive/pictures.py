"""Pictures of training jobs: completion times under all policies, and which jobs shared GPUs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hivecore.sim import pictures as draw
from hivecore.sim.preemptive.history import Span
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.slots import bars
from hivecore.sim.preemptive.training import JobOutcome
from hivecore.sim.workload import GPUS_PER_NODE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["job_pictures"]

# The policies that share GPUs are drawn last, in strong colours.
_COLORS = {"fifo": draw.GREY, "srtf": draw.SKY, "srsf": draw.GREEN, "tiresias": draw.ORANGE}
_COLORS |= {"muri-s": draw.BLUE, "muri-l": draw.VERMILION}
_OTHER = (draw.PURPLE, draw.BLACK)
#: Light to dark, by the number of jobs that share.
_SHARING = {1: "#C9C9C9", 2: "#A6CEE8", 3: "#3D8FC9", 4: "#08306B"}
_SHOWN, _WINDOWS = 120, 200  # spans, and windows to choose from
_WIDTH = 11.0  # of the timeline, inches
_INCHES_PER_LETTER, _GPUS_PER_LINE = 0.065, 1.7


def job_pictures(
    jobs: Jobs, nodes: int, outcomes: Mapping[str, JobOutcome]
) -> dict[str, Callable[[], "Figure"]]:
    """Return functions that draw completion times, and a timeline for each recorded outcome."""
    drawings: dict[str, Callable[[], Figure]] = {"completion": partial(_completion, jobs, outcomes)}
    for policy, outcome in outcomes.items():
        if outcome.history:
            draw = partial(_timeline, policy, jobs, nodes, outcome.history)
            drawings[f"timeline-{policy}"] = draw
    return drawings


def _completion(jobs: Jobs, outcomes: Mapping[str, JobOutcome]) -> "Figure":
    submit, others = np.array(jobs.submit), iter(_OTHER * len(outcomes))
    widths = {policy: 2.2 if policy.startswith("muri") else 1.6 for policy in outcomes}
    return draw.completion(
        {policy: (np.array(each.end) - submit) / draw.HOUR for policy, each in outcomes.items()},
        [
            {"color": _COLORS.get(policy) or next(others), "linewidth": width}
            for policy, width in widths.items()
        ],
    )


def _timeline(policy: str, jobs: Jobs, nodes: int, history: list[Span]) -> "Figure":
    """Draw groups on their GPUs, over a window."""
    begin, end = _window(history, jobs.gpus)
    shown = [span for span in history if span.begin < end and span.end > begin]
    figure, (axes,) = draw.panels(size=(12, 2.2 + 0.62 * nodes))
    for span, first, length in bars(shown, jobs.gpus, nodes):
        left, right = max(span.begin, begin) / draw.HOUR, min(span.end, end) / draw.HOUR
        color = _SHARING[len(span.jobs)]
        axes.broken_barh([(left, right - left)], (first, length), color=color, ec="white", lw=0.6)
        inches = _WIDTH * (right - left) / (end - begin) * draw.HOUR
        _name_jobs(axes, span, (left + right) / 2, first + length / 2, inches, length)
    for count in sorted({len(span.jobs) for span in shown}):
        label = f"{count} jobs share" if count > 1 else "one job alone"
        axes.broken_barh([], (0, 0), color=_SHARING[count], label=label)
    rows = GPUS_PER_NODE * np.arange(nodes + 1)
    axes.hlines(rows, begin / draw.HOUR, end / draw.HOUR, color=draw.BLACK, linewidth=0.8)
    axes.set_yticks(rows[:-1] + GPUS_PER_NODE / 2, [f"node {node}" for node in range(nodes)])
    axes.tick_params(axis="y", length=0)
    title = (
        f"{policy}: during {_shared(history, jobs.gpus):.0%} of the GPU time in use two jobs or "
        f"more share the GPUs; here {(end - begin) / draw.HOUR:,.1f} of "
        f"{history[-1].end / draw.HOUR:,.0f} hours"
    )
    xlabel = "time (hours); a node's height is its 8 GPUs, numbers name jobs"
    xlim, ylim = (begin / draw.HOUR, end / draw.HOUR), (GPUS_PER_NODE * nodes, 0)
    draw.frame(axes, title, grid=None, xlabel=xlabel, xlim=xlim, ylim=ylim)
    draw.legend_below(figure)
    return figure


def _name_jobs(axes: "Axes", span: Span, x: float, y: float, inches: float, length: int) -> None:
    """Write the numbers of a bar's jobs into it, on one or several lines, if they fit."""
    names = [f"{job}" for job in span.jobs]
    for text, lines in ((" ".join(names), 1), ("\n".join(names), len(names))):
        width = max(len(line) for line in text.split("\n"))
        if width * _INCHES_PER_LETTER < inches and lines <= length / _GPUS_PER_LINE:
            color = "white" if len(names) > 2 else "black"
            axes.text(x, y, text, ha="center", va="center", fontsize=6, color=color)
            return


def _columns(history: Sequence[Span], gpus: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return begin, end, GPUs and number of jobs of each span."""
    rows = [(span.begin, span.end, gpus[span.jobs[0]], len(span.jobs)) for span in history]
    return np.array(rows, dtype=np.float64).T


def _window(history: Sequence[Span], gpus: Sequence[int]) -> tuple[float, float]:
    """Return the most varied window of a number of spans, ignoring very short ones."""
    begin, end, used, sharing = _columns(history, gpus)
    begins = np.sort(begin)
    if len(begins) <= _SHOWN:
        return float(begins[0]), float(end.max())
    first = np.unique(np.linspace(0, len(begins) - _SHOWN - 1, _WINDOWS).astype(int))
    low, high = begins[first], begins[first + _SHOWN]
    long_enough = high - low >= np.median(high - low)

    def unevenness(window: tuple[float, float]) -> float:
        inside = np.clip(np.minimum(end, window[1]) - np.maximum(begin, window[0]), 0.0, None)
        work = np.bincount(sharing.astype(int), weights=inside * used)
        return float((work**2).sum() / work.sum() ** 2) if work.any() else 1.0

    windows = zip(low[long_enough].tolist(), high[long_enough].tolist(), strict=True)
    return min(windows, key=unevenness)


def _shared(history: Sequence[Span], gpus: Sequence[int]) -> float:
    """Return the fraction of the used GPU time in which several jobs share."""
    begin, end, used, sharing = _columns(history, gpus)
    work = (end - begin) * used
    return float(work[sharing > 1].sum() / work.sum())
