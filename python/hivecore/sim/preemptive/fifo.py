"""First in, first out: no job is stopped, and none starts before one that came earlier."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import inf

from hivecore.sim.preemptive.failures import Failure
from hivecore.sim.preemptive.history import Span
from hivecore.sim.preemptive.incidents import Incidents, reported
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.placement import Placed, give_back, idle_nodes, place
from hivecore.sim.preemptive.training import Outcome

__all__ = ["run_fifo"]


def run_fifo(
    jobs: Jobs,
    nodes: int,
    failures: Iterable[Failure] = (),
    report_interval: float = inf,
    record: bool = False,
) -> Outcome:
    """Return what becomes of the jobs.

    :param jobs: in order of submission, each of which can run on the empty cluster.
    :param nodes: of 8 GPUs each.
    :param failures: in order of time.
    :param report_interval: seconds between reports of progress.
    :param record: whether to keep the history.
    :raises ValueError: failures that cannot be, or under which no job gets ahead.

    Jobs are placed as by the other policies, but keep their GPUs until they end. A job that a
    failure stops takes its place in the queue again, and pays for its restart; nothing else does.
    """
    count, submit = len(jobs), jobs.submit
    remaining, setup = list(jobs.iterations), [0.0] * count
    start, end, begin = [inf] * count, [inf] * count, [inf] * count
    held, lost = [0.0] * count, [0.0] * count
    idle, free = idle_nodes(nodes), idle_nodes(nodes)
    nodes_of: dict[int, tuple[int, ...]] = {}
    waiting: list[int] = []
    running: list[tuple[float, int]] = []
    history: list[Span] = []
    submitted = events = interruptions = 0
    previous = 0.0
    incidents = Incidents(failures, count, idle)

    def leave(job: int) -> None:
        held[job] += now - begin[job]
        if record and begin[job] < now:
            history.append(Span(begin[job], now, (job,), nodes_of[job]))
        give_back(free, jobs.gpus[job], nodes_of.pop(job))

    def placed() -> list[Placed]:
        return [Placed((job,), where) for job, where in nodes_of.items()]

    while submitted < count or running or waiting:
        now = submit[submitted] if submitted < count else inf
        if running:
            now = min(now, running[0][0])
        now = incidents.first(now, nodes_of)
        events += 1
        ahead = False
        while running and running[0][0] == now:
            job = heappop(running)[1]
            end[job] = now
            leave(job)
            ahead = True

        there = idle.copy()
        stopped = incidents.occur(now, nodes_of, placed)
        for job in sorted(stopped):
            leave(job)
            done = now - begin[job] - setup[job]
            kept = previous + reported(now - previous, report_interval) - begin[job] - setup[job]
            lost[job] += (max(done, 0.0) - max(kept, 0.0)) / jobs.solo[job]
            if kept > 0:
                remaining[job] -= kept / jobs.solo[job]
                ahead = True
            setup[job] = jobs.restart[job]
            heappush(waiting, job)
        if stopped:
            running = [(time, job) for time, job in running if job not in stopped]
            heapify(running)
        for node, gpus in enumerate(idle):
            if gpus != there[node]:
                free[node] = gpus
        if ahead or running or not waiting:
            incidents.got_ahead()
        interruptions += len(stopped)
        previous = now

        while submitted < count and submit[submitted] == now:
            # The numbers of jobs are in order of submission.
            heappush(waiting, submitted)
            submitted += 1
        while waiting and (where := place(free, jobs.gpus[waiting[0]])):
            job = heappop(waiting)
            nodes_of[job] = where
            start[job] = min(start[job], now)
            begin[job] = now
            heappush(running, (now + setup[job] + remaining[job] * jobs.solo[job], job))
    return Outcome(start, end, held, events, 0, lost, interruptions, history if record else None)
