"""Which jobs get GPUs: first in first out, shortest first, least service first, max-min fair.

A storage-aware order estimates a job's remaining time from the rate that cache and remote IO allow,
not from the rate of the GPUs (SiloD's estimator). GPUs are counted, without placement.
"""

from math import inf

import numpy as np

from hivecore.sim.storage.situation import Grants, Situation, reached
from hivecore.sim.storage.workload import MB, Floats, Indices
from hivecore.storage import allocate_storage
from hivecore.storage.allocation import Objective

__all__ = ["Fifo", "GpuOrder", "LeastAttained", "MaxMin", "OfObjective", "Shortest"]


class GpuOrder:
    """A rule for the GPUs; this one is first in, first out, and stops no job."""

    #: Whether jobs take turns on GPUs, so that all of them run.
    takes_turns = False

    def ranked(self, situation: Situation) -> Indices | None:
        """Return the jobs that may run, the most urgent first; None for the order of arrival.

        :param situation: the present.
        """
        return None

    def granted(self, situation: Situation, jobs: Indices) -> Grants:
        """Return what jobs get from now on: their share of time on GPUs, and their order for
        remote IO.

        :param situation: the present.
        :param jobs: int64[running], the jobs that may run, in the order of `ranked`.
        """
        return _whole(jobs)


class Fifo(GpuOrder):
    """First in, first out."""


class Shortest(GpuOrder):
    """Shortest job first by remaining time: SRTF, or SJF, which stops no job.

    :param preemptive: whether a shorter job may take the GPUs of a running one.
    :param aware: estimate with cache and remote IO: SJF with what is free when a job is considered,
        SRTF with what is cached now and an equal part of the bandwidth. (With what is free, each
        arrival would change the whole order, and jobs would be stopped again and again.)
    """

    def __init__(self, preemptive: bool, aware: bool) -> None:
        self._preemptive = preemptive
        self._aware = aware

    def ranked(self, situation: Situation) -> Indices:
        """Return the shortest jobs first, after running jobs unless it is preemptive."""
        present, running = situation.present, situation.running
        if self._preemptive:
            return _sorted(situation, present, self._rates(situation, present))
        return np.append(running, self._next(situation, present[situation.waits]))

    def granted(self, situation: Situation, jobs: Indices) -> Grants:
        """Return the jobs, the shortest first, as remote IO follows the same order."""
        return _whole(_sorted(situation, jobs, self._rates(situation, jobs)))

    def _rates(self, situation: Situation, jobs: Indices) -> Floats:
        """Return the rates in MB/s that the estimates use."""
        work, cluster = situation.work, situation.cluster
        if not self._aware:
            return work.rate_mbps[jobs]
        gpus = work.gpus[situation.present]
        # The average number of jobs that run at once.
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
        # Each job expects an equal share, unless running jobs have left less.
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

    A job moves to the next queue after so many GPU seconds. A queue is first come, first served,
    but running jobs precede waiting ones.

    :param limits: GPU seconds at which a job leaves each queue except the last, ascending.
    """

    def __init__(self, limits: tuple[float, ...] = (3_600.0, 36_000.0)) -> None:
        self._limits = np.array(limits)

    def ranked(self, situation: Situation) -> Indices:
        """Return the jobs of the first queue first."""
        present = situation.present
        return present[np.lexsort((present, situation.waits, self._queue(situation, present)))]

    def granted(self, situation: Situation, jobs: Indices) -> Grants:
        """Return the jobs, until one changes its queue."""
        limit = np.append(self._limits, inf)[self._queue(situation, jobs)]
        again = (limit - situation.attained[jobs]) / situation.work.gpus[jobs]
        return _whole(jobs, float(again.min(initial=inf)))

    def _queue(self, situation: Situation, jobs: Indices) -> Indices:
        return np.searchsorted(self._limits, situation.attained[jobs] * (1 + 1e-9), side="right")


class MaxMin(GpuOrder):
    """Max-min fairness: all jobs run, and take turns if there are too few GPUs (Gavel, OSDI'20).

    :param aware: equalise the rates that cache and remote IO allow, relative to those with an equal
        share of everything (SiloD); otherwise the time on GPUs.
    """

    takes_turns = True

    def __init__(self, aware: bool) -> None:
        self._aware = aware

    def granted(self, situation: Situation, jobs: Indices) -> Grants:
        """Return the jobs with their share of the time."""
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
    """The scheduler's queues choose the jobs; remote IO follows the objective of its storage.

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
    """Return jobs by their remaining time at these rates."""
    key = situation.left[jobs] / np.maximum(rate, 1e-12)
    return jobs[np.lexsort((jobs, key))]
