"""Which jobs the limits of evictions protect, and sets of jobs that keep to these limits."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hivecore.scheduler.ledger.live import Live
    from hivecore.scheduler.ledger.state import State

__all__ = ["Limits", "Victims"]

#: The jobs to evict, in order, and the reason for each.
Victims = dict[str, str]


class Limits:
    """The limits of evictions, as a search for victims meets them."""

    def __init__(self, state: "State") -> None:
        self._stages, self._jobs, self._running = state.stages, state.jobs, state.running
        self._budgets, self._now = state.budgets, state.now
        #: when more jobs may be evicted
        self.wake_at = inf

    def is_protected(self, live: "Live") -> bool:
        """Whether a job has not run for long enough, or too many of its quota were evicted."""
        if not self._budgets.limits:
            return False
        time = self._budgets.free_at(live, self._now)
        return time > self._now and self._wakes_at(time)

    def may_protect(self, name: str) -> bool:
        """Whether only limits may keep a job, or jobs that share its GPUs, from being evicted."""
        lives = [
            self._jobs[member] for member in self._stages.members(name) if member in self._jobs
        ]
        return any(map(self.is_protected, lives))

    def _wakes_at(self, time: float) -> bool:
        """Note that more jobs may be evicted from a time on."""
        self.wake_at = min(self.wake_at, time)
        return True

    def keep(self, names: Collection[str]) -> bool:
        """Whether all of these may be evicted together."""
        if not self._budgets.limits:
            return True
        time = self._budgets.all_free_at(self._evicted(names), self._now)
        return time <= self._now or not self._wakes_at(time)

    def _evicted(self, names: Iterable[str]) -> list["Live"]:
        """Those that are told to leave when these do: pods that leave with their job are not."""
        whole = self.whole(dict.fromkeys(names, ""))
        lives = [self._jobs[name] for name in whole]
        return [live for live in lives if live.extra_of not in whole]

    def whole(self, victims: Victims) -> Victims:
        """The victims with all that share their GPUs, and with their extra pods."""
        return {
            member: why
            for name, why in self._with_extras(victims)
            for member in self._stages.members(name)
        }

    def _with_extras(self, victims: Victims) -> Iterator[tuple[str, str]]:
        """The victims, and their extra pods that do not stop yet, which come before them."""
        for name, why in victims.items():
            for extra, live in self._jobs[name].extras.items():
                if live.runs and not live.for_job:
                    yield extra, victims.get(extra, why)
            yield name, why

    @cached_property
    def allowed(self) -> dict[str, int]:
        """By quota with a limit, how many of its jobs may be evicted now."""
        quotas = {live.job.quota for live in self._running.values()}
        return self._budgets.left(quotas, self._now)

    def evictions(self, name: str) -> Counter[str]:
        """By quota, how many jobs are evicted when a job leaves."""
        return Counter(live.job.quota for live in self._evicted([name]))

    def largest(self, names: Iterable[str]) -> list[str]:
        """Of each quota with a limit, its largest jobs of which all may be evicted together."""
        left, largest = Counter(self.allowed), set[str]()
        for name in sorted(names, key=lambda name: (-self._jobs[name].job.gpus, name)):
            taken = {quota: most for quota, most in self.evictions(name).items() if quota in left}
            if all(most <= left[quota] for quota, most in taken.items()):
                left.subtract(taken)
                largest.add(name)
        return [name for name in names if name in largest]
