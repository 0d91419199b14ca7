"""Compares policies at several loads, with each other and with reported results.

The pictures have a line for each policy, the median over seeds: idle GPUs, and their fragmentation.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hivecore._stateful import counted
from hivecore.sim import columns
from hivecore.sim import pictures as draw
from hivecore.sim.devices.replay import DeviceReplay
from hivecore.sim.figures import percentile
from hivecore.sim.report import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Reported", "devices_report", "median_at"]

#: policy -> load in percent of the capacity -> allocated GPUs in percent of it
Reported = Mapping[str, Mapping[int, float]]

_LOADS = (90, 95, 100, 110, 120)
_COLORS = {
    "fgd": draw.VERMILION,
    "best-fit": draw.BLUE,
    "packing": draw.GREEN,
    "clustering": draw.PURPLE,
    "dot-product": draw.ORANGE,
    "random": draw.GREY,
}
_XLABEL = "GPUs that arrived pods asked for (% of all)"
_Groups = Mapping[str, list[DeviceReplay]]
_Floats = npt.NDArray[np.float64]


def median_at(replays: Iterable[DeviceReplay], load: float) -> float:
    """Return the median allocation of replays at a load, divided by the capacity.

    :param replays: of one policy, one per seed; NaN for none.
    :param load: divided by the capacity.
    """
    return percentile([float(each.allocation[each.at(load)]) for each in replays], 50)


def devices_report(
    replays: Iterable[DeviceReplay],
    reported: Reported | None = None,
    loads: Iterable[int] = _LOADS,
) -> Report:
    """Return a report with a row for each policy: allocated GPUs in percent, by load.

    :param replays: at least one; for several of a policy, the median is shown.
    :param reported: results of others, shown in a second row of the policy and as points.
    :param loads: in percent of the capacity. The JSON has each replay: "allocated" divided by the
        capacity at each load, "fragmented" divided by what is idle.
    :raises ValueError: no replay.

    >>> import numpy as np
    >>> row = np.array([900, 1000])
    >>> run = DeviceReplay("fgd", 0, 1000, row, row, row, row, row, np.array([0, 1]), row * 0.0)
    >>> report = devices_report([run], {"fgd": {100: 95.2}}, loads=[90, 100])
    >>> report.cells()
    [['fgd', '90.0', '100.0'], ['fgd, reported', '', '95.2']]
    >>> report.data["policies"]
    {'fgd': [{'seed': 0, 'allocated': [0.9, 1.0], 'fragmented': [0.0, 0.0]}]}
    """
    groups: dict[str, list[DeviceReplay]] = {}
    for each in replays:
        groups.setdefault(each.policy, []).append(each)
    if not groups:
        raise ValueError("replays must hold one at least")
    shown = list(loads)
    rows: list[list[Any]] = []
    policies: dict[str, list[Mapping[str, Any]]] = {}
    for policy, runs in groups.items():
        rows.append([policy, *(100 * median_at(runs, load / 100) for load in shown)])
        if reported and policy in reported:
            rows.append([f"{policy}, reported", *map(reported[policy].get, shown)])
        policies[policy] = []
        for run in runs:
            samples = [run.at(load / 100) for load in shown]
            allocated, fragmented = run.allocation[samples], run.fragmentation[samples]
            figures = {"allocated": allocated.tolist(), "fragmented": fragmented.tolist()}
            policies[policy].append({"seed": run.seed, **figures})
    orders = counted(max(map(len, groups.values())), "order")
    return Report(
        "GPUs allocated, in % of all",
        [columns.label("policy"), *(columns.Column(f"{load} %", "{:.1f}") for load in shown)],
        rows,
        [f"columns: what arrived pods asked for, in % of all GPUs; median of {orders}"],
        schema="hivecore.devices/1",
        data={"loads": shown, "policies": policies},
        pictures={
            "unallocated": partial(_unallocated, groups, reported or {}),
            "fragmentation": partial(_fragmentation, groups),
        },
    )


def _unallocated(groups: _Groups, reported: Reported) -> "Figure":
    """Draw the part of the GPUs that is not allocated, around full load."""
    figure, (axes,) = draw.panels()
    loads = _draw(axes, groups, lambda run: 100 - 100 * run.allocation)
    end = min(float(loads[-1]), 100.0)
    begin = 0.75 * end
    for policy, figures in reported.items():
        points = [(load, 100 - share) for load, share in figures.items() if load >= begin]
        if policy in groups and points:
            axes.plot(*zip(*points, strict=True), "o", color=_COLORS.get(policy, draw.SKY))
    axes.plot([0, 100], [100, 0], ":", color=draw.BLACK, linewidth=1, label="all that come")
    medians = {policy: 100 * (1 - median_at(runs, end / 100)) for policy, runs in groups.items()}
    best = min(medians, key=lambda policy: medians[policy])
    dots = "; points: as reported" if reported else ""
    said = "all GPUs" if end == 100 else f"{end:.0f}% of the GPUs"
    title = f"When {said} are asked for, {best} leaves {medians[best]:.1f}% idle{dots}"
    limits = (begin, float(loads[-1])), (100 - end, 100 - begin)
    labels = {"xlabel": _XLABEL, "ylabel": "GPUs not allocated (%)"}
    draw.frame(axes, title, xlim=limits[0], ylim=limits[1], **labels)
    draw.legend_below(figure)
    return figure


def _fragmentation(groups: _Groups) -> "Figure":
    """Draw the fragmented part of the idle GPUs."""
    figure, (axes,) = draw.panels()
    loads = _draw(axes, groups, lambda run: 100 * run.fragmentation)
    at = 0.8 * min(float(loads[-1]), 100.0)
    medians = {
        policy: percentile([run.fragmentation[run.at(at / 100)] for run in runs], 50)
        for policy, runs in groups.items()
    }
    best = min(medians, key=lambda policy: medians[policy])
    title = f"At {at:.0f}% load {medians[best]:.0%} of the idle GPUs are fragments with {best}"
    ylabel = "idle GPUs that are\nof no use to pods that come (%)"
    xlim = (0, float(loads[-1]))
    draw.frame(axes, title, xlabel=_XLABEL, ylabel=ylabel, xlim=xlim, ylim=(0, 103))
    draw.legend_below(figure)
    return figure


def _draw(
    axes: "Axes",
    groups: _Groups,
    values: Callable[[DeviceReplay], _Floats],
) -> _Floats:
    """Draw a line for each policy: the median at every percent of load that all replays reach."""
    reached = min(float(run.load[-1]) for runs in groups.values() for run in runs)
    loads = np.arange(1, max(int(100 * reached), 1) + 1, dtype=np.float64)
    for policy, runs in groups.items():
        curves = [values(run)[[run.at(load / 100) for load in loads.tolist()]] for run in runs]
        color = _COLORS.get(policy, draw.SKY)
        axes.plot(loads, np.median(curves, axis=0), color=color, linewidth=1.8, label=policy)
    return loads
