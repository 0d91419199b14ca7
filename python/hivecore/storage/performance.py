"""How fast a training job runs with so much cache and remote IO (SiloD's performance model).

In every epoch a job reads its whole dataset once, in a new random order. A uniform cache, which
never evicts on a miss, then serves the share h = cache / dataset of the bytes, whatever the order;
the rest comes from the remote storage: a job that runs at rate T reads T * (1 - h) remotely.
Units: MB/s and GB, 1 GB = 1000 MB; time = 1000 * GB / (MB/s) seconds.
"""

from typing import Any, overload

import numpy as np

from hivecore.storage._numbers import Bool, Float64, as_amounts, as_one_shape, refuse
from hivecore.storage.jobs import StorageJobs, dataset_ids, dataset_sizes

__all__ = ["cache_efficiency", "cache_for_rate", "remote_io_demand", "throughput"]

_FULL = 1e-12  # a smaller share of misses is rounding: the dataset is cached as a whole


@overload
def throughput(rate: float, remote_io: float, cache: float, dataset: float) -> float: ...
@overload
def throughput(rate: Any, remote_io: Any, cache: Any, dataset: Any) -> Any: ...
def throughput(rate: Any, remote_io: Any, cache: Any, dataset: Any) -> Any:
    """Return the rate at which a job reads its dataset, in MB/s.

    :param rate: MB/s that all GPUs of the job consume when never stalled (f*).
    :param remote_io: MB/s of remote reads granted to the job (b).
    :param cache: GB of the dataset that are cached (c); more than the dataset counts as all of it.
    :param dataset: GB read per epoch (d), > 0.
    :returns: ``rate`` if the dataset is cached, else ``min(rate, remote_io / (1 - cache /
        dataset))``; a float for four numbers, else float64 of the shape to which they broadcast.
    :raises ValueError: a number that is negative, NaN or infinite; a dataset of 0; shapes that do
        not broadcast.
    :raises TypeError: what is not a number.

    A share of misses below 1e-12 counts as none. O(elements). Source: SiloD (EuroSys'23).

    >>> throughput(114.0, remote_io=50.0, cache=330.0, dataset=660.0)
    100.0
    >>> throughput(114.0, 0.0, 660.0, 660.0)
    114.0
    >>> throughput(114.0, 48.0, [0.0, 330.0, 660.0], 660.0).tolist()
    [48.0, 96.0, 114.0]
    """
    if _plain_numbers(rate, remote_io, cache, dataset) and dataset > 0.0:
        share = 1.0 - cache / dataset
        return float(rate if share < _FULL else min(rate, remote_io / share))
    f, b, missed, full = _broadcast(rate, remote_io, cache, dataset)
    np.copyto(missed, 1.0, where=full)
    with np.errstate(over="ignore"):
        reached = np.asarray(np.minimum(f, b / missed))
    np.copyto(reached, f, where=full)
    return _plain(reached)


@overload
def remote_io_demand(rate: float, cache: float, dataset: float) -> float: ...
@overload
def remote_io_demand(rate: Any, cache: Any, dataset: Any) -> Any: ...
def remote_io_demand(rate: Any, cache: Any, dataset: Any) -> Any:
    """Return the remote IO with which a job never stalls, in MB/s.

    :param rate, cache, dataset: as for `throughput`; ``rate`` may also be the sum over the jobs
        that share the dataset.
    :returns: ``rate * max(0, 1 - cache/dataset)``; float or float64 array.
    :raises ValueError, TypeError: as `throughput`.

    >>> remote_io_demand(114.0, cache=330.0, dataset=660.0)
    57.0
    """
    f, _, missed, full = _broadcast(rate, 0.0, cache, dataset)
    np.copyto(missed, 0.0, where=full)
    return _plain(f * missed)


@overload
def cache_for_rate(rate: float, remote_io: float, dataset: float) -> float: ...
@overload
def cache_for_rate(rate: Any, remote_io: Any, dataset: Any) -> Any: ...
def cache_for_rate(rate: Any, remote_io: Any, dataset: Any) -> Any:
    """Return the least cache with which so much remote IO suffices for the rate, in GB.

    :param rate: MB/s to be reached; up to what the job can consume.
    :param remote_io, dataset: as for `throughput`.
    :returns: ``dataset * max(0, 1 - remote_io/rate)``; float or float64 array.
    :raises ValueError, TypeError: as `throughput`.

    >>> cache_for_rate(114.0, remote_io=57.0, dataset=660.0)
    330.0
    """
    f, b, d = as_one_shape(
        as_amounts(rate, "rate"), as_amounts(remote_io, "remote_io"), _sizes(dataset)
    )
    lacking = f > b
    with np.errstate(over="ignore"):
        served = np.divide(b, f, out=np.ones(lacking.shape), where=lacking)
    return _plain(d * (1.0 - served))


def cache_efficiency(jobs: StorageJobs, datasets: Any) -> Float64:
    """Return how much remote IO each GB of cache saves, per dataset, in MB/s per GB.

    :param jobs: those that do not run count nothing.
    :param datasets: sizes in GB as for `allocate_storage`.
    :returns: float64[datasets], the sum of ``weight * rate`` of the jobs over the size: what the
        demand for remote IO falls by per GB, the same for the first GB and the last one.
    :raises ValueError, TypeError, KeyError: as `allocate_storage`.

    O(jobs + datasets). Source: SiloD (EuroSys'23).

    >>> jobs = StorageJobs(dataset=[0, 0, 1], rate=[114.0, 69.0, 114.0])
    >>> cache_efficiency(jobs, [660.0, 1360.0]).round(4).tolist()
    [0.2773, 0.0838]
    """
    sizes, names = dataset_sizes(datasets)
    ids = dataset_ids(jobs, len(sizes), names)
    rates = jobs.rate if jobs.weight is None else jobs.rate * jobs.weight
    if jobs.running is not None:
        rates = np.where(jobs.running, rates, 0.0)
    return np.asarray(np.bincount(ids, rates, minlength=len(sizes)) / sizes)


def _plain_numbers(*values: Any) -> bool:
    """Whether arrays are not needed, since all are numbers of Python's own, and in range."""
    return all(type(value) in (float, int) and 0 <= value <= 1e300 for value in values)


def _sizes(dataset: Any) -> Float64:
    sizes = as_amounts(dataset, "dataset")
    if sizes.size and not sizes.min() > 0.0:
        refuse(sizes, sizes <= 0.0, "dataset", "positive")
    return sizes


def _broadcast(
    rate: Any, remote_io: Any, cache: Any, dataset: Any
) -> tuple[Float64, Float64, Float64, Bool]:
    """Rate, remote IO, the share of misses, and where that is none."""
    f, b, c, d = as_one_shape(
        as_amounts(rate, "rate"),
        as_amounts(remote_io, "remote_io"),
        as_amounts(cache, "cache"),
        _sizes(dataset),
    )
    with np.errstate(over="ignore"):
        missed = np.asarray(1.0 - c / d)
    return f, b, missed, np.asarray(missed < _FULL)


def _plain(result: Any) -> Any:
    return float(result) if np.ndim(result) == 0 else result
