"""Figures of several reports, each defined once."""

from collections.abc import Sequence
from math import nan

import numpy as np
import numpy.typing as npt

__all__ = ["fragmentation", "mean", "percentile", "useful_seconds"]

_Floats = npt.NDArray[np.float64]


def mean(values: Sequence[float] | _Floats) -> float:
    """Return the mean.

    :param values: in any order; NaN if there are none.
    """
    return float(np.mean(values)) if len(values) else nan


def percentile(values: Sequence[float] | _Floats, percent: float) -> float:
    """Return a percentile, interpolated linearly between the two nearest values.

    :param values: in any order; NaN if there are none.
    :param percent: 50 for the median.

    >>> percentile([30.0, 10.0], 50), percentile([0.0, 100.0], 99)
    (20.0, 99.0)
    """
    return float(np.percentile(values, percent)) if len(values) else nan


def useful_seconds(work: _Floats, start: _Floats, end: _Floats, until: float) -> float:
    """Return the work that jobs get done before an instant, each at a constant rate in its last
    run.

    :param work: float64[jobs], GPUs times seconds at full speed.
    :param start: float64[jobs], seconds, start of the completed run.
    :param end: float64[jobs], seconds.
    :param until: seconds.
    """
    span = np.maximum(end - start, 1e-9)  # a job may be shorter than the clock's resolution
    return float(work @ np.clip((until - start) / span, 0.0, 1.0))


def fragmentation(free: npt.NDArray[np.int64], stranded: npt.NDArray[np.int64]) -> float:
    """Return the fraction of free GPUs outside entirely free nodes, over all instants.

    :param free: int64[instants].
    :param stranded: int64[instants], free GPUs on partly used nodes.
    """
    total = int(free.sum())
    return int(stranded.sum()) / total if total else 0.0
