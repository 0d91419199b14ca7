r"""What a simulation comes to, described once: a table for people, JSON for programs, pictures.

A record of figures says in its annotations how each of them is headed, shown and named:

    mean_delay: Annotated[float, time("mean\ndelay")]

From these come the columns of the table (`columns_of`) and the keys of the JSON (`as_json`).
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isnan
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, get_type_hints

from hivecore.sim.extras import require
from hivecore.sim.pictures import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

__all__ = [
    "Column",
    "Report",
    "amount",
    "as_json",
    "columns_of",
    "count",
    "dropped",
    "hours",
    "label",
    "minutes",
    "share",
    "time",
    "values_of",
]


@dataclass(frozen=True, slots=True)
class Column:
    """How a figure is shown.

    :param heading: above it; what has none is in the JSON only.
    :param show: makes it text. NaN is shown as "-" and what is not there (``None``) not at all.
    :param unit: behind its name in the JSON.
    :param is_name: to the left, while figures are to the right.
    :param once: not repeated below an equal one, as long as all to the left of it are equal too.
    """

    heading: str = ""
    show: Callable[[Any], str] = str
    unit: str = ""
    is_name: bool = False
    once: bool = False

    def text(self, value: Any) -> str:
        """Return a value as it is shown."""
        return "" if value is None else "-" if _is_missing(value) else self.show(value)

    @property
    def words(self) -> str:
        """The heading in one line."""
        return self.heading.replace("-\n", "").replace("\n", " ")


def _is_missing(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)


def label(heading: str, once: bool = False) -> Column:
    """Return a column of names."""
    return Column(heading, is_name=True, once=once)


def amount(heading: str = "", form: str = "{}", once: bool = False) -> Column:
    """Return a column of figures in this format."""
    return Column(heading, form.format, once=once)


def count(heading: str = "") -> Column:
    """Return a column of whole numbers."""
    return amount(heading, "{:,}")


def share(heading: str = "") -> Column:
    """Return a column of shares, in percent."""
    return amount(heading, "{:.1%}")


def minutes(seconds: float) -> str:
    """Return a time in minutes, with a decimal if it is short."""
    return f"{seconds / 60:,.{1 if seconds < 6000 else 0}f}"


def hours(seconds: float) -> str:
    """Return a time in hours, with two decimals if it is short."""
    return f"{seconds / 3600:,.{2 if seconds < 360_000 else 1}f}"


def time(heading: str = "", show: Callable[[float], str] = minutes) -> Column:
    """Return a column of times, which the JSON has in seconds."""
    return Column(heading, show, "seconds")


def dropped(reasons: Mapping[str, int]) -> list[str]:
    """Return how many jobs of a trace are left out, and why, in sentences."""
    return [f"{jobs:,} jobs of the trace dropped: {reason}." for reason, jobs in reasons.items()]


@cache
def _described(record: Hashable) -> dict[str, Column]:
    hints = get_type_hints(record, include_extras=True)
    notes = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: note[0] for name, note in notes.items() if note}


def columns_of(record: type) -> list[Column]:
    """Return the columns that a class of records describes, and a table shows."""
    return [column for column in _described(record).values() if column.heading]


def values_of(figures: Any) -> list[Any]:
    """Return the values of a record for these columns."""
    described = _described(figures.__class__).items()
    return [getattr(figures, name) for name, column in described if column.heading]


def as_json(figures: Any) -> dict[str, Any]:
    """Return a record of figures as plain data: a time says its unit, NaN is null."""
    found = {}
    for name, column in _described(figures.__class__).items():
        value = getattr(figures, name)
        key = f"{name}_{column.unit}" if column.unit else name
        found[key] = None if _is_missing(value) else value
    return found


@dataclass(frozen=True, slots=True)
class Report:
    """Rows of figures with all that is said of them.

    :param title: what the figures are, with their unit.
    :param columns: of the rows.
    :param rows: with a value for each column.
    :param notes: what the headings do not say, a line each.
    :param findings: sentences.
    :param schema: of the JSON.
    :param data: what the JSON has beside its schema, the configuration and the times of the steps.
    :param pictures: what draws each, by the names of their files without suffix.
    :param sections: whether a line parts rows whose first values differ.

    >>> rows = [("fifo", 1024)]
    >>> report = Report("Jobs", [label("policy"), count("late")], rows, ["late: too late"])
    >>> print(report.lists(20))
    Jobs
    <BLANKLINE>
    policy fifo
      late         1,024
    <BLANKLINE>
    late: too late
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()
    findings: Sequence[str] = ()
    schema: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    pictures: Mapping[str, Callable[[], "Figure"]] = field(default_factory=dict)
    sections: bool = False

    def cells(self, repeat: bool = False) -> list[list[str]]:
        """Return the rows as they are shown, perhaps with names in each row."""
        found = []
        before: Sequence[Any] = ()
        for row in self.rows:
            same, texts = bool(before), []
            for column, value, above in zip(self.columns, row, before or row, strict=True):
                same = same and column.once and value == above
                hidden = same and not (repeat and column.is_name)
                texts.append("" if hidden else column.text(value))
            found.append(texts)
            before = row
        return found

    def table(self) -> "Table":
        """Return a table of Rich."""
        require("rich")
        from rich.box import SIMPLE_HEAD
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        looks: dict[str, Any] = dict.fromkeys(("show_edge", "pad_edge"), False)
        caption = "\n".join(self.notes)
        table = Table(
            title=self.title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True, **looks
        )
        rows = self.cells()
        for place, column in enumerate(self.columns):
            texts = [row[place] for row in rows]
            # Rich would cut off as much of a name as it is indented.
            width = max(map(cell_len, texts)) if any(text[:1] == " " for text in texts) else None
            table.add_column(
                column.heading,
                justify="left" if column.is_name else "right",
                no_wrap=not column.is_name,
                min_width=width,
            )
        for place, (row, texts) in enumerate(zip(self.rows, rows, strict=True)):
            if self.sections and place and row[0] != self.rows[place - 1][0]:
                table.add_section()
            table.add_row(*map(Text, texts))  # as text: a name in brackets is no colour
        return table

    def lists(self, width: int) -> str:
        """Return the rows one below the other, each as a list of its figures in this width."""
        blocks = [fill(self.title, width)]
        for row in self.cells(repeat=True):
            named, lines = [], []
            for column, text in zip(self.columns, row, strict=True):
                if column.is_name:
                    named.append(f"{column.words} {text.strip()}")
                elif text:
                    lines.append(
                        f"  {column.words} {text:>{max(width - len(column.words) - 3, 0)}}"
                    )
            blocks.append("\n".join([fill(", ".join(named), width), *lines]))
        blocks.append("\n".join(fill(note, width) for note in self.notes))
        return "\n\n".join(blocks)

    def to_json(
        self, configuration: Mapping[str, Any], runtime_seconds: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return plain data for `json.dump`; times are in seconds.

        :param configuration: how the report was asked for, stored as it is.
        :param runtime_seconds: how long the steps took; all else is equal for equal inputs.
        """
        return {
            "schema": self.schema,
            "configuration": dict(configuration),
            **self.data,
            "runtime_seconds": dict(runtime_seconds),
        }

    def save_pictures(self, folder: str | Path) -> list[Path]:
        """Draw the pictures, write them as PNG files into a folder and return their paths."""
        require("matplotlib")
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        return [save_figure(draw(), target / f"{name}.png") for name, draw in self.pictures.items()]
