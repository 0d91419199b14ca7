"""How many jobs are done by when, and how long they take, by spec."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hivecore.sim.extras import require
from hivecore.sim.pictures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    save_figures,
    set_title,
)
from hivecore.sim.specs.figures import compared_jobs
from hivecore.sim.specs.run import SpecRun
from hivecore.sim.specs.trace_jobs import TraceJobs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["save_specs_picture"]

_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE, BLACK)
_STYLES = ("-", "--", ":", "-.")


def save_specs_picture(
    trace: TraceJobs, runs: Mapping[str, SpecRun], folder: str | Path
) -> list[Path]:
    """Write the picture completions.png, and return its path.

    :param trace: the jobs.
    :param runs: of `replay_specs` on them.
    :param folder: made if it does not exist; a file of this name in it is overwritten.
    :raises OSError: the file cannot be written.

    >>> import tempfile
    >>> from hivecore.interop.scheduler_file import SchedulerSpec
    >>> from hivecore.sim.specs import replay_specs
    >>> from hivecore.traces import Trace
    >>> text = "{cluster: {models: {m: {gpus: 8}}, nodes: {n: m}}, devices: {}}"
    >>> specs = {"one": SchedulerSpec.of_yaml(text)}
    >>> trace = TraceJobs.of(Trace.from_columns([*"ab"], "xx", [0, 5], [90, 90], [8, 8]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = save_specs_picture(trace, replay_specs(trace, specs), folder)
    >>> [path.name for path in found]
    ['completions.png']
    """
    require("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.5), layout="constrained")
    done, took = figure.subplots(1, 2)
    _count(done, trace.submit, label="submitted", color=GREY)
    compared = compared_jobs(runs)
    for number, (name, run) in enumerate(runs.items()):
        style = {
            "label": name,
            "color": _COLOURS[number % len(_COLOURS)],
            "linestyle": _STYLES[number // len(_COLOURS) % len(_STYLES)],
        }
        end = run.outcome.end
        _count(done, end[np.isfinite(end)], **style)
        _count(took, (end - trace.submit)[compared], **style)
    set_title(done, "Jobs done")
    done.set_xlabel("hours since the first submission")
    done.legend(frameon=False)
    set_title(took, "Jobs that took no longer, of those that all specs run")
    took.set_xlabel("hours from submission to end")
    took.set_xscale("log")
    for axes in (done, took):
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    return save_figures({"completions": figure}, folder)


def _count(axes: "Axes", seconds: "np.typing.NDArray[np.float64]", **style: str) -> None:
    hours = np.sort(seconds) / 3600.0
    axes.step(hours, np.arange(1, len(hours) + 1), where="post", linewidth=1.4, **style)  # type: ignore[arg-type]
