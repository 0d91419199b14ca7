"""Priorities of jobs by the service that they need or have had; the lowest goes first."""

from typing import Any

import numpy as np

from hivecore.interleaving.durations import Float64, as_numbers

__all__ = ["srsf", "two_d_las"]


def srsf(remaining: Any, gpus: Any) -> Float64:
    """The remaining service of each job, for shortest remaining service first (Muri-S).

    :param remaining: (n,) seconds that each job would still run alone.
    :param gpus: (n,) GPUs that it needs.
    :returns: float64[n], GPU seconds.
    :raises ValueError: shapes differ, or a number is negative, NaN or infinite.
    :raises TypeError: an argument is no number.

    The caller breaks ties, such as by submission. Cost: O(n).

    >>> srsf([100.0, 30.0], [1, 8]).tolist()
    [100.0, 240.0]
    """
    return _service("remaining", remaining, gpus)


def two_d_las(attained: Any, gpus: Any, thresholds: Any = None) -> Float64:
    """The attained service of each job, or its queue, for least attained service first.

    :param attained: (n,) seconds that each job has run.
    :param gpus: (n,) GPUs that it needs.
    :param thresholds: ascending GPU seconds at which a job moves to the next queue, as in Tiresias
        (NSDI'19); by default there are no queues, as in Muri-L.
    :returns: float64[n], GPU seconds, or the number of the queue from 0 on.
    :raises ValueError: as `srsf` does, or thresholds do not rise.
    :raises TypeError: an argument is no number.

    The caller orders the jobs of a queue, such as by submission. Cost: O(n log queues).

    >>> two_d_las([100.0, 500.0, 4000.0], [1, 8, 1]).tolist()
    [100.0, 4000.0, 4000.0]
    >>> two_d_las([100.0, 500.0, 4000.0], [1, 8, 2], thresholds=[3250, 7200]).tolist()
    [0.0, 1.0, 2.0]
    """
    service = _service("attained", attained, gpus)
    if thresholds is None:
        return service
    limits = as_numbers(thresholds, "thresholds")
    if limits.ndim != 1 or not (np.diff(limits) > 0).all() or np.isnan(limits).any():
        raise ValueError("thresholds must be a list of rising numbers")
    return np.searchsorted(limits, service, side="right").astype(np.float64)


def _service(name: str, seconds: Any, gpus: Any) -> Float64:
    time, width = _finite(name, seconds), _finite("gpus", gpus)
    if time.shape != width.shape:
        raise ValueError(f"{name} has shape {time.shape}, gpus has shape {width.shape}")
    return time * width


def _finite(name: str, values: Any) -> Float64:
    numbers = as_numbers(values, name)
    if numbers.ndim != 1:
        raise ValueError(f"{name} must be a list of numbers")
    wrong = ~((numbers >= 0) & np.isfinite(numbers))
    if wrong.any():
        job = int(wrong.argmax())
        raise ValueError(f"{name}[{job}]={numbers[job]}: must be finite and not negative")
    return numbers
