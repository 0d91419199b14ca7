"""Jobs on the same GPUs take turns, each on another resource at a time (Muri, SIGCOMM'22)."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from math import inf
from typing import Self

from hivecore.interleaving import interleave
from hivecore.scheduler import Action, Job, Move, Preempt, Start

__all__ = ["InterleavedGpus"]


class InterleavedGpus:
    """Each job that shares GPUs does an iteration per round of its group, by `Job.stages`.

    :param jobs: all that may run.

    The duration of a round is that of `hivecore.interleaving.interleave`; sharing and moving cost
    nothing more. Cost: O(1) for each job that starts or ends, and a round for each new mixture.

    >>> from hivecore.quotas import Quota, QuotaTree
    >>> from hivecore.scheduler import Job, Scheduler, Sharing
    >>> from hivecore.sim import simulate
    >>> jobs = [Job("reads", "a", 8, stages=[3, 1]), Job("evenly", "a", 8, stages=[2, 2])]
    >>> quotas = QuotaTree([Quota("a", max={"gpu": 8})], total={"gpu": 8})
    >>> scheduler = Scheduler(quotas=quotas, sharing=Sharing(2), immediate=True)
    >>> simulate(scheduler, jobs, [0, 0], [60, 90], InterleavedGpus(jobs)).end.tolist()
    [75.0, 105.0]
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._stages = {job.name: job.stages for job in jobs}
        #: running job -> all jobs on its GPUs
        self._together: dict[str, set[str]] = {}
        self._changed: set[str] = set()
        #: mixture -> seconds of a round
        self._rounds: dict[tuple[tuple[float, ...], ...], float] = {}

    def __copy__(self) -> Self:
        return deepcopy(self)

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """See `World`."""
        moves = [action for action in actions if isinstance(action, Move)]
        for move in moves:
            self._leave(move.job)
        for move in moves:
            self._join(move.job, move.shares_with)
        for action in actions:
            if isinstance(action, Preempt):
                self._leave(action.job)
            elif isinstance(action, Start) and action.job not in self._together:
                self._join(action.job, action.shares_with)

    def end(self, job: str, now: float) -> None:
        """See `World`."""
        self._leave(job)

    def speeds(self, now: float) -> Mapping[str, float]:
        """Return the new speeds of jobs whose GPUs gained or lost a job."""
        changed, self._changed = self._changed, set()
        return {job: self._speed(job) for job in sorted(changed)}

    def next_change(self) -> float:
        """See `World`."""
        return inf

    def _join(self, job: str, others: Sequence[str]) -> None:
        group = {job}
        for other in others:
            group |= self._together.get(other, {other})
        self._together |= dict.fromkeys(group, group)
        self._changed |= group

    def _leave(self, job: str) -> None:
        group = self._together.pop(job)
        group.remove(job)
        self._changed |= group
        self._changed.discard(job)

    def _speed(self, job: str) -> float:
        group = self._together[job]
        if len(group) == 1:
            return 1.0
        mixture = tuple(sorted(self._stages[name] for name in group))
        seconds = self._rounds.get(mixture)
        if seconds is None:
            seconds = self._rounds[mixture] = interleave(mixture).iteration_time
        return sum(self._stages[job]) / seconds
