"""Who has made whom leave since something has happened outside.

What priorities, quotas and cells entitle to may contradict one another: each of three jobs may then
make the next one leave, for ever. So nobody makes those leave, before something else happens, for
whom it has had to leave itself, or for whom these had to. That is an order without circles, and
whoever is not below anybody leaves no more: sequences of evictions end.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Self

from hivecore._arguments import as_name
from hivecore._trial import UndoLog

__all__ = ["OUTSIDE", "Precedence"]

#: That something has happened outside, so that nobody has precedence any more.
OUTSIDE = ("scheduler", "outside")


class Precedence:
    """The order among jobs, by name."""

    __slots__ = ("_above", "_log")

    def __init__(self, log: UndoLog, above: Mapping[str, Iterable[str]] | None = None) -> None:
        self._log = log
        self._above = {name: set(others) for name, others in (above or {}).items()}

    def __bool__(self) -> bool:
        """Whether anybody had to leave."""
        return bool(self._above)

    def above(self, name: str) -> Collection[str]:
        """Whom a job does not make leave."""
        return self._above.get(name, ())

    def note(self, winner: str, victims: Collection[str]) -> None:
        """Some have to leave for another one."""
        if self._log.is_on:
            before = {name: above.copy() for name, above in self._above.items()}
            self._log.add(setattr, self, "_above", before)
        gone = set(victims)
        over = {winner, *self.above(winner)}
        gone.update([name for name, above in self._above.items() if not gone.isdisjoint(above)])
        for name in gone:
            self._above.setdefault(name, set()).update(over)

    def clear(self) -> None:
        """Something has happened outside."""
        if self._log.is_on:
            self._log.add(setattr, self, "_above", self._above)
        self._above = {}

    def branch(self, log: UndoLog) -> Self:
        """An equal for a branch."""
        return type(self)(log, self._above)

    def plain(self) -> dict[str, list[str]]:
        """All of it as plain data."""
        return {name: sorted(above) for name, above in self._above.items()}

    @classmethod
    def of_plain(cls, log: UndoLog, data: Mapping[str, Iterable[str]]) -> Self:
        """The order that plain data tell."""
        above = {name: [as_name(one, "precedence") for one in data[name]] for name in data}
        return cls(log, above)
