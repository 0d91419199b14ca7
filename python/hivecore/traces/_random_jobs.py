"""Shared by generators of single jobs: sizes, run times and submission times."""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore._arguments import MOST_SEED, as_float, as_int

Floats = npt.NDArray[np.float64]

MOST_GPUS = 2**31 - 1


def as_sizes(jobs: Any, load: Any, seed: Any) -> tuple[int, float, int]:
    """The same, or a ValueError or TypeError that names what is impossible."""
    return (
        as_int(jobs, "jobs", 1, MOST_GPUS),
        as_factor(load, "load"),
        as_int(seed, "seed", 0, MOST_SEED),
    )


def as_factor(value: Any, name: str) -> float:
    """The number, which has to be finite and positive."""
    number = as_float(value, name)
    if not 0 < number < inf:
        raise ValueError(f"{name} must be finite and positive, not {value}")
    return number


def as_share(value: Any, name: str) -> float:
    """The number from 0 to 1."""
    number = as_float(value, name)
    if not 0 <= number <= 1:
        raise ValueError(f"{name} must be between 0 and 1, not {value}")
    return number


def draw_gpus(
    rng: np.random.Generator, jobs: int, gpus: int, sizes: Sequence[int], shares: Sequence[float]
) -> npt.NDArray[np.int64]:
    """Return the GPUs of each job, from the sizes that fit, with their shares."""
    fitting = sum(size <= gpus for size in sizes)
    share = np.array(shares[:fitting]) / sum(shares[:fitting])
    return np.array(sizes, dtype=np.int64)[rng.choice(fitting, size=jobs, p=share)]


def draw_seconds(
    rng: np.random.Generator, jobs: int, median: float, deviation: float, longest: float
) -> Floats:
    """Return log-normal run times, at most `longest` medians."""
    factor = np.exp(deviation * rng.standard_normal(jobs))
    return median * np.minimum(factor, longest)


def draw_submissions(
    rng: np.random.Generator, gpu_seconds: float, jobs: int, rate: float
) -> Floats:
    """Return Poisson arrivals such that the total GPU time is `rate` times the last submission."""
    submit = np.cumsum(rng.exponential(1.0, jobs))
    submit *= gpu_seconds / (rate * submit[-1])
    return submit
