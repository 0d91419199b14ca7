"""What a scheduler sees when it decides, and what it decides."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hivecore.caching import StorageJobs, throughput
from hivecore.sim.storage.workload import MB, Floats, Indices, StorageCluster, StorageWorkload

__all__ = ["Grants", "Situation"]


@dataclass(frozen=True, eq=False)
class Situation:
    """The jobs that run or wait at an instant.

    :param now: seconds.
    :param work: all jobs.
    :param cluster: what they share.
    :param present: int64[present], the jobs that run or wait, in order of arrival.
    :param running: int64[running], those that run.
    :param left: float64[jobs], MB that each job has yet to read.
    :param attained: float64[jobs], GPU seconds that each job has had.
    :param held: float64[caches], MB in each cache.
    :param quota: float64[caches], MB that was promised to each.
    :param last_use: float64[caches], seconds.
    """

    now: float
    work: StorageWorkload
    cluster: StorageCluster
    present: Indices
    running: Indices
    left: Floats
    attained: Floats
    held: Floats
    quota: Floats
    last_use: Floats

    @cached_property
    def live(self) -> Indices:
        """Return int64[live], the datasets that a job reads, or of which something is cached."""
        matters = self.held > 0
        matters[self.work.dataset[self.present]] = True
        return np.flatnonzero(matters)

    def jobs(self, jobs: Indices, rate: Floats, running: Indices | None = None) -> StorageJobs:
        """Return jobs as `hivecore.caching` takes them, their datasets as indices into `live`.

        :param jobs: int64[n].
        :param rate: float64[n], MB/s.
        :param running: which of them run; by default all.
        """
        return StorageJobs(
            dataset=np.searchsorted(self.live, self.work.dataset[jobs]),
            rate=rate,
            remaining=self.left[jobs] / MB,
            gpus=self.work.gpus[jobs].astype(np.float64),
            running=None if running is None else np.isin(jobs, running),
        )

    def equal_rates(self) -> Floats:
        """Return float64[present], MB/s that each job would reach with an equal share of all.

        Equal are the GPUs (a job that needs more has them for less time), the remote IO, and the
        cache; jobs on one dataset put their parts of the cache together.
        """
        work, present = self.work, self.present
        count = len(present)
        time = np.minimum(1.0, self.cluster.gpus / (count * work.gpus[present]))
        readers = np.bincount(work.dataset[present], minlength=len(work.size))
        size = work.size[work.dataset[present]]
        cache = np.minimum(readers[work.dataset[present]] * self.cluster.cache / count, size)
        granted = self.cluster.bandwidth_mbps / count
        rates: Floats = throughput(work.rate[present] * time, granted, cache / MB, size / MB)
        return rates


@dataclass(frozen=True, slots=True, eq=False)
class Grants:
    """Who runs.

    :param jobs: int64[running], the most urgent first.
    :param share: float64[running], of the time that a job has its GPUs; below 1 it takes turns.
    :param reference: float64[running], MB/s that fairness compares the jobs' rates with.
    :param again: seconds until the scheduler wants to decide anew, whatever happens.
    """

    jobs: Indices
    share: Floats
    reference: Floats | None
    again: float
