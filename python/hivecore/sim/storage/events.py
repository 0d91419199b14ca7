"""The event loop of jobs that share GPUs, cache and remote IO.

Jobs come and end, and at each such instant (and when the GPU policy asks for it) the scheduler
decides anew who runs and how much cache everyone may have. Between these instants there are events
at which only the rates change: an epoch ends, a cache has reached its quota, a warm-up is done. At
each event remote IO is shared out by what the jobs miss at that moment, not by what they will miss
when their caches are filled, and all rates are constant until the next one.

What happens between two decisions is the business of the contents: amounts in the fluid model
(`FluidClock`, in native code), real items in the item model. The loop is the same for both.
"""

from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np

from hivecore.sim.storage.caches import CachePolicy
from hivecore.sim.storage.history import Recorder, StorageHistory
from hivecore.sim.storage.orders import Order
from hivecore.sim.storage.situation import NOBODY, Grants, Situation, in_order
from hivecore.sim.storage.workload import Floats, Indices, StorageCluster, StorageWorkload

__all__ = ["Contents", "Rules", "StorageOutcome", "run"]

_STUCK = 1_000_000  # events in which no job comes or ends


@dataclass(frozen=True, slots=True, eq=False)
class StorageOutcome:
    """What became of the jobs.

    :param start: float64[jobs], seconds, when each first ran.
    :param end: float64[jobs], seconds.
    :param events: instants at which rates changed.
    :param decisions: instants at which the scheduler decided.
    :param read_mb: MB that all jobs read.
    :param remote_mb: MB that came from remote storage, for jobs and for warm-ups.
    :param busy: GPU seconds of computing, without waiting for data.
    :param fair_mb: float64[jobs], MB that each would have read in its time with an equal share.
    :param history: how rates and caches went, if it was recorded.
    """

    start: Floats
    end: Floats
    events: int
    decisions: int
    read_mb: float
    remote_mb: float
    busy: float
    fair_mb: Floats
    history: StorageHistory | None


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Who gets what: a rule for GPUs, one for the cache, and one for remote IO.

    :param order: who gets GPUs.
    :param cache: who gets how much cache.
    :param io_mode: how remote IO is shared out, of `IO_MODES`.
    :param warm_up: whether spare remote IO fills the caches of jobs that run or wait.
    """

    order: Order
    cache: CachePolicy
    io_mode: str
    warm_up: bool = False


class Contents(Protocol):
    """What caches hold, and how far jobs are: `FluidClock`, or the same with real items."""

    @property
    def now(self) -> float:
        """Seconds since the begin."""

    @property
    def events(self) -> int:
        """How many times rates have been set."""

    @property
    def fetched(self) -> float:
        """MB that have come from remote storage, warm-ups included."""

    @property
    def warming(self) -> float:
        """MB/s of remote IO that went into warm-ups in the last step."""

    @property
    def rates(self) -> Floats:
        """MB/s at which each running job read in the last step."""

    @property
    def misses(self) -> Floats:
        """The share of that which came from remote storage."""

    @property
    def cached(self) -> Floats:
        """MB in each cache."""

    @property
    def last_use(self) -> Floats:
        """Seconds at which a job last read through each cache."""

    @property
    def left(self) -> Floats:
        """MB that each job has yet to read."""

    def allocate(
        self,
        jobs: Indices,
        rates: Floats,
        quota: Floats,
        reclaim: Indices,
        wanted: Indices,
        *,
        reference: Floats | None,
    ) -> None:
        """Take over what the scheduler decided."""

    def advance(self, until: float, events: int = ..., /) -> Indices:
        """Let time pass until then, or until jobs end; return those. Stop after so many events."""


def run(
    work: StorageWorkload,
    cluster: StorageCluster,
    rules: Rules,
    contents: Contents,
    recorder: Recorder | None = None,
) -> StorageOutcome:
    """Return what becomes of the jobs.

    :param work: jobs in order of submission, none larger than the cluster.
    :param cluster: what they share.
    :param rules: who gets what.
    :param contents: empty caches.
    :param recorder: takes down what happens.
    :raises ValueError: no job gets ahead.

    Cost: per decision what the rules cost, and O(jobs); per event what the contents cost.
    """
    return _Run(work, cluster, rules, contents, recorder).run()


class _Run:
    """The state of the loop at the last decision."""

    def __init__(
        self,
        work: StorageWorkload,
        cluster: StorageCluster,
        rules: Rules,
        contents: Contents,
        recorder: Recorder | None,
    ) -> None:
        self.work, self.cluster, self.rules = work, cluster, rules
        self.contents, self.recorder = contents, recorder
        self.cache_of = np.arange(len(work)) if rules.cache.private else work.dataset
        count = len(work)
        self.attained, self.fair = np.zeros(count), np.zeros(count)
        self.start, self.end = np.full(count, inf), np.full(count, inf)
        self.busy_per_mb = work.gpus / work.rate_mbps
        self.quota = np.zeros(len(contents.cached))
        self.present = self.running = np.empty(0, dtype=np.int64)
        self.submitted = self.decisions = 0

    def run(self) -> StorageOutcome:
        work, contents = self.work, self.contents
        while self.submitted < len(work) or len(self.present):
            decided = contents.now
            grants = self._decide()
            fair = self.situation.equal_rates()
            arrival = work.submit[self.submitted] if self.submitted < len(work) else inf
            ended = self._pass(min(float(arrival), decided + grants.again))
            passed = contents.now - decided
            self.attained[grants.jobs] += work.gpus[grants.jobs] * grants.share * passed
            self.fair[self.present] += fair * passed
            if len(ended):
                self.end[ended] = contents.now
                self.present = self.present[np.isinf(self.end[self.present])]
                self.running = self.running[np.isinf(self.end[self.running])]
        moved = work.total_mb - contents.left
        return StorageOutcome(
            start=self.start,
            end=self.end,
            events=contents.events,
            decisions=self.decisions,
            read_mb=float(moved.sum()),
            remote_mb=contents.fetched,
            busy=float(self.busy_per_mb @ moved),
            fair_mb=self.fair,
            history=self.recorder.history() if self.recorder else None,
        )

    def _decide(self) -> Grants:
        """Let the rules decide."""
        work, contents, now = self.work, self.contents, self.contents.now
        self.decisions += 1
        first = self.submitted
        self.submitted = int(work.submit.searchsorted(now, side="right"))
        if first < self.submitted:
            self.present = np.append(self.present, np.arange(first, self.submitted))
        self.situation = situation = Situation(
            now,
            work,
            self.cluster,
            self.present,
            self.running,
            contents.left,
            self.attained,
            contents.cached,
            self.quota,
            contents.last_use,
        )
        grants, reclaim = NOBODY, NOBODY.jobs
        self.quota = np.zeros(len(self.quota))
        if len(self.present):
            grants = self.rules.order.grant(situation)
            self.quota, reclaim = self.rules.cache.quotas(situation, grants)
        self.running = jobs = grants.jobs
        self.start[jobs] = np.minimum(self.start[jobs], now)
        wanted = in_order(self.cache_of[self.present]) if self.rules.warm_up else NOBODY.jobs
        full = work.rate_mbps[jobs] * grants.share
        contents.allocate(jobs, full, self.quota, reclaim, wanted, reference=grants.reference)
        return grants

    def _pass(self, until: float) -> Indices:
        """Let time pass until there is something to decide; return the jobs that have ended."""
        contents, events = self.contents, 1 if self.recorder else _STUCK
        for _ in range(_STUCK // events):
            before = (contents.now, contents.cached) if self.recorder else None
            ended = contents.advance(until, events)
            if before:
                self._note(*before)
            if len(ended) or contents.now >= until:
                return ended
        waiting = len(self.present)
        raise ValueError(f"no job gets ahead from {contents.now:g} s on: {waiting} wait for data")

    def _note(self, now: float, cached: Floats) -> None:
        """Take down what was the case from an instant on."""
        assert self.recorder
        if not self.recorder.due(now):
            return
        rates = self.contents.rates
        if self.rules.cache.private:
            cached = np.bincount(self.work.dataset, cached, len(self.work.size_mb)).astype(
                np.float64
            )
        self.recorder.note(
            now,
            float(rates.sum()),
            float(rates @ self.contents.misses) + self.contents.warming,
            float(self.busy_per_mb[self.running] @ rates),
            len(self.present),
            cached,
        )
