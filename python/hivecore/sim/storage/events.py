"""The event loop of jobs that share GPUs, cache and remote IO.

Jobs come and end, and at each such instant (and when the GPU policy asks for it) the scheduler
decides anew who runs and how much cache everyone may have. Between these instants there are events
at which only the rates change: an epoch ends, a cache has reached its quota, a warm-up is done. At
each event remote IO is shared out by what the jobs miss at that moment, not by what they will miss
when their caches are filled, and all rates are constant until the next one.

How jobs read and what caches hold is the business of the contents: amounts in the fluid model,
real items in the item model. The loop is the same for both.
"""

from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np

from hivecore.sim.storage.caches import CachePolicy
from hivecore.sim.storage.history import Recorder, StorageHistory
from hivecore.sim.storage.orders import Order
from hivecore.sim.storage.remote_io import grant, reached
from hivecore.sim.storage.situation import Situation
from hivecore.sim.storage.workload import Floats, Indices, StorageCluster, StorageWorkload

__all__ = ["Contents", "Rules", "StorageOutcome", "run"]

_DONE = 1e-9  # of a job, rounding
_NO_RATE = 1e-200  # MB/s
_NEVER = 1e150  # seconds
_STUCK = 1_000_000  # events in which no job comes or ends


@dataclass(frozen=True, slots=True, eq=False)
class StorageOutcome:
    """What became of the jobs.

    :param start: float64[jobs], seconds, when each first ran.
    :param end: float64[jobs], seconds.
    :param events: instants at which rates changed.
    :param decisions: instants at which the scheduler decided.
    :param read: MB that all jobs read.
    :param remote: MB that came from remote storage, for jobs and for warm-ups.
    :param busy: GPU seconds of computing, without waiting for data.
    :param fair: float64[jobs], MB that each would have read in its time with an equal share of all.
    :param history: how rates and caches went, if it was recorded.
    """

    start: Floats
    end: Floats
    events: int
    decisions: int
    read: float
    remote: float
    busy: float
    fair: Floats
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
    """What caches hold, and how far jobs are in their epochs."""

    #: MB in each cache, and seconds of its last use, as of the last `settle`.
    cached: Floats
    last_use: Floats
    #: MB/s of remote IO that go into warm-ups.
    warming: float
    #: Whether miss ratios move between events, so that those of the middle are to be asked for.
    drifts: bool
    #: MB that came from remote storage in the last step.
    fetched: float

    def settle(self, now: float) -> None:
        """Bring `cached` and `last_use` up to date."""

    def allocate(
        self, now: float, running: Indices, quota: Floats, reclaim: Indices, wanted: Indices
    ) -> None:
        """Take over what the scheduler decided."""

    def leave(self, jobs: Indices) -> None:
        """Take note that jobs have ended; they run no longer after the next `allocate`."""

    def miss_ratio(self) -> Floats:
        """Return what share of their reads the running jobs miss now."""

    def plan(self, rate: Floats, full: Floats, miss: Floats, spare: float) -> float:
        """Take these rates, and return the seconds after which they change."""

    def middle(self, step: float) -> Floats:
        """Return the miss ratios when half of a step is over."""

    def advance(self, step: float) -> Floats:
        """Let time pass, and return the MB that each running job reads."""


def run(
    work: StorageWorkload,
    cluster: StorageCluster,
    rules: Rules,
    contents: Contents,
    cache_of: Indices,
    recorder: Recorder | None = None,
) -> StorageOutcome:
    """Return what becomes of the jobs.

    :param work: jobs in order of submission, none larger than the cluster.
    :param cluster: what they share.
    :param rules: who gets what.
    :param contents: empty caches.
    :param cache_of: int64[jobs], the cache that each job reads through.
    :param recorder: takes down what happens.
    :raises ValueError: no job gets ahead.

    Cost: per event O(running jobs) in some NumPy calls, per decision what the rules cost.
    """
    return _Run(work, cluster, rules, contents, cache_of, recorder).run()


class _Run:
    """The state of the loop; columns of the running jobs stand side by side between decisions."""

    def __init__(
        self,
        work: StorageWorkload,
        cluster: StorageCluster,
        rules: Rules,
        contents: Contents,
        cache_of: Indices,
        recorder: Recorder | None,
    ) -> None:
        self.work, self.cluster, self.rules = work, cluster, rules
        self.contents, self.cache_of, self.recorder = contents, cache_of, recorder
        count = len(work)
        self.left, self.attained = work.total.copy(), np.zeros(count)
        self.start, self.end = np.full(count, inf), np.full(count, inf)
        self.fair, self.fair_rate = np.zeros(count), np.zeros(count)
        self.quota = np.zeros(len(contents.cached))
        self.present = np.empty(0, dtype=np.int64)
        self.submitted = self.events = self.decisions = 0
        self.now = self.decided = 0.0
        self.read = self.remote = self.busy = 0.0
        self._take(np.empty(0, dtype=np.int64), np.empty(0), None)

    def run(self) -> StorageOutcome:
        count, submit = len(self.work), self.work.submit
        while self.submitted < count or len(self.present):
            again = self._decide()
            arrival = float(submit[self.submitted]) if self.submitted < count else inf
            until = min(arrival, again)
            for _ in range(_STUCK):
                if self._step(until):
                    break
            else:
                self._stuck()
        history = self.recorder.history() if self.recorder else None
        return StorageOutcome(
            self.start,
            self.end,
            self.events,
            self.decisions,
            self.read,
            self.remote,
            self.busy,
            self.fair,
            history,
        )

    def _decide(self) -> float:
        """Let the rules decide; return when the rule for the GPUs wants to be asked again."""
        work, contents, now = self.work, self.contents, self.now
        self.decisions += 1
        first = self.submitted
        self.submitted = int(np.searchsorted(work.submit, now, side="right"))
        self.present = np.append(self.present, np.arange(first, self.submitted))
        contents.settle(now)
        situation = Situation(
            now,
            work,
            self.cluster,
            self.present,
            self.running,
            self.left,
            self.attained,
            contents.cached,
            self.quota,
            contents.last_use,
        )
        self.decided = now
        if not len(self.present):
            self._take(self.present, np.empty(0), None)
            nothing = np.empty(0, dtype=np.int64)
            contents.allocate(now, nothing, np.zeros(len(self.quota)), nothing, nothing)
            return inf
        grants = self.rules.order.grant(situation)
        self.quota, reclaim = self.rules.cache.quotas(situation, grants)
        wanted = np.array(list(dict.fromkeys(self.cache_of[self.present].tolist())))
        contents.allocate(now, grants.jobs, self.quota, reclaim, wanted)
        self.fair_rate[self.present] = situation.equal_rates()
        self.start[grants.jobs] = np.minimum(self.start[grants.jobs], now)
        self._take(grants.jobs, grants.share, grants.reference)
        return now + grants.again

    def _take(self, running: Indices, share: Floats, reference: Floats | None) -> None:
        work = self.work
        self.running, self.reference = running, reference
        self.full = work.rate[running] * share
        self.rate = self.full
        self.gpus = work.gpus[running] * share
        self.busy_per_mb = work.gpus[running] / work.rate[running]
        self.left_now = self.left[running]
        self.done_at = _DONE * work.total[running]

    def _step(self, until: float) -> bool:
        """Let time pass until the next event; return whether there is something to decide."""
        self.events += 1
        contents = self.contents
        limit = until - self.now
        spare = self._share_out(contents.miss_ratio())
        step = min(limit, contents.plan(self.rate, self.full, self.miss, spare))
        if contents.drifts:
            spare = self._share_out(contents.middle(step))
            step = min(step, contents.plan(self.rate, self.full, self.miss, spare))
        if len(self.rate):
            step = min(step, float((self.left_now / np.maximum(self.rate, _NO_RATE)).min()))
        if step > _NEVER:
            self._stuck()
        if self.recorder and self.recorder.due(self.now):
            self._note()
        moved = contents.advance(step)
        self.now = until if step == limit else self.now + step
        self.left_now = self.left_now - moved
        self.busy += float(self.busy_per_mb @ moved)
        self.read += float(moved.sum())
        self.remote += contents.fetched
        done = self.left_now <= self.done_at
        if not done.any() and self.now < until:
            return False
        self.left[self.running] = self.left_now
        self.attained[self.running] += self.gpus * (self.now - self.decided)
        self.fair[self.present] += self.fair_rate[self.present] * (self.now - self.decided)
        ended = self.running[done]
        self.end[ended] = self.now
        self.contents.leave(ended)
        self.present = self.present[~np.isin(self.present, ended)]
        self.running = self.running[~done]
        return True

    def _share_out(self, miss: Floats) -> float:
        """Set what each job gets of the remote IO and reaches with it; return what is spare."""
        bandwidth = self.cluster.bandwidth_mbps
        self.miss = miss
        io = grant(self.full, miss, bandwidth, self.rules.io_mode, self.reference)
        self.rate = reached(self.full, miss, io)
        return max(bandwidth - float(io.sum()), 0.0) if self.rules.warm_up else 0.0

    def _note(self) -> None:
        assert self.recorder
        contents = self.contents
        contents.settle(self.now)
        datasets = len(self.work.size)
        cached = contents.cached
        if self.rules.cache.private:
            cached = np.bincount(self.work.dataset, cached, datasets).astype(np.float64)
        self.recorder.note(
            self.now,
            float(self.rate.sum()),
            float((self.rate * self.miss).sum()) + contents.warming,
            float(self.busy_per_mb @ self.rate),
            len(self.present),
            cached,
        )

    def _stuck(self) -> None:
        waiting = len(self.present)
        raise ValueError(f"no job gets ahead from {self.now:g} s on: {waiting} wait for data")
