"""The look of the tables that the command prints."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["empty_table"]

_NAMES = ("policy", "storage", "tenant")


def empty_table(title: str, caption: str, headings: Iterable[str]) -> "Table":
    """Return a Rich table without rows: figures to the right, names to the left.

    :param title: what the figures are, with their unit.
    :param caption: what the headings do not say.
    :param headings: of the columns.

    >>> table = empty_table("Delays", "in seconds", ["policy", "mean"])
    >>> [column.justify for column in table.columns]
    ['left', 'right']
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True)
    for heading in headings:
        name = heading in _NAMES
        table.add_column(heading, justify="left" if name else "right", no_wrap=not name)
    return table
