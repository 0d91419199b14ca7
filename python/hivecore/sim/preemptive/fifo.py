"""First in, first out: no job is stopped, and none starts before one that came earlier."""

from collections import deque
from heapq import heappop, heappush
from math import inf

from hivecore.sim.preemptive.events import Outcome
from hivecore.sim.preemptive.jobs import Jobs
from hivecore.sim.preemptive.placement import idle_nodes, place

__all__ = ["run_fifo"]


def run_fifo(jobs: Jobs, nodes: int) -> Outcome:
    """Return what becomes of the jobs.

    :param jobs: in order of submission, each of which can run on the empty cluster.
    :param nodes: of 8 GPUs each.

    Jobs are placed as by the other policies, but keep their GPUs until they end. Nothing restarts,
    so no restart overhead is paid.
    """
    count, submit = len(jobs), jobs.submit
    start, end = [inf] * count, [inf] * count
    free = idle_nodes(nodes)
    taken: dict[int, list[int]] = {}
    waiting: deque[int] = deque()
    running: list[tuple[float, int]] = []
    submitted = events = 0
    while submitted < count or running:
        now = submit[submitted] if submitted < count else inf
        if running:
            now = min(now, running[0][0])
        events += 1
        while running and running[0][0] == now:
            job = heappop(running)[1]
            end[job] = now
            free = [left + gpus for left, gpus in zip(free, taken.pop(job), strict=True)]
        while submitted < count and submit[submitted] == now:
            waiting.append(submitted)
            submitted += 1
        while waiting:
            job, before = waiting[0], free.copy()
            if not place(free, jobs.gpus[job]):
                break
            waiting.popleft()
            taken[job] = [had - has for had, has in zip(before, free, strict=True)]
            start[job] = now
            heappush(running, (now + jobs.iterations[job] * jobs.solo[job], job))
    held = [stop - begin for stop, begin in zip(end, start, strict=True)]
    return Outcome(start, end, held, events, 0)
