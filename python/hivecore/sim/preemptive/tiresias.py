"""Tiresias (NSDI'19): least attained service first, in three queues.

A job starts in the first queue and moves to the next one after 3,250 and 7,200 GPU seconds. A queue
is first come, first served, but running jobs precede waiting ones. As in the Muri authors'
simulator, only the number of free GPUs counts, not their nodes.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import ceil, inf

from hivecore.sim.preemptive.failures import Failure, JobFailure
from hivecore.sim.preemptive.jobs import Jobs

__all__ = ["Tiresias", "of_jobs"]

#: GPU seconds at which a job leaves each queue except the last.
_LIMITS = (3250, 7200)


class Tiresias:
    """Chooses at submissions, completions and changes of queue; for `Training`.

    :param jobs: in order of submission.
    :param gpus: of the cluster.

    Time lost to restarts counts as attained service.
    """

    same_event = 0.0

    def __init__(self, jobs: Jobs, gpus: int) -> None:
        self.idle = [gpus]
        self.pace, self.overhead = jobs.solo, jobs.restart
        self._gpus = jobs.gpus
        self._sinks_at = [[ceil(limit / size) for size in jobs.gpus] for limit in _LIMITS]
        self._level = [0] * len(jobs)
        self._queues: list[list[int]] = [[] for _ in range(len(_LIMITS) + 1)]
        self._running: list[int] = []

    def come(self, job: int) -> None:
        """See `Policy`."""
        self._queues[0].append(job)

    def end(self, job: int) -> None:
        """See `Policy`."""
        self._queues[self._level[job]].remove(job)

    def attain(self, attained: float, now: float, since: float) -> float:
        """See `Policy`."""
        return attained + now - since

    def ran(self, job: int, remaining: float, attained: float) -> None:
        """See `Policy`."""
        at = self._level[job]
        if at < len(_LIMITS) and attained * self._gpus[job] >= _LIMITS[at]:
            self._queues[at].remove(job)
            self._queues[at + 1].append(job)
            self._level[job] = at + 1

    def order(self) -> Iterable[Sequence[int]]:
        """See `Policy`."""
        return zip(chain.from_iterable(self._queues))

    def chosen(self, running: set[int]) -> list[int]:
        """See `Policy`; jobs that change queue at the same event are ordered by submission."""
        for queue in self._queues:
            queue.sort(key=running.__contains__, reverse=True)
        self._running = sorted(running)
        return self._running

    def groups(self, running: Iterable[int]) -> list[Sequence[int]]:
        """See `Policy`."""
        return [(job,) for job in running]

    def completion(self, ends: list[float]) -> tuple[float, list[int]]:
        """See `Policy`."""
        first = min(ends, default=inf)
        return first, [position for position, end in enumerate(ends) if end == first]

    def next_change(self, now: float, attained: list[float]) -> float:
        """See `Policy`: when the next job changes its queue."""
        return min(
            (
                self._sinks_at[self._level[job]][job] - attained[job] + now
                for job in self._running
                if self._level[job] < len(_LIMITS)
            ),
            default=inf,
        )


def of_jobs(failures: Iterable[Failure]) -> Iterator[Failure]:
    """Yield the failures; a node failure is a ValueError."""
    for failure in failures:
        if not isinstance(failure, JobFailure):
            raise ValueError(f"tiresias places no job on a node, so that none can fail: {failure}")
        yield failure
