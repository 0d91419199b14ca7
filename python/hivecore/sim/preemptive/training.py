"""Training jobs that are stopped and restarted at any event, and keep their progress.

The rules are those of the Muri authors' simulator, down to the order of float operations, as ties
and rounding affect the averages:

- The restart overhead is paid afterwards: in each interval between events, a job that ran does no
  work for its restart time (or the whole interval, if shorter), whether or not it was moved. The
  interval that ends with the job's own completion is free.
- The list of jobs is a single object, stably sorted by key: among equal keys a job stays where the
  previous event left it, and new jobs come last.
- Completions at nearly the same time are one event, at the time of the first in the list.

That simulator has no failures. Here, a failure that stops a running job, and the loss or return of
a node, are events as well, so all running jobs pay for them. A stopped job loses the work since its
last report and waits like any other job; it may run again at once. Jobs report at each event, and
after each report interval between events.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from hivecore.scheduler import Action, Move, PlacedPod, Preempt, Start
from hivecore.sim.preemptive.failures import Failure
from hivecore.sim.preemptive.history import Recorder, Span
from hivecore.sim.preemptive.incidents import Incidents, reported
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.placement import Placed, nodes_of
from hivecore.sim.progress import Incident, JobFails

__all__ = ["JobOutcome", "Policy", "Training", "close", "earliest_completion"]

_CLOSE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class JobOutcome:
    """When each job first ran and ended, and how.

    :param start: per job, seconds.
    :param end: per job, seconds.
    :param held: per job, seconds with GPUs, including restarts.
    :param events: instants at which the policy chose.
    :param preemptions: how often the policy stopped a running job.
    :param lost: per job, iterations lost because a failure came before a report.
    :param interruptions: how often a failure stopped a running job.
    :param history: where and when each job ran, in order of ends, if recorded.
    """

    start: list[float]
    end: list[float]
    held: list[float]
    events: int
    preemptions: int
    lost: list[float]
    interruptions: int
    history: list[Span] | None


class Policy(Protocol):
    """Orders jobs, and knows how fast running jobs are."""

    #: A submission and a completion within this time (seconds) are one event.
    same_event: float
    #: GPUs of each node, 0 while it is lost.
    idle: list[int]
    #: Seconds per iteration of each running job.
    pace: list[float]
    #: Seconds of each interval that each running job loses.
    overhead: list[float]

    def come(self, job: int) -> None:
        """Add a new job."""

    def end(self, job: int) -> None:
        """Remove a running job that has completed."""

    def attain(self, attained: float, now: float, since: float) -> float:
        """Return the seconds on GPUs of a job that has run since then."""

    def ran(self, job: int, remaining: float, attained: float) -> None:
        """Note that a job has run: its remaining iterations, and its seconds on GPUs."""

    def order(self) -> Iterable[Sequence[int]]:
        """Return the jobs in order, grouped by shared GPUs; other jobs do not run."""

    def chosen(self, running: set[int]) -> list[int]:
        """Note which jobs run from now on; return them in the order in which ends are compared."""

    def groups(self, running: Iterable[int]) -> list[Sequence[int]]:
        """Return the jobs grouped by shared GPUs, in the order of the first of each group."""

    def completion(self, ends: list[float]) -> tuple[float, list[int]]:
        """Return the time of the next completion event, and the positions of what completes."""

    def next_change(self, now: float, attained: list[float]) -> float:
        """Return when the order changes by itself; inf for never."""


def close(x: float, y: float) -> bool:
    """Whether two times differ only by rounding.

    >>> close(3e6, 3e6 + 0.002), close(3e6, 3e6 + 0.004), close(0.0, 0.0)
    (True, False, True)
    """
    return abs(x - y) <= _CLOSE * max(abs(x), abs(y))


def earliest_completion(ends: list[float]) -> tuple[float, list[int]]:
    """Return the time of the first completion event, and the positions of what it completes.

    A completion joins the first event in the list that is close to it, or starts one.

    >>> earliest_completion([7.0, 5.0 + 4e-9, 5.0, 6.0])
    (5.000000004, [1, 2])
    """
    if not ends:
        return inf, []
    first = min(ends)
    # Only a chain of close completions could have an influence beyond this.
    horizon = first + abs(first) * (2 * _CLOSE * (len(ends) + 1))
    near = [position for position, end in enumerate(ends) if end <= horizon]
    if len(near) == 1:
        return first, near
    opened: dict[float, list[int]] = {}
    for position in near:
        end = ends[position]
        joined = next((time for time in opened if close(end, time)), end)
        opened.setdefault(joined, []).append(position)
    time = min(opened)
    return time, opened[time]


class Training:
    """The progress of jobs that are named by number, for `hivecore.sim.simulate`.

    :param jobs: in order of submission.
    :param policy: decides which jobs run; it was made for `jobs`.
    :param failures: in order of time.
    :param report_interval: seconds between reports of progress to the policy.
    :param record: whether to keep the history.
    :raises ValueError: now or while it runs: a failure names no job or node, or no job makes
        progress.

    Cost: O(running jobs) for each event.
    """

    is_kept = True

    def __init__(
        self,
        jobs: Jobs,
        policy: Policy,
        failures: Iterable[Failure],
        report_interval: float,
        record: bool,
    ) -> None:
        count = len(jobs)
        self._policy, self._interval = policy, report_interval
        self._names = [str(job) for job in range(count)]
        self._gpus = jobs.gpus
        #: whether the first job fits wherever its number of GPUs is free
        self._fill_up = len(policy.idle) == 1 or all(map(_is_power_of_two, set(jobs.gpus)))
        self._remaining, self._attained = list(jobs.iterations), [0.0] * count
        self._start, self._end, self._lost = [inf] * count, [inf] * count, [0.0] * count
        self._events = self._preemptions = self._interruptions = 0
        self._running: list[int] = []
        self._stopped: set[int] = set()
        self._completion, self._completing = inf, list[int]()
        self._change = inf
        self._left = 0
        self._previous = 0.0
        self._incidents = Incidents(failures, count, policy.idle)
        self._pods: dict[int, tuple[PlacedPod, ...]] = {}
        self._recorder = Recorder() if record else None

    def next_end(self, before: float) -> float:
        """See `Progress`; if that is close to the next submission, it is the submission."""
        time, near = self._completion, self._policy.same_event
        latest = max(before, time)
        if near and latest < inf and abs(before - time) <= max(_CLOSE * latest, near):
            return before
        return time

    def next_change(self, before: float) -> float:
        """See `Progress`."""
        return self._incidents.first(min(before, self._change), self._running)

    def completed(self, now: float) -> Sequence[str]:
        """See `Progress`."""
        for job in self._completing:
            self._end[job] = now
            self._attained[job] = self._policy.attain(self._attained[job], now, self._previous)
            self._policy.end(job)
            self._running.remove(job)
        self._left -= len(self._completing)
        self._incidents.got_ahead()
        return [self._names[job] for job in self._completing]

    def happen(self, now: float) -> Sequence[Incident]:
        """See `Progress`."""
        self._events += 1
        stopped = self._stopped = self._incidents.occur(now, self._running, self._placed)
        self._interruptions += len(stopped)
        if self._advance(now) or not self._left:
            self._incidents.got_ahead()
        if stopped:
            self._running = [job for job in self._running if job not in stopped]
        failed = [JobFails(self._names[job]) for job in sorted(stopped)]
        return [*failed, *self._incidents.changes()]

    def _advance(self, now: float) -> bool:
        """Update what running jobs have done since the last event; return whether any made
        progress.
        """
        policy, elapsed, ahead = self._policy, now - self._previous, False
        for job in self._running:
            work = elapsed - policy.overhead[job]
            if job in self._stopped:
                done, work = work, reported(elapsed, self._interval) - policy.overhead[job]
                self._lost[job] += (max(done, 0.0) - max(work, 0.0)) / policy.pace[job]
            if work > 0:
                self._remaining[job] -= work / policy.pace[job]
                ahead = True
            self._attained[job] = policy.attain(self._attained[job], now, self._previous)
            policy.ran(job, self._remaining[job], self._attained[job])
        self._previous = now
        return ahead

    def submit(self, job: str, seconds: float, now: float) -> None:
        """See `Progress`."""
        self._policy.come(int(job))
        self._left += 1

    def order(self, now: float) -> Sequence[str | Sequence[str]]:
        """Return the jobs in order, without those that certainly have no place."""
        names, gpus, left = self._names, self._gpus, sum(self._policy.idle)
        order: list[str | Sequence[str]] = []
        for entry in self._policy.order():
            first = entry[0]
            if self._fill_up:
                if gpus[first] > left:
                    continue
                left -= gpus[first]
            order.append(names[first] if len(entry) == 1 else tuple([names[job] for job in entry]))
            if not left:
                break
        return order

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """See `Progress`."""
        running = set(self._running)
        for action in actions:
            if isinstance(action, (Start, Move)):
                job = int(action.job)
                self._pods[job] = action.pods
                running.add(job)
                self._start[job] = min(self._start[job], now)
            elif isinstance(action, Preempt):
                running.remove(int(action.job))
                self._preemptions += 1
        policy = self._policy
        self._running = policy.chosen(running)
        if self._recorder:
            self._recorder.note(now, self._placed(), self._stopped)
        remaining, pace = self._remaining, policy.pace
        ends = [now + remaining[job] * pace[job] for job in self._running]
        self._completion, positions = policy.completion(ends)
        self._completing = [self._running[position] for position in positions]
        self._change = policy.next_change(now, self._attained)

    def _placed(self) -> list[Placed]:
        """Return the jobs grouped by shared GPUs, in the order of the first of each group."""
        groups = self._policy.groups(self._running)
        return [Placed(tuple(sorted(group)), nodes_of(self._pods[group[0]])) for group in groups]

    def outcome(self) -> JobOutcome:
        """Return what became of the jobs."""
        return JobOutcome(
            self._start,
            self._end,
            self._attained,
            self._events,
            self._preemptions,
            self._lost,
            self._interruptions,
            self._recorder.spans if self._recorder else None,
        )


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
