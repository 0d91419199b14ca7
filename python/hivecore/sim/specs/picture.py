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
    Floats,
    literal,
    rising,
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
_COLUMNS = 4  # of the legend


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

    rows = -(-(1 + len(runs)) // _COLUMNS)
    figure = Figure(figsize=(11.0, 4.5 + 0.2 * rows), layout="constrained")
    done, took = figure.subplots(1, 2)
    compared = compared_jobs(runs)
    ends = {name: run.outcome.end for name, run in runs.items()}
    times = {name: (end - trace.submit)[compared] for name, end in ends.items()}
    ended = {name: end[np.isfinite(end)] for name, end in ends.items()}
    last = max(float(end.max(initial=0.0)) for end in (trace.submit, *ended.values()))
    longest = max(float(time.max(initial=0.0)) for time in times.values())
    _count(done, trace.submit, last, label="submitted", color=GREY)
    for number, name in enumerate(runs):
        style = {
            "color": _COLOURS[number % len(_COLOURS)],
            "linestyle": _STYLES[number // len(_COLOURS) % len(_STYLES)],
        }
        _count(done, ended[name], last, label=literal(name), **style)
        _count(took, times[name], longest, **style)
    set_title(done, "Jobs done")
    done.set_xlabel("hours since the first submission")
    figure.legend(loc="outside lower center", ncols=_COLUMNS, frameon=False, fontsize=8)
    set_title(took, "Jobs that took no longer, of those that all specs run")
    took.set_xlabel("hours from submission to end")
    took.set_xscale("log")
    for axes in (done, took):
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    return save_figures({"completions": figure}, folder)


def _count(axes: "Axes", seconds: Floats, until: float, **style: str) -> None:
    hours, jobs = rising(seconds / 3600.0, until / 3600.0)
    axes.step(hours, jobs, where="post", linewidth=1.4, **style)  # type: ignore[arg-type]
