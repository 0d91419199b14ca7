"""Which jobs get GPUs: first in first out, shortest first, least service first, max-min fair.

With storage in mind, "how long" is not what is left over the rate of the GPUs, but over the rate
that cache and remote IO allow (SiloD's estimator). Placement plays no part: GPUs are counted.
"""

from math import inf

import numpy as np

from hivecore.sim.storage.situation import Grants, Situation, reached
from hivecore.sim.storage.workload import MB, Floats, Indices
from hivecore.storage import allocate_storage
from hivecore.storage.allocation import Objective

__all__ = ["Fifo", "GpuOrder", "LeastAttained", "MaxMin", "OfObjective", "Shortest"]


class GpuOrder:
    """A rule for the GPUs; of itself first in, first out: no job is stopped, and none starts before
    one that came earlier.
    """

    #: Whether jobs take turns on GPUs, so that all of them run.
    takes_turns = False

    def ranked(self, situation: Situation) -> Indices | None:
        """Return the jobs that may run, the most urgent first; None: by arrival, and no job passes
        another one.

        :param situation: of this instant.
        """
        return None

    def granted(self, situation: Situation, jobs: Indices) -> Grants:
        """Return what those have that run from now on, whom the scheduler has chosen.

        :param situation: as it was ranked.
        :param jobs: int64[running], as they were ranked.
        """
        return _whole(jobs)


class Fifo(GpuOrder):
    """First in, first out."""


class Shortest(GpuOrder):
    """Shortest job first by the time that is left: SRTF, or SJF, which stops no job.

    :param preemptive: whether a shorter job may take the GPUs of a running one.
    :param aware: estimate the time with cache and remote IO in mind: SJF with those that are free
        when a job is considered, SRTF with what is cached now and an equal part of the bandwidth.
        (With what others leave free, each arrival would upset the order of all, and jobs would be
        stopped over and over.)
    """

    def __init__(self, preemptive: bool, aware: bool) -> None:
        self._preemptive = preemptive
        self._aware = aware

    def ranked(self, situation: Situation) -> Indices:
        """Return the shortest jobs first, but behind those that run if it stops none."""
        present, running = situation.present, situation.running
        if self._preemptive:
            return _sorted(situation, present, self._rates(situation, present))
        return np.append(running, self._next(situation, present[situation.waits]))

    def granted(self, situation: Situation, jobs: Indices) -> Grants:
        """Return the jobs, the shortest first, because remote IO follows the same order."""
        return _whole(_sorted(situation, jobs, self._rates(situation, jobs)))

    def _rates(self, situation: Situation, jobs: Indices) -> Floats:
        """Return the rates in MB/s on which the estimates count."""
        work, cluster = situation.work, situation.cluster
        if not self._aware:
            return work.rate_mbps[jobs]
        gpus = work.gpus[situation.present]
        # As many jobs as run at once, on average.
        parts = max(1.0, len(gpus) * min(1.0, cluster.gpus / max(float(gpus.sum()), 1.0)))
        dataset = work.dataset[jobs]
        miss = np.maximum(1.0 - situation.held[dataset] / work.size_mb[dataset], 0.0)
        return reached(work.rate_mbps[jobs], miss, cluster.bandwidth_mbps / parts)

    def _next(self, situation: Situation, waiting: Indices) -> Indices:
        """Return the waiting jobs in the order in which they may start."""
        work, cluster, running = situation.work, situation.cluster, situation.running
        if not self._aware:
            return _sorted(situation, waiting, work.rate_mbps[waiting])
        free = cluster.gpus - int(work.gpus[running].sum())
        if not free or not len(waiting):
            return waiting[:0]
        # Each job counts on an equal share, where those that run have left less.
        parts = min(len(running) + len(waiting), cluster.gpus)
        dataset = work.dataset[running]
        miss = 1.0 - np.minimum(situation.quota[dataset] / work.size_mb[dataset], 1.0)
        bandwidth = cluster.bandwidth_mbps - float(work.rate_mbps[running] @ miss)
        cache = cluster.cache_mb - float(situation.quota[np.unique(dataset)].sum())
        allocation = allocate_storage(
            situation.jobs(waiting, work.rate_mbps[waiting]),
            work.size_mb[situation.live] / MB,
            max(cache, cluster.cache_mb / parts) / MB,
            max(bandwidth, cluster.bandwidth_mbps / parts),
            "sjf",
            gpu_capacity=free,
        )
        return waiting[allocation.certificate.order]


class LeastAttained(GpuOrder):
    """Least attained service first, in queues as in Tiresias (NSDI'19).

    A job sinks to the next queue when it has used so many GPU seconds. Within a queue it is first
    come, first served, but running jobs go before waiting ones.

    :param limits: GPU seconds at which a job leaves each queue but the last, rising.
    """

    def __init__(self, limits: tuple[float, ...] = (3_600.0, 36_000.0)) -> None:
        self._limits = np.array(limits)

    def ranked(self, situation: Situation) -> Indices:
        """Return the jobs of the first queue first."""
        present = situation.present
        return present[np.lexsort((present, situation.waits, self._queue(situation, present)))]

    def granted(self, situation: Situation, jobs: Indices) -> Grants:
        """Return the jobs, until one of them sinks."""
        limit = np.append(self._limits, inf)[self._queue(situation, jobs)]
        again = (limit - situation.attained[jobs]) / situation.work.gpus[jobs]
        return _whole(jobs, float(again.min(initial=inf)))

    def _queue(self, situation: Situation, jobs: Indices) -> Indices:
        return np.searchsorted(self._limits, situation.attained[jobs] * (1 + 1e-9), side="right")


class MaxMin(GpuOrder):
    """Max-min fairness: all jobs run, and take turns if there are too few GPUs (Gavel, OSDI'20).

    :param aware: make equal the rates that cache and remote IO allow, relative to what an equal
        share of all would allow (SiloD); else the time that jobs have their GPUs.
    """

    takes_turns = True

    def __init__(self, aware: bool) -> None:
        self._aware = aware

    def granted(self, situation: Situation, jobs: Indices) -> Grants:
        """Return the jobs, with their share of the time."""
        work, cluster = situation.work, situation.cluster
        rate = work.rate_mbps[jobs]
        if not self._aware:
            gpus = max(float(work.gpus[jobs].sum()), 1.0)
            return Grants(jobs, np.full(len(jobs), min(1.0, cluster.gpus / gpus)), None, inf)
        allocation = allocate_storage(
            situation.jobs(jobs, rate),
            work.size_mb[situation.live] / MB,
            cluster.cache_gb,
            cluster.bandwidth_mbps,
            "max_min",
            gpu_capacity=cluster.gpus,
        )
        return Grants(
            jobs, np.minimum(allocation.rates_mbps / rate, 1.0), allocation.reference_mbps, inf
        )


class OfObjective(GpuOrder):
    """The queues of a scheduler choose the jobs; remote IO follows the objective of its storage.

    :param objective: of a `StoragePool`.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def granted(self, situation: Situation, jobs: Indices) -> Grants:
        """Return the jobs, the most urgent first, or with the rates that are compared."""
        work, cluster = situation.work, situation.cluster
        if self._objective == "fifo":
            return _whole(jobs)
        if self._objective in ("greedy", "throughput"):
            dataset = work.dataset[jobs]
            missed = 1.0 - situation.held[dataset] / work.size_mb[dataset]
            return _whole(jobs[np.argsort(missed, kind="stable")])
        equal = situation.equal_rates(jobs)
        if self._objective == "max_min":
            return Grants(jobs, np.ones(len(jobs)), equal, inf)
        columns = situation.jobs(jobs, work.rate_mbps[jobs])
        if self._objective == "finish_time":
            elapsed = np.maximum(situation.now - situation.start[jobs], 0.0)
            alone = (work.total_mb - situation.left)[jobs] / np.maximum(equal, 1e-9)
            columns = columns.replace(elapsed=elapsed, elapsed_alone=np.maximum(alone, 0.0))
        allocation = allocate_storage(
            columns,
            work.size_mb[situation.live] / MB,
            cluster.cache_gb,
            cluster.bandwidth_mbps,
            self._objective,
        )
        if self._objective == "sjf":
            return _whole(jobs[allocation.certificate.order])
        return Grants(jobs, np.ones(len(jobs)), allocation.rates_mbps, inf)


def _whole(jobs: Indices, again: float = inf) -> Grants:
    return Grants(jobs, np.ones(len(jobs)), None, again)


def _sorted(situation: Situation, jobs: Indices, rate: Floats) -> Indices:
    """Return jobs by the time that they have left at these rates."""
    key = situation.left[jobs] / np.maximum(rate, 1e-12)
    return jobs[np.lexsort((jobs, key))]
