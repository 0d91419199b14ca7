"""Replays jobs under several policies, and compares each job with its private cluster."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_instance
from hivecore.cells import CellCluster
from hivecore.scheduler import Scheduler
from hivecore.sim.configurations import configure, jobs_of
from hivecore.sim.figures import fragmentation
from hivecore.sim.looks import Notify
from hivecore.sim.simulate import Outcome, simulate
from hivecore.sim.workload import GPUS_PER_NODE, Workload

__all__ = ["BACKFILL", "LENDING", "POLICIES", "TOLERANCE", "Borrowing", "Replay", "Run", "replay"]

#: The policies in the order in which they are run and reported.
POLICIES = ("private", "quota", "cells")
#: Cells with waiting jobs on idle ones; replayed only on request.
LENDING = "lending"
#: Private clusters in which short jobs may overtake the first of their queue.
BACKFILL = "backfill"
#: Seconds: if two policies start a job at the same event, sums of durations may be rounded
#: differently.
TOLERANCE = 1e-6
_SAMPLES = 400


@dataclass(frozen=True, slots=True)
class Borrowing:
    """What waiting jobs did on other tenants' idle cells.

    :param gpu_hours: work done on borrowed cells, without lost work.
    :param promotions: runs that moved to their tenant's own cells.
    :param preemptions: runs that lost their cells to a guaranteed job.
    :param lost_gpu_hours: work of the preempted runs.
    """

    gpu_hours: float
    promotions: int
    preemptions: int
    lost_gpu_hours: float


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The outcome of a policy.

    :param start: float64[jobs], seconds, start of the completed run.
    :param free: int64[samples], free GPUs.
    :param stranded: int64[samples], free GPUs outside entirely free nodes.
    :param borrowing: only with opportunistic jobs.
    """

    start: npt.NDArray[np.float64]
    free: npt.NDArray[np.int64]
    stranded: npt.NDArray[np.int64]
    borrowing: Borrowing | None = None

    @property
    def fragmentation(self) -> float:
        """The fraction of free GPUs outside entirely free nodes, over all samples."""
        return fragmentation(self.free, self.stranded)


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """The outcomes of all replayed policies on a workload.

    :param work: the jobs.
    :param instants: float64[samples], seconds, when `Run.free` was sampled.
    :param runs: outcome by policy, always including "private".
    """

    work: Workload
    instants: npt.NDArray[np.float64]
    runs: dict[str, Run]

    def delay(self, policy: str) -> npt.NDArray[np.float64]:
        """Return the queueing delay of each job, float64[jobs], seconds from
        submission to start.
        """
        return self.runs[policy].start - self.work.trace.submit

    def excess(self, policy: str) -> npt.NDArray[np.float64]:
        """Return each job's start minus its start in its private cluster,
        float64[jobs], seconds.
        """
        return self.runs[policy].start - self.runs["private"].start

    def later(self, policy: str) -> npt.NDArray[np.bool_]:
        """Return which jobs start over a microsecond later than in their private cluster."""
        return self.excess(policy) > TOLERANCE


def replay(
    work: Workload,
    policies: Iterable[str] = POLICIES,
    opportunistic: bool = False,
    progress: Callable[[str], Notify] | None = None,
) -> Replay:
    """Return when each job starts under each policy.

    :param work: the jobs.
    :param policies: names among `POLICIES`, `LENDING` and `BACKFILL`; "private" is always replayed,
        as the reference.
    :param opportunistic: whether waiting jobs may run on idle cells under "cells".
    :param progress: called with a policy's name before its run; the result is called from time to
        time, and at the end, with the number of jobs submitted so far.
    :raises ValueError: an unknown policy.

    Deterministic. Cost: see `simulate`.

    >>> from hivecore.sim import own_nodes
    >>> from hivecore.traces import generate
    >>> trace = generate({"speech": 8, "vision": 8}, jobs=500, seed=0)
    >>> result = replay(Workload.of(trace, {"speech": 8, "vision": 8}))
    >>> int(result.later("cells").sum())
    0
    """
    as_instance(work, "work", Workload)
    wanted = set(policies) | {"private"}
    allowed = (*POLICIES, LENDING, BACKFILL)
    if unknown := sorted(wanted.difference(allowed)):
        names = ", ".join(POLICIES)
        more = f"{LENDING!r}, {BACKFILL!r}"
        raise ValueError(f"policies must be among {names}, not {unknown[0]!r} (or {more})")
    instants = np.linspace(0.0, work.window, _SAMPLES)
    runs = {}
    for name in allowed:
        if name in wanted:
            show = progress(name) if progress else None
            runs[name] = _run(name, work, instants, opportunistic, show)
            if show:
                show(work.trace.jobs)
    return Replay(work, instants, runs)


def _run(
    name: str,
    work: Workload,
    instants: npt.NDArray[np.float64],
    opportunistic: bool,
    progress: Notify | None,
) -> Run:
    policy = LENDING if opportunistic and name == "cells" else name
    scheduler = configure(policy, work)
    sampler = _Sampler(instants, scheduler, progress)
    trace = work.trace
    submit, duration = trace.submit.tolist(), trace.duration.tolist()
    outcome = simulate(scheduler, jobs_of(work, policy), submit, duration, watch=sampler.advance)
    sampler.advance(inf, trace.jobs)
    free, stranded = np.array(sampler.counts, dtype=np.int64).reshape(-1, 2).T
    lent = _borrowing(work, outcome) if policy == LENDING else None
    return Run(outcome.start, free, stranded, lent)


def _borrowing(work: Workload, outcome: Outcome) -> Borrowing:
    gpus = work.trace.gpus
    return Borrowing(
        gpu_hours=float(gpus @ outcome.lent) / 3600.0,
        promotions=outcome.promotions,
        preemptions=int(outcome.preemptions.sum()),
        lost_gpu_hours=float(gpus @ outcome.lost) / 3600.0,
    )


class _Sampler:
    """Samples the free GPUs at given instants, and reports progress at the same time."""

    def __init__(
        self,
        instants: npt.NDArray[np.float64],
        scheduler: Scheduler,
        progress: Notify | None,
    ) -> None:
        assert scheduler.cells is not None
        self.instants, self.cells, self.progress = instants.tolist(), scheduler.cells, progress
        self.chains = tuple(self.cells.spec.chains)
        self.counts: list[tuple[int, int]] = []

    def advance(self, now: float, submitted: int) -> float:
        """Record the state for all instants before ``now``; return the next instant."""
        while len(self.counts) < len(self.instants):
            instant: float = self.instants[len(self.counts)]
            if instant >= now:
                return instant
            self.counts.append(_free_gpus(self.cells, self.chains))
            if self.progress:
                self.progress(submitted)
        return inf


def _free_gpus(cells: CellCluster, chains: tuple[str, ...]) -> tuple[int, int]:
    """Return the free GPUs, and those outside entirely free nodes."""
    free = stranded = 0
    for chain in chains:
        idle = cells.idle_leaves(chain)
        free += int(idle.sum())
        stranded += int(idle[idle < GPUS_PER_NODE].sum())
    return free, stranded
