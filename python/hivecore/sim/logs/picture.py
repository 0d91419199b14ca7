"""A log and the same events under another configuration: GPUs in use, and jobs that wait."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivecore.scheduler import LogDifference
from hivecore.sim.extras import require
from hivecore.sim.pictures import GREY, VERMILION, set_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["save_difference_picture"]

_HOUR = 3600.0


def save_difference_picture(found: LogDifference, path: str | Path) -> Path:
    """Write the picture as a PNG file, and return its path.

    :param found: of `hivecore.scheduler.diff_log`.
    :param path: ends in .png; a file there is overwritten.
    :raises ValueError: the path ends otherwise.
    :raises OSError: the file cannot be written.

    >>> import tempfile
    >>> from hivecore.scheduler import LogFigures
    >>> figures = LogFigures(1, 0, 0, 0.0, 8, 400.0, 0.5, ((0.0, 8), (50.0, 0)), ((0.0, 0),))
    >>> found = LogDifference(0.0, 100.0, (), figures, figures, 0, 0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_difference_picture(found, f"{folder}/diff.png").name
    'diff.png'
    """
    require("matplotlib")
    from matplotlib.figure import Figure

    target = Path(path)
    if target.suffix.lower() != ".png":
        raise ValueError(f"path must end in .png, not {str(path)!r}")
    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    used, waiting = figure.subplots(2, 1, sharex=True)
    unit, scale = ("hours", _HOUR) if found.end - found.begin > 2 * _HOUR else ("seconds", 1.0)
    for name, one, colour in (("log", found.before, GREY), ("other", found.after, VERMILION)):
        _steps(used, one.usage, found, scale, label=name, color=colour)
        _steps(waiting, one.waiting, found, scale, label=name, color=colour)
    set_title(used, "GPUs in use")
    set_title(waiting, "Jobs that wait")
    for axes in (used, waiting):
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    used.legend(frameon=False)
    waiting.set_xlabel(f"{unit} since the log began")
    figure.savefig(target, format="png", dpi=100)
    return target


def _steps(
    axes: "Axes",
    points: Sequence[tuple[float, int]],
    found: LogDifference,
    scale: float,
    **style: Any,
) -> None:
    times = [(time - found.begin) / scale for time, _ in points]
    counts = [count for _, count in points]
    times.append((found.end - found.begin) / scale)
    counts.append(counts[-1] if counts else 0)
    axes.step(times, counts, where="post", linewidth=1.4, **style)
