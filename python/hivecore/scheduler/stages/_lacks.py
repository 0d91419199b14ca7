"""What the kinds that quotas refuse lack, as one table.

Each event moves the runtimes of many quotas a little, and thousands of kinds may wait for one of
them. So what each needs, and at which quota, stands in arrays: one comparison says for whom there
may be enough now.
"""

import copy
from collections.abc import Mapping
from typing import Self

import numpy as np
import numpy.typing as npt

from hivecore.decisions import Refusal
from hivecore.quotas import QuotaTree

__all__ = ["HEADROOM", "LIMITS", "Lacks"]

#: That limits or what is used have changed somewhere.
HEADROOM = ("quotas", "headroom")
#: The refusals that end when there is enough headroom.
LIMITS = ("runtime", "max", "total")


class Lacks:
    """Needs by kind; rows of kinds that are gone are used again."""

    def __init__(self, tree: QuotaTree) -> None:
        self._tree = tree
        names = tree.quotas
        self._quotas = {name: row for row, name in enumerate(names)}
        self._managed = {name: dict(tree.quota(name).max) for name in names}
        self._dimensions = sorted({one for of in self._managed.values() for one in of})
        self._rows: dict[int, int] = {}
        self._free: list[int] = []
        self._numbers: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._limits: npt.NDArray[np.int8] = np.zeros(0, dtype=np.int8)  # -1: the row is free
        #: how many rows there are of each limit
        self._counts = [0] * len(LIMITS)
        self._at: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._needs: npt.NDArray[np.int64] = np.zeros((0, len(self._dimensions)), dtype=np.int64)

    def branch(self, tree: QuotaTree | None) -> Self | None:
        """An equal for a copy of the tree."""
        if tree is None:
            return None
        made = copy.copy(self)
        made._tree, made._rows, made._free = tree, self._rows.copy(), self._free.copy()
        made._numbers, made._limits = self._numbers.copy(), self._limits.copy()
        made._at, made._needs = self._at.copy(), self._needs.copy()
        made._counts = self._counts.copy()
        return made

    def add(self, number: int, refusal: Refusal, quota: str, amounts: Mapping[str, int]) -> None:
        """A kind is refused at a quota, or by the tree of its own."""
        part = refusal.part or quota
        if not self._free:
            self._grow()
        row = self._rows[number] = self._free.pop()
        managed = self._managed[part]
        self._numbers[row] = number
        limit = LIMITS.index(refusal.code)
        self._limits[row] = limit
        self._counts[limit] += 1
        self._at[row] = self._quotas[part]
        self._needs[row] = [
            amounts.get(name, 0) if name in managed else 0 for name in self._dimensions
        ]

    def drop(self, number: int) -> None:
        """A kind is not refused any more; one that is not known is no error."""
        row = self._rows.pop(number, None)
        if row is not None:
            self._counts[self._limits[row]] -= 1
            self._limits[row] = -1
            self._free.append(row)

    def able(self) -> list[int]:
        """The kinds for which there is enough where they were refused."""
        found: list[int] = []
        for limit, name in enumerate(LIMITS):
            if not self._counts[limit]:
                continue
            rows = (self._limits == limit).nonzero()[0]
            headroom = self._tree.headroom(name, self._dimensions)  # type: ignore[arg-type]
            has = self._needs.take(rows, axis=0) <= headroom.take(self._at.take(rows), axis=0)
            enough = rows[np.logical_and.reduce(has, axis=1)]
            if len(enough):
                found += self._numbers[enough].tolist()
        return found

    def _grow(self) -> None:
        before = len(self._numbers)
        more = max(16, before)
        self._free = list(range(before + more - 1, before - 1, -1))
        self._numbers = np.concatenate([self._numbers, np.zeros(more, dtype=np.int64)])
        self._limits = np.concatenate([self._limits, np.full(more, -1, dtype=np.int8)])
        self._at = np.concatenate([self._at, np.zeros(more, dtype=np.int64)])
        empty = np.zeros((more, len(self._dimensions)), dtype=np.int64)
        self._needs = np.concatenate([self._needs, empty])
