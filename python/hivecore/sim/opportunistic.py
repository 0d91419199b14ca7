"""The event loop with opportunistic jobs: waiting jobs run on cells that are idle for the moment.

As `engine.run`, with three more rules, for the cells policy alone:

- *Borrow*: after the guaranteed starts of an instant, waiting jobs take idle cells, whoever owns
  them, in order of submission; a smaller job may overtake a larger one here. They keep their place
  in the queue.
- *Promote*: when such a job is the head of its queue and its tenant's own cells can serve it, it
  moves there and keeps its progress. The move costs no time.
- *Preempt*: a guaranteed start takes back the cells that it needs. A job that held one of them
  loses all of its cells and its progress, and waits again where it stands in the queue.

A job's start is the start of the run that it completed. Waiting jobs of equal cells are
interchangeable for borrowing, so one heap per (level, cells) replaces scanning the queues.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from math import inf

import numpy as np
import numpy.typing as npt

from hivecore.errors import InvariantError
from hivecore.sim.engine import Borrowing, Progress, Run, Sampler
from hivecore.sim.policies import Cells
from hivecore.sim.workload import Workload

__all__ = ["run_opportunistic"]

_WAITING, _BORROWING, _OWNING, _DONE = range(4)


def run_opportunistic(
    work: Workload,
    policy: Cells,
    instants: npt.NDArray[np.float64],
    progress: Progress | None = None,
) -> Run:
    """Return when each job starts if waiting jobs may run on idle cells.

    :param work: the jobs.
    :param policy: made for `work`, with all cells free.
    :param instants: float64[samples], rising, seconds at which to record the free GPUs.
    :param progress: see `Progress`.
    :raises InvariantError: a job never starts.

    Ties: equal submission times in the order of the trace. Cost: as `engine.run`, plus one policy
    call per request shape and instant at which cells may have become idle.

    >>> from hivecore.traces import Trace
    >>> trace = Trace.from_columns(["a", "b"], ["x", "x"], [0, 10], [60, 60], [8, 8])
    >>> work = Workload.of(trace, {"x": 1, "y": 1})
    >>> run_opportunistic(work, Cells(work), np.array([])).start.tolist()
    [0.0, 10.0]
    """
    loop = _Loop(work, policy, Sampler(instants, policy.free_gpus, progress))
    return loop.run()


class _Loop:
    def __init__(self, work: Workload, policy: Cells, sampler: Sampler) -> None:
        self.policy = policy
        self.sampler = sampler
        self.now = 0.0
        self.job_ids = work.trace.job_id
        self.submit = [*work.trace.submit.tolist(), inf]
        self.duration = work.trace.duration.tolist()
        self.tenant = work.trace.tenant.tolist()
        self.gpus = work.trace.gpus.tolist()
        self.shape = list(zip(work.level.tolist(), work.cells.tolist(), strict=True))

        jobs = len(self.duration)
        self.state = [_WAITING] * jobs
        self.start = [inf] * jobs
        self.queues: list[deque[int]] = [deque() for _ in work.nodes]
        # Jobs that wait no longer stay in here until they surface; in `running`, preempted runs.
        self.waiting: dict[tuple[int, int], list[int]] = {shape: [] for shape in self.shape}
        self.running: list[tuple[float, int, float]] = []

        self.promotions = self.preemptions = 0
        self.useful = self.lost = 0.0  # GPU-seconds on borrowed cells

    def run(self) -> Run:
        submit, running, sampler = self.submit, self.running, self.sampler
        arrival = 0
        sample_at = sampler.advance(-inf, 0)
        while True:
            while running and self._is_stale(*running[0]):
                heappop(running)
            self.now = now = min(submit[arrival], running[0][0] if running else inf)
            if now == inf:
                break
            if sample_at < now:
                sample_at = sampler.advance(now, arrival)

            woken = set()
            while running and running[0][0] == now:
                entry = heappop(running)
                if not self._is_stale(*entry):
                    self._complete(entry[1])
                    woken.add(self.tenant[entry[1]])
            while submit[arrival] == now:
                self.queues[self.tenant[arrival]].append(arrival)
                heappush(self.waiting[self.shape[arrival]], arrival)
                woken.add(self.tenant[arrival])
                arrival += 1
            self._start_heads(woken)
            self._borrow()

        if _WAITING in self.state:
            job = self.job_ids[self.state.index(_WAITING)]
            raise InvariantError(f"job {job} never starts")
        borrowing = Borrowing(
            gpu_hours=self.useful / 3600.0,
            promotions=self.promotions,
            preemptions=self.preemptions,
            lost_gpu_hours=self.lost / 3600.0,
        )
        return sampler.finish(self.start, borrowing)

    def _is_stale(self, _end: float, job: int, start: float) -> bool:
        """Whether the run that began at `start` was preempted, or is over by an equal entry."""
        return self.start[job] != start or self.state[job] in (_WAITING, _DONE)

    def _complete(self, job: int) -> None:
        if self.state[job] == _BORROWING:
            self.policy.give_back(job)
            self.useful += self.gpus[job] * self.duration[job]
        else:
            self.policy.finish(job)
        self.state[job] = _DONE

    def _start_heads(self, woken: set[int]) -> None:
        heads = [head for name in woken if (head := self._head(name)) is not None]
        heapify(heads)
        while heads:
            job = heappop(heads)
            if not self.policy.fits(job):
                continue
            self._own(job)
            queue = self.tenant[job]
            self.queues[queue].popleft()
            if (head := self._head(queue)) is not None:
                heappush(heads, head)

    def _head(self, tenant: int) -> int | None:
        """Return the first job of the queue that is not done; a borrower may end within it."""
        queue = self.queues[tenant]
        while queue and self.state[queue[0]] == _DONE:
            queue.popleft()
        return queue[0] if queue else None

    def _own(self, job: int) -> None:
        """Start or promotes a job on its tenant's own cells, which fit it."""
        promoted = self.state[job] == _BORROWING
        if promoted:
            # First, so that the job can stay where it is instead of pushing itself out.
            self.policy.give_back(job)
            self.promotions += 1
            self.useful += self.gpus[job] * (self.now - self.start[job])
        evicted = self.policy.start(job)
        self.state[job] = _OWNING
        for victim in evicted:
            self._preempt(victim)
        if not promoted:
            self._begin(job)

    def _preempt(self, job: int) -> None:
        self.preemptions += 1
        self.lost += self.gpus[job] * (self.now - self.start[job])
        self.start[job] = inf
        self.state[job] = _WAITING
        heappush(self.waiting[self.shape[job]], job)

    def _borrow(self) -> None:
        heads = [head for heap in self.waiting.values() if (head := self._first(heap)) is not None]
        heapify(heads)
        while heads:
            job = heappop(heads)
            if not self.policy.try_borrow(job):
                continue
            heap = self.waiting[self.shape[job]]
            heappop(heap)
            self.state[job] = _BORROWING
            self._begin(job)
            if (head := self._first(heap)) is not None:
                heappush(heads, head)

    def _first(self, heap: list[int]) -> int | None:
        while heap and self.state[heap[0]] != _WAITING:
            heappop(heap)
        return heap[0] if heap else None

    def _begin(self, job: int) -> None:
        self.start[job] = self.now
        heappush(self.running, (self.now + self.duration[job], job, self.now))
