"""Tiresias (NSDI'19): least attained service first, in three queues.

A job starts in the first queue and sinks to the next when it has used 3,250 and then 7,200 GPU
seconds. Within a queue it is first come, first served, but running jobs go before waiting ones.
As in the simulator of Muri's authors, only the number of free GPUs counts, not where they are.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from math import ceil, inf

from hivecore.sim.preemptive.events import Outcome
from hivecore.sim.preemptive.failures import Failure, JobFailure
from hivecore.sim.preemptive.incidents import Incidents, reported
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.placement import Placed
from hivecore.sim.workload import GPUS_PER_NODE

__all__ = ["run_tiresias"]

#: GPU seconds at which a job leaves each queue but the last.
_LIMITS = (3250, 7200)


def run_tiresias(
    jobs: Jobs, nodes: int, failures: Iterable[Failure] = (), report_interval: float = inf
) -> Outcome:
    """Return what becomes of the jobs.

    :param jobs: in order of submission, none larger than the cluster.
    :param nodes: of 8 GPUs each.
    :param failures: of jobs, in order of time.
    :param report_interval: seconds between reports of progress.
    :raises ValueError: a failure of a node, or failures under which no job gets ahead.

    Events are submissions, completions, and the instants at which a job sinks. The restart overhead
    is that of `events.run`; time lost to it counts as attained service.
    """
    count, submit, gpus = len(jobs), jobs.submit, jobs.gpus
    sinks_at = [[ceil(limit / size) for size in gpus] for limit in _LIMITS]
    remaining, attained = list(jobs.iterations), [0.0] * count
    start, end, lost = [inf] * count, [inf] * count, [0.0] * count
    level = [0] * count
    queues: list[list[int]] = [[] for _ in range(len(_LIMITS) + 1)]
    running: list[int] = []
    completion: float = inf
    completing: list[int] = []
    sinking: float = inf
    submitted = events = preemptions = interruptions = 0
    previous = 0.0
    incidents = Incidents(_of_jobs(failures), count, [])
    while submitted < count or any(queues):
        arrival = submit[submitted] if submitted < count else inf
        now = incidents.first(min(arrival, completion, sinking), running)
        events += 1

        if completion == now:
            for job in completing:
                end[job] = now
                attained[job] = attained[job] + now - previous
                queues[level[job]].remove(job)
                running.remove(job)
        stopped = incidents.occur(now, running, partial(_alone, running))
        while submitted < count and submit[submitted] == now:
            queues[0].append(submitted)
            submitted += 1

        ahead = completion == now or not any(queues)
        for job in running:
            work = now - previous - jobs.restart[job]
            if job in stopped:
                done = work
                work = reported(now - previous, report_interval) - jobs.restart[job]
                lost[job] += (max(done, 0.0) - max(work, 0.0)) / jobs.solo[job]
            if work > 0:
                remaining[job] -= work / jobs.solo[job]
                ahead = True
            attained[job] = attained[job] + now - previous
            at = level[job]
            if at < len(_LIMITS) and attained[job] * gpus[job] >= _LIMITS[at]:
                queues[at].remove(job)
                queues[at + 1].append(job)
                level[job] = at + 1
        if ahead:
            incidents.got_ahead()
        previous = now

        chosen = _choose(queues, gpus, GPUS_PER_NODE * nodes)
        preemptions += len(set(running).difference(chosen, stopped))
        interruptions += len(stopped)
        for job in chosen:
            if start[job] == inf:
                start[job] = now
        # The order of jobs that sink at one event is that of their submission.
        running = sorted(chosen)
        ends = [now + remaining[job] * jobs.solo[job] for job in running]
        completion = min(ends, default=inf)
        completing = [job for job, time in zip(running, ends, strict=True) if time == completion]
        sinking = min(
            (
                sinks_at[level[job]][job] - attained[job] + now
                for job in running
                if level[job] < len(_LIMITS)
            ),
            default=inf,
        )
    return Outcome(start, end, attained, events, preemptions, lost, interruptions, None)


def _alone(running: list[int]) -> list[Placed]:
    return [Placed((job,), ()) for job in running]


def _of_jobs(failures: Iterable[Failure]) -> Iterator[Failure]:
    for failure in failures:
        if not isinstance(failure, JobFailure):
            raise ValueError(f"tiresias places no job on a node, so that none can fail: {failure}")
        yield failure


def _choose(queues: list[list[int]], gpus: list[int], free: int) -> list[int]:
    """Return what runs, and moves it before the rest of its queue."""
    chosen = []
    for queue in queues:
        runs, waits = [], []
        for job in queue:
            if not free:
                break
            if gpus[job] <= free:
                runs.append(job)
                free -= gpus[job]
            else:
                waits.append(job)
        # What was not looked at waits as well, and stays where it is.
        queue[: len(runs) + len(waits)] = runs + waits
        chosen += runs
    return chosen
