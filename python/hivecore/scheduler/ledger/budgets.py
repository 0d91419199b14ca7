"""Recent evictions by quota, and the limits on them.

A job that a limit keeps from starting is tried again as soon as the limit allows it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any, Self

from hivecore._arguments import as_float, as_instance, as_name, as_tuple
from hivecore._trial import UndoLog
from hivecore.scheduler.eviction_limit import EvictionLimit
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.plain import record_of_plain

__all__ = ["Budgets", "by_quota"]

_HOUR = 3600.0
_Times = tuple[float, ...]


class Budgets:
    """Limits on evictions, and the times of evictions in the last hour."""

    __slots__ = ("_evicted", "_log", "limits")

    def __init__(self, limits: Iterable[EvictionLimit], log: UndoLog) -> None:
        self.limits, self._log = by_quota(limits), log
        self._evicted: dict[str, _Times] = {}

    def change(self, limits: dict[str, EvictionLimit]) -> None:
        """Replace all limits. Recent evictions of quotas that keep a limit per hour count."""
        self._log.set(self, "limits", limits)
        kept = {quota: times for quota, times in self._evicted.items() if self._is_counted(quota)}
        self._log.set(self, "_evicted", kept)

    def _is_counted(self, quota: str) -> bool:
        limit = self._of(quota)
        return limit is not None and limit.per_hour is not None

    def free_at(self, live: Live, now: float) -> float:
        """When a running job may be evicted, if no other job is."""
        return max(self._ripe_at(live, now), self._room_at(live.job.quota, 1, now))

    def _ripe_at(self, live: Live, now: float) -> float:
        """When a job has run for long enough."""
        limit = self._of(live.job.quota)
        if limit is None or live.extra_of:
            return now
        return max(now, live.since + limit.min_run_time)

    def all_free_at(self, victims: Iterable[Live], now: float) -> float:
        """When all of these jobs may be evicted together; inf: never."""
        counts = Counter(live.job.quota for live in victims) if self.limits else {}
        return max((self._room_at(quota, many, now) for quota, many in counts.items()), default=now)

    def next_end(self, running: Iterable[Live], since: float) -> float:
        """When a limit that protects running jobs first ends, not before ``since``; inf: never."""
        limits = ((live, self._of(live.job.quota)) for live in running)
        ends = [live.since + limit.min_run_time for live, limit in limits if limit is not None]
        ends += [time + _HOUR for times in self._evicted.values() for time in times]
        return min((end for end in ends if end >= since), default=inf)

    def reasons(self, victims: Sequence[Live], now: float) -> Iterator[str]:
        """The limits that forbid to evict all of these jobs together now."""
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
        """Evictions left now, for each quota with a limit."""
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
        return tuple(time for time in self._evicted.get(quota, ()) if time + _HOUR > now)

    def note(self, quota: str, now: float) -> None:
        """Record that a job of a quota was evicted for another job."""
        if self._is_counted(quota):
            self._log.keep(self._evicted, quota)
            self._evicted[quota] = (*self._recent(quota, now), now)

    def branch(self, log: UndoLog) -> Self:
        """A copy for a branch."""
        branch = type(self)(self.limits.values(), log)
        branch._evicted = self._evicted.copy()
        return branch

    def plain(self) -> list[Any]:
        """The limits and evictions as plain data; empty if there are no limits."""
        return [list(self.limits.values()), self._evicted] if self.limits else []

    @classmethod
    def of_plain(cls, data: list[Any], log: UndoLog) -> Self:
        """The limits and evictions from plain data."""
        limits, evictions = data or ([], {})
        read = [record_of_plain(EvictionLimit, plain) for plain in limits]
        budgets = cls(read, log)
        for quota, times in evictions.items():
            moments = tuple(as_float(time, "evictions") for time in times)
            if list(moments) != sorted(moments):
                raise ValueError("evictions: not in order")
            budgets._evicted[as_name(quota, "evictions")] = moments
        return budgets


def by_quota(
    limits: Iterable[EvictionLimit], argument: str = "eviction_limits"
) -> dict[str, EvictionLimit]:
    """The limits by quota; ValueError if a quota has two."""
    given = as_tuple(limits, argument)
    for i, limit in enumerate(given):
        as_instance(limit, f"{argument}[{i}]", EvictionLimit)
    of = {limit.quota: limit for limit in given}
    if len(of) < len(given):
        raise ValueError(f"{argument}: a quota has two limits")
    return of
