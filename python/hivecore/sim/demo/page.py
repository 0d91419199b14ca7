"""One page of pictures of the demo; each title states what the picture shows, from the figures.

To the left the first configuration, to the right the last one, over the same hours and on the same
axes; below, all configurations.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hivecore.sim.demo.run import ALONE, CONFIGURATIONS, Demo
from hivecore.sim.demo.series import DemoSeries, demo_series
from hivecore.sim.figures import percentile
from hivecore.sim.pictures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    set_title,
)
from hivecore.sim.workload import GPUS_PER_NODE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hivecore.sim.demo.report import DemoFigures

__all__ = ["demo_page"]

_TENANTS = (PURPLE, BLUE, SKY, GREEN, ORANGE)
#: Colour and line of each configuration.
_LINES: dict[str, tuple[str, Any]] = {
    ALONE: (GREY, (0, (1, 1))),
    "quotas": (VERMILION, "-"),
    "cells": (BLUE, "-"),
    "+ lending": (GREEN, (0, (6, 2))),
    "+ sharing": (PURPLE, (0, (4, 1, 1, 1))),
    "+ data": (BLACK, "-"),
}
_COLUMNS = (CONFIGURATIONS[0], CONFIGURATIONS[-1])
_INSTANTS = 500
_HOUR, _MINUTE = 3600.0, 60.0


def demo_page(demo: Demo, figures: Mapping[str, "DemoFigures"]) -> "Figure":
    """Return the page.

    :param demo: outcome of `run_demo`.
    :param figures: of each configuration.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 17.5), layout="constrained")
    # A line for the legend, and one for the names of the columns.
    grid = figure.add_gridspec(7, 2, height_ratios=(0.12, 0.12, 3.0, 2.0, 3.2, 1.2, 3.2))
    before: list[Axes | None] = [None] * 4
    for column, name in enumerate(_COLUMNS):
        panels = [
            figure.add_subplot(grid[2 + row, column], sharey=before[row]) for row in range(4)
        ]
        series = demo_series(demo, name, _INSTANTS)
        _name(figure.add_subplot(grid[1, column]), name)
        _draw_held(panels[0], demo, series, figures[name])
        _draw_waiting(panels[1], demo, series)
        colours = _draw_nodes(panels[2], series)
        _draw_free(panels[3], series)
        for axes in panels:
            axes.set_xlim(0, series.instants[-1] / _HOUR)
        before = [*panels]
    beside = panels[2].inset_axes((1.02, 0.0, 0.03, 1.0))
    bar = figure.colorbar(colours, cax=beside, ticks=range(9))
    bar.set_label("GPUs of the node in use")
    words = figure.add_subplot(grid[0, :])
    words.axis("off")
    words.legend(
        *panels[0].get_legend_handles_labels(), loc="center", ncols=7, frameon=False, fontsize=11
    )
    _draw_completion(figure.add_subplot(grid[6, 0]), demo)
    _draw_steps(figure.add_subplot(grid[6, 1]), figures)
    figure.suptitle(_headline(demo, figures), x=0.01, ha="left", fontweight="bold", fontsize=15)
    return figure


def _name(axes: "Axes", name: str) -> None:
    axes.axis("off")
    words = "cells + lending + sharing + data" if name == CONFIGURATIONS[-1] else name
    axes.text(0.5, 0.0, words, ha="center", va="bottom", fontsize=14, color="#444444")


def _headline(demo: Demo, figures: Mapping[str, "DemoFigures"]) -> str:
    first, last = (figures[name] for name in _COLUMNS)
    change = last.mean_completion / first.mean_completion - 1.0
    way = "sooner" if change < 0 else "later"
    return (
        f"{len(demo.made.nodes)} tenants, {first.jobs:,} jobs, {_gpus(demo)} GPUs: with cells, "
        f"lending, sharing and scheduled storage\njobs complete {abs(change):.0%} {way} on average "
        f"than under quotas, and {last.later:,} instead of {first.later:,} start later than alone"
    )


def _gpus(demo: Demo) -> int:
    return GPUS_PER_NODE * sum(demo.made.nodes.values())


def _draw_held(axes: "Axes", demo: Demo, series: DemoSeries, figures: "DemoFigures") -> None:
    """GPUs by tenant, and those that would do the same work at full speed."""
    hours = series.instants / _HOUR
    capacity = _gpus(demo)
    axes.stackplot(
        hours, series.held, colors=_TENANTS, labels=demo.made.trace.tenants, step="post", lw=0
    )
    axes.plot(hours, series.useful, color=BLACK, lw=1.6, label="useful work, in GPUs at full speed")
    axes.axhline(capacity, color=GREY, lw=1, ls="--", label=f"all {capacity} GPUs")
    axes.set_ylabel("GPUs that jobs hold")
    axes.set_ylim(0, 1.25 * capacity)
    held = series.held.sum(axis=0).mean() / capacity
    set_title(
        axes,
        f"Jobs hold {held:.0%} of the GPUs, and do the work of {figures.utilisation:.0%} at full speed",
    )


def _draw_waiting(axes: "Axes", demo: Demo, series: DemoSeries) -> None:
    """GPUs that waiting jobs of each tenant ask for."""
    hours = series.instants / _HOUR
    for tenant, color, waiting in zip(
        demo.made.trace.tenants, _TENANTS, series.waiting, strict=False
    ):
        axes.step(hours, waiting, where="post", color=color, lw=1.5, label=tenant)
    axes.set_ylim(0, None)
    axes.set_ylabel("GPUs that waiting\njobs ask for")
    axes.grid(alpha=0.3)
    who, when = np.unravel_index(series.waiting.argmax(), series.waiting.shape)
    mean = series.waiting.sum(axis=0).mean()
    title = f"Waiting jobs ask for {mean:,.0f} GPUs on average"
    if series.waiting.max() > 0:
        tenant, most = demo.made.trace.tenants[who], series.waiting[who, when]
        title += f", {tenant} for up to {most:,.0f}"
    set_title(axes, title)


def _draw_nodes(axes: "Axes", series: DemoSeries) -> Any:
    """GPUs in use by node; what carries the colours."""
    from matplotlib import colormaps
    from matplotlib.colors import BoundaryNorm

    levels = np.arange(10) - 0.5
    image = axes.imshow(
        series.used,
        aspect="auto",
        interpolation="nearest",
        cmap=colormaps["cividis"].resampled(9),
        norm=BoundaryNorm(levels, 9),
        extent=(0.0, series.instants[-1] / _HOUR, len(series.used) - 0.5, -0.5),
    )
    axes.set_ylabel("node")
    set_title(axes, f"{series.fragmentation:.0%} of the free GPUs are on nodes in part use")
    return image


def _draw_free(axes: "Axes", series: DemoSeries) -> None:
    """Free GPUs on nodes in part use, and on wholly free ones."""
    axes.stackplot(
        series.instants / _HOUR,
        series.stranded,
        series.free - series.stranded,
        colors=(VERMILION, SKY),
        labels=("on nodes in part use", "on wholly free nodes"),
        step="post",
        lw=0,
    )
    axes.set_ylim(0, None)
    axes.set_ylabel("free GPUs")
    axes.set_xlabel("time since the first submission (hours)")
    axes.legend(frameon=False, loc="upper right")


def _draw_completion(axes: "Axes", demo: Demo) -> None:
    """Share of the jobs that are complete so long after their submission."""
    submit = demo.made.trace.submit
    medians = {}
    for name, run in demo.runs.items():
        minutes = np.sort(run.end - submit) / _MINUTE
        color, line = _LINES[name]
        share = 100 * np.arange(1, len(minutes) + 1) / len(minutes)
        label = "alone, with its part of storage" if name == ALONE else name
        axes.step(minutes, share, where="post", color=color, ls=line, lw=1.8, label=label)
        medians[name] = percentile(minutes, 50)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylim(0, 100)
    axes.set_xlabel("time from submission to completion (minutes, logarithmic)")
    axes.set_ylabel("jobs that are complete (%)")
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False, loc="upper left")
    first, last = _COLUMNS
    set_title(
        axes,
        f"Half of the jobs take up to {medians[first]:,.0f} minutes under {first}, "
        f"{medians[last]:,.0f} with all parts",
    )


def _draw_steps(axes: "Axes", figures: Mapping[str, "DemoFigures"]) -> None:
    """Queueing and running of the mean job under each configuration, and broken guarantees."""
    names = list(CONFIGURATIONS)
    queueing = np.array([figures[name].mean_queueing for name in names]) / _MINUTE
    whole = np.array([figures[name].mean_completion for name in names]) / _MINUTE
    places = np.arange(len(names))
    axes.barh(places, queueing, color=VERMILION, label="queueing")
    axes.barh(places, whole - queueing, left=queueing, color=SKY, label="running")
    for place, name in enumerate(names):
        one = figures[name]
        said = f" {whole[place]:,.0f} min; {one.later:,} start later than alone"
        axes.text(whole[place], place, said, va="center", fontsize=9)
    axes.set_yticks(places, names)
    axes.set_ylim(len(names) - 0.4, -1.2)  # from above; the legend has a line of its own
    axes.set_xlim(0, 1.9 * whole.max())
    axes.set_xlabel("mean time from submission to completion (minutes)")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, loc="upper right", ncols=2)
    set_title(axes, _most(names, whole))


def _most(names: Sequence[str], whole: "np.ndarray[Any, np.dtype[np.float64]]") -> str:
    changes = whole[1:] / whole[:-1] - 1.0
    best, worst = int(changes.argmin()), int(changes.argmax())

    def said(at: int) -> str:
        return f"{names[at + 1].removeprefix('+ ')} ({changes[at]:+.0%})"

    if changes[best] >= 0:
        return "No part makes jobs complete sooner on average"
    text = f"{said(best).capitalize()} shortens completion most"
    return text + (f", {said(worst)} lengthens it" if changes[worst] > 0.005 else "")
