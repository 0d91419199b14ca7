"""What comes back from sharing out cache and remote IO: the shares, and what proves them."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hivecore.caching.storage_jobs import StorageJobs
from hivecore.caching.storage_shares import Problem, Shares
from hivecore.caching.storage_verify import verify_allocation

__all__ = ["JobShare", "StorageAllocation"]


class JobShare(NamedTuple):
    """What one job has: remote IO and rate, both in MB/s."""

    remote_io: float
    rate: float


@dataclass(frozen=True, slots=True, eq=False)
class StorageAllocation(Shares):
    """How cache and remote IO are shared out; arrays are in the order of jobs and datasets."""

    _problem: Problem = field(repr=False)

    @property
    def throughput(self) -> float:
        """The sum of all rates, in MB/s."""
        return float(self.rates.sum())

    @property
    def gap(self) -> float:
        """How much greater, relatively, a total of rates may be; 0 if this is the greatest."""
        if self.bound <= self.throughput:
            return 0.0
        return (self.bound - self.throughput) / self.throughput if self.throughput else float("inf")

    def by_dataset(self) -> dict[Hashable, float]:
        """Return the GB to be cached by name of the dataset, or by id if they have no names."""
        names = self._problem.dataset_names
        keys = range(len(self.cache)) if names is None else names
        return dict(zip(keys, self.cache.tolist(), strict=True))

    def by_job(self) -> dict[Hashable, JobShare]:
        """Return what each job has, by name of the job, or by row if they have no names."""
        jobs: StorageJobs = self._problem.jobs
        keys = range(len(self.rates)) if jobs.names is None else jobs.names
        shares = map(JobShare, self.remote_io.tolist(), self.rates.tolist())
        return dict(zip(keys, shares, strict=True))

    def verify(self) -> Literal[True]:
        """Prove from scratch that the allocation is feasible, and the best for its objective.

        Feasible: within capacity and bandwidth, and the rates are those of the performance model.
        Cache: complementary slackness with ``cache_multiplier``. Remote IO: duality, or the level
        to which jobs were filled. Max-min: every stage's binding. "sjf": the order is found again.
        "throughput": ``bound`` follows from the multiplier; with ``exact`` the search is repeated.

        :raises CertificateError: something fails; it says what.

        Uses NumPy and Python only, never the kernel. What differs by a part in 10**9, or by 1e-9 in
        its unit, counts as equal. O(jobs + datasets) but for "sjf" and the exact search.
        """
        verify_allocation(self, self._problem)
        return True
