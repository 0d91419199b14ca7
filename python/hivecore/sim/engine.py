"""The event loop: jobs arrive, start and end; a policy says which of them can start.

Time jumps from event to event. At each instant all completions come first, then all arrivals, then
attempts to start. Each tenant has one FIFO queue, and only its head may start: a head that cannot
blocks the jobs behind it, but no other tenant. Heads are tried in order of submission.

What keeps the loop short is that starts only take room: a head that cannot start stays blocked
until some job ends, so it is tried again only after a completion of its own tenant, or of any
tenant if the policy shares nodes. One pass over the heads per instant is enough.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from math import inf

import numpy as np
import numpy.typing as npt

from hivecore.errors import InvariantError
from hivecore.sim.policies.base import Policy
from hivecore.sim.workload import Workload

__all__ = ["Borrowing", "Progress", "Run", "Sampler", "run"]

#: Called now and then with the number of jobs submitted so far.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Borrowing:
    """What opportunistic jobs did with the idle cells of others.

    :param gpu_hours: work done on borrowed cells, lost work not included.
    :param promotions: runs that moved to their tenant's own cells.
    :param preemptions: runs that lost their cells to a guaranteed job.
    :param lost_gpu_hours: work of those runs, done in vain.
    """

    gpu_hours: float
    promotions: int
    preemptions: int
    lost_gpu_hours: float


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The outcome of one policy.

    :param start: float64[jobs], seconds, when each job began the run that it completed.
    :param free: int64[samples], free GPUs at the instants of the samples.
    :param stranded: int64[samples], those of them that are not in wholly free nodes.
    :param borrowing: with opportunistic jobs only.
    """

    start: npt.NDArray[np.float64]
    free: npt.NDArray[np.int64]
    stranded: npt.NDArray[np.int64]
    borrowing: Borrowing | None = None

    @property
    def fragmentation(self) -> float:
        """Share of the free GPUs that are not in wholly free nodes, over all samples together."""
        free = int(self.free.sum())
        return int(self.stranded.sum()) / free if free else 0.0


@dataclass(slots=True)
class Sampler:
    """Record the free GPUs at given instants, and tells the progress bar at the same time."""

    instants: npt.NDArray[np.float64]
    free_gpus: Callable[[], tuple[int, int]]
    progress: Progress | None
    counts: list[tuple[int, int]] = field(default_factory=list)

    def advance(self, now: float, submitted: int) -> float:
        """Record the state for all instants before `now`; returns the next instant to record."""
        while len(self.counts) < len(self.instants):
            instant = float(self.instants[len(self.counts)])
            if instant >= now:
                return instant
            self.counts.append(self.free_gpus())
            if self.progress:
                self.progress(submitted)
        return inf

    def finish(self, start: list[float], borrowing: Borrowing | None = None) -> Run:
        """Record the state for all instants left and returns the outcome."""
        self.advance(inf, len(start))
        counts = np.array(self.counts, dtype=np.int64).reshape(-1, 2)
        return Run(np.array(start), counts[:, 0], counts[:, 1], borrowing)


def run(
    work: Workload,
    policy: Policy,
    instants: npt.NDArray[np.float64],
    progress: Progress | None = None,
) -> Run:
    """Return when each job starts under a policy.

    :param work: the jobs.
    :param policy: made for `work`, with all cells free.
    :param instants: float64[samples], rising, seconds at which to record the free GPUs, after the
        events of that instant.
    :param progress: see `Progress`.
    :raises InvariantError: a job never starts; a policy with a defect could cause that.

    Ties: equal submission times in the order of the trace. Cost: O(jobs log jobs) policy calls
    and heap steps, plus one call per blocked head and completion that concerns it.

    >>> from hivecore.sim.policies import Private
    >>> from hivecore.traces import Trace
    >>> trace = Trace.from_columns(["a", "b", "c"], ["x"] * 3, [0, 10, 20], [60, 60, 5], [4, 8, 1])
    >>> work = Workload.of(trace, {"x": 1})
    >>> run(work, Private(work), np.array([15.0])).start.tolist()
    [0.0, 60.0, 120.0]
    """
    submit = work.trace.submit.tolist()
    duration = work.trace.duration.tolist()
    tenant = work.trace.tenant.tolist()
    queues: list[deque[int]] = [deque() for _ in work.nodes]
    running: list[tuple[float, int]] = []
    start = [inf] * len(submit)
    sampler = Sampler(instants, policy.free_gpus, progress)
    sample_at = sampler.advance(-inf, 0)
    try_start, finish, shared = policy.try_start, policy.finish, policy.shared

    submit.append(inf)
    arrival = 0
    while running or submit[arrival] != inf:
        now = submit[arrival]
        if running and running[0][0] < now:
            now = running[0][0]
        if sample_at < now:
            sample_at = sampler.advance(now, arrival)

        woken = set()
        while running and running[0][0] == now:
            job = heappop(running)[1]
            finish(job)
            woken.add(tenant[job])
        if woken and shared:
            woken.update(range(len(queues)))
        while submit[arrival] == now:
            queue = queues[tenant[arrival]]
            queue.append(arrival)
            if len(queue) == 1:
                woken.add(tenant[arrival])
            arrival += 1

        heads = [queues[name][0] for name in woken if queues[name]]
        heapify(heads)
        while heads:
            job = heads[0]
            if not try_start(job):
                heappop(heads)
                continue
            start[job] = now
            heappush(running, (now + duration[job], job))
            queue = queues[tenant[job]]
            queue.popleft()
            if queue:
                heapreplace(heads, queue[0])
            else:
                heappop(heads)

    if any(queues):
        waiting = next(queue[0] for queue in queues if queue)
        raise InvariantError(f"job {work.trace.job_id[waiting]} never starts")
    return sampler.finish(start)
