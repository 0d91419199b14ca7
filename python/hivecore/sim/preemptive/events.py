"""The event loop of the policies that may stop any job at any event.

At each submission and each completion the policy chooses anew, from an empty cluster, which jobs
run until the next event. The rules are those of the simulator that Muri's authors published, down
to the order of operations on floats, because ties and roundings move the averages:

- The restart overhead is paid afterwards: in each interval between events a job that ran does no
  work for its restart time, or for the whole interval if that is shorter, whether or not it was
  moved. The interval that ends with the job's own completion is free.
- The list of jobs is one object, sorted stably by key: among equal keys a job stays where the event
  before has left it, and new jobs come last.
- Completions at nearly the same time are one event, at the time of the first in the list.

That simulator knows no failures. Here one that stops a running job, a node that is lost and a node
that is back are events as well, and so all running jobs pay for them. What is stopped loses the
work since its last report and waits as any other job; it may run again at once. Jobs report at each
event, and between events whenever another report interval is over.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Protocol

from hivecore.sim.preemptive.failures import Failure
from hivecore.sim.preemptive.history import Recorder, Span
from hivecore.sim.preemptive.incidents import Incidents, reported
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.placement import Placed

__all__ = ["Outcome", "Policy", "close", "earliest_completion", "run"]

_CLOSE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """When each job first ran and when it ended, and how it came to that.

    :param start: per job, seconds.
    :param end: per job, seconds.
    :param held: per job, seconds with GPUs, restarts included.
    :param events: instants at which the policy chose.
    :param preemptions: how often the policy stopped a running job.
    :param lost: per job, iterations that were done in vain, because a failure came before a report.
    :param interruptions: how often a failure stopped a running job.
    :param history: who ran where and when, in order of ends, if it was recorded.
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
    """What runs next, and how fast."""

    #: A submission and a completion that are as near as this (seconds) are one event.
    same_event: float
    #: GPUs of each node, 0 while it is lost.
    idle: list[int]
    #: Seconds per iteration of each running job.
    pace: list[float]
    #: Seconds of each interval that each running job loses.
    overhead: list[float]

    def first_key(self, job: int) -> float:
        """Return the key of a job that has not run; small keys go first."""

    def key(self, job: int, remaining: float, attained: float) -> float:
        """Return the key of a job that has run, from iterations left and seconds on GPUs."""

    def choose(self, order: list[int], key: list[float]) -> list[int]:
        """Return the jobs to run, in the order of `order`, which it may sort anew."""

    def placed(self) -> list[Placed]:
        """Return where the jobs run that were chosen last, and with whom."""


def close(x: float, y: float) -> bool:
    """Whether two times differ by rounding only.

    >>> close(3e6, 3e6 + 0.002), close(3e6, 3e6 + 0.004), close(0.0, 0.0)
    (True, False, True)
    """
    return abs(x - y) <= _CLOSE * max(abs(x), abs(y))


def earliest_completion(ends: list[float]) -> tuple[float, list[int]]:
    """Return the time of the first completion event and the positions of what it completes.

    A completion joins the first event in the list that is close to it, or opens one.

    >>> earliest_completion([7.0, 5.0 + 4e-9, 5.0, 6.0])
    (5.000000004, [1, 2])
    """
    if not ends:
        return inf, []
    first = min(ends)
    # Only a chain of close completions could carry an influence beyond this.
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


def run(
    jobs: Jobs,
    policy: Policy,
    failures: Iterable[Failure] = (),
    report_interval: float = inf,
    record: bool = False,
) -> Outcome:
    """Return what becomes of the jobs under a policy.

    :param jobs: in order of submission, each of which can run on the empty cluster.
    :param policy: made for `jobs`.
    :param failures: in order of time.
    :param report_interval: seconds between reports of progress.
    :param record: whether to keep the history.
    :raises ValueError: failures that cannot be, or under which no job gets ahead.

    Cost: per event one call of the policy, O(running jobs), and a sort of an almost sorted list;
    O(1) for a failure that stops nothing.
    """
    submit, count = jobs.submit, len(jobs)
    remaining, attained = list(jobs.iterations), [0.0] * count
    key = [policy.first_key(job) for job in range(count)]
    start, end, lost = [inf] * count, [inf] * count, [0.0] * count
    order: list[int] = []
    running: list[int] = []
    completion: float = inf
    completing: list[int] = []
    submitted = events = preemptions = interruptions = 0
    previous = 0.0
    incidents = Incidents(failures, count, policy.idle)
    recorder = Recorder() if record else None
    while submitted < count or order:
        arrival = submit[submitted] if submitted < count else inf
        planned = min(arrival, completion)
        now = incidents.first(planned, running)
        if now < planned:
            ends = arrives = False
        elif (
            arrival < inf and completion < inf and _together(arrival, completion, policy.same_event)
        ):
            now = arrival
            ends = arrives = True
        else:
            ends, arrives = completion == now, arrival == now
        events += 1
        elapsed = now - previous

        if ends:
            for job in completing:
                end[job] = now
                attained[job] += elapsed
                order.remove(job)
                running.remove(job)
        stopped = incidents.occur(now, running, policy.placed)
        if arrives:
            while submitted < count and close(submit[submitted], arrival):
                order.append(submitted)
                submitted += 1

        ahead = ends or not order
        for job in running:
            work = elapsed - policy.overhead[job]
            if job in stopped:
                done, work = work, reported(elapsed, report_interval) - policy.overhead[job]
                lost[job] += (max(done, 0.0) - max(work, 0.0)) / policy.pace[job]
            if work > 0:
                remaining[job] -= work / policy.pace[job]
                ahead = True
            attained[job] += elapsed
            key[job] = policy.key(job, remaining[job], attained[job])
        if ahead:
            incidents.got_ahead()
        previous = now

        order.sort(key=key.__getitem__)
        chosen = policy.choose(order, key)
        preemptions += len(set(running).difference(chosen, stopped))
        interruptions += len(stopped)
        for job in chosen:
            if start[job] == inf:
                start[job] = now
        running = chosen
        if recorder:
            recorder.note(now, policy.placed(), stopped)
        completion, positions = earliest_completion(
            [now + remaining[job] * policy.pace[job] for job in running]
        )
        completing = [running[position] for position in positions]
    history = recorder.spans if recorder else None
    return Outcome(start, end, attained, events, preemptions, lost, interruptions, history)


def _together(arrival: float, completion: float, same_event: float) -> bool:
    if not same_event:
        return arrival == completion
    return abs(arrival - completion) <= max(_CLOSE * max(arrival, completion), same_event)
