"""The jobs that share cache and remote IO, as columns."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from hivecore._arguments import as_tuple
from hivecore._record import Record, force_setattr
from hivecore.storage._numbers import (
    BYTE,
    LARGEST,
    Bool,
    Float64,
    Int64,
    as_amounts,
    as_column,
    as_mask,
    frozen,
    refuse,
)

__all__ = ["StorageJobs", "dataset_ids", "dataset_sizes", "per_dataset"]


class StorageJobs(Record, frozen=True, eq=False):
    """Jobs as columns of equal length, in order of arrival.

    :raises ValueError: columns have different lengths, or a number is out of range: numbers are
        from 0 to 1e15, weights from 1e-6 to 1e6. Less than 1e-15 counts as 0.
    :raises TypeError: a column has another type.

    Columns are copied and read-only; lists are accepted.

    >>> jobs = StorageJobs(dataset=["imagenet", "imagenet", "text"], rate_mbps=[114, 69, 8])
    >>> len(jobs), jobs.rate_mbps
    (3, array([114.,  69.,   8.]))
    >>> jobs.replace(running=[True, False, True]).running.tolist()
    [True, False, True]
    """

    dataset: Any
    """Which dataset each job reads: int64[n] ids, or names if the datasets have names."""
    rate_mbps: Float64
    """float64[n], MB/s that all GPUs of a job consume when never stalled (f*)."""
    weight: Float64 | None = None
    """float64[n], a job's weight in cache efficiency and in max-min fairness: weight 2 means twice
    the speed, relative to its reference, of weight 1. By default all 1.
    """
    remaining_gb: Float64 | None = None
    """float64[n], GB that a job has yet to read; "sjf" and "finish_time" need it."""
    gpus: Float64 | None = None
    """float64[n], GPUs of a job; needed if a ``gpu_capacity`` is given."""
    running: Bool | None = None
    """bool[n]; other jobs are queued: they get nothing and do not count. By default all run."""
    effective_gb: Float64 | None = None
    """float64[n], GB of the job's dataset that hit in its current epoch, if less than what is
    allocated: data cached later is first read again in the next epoch. Remote IO is divided by
    this; the cache is allocated for the time when it is full.
    """
    elapsed: Float64 | None = None
    """float64[n], seconds since a job arrived; only for "finish_time", 0 by default."""
    elapsed_alone: Float64 | None = None
    """float64[n], seconds that its work so far would have taken with an equal share; only for
    "finish_time", by default ``elapsed``.
    """
    names: tuple[Hashable, ...] | None = None
    """Names of the jobs for `StorageAllocation.by_job`; by default their rows."""

    def __post_init__(self) -> None:
        rate = as_amounts(self.rate_mbps, "rate_mbps")
        if rate.ndim != 1:
            raise ValueError(f"rate_mbps must have one dimension, not {rate.ndim}")
        n = len(rate)
        force_setattr(self, "rate_mbps", as_column(rate, "rate_mbps", n))
        force_setattr(self, "dataset", _as_references(self.dataset, n))
        for name in ("weight", "remaining_gb", "gpus", "effective_gb", "elapsed", "elapsed_alone"):
            column = getattr(self, name)
            if column is not None:
                limits = (1e-6, 1e6) if name == "weight" else (0.0, LARGEST)
                force_setattr(self, name, as_column(column, name, n, *limits))
        if self.running is not None:
            force_setattr(self, "running", as_mask(self.running, "running", n))
        if self.names is not None:
            names = as_tuple(self.names, "names")
            if len(names) != n:
                raise ValueError(f"names must be {n}, one per job, not {len(names)}")
            seen = set()
            for row, name in enumerate(names):
                if not isinstance(name, Hashable):
                    raise TypeError(f"names[{row}]={name!r}: must be hashable")
                if name in seen:
                    raise ValueError(f"names[{row}]={name!r}: names must differ")
                seen.add(name)
            force_setattr(self, "names", names)

    def __len__(self) -> int:
        return len(self.rate_mbps)


def dataset_sizes(datasets: Any) -> tuple[Float64, tuple[Hashable, ...] | None]:
    """Return sizes by id, and the names if there are any; ids are the order of the mapping."""
    names = tuple(datasets) if isinstance(datasets, Mapping) else None
    values = list(datasets.values()) if isinstance(datasets, Mapping) else datasets
    sizes = as_amounts(values, "datasets_gb")
    if sizes.ndim != 1:
        raise ValueError(f"datasets_gb must have one dimension, not {sizes.ndim}")
    return as_column(sizes, "datasets_gb", len(sizes), BYTE), names


def dataset_ids(jobs: StorageJobs, count: int, names: tuple[Hashable, ...] | None) -> Int64:
    """Return int64[n], the id of each job's dataset."""
    if not isinstance(jobs, StorageJobs):
        raise TypeError(f"jobs must be StorageJobs, not {type(jobs).__name__}")
    if names is None:
        ids = jobs.dataset
        if not isinstance(ids, np.ndarray):
            raise TypeError("jobs.dataset holds names, but datasets_gb has none: give a mapping")
        if len(ids) and not (ids.min() >= 0 and ids.max() < count):
            refuse(ids, (ids < 0) | (ids >= count), "jobs.dataset", f"from 0 to {count - 1}")
        return ids
    index = {name: position for position, name in enumerate(names)}
    wanted = jobs.dataset.tolist() if isinstance(jobs.dataset, np.ndarray) else jobs.dataset
    try:
        return frozen(np.array([index[name] for name in wanted], dtype=np.int64))
    except (KeyError, TypeError):
        for row, name in enumerate(wanted):
            if not isinstance(name, Hashable) or name not in index:
                raise KeyError(f"jobs.dataset[{row}]={name!r}: not in datasets_gb") from None
        raise


def per_dataset(
    value: Any, name: str, sizes: Float64, names: tuple[Hashable, ...] | None
) -> Float64:
    """Return float64[datasets] from an array, or from a mapping by dataset, where 0 is left out.

    :param name: of the argument, for errors.
    :param names: of the datasets; ``None``: a mapping is refused.
    """
    if isinstance(value, Mapping):
        if names is None:
            raise TypeError(f"{name} is a mapping, but datasets_gb has no names")
        for key in value.keys() - set(names):
            raise KeyError(f"{name}[{key!r}]: not in datasets_gb")
        value = [value.get(key, 0.0) for key in names]
    return as_column(value, name, len(sizes))


def _as_references(dataset: Any, n: int) -> Int64 | tuple[Hashable, ...]:
    if isinstance(dataset, np.ndarray) and dataset.ndim != 1:
        raise ValueError(f"dataset must have one dimension, not {dataset.ndim}")
    if isinstance(dataset, (str, bytes)) or not isinstance(dataset, (np.ndarray, Iterable)):
        raise TypeError(f"dataset must be a sequence, not {type(dataset).__name__}")
    if not isinstance(dataset, np.ndarray):
        dataset = tuple(dataset)
    if len(dataset) != n:
        raise ValueError(f"dataset must be {n} long like rate_mbps, not {len(dataset)}")
    if isinstance(dataset, tuple):
        if not all(type(entry) is int or isinstance(entry, np.integer) for entry in dataset):
            return _without_floats(dataset)
        try:
            dataset = np.array(dataset, dtype=np.int64)
        except OverflowError:
            raise ValueError("dataset holds an integer that is too large for an id") from None
    if n == 0:
        return frozen(np.empty(0, dtype=np.int64))
    if dataset.dtype.kind == "u" and dataset.max() > np.iinfo(np.int64).max:
        raise ValueError("dataset holds an integer that is too large for an id")
    if dataset.dtype.kind in "iu":
        return frozen(np.array(dataset, dtype=np.int64))
    return _without_floats(tuple(dataset.tolist()))


def _without_floats(names: tuple[Any, ...]) -> tuple[Hashable, ...]:
    for row, name in enumerate(names):
        if isinstance(name, (bool, float)) or not isinstance(name, Hashable):
            raise TypeError(
                f"dataset[{row}]={name!r}: must be an id or a name, not {type(name).__name__}"
            )
    return names
