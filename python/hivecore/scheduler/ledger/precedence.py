"""Records which job was evicted for which since the last external event.

The rules of priorities, quotas and cells may contradict each other, so that three jobs could evict
each other forever. Therefore no job may evict a job that it was evicted for, directly or through
others, until the next external event. This order has no cycles, so sequences of evictions end.

Likewise, no quota may take guaranteed jobs back from a quota that took some from it; otherwise the
two could take turns.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Self

from hivecore._arguments import as_name
from hivecore._trial import UndoLog

__all__ = ["OUTSIDE", "Precedence", "of_quota"]

#: touched when an external event has cleared the order
OUTSIDE = ("scheduler", "outside")


def of_quota(quota: str) -> str:
    """The name of a quota in the order; names of jobs do not begin with "/"."""
    return f"/{quota}"


class Precedence:
    """The order among jobs and among quotas, by name."""

    __slots__ = ("_log", "order")

    def __init__(self, log: UndoLog, above: Mapping[str, Iterable[str]] | None = None) -> None:
        self._log = log
        #: for each job, the jobs that it must not evict
        self.order = {name: set(others) for name, others in (above or {}).items()}

    def above(self, name: str) -> Collection[str]:
        """The jobs that a job must not evict."""
        return self.order.get(name, ())

    def note(self, winner: str, victims: Collection[str]) -> None:
        """Record that jobs are evicted for another job."""
        if self._log.is_on:
            before = {name: above.copy() for name, above in self.order.items()}
            self._log.add((setattr, self, "order", before))
        gone = set(victims)
        over = {winner, *self.above(winner)}
        gone.update([name for name, above in self.order.items() if not gone.isdisjoint(above)])
        for name in gone:
            self.order.setdefault(name, set()).update(over)

    def clear(self) -> None:
        """Clear the order after an external event."""
        self._log.set(self, "order", {})

    def branch(self, log: UndoLog) -> Self:
        """A copy for a branch."""
        return type(self)(log, self.order)

    def plain(self) -> dict[str, list[str]]:
        """The order as plain data."""
        return {name: sorted(self.order[name]) for name in sorted(self.order)}

    @classmethod
    def of_plain(cls, log: UndoLog, data: Mapping[str, Iterable[str]]) -> Self:
        """The order from plain data."""
        above = {name: [as_name(other, "precedence") for other in data[name]] for name in data}
        return cls(log, above)
