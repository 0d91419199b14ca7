"""The common part of policies that order jobs by a key."""

from collections.abc import Iterable, Sequence
from itertools import islice
from math import inf

from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.training import earliest_completion

__all__ = ["Ranked"]


class Ranked:
    """A list of jobs by key, small ones first; for `Training`.

    :param jobs: the jobs.
    :param idle: GPUs of each node.
    """

    same_event = 0.0

    def __init__(self, jobs: Jobs, idle: list[int]) -> None:
        self.idle = idle
        self.pace, self.overhead = jobs.solo, jobs.restart
        self._key = [self.first_key(job) for job in range(len(jobs))]
        self._order: list[int] = []

    def first_key(self, job: int) -> float:
        """Return the key of a job that has not run."""
        raise NotImplementedError

    def key(self, job: int, remaining: float, attained: float) -> float:
        """Return the key of a job that has run, from its remaining iterations and
        seconds on GPUs.
        """
        raise NotImplementedError

    def come(self, job: int) -> None:
        """See `Policy`."""
        self._order.append(job)

    def end(self, job: int) -> None:
        """See `Policy`."""
        self._order.remove(job)

    def attain(self, attained: float, now: float, since: float) -> float:
        """See `Policy`."""
        return attained + (now - since)

    def ran(self, job: int, remaining: float, attained: float) -> None:
        """See `Policy`."""
        self._key[job] = self.key(job, remaining, attained)

    def order(self) -> Iterable[Sequence[int]]:
        """See `Policy`."""
        self._order.sort(key=self._key.__getitem__)
        return zip(self._order)

    def chosen(self, running: set[int]) -> list[int]:
        """See `Policy`."""
        jobs = (job for job in self._order if job in running)
        return list(islice(jobs, len(running)))

    def groups(self, running: Iterable[int]) -> list[Sequence[int]]:
        """See `Policy`."""
        return [(job,) for job in running]

    def completion(self, ends: list[float]) -> tuple[float, list[int]]:
        """See `Policy`."""
        return earliest_completion(ends)

    def next_change(self, now: float, attained: list[float]) -> float:
        """See `Policy`."""
        return inf
