"""The report of a simulation: a table for people, JSON for programs, pictures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from hivecore._stateful import counted
from hivecore.sim.columns import Column
from hivecore.sim.pictures import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

__all__ = ["Report", "dropped", "require"]


def require(library: str) -> None:
    """Explain how to install a missing library of the extra ``sim``."""
    if not find_spec(library):
        message = f"this needs {library}: pip install 'hivecore[sim]'"
        raise ModuleNotFoundError(message, name=library)


def dropped(reasons: Mapping[str, int]) -> list[str]:
    """Return how many jobs of a trace are left out, and why, as sentences."""
    return [
        f"{counted(jobs, 'job')} of the trace dropped: {reason}."
        for reason, jobs in reasons.items()
    ]


@dataclass(frozen=True, slots=True)
class Report:
    """Rows of figures with everything that is said about them.

    :param title: what the figures are, with their unit.
    :param columns: of the rows.
    :param rows: with a value for each column.
    :param notes: lines that explain the headings.
    :param findings: sentences.
    :param schema: the name of the JSON's schema.
    :param data: of the JSON, beside its schema, configuration and times.
    :param pictures: file name without suffix -> a function that returns the picture.
    :param sections: whether a line separates rows with different first values.

    >>> columns = [Column("policy", is_name=True), Column("late", "{:,}")]
    >>> report = Report("Jobs", columns, [("fifo", 1024)])
    >>> print(report.lists(20))
    Jobs
    <BLANKLINE>
    policy fifo
      late         1,024
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
        """Return the rows as text; in ``once`` columns, what repeats the row above is "".

        :param repeat: whether to write such values of ``is_name`` columns nevertheless.
        """
        shown = []
        before: Sequence[Any] = ()
        for row in self.rows:
            same, texts = bool(before), []
            for column, value, above in zip(self.columns, row, before or row, strict=True):
                same = same and column.once and value == above
                hidden = same and not (repeat and column.is_name)
                texts.append("" if hidden else column.text(value))
            shown.append(texts)
            before = row
        return shown

    def table(self) -> "Table":
        """Return a Rich table."""
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
            table.add_row(*map(Text, texts))  # as text, so that a name in brackets is not a colour
        return table

    def lists(self, width: int) -> str:
        """Return the rows below each other, each as a list of figures in this width."""
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
        if self.notes:
            blocks.append("\n".join(fill(note, width) for note in self.notes))
        return "\n\n".join(blocks)

    def to_json(
        self, configuration: Mapping[str, Any], runtime_seconds: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return plain data for `json.dump`; times are in seconds.

        :param configuration: how the report was requested, stored unchanged.
        :param runtime_seconds: durations of the steps; all else is equal for equal inputs.
        """
        return {
            "schema": self.schema,
            "configuration": dict(configuration),
            **self.data,
            "runtime_seconds": dict(runtime_seconds),
        }

    def save_pictures(self, folder: str | Path) -> list[Path]:
        """Write the pictures as PNG files into a folder, and return their paths."""
        require("matplotlib")
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        return [save_figure(draw(), target / f"{name}.png") for name, draw in self.pictures.items()]
