"""Who gets how much cache: SiloD's greedy rule, and the systems that it is compared with."""

from typing import Protocol

import numpy as np

from hivecore.caching import allocate_storage, reclaim_order
from hivecore.sim.storage.contents import UniformContents
from hivecore.sim.storage.items import LruItems, UniformItems
from hivecore.sim.storage.lru import LruContents
from hivecore.sim.storage.situation import Grants, Situation
from hivecore.sim.storage.workload import (
    MB,
    Floats,
    Indices,
    StorageCluster,
    StorageWorkload,
)

__all__ = [
    "CachePolicy",
    "Greedy",
    "PerGpu",
    "Quotas",
    "SharedLru",
    "WholeDatasets",
    "caches_of",
    "contents_of",
    "items_of",
]

#: MB for each cache, and the caches in the order in which they give up what is above that.
Quotas = tuple[Floats, Indices]


class CachePolicy(Protocol):
    """A rule for the cache."""

    #: Whether each job has a cache of its own, which goes when the job stops.
    private: bool
    #: Whether one LRU cache serves all, so that quotas have no meaning.
    lru: bool

    def quotas(self, situation: Situation, grants: Grants) -> Quotas:
        """Return the room of each cache from now on, together at most the cluster's."""


class Greedy:
    """SiloD: the datasets that save the most remote IO per GB, as far as the room goes.

    What is left over goes to the datasets of waiting jobs, in order of arrival, which keeps what is
    there, and lets a warm-up begin.

    :param hysteresis: by how much another dataset must save more before it takes the room of one
        that is cached already.
    """

    private = lru = False

    def __init__(self, hysteresis: float = 0.1) -> None:
        self._hysteresis = hysteresis

    def quotas(self, situation: Situation, grants: Grants) -> Quotas:
        """Return quotas by efficiency.

        :param situation: of this instant.
        :param grants: who runs.
        """
        work, cluster, live = situation.work, situation.cluster, situation.live
        size = work.size[live]
        rate = work.rate[situation.present]
        rate[np.searchsorted(situation.present, grants.jobs)] *= grants.share
        found = allocate_storage(
            situation.jobs(situation.present, rate, grants.jobs),
            size / MB,
            cluster.cache_gb,
            cluster.bandwidth_mbps,
            current=np.minimum(situation.held[live], size) / MB,
            last_use=situation.last_use[live],
            eps=self._hysteresis,
        )
        quota = np.zeros(len(work.size))
        quota[live] = np.minimum(found.cache * MB, size)
        # What nobody wants stays as long as nobody needs the room, but has no right to it.
        quota[np.bincount(work.dataset[situation.present], minlength=len(quota)) == 0] = 0.0
        left = cluster.cache - float(quota.sum())
        for dataset in dict.fromkeys(work.dataset[situation.present].tolist()):
            if left <= 0:
                break
            more = min(float(work.size[dataset] - quota[dataset]), left)
            quota[dataset] += more
            left -= more
        return quota, _reclaimed(situation, grants)


class WholeDatasets:
    """Quiver (FAST'20): whole datasets by benefit over cost, as it would be without a scheduler.

    The benefit is how much faster its jobs get, all together, if the dataset is cached, than with
    an equal part of the bandwidth alone; the cost is its size. Datasets that do not fit as a whole
    are passed over. (Its substitutable hits change the order of reads, and are not modelled.)
    """

    private = lru = False

    def quotas(self, situation: Situation, grants: Grants) -> Quotas:
        """Return quotas of all or nothing.

        :param situation: of this instant.
        :param grants: who runs.
        """
        work, jobs = situation.work, grants.jobs
        full = work.rate[jobs] * grants.share
        alone = np.minimum(full, situation.cluster.bandwidth_mbps / max(len(jobs), 1))
        benefit = np.bincount(work.dataset[jobs], full - alone, len(work.size)) / work.size
        quota, left = np.zeros(len(work.size)), situation.cluster.cache
        for dataset in np.lexsort((np.arange(len(benefit)), -benefit)).tolist():
            size = float(work.size[dataset])
            if benefit[dataset] <= 0:
                break
            if size <= left:
                quota[dataset] = size
                left -= size
        return quota, _reclaimed(situation, grants)


class PerGpu:
    """CoorDL (VLDB'21): a cache per job, in proportion to its GPUs, which nobody else uses."""

    private, lru = True, False

    def quotas(self, situation: Situation, grants: Grants) -> Quotas:
        """Return quotas by GPUs.

        :param situation: of this instant.
        :param grants: who runs.
        """
        work, jobs = situation.work, grants.jobs
        quota = np.zeros(len(work))
        part = work.gpus[jobs] * grants.share / situation.cluster.gpus
        quota[jobs] = np.minimum(part * situation.cluster.cache, work.size[work.dataset[jobs]])
        return quota, np.arange(len(work))


class SharedLru:
    """Alluxio as it comes: one LRU cache for all, without quotas."""

    private, lru = False, True

    def quotas(self, situation: Situation, grants: Grants) -> Quotas:
        """Return nothing of meaning.

        :param situation: of this instant.
        :param grants: who runs.
        """
        return np.zeros(len(situation.work.size)), np.empty(0, dtype=np.int64)


def _reclaimed(situation: Situation, grants: Grants) -> Indices:
    """Return datasets that no job wants, the longest unused first, then the least efficient."""
    live, work = situation.live, situation.work
    jobs = situation.jobs(situation.present, work.rate[situation.present], grants.jobs)
    return live[reclaim_order(jobs, work.size[live] / MB, situation.last_use[live])]


def contents_of(
    policy: CachePolicy, work: StorageWorkload, cluster: StorageCluster, shrink: str, lazy: bool
) -> UniformContents | LruContents:
    """Return empty caches for a policy, as amounts.

    :param policy: the rule for them.
    :param work: the jobs.
    :param cluster: what they share.
    :param shrink: what goes first when a cache shrinks.
    :param lazy: whether caches above their quota wait until the room is needed.
    """
    if policy.lru:
        return LruContents(work.size, work.dataset, cluster.cache)
    if policy.private:
        size, own = work.size[work.dataset], np.arange(len(work))
        return UniformContents(size, own, cluster.cache, shrink, lazy, private=True)
    return UniformContents(work.size, work.dataset, cluster.cache, shrink, lazy)


def items_of(
    policy: CachePolicy,
    work: StorageWorkload,
    cluster: StorageCluster,
    shrink: str,
    lazy: bool,
    items: int,
    seed: int,
) -> UniformItems | LruItems:
    """Return empty caches for a policy, of real items.

    :param policy: the rule for them.
    :param work: the jobs.
    :param cluster: what they share.
    :param shrink: what goes first when a cache shrinks.
    :param lazy: whether caches above their quota wait until the room is needed.
    :param items: of each dataset.
    :param seed: of orders and evictions.
    """
    if policy.lru:
        return LruItems(work.size, work.dataset, cluster.cache, items, seed)
    private = policy.private
    return UniformItems(work.size, work.dataset, cluster.cache, items, seed, shrink, lazy, private)


def caches_of(policy: CachePolicy, work: StorageWorkload) -> Indices:
    """Return int64[jobs], the cache that each job reads through.

    :param policy: the rule for the caches.
    :param work: the jobs.
    """
    return np.arange(len(work)) if policy.private else work.dataset
