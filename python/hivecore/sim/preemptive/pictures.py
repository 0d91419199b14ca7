"""Pictures of training jobs: completion times under all policies, and who shared GPUs with whom."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hivecore.sim.pictures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    completion,
    panel,
    set_title,
)
from hivecore.sim.preemptive.history import Span
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.slots import bars
from hivecore.sim.preemptive.training import JobOutcome
from hivecore.sim.workload import GPUS_PER_NODE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["job_pictures"]

_HOUR = 3600.0
# The policies that share GPUs are drawn last, in strong colours; what is not listed is black.
_COLORS = {
    "fifo": GREY,
    "srtf": SKY,
    "srsf": GREEN,
    "tiresias": ORANGE,
    "muri-s": BLUE,
    "muri-l": VERMILION,
}
_OTHER = (PURPLE, BLACK)
#: Light to dark, by how many jobs share.
_SHARING = {1: "#C9C9C9", 2: "#A6CEE8", 3: "#3D8FC9", 4: "#08306B"}
_SHOWN = 120  # spans
_WINDOWS = 200

_WIDTH = 11.0  # of the timeline, inches
_INCHES_PER_LETTER = 0.065
_GPUS_PER_LINE = 1.7


def job_pictures(
    jobs: Jobs, nodes: int, outcomes: Mapping[str, JobOutcome]
) -> dict[str, Callable[[], "Figure"]]:
    """Return what draws completion times, and a timeline for each outcome with a history.

    :param jobs: the jobs.
    :param nodes: of 8 GPUs each.
    :param outcomes: by policy, at least one.
    """
    drawings: dict[str, Callable[[], Figure]] = {"completion": partial(_completion, jobs, outcomes)}
    for policy, outcome in outcomes.items():
        if outcome.history:
            draw = partial(_timeline, policy, jobs, nodes, outcome.history)
            drawings[f"timeline-{policy}"] = draw
    return drawings


def _completion(jobs: Jobs, outcomes: Mapping[str, JobOutcome]) -> "Figure":
    submit, others = np.array(jobs.submit), iter(_OTHER * len(outcomes))
    return completion(
        {policy: (np.array(one.end) - submit) / _HOUR for policy, one in outcomes.items()},
        [
            {
                "color": _COLORS.get(policy) or next(others),
                "linewidth": 2.2 if policy.startswith("muri") else 1.6,
            }
            for policy in outcomes
        ],
    )


def _timeline(policy: str, jobs: Jobs, nodes: int, history: list[Span]) -> "Figure":
    """Groups on their GPUs, over a window."""
    begin, end = _window(history, jobs.gpus)
    shown = [span for span in history if span.begin < end and span.end > begin]
    xlabel = "time (hours); a node's height is its 8 GPUs, numbers name jobs"
    figure, axes = panel(xlabel, size=(12, 2.2 + 0.62 * nodes))
    axes.grid(False)
    all_bars = bars(shown, jobs.gpus, nodes)
    for count, color in _SHARING.items():
        mine = [bar for bar in all_bars if len(bar[0].jobs) == count]
        if not mine:
            continue
        lefts = [max(span.begin, begin) / _HOUR for span, _, _ in mine]
        rights = [min(span.end, end) / _HOUR for span, _, _ in mine]
        axes.barh(
            [first for _, first, _ in mine],
            np.subtract(rights, lefts),
            [length for _, _, length in mine],
            lefts,
            align="edge",
            color=color,
            edgecolor="white",
            linewidth=0.6,
            label=f"{count} jobs share" if count > 1 else "one job alone",
        )
        for (span, first, length), left, right in zip(mine, lefts, rights, strict=True):
            inches = _WIDTH * (right - left) / (end - begin) * _HOUR
            _name_jobs(axes, span, (left + right) / 2, first + length / 2, inches, length)
    rows = GPUS_PER_NODE * np.arange(nodes + 1)
    axes.hlines(rows, begin / _HOUR, end / _HOUR, color="black", linewidth=0.8)
    axes.set_yticks(rows[:-1] + GPUS_PER_NODE / 2, [f"node {node}" for node in range(nodes)])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(GPUS_PER_NODE * nodes, 0)
    axes.set_xlim(begin / _HOUR, end / _HOUR)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    set_title(
        axes,
        f"{policy}: during {_shared(history, jobs.gpus):.0%} of the GPU time in use two jobs or "
        f"more share the GPUs; here {(end - begin) / _HOUR:,.1f} of "
        f"{history[-1].end / _HOUR:,.0f} hours",
    )
    return figure


def _name_jobs(axes: "Axes", span: Span, x: float, y: float, inches: float, length: int) -> None:
    """Write the numbers of a bar's jobs into it, in a line or below each other, if they fit."""
    names = [f"{job}" for job in span.jobs]
    for text, lines in ((" ".join(names), 1), ("\n".join(names), len(names))):
        width = max(len(line) for line in text.split("\n"))
        if width * _INCHES_PER_LETTER < inches and lines <= length / _GPUS_PER_LINE:
            color = "white" if len(names) > 2 else "black"
            axes.text(x, y, text, ha="center", va="center", fontsize=6, color=color)
            return


def _window(history: Sequence[Span], gpus: Sequence[int]) -> tuple[float, float]:
    """Return a window of some spans: of those that are not too short, the most varied."""
    begin, end = _times(history)
    begins = np.sort(begin)
    if len(begins) <= _SHOWN:
        return float(begins[0]), float(end.max())
    first = np.unique(np.linspace(0, len(begins) - _SHOWN - 1, _WINDOWS).astype(int))
    low, high = begins[first], begins[first + _SHOWN]
    long_enough = high - low >= np.median(high - low)
    used = np.array([gpus[span.jobs[0]] for span in history])
    sharing = np.array([len(span.jobs) for span in history])

    def unevenness(window: tuple[float, float]) -> float:
        inside = np.clip(np.minimum(end, window[1]) - np.maximum(begin, window[0]), 0.0, None)
        work = np.bincount(sharing, weights=inside * used)
        return float((work**2).sum() / work.sum() ** 2) if work.any() else 1.0

    windows = zip(low[long_enough].tolist(), high[long_enough].tolist(), strict=True)
    return min(windows, key=unevenness)


def _times(history: Sequence[Span]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    begin = np.array([span.begin for span in history])
    return begin, np.array([span.end for span in history])


def _shared(history: Sequence[Span], gpus: Sequence[int]) -> float:
    """Return the share of the GPU time in use that is used by several jobs at once."""
    begin, end = _times(history)
    work = (end - begin) * np.array([gpus[span.jobs[0]] for span in history])
    several = np.array([len(span.jobs) > 1 for span in history])
    return float(work[several].sum() / work.sum())
