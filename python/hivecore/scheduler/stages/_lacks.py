"""What the kinds that quotas refuse lack, as one table.

Each event moves the runtimes of many quotas a little, and thousands of kinds may wait for one of
them. So what each needs, and at which quota, stands in arrays: one comparison says for whom there
may be enough now.
"""

import copy
from collections.abc import Mapping
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from hivecore.decisions import Refusal
from hivecore.quotas import QuotaTree

__all__ = ["HEADROOM", "LIMITS", "Lacks"]

Limit = Literal["runtime", "max", "total"]
#: That limits or what is used have changed somewhere.
HEADROOM = ("quotas", "headroom")
#: The refusals that end when there is enough headroom.
LIMITS: tuple[Limit, ...] = ("runtime", "max", "total")


class _Table:
    """Needs by kind, in rows without gaps."""

    def __init__(self, columns: int) -> None:
        self.rows: dict[int, int] = {}
        self._numbers: npt.NDArray[np.int64] = np.zeros(16, dtype=np.int64)
        self._at: npt.NDArray[np.int64] = np.zeros(16, dtype=np.int64)
        self._needs: npt.NDArray[np.int64] = np.zeros((16, columns), dtype=np.int64)

    def copy(self) -> Self:
        """An equal of its own."""
        made = copy.copy(self)
        made.rows, made._numbers = self.rows.copy(), self._numbers.copy()
        made._at, made._needs = self._at.copy(), self._needs.copy()
        return made

    def add(self, number: int, quota: int, needs: list[int]) -> None:
        """A kind needs so much at a quota."""
        row = self.rows[number] = len(self.rows)
        if row == len(self._numbers):
            self._numbers = np.concatenate([self._numbers, self._numbers])
            self._at = np.concatenate([self._at, self._at])
            self._needs = np.concatenate([self._needs, self._needs])
        self._numbers[row], self._at[row], self._needs[row] = number, quota, needs

    def drop(self, number: int) -> None:
        """A kind needs it no more; one that is not known is no error."""
        row = self.rows.pop(number, None)
        last = len(self.rows)
        if row is not None and row < last:
            moved = int(self._numbers[last])
            self.rows[moved], self._numbers[row] = row, moved
            self._at[row], self._needs[row] = self._at[last], self._needs[last]

    def able(self, tree: QuotaTree, limit: Limit, dimensions: list[str]) -> list[int]:
        """The kinds for which there is enough."""
        used = slice(len(self.rows))
        has = tree.have_room(limit, self._at[used], self._needs[used], dimensions)
        found: list[int] = self._numbers[used][has].tolist()
        return found


class Lacks:
    """Needs by kind and limit."""

    def __init__(self, tree: QuotaTree) -> None:
        self._tree = tree
        names = tree.quotas
        self._quotas = {name: row for row, name in enumerate(names)}
        self._managed = {name: dict(tree.quota(name).max) for name in names}
        self._dimensions = sorted({one for of in self._managed.values() for one in of})
        self._tables: dict[str, _Table] = {limit: _Table(len(self._dimensions)) for limit in LIMITS}

    def branch(self, tree: QuotaTree | None) -> Self | None:
        """An equal for a copy of the tree."""
        if tree is None:
            return None
        made = copy.copy(self)
        made._tree = tree
        made._tables = {limit: table.copy() for limit, table in self._tables.items()}
        return made

    def add(self, number: int, refusal: Refusal, quota: str, amounts: Mapping[str, int]) -> None:
        """A kind is refused at a quota, or by the tree of its own."""
        part = refusal.part or quota
        managed = self._managed[part]
        needs = [amounts.get(name, 0) if name in managed else 0 for name in self._dimensions]
        self.drop(number)
        self._tables[refusal.code].add(number, self._quotas[part], needs)

    def drop(self, number: int) -> None:
        """A kind is not refused any more; one that is not known is no error."""
        for table in self._tables.values():
            table.drop(number)

    def able(self) -> list[int]:
        """The kinds for which there is enough where they were refused."""
        found: list[int] = []
        for limit in LIMITS:
            table = self._tables[limit]
            if table.rows:
                found += table.able(self._tree, limit, self._dimensions)
        return found
