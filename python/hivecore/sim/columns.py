r"""Columns of figures: heading, format and unit, defined once.

A record of figures has them in its annotations:

    mean_delay: Annotated[float, columns.time("mean\ndelay")]

`of` returns a table's columns, `as_json` the keys and values of the JSON.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache, partial
from math import isnan
from typing import Any, get_type_hints

__all__ = [
    "Column",
    "as_json",
    "count",
    "hours",
    "label",
    "minutes",
    "of",
    "share",
    "short",
    "time",
    "values",
]


@dataclass(frozen=True, slots=True)
class Column:
    """How a figure is shown.

    :param heading: of the column; a figure without one is only in the JSON.
    :param show: a format or a function. NaN is shown as "-", ``None`` as nothing.
    :param unit: suffix of its name in the JSON.
    :param is_name: left-aligned, unlike figures.
    :param once: leave it out below an equal value, if everything to its left is equal too.
    """

    heading: str = ""
    show: str | Callable[[Any], str] = "{}"
    unit: str = ""
    is_name: bool = False
    once: bool = False

    def text(self, value: Any) -> str:
        """Return a value as text."""
        if value is None or _is_missing(value):
            return "" if value is None else "-"
        return self.show.format(value) if isinstance(self.show, str) else self.show(value)

    @property
    def words(self) -> str:
        """The heading as one line."""
        return self.heading.replace("-\n", "").replace("\n", " ")


def _is_missing(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)


def minutes(seconds: float) -> str:
    """Return a time in minutes, with a decimal if it is short."""
    return f"{seconds / 60:,.{1 if seconds < 6000 else 0}f}"


def short(value: float) -> str:
    """Return a figure, with a decimal if it is small."""
    return f"{value:,.{1 if value < 1000 else 0}f}"


def hours(seconds: float) -> str:
    """Return a time in hours, with two decimals if it is short."""
    return f"{seconds / 3600:,.{2 if seconds < 360_000 else 1}f}"


#: Columns of names, whole numbers, percentages, and times (in seconds in the JSON).
label = partial(Column, is_name=True)
count = partial(Column, show="{:,}")
share = partial(Column, show="{:.1%}")
time = partial(Column, show=minutes, unit="seconds")


@cache
def _described(record: Hashable) -> dict[str, Column]:
    hints = get_type_hints(record, include_extras=True)
    notes = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: note[0] for name, note in notes.items() if note}


def of(record: type) -> list[Column]:
    """Return the table columns that a class of records defines."""
    return [column for column in _described(record).values() if column.heading]


def values(figures: Any) -> list[Any]:
    """Return a record's values for these columns."""
    described = _described(figures.__class__).items()
    return [getattr(figures, name) for name, column in described if column.heading]


def as_json(figures: Any) -> dict[str, Any]:
    """Return a record as plain data: names of times have a unit, NaN becomes null."""
    data = {}
    for name, column in _described(figures.__class__).items():
        value = getattr(figures, name)
        key = f"{name}_{column.unit}" if column.unit else name
        data[key] = None if _is_missing(value) else value
    return data
