"""Shortest remaining time first, with storage."""

import heapq
from collections.abc import Iterable, Sequence
from math import inf

from hivecore.reference.storage._numbers import GPU_SLACK, Floats, miss_share, rate_of


class ShortestFirst:
    """Repeatedly takes the job that would end first with what is left, and gives it all it needs.

    Resources only shrink, so an old key is never too large: only the smallest key must be
    recomputed before its job is taken.
    """

    def __init__(
        self, dataset: Sequence[int], rate: Floats, remaining: Floats, size: Floats,
        cache: float, bandwidth: float,
    ) -> None:  # fmt: skip
        self.dataset, self.rate, self.remaining, self.size = dataset, rate, remaining, size
        self.cache = [0.0] * len(size)
        self.cache_left, self.io_left = cache, bandwidth

    def key(self, j: int) -> float:
        """Return the remaining seconds of the job, divided by 1000."""
        d = self.dataset[j]
        cached = min(self.size[d], self.cache[d] + self.cache_left)
        speed = rate_of(self.rate[j], self.io_left, miss_share(cached, self.size[d]))
        if self.remaining[j] == 0.0:
            return 0.0
        return self.remaining[j] / speed if speed > 0.0 else inf

    def take(self, j: int) -> None:
        d = self.dataset[j]
        need = self.size[d] - self.cache[d]
        if need <= self.cache_left:
            self.cache_left -= need
            self.cache[d] = self.size[d]
        else:
            self.cache[d] += self.cache_left
            self.cache_left = 0.0
        io = min(self.rate[j] * miss_share(self.cache[d], self.size[d]), self.io_left)
        self.io_left -= io

    def run(self, running: list[bool], gpus: Floats, gpu_capacity: float) -> list[int]:
        """Return the order in which jobs were taken; those without free GPUs stop running."""
        heap = [(self.key(j), j) for j in range(len(running)) if running[j]]
        heapq.heapify(heap)
        order, slack = [], GPU_SLACK * gpu_capacity
        while heap:
            old, j = heap[0]
            key = self.key(j)
            if key > old:
                heapq.heapreplace(heap, (key, j))
                continue
            heapq.heappop(heap)
            if gpus[j] > gpu_capacity + slack:
                running[j] = False
                continue
            gpu_capacity -= gpus[j]
            self.take(j)
            order.append(j)
        return order


def pace(
    cache: Floats, order: Iterable[int], dataset: Sequence[int], rate: Floats, remaining: Floats,
    size: Floats, bandwidth: float,
) -> float:  # fmt: skip
    """Return the sum of rate / remaining over all jobs, with remote IO in policy order."""
    left, result = bandwidth, 0.0
    for j in order:
        missed = miss_share(cache[dataset[j]], size[dataset[j]])
        granted = min(rate[j] * missed, left)
        left -= granted
        if remaining[j] > 0.0:
            result += rate_of(rate[j], granted, missed) / remaining[j]
    return result
