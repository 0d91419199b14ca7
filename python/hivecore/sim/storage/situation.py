"""What a scheduler knows when it decides, and its decision."""

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
import numpy.typing as npt

from hivecore._sim import FluidClock
from hivecore.sim.storage.workload import MB, Floats, Indices, StorageCluster, StorageWorkload
from hivecore.storage import StorageJobs

__all__ = ["NO_GRANTS", "Grants", "Situation", "in_order", "reached"]

# A job with fewer misses reads only from the cache.
_NO_MISS = 1e-12


@dataclass(frozen=True, eq=False)
class Situation:
    """The jobs that run or wait at an instant.

    :param now: seconds.
    :param work: all jobs.
    :param cluster: what they share.
    :param present: int64[present], jobs that run or wait, in order of arrival.
    :param running: int64[running], running jobs.
    :param attained: float64[jobs], GPU seconds of each job so far.
    :param start: float64[jobs], seconds of the first run; inf if there was none.
    :param quota: float64[caches], MB granted to each.
    :param allotted: float64[datasets], MB that the scheduler last allotted.
    :param contents: of the caches, which do not change until the next situation.
    """

    now: float
    work: StorageWorkload
    cluster: StorageCluster
    present: Indices
    running: Indices
    attained: Floats
    start: Floats
    quota: Floats
    allotted: Floats
    contents: FluidClock

    @cached_property
    def left(self) -> Floats:
        """float64[jobs], MB that each job has yet to read."""
        return self.contents.left

    @cached_property
    def held(self) -> Floats:
        """float64[caches], MB in each cache."""
        return self.contents.cached

    @cached_property
    def last_use(self) -> Floats:
        """float64[caches], seconds of the last use."""
        return self.contents.last_use

    @cached_property
    def live(self) -> Indices:
        """int64[live], datasets that a job reads, or that are partly cached."""
        matters = self.held > 0
        matters[self.work.dataset[self.present]] = True
        return np.flatnonzero(matters)

    @cached_property
    def waits(self) -> npt.NDArray[np.bool_]:
        """bool[present], which jobs do not run."""
        waits = np.ones(len(self.work), dtype=np.bool_)
        waits[self.running] = False
        return waits[self.present]

    def jobs(self, jobs: Indices, rate: Floats) -> StorageJobs:
        """Return jobs for `hivecore.storage`, with datasets as indices into `live`.

        :param jobs: int64[n].
        :param rate: float64[n], MB/s.
        """
        return StorageJobs(
            dataset=np.searchsorted(self.live, self.work.dataset[jobs]),
            rate_mbps=rate,
            remaining_gb=self.left[jobs] / MB,
            gpus=self.work.gpus[jobs].astype(np.float64),
        )

    def equal_rates(self, jobs: Indices | None = None) -> Floats:
        """Return float64[jobs], MB/s that each job would reach with an equal share of everything.

        :param jobs: int64[jobs]; by default all that are present.

        GPUs (a job that needs more has them for less time), remote IO and cache are equal; jobs on
        the same dataset combine their parts of the cache.
        """
        work, cluster = self.work, self.cluster
        present = self.present if jobs is None else jobs
        count = max(len(present), 1)
        dataset = work.dataset[present]
        time = np.minimum(cluster.gpus / count / work.gpus[present], 1.0)
        readers = np.bincount(dataset, minlength=len(work.size_mb))
        miss = 1.0 - np.minimum(readers * (cluster.cache_mb / count) / work.size_mb, 1.0)
        return reached(
            work.rate_mbps[present] * time, miss[dataset], cluster.bandwidth_mbps / count
        )


@dataclass(frozen=True, slots=True, eq=False)
class Grants:
    """The running jobs and what they get.

    :param jobs: int64[running], the most urgent first.
    :param share: float64[running], fraction of the time on GPUs; below 1 the job takes turns.
    :param reference: float64[running], MB/s with which fairness compares rates.
    :param again: seconds until the next decision, whatever happens.
    """

    jobs: Indices
    share: Floats
    reference: Floats | None
    again: float


#: No job runs, and no decision is due.
NO_GRANTS = Grants(np.empty(0, dtype=np.int64), np.empty(0), None, inf)


def in_order(codes: Indices) -> Indices:
    """Return codes without repetition, in order of first occurrence.

    :param codes: int64[n].

    >>> in_order(np.array([7, 3, 7, 5])).tolist()
    [7, 3, 5]
    """
    first: Indices = codes[np.sort(np.unique(codes, return_index=True)[1])]
    return first


def reached(full: Floats, miss: Floats, granted: Floats | float) -> Floats:
    """Return the rates in MB/s that jobs reach with their remote IO.

    :param full: float64[jobs], MB/s without waiting for data.
    :param miss: float64[jobs], fraction of a job's reads that is not cached.
    :param granted: float64[jobs], MB/s of remote IO, or one number for all.

    >>> reached(np.array([100.0, 100.0]), np.array([0.5, 0.0]), np.array([40.0, 0.0])).tolist()
    [80.0, 100.0]
    """
    rates: Floats = np.minimum(full, granted / np.maximum(miss, _NO_MISS))
    return np.where(miss < _NO_MISS, full, rates)
