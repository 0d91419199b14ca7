"""Storage: cache and remote IO shared out anew whenever the running jobs have changed (SiloD)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from hivecore._arguments import as_bool, as_choice, as_float, as_mapping, as_name
from hivecore.scheduler._units import Kind
from hivecore.scheduler.actions import SetCache, SetRemoteIO
from hivecore.scheduler.job import Job
from hivecore.storage import StorageJobs, allocate_storage

__all__ = ["Objective", "StoragePool", "StorageStage"]

#: Those that need to know of a job no more than its dataset and its rate.
Objective = Literal["greedy", "throughput", "max_min", "fifo"]
_MOST = 1e15


@dataclass(frozen=True, slots=True, init=False)
class StoragePool:
    """The cache and the remote IO that all jobs share, and the datasets that they read.

    :param datasets_gb: the size of each dataset, by name.
    :param cache_gb: of the cache.
    :param bandwidth_mbps: of remote IO, in MB/s.
    :param objective: what it is shared out for, see `hivecore.storage.allocate_storage`.
    :param threshold: remote IO of a job that grows by less, as a share of what it was, is not told.
    :raises ValueError: a number is out of range, or there is no such objective.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.scheduler import StoragePool
    >>> StoragePool({"imagenet": 143.0}, cache_gb=100.0, bandwidth_mbps=500.0).objective
    'greedy'
    """

    datasets_gb: tuple[tuple[str, float], ...]
    cache_gb: float
    bandwidth_mbps: float
    objective: Objective
    threshold: float

    def __init__(
        self,
        datasets_gb: Mapping[str, float],
        cache_gb: float,
        bandwidth_mbps: float,
        objective: Objective = "greedy",
        threshold: float = 0.05,
    ) -> None:
        put = object.__setattr__
        sizes = as_mapping(datasets_gb, "datasets_gb")
        pairs = [
            (as_name(name, "datasets_gb"), _within(size, f"datasets_gb[{name!r}]", 1e-9))
            for name, size in sizes.items()
        ]
        put(self, "datasets_gb", tuple(sorted(pairs)))
        put(self, "cache_gb", _within(cache_gb, "cache_gb"))
        put(self, "bandwidth_mbps", _within(bandwidth_mbps, "bandwidth_mbps"))
        put(self, "objective", as_choice(objective, "objective", get_args(Objective)))
        put(self, "threshold", _within(threshold, "threshold"))


class StorageStage:
    """A `StoragePool`, and what of it was told last."""

    name = "storage"

    def __init__(self, pool: StoragePool) -> None:
        self.pool = pool
        self._sizes = dict(pool.datasets_gb)
        #: GB by dataset, MB/s by job
        self.cache: dict[str, float] = {}
        self.remote_io: dict[str, float] = {}
        self.is_stale = False

    def branch(self) -> Self:
        """An adapter that goes its own way."""
        made = type(self)(self.pool)
        made.cache, made.remote_io = self.cache.copy(), self.remote_io.copy()
        made.is_stale = self.is_stale
        return made

    def plain(self) -> dict[str, Any]:
        """All of it as plain data."""
        pool = self.pool
        return {
            "datasets_gb": dict(pool.datasets_gb),
            "limits": [pool.cache_gb, pool.bandwidth_mbps, pool.objective, pool.threshold],
            "cache": self.cache,
            "remote_io": self.remote_io,
            "is_stale": self.is_stale,
        }

    @classmethod
    def of_plain(cls, data: Mapping[str, Any]) -> Self:
        """What plain data say."""
        made = cls(StoragePool(data["datasets_gb"], *data["limits"]))
        for name, gb in data["cache"].items():
            made.cache[as_name(name, "cache")] = _within(gb, "cache")
        for name, rate in data["remote_io"].items():
            made.remote_io[as_name(name, "remote_io")] = _within(rate, "remote_io")
        made.is_stale = as_bool(data["is_stale"], "is_stale")
        return made

    def impossible(self, kind: Kind) -> str:
        """Why jobs of this kind could never run; "": they could."""
        data = kind.job.data
        if data is not None and data.dataset not in self._sizes:
            return f"there is no dataset {data.dataset!r}"
        return ""

    def allot(self, running: Iterable[Job]) -> list[SetCache | SetRemoteIO]:
        """What is another share now: first what shrinks, so that what grows has room."""
        self.is_stale = False
        readers = [job for job in running if job.data is not None]
        cache = dict.fromkeys(self.cache, 0.0)
        io = dict.fromkeys(self.remote_io, 0.0)
        if readers:
            found = self._allocated(readers)
            cache |= {str(name): gb for name, gb in found.by_dataset().items()}
            io |= {str(name): share.remote_io_mbps for name, share in found.by_job().items()}
        told: list[SetCache | SetRemoteIO] = []
        for shrinks in (True, False):
            # What is cached is told in full: remote IO is shared out as if it were there.
            told += [
                SetCache(name, round(gb * 1e9))
                for name, gb in _changed(self.cache, cache, shrinks, 0.0)
            ]
            told += [
                SetRemoteIO(name, rate)
                for name, rate in _changed(self.remote_io, io, shrinks, self.pool.threshold)
            ]
        return told

    def _allocated(self, readers: list[Job]) -> Any:
        data = [job.data for job in readers if job.data is not None]
        jobs = StorageJobs(
            dataset=[one.dataset for one in data],
            rate_mbps=np.array([one.rate_mbps for one in data]),
            names=tuple(job.name for job in readers),
        )
        pool = self.pool
        return allocate_storage(
            jobs,
            self._sizes,
            pool.cache_gb,
            pool.bandwidth_mbps,
            pool.objective,
            current_gb=self.cache or None,
        )


def _changed(
    before: dict[str, float], now: dict[str, float], shrinks: bool, threshold: float
) -> list[tuple[str, float]]:
    """Who has less, all of them; or who has more, if it is worth telling."""
    found = []
    for name, amount in now.items():
        known = before.get(name, 0.0)
        more = amount - known
        if more < 0.0 if shrinks else more > known * threshold:
            before[name] = amount
            found.append((name, amount))
    return found


def _within(value: Any, name: str, least: float = 0.0) -> float:
    number = as_float(value, name)
    if not least <= number <= _MOST:
        raise ValueError(f"{name}={number!r}: allowed are {least:g} to {_MOST:g}")
    return number
