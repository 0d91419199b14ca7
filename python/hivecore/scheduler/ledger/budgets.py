"""Evictions that were told, by quota, and the limits that they keep to.

A job that might start if these allowed more is tried again as soon as they do.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, Self

from hivecore._arguments import as_float, as_name
from hivecore._trial import UndoLog
from hivecore.scheduler.eviction_limit import EvictionLimit
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.plain import record_of_plain

__all__ = ["Budgets"]

_HOUR = 3600.0
_Times = tuple[float, ...]


class Budgets:
    """The limits, and when jobs were evicted in the last hour."""

    __slots__ = ("_log", "_told", "limits")

    def __init__(self, limits: Mapping[str, EvictionLimit], log: UndoLog) -> None:
        self.limits, self._log = limits, log
        self._told: dict[str, _Times] = {}

    def free_at(self, live: Live, now: float) -> float:
        """When a running job may be evicted, as far as it alone is concerned."""
        limit = self._of(live.job.quota)
        if limit is None:
            return now
        ripe = now if live.extra_of else live.since + limit.min_run_time
        return max(now, ripe, self._room_at(live.job.quota, 1, now))

    def all_free_at(self, victims: Iterable[Live], now: float) -> float:
        """When all of these may be evicted together; inf: never."""
        counts = Counter(live.job.quota for live in victims) if self.limits else {}
        return max((self._room_at(quota, many, now) for quota, many in counts.items()), default=now)

    def _of(self, quota: str) -> EvictionLimit | None:
        return self.limits.get(quota, self.limits.get(""))

    def _room_at(self, quota: str, many: int, now: float) -> float:
        limit = self._of(quota)
        if limit is None or limit.per_hour is None:
            return now
        if many > limit.per_hour:
            return inf
        recent = self._recent(quota, now)
        over = len(recent) + many - limit.per_hour
        return now if over <= 0 else recent[over - 1] + _HOUR

    def _recent(self, quota: str, now: float) -> _Times:
        return tuple(time for time in self._told.get(quota, ()) if time + _HOUR > now)

    def note(self, quota: str, now: float) -> None:
        """A job of a quota was told to leave for another job."""
        limit = self._of(quota)
        if limit is not None and limit.per_hour is not None:
            self._log.keep(self._told, quota)
            self._told[quota] = (*self._recent(quota, now), now)

    def branch(self, log: UndoLog) -> Self:
        """An equal for a branch."""
        branch = type(self)(self.limits, log)
        branch._told = self._told.copy()
        return branch

    def plain(self) -> list[Any]:
        """All of it as plain data; empty: there are no limits."""
        return [list(self.limits.values()), self._told] if self.limits else []

    @classmethod
    def of_plain(cls, data: list[Any], log: UndoLog) -> Self:
        """All of it from plain data."""
        limits, told = data or ([], {})
        read = [record_of_plain(EvictionLimit, one) for one in limits]
        made = cls({one.quota: one for one in read}, log)
        for quota, times in told.items():
            found = tuple(as_float(time, "evictions") for time in times)
            if list(found) != sorted(found):
                raise ValueError("evictions: not in order")
            made._told[as_name(quota, "evictions")] = found
        return made
