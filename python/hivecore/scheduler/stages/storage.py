"""Storage: allocates cache and remote IO whenever the running jobs change (SiloD)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_bool, as_dict, as_float, as_mapping, as_name
from hivecore._record import Record
from hivecore.scheduler.actions import SetCache, SetRemoteIO
from hivecore.scheduler.job import Job
from hivecore.scheduler.stages._readers import Floats, Indices, Readers
from hivecore.scheduler.stages.stage import Audited, Stage
from hivecore.scheduler.stages.units import Kind
from hivecore.storage import StorageJobs, allocate_storage, greedy_cache, throughput

__all__ = ["Objective", "Observed", "StoragePool", "StorageStage"]

Objective = Literal["greedy", "throughput", "max_min", "finish_time", "fifo", "sjf"]
#: Objectives that depend on how much a job has yet to read.
_BY_PROGRESS = ("finish_time", "sjf")
_MOST = 1e15
_LEAST_RATE = 1e-9
_GB = 1e9  # in bytes
_ROUNDING = 1e-3  # of a byte


def _within(value: Any, name: str, least: float = 0.0, most: float = _MOST) -> float:
    number = as_float(value, name)
    if not least <= number <= most:
        raise ValueError(f"{name}={number!r}: allowed are {least:g} to {most:g}")
    return number


def _up_to_a_million(value: Any, name: str) -> float:
    return _within(value, name, most=1e6)


def _sizes(value: Any, name: str) -> tuple[tuple[str, float], ...]:
    sizes = as_dict(value, name).items()
    pairs = [
        (as_name(dataset, name), _within(size, f"{name}[{dataset!r}]", 1e-9))
        for dataset, size in sizes
    ]
    return tuple(sorted(pairs))


class StoragePool(Record, frozen=True):
    """The cache and remote IO that all jobs share, and their datasets.

    :param datasets_gb: size of each dataset.
    :param cache_gb: size of the cache.
    :param bandwidth_mbps: remote IO in MB/s. ``None``: allocate only the cache; then the objective
        must be "greedy".
    :param objective: see `hivecore.storage.allocate_storage`. "sjf" and "finish_time" depend on
        what a job has yet to read: `Data.total_gb` minus what it has read, as reported to
        `Scheduler.observe` or estimated from its allocation. They count time from a job's start.
    :param threshold: ignore an increase of a job's remote IO below this fraction.
    :param ahead: use cache that running jobs leave for waiting jobs, in order of arrival, so that
        it may be filled before they start. Otherwise a dataset that no job reads stays cached while
        there is room.
    :param eps: how much more efficient a dataset must be to displace another.
    :raises ValueError: a number is out of range, or the objective is unknown or needs remote IO.
    :raises TypeError: an argument is of a wrong type.

    Ties between datasets: that of the job that came first, running jobs before waiting ones. Data
    that no job reads are kept by name.

    >>> from hivecore.scheduler import StoragePool
    >>> StoragePool({"imagenet": 143.0}, cache_gb=100.0, bandwidth_mbps=500.0).objective
    'greedy'
    """

    datasets_gb: Annotated[tuple[tuple[str, float], ...], _sizes]
    cache_gb: Annotated[float, _within]
    bandwidth_mbps: Annotated[float, _within] | None
    objective: Objective = "greedy"
    threshold: Annotated[float, _within] = 0.05
    ahead: bool = False
    eps: Annotated[float, _up_to_a_million] = 0.1

    if TYPE_CHECKING:

        def __init__(
            self,
            datasets_gb: Mapping[str, float],
            cache_gb: float,
            bandwidth_mbps: float | None,
            objective: Objective = "greedy",
            threshold: float = 0.05,
            *,
            ahead: bool = False,
            eps: float = 0.1,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        if self.bandwidth_mbps is None and self.objective != "greedy":
            raise ValueError(f"bandwidth_mbps is missing: objective {self.objective!r} divides it")


class Observed(NamedTuple):
    """The arguments of `Scheduler.observe`."""

    cached_gb: dict[str, float]
    hit_gb: dict[str, float]
    read_gb: dict[str, float]
    rate_mbps: dict[str, float]


class StorageStage(Stage):
    """A `StoragePool`, its last allocation, and observations; datasets are numbers by name."""

    name = "storage"
    honours = frozenset(("data",))

    def __init__(self, pool: StoragePool) -> None:
        self.pool = pool
        self._names = [name for name, _ in pool.datasets_gb]
        self._code = {name: code for code, name in enumerate(self._names)}
        self._size = np.array([gb for _, gb in pool.datasets_gb], dtype=np.float64)
        #: GB of each dataset as allocated, and as cached; NaN: not observed
        self._cache = np.zeros(len(self._size))
        self._held = np.full(len(self._size), np.nan)
        self._readers = Readers()
        self.is_stale = False

    def branch(self) -> Self:
        """A copy for a branch."""
        branch = type(self)(self.pool)
        branch._cache, branch._held = self._cache.copy(), self._held.copy()
        branch._readers, branch.is_stale = self._readers.copy(), self.is_stale
        return branch

    def plain(self) -> dict[str, Any]:
        """The state as plain data, without which jobs run and wait."""
        pool, readers = self.pool, self._readers
        limits = [pool.cache_gb, pool.bandwidth_mbps, pool.objective, pool.threshold]
        rows = readers.here()
        known = rows[
            ~np.isnan(readers.began[rows]) | (readers.at[rows] > 0.0) | (readers.read[rows] > 0.0)
        ]
        began = [None if np.isnan(time) else time for time in readers.began[known].tolist()]
        counted = zip(began, readers.read[known].tolist(), readers.at[known].tolist(), strict=True)
        return {
            "datasets_gb": dict(pool.datasets_gb),
            "limits": limits,
            "terms": {"ahead": pool.ahead, "eps": pool.eps},
            "cache": _by_name(self._names, self._cache, self._cache > 0.0),
            "held": _by_name(self._names, self._held, ~np.isnan(self._held)),
            "remote_io": _by_name(readers.names, readers.io, readers.io > 0.0),
            "hits": _by_name(readers.names, readers.hit, readers.is_here & ~np.isnan(readers.hit)),
            "rates": _by_name(
                readers.names, readers.rate, readers.is_here & (readers.rate != readers.full)
            ),
            "progress": dict(zip([readers.names[row] for row in known], counted, strict=True)),
            "is_stale": self.is_stale,
        }

    @staticmethod
    def pool_of_plain(data: Mapping[str, Any]) -> StoragePool:
        """The pool from plain data; older logs have no terms."""
        return StoragePool(data["datasets_gb"], *data["limits"], **data.get("terms", {}))

    def restore(self, data: Mapping[str, Any]) -> None:
        """Restore the rest from plain data, once it is known which jobs run and wait."""
        for known, field in ((self._cache, "cache"), (self._held, "held")):
            for name, gb in data.get(field, {}).items():
                known[self._code[name]] = _within(gb, field)
        readers = self._readers
        columns = ((readers.io, "remote_io"), (readers.hit, "hits"), (readers.rate, "rates"))
        for column, field in columns:
            for name, amount in data.get(field, {}).items():
                column[readers.row[name]] = _within(amount, field)
        for name, known in data["progress"].items():
            row = readers.row[name]
            for column, value in zip((readers.began, readers.read, readers.at), known, strict=True):
                if value is not None:
                    column[row] = _within(value, "progress")
        self.is_stale = as_bool(data["is_stale"], "is_stale")

    def impossible(self, kind: Kind, nodes: tuple[str, ...], growing: bool) -> str:
        """Why jobs of this kind can never run; "" if they can."""
        data = kind.job.data
        if data is not None and data.dataset not in self._code:
            return f"there is no dataset {data.dataset!r}"
        return ""

    def reads(self) -> dict[str, bool]:
        """The jobs that read data, and whether they run."""
        return {name: bool(self._readers.runs[row]) for name, row in self._readers.row.items()}

    # --- events

    def come(self, job: Job) -> None:
        """Add a waiting job."""
        data = job.data
        if data is not None:
            code = self._code[data.dataset]
            if self.log.is_on:
                self.log.set(self, "_readers", self._readers.copy())
            self._readers.come(job.name, code, data.rate_mbps, data.total_gb)
            self.log.set(self, "is_stale", self.is_stale or self.pool.ahead)

    def go(self, job: str) -> None:
        """Remove a job that does not run."""
        if job in self._readers.row:
            if self.log.is_on:
                self.log.set(self, "_readers", self._readers.copy())
            self._readers.go(job)
            self.log.set(self, "is_stale", self.is_stale or self.pool.ahead)

    def amend(self, job: Job, names: Iterable[str]) -> None:
        """Change what a waiting job reads; it keeps its place among ``names``, all jobs."""
        self.go(job.name)
        self.come(job)
        self._readers.sort(names)

    def read(self, job: str, runs: bool) -> None:
        """Let a job read, or wait and start from nothing."""
        row = self._readers.row.get(job)
        if row is None:
            return
        if self.log.is_on:
            self.log.add((self._readers.put, row, self._readers.values(row)))
        if runs:
            self._readers.runs[row] = True
        else:
            self._readers.stop(row)
        self.log.set(self, "is_stale", True)

    def as_observed(
        self, amounts: Mapping[str, Any], knows: Callable[[str, str], object]
    ) -> Observed:
        """Check observations.

        :param amounts: by the fields of `Observed`.
        :param knows: called with the name of a job that reads nothing, and the field; raises
            KeyError if it is unknown.
        """
        observed = Observed({}, {}, {}, {})
        for field, known in zip(Observed._fields, observed, strict=True):
            names_known = self._code if field == "cached_gb" else self._readers.row
            for name, amount in as_mapping(
                {} if amounts[field] is None else amounts[field], field
            ).items():
                if name not in names_known:
                    if names_known is self._code:
                        raise KeyError(f"{field}: there is no dataset {name!r}")
                    knows(name, field)
                    raise ValueError(f"{field}: job {name!r} reads nothing")
                is_checked = type(amount) is float and 0.0 <= amount <= _MOST
                known[name] = amount if is_checked else _within(amount, f"{field}[{name!r}]")
        return observed

    def observe(self, observed: Observed, now: float) -> None:
        """Store observations. Until now jobs have read as those before imply."""
        readers, row = self._readers, self._readers.row
        if self.pool.objective in _BY_PROGRESS:
            self._read_on(readers.running(), now)
        for name, gb in observed.cached_gb.items():
            self._held[self._code[name]] = gb
        for name, gb in observed.hit_gb.items():
            readers.hit[row[name]] = gb
        for name, gb in observed.read_gb.items():
            readers.read[row[name]], readers.at[row[name]] = gb, now
        for name, rate in observed.rate_mbps.items():
            readers.rate[row[name]] = rate
        self.is_stale |= any(observed)

    # --- allocation

    def allot(self, now: float) -> Sequence[SetCache | SetRemoteIO]:
        """Allocate for the jobs that run now, as observed. Changes: reductions first."""
        if not self.is_stale:
            return ()
        if self.log.is_on:
            self.log.set(self, "_readers", self._readers.copy())
        self.log.set(self, "is_stale", False)
        readers, pool = self._readers, self.pool
        rows = readers.running()
        code = readers.dataset[rows]
        order, io = self._ranked(rows), None
        if pool.objective in _BY_PROGRESS:
            self._read_on(rows, now)
            readers.began[rows] = np.fmin(readers.began[rows], now)
        if pool.bandwidth_mbps is None:
            size, cached = self._size[order], self._cached()[order]
            saved = np.bincount(code, readers.rate[rows], len(order))[order] / size
            cache = np.empty(len(order))
            cache[order] = greedy_cache(saved, size, pool.cache_gb, cached, pool.eps)
            self._keep(cache, order[saved == 0.0][::-1])
        else:
            allocation = self._allocation(rows, order, now)
            cache, io = np.empty(len(self._size)), allocation.remote_io_mbps
            cache[order] = allocation.cache_gb
        if pool.ahead:
            self._fill_ahead(cache, code)
        less, more = self._changed_cache(cache)
        if io is None:
            return [*less, *more]
        less_io, more_io = self._changed_remote_io(rows, io)
        return [*less, *less_io, *more, *more_io]

    def _changed_cache(self, cache: Floats) -> list[list[SetCache]]:
        """Datasets with less cache, and with more: every increase, as remote IO relies on it."""
        more = cache - self._cache
        self.log.set(self, "_cache", cache)
        return [
            [
                SetCache(self._names[at], int(cache[at] * _GB + _ROUNDING))
                for at in changed.nonzero()[0].tolist()
            ]
            for changed in (more < 0.0, more > 0.0)
        ]

    def _changed_remote_io(self, rows: Indices, io: Floats) -> list[list[SetRemoteIO]]:
        """Jobs with less remote IO, and with more if it exceeds the threshold."""
        readers, before = self._readers, self._readers.io[rows]
        more = io - before
        less, grown = more < 0.0, more > before * self.pool.threshold
        readers.io[rows] = np.where(less | grown, io, before)
        return [
            [
                SetRemoteIO(readers.names[rows[at]], float(io[at]))
                for at in changed.nonzero()[0].tolist()
            ]
            for changed in (less, grown)
        ]

    def _cached(self) -> Floats:
        """Cached GB of each dataset, as observed or else as allocated."""
        held: Floats = np.where(np.isnan(self._held), self._cache, self._held)
        return np.minimum(held, self._size)

    def _effective(self, rows: Indices) -> Floats | None:
        """GB of its dataset that each job finds cached; None: not observed."""
        code, hit = self._readers.dataset[rows], self._readers.hit[rows]
        gb = np.where(np.isnan(hit), self._held[code], hit)
        unknown = np.isnan(gb)
        return None if unknown.all() else np.where(unknown, self._size[code], gb)

    def _read_on(self, rows: Indices, now: float) -> None:
        """Update what jobs have read, as their allocation implies."""
        readers = self._readers
        readers.read[rows], readers.at[rows] = self._read_by(rows, now), now

    def _read_by(self, rows: Indices, now: float) -> Floats:
        """GB that each job has read, if its allocation has not changed since the last count."""
        readers, code = self._readers, self._readers.dataset[rows]
        cached, effective = np.minimum(self._cache, self._size)[code], self._effective(rows)
        if effective is not None:
            cached = np.minimum(cached, effective)
        rate = throughput(readers.rate[rows], readers.io[rows], cached, self._size[code])
        seconds = np.where(np.isnan(readers.began[rows]), 0.0, now - readers.at[rows])
        read: Floats = np.minimum(readers.read[rows] + seconds * (rate / 1000.0), _MOST)
        return read

    def _left(self, rows: Indices, read: Floats) -> Floats:
        """GB that each job has yet to read."""
        return np.clip(self._readers.total[rows] - read, 0.0, _MOST)

    def _ranked(self, rows: Indices) -> Indices:
        """The datasets, in an order in which ties go to the job that came first.

        Of equals the kernel caches the first, and keeps the last of those that no job reads now.
        """
        readers, rank = self._readers, np.arange(len(self._size))
        reads = readers.rate[rows] > 0.0
        idle = readers.dataset[np.concatenate((rows[~reads], readers.waiting()))]
        rank[idle[::-1]] = len(rank) + np.arange(len(idle))
        busy = readers.dataset[rows[reads]]
        rank[busy[::-1]] = -1 - np.arange(len(busy))  # of jobs on one dataset the first counts
        return np.argsort(rank)

    def _allocation(self, rows: Indices, order: Indices, now: float) -> Any:
        """An allocation to these jobs; its datasets are in this order."""
        readers, jobs = self._readers, self._jobs(rows)
        if self.pool.objective in _BY_PROGRESS:
            read = readers.read[rows]
            left = self._left(rows, read)
            jobs = jobs.replace(remaining_gb=left, elapsed=now - readers.began[rows])
            if self.pool.objective == "finish_time":
                # the time for what they have read, at an equal share
                equal = np.maximum(self._allocated(jobs, order).reference_mbps, _LEAST_RATE)
                jobs = jobs.replace(elapsed_alone=np.minimum(1000.0 * read / equal, _MOST))
        return self._allocated(jobs, order)

    def _jobs(self, rows: Indices) -> StorageJobs:
        readers = self._readers
        return StorageJobs(
            dataset=readers.dataset[rows],
            rate_mbps=readers.rate[rows],
            effective_gb=self._effective(rows),
        )

    def _allocated(
        self,
        jobs: StorageJobs,
        order: Indices,
        objective: Objective | None = None,
        gpu_capacity: float | None = None,
    ) -> Any:
        pool, current = self.pool, self._cached()[order]
        assert pool.bandwidth_mbps is not None
        return allocate_storage(
            jobs.replace(dataset=np.argsort(order)[jobs.dataset]),
            self._size[order],
            pool.cache_gb,
            pool.bandwidth_mbps,
            objective or pool.objective,
            current_gb=current if current.any() else None,
            eps=pool.eps,
            gpu_capacity=gpu_capacity,
        )

    def faults(self, audited: Audited) -> Iterator[str]:
        """Inconsistencies with the jobs that read data."""
        if self.reads() != audited.reading:
            yield "storage knows other jobs"

    # --- orders and shares

    def shortest_first(self, now: float) -> list[str]:
        """The jobs that read data, by remaining time with what earlier jobs leave."""
        readers = self._readers
        rows = readers.here()
        if not len(rows):
            return []
        jobs = self._jobs(rows).replace(remaining_gb=self._left(rows, self._read_by(rows, now)))
        order = self._allocated(jobs, self._ranked(rows), "sjf").certificate.order
        return [readers.names[row] for row in rows[order].tolist()]

    def fair_shares(self, gpus: Callable[[str], float], gpu_capacity: float) -> dict[str, float]:
        """By job that reads data, the fraction of time with GPUs for equal progress of all."""
        readers = self._readers
        rows = readers.here()
        if not len(rows):
            return {}
        names = [readers.names[row] for row in rows.tolist()]
        # a job that reads nothing now keeps its usual share
        full = np.where(readers.rate[rows] > 0.0, readers.rate[rows], readers.full[rows])
        known = np.array([gpus(name) for name in names], dtype=np.float64)
        jobs = self._jobs(rows).replace(gpus=known, rate_mbps=full)
        rates = self._allocated(jobs, self._ranked(rows), "max_min", gpu_capacity).rates_mbps
        return dict(zip(names, np.minimum(rates / full, 1.0).tolist(), strict=True))

    def _fill_ahead(self, cache: Floats, code: Indices) -> None:
        """Use the rest of the cache for datasets of waiting jobs."""
        is_idle = np.ones(len(cache), dtype=np.bool_)
        is_idle[code] = False
        cache[is_idle] = 0.0
        waits = self._readers.dataset[self._readers.waiting()]
        first = np.array(list(dict.fromkeys(waits[is_idle[waits]].tolist())), np.int64)
        if len(first):
            self._keep(cache, first)
            self._fill(cache, first, self._size[first] - cache[first])

    def _keep(self, cache: Floats, codes: Indices) -> None:
        """Keep what is cached of these datasets, as far as there is room."""
        self._fill(cache, codes, self._cached()[codes])

    def _fill(self, cache: Floats, codes: Indices, wanted: Floats) -> None:
        left = max(self.pool.cache_gb - fsum(cache.tolist()), 0.0)
        cache[codes] += np.clip(left - (np.cumsum(wanted) - wanted), 0.0, wanted)


def _by_name(names: list[str], amounts: Floats, mask: npt.NDArray[np.bool_]) -> dict[str, float]:
    rows = np.flatnonzero(mask)
    return dict(zip([names[row] for row in rows], amounts[rows].tolist(), strict=True))
