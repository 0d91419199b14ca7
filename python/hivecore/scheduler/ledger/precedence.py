"""Which job was evicted for which since the last external event.

The rules of priorities, quotas and cells may contradict one another: each of three jobs may then
evict the next, for ever. So until the next external event no job evicts a job for which it was
evicted itself, directly or through others. That order has no cycles, and a job that is below no
other is evicted no more: sequences of evictions end.

Likewise no quota takes guaranteed jobs back from a quota that took some from it: jobs of both
quotas in turn would go on as long as there are any.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Self

from hivecore._arguments import as_name
from hivecore._trial import UndoLog

__all__ = ["OUTSIDE", "Precedence", "of_quota"]

#: An external event has happened, after which no job has precedence.
OUTSIDE = ("scheduler", "outside")


def of_quota(quota: str) -> str:
    """The name of a quota among those of jobs, which do not begin with "/"."""
    return f"/{quota}"


class Precedence:
    """The order among jobs, and among quotas, by name."""

    __slots__ = ("_log", "order")

    def __init__(self, log: UndoLog, above: Mapping[str, Iterable[str]] | None = None) -> None:
        self._log = log
        #: the jobs that each job must not evict; empty: no job was evicted
        self.order = {name: set(others) for name, others in (above or {}).items()}

    def above(self, name: str) -> Collection[str]:
        """The jobs that a job must not evict."""
        return self.order.get(name, ())

    def note(self, winner: str, victims: Collection[str]) -> None:
        """Jobs are evicted for another job."""
        if self._log.is_on:
            before = {name: above.copy() for name, above in self.order.items()}
            self._log.add((setattr, self, "order", before))
        gone = set(victims)
        over = {winner, *self.above(winner)}
        gone.update([name for name, above in self.order.items() if not gone.isdisjoint(above)])
        for name in gone:
            self.order.setdefault(name, set()).update(over)

    def clear(self) -> None:
        """An external event has happened."""
        self._log.set(self, "order", {})

    def branch(self, log: UndoLog) -> Self:
        """An equal for a branch."""
        return type(self)(log, self.order)

    def plain(self) -> dict[str, list[str]]:
        """The order as plain data."""
        return {name: sorted(above) for name, above in self.order.items()}

    @classmethod
    def of_plain(cls, log: UndoLog, data: Mapping[str, Iterable[str]]) -> Self:
        """The order from plain data."""
        above = {name: [as_name(one, "precedence") for one in data[name]] for name in data}
        return cls(log, above)
