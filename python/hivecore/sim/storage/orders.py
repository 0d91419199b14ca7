"""Which jobs get GPUs: first in first out, shortest first, least service first, max-min fair.

With storage in mind, "how long" is not what is left over the rate of the GPUs, but over the rate
that cache and remote IO allow (SiloD's estimator). Placement plays no part: GPUs are counted.
"""

from math import inf
from typing import Protocol

import numpy as np

from hivecore.sim.storage.remote_io import reached
from hivecore.sim.storage.situation import Grants, Situation
from hivecore.sim.storage.workload import MB, Floats, Indices
from hivecore.storage import allocate_storage

__all__ = ["Fifo", "LeastAttained", "MaxMin", "Order", "Shortest"]


class Order(Protocol):
    """A rule for the GPUs."""

    def grant(self, situation: Situation) -> Grants:
        """Return who runs from now on."""


class Fifo:
    """First in, first out: no job is stopped, and none starts before one that came earlier."""

    def grant(self, situation: Situation) -> Grants:
        """Return the jobs that came first, as many as fit.

        :param situation: of this instant.
        """
        present = situation.present
        used = np.cumsum(situation.work.gpus[present])
        count = int(np.searchsorted(used, situation.cluster.gpus, side="right"))
        return _whole(present[:count])


class Shortest:
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

    def grant(self, situation: Situation) -> Grants:
        """Return the shortest jobs, and behind them whatever else fits.

        :param situation: of this instant.
        """
        present, running = situation.present, situation.running
        if self._preemptive:
            order = _sorted(situation, present, self._rates(situation, present))
            return _whole(_that_fit(situation, order, situation.cluster.gpus))
        free = situation.cluster.gpus - int(situation.work.gpus[running].sum())
        waiting = present[situation.waits]
        if free and len(waiting):
            running = np.append(running, self._start(situation, waiting, free))
        # The most urgent first, because remote IO follows the same order.
        return _whole(_sorted(situation, running, self._rates(situation, running)))

    def _rates(self, situation: Situation, jobs: Indices) -> Floats:
        """Return the rates in MB/s on which the estimates count."""
        work, cluster = situation.work, situation.cluster
        if not self._aware:
            return work.rate_mbps[jobs]
        gpus = work.gpus[situation.present]
        # As many jobs as run at once, on average.
        parts = max(1.0, len(gpus) * min(1.0, cluster.gpus / float(gpus.sum())))
        dataset = work.dataset[jobs]
        miss = np.maximum(1.0 - situation.held[dataset] / work.size_mb[dataset], 0.0)
        return reached(work.rate_mbps[jobs], miss, cluster.bandwidth_mbps / parts)

    def _start(self, situation: Situation, waiting: Indices, free: int) -> Indices:
        """Return the waiting jobs that start now, none of which stops a running one."""
        work, cluster, running = situation.work, situation.cluster, situation.running
        if not self._aware:
            return _that_fit(situation, _sorted(situation, waiting, work.rate_mbps[waiting]), free)
        # Each job counts on an equal share, where those that run have left less.
        parts = min(len(running) + len(waiting), cluster.gpus)
        dataset = work.dataset[running]
        miss = 1.0 - np.minimum(situation.quota[dataset] / work.size_mb[dataset], 1.0)
        bandwidth = cluster.bandwidth_mbps - float(work.rate_mbps[running] @ miss)
        cache = cluster.cache_mb - float(situation.quota[np.unique(dataset)].sum())
        found = allocate_storage(
            situation.jobs(waiting, work.rate_mbps[waiting]),
            work.size_mb[situation.live] / MB,
            max(cache, cluster.cache_mb / parts) / MB,
            max(bandwidth, cluster.bandwidth_mbps / parts),
            "sjf",
            gpu_capacity=free,
        )
        return waiting[found.certificate.order]


class LeastAttained:
    """Least attained service first, in queues as in Tiresias (NSDI'19).

    A job sinks to the next queue when it has used so many GPU seconds. Within a queue it is first
    come, first served, but running jobs go before waiting ones.

    :param limits: GPU seconds at which a job leaves each queue but the last, rising.
    """

    def __init__(self, limits: tuple[float, ...] = (3_600.0, 36_000.0)) -> None:
        self._limits = np.array(limits)

    def grant(self, situation: Situation) -> Grants:
        """Return the jobs of the first queues, and behind them whatever else fits.

        :param situation: of this instant.
        """
        present = situation.present
        attained = situation.attained[present] * (1 + 1e-9)
        queue = np.searchsorted(self._limits, attained, side="right")
        chosen = _that_fit(
            situation,
            present[np.lexsort((present, situation.waits, queue))],
            situation.cluster.gpus,
        )
        queue = np.searchsorted(self._limits, situation.attained[chosen] * (1 + 1e-9), side="right")
        limit = np.append(self._limits, inf)[queue]
        again = (limit - situation.attained[chosen]) / situation.work.gpus[chosen]
        return _whole(chosen, float(again.min(initial=inf)))


class MaxMin:
    """Max-min fairness: all jobs run, and take turns if there are too few GPUs (Gavel, OSDI'20).

    :param aware: make equal the rates that cache and remote IO allow, relative to what an equal
        share of all would allow (SiloD); else the time that jobs have their GPUs.
    """

    def __init__(self, aware: bool) -> None:
        self._aware = aware

    def grant(self, situation: Situation) -> Grants:
        """Return all jobs, with their share of the time.

        :param situation: of this instant.
        """
        present, work, cluster = situation.present, situation.work, situation.cluster
        rate = work.rate_mbps[present]
        if not self._aware:
            return Grants(present, _equal_time(situation), None, inf)
        found = allocate_storage(
            situation.jobs(present, rate),
            work.size_mb[situation.live] / MB,
            cluster.cache_gb,
            cluster.bandwidth_mbps,
            "max_min",
            gpu_capacity=cluster.gpus,
        )
        return Grants(present, np.minimum(found.rates_mbps / rate, 1.0), found.reference_mbps, inf)


def _whole(jobs: Indices, again: float = inf) -> Grants:
    return Grants(jobs, np.ones(len(jobs)), None, again)


def _equal_time(situation: Situation) -> Floats:
    gpus = situation.work.gpus[situation.present]
    return np.full(len(gpus), min(1.0, situation.cluster.gpus / max(float(gpus.sum()), 1.0)))


def _sorted(situation: Situation, jobs: Indices, rate: Floats) -> Indices:
    """Return jobs by the time that they have left at these rates."""
    key = situation.left[jobs] / np.maximum(rate, 1e-12)
    return jobs[np.lexsort((jobs, key))]


def _that_fit(situation: Situation, order: Indices, free: int) -> Indices:
    """Return the jobs that fit when they are taken one after another."""
    chosen = []
    for job, gpus in zip(order.tolist(), situation.work.gpus[order].tolist(), strict=True):
        if gpus <= free:
            chosen.append(job)
            free -= gpus
            if not free:
                break
    return np.array(chosen, dtype=np.int64)
