"""Jobs on storage in an order of their own, and their outcome."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hivecore.sim.storage.caches import Allotted
from hivecore.sim.storage.history import Recorder, StorageHistory
from hivecore.sim.storage.reading import Reading
from hivecore.sim.storage.workload import Floats, Indices

__all__ = ["Ranked", "StorageOutcome"]


@dataclass(frozen=True, slots=True, eq=False)
class StorageOutcome:
    """What became of the jobs.

    :param start: float64[jobs], seconds, when each first ran.
    :param end: float64[jobs], seconds.
    :param events: instants at which rates changed.
    :param decisions: instants at which the scheduler decided.
    :param read_mb: MB that all jobs read.
    :param remote_mb: MB from remote storage, for jobs and warm-ups.
    :param busy: GPU seconds of computing, without waiting for data.
    :param fair_mb: float64[jobs], MB that each would have read in its time with an equal share.
    :param history: rates and caches over time, if recorded.
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


class Ranked(Reading):
    """Jobs that run in the order of their rules, and keep what they have read when they stop.

    :param arguments: those of `Reading`.
    :param recorder: records the history.
    """

    is_kept = True

    def __init__(self, *arguments: Any, recorder: Recorder | None) -> None:
        super().__init__(*arguments)
        self._recorder, self._decisions = recorder, 0
        self._fair = np.zeros(len(self._work))
        self._busy_per_mb = self._work.gpus / self._work.rate_mbps
        self._ranked: Indices | None = None

    def _pass(self, until: float) -> Indices:
        equal, since = self._situation().equal_rates(), self._contents.now
        ended = super()._pass(until)
        self._fair[self._present] += equal * (self._contents.now - since)
        return ended

    def _read(self, until: float, events: int) -> tuple[Indices, int]:
        if not self._recorder:
            return super()._read(until, events)
        now, cached = self._contents.now, self._contents.cached
        ended = self._contents.advance(until, 1)
        self._note(now, cached)
        return ended, 1

    def order(self, now: float) -> Sequence[str]:
        """Return the most urgent jobs first; empty if the scheduler's queue decides."""
        order, names, self._is_stale = self._rules.order, self._work.jobs, True
        self._ranked = order.ranked(self._situation())
        if order.takes_turns:  # all will run
            self._grants = order.granted(self._situation(), self._present)
            if self._scheduler is not None and isinstance(self._rules.cache, Allotted):
                rows, share = self._grants.jobs, self._grants.share
                full = (self._work.rate_mbps[rows] * share).tolist()
                rates = zip([names[row] for row in rows.tolist()], full, strict=True)
                self._scheduler.observe(now, rate_mbps=dict(rates))
        return () if self._ranked is None else [names[row] for row in self._ranked.tolist()]

    def _grant(self) -> None:
        self._decisions += 1
        if self._ranked is not None:
            running = self._ranked[self._runs[self._ranked]]
            self._grants = self._rules.order.granted(self._situation(), running)
        elif not self._rules.order.takes_turns:
            super()._grant()

    def _note(self, now: float, cached: Floats) -> None:
        """Record the state from an instant on."""
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
        """Return MB of each dataset in all caches together."""
        if not self._rules.cache.private:
            return mb
        work = self._work
        return np.bincount(work.dataset, mb, len(work.size_mb)).astype(np.float64)

    def outcome(self) -> StorageOutcome:
        """Return what became of the jobs."""
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
