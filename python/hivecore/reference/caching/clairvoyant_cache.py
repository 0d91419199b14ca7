"""A cache shared by jobs whose shuffles are known.

It is Belady's MIN on the schedule that follows from the jobs' shuffles and rates: the item with the
farthest next use is evicted, or not admitted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from hivecore.reference.caching.epoch_shuffle import EpochShuffle

__all__ = ["ClairvoyantCache"]


@dataclass
class _Job:
    dataset: int
    shuffle: EpochShuffle
    rate: float
    base: float  # the time of use number base_use
    first_epoch: int
    epochs: float  # epochs that it reads
    uses: int = 0  # uses so far
    base_use: int = 0

    def time(self, use: int) -> float:
        return self.base + (use - self.base_use) / self.rate

    def next_use(self, item: int) -> float:
        """Return the time of the next use of an item."""
        epoch = self.uses // self.shuffle.items
        for number in (epoch, epoch + 1):
            position = self.shuffle.position(self.first_epoch + number, item)
            use = number * self.shuffle.items + position
            if use >= self.uses and number < self.epochs:
                return self.time(use)
        return inf


class ClairvoyantCache:
    """The readable twin of `hivecore.caching.ClairvoyantCache`."""

    def __init__(self, capacity: int, datasets: Sequence[int]) -> None:
        self.capacity = capacity
        self.datasets = tuple(datasets)
        self.cached: set[tuple[int, int]] = set()  # (dataset, item)
        self._jobs: dict[int, _Job] = {}

    @property
    def jobs(self) -> tuple[int, ...]:
        return tuple(self._jobs)

    def __len__(self) -> int:
        return len(self.cached)

    def attach(
        self,
        job: int,
        dataset: int,
        shuffle: int,
        rate: float,
        start: float = 0.0,
        first_epoch: int = 0,
        epochs: int | None = None,
    ) -> None:
        if job in self._jobs:
            raise KeyError(f"job={job}: attached already")
        order = EpochShuffle(shuffle, self.datasets[dataset])
        many = inf if epochs is None else epochs
        self._jobs[job] = _Job(dataset, order, rate, start, first_epoch, many)

    def detach(self, job: int) -> None:
        del self._jobs[job]

    def set_rate(self, job: int, rate: float, now: float | None = None) -> None:
        entry = self._jobs[job]
        entry.base = entry.time(entry.uses) if now is None else now
        entry.base_use = entry.uses
        entry.rate = rate

    def time(self, job: int) -> float:
        return self._jobs[job].time(self._jobs[job].uses)

    def uses(self, job: int) -> int:
        return self._jobs[job].uses

    def next_use(self, dataset: int, item: int) -> float:
        readers = [job for job in self._jobs.values() if job.dataset == dataset]
        return min((job.next_use(item) for job in readers), default=inf)

    def is_cached(self, dataset: int, item: int) -> bool:
        return (dataset, item) in self.cached

    def access(self, job: int, count: int = 1) -> list[bool]:
        entry = self._jobs[job]
        items = entry.shuffle.items
        if entry.uses + count > entry.epochs * items:
            raise ValueError(f"count={count}: too many")
        hits = []
        for _ in range(count):
            epoch, position = divmod(entry.uses, items)
            item = entry.shuffle.item(entry.first_epoch + epoch, position)
            entry.uses += 1
            hits.append((entry.dataset, item) in self.cached)
            self.cached.add((entry.dataset, item))
            if len(self.cached) > self.capacity:
                self.cached.remove(self.farthest())
        return hits

    def farthest(self) -> tuple[int, int]:
        """Return the item with the farthest next use; ties: the lowest."""
        return min(self.cached, key=lambda entry: (-self.next_use(*entry), entry))
