"""The event loop: jobs are submitted, start, stop and end, as a `Scheduler` decides.

Time jumps from event to event. At each instant jobs end first, then failures happen, then jobs are
submitted, then the scheduler decides. A separate object keeps the jobs' progress: when they end,
and what remains of a stopped job.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore._arguments import LONGEST, as_float, as_instance, as_tuple, by_name
from hivecore._stateful import counted
from hivecore.errors import InvariantError
from hivecore.scheduler import Action, Job, Preempt, Promote, Reject, Scheduler, Start
from hivecore.sim.progress import Incident, JobFails, Progress
from hivecore.sim.progress.paced import Paced
from hivecore.sim.worlds import World

__all__ = ["Order", "Outcome", "Watch", "simulate"]

#: time -> names of jobs, see `Scheduler.reorder`.
Order = Callable[[float], Sequence[str | Sequence[str]]]

#: (time before it moves on, number of submitted jobs) -> when to call again.
Watch = Callable[[float, int], float]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of each job.

    :param start: float64[jobs], seconds, start of the completed run; inf if the job never
        completed.
    :param end: float64[jobs], seconds; likewise.
    :param preemptions: int64[jobs], how often each was preempted.
    :param lost: float64[jobs], lost seconds of work, if stopped jobs start over.
    :param lent: float64[jobs], seconds of completed work on idle cells.
    :param promotions: runs that moved from idle cells to those of their tenants.
    :param refused: job -> why it never completed, if that is not an error.
    """

    start: npt.NDArray[np.float64]
    end: npt.NDArray[np.float64]
    preemptions: npt.NDArray[np.int64]
    lost: npt.NDArray[np.float64]
    lent: npt.NDArray[np.float64]
    promotions: int
    refused: Mapping[str, str] = field(default_factory=dict)


def simulate(
    scheduler: Scheduler,
    jobs: Sequence[Job],
    submit: Sequence[float],
    duration: Sequence[float],
    world: World | None = None,
    watch: Watch | None = None,
    order: Order | None = None,
    progress: Progress | None = None,
    may_refuse: bool = False,
) -> Outcome:
    """Return what becomes of jobs under a scheduler.

    :param scheduler: without jobs. Its parts are the policy. Its victims stop at once.
    :param jobs: with unique names.
    :param submit: submission times in seconds, ascending.
    :param duration: seconds of each job at full speed, positive.
    :param world: how fast jobs run; by default at full speed, whatever they share.
    :param watch: called with a time before the events of that time, or of a later one.
    :param order: for policies that stop and start jobs: called before each decision, for
        `Scheduler.reorder`. By default the scheduler's own queues decide.
    :param progress: what jobs have done, keep when they stop, and what fails. By default jobs run
        as the world says, start over when they stop, and nothing fails.
    :param may_refuse: whether jobs may be rejected or wait forever, see `Outcome.refused`.
    :raises ValueError: the scheduler rejects a job although it must not, or has jobs already, the
        lists do not match, or a time is not allowed.
    :raises TypeError: an argument has a wrong type.
    :raises InvariantError: a job never starts although it must, or never makes progress.

    Ties: jobs submitted at the same time come, and end, in the given order. Cost: O(jobs log jobs)
    and the scheduler's decisions.

    >>> from hivecore.quotas import Quota, QuotaTree
    >>> from hivecore.scheduler import Job, Scheduler
    >>> quotas = QuotaTree([Quota("vision", max={"gpu": 8})], total={"gpu": 8})
    >>> jobs = [Job("a", "vision", 8), Job("b", "vision", 4), Job("c", "vision", 4)]
    >>> simulate(Scheduler(quotas=quotas, immediate=True), jobs, [0, 1, 2], [10, 5, 5]).end.tolist()
    [10.0, 15.0, 15.0]
    """
    as_instance(scheduler, "scheduler", Scheduler)
    jobs = list(by_name(jobs, "jobs", Job).values())
    submit, duration = _times(submit, "submit"), _times(duration, "duration")
    if not len(jobs) == len(submit) == len(duration):
        raise ValueError(f"jobs={len(jobs)}, submit={len(submit)}, duration={len(duration)} differ")
    for row, time in enumerate(submit):
        if not 0 <= time <= LONGEST:
            raise ValueError(f"submit[{row}]={time}: allowed are 0 to 2**40 seconds")
    if len(scheduler):
        raise ValueError(f"scheduler: it has {counted(len(scheduler), 'job')} already")
    if any(later < sooner for sooner, later in pairwise(submit)):
        raise ValueError("submit: the times fall")
    if not all(0 < seconds < inf for seconds in duration):
        raise ValueError("duration: must be positive and finite")
    if world is not None and progress is not None:
        raise ValueError("world: progress says already how fast jobs run")
    loop = _Loop(scheduler, jobs, duration, progress or Paced(world), order, may_refuse)
    loop.run(submit, watch)
    return loop.outcome()


def _times(values: Any, name: str) -> list[float]:
    return [as_float(time, f"{name}[{row}]") for row, time in enumerate(as_tuple(values, name))]


class _Loop:
    def __init__(
        self,
        scheduler: Scheduler,
        jobs: Sequence[Job],
        duration: Sequence[float],
        progress: Progress,
        order: Order | None,
        may_refuse: bool,
    ) -> None:
        self.scheduler, self.jobs, self.duration = scheduler, jobs, duration
        self.progress, self.order, self.may_refuse = progress, order, may_refuse
        count = len(jobs)
        self.row = {job.name: row for row, job in enumerate(jobs)}
        self.left = count
        self.start, self.end = [inf] * count, [inf] * count
        self.preemptions = [0] * count
        self.lost, self.lent = [0.0] * count, [0.0] * count
        #: jobs on idle cells
        self.borrowers: set[int] = set()
        self.promotions = 0
        self.refused: dict[str, str] = {}

    def run(self, submit: Sequence[float], watch: Watch | None) -> None:
        scheduler, progress, jobs = self.scheduler, self.progress, self.jobs
        watch_at = -inf if watch is not None else inf
        come, count = 0, len(jobs)
        while self.left:
            arrival = submit[come] if come < count else inf
            end = progress.next_end(arrival)
            now = progress.next_change(min(arrival, end))
            if now == inf:
                break
            if watch is not None and watch_at < now:
                watch_at = watch(now, come)
            if end == now:
                for name in progress.completed(now):
                    self.finish(self.row[name], now)
            for incident in progress.happen(now):
                self.suffer(incident, now)
            while come < count and submit[come] == now:
                scheduler.submit(jobs[come], now)
                progress.submit(jobs[come].name, self.duration[come], now)
                come += 1
            if self.order is not None:
                scheduler.reorder(self.order(now), now)
            while self.do(scheduler.decide(now), now):
                pass

    def do(self, actions: Sequence[Action], now: float) -> bool:
        """Carry out the scheduler's actions; return whether there is more to decide."""
        stopped = False
        for action in actions:
            if isinstance(action, Start):
                self.begin(self.row[action.job], now, action.lent)
            elif isinstance(action, Preempt):
                self.preempt(self.row[action.job], now)
                if not self.scheduler.immediate:
                    self.scheduler.stopped(action.job, now)
                    stopped = True
            elif isinstance(action, Promote):
                self.promote(self.row[action.job], now)
            elif isinstance(action, Reject):
                if not self.may_refuse:
                    raise ValueError(f"job {action.job!r} can never run: {action.reason}")
                self.refused[action.job] = action.reason
                self.left -= 1
        self.progress.obey(actions, now)
        return stopped

    def suffer(self, incident: Incident, now: float) -> None:
        if isinstance(incident, JobFails):
            self.scheduler.fail(incident.job, now)
            self.stop(self.row[incident.job], now)
        else:
            self.scheduler.set_node(incident.node, incident.healthy, now)

    def begin(self, row: int, now: float, lent: bool) -> None:
        if self.start[row] < inf:
            return  # more pods join it
        self.start[row] = now
        if lent:
            self.borrowers.add(row)

    def finish(self, row: int, now: float) -> None:
        self.scheduler.finish(self.jobs[row].name, now)
        self.end[row] = now
        self.left -= 1
        if row in self.borrowers:
            self.borrowers.remove(row)
            self.lent[row] += now - self.start[row]

    def preempt(self, row: int, now: float) -> None:
        self.preemptions[row] += 1
        self.stop(row, now)

    def stop(self, row: int, now: float) -> None:
        if not self.progress.is_kept:
            self.lost[row] += now - self.start[row]
            self.lent[row] = 0.0
        self.start[row] = inf
        self.borrowers.discard(row)

    def promote(self, row: int, now: float) -> None:
        self.borrowers.remove(row)
        self.lent[row] += now - self.start[row]
        self.promotions += 1

    def outcome(self) -> Outcome:
        for row, end in enumerate(self.end):
            name = self.jobs[row].name
            if end < inf or name in self.refused:
                continue
            if self.start[row] < inf or not self.may_refuse:
                what = "starts" if self.start[row] == inf else "ends"
                raise InvariantError(f"job {name!r} never {what}")
            refusal = self.scheduler.status(name).refusal
            self.refused[name] = "waits for ever" if refusal is None else refusal.reason
        return Outcome(
            np.array(self.start, dtype=np.float64),
            np.array(self.end, dtype=np.float64),
            np.array(self.preemptions, dtype=np.int64),
            np.array(self.lost, dtype=np.float64),
            np.array(self.lent, dtype=np.float64),
            self.promotions,
            self.refused,
        )
