"""What a decision log tells, as tables."""

from math import isinf
from typing import TYPE_CHECKING

from hivecore.scheduler import JobDifference, LogDifference, LogStanding
from hivecore.sim.tables import empty_table, side_by_side

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["difference_table", "figures_table", "standing_table"]


def standing_table(standing: LogStanding) -> "Table":
    """A Rich table with a row for each job that has not ended.

    :param standing: of `hivecore.scheduler.log_standing`.

    >>> from hivecore.scheduler import JobStanding
    >>> job = JobStanding("train", "vision", 8, "pending", 5.0, "no room")
    >>> table = standing_table(LogStanding(9.0, 3, 8, 8, (job,), 0, 0))
    >>> [str(next(iter(column.cells))) for column in table.columns]
    ['train', 'vision', '8', 'pending', '5', 'no room']
    """
    from rich.text import Text

    caption = "since: of a job that runs its start, else when it came, in seconds"
    headings = ("job", "tenant", "GPUs", "state", "since", "why")
    table = empty_table(f"Jobs at {standing.now:g} s", caption, headings)
    for one in standing.jobs:
        # As text: a name in brackets is no colour.
        named = Text(one.job), Text(one.tenant)
        table.add_row(*named, str(one.gpus), one.state, f"{one.since:g}", Text(one.reason))
    return table


def figures_table(found: LogDifference) -> "Table":
    """A Rich table with a row for the log, and one for the other configuration.

    :param found: of `hivecore.scheduler.diff_log`.

    >>> from hivecore.scheduler import LogFigures
    >>> figures = LogFigures(3, 0, 1, 20.0, 8, 400.0, 0.5, (), ())
    >>> table = figures_table(LogDifference(0.0, 100.0, (), figures, figures, 0, 0))
    >>> [str(next(iter(column.cells))) for column in table.columns]
    ['log', '3', '0', '1', '20.0', '8', '50.0']
    """
    rows = {
        name: {
            "started": str(one.started),
            "rejected": str(one.rejected),
            "preempted": str(one.preemptions),
            "mean wait": f"{one.mean_wait:.1f}",
            "GPUs": str(one.gpus or "?"),
            "use": f"{100 * one.utilisation:.1f}" if one.gpus else "?",
        }
        for name, one in (("log", found.before), ("other", found.after))
    }
    caption = "mean wait: seconds until the first start, or the end of the log. use: % of GPUs"
    title = f"From {found.begin:g} to {found.end:g} s"
    return side_by_side(title, caption, "policy", rows)


def difference_table(found: LogDifference, most: int) -> "Table":
    """A Rich table of those that start sooner, and of those that start later.

    :param found: of `hivecore.scheduler.diff_log`.
    :param most: how many of each, those with the largest difference.

    >>> from hivecore.scheduler import LogFigures
    >>> figures = LogFigures(1, 0, 0, 0.0, 8, 0.0, 0.0, (), ())
    >>> job = JobDifference("train", "vision", 8, 0.0, 60.0, 20.0)
    >>> table = difference_table(LogDifference(0.0, 99.0, (job,), figures, figures, 0, 0), 5)
    >>> [str(next(iter(column.cells))) for column in table.columns]
    ['train', 'vision', '8', '0', '60', '20', '40 sooner']
    """
    from rich.text import Text

    headings = ("job", "tenant", "GPUs", "came", "log", "other", "difference")
    table = empty_table("First starts, in seconds", "-: not until the end of the log", headings)
    for one in (*found.sooner[:most], *found.later[:most]):
        starts = ["-" if start is None else f"{start:g}" for start in (one.before, one.after)]
        named = Text(one.job), Text(one.tenant)
        table.add_row(*named, str(one.gpus), f"{one.submitted:g}", *starts, _difference(one))
    return table


def _difference(one: JobDifference) -> str:
    word = "sooner" if one.sooner > 0 else "later"
    if isinf(one.sooner):
        return "only so" if one.sooner > 0 else "not so"
    return f"{abs(one.sooner):g} {word}"
