"""Failures and returns of nodes, for an event loop."""

from collections.abc import Callable, Container, Iterable
from heapq import heappop, heappush
from itertools import chain
from math import inf

from hivecore._stateful import counted
from hivecore.sim.preemptive.failures import Failure, JobFailure
from hivecore.sim.preemptive.placement import Placed
from hivecore.sim.progress import NodeChanges
from hivecore.sim.workload import GPUS_PER_NODE

__all__ = ["Incidents", "reported"]

# After so many in a row jobs would never end: they fail faster than they restart.
_VAIN = 1000


def reported(elapsed: float, interval: float) -> float:
    """Return how much of the seconds since an event a job has reported.

    :param elapsed: seconds.
    :param interval: seconds between reports; inf for none.

    >>> reported(800.0, 360.0), reported(800.0, float("inf"))
    (720.0, 0.0)
    """
    return elapsed - elapsed % interval


class Incidents:
    """The failures and returns that are still to come.

    :param failures: in order of time; read only as far as needed.
    :param jobs: number of jobs.
    :param idle: GPUs of each node; updated here, 0 for a lost node.
    :raises ValueError: here or later, for an impossible failure.
    """

    def __init__(self, failures: Iterable[Failure], jobs: int, idle: list[int]) -> None:
        self._failures = iter(failures)
        self._jobs = jobs
        self._idle, self._reported = idle, idle.copy()
        self._back = [0.0] * len(idle)
        self._returns: list[tuple[float, int]] = []
        self._vain = 0
        self._now = 0.0
        self._next: Failure | None = None
        self._read()

    def _read(self) -> None:
        failure = self._next = next(self._failures, None)
        if failure is None:
            return
        if not self._now <= failure.time < inf:
            raise ValueError(f"failures must be in order of time, from 0 on: {failure}")
        self._now = failure.time
        if isinstance(failure, JobFailure):
            if not 0 <= failure.job < self._jobs:
                raise ValueError(f"only {counted(self._jobs, 'job')} can fail: {failure}")
        elif not 0 <= failure.node < len(self._idle):
            raise ValueError(f"only {counted(len(self._idle), 'node')} can fail: {failure}")
        elif not failure.time <= failure.back < inf:
            raise ValueError(f"a node must come back, and not before it is lost: {failure}")

    def first(self, time: float, running: Container[int]) -> float:
        """Return `time`, or that of an earlier incident.

        :param time: seconds, of the next event otherwise.
        :param running: jobs that run until then; failures of others are skipped.
        """
        if self._returns:
            time = min(time, self._returns[0][0])
        while self._next is not None and self._next.time < time:
            if not isinstance(self._next, JobFailure) or self._next.job in running:
                return self._next.time
            self._read()
        return time

    def occur(
        self, now: float, running: Iterable[int], placed: Callable[[], list[Placed]]
    ) -> set[int]:
        """Apply all incidents up to `now`; return the running jobs that they stop.

        :param now: seconds.
        :param running: jobs that ran until now and have not ended.
        :param placed: returns which jobs share GPUs, and where; may include jobs that have ended.
        :raises ValueError: 1,000 incidents without progress of any job.
        """
        if not self._due(now):
            return set()
        self._vain += 1
        if self._vain > _VAIN:
            raise ValueError(f"no job got ahead during {_VAIN:,} failures in a row")
        up = set(running)
        jobs: set[int] = set()
        nodes: set[int] = set()
        while self._next is not None and self._next.time <= now:
            if isinstance(self._next, JobFailure):
                jobs.add(self._next.job)
            else:
                nodes.add(self._next.node)
                self._lose(self._next.node, self._next.back)
            self._read()
        while self._returns and self._returns[0][0] <= now:
            node = heappop(self._returns)[1]
            if self._back[node] <= now:
                self._idle[node] = GPUS_PER_NODE
        jobs &= up
        stopped = [
            group.jobs
            for group in placed()
            if not (jobs.isdisjoint(group.jobs) and nodes.isdisjoint(group.nodes))
        ]
        return up.intersection(chain.from_iterable(stopped))

    def changes(self) -> list[NodeChanges]:
        """Return the nodes lost or returned since the last call."""
        if self._idle == self._reported:
            return []
        pairs = zip(self._idle, self._reported, strict=True)
        changes = [
            NodeChanges(str(node), gpus > 0)
            for node, (gpus, before) in enumerate(pairs)
            if gpus != before
        ]
        self._reported = self._idle.copy()
        return changes

    def got_ahead(self) -> None:
        """Note that a job has made progress since the last incident, or that there is no job."""
        self._vain = 0

    def _due(self, now: float) -> bool:
        failure = self._next is not None and self._next.time <= now
        return failure or bool(self._returns and self._returns[0][0] <= now)

    def _lose(self, node: int, back: float) -> None:
        self._idle[node] = 0
        self._back[node] = max(self._back[node], back)
        heappush(self._returns, (back, node))
