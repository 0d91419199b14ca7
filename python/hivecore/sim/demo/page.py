"""A page of pictures of the demo; titles state what the pictures show, from the figures.

The first configuration is on the left, the last on the right, with the same hours and axes: first
around the job that the first configuration delays most, then over the whole time. Below, all
configurations are compared.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hivecore.sim import pictures as draw
from hivecore.sim.demo.figures import DemoFigures
from hivecore.sim.demo.run import ALONE, CONFIGURATIONS, Demo
from hivecore.sim.demo.series import DemoSeries, demo_series
from hivecore.sim.figures import percentile
from hivecore.sim.workload import GPUS_PER_NODE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["demo_page"]

_TENANTS = (draw.PURPLE, draw.BLUE, draw.SKY, draw.GREEN, draw.ORANGE)
#: Colour and line of each configuration.
_LINES: dict[str, tuple[str, Any]] = {
    ALONE: (draw.GREY, (0, (1, 1))),
    "quotas": (draw.VERMILION, "-"),
    "cells": (draw.BLUE, "-"),
    "+ lending": (draw.GREEN, (0, (6, 2))),
    "+ sharing": (draw.PURPLE, (0, (4, 1, 1, 1))),
    "+ data": (draw.BLACK, "-"),
}
_COLUMNS = (CONFIGURATIONS[0], CONFIGURATIONS[-1])
_INSTANTS = 500
_USEFUL = "useful work, in GPUs at full speed\n(jobs that share GPUs count each)"
_MINUTE = 60.0


def demo_page(demo: Demo, figures: Mapping[str, DemoFigures]) -> "Figure":
    """Return the page."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 20), layout="constrained")
    # A row for the names of the columns, and one for the legend.
    grid = figure.add_gridspec(8, 2, height_ratios=(0.12, 2.2, 0.12, 3.0, 2.0, 3.2, 1.2, 3.2))
    before: list[Axes | None] = [None] * 5
    for column, name in enumerate(_COLUMNS):
        panels = [
            figure.add_subplot(grid[row, column], sharey=share)
            for row, share in zip((1, 3, 4, 5, 6), before, strict=True)
        ]
        series = demo_series(demo, name, _INSTANTS)
        _name(figure.add_subplot(grid[0, column]), name)
        _draw_delayed(panels[0], demo, series, name)
        _draw_held(panels[1], demo, series, figures[name])
        _draw_waiting(panels[2], demo, series)
        colours = _draw_nodes(panels[3], series)
        _draw_free(panels[4], series, "upper right")
        for axes in panels[1:]:
            axes.set_xlim(0, series.instants[-1] / draw.HOUR)
        before = [*panels]
    beside = panels[3].inset_axes((1.02, 0.0, 0.03, 1.0))
    bar = figure.colorbar(colours, cax=beside, ticks=range(9))
    bar.set_label("GPUs of the node in use")
    words = figure.add_subplot(grid[2, :])
    words.axis("off")
    words.legend(
        *panels[1].get_legend_handles_labels(), loc="center", ncols=7, frameon=False, fontsize=11
    )
    _draw_completion(figure.add_subplot(grid[7, 0]), demo)
    _draw_steps(figure.add_subplot(grid[7, 1]), figures)
    figure.suptitle(_headline(demo, figures), x=0.01, ha="left", fontweight="bold", fontsize=15)
    return figure


def _name(axes: "Axes", name: str) -> None:
    axes.axis("off")
    words = "cells + lending + sharing + data" if name == CONFIGURATIONS[-1] else name
    axes.text(0.5, 0.0, words, ha="center", va="bottom", fontsize=14, color="#444444")


def _headline(demo: Demo, figures: Mapping[str, DemoFigures]) -> str:
    first, last = (figures[name] for name in _COLUMNS)
    change = last.mean_completion / first.mean_completion - 1.0
    way = "sooner" if change < 0 else "later"
    return (
        f"{len(demo.work.nodes)} tenants, {first.jobs:,} jobs, {_gpus(demo)} GPUs: with cells, "
        f"lending, sharing and scheduled storage\njobs complete {abs(change):.0%} {way} on average "
        f"than under quotas, and {last.later:,} instead of {first.later:,} start later than alone"
    )


def _gpus(demo: Demo) -> int:
    return GPUS_PER_NODE * sum(demo.work.nodes.values())


def _draw_delayed(axes: "Axes", demo: Demo, series: DemoSeries, name: str) -> None:
    """Draw what is free around the job that the first configuration delays most."""
    row, trace = demo.most_delayed, demo.work.trace
    submit, start = (float(trace.submit[row]), float(demo.runs[name].start[row]))
    latest = submit + demo.wait(_COLUMNS[0], row)
    _draw_free(axes, series, legend=None)
    axes.axhline(trace.gpus[row], color=draw.BLACK, lw=1.2, ls="--", label="GPUs for which it asks")
    axes.axvspan(
        submit / draw.HOUR, start / draw.HOUR, color=draw.GREY, alpha=0.4, label="it waits"
    )
    title, legend = f"The same job waits {demo.wait(name, row) / _MINUTE:,.0f} minutes", None
    if name == _COLUMNS[0]:
        tenant, legend = trace.tenants[trace.tenant[row]], "upper right"
        title = (
            f"{tenant} owns {GPUS_PER_NODE * demo.work.nodes[tenant]} GPUs: its job of "
            f"{trace.gpus[row]} waits {demo.wait(name, row) / _MINUTE:,.0f} minutes, "
            f"alone {demo.wait(ALONE, row) / _MINUTE:,.0f}"
        )
    around = max(0.3 * (latest - submit), draw.HOUR)
    limits = (submit - around, min(latest + around, series.instants[-1]))
    hours = tuple(limit / draw.HOUR for limit in limits)
    draw.frame(axes, title, legend, None, xlim=hours, ylim=(0, 3 * trace.gpus[row]))


def _draw_held(axes: "Axes", demo: Demo, series: DemoSeries, figures: DemoFigures) -> None:
    """Draw GPUs by tenant, and the GPUs that would do the same work at full speed."""
    hours, capacity, names = series.instants / draw.HOUR, _gpus(demo), demo.work.trace.tenants
    axes.stackplot(hours, series.held, colors=_TENANTS, labels=names, step="post", lw=0)
    axes.plot(hours, series.useful, color=draw.BLACK, lw=1.6, label=_USEFUL)
    axes.axhline(capacity, color=draw.GREY, lw=1, ls="--", label=f"all {capacity} GPUs")
    held, useful = series.held.sum(axis=0).mean() / capacity, figures.utilisation
    title = f"Jobs hold {held:.0%} of the GPUs, and do the work of {useful:.0%} at full speed"
    draw.frame(axes, title, grid=None, ylabel="GPUs that jobs hold", ylim=(0, 1.25 * capacity))


def _draw_waiting(axes: "Axes", demo: Demo, series: DemoSeries) -> None:
    """Draw the GPUs that each tenant's waiting jobs ask for."""
    hours, names = series.instants / draw.HOUR, demo.work.trace.tenants
    for tenant, color, waiting in zip(names, _TENANTS, series.waiting, strict=False):
        axes.step(hours, waiting, where="post", color=color, lw=1.5, label=tenant)
    row, when = np.unravel_index(series.waiting.argmax(), series.waiting.shape)
    title = f"Waiting jobs ask for {series.waiting.sum(axis=0).mean():,.0f} GPUs on average"
    if (most := series.waiting[row, when]) > 0:
        title += f", {names[row]} for up to {most:,.0f}"
    draw.frame(axes, title, ylabel="GPUs that waiting\njobs ask for", ylim=(0, None))


def _draw_nodes(axes: "Axes", series: DemoSeries) -> Any:
    """Draw the GPUs in use by node; return the mapping of colours."""
    from matplotlib import colormaps
    from matplotlib.colors import BoundaryNorm

    image = axes.imshow(
        series.used,
        aspect="auto",
        interpolation="nearest",
        cmap=colormaps["cividis"].resampled(9),
        norm=BoundaryNorm(np.arange(10) - 0.5, 9),
        extent=(0.0, series.instants[-1] / draw.HOUR, len(series.used) - 0.5, -0.5),
    )
    title = f"{series.fragmentation:.0%} of the free GPUs are on nodes in part use"
    draw.frame(axes, title, grid=None, ylabel="node")
    return image


def _draw_free(axes: "Axes", series: DemoSeries, legend: str | None) -> None:
    """Draw free GPUs on partly used and on entirely free nodes."""
    parts = (series.stranded, series.free - series.stranded)
    labels = ("on nodes in part use", "on wholly free nodes")
    look: dict[str, Any] = {"colors": (draw.VERMILION, draw.SKY), "step": "post", "lw": 0}
    axes.stackplot(series.instants / draw.HOUR, *parts, labels=labels, **look)
    xlabel = "time since the first submission (hours)"
    draw.frame(axes, "", legend, None, xlabel=xlabel, ylabel="free GPUs", ylim=(0, None))


def _draw_completion(axes: "Axes", demo: Demo) -> None:
    """Draw the fraction of jobs that are complete some time after submission."""
    medians = {}
    for name, run in demo.runs.items():
        minutes = np.sort(run.end - demo.work.trace.submit) / _MINUTE
        share = 100 * np.arange(1, len(minutes) + 1) / len(minutes)
        (color, line), medians[name] = _LINES[name], percentile(minutes, 50)
        label = "alone, with its part of storage" if name == ALONE else name
        axes.step(minutes, share, where="post", color=color, ls=line, lw=1.8, label=label)
    first, last = (medians[name] for name in _COLUMNS)
    draw.frame(
        axes,
        f"Half of the jobs take up to {first:,.0f} minutes under {_COLUMNS[0]}, {last:,.0f} with "
        "all parts",
        "upper left",
        xscale="log",
        ylim=(0, 100),
        xlabel="time from submission to completion (minutes, logarithmic)",
        ylabel="jobs that are complete (%)",
    )
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _draw_steps(axes: "Axes", figures: Mapping[str, DemoFigures]) -> None:
    """Draw mean queueing and run times of each configuration, and broken guarantees."""
    shown = [figures[name] for name in CONFIGURATIONS]
    queueing = np.array([each.mean_queueing for each in shown]) / _MINUTE
    whole = np.array([each.mean_completion for each in shown]) / _MINUTE
    places = np.arange(len(shown))
    axes.barh(places, queueing, color=draw.VERMILION, label="queueing")
    axes.barh(places, whole - queueing, left=queueing, color=draw.SKY, label="running")
    for place, each in enumerate(shown):
        said = f" {whole[place]:,.0f} min; {each.later:,} start later than alone"
        axes.text(whole[place], place, said, va="center", fontsize=9)
    axes.set_yticks(places, CONFIGURATIONS)
    xlabel = "mean time from submission to completion (minutes)"
    # The legend has a row of its own, above.
    limits = {"xlim": (0, 1.9 * whole.max()), "ylim": (len(shown) - 0.4, -1.2)}
    draw.frame(axes, _most(CONFIGURATIONS, whole), "upper right", "x", xlabel=xlabel, **limits)


def _most(names: Sequence[str], whole: "np.ndarray[Any, np.dtype[np.float64]]") -> str:
    changes = whole[1:] / whole[:-1] - 1.0
    best, worst = int(changes.argmin()), int(changes.argmax())

    def said(at: int) -> str:
        return f"{names[at + 1].removeprefix('+ ')} ({changes[at]:+.0%})"

    if changes[best] >= 0:
        return "No part makes jobs complete sooner on average"
    text = f"{said(best).capitalize()} shortens completion most"
    return text + (f", {said(worst)} lengthens it" if changes[worst] > 0.005 else "")
