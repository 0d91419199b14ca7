"""What jobs have read that share GPUs, cache and remote IO, between the decisions of a scheduler.

Jobs come and end, and at each such instant (and when the order of jobs asks for it) the scheduler
decides anew who runs, and with it how much cache everyone may have. Between these instants there
are events at which only the rates change: an epoch ends, a cache has reached its quota, a warm-up
is done. At each event remote IO is shared out by what the jobs miss at that moment, not by what
they will miss when their caches are filled, and all rates are constant until the next one.

What happens between two decisions is the business of the contents: amounts in the fluid model
(`FluidClock`, in native code), real items in the item model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np

from hivecore.scheduler import Action, Preempt, Scheduler, SetCache, Start
from hivecore.sim.progress import Incident
from hivecore.sim.storage.caches import Allotted, CachePolicy
from hivecore.sim.storage.history import Recorder, StorageHistory
from hivecore.sim.storage.orders import Order
from hivecore.sim.storage.situation import NOBODY, Situation, in_order
from hivecore.sim.storage.workload import (
    MB,
    Floats,
    Indices,
    StorageCluster,
    StorageWorkload,
)

__all__ = ["Contents", "Reading", "Rules", "StorageOutcome"]

_STUCK = 1_000_000  # events in which no job comes or ends
_BYTES = 1e6  # per MB


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
        """Take over what was decided."""

    def advance(self, until: float, events: int = ..., /) -> Indices:
        """Let time pass until then, or until jobs end; return those. Stop after so many events."""


class Reading:
    """For `hivecore.sim.simulate`, whose jobs are named by their numbers.

    :param work: jobs in order of submission.
    :param cluster: what they share.
    :param rules: who gets what.
    :param contents: empty caches.
    :param scheduler: under which they run; its storage stage is told what is observed.
    :param recorder: takes down what happens.
    :raises ValueError: later, no job gets ahead.

    Cost: for each decision what the rules cost, and O(jobs); per event what the contents cost.
    """

    is_kept = True

    def __init__(
        self,
        work: StorageWorkload,
        cluster: StorageCluster,
        rules: Rules,
        contents: Contents,
        scheduler: Scheduler,
        recorder: Recorder | None,
    ) -> None:
        self._work, self._cluster, self._rules = work, cluster, rules
        self._contents, self._scheduler, self._recorder = contents, scheduler, recorder
        self._cache_of = np.arange(len(work)) if rules.cache.private else work.dataset
        count = len(work)
        self._names = [str(job) for job in range(count)]
        self._attained, self._fair = np.zeros(count), np.zeros(count)
        self._start, self._end = np.full(count, inf), np.full(count, inf)
        self._busy_per_mb = work.gpus / work.rate_mbps
        self._submitted = self._decisions = 0
        #: who runs or waits, in order of arrival; whether each job runs; who has just ended
        self._present, self._ended = NOBODY.jobs, NOBODY.jobs
        self._runs = np.zeros(count, dtype=np.bool_)
        #: what was decided last, and when that has to be done again
        self._grants, self._again = NOBODY, inf
        self._quota = np.zeros(len(contents.cached))
        #: MB of each dataset as the scheduler was told, and as it has allotted
        self._told, self._allotted = np.full(len(work.names), np.nan), np.zeros(len(work.names))
        self._code = {name: code for code, name in enumerate(work.names)}
        self._look()
        self._ranked: Indices | None = None
        self._allocate()

    def next_end(self) -> float:
        """See `Progress`: jobs read until some end, others come, or it is to be decided anew."""
        contents, submit = self._contents, self._work.submit
        arrival = float(submit[self._submitted]) if self._submitted < len(submit) else inf
        until, before = min(arrival, self._again), contents.now
        if before < until:
            self._ended = self._pass(until)
            passed, grants = contents.now - before, self._grants
            self._attained[grants.jobs] += self._work.gpus[grants.jobs] * grants.share * passed
            self._fair[self._present] += self._situation.equal_rates() * passed
        return contents.now if len(self._ended) else inf

    def _pass(self, until: float) -> Indices:
        """Let time pass until there is something to decide; return the jobs that have ended."""
        contents, events = self._contents, 1 if self._recorder else _STUCK
        for _ in range(_STUCK // events):
            before = (contents.now, contents.cached) if self._recorder else None
            ended = contents.advance(until, events)
            if before:
                self._note(*before)
            if len(ended) or contents.now >= until:
                return ended
        waiting = len(self._present)
        raise ValueError(f"no job gets ahead from {contents.now:g} s on: {waiting} wait for data")

    def next_change(self, before: float) -> float:
        """See `Progress`."""
        return min(before, self._again)

    def completed(self, now: float) -> Sequence[str]:
        """See `Progress`."""
        ended, self._ended = self._ended, NOBODY.jobs
        self._end[ended], self._runs[ended] = now, False
        self._present = self._present[np.isinf(self._end[self._present])]
        return [self._names[job] for job in ended.tolist()]

    def happen(self, now: float) -> Sequence[Incident]:
        """See `Progress`."""
        return ()

    def submit(self, job: str, seconds: float, now: float) -> None:
        """See `Progress`."""
        self._present = np.append(self._present, self._submitted)
        self._submitted += 1

    def order(self, now: float) -> Sequence[str]:
        """Return who comes first; nobody: the queue of the scheduler says it."""
        self._look()
        order, names = self._rules.order, self._names
        self._ranked = order.ranked(self._situation)
        if order.takes_turns:  # all will run
            self._grants = order.granted(self._situation, self._present)
        if isinstance(self._rules.cache, Allotted):
            self._observe(now)
        return () if self._ranked is None else [names[job] for job in self._ranked.tolist()]

    def _observe(self, now: float) -> None:
        """Tell the scheduler what is cached, and how fast jobs could read that take turns."""
        held = np.minimum(self._situation.held, self._work.size_mb)
        changed = np.flatnonzero(held != self._told).tolist()
        self._told = held
        names, gb = self._work.names, (held / MB).tolist()
        rates: dict[str, float] = {}
        if self._rules.order.takes_turns:
            jobs, share = self._grants.jobs, self._grants.share
            full = (self._work.rate_mbps[jobs] * share).tolist()
            rates = {self._names[job]: rate for job, rate in zip(jobs.tolist(), full, strict=True)}
        cached = {names[code]: gb[code] for code in changed}
        self._scheduler.observe(now, cached_gb=cached, rate_mbps=rates)

    def _look(self) -> None:
        """Take down how things are."""
        contents, running = self._contents, self._grants.jobs
        self._situation = Situation(
            contents.now,
            self._work,
            self._cluster,
            self._present,
            running[self._runs[running]],
            contents.left,
            self._attained,
            contents.cached,
            self._quota,
            contents.last_use,
            self._allotted,
        )

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """See `Progress`."""
        for action in actions:
            if isinstance(action, Start | Preempt):
                self._runs[int(action.job)] = isinstance(action, Start)
            elif isinstance(action, SetCache):
                self._allot(self._code[action.dataset], action.size / _BYTES)
        self._decisions += 1
        if not self._rules.order.takes_turns:
            ranked = self._present if self._ranked is None else self._ranked
            self._grants = self._rules.order.granted(self._situation, ranked[self._runs[ranked]])
        jobs = self._grants.jobs
        self._again = now + self._grants.again
        self._start[jobs] = np.minimum(self._start[jobs], now)
        self._allocate()

    def _allot(self, code: int, mb: float) -> None:
        """A dataset may have so much cache, which is told in whole bytes."""
        size = float(self._work.size_mb[code])
        self._allotted[code] = size if size - mb < 1.0 / _BYTES else mb

    def _allocate(self) -> None:
        """Let the contents take over what was decided."""
        grants, present = self._grants, self._present
        self._quota, reclaim = np.zeros(len(self._quota)), NOBODY.jobs
        if len(present):
            self._quota, reclaim = self._rules.cache.quotas(self._situation, grants)
        wanted = in_order(self._cache_of[present]) if self._rules.warm_up else NOBODY.jobs
        full = self._work.rate_mbps[grants.jobs] * grants.share
        self._contents.allocate(
            grants.jobs, full, self._quota, reclaim, wanted, reference=grants.reference
        )

    def _note(self, now: float, cached: Floats) -> None:
        """Take down what was the case from an instant on."""
        assert self._recorder
        if not self._recorder.due(now):
            return
        rates = self._contents.rates
        self._recorder.note(
            now,
            float(rates.sum()),
            float(rates @ self._contents.misses) + self._contents.warming,
            float(self._busy_per_mb[self._grants.jobs] @ rates),
            len(self._present),
            self._cached(cached),
        )

    def _cached(self, mb: Floats) -> Floats:
        """MB of each dataset in all caches together."""
        if not self._rules.cache.private:
            return mb
        work = self._work
        return np.bincount(work.dataset, mb, len(work.size_mb)).astype(np.float64)

    def outcome(self) -> StorageOutcome:
        """Return what has become of the jobs."""
        contents = self._contents
        if self._recorder:  # the last rates hold until the last job ends
            self._recorder.note(contents.now, 0.0, 0.0, 0.0, 0, self._cached(contents.cached))
        moved = self._work.total_mb - contents.left
        return StorageOutcome(
            start=self._start,
            end=self._end,
            events=contents.events,
            decisions=self._decisions,
            read_mb=float(moved.sum()),
            remote_mb=contents.fetched,
            busy=float(self._busy_per_mb @ moved),
            fair_mb=self._fair,
            history=self._recorder.history() if self._recorder else None,
        )
