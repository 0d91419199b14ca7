"""Figures as plain data for JSON, where the name of a time says its unit."""

from collections.abc import Mapping
from typing import Any

__all__ = ["with_units"]

_TIMES = ("delay", "excess", "completion", "queueing", "makespan", "window", "instants")


def with_units(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures, with ``_seconds`` behind the names of times.

    :param figures: by name, times in seconds.

    >>> with_units({"mean_delay": 60.0, "later": 3})
    {'mean_delay_seconds': 60.0, 'later': 3}
    """
    return {
        f"{name}_seconds" if name.rpartition("_")[2] in _TIMES else name: value
        for name, value in figures.items()
    }
