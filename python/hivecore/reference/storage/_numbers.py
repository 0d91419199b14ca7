"""What all twins of the storage kernel share: the share of misses, and sums from left to right."""

from collections.abc import Iterable, Sequence

FULL = 1e-12
GPU_SLACK = 1e-10  # 0.9 and 0.1 GPUs fit into 1

Floats = Sequence[float]


def miss_share(cached: float, size: float) -> float:
    """1 - h: what share of the reads goes to the remote storage; below 1e-12 it is none."""
    share = 1.0 - cached / size
    return share if share >= FULL else 0.0


def rate_of(rate: float, remote_io: float, missed: float) -> float:
    return rate if missed == 0.0 else min(rate, remote_io / missed)


def total(amounts: Iterable[float]) -> float:
    """From left to right like the kernel; since Python 3.12 `sum` makes up for rounding."""
    result = 0.0
    for amount in amounts:
        result += amount
    return result


def per_dataset(amounts: Iterable[float], dataset: Sequence[int], count: int) -> list[float]:
    total = [0.0] * count
    for amount, d in zip(amounts, dataset, strict=True):
        total[d] += amount
    return total
