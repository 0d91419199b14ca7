"""Limits on evictions: which jobs they protect, and which sets of victims keep to them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hivecore.scheduler.ledger.live import Live
    from hivecore.scheduler.ledger.state import State

__all__ = ["Limits", "Victims"]

#: Victims in order, with the reason for each.
Victims = dict[str, str]


class Limits:
    """The limits on evictions during one search for victims."""

    def __init__(self, state: "State") -> None:
        self._stages, self._jobs, self._running = state.stages, state.jobs, state.running
        self._budgets, self._now = state.budgets, state.now
        #: when a limit next allows another eviction
        self.wake_at = inf

    def is_protected(self, live: "Live") -> bool:
        """Whether a job has run too briefly, or its quota lost too many jobs, to be evicted."""
        if not self._budgets.limits:
            return False
        time = self._budgets.free_at(live, self._now)
        return time > self._now and self._wakes_at(time)

    def may_protect(self, name: str) -> bool:
        """Whether a limit protects a job, or a job that shares GPUs with it."""
        lives = [
            self._jobs[member] for member in self._stages.members(name) if member in self._jobs
        ]
        return any(map(self.is_protected, lives))

    def _wakes_at(self, time: float) -> bool:
        """Note a time at which a limit ends; always true."""
        self.wake_at = min(self.wake_at, time)
        return True

    def keep(self, names: Collection[str]) -> bool:
        """Whether the limits allow to evict all of these jobs together."""
        if not self._budgets.limits:
            return True
        time = self._budgets.all_free_at(self._evicted(names), self._now)
        return time <= self._now or not self._wakes_at(time)

    def _evicted(self, names: Iterable[str]) -> list["Live"]:
        """The jobs that count as evicted. Extra pods that leave with their job do not count."""
        whole = self.whole(dict.fromkeys(names, ""))
        lives = [self._jobs[name] for name in whole]
        return [live for live in lives if live.extra_of not in whole]

    def whole(self, victims: Victims) -> Victims:
        """The victims, their extra pods, and all jobs that share GPUs with them."""
        return {
            member: why
            for name, why in self._with_extras(victims)
            for member in self._stages.members(name)
        }

    def _with_extras(self, victims: Victims) -> Iterator[tuple[str, str]]:
        """The victims, each after those of its extra pods that are not stopping yet."""
        for name, why in victims.items():
            for extra, live in self._jobs[name].extras.items():
                if live.runs and not live.for_job:
                    yield extra, victims.get(extra, why)
            yield name, why

    @cached_property
    def allowed(self) -> dict[str, int]:
        """Evictions left now, for each quota with a limit."""
        if not self._budgets.limits:
            return {}
        quotas = {live.job.quota for live in self._running.values()}
        return self._budgets.left(quotas, self._now)

    def evictions(self, name: str) -> Counter[str]:
        """Evictions by quota if a job is evicted."""
        return Counter(live.job.quota for live in self._evicted([name]))

    def largest(self, names: Iterable[str]) -> list[str]:
        """For each quota with a limit, the largest jobs that may be evicted together."""
        left, largest = Counter(self.allowed), set[str]()
        for name in sorted(names, key=lambda name: (-self._jobs[name].job.gpus, name)):
            taken = {quota: most for quota, most in self.evictions(name).items() if quota in left}
            if all(most <= left[quota] for quota, most in taken.items()):
                left.subtract(taken)
                largest.add(name)
        return [name for name in names if name in largest]
