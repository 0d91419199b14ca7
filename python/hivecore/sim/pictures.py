"""Shared by the pictures: colours, panels, titles, files.

Colours are those of Okabe and Ito, which colour-blind people can distinguish.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLACK",
    "BLUE",
    "DAY",
    "GREEN",
    "GREY",
    "HOUR",
    "ORANGE",
    "PURPLE",
    "SKY",
    "VERMILION",
    "Floats",
    "comparison",
    "completion",
    "frame",
    "legend_below",
    "literal",
    "panels",
    "rising",
    "save_figure",
    "waits_picture",
]

Floats = npt.NDArray[np.float64]

GREY, BLUE, VERMILION, GREEN = "#999999", "#0072B2", "#D55E00", "#009E73"
ORANGE, SKY, PURPLE, BLACK = "#E69F00", "#56B4E9", "#CC79A7", "#000000"
HOUR, DAY = 3600.0, 86400.0


def panels(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (9, 4.6), **share: Any
) -> tuple["Figure", list["Axes"]]:
    """Return a figure of a size in inches, and its panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, **share).flat)


def frame(
    axes: "Axes", title: str, legend: Any = None, grid: Any = "both", **settings: Any
) -> None:
    """Set a panel's title, labels and limits, and place its legend."""
    axes.set_title(title, loc="left", fontweight="bold", fontsize=11)
    axes.set(**settings)
    if grid:
        axes.grid(axis=grid, alpha=0.3)
        axes.set_axisbelow(True)
    if legend:
        axes.legend(frameon=False, loc=legend, fontsize=8)


def legend_below(figure: "Figure", ncols: int = 4, **of: Any) -> None:
    """Put the legend of all panels below them."""
    figure.legend(loc="outside lower center", ncols=ncols, frameon=False, **of)


def comparison(text: str, means: dict[str, float], form: str = "{:,.1f}") -> str:
    """Return a title that compares the first and the last mean, if they differ."""
    best, worst = next(iter(means)), next(reversed(means))
    title = text.format(form.format(means[best]), best)
    worse = f",\n{form.format(means[worst])} under {worst}"
    return title if means[worst] == means[best] else title + worse


def completion(hours: Mapping[str, Floats], styles: Sequence[Mapping[str, Any]]) -> "Figure":
    """Draw the distribution of completion times, a line for each policy."""
    figure, (axes,) = panels()
    longest = max(float(each.max()) for each in hours.values())
    means = {policy: float(each.mean()) for policy, each in hours.items()}
    for (policy, each), style in zip(hours.items(), styles, strict=True):
        times, done = rising(each, longest)
        label = f"{policy} (mean {means[policy]:,.1f} h)"
        axes.step(times, 100 * done / len(each), where="post", label=label, **style)
    ordered = dict(sorted(means.items(), key=lambda item: item[1]))
    frame(
        axes,
        comparison("A job takes {} hours on average under {}", ordered),
        "upper left",
        xscale="log",
        ylim=(0, 100),
        xlabel="completion time, from submission to end (hours)",
        ylabel="jobs that are done by then (%)",
    )
    return figure


def waits_picture(waits: Mapping[str, Sequence[float]], jobs: int) -> "Figure":
    """Draw how many jobs have started after so many seconds, a line for each scheduler.

    :param waits: scheduler -> waiting times in seconds of the jobs that it started.
    """
    figure, (axes,) = panels()
    longest = max((max(each, default=0.0) for each in waits.values()), default=0.0)
    for (name, each), colour in zip(waits.items(), (GREY, VERMILION, BLUE, GREEN), strict=False):
        times, started = rising(np.array(each), longest)
        mean = f"mean {np.mean(each):,.1f} s" if each else "none yet"
        label = literal(f"{name}: {len(each)} of {jobs} ({mean})")
        axes.step([0.0, *times], [0.0, *started], where="post", color=colour, label=label)
    labels = {"xlabel": "seconds since a job was seen first", "ylabel": "jobs that have started"}
    frame(axes, "How long jobs wait", "lower right", ylim=(0, max(jobs, 1)), **labels)
    return figure


def literal(name: str) -> str:
    r"""Return a name as literal text for Matplotlib: without mathematics, and shown in legends.

    >>> print(literal("_a$b$"))
     _a\$b\$
    """
    return f"{' ' if name.startswith('_') else ''}{name}".replace("$", r"\$")


def rising(values: Floats, until: float) -> tuple[Floats, Floats]:
    """Return the steps of a line that counts the values up to each point, until an end.

    >>> [axis.tolist() for axis in rising(np.array([5.0, 2.0]), 9.0)]
    [[2.0, 2.0, 5.0, 9.0], [0.0, 1.0, 2.0, 2.0]]
    """
    if not len(values):
        return values, values
    ordered, count = np.sort(values), np.arange(len(values) + 1.0)
    return np.concatenate([ordered[:1], ordered, [until]]), np.append(count, count[-1])


def save_figure(figure: "Figure", path: Path) -> Path:
    """Write a figure as .svg or .png, and return its path; equal figures give equal files."""
    from matplotlib import rc_context

    suffix = path.suffix.lower()
    with rc_context({"svg.hashsalt": "hivecore", "svg.fonttype": "none"}):
        metadata = {"Date": None} if suffix == ".svg" else None
        figure.savefig(path, format=suffix[1:], dpi=100, metadata=metadata)
    return path
