"""Draws the state of quotas: a row per quota, a panel per resource.

The frame is a quota's maximum, the pale bar its runtime, the dark bar its use, vermilion if beyond
the runtime; the tick is its minimum, the diamond its request.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hivecore.sim import pictures as draw
from hivecore.sim.quotas.amounts import UNLIMITED, axis_unit, shown
from hivecore.sim.quotas.row import QuotaRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["quota_picture"]

_PALE = "#A6CEE3"
_HEIGHT = 0.62  # of a frame, in rows
_NAMED = 3  # quotas in a title
_INCHES = 0.095  # of a letter in it


def quota_picture(rows: Sequence[QuotaRow]) -> "Figure":
    """Return the picture of some rows, at least one of which has a max."""
    resources = sorted({resource for row in rows for resource in row.max})
    if not resources:
        raise ValueError("rows must hold a quota with a max")
    longest = max(len(row.name) + 2 * row.depth for row in rows)
    size = max(0.08 * longest + 1.0 + 3.6 * len(resources), 7.0), 1.7 + 0.34 * len(rows)
    figure, panels = draw.panels(1, len(resources), size, sharey=True)
    for axes, resource in zip(panels, resources, strict=True):
        _panel(axes, rows, resource)
    labels = ["   " * row.depth + draw.literal(row.name) for row in rows]
    panels[0].set_yticks(range(len(rows)), labels, ha="left")
    for label, row in zip(panels[0].get_yticklabels(), rows, strict=True):
        label.set_fontweight("normal" if row.depth else "bold")
    panels[0].set_ylim(len(rows) - 0.4, -0.6)
    # Labels start in one column, so that their indentation shows.
    panels[0].tick_params(axis="y", pad=5.6 * longest + 8)
    figure.suptitle(_title(rows, size[0]), x=0.01, ha="left", fontweight="bold", fontsize=11)
    draw.legend_below(figure, handles=_handles(), fontsize=8)
    return figure


def _panel(axes: "Axes", rows: Sequence[QuotaRow], resource: str) -> None:
    from matplotlib.ticker import MaxNLocator

    limit = _limit(rows, resource)
    name, unit = axis_unit(resource, limit)
    for place, row in enumerate(rows):
        if resource in row.max:
            _quota(axes, row, resource, place, limit, unit)
    draw.frame(axes, "", grid="x", xlim=(0, 1.04 * limit / unit), xlabel=draw.literal(name))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=unit == 1))
    axes.tick_params(axis="y", length=0)
    axes.set_title("uses / may use now", loc="right", fontsize=8, color="0.35")
    axes.spines[["top", "right", "left"]].set_visible(False)


def _limit(rows: Sequence[QuotaRow], resource: str) -> float:
    """Return the end of the axis: the largest total, minimum, use or runtime.

    Maximums and requests far beyond that leave the picture.
    """
    amounts = [1.0]
    for row in rows:
        shares = [row.min, row.runtime, row.used] + ([] if row.depth else [row.max])
        amounts += [float(each.get(resource, 0)) for each in shares]
    return max((amount for amount in amounts if amount < UNLIMITED), default=1.0)


def _quota(axes: "Axes", row: QuotaRow, resource: str, place: int, limit: float, unit: int) -> None:
    parts = (row.max, row.used, row.runtime, row.request, row.min)
    most, used, runtime, request, least = (float(each.get(resource, 0)) for each in parts)
    beyond = 1.2 * limit
    within = min(used, runtime)
    axes.barh(place, min(runtime, beyond) / unit, _HEIGHT, color=_PALE, linewidth=0)
    axes.barh(place, within / unit, 0.5 * _HEIGHT, color=draw.BLUE)
    if used > runtime:
        more = (used - runtime) / unit
        axes.barh(place, more, 0.5 * _HEIGHT, runtime / unit, color=draw.VERMILION)
    framed = min(most, beyond) / unit
    axes.barh(place, framed, _HEIGHT, fill=False, edgecolor=draw.GREY, linewidth=1.0)
    if least:
        half = 0.5 * _HEIGHT + 0.12
        axes.vlines(least / unit, place - half, place + half, color="black", linewidth=1.8)
    if request:
        look: dict[str, Any] = {"markeredgecolor": "white", "mew": 0.6, "markersize": 6}
        at = min(request, 1.02 * limit) / unit
        axes.plot(
            at, place, ">" if request > limit else "D", color=draw.GREEN, clip_on=False, **look
        )
    axes.annotate(
        " / ".join(shown(resource, each.get(resource, 0)) for each in (row.used, row.runtime)),
        (1.0, place),
        xycoords=("axes fraction", "data"),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color=draw.VERMILION if used > runtime else "0.25",
        annotation_clip=False,
    )


def _title(rows: Sequence[QuotaRow], width: float) -> str:
    """Return the title, with names only if they fit into this width in inches."""
    quotas = [row for row in rows if row.depth]
    over = [row.name for row in quotas if row.over()]
    if not over:
        return f"None of {len(quotas)} quotas uses more than it may now"
    names = ", ".join(over[:_NAMED]) + (", ..." if len(over) > _NAMED else "")
    verb = "uses" if len(over) == 1 else "use"
    fact = f"{len(over)} of {len(quotas)} quotas {verb} more than may be used now"
    room = len(fact) + 2 + len(names) <= width / _INCHES
    return draw.literal(f"{fact}: {names}" if room else fact)


def _handles() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks = [("D", draw.GREEN, "request"), (">", draw.GREEN, "request beyond the picture")]
    look: dict[str, Any] = {"linestyle": "", "markersize": 6}
    return [
        Patch(fill=False, edgecolor=draw.GREY, label="max"),
        Patch(color=_PALE, label="runtime: may be used now"),
        Patch(color=draw.BLUE, label="used"),
        Patch(color=draw.VERMILION, label="used beyond the runtime"),
        Line2D([], [], ls="", marker="|", color="black", label="min", markersize=9, mew=1.8),
        *(Line2D([], [], marker=m, color=color, label=said, **look) for m, color, said in marks),
    ]
