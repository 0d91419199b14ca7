"""Storage: cache and remote IO shared out anew whenever the running jobs have changed (SiloD)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from hivecore._arguments import as_bool, as_choice, as_float, as_mapping, as_name
from hivecore.scheduler.actions import SetCache, SetRemoteIO
from hivecore.scheduler.job import Job
from hivecore.scheduler.lifecycle.units import Kind
from hivecore.storage import StorageJobs, allocate_storage, throughput

__all__ = ["Objective", "StoragePool", "StorageStage"]

Objective = Literal["greedy", "throughput", "max_min", "finish_time", "fifo", "sjf"]
#: Those that ask how much a job has yet to read.
_BY_PROGRESS = ("finish_time", "sjf")
_MOST = 1e15
_LEAST_RATE = 1e-9


@dataclass(frozen=True, slots=True, init=False)
class StoragePool:
    """The cache and the remote IO that all jobs share, and the datasets that they read.

    :param datasets_gb: the size of each dataset, by name.
    :param cache_gb: of the cache.
    :param bandwidth_mbps: of remote IO, in MB/s.
    :param objective: what it is shared out for, see `hivecore.storage.allocate_storage`. "sjf" and
        "finish_time" ask how much jobs have yet to read: that is `Data.total_gb` without what they
        have read by now if they have always had what they were told, with their caches full. They
        count time from a job's start.
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
        #: by job when it began and the GB that it had read, at a time that all of them have
        self._progress: dict[str, tuple[float, float]] = {}
        self._since = 0.0
        self.is_stale = False

    def branch(self) -> Self:
        """An adapter that goes its own way."""
        made = type(self)(self.pool)
        made.cache, made.remote_io = self.cache.copy(), self.remote_io.copy()
        made._progress, made._since = self._progress.copy(), self._since
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
            "progress": self._progress,
            "since": self._since,
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
        for name, (began, read_gb) in data["progress"].items():
            known = _within(began, "began"), _within(read_gb, "read_gb")
            made._progress[as_name(name, "progress")] = known
        made._since = _within(data["since"], "since")
        made.is_stale = as_bool(data["is_stale"], "is_stale")
        return made

    def impossible(self, kind: Kind) -> str:
        """Why jobs of this kind could never run; "": they could."""
        data = kind.job.data
        if data is not None and data.dataset not in self._sizes:
            return f"there is no dataset {data.dataset!r}"
        return ""

    def forget(self, job: str) -> None:
        """One that ran has ended, or begins again from nothing."""
        self.remote_io.pop(job, None)
        self._progress.pop(job, None)

    def allot(self, running: Iterable[Job], now: float) -> list[SetCache | SetRemoteIO]:
        """What is another share now: first what shrinks, so that what grows has room."""
        self.is_stale = False
        readers = [job for job in running if job.data is not None]
        if self.pool.objective in _BY_PROGRESS:
            self._read_on(readers, now)
        cache = dict.fromkeys(self.cache, 0.0)
        io = dict.fromkeys(self.remote_io, 0.0)
        if readers:
            found = self._allocated(readers, now)
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

    def _read_on(self, readers: list[Job], now: float) -> None:
        """Time has passed, in which jobs had what they were told last."""
        passed, self._since = now - self._since, now
        before, self._progress = self._progress, {}
        for job in readers:
            began, read_gb = now, 0.0
            if job.name in before:
                began, read_gb = before[job.name]
                read_gb = min(read_gb + passed * self._rate(job) / 1000.0, _MOST)
            self._progress[job.name] = began, read_gb

    def _rate(self, job: Job) -> float:
        """MB/s at which a job reads with what it was told last."""
        data = job.data
        assert data is not None
        size = self._sizes[data.dataset]
        cached = min(self.cache.get(data.dataset, 0.0), size)
        return throughput(data.rate_mbps, self.remote_io.get(job.name, 0.0), cached, size)

    def _allocated(self, readers: list[Job], now: float) -> Any:
        data = [job.data for job in readers if job.data is not None]
        jobs = StorageJobs(
            dataset=[one.dataset for one in data],
            rate_mbps=np.array([one.rate_mbps for one in data]),
            names=tuple(job.name for job in readers),
        )
        if self._progress:
            known = [self._progress[job.name] for job in readers]
            left = [
                min(max(one.total_gb - read_gb, 0.0), _MOST)
                for one, (_, read_gb) in zip(data, known, strict=True)
            ]
            jobs = jobs.replace(remaining_gb=left, elapsed=[now - began for began, _ in known])
            if self.pool.objective == "finish_time":
                # What they have read would have taken so long with an equal share.
                read_mb = 1000.0 * np.array([read_gb for _, read_gb in known])
                equal = np.maximum(self._shared_out(jobs).reference_mbps, _LEAST_RATE)
                jobs = jobs.replace(elapsed_alone=np.minimum(read_mb / equal, _MOST))
        return self._shared_out(jobs)

    def _shared_out(self, jobs: StorageJobs) -> Any:
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
