"""Evictions that were told, by quota, and the limits that they keep to.

A job that might start if these allowed more is tried again as soon as they do.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
        return max(self._ripe_at(live, now), self._room_at(live.job.quota, 1, now))

    def _ripe_at(self, live: Live, now: float) -> float:
        """When a job has run for long enough."""
        limit = self._of(live.job.quota)
        if limit is None or live.extra_of:
            return now
        return max(now, live.since + limit.min_run_time)

    def all_free_at(self, victims: Iterable[Live], now: float) -> float:
        """When all of these may be evicted together; inf: never."""
        counts = Counter(live.job.quota for live in victims) if self.limits else {}
        return max((self._room_at(quota, many, now) for quota, many in counts.items()), default=now)

    def reasons(self, victims: Sequence[Live], now: float) -> Iterator[str]:
        """Why these may not all be evicted together now."""
        for live in victims:
            ripe = self._ripe_at(live, now)
            if ripe > now:
                yield f"{live.job.name} is protected until {ripe:g}"
        for quota, most in self.left({live.job.quota for live in victims}, now).items():
            count = sum(live.job.quota == quota for live in victims)
            if count > most:
                yield self._spent(quota, count, now)

    def _spent(self, quota: str, many: int, now: float) -> str:
        limit, time = self._of(quota), self._room_at(quota, many, now)
        assert limit is not None
        used, most = len(self._recent(quota, now)), limit.per_hour
        until = f"until {time:g}" if time < inf else "which is too few at any time"
        return f"{quota} has used {used} of its {most} evictions of an hour, {until}"

    def left(self, quotas: Iterable[str], now: float) -> dict[str, int]:
        """By quota with a limit, how many of its jobs may be evicted now."""
        limits = {quota: self._of(quota) for quota in quotas} if self.limits else {}
        return {
            quota: limit.per_hour - len(self._recent(quota, now))
            for quota, limit in limits.items()
            if limit is not None and limit.per_hour is not None
        }

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
