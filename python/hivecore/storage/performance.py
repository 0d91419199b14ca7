"""How fast a training job runs with some cache and remote IO (SiloD's performance model).

In every epoch a job reads its whole dataset once, in a new random order. A uniform cache, which
never evicts on a miss, serves the fraction h = cache / dataset of the bytes in any order; the rest
comes from remote storage: at rate T a job reads T * (1 - h) remotely. Units: MB/s and GB, 1 GB =
1000 MB; time = 1000 * GB / (MB/s) seconds.
"""

from typing import Any, overload

import numpy as np

from hivecore.storage._numbers import Bool, Float64, as_amounts, as_one_shape, refuse
from hivecore.storage.jobs import StorageJobs, dataset_ids, dataset_sizes

__all__ = ["cache_efficiency", "cache_for_rate", "remote_io_demand", "throughput"]

_FULL = 1e-12  # fewer misses are rounding: the dataset is cached as a whole


@overload
def throughput(
    rate_mbps: float, remote_io_mbps: float, cache_gb: float, dataset_gb: float
) -> float: ...
@overload
def throughput(rate_mbps: Any, remote_io_mbps: Any, cache_gb: Any, dataset_gb: Any) -> Any: ...
def throughput(rate_mbps: Any, remote_io_mbps: Any, cache_gb: Any, dataset_gb: Any) -> Any:
    """Return the rate at which a job reads its dataset, in MB/s.

    :param rate_mbps: MB/s that all GPUs of the job consume without stalls (f*).
    :param remote_io_mbps: MB/s of remote reads granted to the job (b).
    :param cache_gb: cached GB of the dataset (c); at most its size counts.
    :param dataset_gb: GB read per epoch (d), > 0.
    :returns: f if the dataset is cached, else ``min(f, b / (1 - c / d))``; a float for four
        numbers, else float64 of their broadcast shape.
    :raises ValueError: a number is negative, NaN or infinite, a dataset is 0, or shapes do not
        broadcast.
    :raises TypeError: an argument is not a number.

    A fraction of misses below 1e-12 counts as none. O(elements). Source: SiloD (EuroSys'23).

    >>> throughput(114.0, remote_io_mbps=50.0, cache_gb=330.0, dataset_gb=660.0)
    100.0
    >>> throughput(114.0, 0.0, 660.0, 660.0)
    114.0
    >>> throughput(114.0, 48.0, [0.0, 330.0, 660.0], 660.0).tolist()
    [48.0, 96.0, 114.0]
    """
    if _plain_numbers(rate_mbps, remote_io_mbps, cache_gb, dataset_gb) and dataset_gb > 0.0:
        share = 1.0 - cache_gb / dataset_gb
        return float(rate_mbps if share < _FULL else min(rate_mbps, remote_io_mbps / share))
    f, b, missed, full = _broadcast(rate_mbps, remote_io_mbps, cache_gb, dataset_gb)
    np.copyto(missed, 1.0, where=full)
    with np.errstate(over="ignore"):
        reached = np.asarray(np.minimum(f, b / missed))
    np.copyto(reached, f, where=full)
    return _plain(reached)


@overload
def remote_io_demand(rate_mbps: float, cache_gb: float, dataset_gb: float) -> float: ...
@overload
def remote_io_demand(rate_mbps: Any, cache_gb: Any, dataset_gb: Any) -> Any: ...
def remote_io_demand(rate_mbps: Any, cache_gb: Any, dataset_gb: Any) -> Any:
    """Return the remote IO with which a job never stalls, in MB/s.

    :param rate_mbps, cache_gb, dataset_gb: as for `throughput`; the rate may be the sum over jobs
        that share the dataset.
    :returns: ``f * max(0, 1 - c / d)``; float or float64 array.
    :raises ValueError, TypeError: as `throughput`.

    >>> remote_io_demand(114.0, cache_gb=330.0, dataset_gb=660.0)
    57.0
    """
    f, _, missed, full = _broadcast(rate_mbps, 0.0, cache_gb, dataset_gb)
    np.copyto(missed, 0.0, where=full)
    return _plain(f * missed)


@overload
def cache_for_rate(rate_mbps: float, remote_io_mbps: float, dataset_gb: float) -> float: ...
@overload
def cache_for_rate(rate_mbps: Any, remote_io_mbps: Any, dataset_gb: Any) -> Any: ...
def cache_for_rate(rate_mbps: Any, remote_io_mbps: Any, dataset_gb: Any) -> Any:
    """Return the least cache with which this remote IO suffices for the rate, in GB.

    :param rate_mbps: MB/s to reach; at most what the job can consume.
    :param remote_io_mbps, dataset_gb: as for `throughput`.
    :returns: ``d * max(0, 1 - b / f)``; float or float64 array.
    :raises ValueError, TypeError: as `throughput`.

    >>> cache_for_rate(114.0, remote_io_mbps=57.0, dataset_gb=660.0)
    330.0
    """
    f, b, d = as_one_shape(
        as_amounts(rate_mbps, "rate_mbps"),
        as_amounts(remote_io_mbps, "remote_io_mbps"),
        _sizes(dataset_gb),
    )
    lacking = f > b
    with np.errstate(over="ignore"):
        served = np.divide(b, f, out=np.ones(lacking.shape), where=lacking)
    return _plain(d * (1.0 - served))


def cache_efficiency(jobs: StorageJobs, datasets_gb: Any) -> Float64:
    """Return how much remote IO each GB of cache saves, per dataset, in MB/s per GB.

    :param jobs: only running jobs count.
    :param datasets_gb: sizes in GB as for `allocate_storage`.
    :returns: float64[datasets], the sum over jobs of weight times rate, divided by the size: the
        decrease of the demand for remote IO per GB, the same for the first and the last GB.
    :raises ValueError, TypeError, KeyError: as `allocate_storage`.

    O(jobs + datasets). Source: SiloD (EuroSys'23).

    >>> jobs = StorageJobs(dataset=[0, 0, 1], rate_mbps=[114.0, 69.0, 114.0])
    >>> cache_efficiency(jobs, [660.0, 1360.0]).round(4).tolist()
    [0.2773, 0.0838]
    """
    sizes, names = dataset_sizes(datasets_gb)
    ids = dataset_ids(jobs, len(sizes), names)
    rates = jobs.rate_mbps if jobs.weight is None else jobs.rate_mbps * jobs.weight
    if jobs.running is not None:
        rates = np.where(jobs.running, rates, 0.0)
    return np.asarray(np.bincount(ids, rates, minlength=len(sizes)) / sizes)


def _plain_numbers(*values: Any) -> bool:
    """Whether all values are plain Python numbers in range, so that arrays are not needed."""
    return all(type(value) in (float, int) and 0 <= value <= 1e300 for value in values)


def _sizes(dataset_gb: Any) -> Float64:
    sizes = as_amounts(dataset_gb, "dataset_gb")
    if sizes.size and not sizes.min() > 0.0:
        refuse(sizes, sizes <= 0.0, "dataset_gb", "positive")
    return sizes


def _broadcast(
    rate_mbps: Any, remote_io_mbps: Any, cache_gb: Any, dataset_gb: Any
) -> tuple[Float64, Float64, Float64, Bool]:
    """Return rate, remote IO, the fraction of misses, and where that is 0."""
    f, b, c, d = as_one_shape(
        as_amounts(rate_mbps, "rate_mbps"),
        as_amounts(remote_io_mbps, "remote_io_mbps"),
        as_amounts(cache_gb, "cache_gb"),
        _sizes(dataset_gb),
    )
    with np.errstate(over="ignore"):
        missed = np.asarray(1.0 - c / d)
    return f, b, missed, np.asarray(missed < _FULL)


def _plain(result: Any) -> Any:
    return float(result) if np.ndim(result) == 0 else result
