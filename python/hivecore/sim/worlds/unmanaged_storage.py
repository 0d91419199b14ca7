"""Storage that nobody schedules: one LRU cache, and a network that is fair to those who read."""

from collections.abc import Mapping, Sequence

import numpy as np

from hivecore.scheduler import Job
from hivecore.sim.worlds._lru import lru_misses
from hivecore.sim.worlds._readers import MB, Floats, Indices, Readers, share_out
from hivecore.sim.worlds.base import World

__all__ = ["UnmanagedStorage"]


class UnmanagedStorage(Readers):
    """Jobs that read share remote IO max-min fairly, behind one LRU cache for all.

    :param jobs: all that may run. Those without `Job.data` never wait for any.
    :param datasets_gb: the size of each dataset, by name.
    :param cache_gb: of the cache; 0.0: there is none.
    :param bandwidth_mbps: of remote IO, in MB/s.
    :param gpus: how fast jobs run that never wait for data.
    :raises ValueError: a job reads what is not there.

    Every job reads its whole dataset once in each epoch, in a new random order. What hits the cache
    is that of the steady state, by Che's approximation, from a job's first epoch on: in favour of
    this world. Cost: numpy operations on the running jobs for each that starts or ends.

    >>> from hivecore.quotas import Quota, QuotaTree
    >>> from hivecore.scheduler import Data, Job, Scheduler
    >>> from hivecore.sim import simulate
    >>> from hivecore.sim.worlds import InterleavedGpus
    >>> jobs = [Job(name, "a", 4, data=Data("images", 100.0)) for name in ("one", "two")]
    >>> world = UnmanagedStorage(jobs, {"images": 500.0}, 0.0, 150.0, InterleavedGpus(jobs))
    >>> quotas = QuotaTree([Quota("a", max={"gpu": 8})], total={"gpu": 8})
    >>> scheduler = Scheduler(quotas=quotas, immediate=True)
    >>> simulate(scheduler, jobs, [0, 0], [60, 90], world).end.tolist()
    [80.0, 110.0]
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        datasets_gb: Mapping[str, float],
        cache_gb: float,
        bandwidth_mbps: float,
        gpus: World,
    ) -> None:
        super().__init__(jobs, datasets_gb, bandwidth_mbps, gpus)
        self._cache = cache_gb * MB

    def reached(self, running: Indices, full: Floats) -> Floats:
        """MB/s: what the cache holds of whom follows their rates, so that these are found twice."""
        if float(full.sum()) <= self.bandwidth:
            return full
        rates = full
        for _ in range(2):
            misses = lru_misses(rates, self.dataset[running], self.sizes, self._cache)
            granted = share_out(full * misses, self.bandwidth)
            rates = np.divide(granted, misses, out=full.copy(), where=misses > 0.0)
        return rates
