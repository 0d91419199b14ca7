"""Shared by the twins of the storage kernel: the fraction of misses, and sums from the left."""

from collections.abc import Iterable, Sequence

FULL = 1e-12
GPU_SLACK = 1e-10  # 0.9 and 0.1 GPUs fit into 1

Floats = Sequence[float]


def miss_share(cached: float, size: float) -> float:
    """Return 1 - h, the fraction of reads from remote storage; below 1e-12 it is 0."""
    share = 1.0 - cached / size
    return share if share >= FULL else 0.0


def rate_of(rate: float, remote_io: float, missed: float) -> float:
    return rate if missed == 0.0 else min(rate, remote_io / missed)


def total(amounts: Iterable[float]) -> float:
    """Return the sum from the left, like the kernel; `sum` compensates since Python 3.12."""
    result = 0.0
    for amount in amounts:
        result += amount
    return result


def per_dataset(amounts: Iterable[float], dataset: Sequence[int], count: int) -> list[float]:
    total = [0.0] * count
    for amount, d in zip(amounts, dataset, strict=True):
        total[d] += amount
    return total
