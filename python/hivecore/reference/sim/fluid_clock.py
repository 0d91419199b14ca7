"""Jobs that share cache and remote IO as fluid amounts, from event to event.

At each event the caches determine what each job misses, and remote IO is divided accordingly. These
rates hold until the caches change (an epoch ends, a cache is full, a ratio has moved), a job ends,
or the next decision is due.
"""

from collections.abc import Sequence
from math import inf

from hivecore.errors import InvariantError
from hivecore.reference.sim._lru import LruFluid
from hivecore.reference.sim._uniform import UniformFluid
from hivecore.reference.storage._numbers import total
from hivecore.reference.storage._remote_io import ration

__all__ = ["FluidClock"]

_DONE = 1e-9  # of a job: rounding
_NO_MISS = 1e-12  # a job with fewer misses reads only from the cache
_NO_RATE = 1e-200  # no step is longer than its inverse
_NEVER = 1e150  # seconds
_SPARE = 1e-9  # of the bandwidth: rounding


class FluidClock:
    """Twin of `hivecore._sim.FluidClock`; arguments are taken as they are."""

    def __init__(
        self,
        sizes: Sequence[float],
        cache_of: Sequence[int],
        totals: Sequence[float],
        capacity: float,
        bandwidth: float,
        *,
        io_mode: str = "priority",
        policy: str = "uniform",
        shrink: str = "random",
        lazy: bool = True,
        private: bool = False,
        warm_up: bool = False,
    ) -> None:
        self.now = self.fetched = 0.0
        self.events = 0
        self.jobs: list[int] = []
        self.rates: list[float] = []
        self.misses: list[float] = []
        self.left = list(totals)
        self._totals, self._cache_of = list(totals), list(cache_of)
        self._bandwidth, self._io_mode, self._warm_up = bandwidth, io_mode, warm_up
        self._full: list[float] = []
        self._reference: list[float] = []
        self._last_use = [0.0] * len(sizes)
        self._most = capacity * (1 + 1e-9)
        self._contents: UniformFluid | LruFluid
        if policy == "lru":
            self._contents = LruFluid(list(sizes), list(cache_of), capacity)
        else:
            self._contents = UniformFluid(
                list(sizes), list(cache_of), capacity, shrink == "read_first", lazy, private
            )

    def allocate(
        self,
        jobs: Sequence[int],
        rates: Sequence[float],
        quota: Sequence[float] | None = None,
        reclaim: Sequence[int] = (),
        wanted: Sequence[int] = (),
        again: Sequence[int] = (),
        *,
        reference: Sequence[float] | None = None,
    ) -> None:
        self._last_use = self.last_use
        room = [0.0] * len(self._last_use) if quota is None else list(quota)
        for job in again:
            self.left[job] = self._totals[job]
        self._contents.allocate(list(jobs), room, list(reclaim), list(wanted), list(again))
        self.jobs, self._full = list(jobs), list(rates)
        compared = rates if reference is None else reference
        self._reference = [
            against if against > 0.0 else full
            for against, full in zip(compared, rates, strict=True)
        ]
        self.rates, self.misses = [0.0] * len(self.jobs), [0.0] * len(self.jobs)

    def advance(self, until: float = inf, events: int = 1_000_000) -> list[int]:
        for _ in range(events):
            done = self._step(until)
            if done or self.now >= until:
                return done
        return []

    def _step(self, until: float) -> list[int]:
        limit = until - self.now
        contents = self._contents
        spare = self._share_out(contents.miss_ratios())
        step = min(limit, contents.plan(self.rates, self.misses, spare))
        if contents.drifts and step <= _NEVER:
            spare = self._share_out(contents.middle(step))
            step = min(step, contents.plan(self.rates, self.misses, spare))
        for job, rate in zip(self.jobs, self.rates, strict=True):
            step = min(step, self.left[job] / max(rate, _NO_RATE))
        if step > _NEVER:
            raise ValueError(f"no job gets ahead from {self.now:g} s on")
        step = max(step, 0.0)
        contents.advance(step)
        self.events += 1
        self.now = until if step == limit else self.now + step
        for job, rate in zip(self.jobs, self.rates, strict=True):
            self.left[job] -= rate * step
        fetched = total(
            rate * miss * step for rate, miss in zip(self.rates, self.misses, strict=True)
        )
        self.fetched += fetched + self.warming * step
        return [job for job in self.jobs if self.left[job] <= _DONE * self._totals[job]]

    def _share_out(self, misses: list[float]) -> float:
        """Set each job's rate from its share of remote IO; return what a warm-up may use."""
        self.misses = misses
        demand = [full * miss for full, miss in zip(self._full, misses, strict=True)]
        if total(demand) <= self._bandwidth:
            self.rates, used = list(self._full), total(demand)
        else:
            granted, _ = ration(
                self._io_mode,
                demand,
                misses,
                self._full,
                self._reference,
                range(len(demand)),
                self._bandwidth,
            )
            self.rates = [
                full if miss < _NO_MISS else min(full, share / miss)
                for full, miss, share in zip(self._full, misses, granted, strict=True)
            ]
            used = total(granted)
        spare = self._bandwidth - used
        return spare if self._warm_up and spare > _SPARE * self._bandwidth else 0.0

    @property
    def warming(self) -> float:
        return self._contents.warming

    @property
    def cached(self) -> list[float]:
        return self._contents.cached()

    @property
    def last_use(self) -> list[float]:
        last_use = list(self._last_use)
        for job in self.jobs:
            last_use[self._cache_of[job]] = self.now
        return last_use

    def check(self) -> None:
        """Raise InvariantError if more is used than there is."""
        remote = total(rate * miss for rate, miss in zip(self.rates, self.misses, strict=True))
        if remote + self.warming > self._bandwidth * (1 + 1e-6):
            raise InvariantError("more remote IO is used than there is")
        if total(self.cached) > self._most:
            raise InvariantError("the caches hold more than the capacity")
