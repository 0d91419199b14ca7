"""The same jobs under configurations of a scheduler, each of which adds a part.

alone      each tenant on its own nodes, with its part of cache and remote IO (by nodes), without
           others: the reference.
quotas     tenants share all nodes; each may hold as many GPUs as it owns, wherever they are.
cells      each tenant owns whole node cells instead (HiveD).
+ lending  waiting jobs may also run on idle cells, which their owners may reclaim.
+ sharing  jobs without GPUs may also join others of their tenant, if one keeps the network or the
           storage busy while the other computes (Muri).
+ data     cache and remote IO are allotted to jobs as well (SiloD). Before this, all jobs use one
           LRU cache and a network that is fair to all readers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_instance
from hivecore.scheduler import Data, Job, Sharing, StoragePool
from hivecore.sim.configurations import configure, jobs_of
from hivecore.sim.demo.ledger import Books, Floats, Ledger
from hivecore.sim.report import require
from hivecore.sim.simulate import simulate
from hivecore.sim.storage import reading_from
from hivecore.sim.workload import Workload
from hivecore.sim.worlds import InterleavedGpus
from hivecore.traces import TenantsTrace

__all__ = ["ALONE", "CONFIGURATIONS", "Demo", "DemoRun", "run_demo"]

#: The reference: each tenant has its own nodes, and a part of cache and remote IO by their number.
ALONE = "alone"
#: Each adds to the one before it; cells replace quotas.
CONFIGURATIONS = ("quotas", "cells", "+ lending", "+ sharing", "+ data")

_ALL = (ALONE, *CONFIGURATIONS)
# So that workers end at about the same time.
_SLOWEST_FIRST = ("+ lending", "+ sharing", "+ data", "quotas", "cells", ALONE)

_POLICIES = {"quotas": "quota", "cells": "cells"}
_RESOURCES = 3


@dataclass(frozen=True, slots=True, eq=False)
class DemoRun:
    """What became of the jobs under a configuration.

    :param start: float64[jobs], seconds, start of the completed run.
    :param end: float64[jobs], seconds.
    :param lost: float64[jobs], seconds of preempted runs.
    :param books: what jobs ran and held; ``None`` for "alone".
    """

    start: Floats
    end: Floats
    lost: Floats
    books: Books | None


@dataclass(frozen=True, slots=True, eq=False)
class Demo:
    """The jobs, what they share, and what became of them.

    :param work: the jobs and the nodes.
    :param cache_gb: of the cluster.
    :param bandwidth_mbps: of remote IO, in MB/s.
    :param runs: by configuration, `ALONE` first.
    """

    work: TenantsTrace
    cache_gb: float
    bandwidth_mbps: float
    runs: dict[str, DemoRun]

    def wait(self, name: str, row: int) -> float:
        """Return the seconds from a job's submission to the start of its completed run."""
        return float(self.runs[name].start[row] - self.work.trace.submit[row])

    @property
    def most_delayed(self) -> int:
        """The row of the job that quotas delay most compared with "alone"; ties: the first."""
        return int((self.runs[CONFIGURATIONS[0]].start - self.runs[ALONE].start).argmax())


def run_demo(
    work: TenantsTrace,
    cache_gb: float,
    bandwidth_mbps: float,
    progress: Callable[[str], None] | None = None,
) -> Demo:
    """Run the jobs of a trace under all configurations.

    :param work: the jobs, with sizes that cells have: 1, 2, 4 or 8 GPUs, or whole nodes.
    :param cache_gb: of all jobs together.
    :param bandwidth_mbps: of remote IO of all jobs together, in MB/s.
    :param progress: called with the name of each finished configuration.

    Needs joblib, whose configuration sets the parallelism: inside
    `joblib.parallel_config(n_jobs=2)` two configurations run at once. Deterministic. Cost: see
    `hivecore.sim.simulate`.

    >>> from hivecore.traces import generate_tenants
    >>> demo = run_demo(generate_tenants(jobs=60, seed=0, days=0.1), 4000.0, 6000.0)
    >>> list(demo.runs)
    ['alone', 'quotas', 'cells', '+ lending', '+ sharing', '+ data']
    """
    require("joblib")
    from joblib import Parallel, delayed

    run = partial(_run, as_instance(work, "work", TenantsTrace), cache_gb, bandwidth_mbps)
    parallel = Parallel(return_as="generator" if progress else "list")
    runs = {}
    for name, done in zip(_SLOWEST_FIRST, parallel(map(delayed(run), _SLOWEST_FIRST)), strict=True):
        runs[name] = done
        if progress:
            progress(name)
    return Demo(work, cache_gb, bandwidth_mbps, {name: runs[name] for name in _ALL})


def _run(generated: TenantsTrace, cache_gb: float, bandwidth_mbps: float, name: str) -> DemoRun:
    if name == ALONE:
        return _alone(generated, cache_gb, bandwidth_mbps)
    return _together(name, generated, cache_gb, bandwidth_mbps)


def _alone(generated: TenantsTrace, cache_gb: float, bandwidth_mbps: float) -> DemoRun:
    trace = generated.trace
    start, end, lost = (np.empty(trace.jobs) for _ in range(3))
    nodes = sum(generated.nodes.values())
    for code, name in enumerate(trace.tenants):
        own = trace.tenant == code
        work = Workload.of(trace.select(own), {name: generated.nodes[name]})
        jobs = _jobs(generated, work, "private", np.flatnonzero(own))
        part = generated.nodes[name] / nodes
        pool = StoragePool(generated.datasets_gb, cache_gb * part, bandwidth_mbps * part)
        submit, seconds = _times(work)
        reading = reading_from(pool, jobs, seconds)
        outcome = simulate(configure("private", work), jobs, submit, seconds, progress=reading)
        start[own], end[own], lost[own] = outcome.start, outcome.end, outcome.lost
    return DemoRun(start, end, lost, None)


def _together(name: str, generated: TenantsTrace, cache_gb: float, bandwidth_mbps: float) -> DemoRun:
    work, policy = Workload.of(generated.trace, generated.nodes), _POLICIES.get(name, "lending")
    jobs = _jobs(generated, work, policy, np.arange(generated.trace.jobs))
    sharing = Sharing(_RESOURCES) if name in ("+ sharing", "+ data") else None
    pool = StoragePool(generated.datasets_gb, cache_gb, bandwidth_mbps, "max_min")
    allots = name == "+ data"
    scheduler = configure(policy, work, sharing, pool if allots else None)
    assert scheduler.cells is not None
    numbers = {node: number for number, node in enumerate(scheduler.cells.nodes)}
    ledger = Ledger(InterleavedGpus(jobs), jobs, numbers)
    submit, seconds = _times(work)
    reading = reading_from(pool, jobs, seconds, scheduler if allots else None, ledger)
    outcome = simulate(scheduler, jobs, submit, seconds, progress=reading)
    return DemoRun(outcome.start, outcome.end, outcome.lost, ledger.books())


def _jobs(generated: TenantsTrace, work: Workload, policy: str, rows: npt.NDArray[np.intp]) -> list[Job]:
    """Return a workload's jobs, which are these rows of the trace."""
    if work.rounded or work.unowned.jobs or work.oversized.jobs:
        raise ValueError("work: a job has a size that no cells have")
    columns = (generated.stages[rows], generated.dataset[rows], generated.rate_mbps[rows])
    return [
        job.replace(stages=stages, data=Data(dataset, rate) if dataset else None)
        for job, stages, dataset, rate in zip(
            jobs_of(work, policy), *(column.tolist() for column in columns), strict=True
        )
    ]


def _times(work: Workload) -> tuple[list[float], list[float]]:
    return work.trace.submit.tolist(), work.trace.duration.tolist()
