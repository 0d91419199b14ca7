"""The look of the tables that the command prints."""

from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import TYPE_CHECKING

from hivecore.sim.extras import require

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["as_lists", "empty_table", "minutes", "side_by_side"]

_NAMES = (
    "configuration",
    "job",
    "load",
    "policy",
    "quota",
    "resource",
    "spec",
    "state",
    "storage",
    "tenant",
    "why",
)


def empty_table(title: str, caption: str, headings: Iterable[str]) -> "Table":
    """Return a Rich table without rows: figures to the right, names to the left.

    :param title: what the figures are, with their unit.
    :param caption: what the headings do not say.
    :param headings: of the columns.

    >>> table = empty_table("Delays", "in seconds", ["policy", "mean"])
    >>> [column.justify for column in table.columns]
    ['left', 'right']
    """
    require("rich")
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=title,
        caption=caption,
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    for heading in headings:
        name = heading in _NAMES
        table.add_column(heading, justify="left" if name else "right", no_wrap=not name)
    return table


def side_by_side(
    title: str, caption: str, what: str, rows: Mapping[str, Mapping[str, str]]
) -> "Table":
    """Return a Rich table with a row for each of several configurations.

    :param title: what the figures are, with their unit.
    :param caption: what the headings do not say.
    :param what: the configurations are: heading of their names.
    :param rows: by name of a configuration its figures by heading, the same for all.

    >>> rows = {"a": {"mean": "5"}, "b": {"mean": "7"}}
    >>> table = side_by_side("Delays", "in seconds", "spec", rows)
    >>> [[str(cell) for cell in column.cells] for column in table.columns]
    [['a', 'b'], ['5', '7']]
    """
    from rich.text import Text

    headings = next(iter(rows.values()), {})
    table = empty_table(title, caption, [what, *headings])
    for name, figures in rows.items():
        # As text: a name in brackets is no colour.
        table.add_row(Text(name), *(figures[heading] for heading in headings))
    return table


def as_lists(table: "Table", width: int) -> str:
    """Return the rows of a table one below the other, each as a list of its figures.

    :param table: of `empty_table`. An empty cell in a column of names repeats the name above it.
    :param width: of the text, in characters, unless a word is longer.

    >>> table = empty_table("Delays", "in seconds", ["policy", "late"])
    >>> table.add_row("fifo", "1,024")
    >>> print(as_lists(table, 20))
    Delays
    <BLANKLINE>
    policy fifo
      late         1,024
    <BLANKLINE>
    in seconds
    """
    blocks = [fill(str(table.title), width)]
    names: dict[str, str] = {}
    for row in zip(*(column.cells for column in table.columns), strict=True):
        lines = []
        for column, cell in zip(table.columns, row, strict=True):
            heading = str(column.header).replace("-\n", "").replace("\n", " ")
            if heading in _NAMES:
                names[heading] = str(cell).strip() or names[heading]
            elif cell:
                lines.append(f"  {heading} {cell:>{max(width - len(heading) - 3, 0)}}")
        title = ", ".join(f"{heading} {name}" for heading, name in names.items())
        blocks.append("\n".join([fill(title, width), *lines]))
    blocks.append("\n".join(fill(line, width) for line in str(table.caption).split("\n")))
    return "\n\n".join(blocks)


def minutes(seconds: float) -> str:
    """Return a time in minutes, with a decimal if it is short.

    :param seconds: at least 0.

    >>> minutes(90.0), minutes(90_000.0)
    ('1.5', '1,500')
    """
    return f"{seconds / 60:,.1f}" if seconds < 6000 else f"{seconds / 60:,.0f}"
