"""Shared by generators of single jobs: sizes, run times and submission times."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def check_sizes(jobs: int, gpus: int, load: float) -> None:
    """Raise a ValueError that names an impossible size."""
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs}")
    if gpus < 1:
        raise ValueError(f"gpus must be at least 1, not {gpus}")
    if not (np.isfinite(load) and load > 0):
        raise ValueError(f"load must be finite and positive, not {load}")


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
