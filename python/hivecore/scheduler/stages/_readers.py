"""The jobs that read data, as columns in order of arrival."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

__all__ = ["Floats", "Indices", "Readers"]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_LEAST = 16


class Readers:
    """A row for each job that reads data. Rows of ended jobs are reused when all rows are taken.

    Adding a job may move rows, so do not keep their numbers.
    """

    def __init__(self) -> None:
        self.row: dict[str, int] = {}
        self.names: list[str] = []
        self.is_here, self.runs = np.zeros(_LEAST, np.bool_), np.zeros(_LEAST, np.bool_)
        self.dataset = np.zeros(_LEAST, np.int64)
        #: MB/s as submitted, MB/s as observed, and GB in all
        self.full, self.rate, self.total = np.zeros(_LEAST), np.zeros(_LEAST), np.zeros(_LEAST)
        #: MB/s of remote IO as allocated, and GB that are cached; NaN: not observed
        self.io, self.hit = np.zeros(_LEAST), np.zeros(_LEAST)
        #: when it began (NaN: unknown), GB that it had read, and when that was counted
        self.began, self.read, self.at = np.zeros(_LEAST), np.zeros(_LEAST), np.zeros(_LEAST)

    def copy(self) -> Self:
        """An independent copy."""
        readers = type(self)()
        readers.row, readers.names = self.row.copy(), self.names.copy()
        for name in _COLUMNS:
            setattr(readers, name, getattr(self, name).copy())
        return readers

    def come(self, name: str, dataset: int, rate: float, total: float) -> None:
        """Add a waiting job."""
        if len(self.names) == len(self.runs):
            self._make_room()
        row = self.row[name] = len(self.names)
        self.names.append(name)
        self.is_here[row], self.dataset[row] = True, dataset
        self.full[row], self.total[row] = rate, total
        self.stop(row)

    def go(self, name: str) -> None:
        """Remove a job."""
        row = self.row.pop(name)
        self.is_here[row] = self.runs[row] = False

    def stop(self, row: int) -> None:
        """Let a job wait; it starts from nothing."""
        self.runs[row], self.rate[row], self.io[row] = False, self.full[row], 0.0
        self.hit[row] = self.began[row] = np.nan
        self.read[row] = self.at[row] = 0.0

    def values(self, row: int) -> list[Any]:
        """All columns of a row, for `put`."""
        return [getattr(self, name)[row] for name in _COLUMNS]

    def put(self, row: int, values: list[Any]) -> None:
        """Restore a row."""
        for name, value in zip(_COLUMNS, values, strict=True):
            getattr(self, name)[row] = value

    def here(self) -> Indices:
        """The rows of all jobs, in order of arrival."""
        return self.is_here.nonzero()[0]

    def running(self) -> Indices:
        """The rows of running jobs."""
        return self.runs.nonzero()[0]

    def waiting(self) -> Indices:
        """The rows of waiting jobs."""
        return (self.is_here & ~self.runs).nonzero()[0]

    def sort(self, names: Iterable[str]) -> None:
        """Order the rows as these names, which may be those of other jobs, too."""
        self.row = {name: self.row[name] for name in names if name in self.row}
        self._make_room()

    def _make_room(self) -> None:
        alive = list(self.row.values())
        for name in _COLUMNS:
            before = getattr(self, name)
            column = np.zeros(max(2 * len(alive), _LEAST), before.dtype)
            column[: len(alive)] = before[alive]
            setattr(self, name, column)
        self.names = list(self.row)
        self.row = {name: row for row, name in enumerate(self.names)}


_COLUMNS = [name for name, value in vars(Readers()).items() if isinstance(value, np.ndarray)]
