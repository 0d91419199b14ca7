"""Stage durations from the utilisation of resources by a job that runs alone."""

from typing import Any

import numpy as np

from hivecore._arguments import as_float, as_int
from hivecore.interleaving.durations import Float64, as_numbers

__all__ = ["stage_durations"]


def stage_durations(
    samples: Any, threshold: Any, interval: float = 1.0, iterations: int = 1
) -> Float64:
    """How long an iteration keeps each resource busy.

    :param samples: (t, k) utilisation of k resources at t instants, in comparable units such as
        parts of the peak.
    :param threshold: lower utilisation counts as none; a number, or one for each resource.
    :param interval: time between two instants, in the unit of the result.
    :param iterations: the number of iterations in the samples.
    :returns: float64[k]. Instants without use belong to no resource.
    :raises ValueError: a wrong shape, a negative, infinite or NaN number, or ``interval`` or
        ``iterations`` that are not positive.
    :raises TypeError: an argument is no number.

    Stages overlap at their ends; an instant belongs to the most used resource (ties: the first).
    Cost: O(t k). Source: Muri (SIGCOMM'22), profiling.

    >>> used = [[0.9, 0.1, 0.0], [0.6, 0.5, 0.0], [0.1, 0.8, 0.0], [0.0, 0.02, 0.0]]
    >>> stage_durations(used, threshold=0.05, interval=10.0).tolist()
    [20.0, 10.0, 0.0]
    """
    used = as_numbers(samples, "samples")
    if used.ndim != 2 or not used.shape[1]:
        raise ValueError("samples must have a row per instant and a column per resource")
    least = as_numbers(threshold, "threshold")
    if least.shape not in ((), (1,), used.shape[1:]):
        raise ValueError(f"threshold must be one number or {used.shape[1]}, one per resource")
    for name, numbers in {"samples": used, "threshold": least}.items():
        if not ((numbers >= 0) & np.isfinite(numbers)).all():
            raise ValueError(f"{name} must be finite and not negative")
    step = as_float(interval, "interval")
    if not 0 < step < np.inf:
        raise ValueError(f"interval={step}: must be positive and finite")
    count = as_int(iterations, "iterations", 1, 2**53)
    counted = np.where(used >= least, used, 0.0)
    owner = counted.argmax(axis=1)[counted.any(axis=1)]
    owned = np.bincount(owner, minlength=used.shape[1]).astype(np.float64)
    return np.multiply(owned, step / count)
