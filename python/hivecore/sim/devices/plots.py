"""Pictures of replays with growing load: GPUs that stay idle, and how fragmented those are."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hivecore.sim.devices.replay import DeviceReplay
from hivecore.sim.devices.report import Reported, median_at
from hivecore.sim.extras import require
from hivecore.sim.pictures import BLUE, GREEN, GREY, VERMILION, save_figures, set_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["save_device_plots"]

_COLORS = {
    "fgd": VERMILION,
    "best-fit": BLUE,
    "packing": GREEN,
    "clustering": "#CC79A7",
    "dot-product": "#E69F00",
    "random": GREY,
}
_OTHER = "#56B4E9"
_Floats = npt.NDArray[np.float64]


def save_device_plots(
    replays: Iterable[DeviceReplay], folder: str | Path, reported: Reported | None = None
) -> list[Path]:
    """Write unallocated.png and fragmentation.png, a line per policy, the median over its seeds.

    :param replays: at least one.
    :param folder: made if it does not exist; files in it are overwritten.
    :param reported: what others found, drawn as points; see `replay_table`.
    :returns: the paths.
    :raises ValueError: no replay.
    :raises OSError: a file cannot be written.

    >>> import tempfile
    >>> one = np.arange(1, 1301)
    >>> run = DeviceReplay("fgd", 0, 1000, one, one, one, one, one, one - 1, one * 0.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save_device_plots([run], folder)]
    ['unallocated.png', 'fragmentation.png']
    """
    require("matplotlib")
    groups: dict[str, list[DeviceReplay]] = {}
    for one in replays:
        groups.setdefault(one.policy, []).append(one)
    if not groups:
        raise ValueError("replays must hold one at least")
    drawings = {
        "unallocated": _unallocated(groups, reported or {}),
        "fragmentation": _fragmentation(groups),
    }
    return save_figures(drawings, folder)


def _unallocated(groups: dict[str, list[DeviceReplay]], reported: Reported) -> "Figure":
    """The part of the GPUs that is not allocated, while the load nears and passes the capacity."""
    figure, axes = _empty()
    loads = _draw(axes, groups, lambda run: 100 - 100 * run.allocation)
    end = min(float(loads[-1]), 100.0)
    begin = 0.75 * end
    for policy, figures in reported.items():
        if policy in groups:
            points = [(load, 100 - share) for load, share in figures.items() if load >= begin]
            if points:
                axes.plot(*zip(*points, strict=True), "o", color=_COLORS.get(policy, _OTHER))
    axes.plot([0, 100], [100, 0], ":", color="black", linewidth=1, label="all that come")
    axes.set_xlim(begin, float(loads[-1]))
    axes.set_ylim(100 - end, 100 - begin)
    axes.set_ylabel("GPUs not allocated (%)")
    found = {policy: 100 * (1 - median_at(runs, end / 100)) for policy, runs in groups.items()}
    best = min(found, key=lambda policy: found[policy])
    dots = "; points: as reported" if reported else ""
    asked = "all GPUs" if end == 100 else f"{end:.0f}% of the GPUs"
    set_title(axes, f"When {asked} are asked for, {best} leaves {found[best]:.1f}% idle{dots}")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure


def _fragmentation(groups: dict[str, list[DeviceReplay]]) -> "Figure":
    """The fragmented part of the idle GPUs."""
    figure, axes = _empty()
    loads = _draw(axes, groups, lambda run: 100 * run.fragmentation)
    axes.set_xlim(0, float(loads[-1]))
    axes.set_ylim(0, 103)
    axes.set_ylabel("idle GPUs that are\nof no use to pods that come (%)")
    at = 0.8 * min(float(loads[-1]), 100.0)
    found = {
        policy: float(np.median([run.fragmentation[run.at(at / 100)] for run in runs]))
        for policy, runs in groups.items()
    }
    best = min(found, key=lambda policy: found[policy])
    set_title(
        axes, f"At {at:.0f}% load {found[best]:.0%} of the idle GPUs are fragments with {best}"
    )
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure


def _empty() -> tuple["Figure", "Axes"]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel("GPUs that arrived pods asked for (% of all)")
    axes.grid(alpha=0.3)
    return figure, axes


def _draw(
    axes: "Axes",
    groups: dict[str, list[DeviceReplay]],
    values: Callable[[DeviceReplay], _Floats],
) -> _Floats:
    """A line per policy: the median at every percent of the load that all replays reach."""
    reached = min(float(run.load[-1]) for runs in groups.values() for run in runs)
    loads = np.arange(1, max(int(100 * reached), 1) + 1, dtype=np.float64)
    for policy, runs in groups.items():
        curves = [values(run)[[run.at(load / 100) for load in loads.tolist()]] for run in runs]
        color = _COLORS.get(policy, _OTHER)
        axes.plot(loads, np.median(curves, axis=0), color=color, linewidth=1.8, label=policy)
    return loads
