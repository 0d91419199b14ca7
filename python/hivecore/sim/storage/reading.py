"""What jobs read that share GPUs, cache and remote IO, between a scheduler's decisions.

Whenever jobs come or end, or their order asks for it, the scheduler decides which jobs run and how
much cache each may have. Between decisions there are events at which only rates change: an epoch
ends, a cache has reached its quota, a warm-up is done. At each event remote IO is divided by what
jobs miss at that moment, not by what they will miss with full caches; rates are constant until the
next event.

Native code computes what happens between two decisions.
"""

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from hivecore._sim import FluidClock
from hivecore.scheduler import Action, Preempt, Reject, Scheduler, SetCache, Start
from hivecore.sim.progress import Incident
from hivecore.sim.progress.paced import Paced
from hivecore.sim.storage.caches import Allotted
from hivecore.sim.storage.rules import Rules
from hivecore.sim.storage.situation import NO_GRANTS, Situation, in_order
from hivecore.sim.storage.workload import MB, Indices, StorageCluster, StorageWorkload
from hivecore.sim.worlds import World

__all__ = ["Reading"]

_STUCK = 1_000_000  # events without progress in time
_BYTES = 1e6  # per MB


class Reading:
    """The progress of jobs that share storage, for `hivecore.sim.simulate`.

    :param work: jobs that read, in order of submission. Others never wait for data.
    :param cluster: what they share.
    :param rules: what jobs get.
    :param contents: empty caches.
    :param scheduler: under which they run; its storage is notified of what is cached, if the rules
        leave the cache to it.
    :param gpus: how fast jobs run that never wait for data; by default at full speed.
    :raises ValueError: later, if no job makes progress.

    Stopped jobs start over. Cost: the rules and O(jobs) for each decision, the contents for each
    event.
    """

    is_kept = False

    def __init__(
        self,
        work: StorageWorkload,
        cluster: StorageCluster,
        rules: Rules,
        contents: FluidClock,
        scheduler: Scheduler | None,
        gpus: World | None = None,
    ) -> None:
        self._work, self._cluster, self._rules = work, cluster, rules
        self._contents, self._scheduler = contents, scheduler
        self._gpus, self._others = gpus, Paced(None)
        self._cache_of = np.arange(len(work)) if rules.cache.private else work.dataset
        count = len(work)
        self._row = {name: row for row, name in enumerate(work.jobs)}
        self._attained, self._pace = np.zeros(count), np.ones(count)
        self._start, self._end = np.full(count, inf), np.full(count, inf)
        #: jobs that run or wait, in order of arrival; jobs that have just ended
        self._present, self._ended = NO_GRANTS.jobs, NO_GRANTS.jobs
        self._runs = np.zeros(count, dtype=np.bool_)
        #: the last decision, and when it must be repeated
        self._grants, self._again = NO_GRANTS, inf
        self._quota = np.zeros(len(contents.cached))
        #: MB of each dataset as reported to the scheduler, and as allotted by it
        self._reported, self._allotted = np.full(len(work.names), np.nan), np.zeros(len(work.names))
        self._code = {name: code for code, name in enumerate(work.names)}
        self._seen: Situation | None = None
        #: whether a job has just ended, and whether the grants are out of date
        self._has_ended, self._is_stale = False, True

    def next_end(self, before: float) -> float:
        """See `Progress`: jobs read until one ends, others come, or a decision is due."""
        contents, others = self._contents, self._others.next_end()
        until, since = self.next_change(min(before, others)), contents.now
        if since < until and (until < inf or len(self._grants.jobs)):
            self._ended = self._pass(until)
            passed, grants = contents.now - since, self._grants
            self._attained[grants.jobs] += self._work.gpus[grants.jobs] * grants.share * passed
            self._seen = None
        return contents.now if len(self._ended) else others

    def _pass(self, until: float) -> Indices:
        """Let time pass until a decision is due; return the jobs that have ended."""
        still = 0
        while still < _STUCK:
            before = self._contents.now
            ended, events = self._read(until, _STUCK)
            if len(ended) or self._contents.now >= until:
                return ended
            still = still + events if self._contents.now == before else 0
        waiting = len(self._present)
        raise ValueError(
            f"no job gets ahead from {self._contents.now:g} s on: {waiting} wait for data"
        )

    def _read(self, until: float, events: int) -> tuple[Indices, int]:
        """Let some events happen; return the jobs that have ended, and the number of events."""
        return self._contents.advance(until, events), events

    def next_change(self, before: float) -> float:
        """See `Progress`."""
        paces = inf if self._gpus is None else self._gpus.next_change()
        return min(before, self._again, paces)

    def completed(self, now: float) -> Sequence[str]:
        """See `Progress`."""
        ended, self._ended, self._seen = self._ended, NO_GRANTS.jobs, None
        self._has_ended = self._is_stale = True
        self._end[ended], self._runs[ended] = now, False
        self._present = self._present[np.isinf(self._end[self._present])]
        names = [self._work.jobs[row] for row in ended.tolist()]
        names += self._others.completed(now)
        if self._gpus is not None:
            for name in names:
                self._gpus.end(name, now)
        return names

    def happen(self, now: float) -> Sequence[Incident]:
        """See `Progress`: nothing fails, but the scheduler is notified of what is cached.

        A job that comes while others wait usually waits as well; then nothing is allotted.
        """
        cache, work = self._rules.cache, self._work
        if self._scheduler is None or not isinstance(cache, Allotted) or not len(work):
            return ()
        waits = np.count_nonzero(self._runs) < len(self._present)
        if cache.ahead or self._has_ended or not waits:
            held = np.minimum(self._situation().held, work.size_mb)
            changed = np.flatnonzero(held != self._reported)
            self._reported = held
            gb = zip(changed.tolist(), (held[changed] / MB).tolist(), strict=True)
            cached = {work.names[code]: amount for code, amount in gb}
            read = self._read_gb() if cache.by_progress else {}
            self._scheduler.observe(now, cached_gb=cached, read_gb=read)
        return ()

    def _read_gb(self) -> dict[str, float]:
        work, rows = self._work, np.flatnonzero(self._runs)
        gb = np.maximum(work.total_mb - self._situation().left, 0.0)[rows] / MB
        return {work.jobs[row]: amount for row, amount in zip(rows, gb.tolist(), strict=True)}

    def submit(self, job: str, seconds: float, now: float) -> None:
        """See `Progress`."""
        if job in self._row:
            self._present, self._seen = np.append(self._present, self._row[job]), None
            self._is_stale |= isinstance(cache := self._rules.cache, Allotted) and cache.ahead
        else:
            self._others.submit(job, seconds, now)

    def _situation(self) -> Situation:
        """Return the present situation."""
        if self._seen is None:
            running = self._grants.jobs
            self._seen = Situation(
                self._contents.now,
                self._work,
                self._cluster,
                self._present,
                running[self._runs[running]],
                self._attained,
                self._start,
                self._quota,
                self._allotted,
                self._contents,
            )
        return self._seen

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """See `Progress`."""
        stopped: list[int] = []
        for action in actions:
            if isinstance(action, SetCache):
                self._allot(self._code[action.dataset], action.size / _BYTES)
                self._is_stale = True
            elif isinstance(action, Start | Preempt | Reject) and action.job in self._row:
                row, self._is_stale = self._row[action.job], True
                if isinstance(action, Reject):
                    self._present = self._present[self._present != row]
                elif isinstance(action, Start):
                    self._pace[row] = self._pace[row] if self._runs[row] else 1.0
                    self._runs[row] = True
                else:
                    self._runs[row] = False
                    stopped.append(row)
        self._others.obey(
            [action for action in actions if getattr(action, "job", None) not in self._row], now
        )
        if self._gpus is not None:
            self._gpus.obey(actions, now)
            self._adjust(self._gpus.speeds(now), now)
        self._has_ended = False
        if self._is_stale or now >= self._again:
            self._is_stale = False
            self._decide(stopped, now)

    def _decide(self, stopped: list[int], now: float) -> None:
        self._grant()
        jobs = self._grants.jobs
        self._again = now + self._grants.again
        self._start[jobs] = np.minimum(self._start[jobs], now)
        again = [] if self.is_kept else stopped
        self._start[again] = inf
        self._allocate(again)

    def _adjust(self, speeds: Mapping[str, float], now: float) -> None:
        """Set the speeds that the jobs' GPUs allow."""
        others = dict(speeds)
        for name in speeds:
            if name in self._row:
                self._pace[self._row[name]], self._is_stale = others.pop(name), True
        self._others.adjust(others, now)

    def _allot(self, code: int, mb: float) -> None:
        """Set a dataset's cache, rounded to whole bytes."""
        size = float(self._work.size_mb[code])
        self._allotted[code] = size if size - mb < 1.0 / _BYTES else mb

    def _grant(self) -> None:
        """Set what running jobs get."""
        running = self._present[self._runs[self._present]]
        self._grants = self._rules.order.granted(self._situation(), running)

    def _allocate(self, again: list[int]) -> None:
        """Pass the decision to the contents."""
        grants, present = self._grants, self._present
        self._quota, reclaim = np.zeros(len(self._quota)), NO_GRANTS.jobs
        if len(present):
            self._quota, reclaim = self._rules.cache.quotas(self._situation(), grants)
        wanted = in_order(self._cache_of[present]) if self._rules.warm_up else NO_GRANTS.jobs
        full = self._work.rate_mbps[grants.jobs] * grants.share * self._pace[grants.jobs]
        self._contents.allocate(
            grants.jobs, full, self._quota, reclaim, wanted, again, reference=grants.reference
        )
