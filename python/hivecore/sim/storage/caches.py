"""The jobs' cache: allotted by the scheduler, or by an independent system."""

from typing import Protocol

import numpy as np

from hivecore.scheduler import StoragePool
from hivecore.sim.storage.situation import Grants, Situation
from hivecore.sim.storage.workload import MB, Floats, Indices, StorageCluster, StorageWorkload

__all__ = [
    "Allotted",
    "CachePolicy",
    "PerGpu",
    "Quotas",
    "SharedLru",
    "WholeDatasets",
]

#: (MB for each cache, caches in the order in which they give up what exceeds that)
Quotas = tuple[Floats, Indices]


class CachePolicy(Protocol):
    """A rule for the cache."""

    #: Whether each job has its own cache, which is dropped when the job stops.
    private: bool
    #: Whether all jobs share one LRU cache, so that quotas have no meaning.
    lru: bool

    def quotas(self, situation: Situation, grants: Grants) -> Quotas:
        """Return the size of each cache from now on, in total at most the cluster's.

        No cache is larger than its dataset. Caches within their quota may be missing in the order.
        """


class Allotted:
    """SiloD: the scheduler's storage stage decides, as a `StoragePool` for the least remote IO.

    It caches the datasets that save the most remote IO per GB. The rest of the cache goes to the
    datasets of waiting jobs, in order of arrival, which keeps what is cached and allows warm-ups.

    :param eps: by how much more another dataset must save to replace a cached one.
    :param ahead: whether caches of waiting jobs are filled.
    :param by_progress: whether decisions depend on how much jobs have read.
    """

    private = lru = False

    def __init__(self, eps: float = 0.1, ahead: bool = True, by_progress: bool = False) -> None:
        self._eps, self.ahead, self.by_progress = eps, ahead, by_progress

    def pool(self, work: StorageWorkload, cluster: StorageCluster) -> StoragePool:
        """Return the scheduler's storage.

        :param work: the jobs.
        :param cluster: what they share.
        """
        sizes = dict(zip(work.names, (work.size_mb / MB).tolist(), strict=True))
        return StoragePool(sizes, cluster.cache_gb, None, ahead=self.ahead, eps=self._eps)

    def quotas(self, situation: Situation, grants: Grants) -> Quotas:
        """Return the scheduler's allotment.

        :param situation: the present.
        :param grants: of the running jobs.
        """
        quota = situation.allotted.copy()
        return quota, _reclaimed(situation, grants, quota)


class WholeDatasets:
    """Quiver (FAST'20): whole datasets by benefit over cost, without a scheduler.

    The benefit is the total speedup of its jobs if the dataset is cached, compared with an equal
    part of the bandwidth; the cost is its size. Datasets that do not fit as a whole are skipped.
    (Its substitutable hits change the order of reads and are not modelled.)
    """

    private = lru = False

    def quotas(self, situation: Situation, grants: Grants) -> Quotas:
        """Return quotas of all or nothing.

        :param situation: the present.
        :param grants: of the running jobs.
        """
        work, jobs = situation.work, grants.jobs
        full = work.rate_mbps[jobs] * grants.share
        alone = np.minimum(full, situation.cluster.bandwidth_mbps / max(len(jobs), 1))
        size = work.size_mb
        benefit = np.bincount(work.dataset[jobs], full - alone, len(size)) / size
        quota, left = np.zeros(len(size)), situation.cluster.cache_mb
        order = np.argsort(-benefit, kind="stable")
        order = order[(benefit[order] > 0) & (size[order] <= left)]
        while len(order):
            fits = np.cumsum(size[order]) <= left
            taken, order = order[fits], order[~fits]
            quota[taken] = size[taken]
            left -= float(size[taken].sum())
            order = order[size[order] <= left]
        return quota, _reclaimed(situation, grants, quota)


class PerGpu:
    """CoorDL (VLDB'21): a private cache per job, in proportion to its GPUs."""

    private, lru = True, False

    def quotas(self, situation: Situation, grants: Grants) -> Quotas:
        """Return quotas in proportion to GPUs.

        :param situation: the present.
        :param grants: of the running jobs.
        """
        work, jobs = situation.work, grants.jobs
        quota = np.zeros(len(work))
        part = work.gpus[jobs] * grants.share / situation.cluster.gpus
        quota[jobs] = np.minimum(
            part * situation.cluster.cache_mb, work.size_mb[work.dataset[jobs]]
        )
        return quota, np.flatnonzero(situation.held > quota)


class SharedLru:
    """Alluxio's default: one LRU cache for all, without quotas."""

    private, lru = False, True

    def quotas(self, situation: Situation, grants: Grants) -> Quotas:
        """Return quotas without a meaning.

        :param situation: the present.
        :param grants: of the running jobs.
        """
        return np.zeros(len(situation.work.size_mb)), np.empty(0, dtype=np.int64)


def _reclaimed(situation: Situation, grants: Grants, quota: Floats) -> Indices:
    """Return the datasets that must give up cache, in the order of `reclaim_order`.

    Unwanted datasets come first, the longest unused first, then the least efficient.
    """
    over = np.flatnonzero(situation.held > quota)
    if len(over) < 2:
        return over
    work = situation.work
    wanted = np.bincount(work.dataset[situation.present], minlength=len(work.size_mb))[over] > 0
    unused_since = np.where(wanted, 0.0, situation.last_use[over])
    rate = np.bincount(work.dataset[grants.jobs], work.rate_mbps[grants.jobs], len(work.size_mb))
    efficiency = rate / (work.size_mb / MB)
    return over[np.lexsort((efficiency[over], unused_since, wanted))]
