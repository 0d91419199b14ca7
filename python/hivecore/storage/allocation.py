"""Divides cache and remote IO among jobs, like any other resource (SiloD)."""

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from hivecore._arguments import as_choice
from hivecore._storage import solve_storage
from hivecore.storage._numbers import (
    Float64,
    Int64,
    as_amount,
    as_flag,
    fill_in_order,
    frozen,
)
from hivecore.storage.exact_search import best_cache
from hivecore.storage.jobs import StorageJobs, dataset_ids, dataset_sizes, per_dataset
from hivecore.storage.performance import cache_efficiency
from hivecore.storage.proof import verify_allocation
from hivecore.storage.shares import FillingStage, Problem, Shares, StorageCertificate

__all__ = [
    "IoMode",
    "JobShare",
    "Objective",
    "StorageAllocation",
    "allocate_storage",
    "ration_remote_io",
    "reclaim_order",
]

Objective = Literal["greedy", "throughput", "max_min", "finish_time", "fifo", "sjf"]
IoMode = Literal["priority", "throughput", "maxmin_io", "maxmin_rate", "proportional"]

_IO_MODES = ("priority", "throughput", "maxmin_io", "maxmin_rate", "proportional")
# Objective -> allowed io_modes; the first is the default.
_MODES = {
    "greedy": ("throughput", *(mode for mode in _IO_MODES if mode != "throughput")),
    "throughput": ("throughput",),
    "max_min": ("maxmin_rate",),
    "finish_time": ("maxmin_rate",),
    "fifo": _IO_MODES,
    "sjf": _IO_MODES,
}
_CACHE_METHODS = ("greedy", "whole", "largest")
_WITH_GPUS = ("max_min", "finish_time", "fifo", "sjf")
_BINDINGS: tuple[Literal["rate", "remote_io", "gpus"], ...] = ("rate", "remote_io", "gpus")


class JobShare(NamedTuple):
    """A job's remote IO and rate, both in MB/s."""

    remote_io_mbps: float
    rate_mbps: float


@dataclass(frozen=True, slots=True, eq=False)
class StorageAllocation(Shares):
    """Cache and remote IO of each job; arrays are in the order of jobs and datasets."""

    _problem: Problem = field(repr=False)

    @property
    def throughput_mbps(self) -> float:
        """The sum of all rates, in MB/s."""
        return float(self.rates_mbps.sum())

    @property
    def gap(self) -> float:
        """An upper bound on how much greater the total rate could be, relatively; 0 if it is
        optimal.
        """
        if self.bound_mbps <= self.throughput_mbps:
            return 0.0
        return (
            (self.bound_mbps - self.throughput_mbps) / self.throughput_mbps
            if self.throughput_mbps
            else float("inf")
        )

    def by_dataset(self) -> dict[Hashable, float]:
        """GB to cache of each dataset, by name, or by id without names."""
        names = self._problem.dataset_names
        keys = range(len(self.cache_gb)) if names is None else names
        return dict(zip(keys, self.cache_gb.tolist(), strict=True))

    def by_job(self) -> dict[Hashable, JobShare]:
        """The share of each job, by name, or by row without names."""
        jobs: StorageJobs = self._problem.jobs
        keys = range(len(self.rates_mbps)) if jobs.names is None else jobs.names
        shares = map(JobShare, self.remote_io_mbps.tolist(), self.rates_mbps.tolist())
        return dict(zip(keys, shares, strict=True))

    def verify(self) -> Literal[True]:
        """Check from the certificate, without the code that computed it, that the allocation is
        feasible and as good as its objective promises.

        Feasible: within capacity and bandwidth, with rates that follow from the performance model.
        Cache: complementary slackness with ``cache_multiplier``. Remote IO: duality, or the level
        to which jobs were filled. Max-min: the binding of every stage. "sjf": at no step another
        job would have ended sooner. "throughput": the total rate is at most
        ``bound_mbps``, which follows from the multiplier; with ``exact`` the search is repeated.

        :raises CertificateError: a check fails; the message says which.

        Differences up to a part in 10**9, or 1e-9 in the unit, count as equal. Cost: O(jobs +
        datasets), except "sjf" and the exact search.
        """
        verify_allocation(self, self._problem)
        return True


def allocate_storage(
    jobs: StorageJobs,
    datasets_gb: Any,
    cache_gb: float,
    bandwidth_mbps: float,
    objective: Objective = "greedy",
    io_mode: IoMode | None = None,
    *,
    current_gb: Any = None,
    eps: float = 0.1,
    last_use: Any = None,
    gpu_capacity: float | None = None,
    exact: bool = False,
) -> StorageAllocation:
    """Return how much of each dataset to cache, and how much remote IO each job gets.

    :param jobs: rows in order of arrival. Jobs on the same dataset share its cached part.
    :param datasets_gb: float64[m], sizes of at least 1e-9; or a mapping from names to sizes, in the
        order of the ids.
    :param cache_gb: capacity of the cache in GB.
    :param bandwidth_mbps: remote reads of all jobs together, in MB/s.
    :param objective: see below.
    :param io_mode: how remote IO is divided for the chosen cache. "priority": in policy order, up
        to each job's demand (default of "fifo" and "sjf"). "throughput": cheapest rates first, for
        the greatest total (default of "greedy", the only mode of "throughput"). "maxmin_io": equal
        shares up to the demand, as in an unmanaged network. "maxmin_rate": equal rates relative to
        ``weight * reference`` (the only mode of "max_min" and "finish_time"). "proportional": by
        demand.
    :param current_gb: what is cached of each dataset now, an array or a mapping from names.
        "greedy" and "fifo" then move bytes only if that saves more than ``1 + eps`` times as much.
        All objectives keep unused contents while there is room, see `reclaim_order`.
    :param eps: how much more efficient a dataset must be to replace bytes of another.
    :param last_use: float64[m], or a mapping from names: the time of each dataset's last use;
        orders unused contents.
    :param gpu_capacity: GPUs of the cluster. "fifo" runs jobs up to the first that lacks GPUs;
        "sjf" skips such jobs. "max_min" and "finish_time": the sum of GPUs times the fraction of a
        job's full rate is at most the capacity (time-sliced GPUs of one type), and the reference
        has an equal share of GPU time.
    :param exact: for "throughput": search for the optimum, to 1e-12 of it. About 20 ms for hundreds
        of datasets, but hard cases exist.
    :returns: the shares, with a certificate that `StorageAllocation.verify` checks.
    :raises ValueError: a number is out of range, an array has a wrong shape, there is no such
        objective or ``io_mode``, the objective does not have the mode or option, or with ``exact``
        more than a million sets compete.
    :raises TypeError: an argument has a wrong type, or a column of ``jobs`` is missing.
    :raises KeyError: ``datasets_gb`` does not have a dataset that another argument names.

    - "greedy": the least demand for remote IO. Datasets are cached by descending
      `cache_efficiency`, the last one in part. If the bandwidth covers the demand, every job runs
      at its full rate, and no objective does better.
    - "throughput": the greatest total rate. By default the best of three: by efficiency, or whole
      datasets (by efficiency while they fit, with or without the one with the largest total rate
      first) and a part of another; ``bound_mbps`` and ``gap`` bound the distance from the optimum.
    - "max_min": maximises the rate of the slowest job, relative to ``weight`` times its rate with
      an equal share of everything, then of the next slowest, and so on. If datasets tie for the
      last of the cache exactly when the bandwidth runs out, the lowest id gets it, even if jobs on
      another could use it better.
    - "finish_time": the same for the ratio of finish times, ``(elapsed + rest) / (elapsed_alone +
      rest with an equal share)``: minimises the greatest, then the next. Ignores weights.
    - "fifo": the cache as in "greedy", remote IO by arrival.
    - "sjf": the job with the least remaining time first; it takes what it needs of the cache and
      remote IO that earlier jobs leave. The cache is then as these jobs needed it, or as in
      "greedy", whichever gives the greater sum of rates over remaining work with remote IO in that
      order.

    Ties break by lowest id. Cost: O(jobs + datasets log datasets) for "greedy" and "fifo", a few
    such rounds for "max_min"; "sjf" recomputes keys that have changed. Source: SiloD (EuroSys'23);
    Gavel (OSDI'20) for "max_min".

    >>> jobs = StorageJobs(dataset=["a", "b"], rate_mbps=[100.0, 50.0])
    >>> sizes = {"a": 100.0, "b": 60.0}
    >>> greedy = allocate_storage(jobs, sizes, cache_gb=60.0, bandwidth_mbps=10.0)
    >>> greedy.by_dataset(), greedy.throughput_mbps
    ({'a': 60.0, 'b': 0.0}, 25.0)
    >>> best = allocate_storage(jobs, sizes, 60.0, 10.0, "throughput", exact=True)
    >>> best.by_dataset(), best.throughput_mbps, best.verify()
    ({'a': 0.0, 'b': 60.0}, 60.0, True)
    """
    goal = as_choice(objective, "objective", tuple(_MODES))
    modes = _MODES[goal]
    mode = modes[0] if io_mode is None else as_choice(io_mode, "io_mode", _IO_MODES)
    if mode not in modes:
        raise ValueError(f"io_mode={mode!r}: objective {goal!r} has {', '.join(modes)} only")
    if as_flag(exact, "exact") and goal != "throughput":
        raise ValueError(f"exact is for objective 'throughput', not {goal!r}")
    if gpu_capacity is not None and goal not in _WITH_GPUS:
        raise ValueError(f"gpu_capacity is not for objective {goal!r}")
    if goal in ("sjf", "finish_time") and getattr(jobs, "remaining_gb", ()) is None:
        raise TypeError(f"jobs.remaining_gb is missing: {goal!r} needs it")
    capacity = as_amount(cache_gb, "cache_gb")
    problem = _problem(
        jobs,
        datasets_gb,
        capacity,
        bandwidth_mbps,
        current_gb,
        "current_gb",
        eps,
        gpu_capacity,
        last_use,
    )
    if exact:
        totals: Float64 = np.zeros(len(problem.size))
        np.add.at(totals, problem.dataset, _rates(jobs))
        bound, chosen = best_cache(totals, problem.size, problem.cache, problem.bandwidth)
        return _solve(problem, goal, mode, (chosen, bound))
    return _solve(problem, goal, mode)


def ration_remote_io(
    jobs: StorageJobs,
    datasets_gb: Any,
    cached_gb: Any,
    bandwidth_mbps: float,
    io_mode: IoMode = "throughput",
    *,
    capacity_gb: float | None = None,
) -> StorageAllocation:
    """Divide remote IO among jobs, for a given cache.

    :param jobs, datasets_gb, bandwidth_mbps, io_mode: as in `allocate_storage`. A job with hit
        ratio h for another reason, such as a policy that is not uniform, has ``effective_gb = h *
        size``.
    :param cached_gb: float64[m], what is cached of each dataset, at most its size; or a mapping
        from names.
    :param capacity_gb: capacity of the cache, of which "maxmin_rate" takes equal shares for the
        reference; by default what is cached.
    :returns: an allocation with that cache.
    :raises ValueError, TypeError, KeyError: as in `allocate_storage`.

    Cost: O(jobs), but O(jobs log jobs) for "throughput".

    >>> jobs = StorageJobs(dataset=[0, 1], rate_mbps=[100.0, 50.0])
    >>> ration_remote_io(jobs, [100.0, 60.0], [60.0, 0.0], 10.0, "maxmin_io").rates_mbps.tolist()
    [12.5, 5.0]
    """
    mode = as_choice(io_mode, "io_mode", _IO_MODES)
    if cached_gb is None:
        raise TypeError("cached_gb must be an array or a mapping, not NoneType")
    share = None if capacity_gb is None else as_amount(capacity_gb, "capacity_gb")
    return _solve(
        _problem(jobs, datasets_gb, share, bandwidth_mbps, cached_gb, "cached_gb"), "given", mode
    )


def reclaim_order(jobs: StorageJobs, datasets_gb: Any, last_use: Any = None) -> Int64:
    """Return the datasets in the order in which their bytes should be evicted.

    :param jobs: running and queued jobs.
    :param datasets_gb: as in `allocate_storage`.
    :param last_use: float64[m], time of each dataset's last use in any unit; by default all 0.
    :returns: int64[m]: first datasets that no job reads, the longest unused first; then by
        ascending `cache_efficiency`, so datasets with only queued jobs come first. Ties break by
        lowest id.
    :raises ValueError, TypeError, KeyError: as in `allocate_storage`.

    Cost: O(jobs + m log m). Source: SiloD (EuroSys'23).

    >>> jobs = StorageJobs(dataset=[0, 1], rate_mbps=[114.0, 69.0])
    >>> reclaim_order(jobs, [660.0, 660.0, 143.0, 1360.0], last_use=[9.0, 9.0, 5.0, 2.0]).tolist()
    [3, 2, 1, 0]
    """
    sizes, names = dataset_sizes(datasets_gb)
    ids = dataset_ids(jobs, len(sizes), names)
    used = None if last_use is None else per_dataset(last_use, "last_use", sizes, names)
    return _reclaim_order(ids, cache_efficiency(jobs, datasets_gb), used)


def _reclaim_order(ids: Int64, efficiency: Float64, last_use: Float64 | None) -> Int64:
    read = np.bincount(ids, minlength=len(efficiency)) > 0
    unused_since = np.zeros(len(read)) if last_use is None else np.where(read, 0.0, last_use)
    return np.lexsort((efficiency, unused_since, read))


def _rates(jobs: StorageJobs) -> Float64:
    return jobs.rate_mbps if jobs.running is None else np.where(jobs.running, jobs.rate_mbps, 0.0)


def _problem(
    jobs: StorageJobs,
    datasets_gb: Any,
    capacity: float | None,
    bandwidth_mbps: Any,
    held: Any,
    held_name: str,
    eps: Any = 0.0,
    gpu_capacity: Any = None,
    last_use: Any = None,
) -> Problem:
    """Return the checked arguments; the default capacity is what is cached now."""
    size, names = dataset_sizes(datasets_gb)
    ids = dataset_ids(jobs, len(size), names)
    limit = as_amount(bandwidth_mbps, "bandwidth_mbps")
    gpus = math.inf if gpu_capacity is None else as_amount(gpu_capacity, "gpu_capacity")
    if gpu_capacity is not None and jobs.gpus is None:
        raise TypeError("jobs.gpus is missing: gpu_capacity needs it")
    current = None
    if held is not None:
        current = per_dataset(held, held_name, size, names)
        for row in np.flatnonzero(current > size * (1 + 1e-9))[:1]:
            raise ValueError(f"{held_name}[{row}]={current[row]}: the dataset has {size[row]} GB")
        current = np.minimum(current, size)
    used = None if last_use is None else per_dataset(last_use, "last_use", size, names)
    if capacity is None:
        capacity = 0.0 if current is None else float(current.sum())
    margin = as_amount(eps, "eps", 0.0, 1e6)
    return Problem(jobs, ids, size, current, used, capacity, limit, gpus, margin, names)


def _solve(
    problem: Problem,
    objective: str,
    mode: str,
    searched: tuple[Float64, float] | None = None,
) -> StorageAllocation:
    jobs = problem.jobs
    chosen = problem.current if searched is None else searched[0]
    alone = jobs.elapsed if jobs.elapsed_alone is None else jobs.elapsed_alone
    (
        cache, granted, rates, demand, running, order, multiplier, io_level, bound, choice,
        levels, bindings, stage, reference,
    ) = solve_storage(
        problem.dataset, jobs.rate_mbps, jobs.weight, jobs.running, jobs.effective_gb,
        jobs.remaining_gb, None if math.isinf(problem.gpu_capacity) else jobs.gpus,
        jobs.elapsed, alone, problem.size, chosen, problem.cache, problem.bandwidth,
        problem.gpu_capacity,
        "given" if searched else objective, mode, problem.eps,
    )  # fmt: skip
    if objective != "sjf":
        order = np.flatnonzero(running)
    method = _CACHE_METHODS[choice]
    if objective == "given":
        method = "given"
    elif searched:
        method, bound = "exact", searched[1]
        multiplier = 0.0
    elif objective == "sjf" and choice:
        method = "shortest"
    if objective != "given" and problem.current is not None:
        _keep_idle(problem, problem.current, cache)
    filled = objective in ("max_min", "finish_time")
    fair = filled or mode == "maxmin_rate"
    certificate = StorageCertificate(
        multiplier,
        io_level,
        frozen(order),
        method,
        tuple(
            FillingStage(level, _BINDINGS[binding])
            for level, binding in zip(levels, bindings, strict=True)
        ),
        frozen(stage) if filled else None,
    )
    return StorageAllocation(
        frozen(cache),
        frozen(granted),
        frozen(rates),
        frozen(demand),
        frozen(running),
        frozen(reference) if fair else None,
        bound,
        objective,
        mode,
        certificate,
        problem,
    )


def _keep_idle(problem: Problem, current: Float64, cache: Float64) -> None:
    """Keep data that no running job reads, while there is room."""
    left = problem.cache - float(cache.sum())
    read = np.bincount(problem.dataset, _rates(problem.jobs), minlength=len(cache)) > 0.0
    idle = np.where(read, 0.0, current)
    if left <= 0.0 or not idle.any():
        return
    keep = _reclaim_order(problem.dataset, read.astype(np.float64), problem.last_use)[::-1]
    cache[keep] += fill_in_order(idle[keep], left)
