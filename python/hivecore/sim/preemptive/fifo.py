"""First in, first out: no job is stopped, and none starts before an earlier one.

This is the scheduler's queue, not an order: jobs keep their GPUs until they end. A job that a
failure stops returns to its place in the queue, pays for its restart, and keeps the work that it
had reported. So the end of a run is known when it starts, unless a failure comes first.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from hivecore.scheduler import Action, Start
from hivecore.sim.preemptive.failures import Failure
from hivecore.sim.preemptive.history import Span
from hivecore.sim.preemptive.incidents import Incidents, reported
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.placement import Placed, idle_nodes, nodes_of
from hivecore.sim.preemptive.training import JobOutcome
from hivecore.sim.progress import Incident, JobFails

__all__ = ["Fifo"]


class Fifo:
    """The progress of jobs that are named by number, for `hivecore.sim.simulate`.

    :param jobs: in order of submission.
    :param nodes: of 8 GPUs each.
    :param failures: in order of time.
    :param report_interval: seconds between reports of progress.
    :param record: whether to keep the history.
    :raises ValueError: here or later, for impossible failures, or if no job makes progress.

    Cost: O(log running jobs) for each run, and O(running jobs) for each failure.
    """

    is_kept = True

    def __init__(
        self,
        jobs: Jobs,
        nodes: int,
        failures: Iterable[Failure],
        report_interval: float,
        record: bool,
    ) -> None:
        count = len(jobs)
        self._jobs, self._interval, self._record = jobs, report_interval, record
        self._remaining, self._setup = list(jobs.iterations), [0.0] * count
        self._start, self._end, self._begin = [inf] * count, [inf] * count, [inf] * count
        self._held, self._lost = [0.0] * count, [0.0] * count
        self._events = self._interruptions = 0
        #: (end, job) of running jobs
        self._ends: list[tuple[float, int]] = []
        self._nodes: dict[int, tuple[int, ...]] = {}
        self._waiting = 0
        self._has_ended = False
        self._previous = 0.0
        self._incidents = Incidents(failures, count, idle_nodes(nodes))
        self._spans: list[Span] = []

    def next_end(self, before: float) -> float:
        """See `Progress`."""
        return self._ends[0][0] if self._ends else inf

    def next_change(self, before: float) -> float:
        """See `Progress`."""
        return self._incidents.first(before, self._nodes)

    def completed(self, now: float) -> Sequence[str]:
        """See `Progress`."""
        names = []
        while self._ends and self._ends[0][0] == now:
            job = heappop(self._ends)[1]
            self._end[job] = now
            self._leave(job, now)
            names.append(str(job))
        self._has_ended = True
        return names

    def happen(self, now: float) -> Sequence[Incident]:
        """See `Progress`."""
        self._events += 1
        stopped = sorted(self._incidents.occur(now, self._nodes, self._placed))
        is_ahead, self._has_ended = self._has_ended, False
        for job in stopped:
            self._leave(job, now)
            is_ahead = self._keep_what_it_reported(job, now) or is_ahead
            self._setup[job] = self._jobs.restart[job]
        if stopped:
            self._ends = [(time, job) for time, job in self._ends if job in self._nodes]
            heapify(self._ends)
            self._waiting += len(stopped)
            self._interruptions += len(stopped)
        if is_ahead or self._nodes or not self._waiting:
            self._incidents.got_ahead()
        self._previous = now
        return [*(JobFails(str(job)) for job in stopped), *self._incidents.changes()]

    def submit(self, job: str, seconds: float, now: float) -> None:
        """See `Progress`."""
        self._waiting += 1

    def obey(self, actions: Sequence[Action], now: float) -> None:
        """See `Progress`."""
        for action in actions:
            if isinstance(action, Start):
                job = int(action.job)
                self._nodes[job] = nodes_of(action.pods)
                self._start[job] = min(self._start[job], now)
                self._begin[job] = now
                work = self._remaining[job] * self._jobs.solo[job]
                heappush(self._ends, (now + self._setup[job] + work, job))
                self._waiting -= 1

    def _leave(self, job: int, now: float) -> None:
        begin, nodes = self._begin[job], self._nodes.pop(job)
        self._held[job] += now - begin
        if self._record and begin < now:
            self._spans.append(Span(begin, now, (job,), nodes))

    def _keep_what_it_reported(self, job: int, now: float) -> bool:
        """Keep the work reported by the run that a failure ends; return whether there is any."""
        begin, setup, solo = self._begin[job], self._setup[job], self._jobs.solo[job]
        last = self._previous + reported(now - self._previous, self._interval)
        done, kept = max(now - begin - setup, 0.0), max(last - begin - setup, 0.0)
        self._lost[job] += (done - kept) / solo
        self._remaining[job] -= kept / solo
        return kept > 0

    def _placed(self) -> list[Placed]:
        return [Placed((job,), nodes) for job, nodes in self._nodes.items()]

    def outcome(self) -> JobOutcome:
        """Return what became of the jobs."""
        return JobOutcome(
            self._start,
            self._end,
            self._held,
            self._events,
            0,
            self._lost,
            self._interruptions,
            self._spans if self._record else None,
        )
