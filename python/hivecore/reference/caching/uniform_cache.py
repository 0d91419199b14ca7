"""The uniform cache (SiloD, EuroSys'23).

Each dataset has a quota. A miss is admitted if the item fits into it, and evicts nothing. Only a
shrinking quota evicts: random items that are not pinned.

A job reads each item once per epoch. `unread` are the items that it has not read in this epoch,
which ends when none is left. `effective` are the items that can still hit in this epoch: those
cached when it began, or warmed up while unread, and not evicted since.

    capacity 60, items of 10 bytes, quota 30      reads       cached       unread    effective
    epoch 0                                       3 0 1 2     3 0 1        -
    epoch 1 begins                                            3 0 1        0 1 2 3   30
                                                  2 (miss)    3 0 1        0 1 3     30
                                                  0 (hit)     3 0 1        1 3       30

A lazy shrink sets the quota and evicts nothing. When another dataset needs the room, random items
over the quota are evicted one at a time.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hivecore.errors import InvariantError
from hivecore.reference.caching._splitmix import SplitMix64

__all__ = ["UniformCache"]

_Ids = npt.NDArray[np.int64]
_COUNTERS = ("hits", "misses", "admitted", "warmed", "evicted")


def _ids(items: Iterable[int]) -> _Ids:
    return np.array(list(items), dtype=np.int64)


class _Dataset:
    def __init__(self, place: int, sizes: list[int], quota: int) -> None:
        self.place = place
        self.sizes = sizes
        self.quota = quota
        self.cached: set[int] = set()
        self.pins: set[int] = set()  # set by the user
        self.reported: set[int] = set()
        self.pool: list[int] = []  # items that a lazy shrink may evict; empty before its first draw
        self.jobs: dict[str, _Job] = {}
        self.last_use = 0
        self.counters = {f"{name}{end}": 0 for name in _COUNTERS for end in ("", "_bytes")}

    def bytes_of(self, items: Iterable[int]) -> int:
        return sum(self.sizes[item] for item in items)

    @property
    def used(self) -> int:
        return self.bytes_of(self.cached)

    def pinned(self) -> set[int]:
        return self.pins.union(*(job.until_read | job.until_end for job in self.jobs.values()))

    def count(self, what: str, item: int) -> None:
        self.counters[what] += 1
        self.counters[what + "_bytes"] += self.sizes[item]


class _Job:
    def __init__(self, dataset: _Dataset) -> None:
        self.dataset = dataset
        self.epoch = 0
        self.until_read: set[int] = set()  # pinned by warm-ups until read
        self.until_end: set[int] = set()
        self.begin_epoch()

    def begin_epoch(self) -> None:
        self.unread = set(range(len(self.dataset.sizes)))
        self.effective = set(self.dataset.cached)


class UniformCache:
    """The readable twin of `hivecore.caching.UniformCache`."""

    def __init__(self, capacity: int, seed: int = 0) -> None:
        self.capacity = capacity
        self._random = SplitMix64(seed)
        self._clock = 0  # items accessed or warmed so far
        self._datasets: dict[str, _Dataset] = {}
        self._jobs: dict[str, _Job] = {}

    # Datasets and jobs

    def add_dataset(
        self,
        name: str,
        items: int,
        item_size: int | None = None,
        *,
        sizes: Iterable[int] | None = None,
        quota: int = 0,
    ) -> None:
        each = [item_size or 0] * items if sizes is None else [int(size) for size in sizes]
        if name in self._datasets:
            raise ValueError(f"name={name!r}: there is a dataset of this name")
        if not 0 <= quota <= self.unassigned:
            raise ValueError(f"quota={quota}: allowed are 0 to {self.unassigned}")
        taken = {dataset.place for dataset in self._datasets.values()}
        place = min(set(range(len(taken) + 1)) - taken)
        self._datasets[name] = _Dataset(place, each, quota)

    def remove_dataset(self, dataset: str) -> None:
        data = self._dataset(dataset)
        if data.jobs or data.cached:
            raise ValueError(f"dataset={dataset!r}: has jobs or cached items")
        del self._datasets[dataset]

    def datasets(self) -> list[str]:
        return list(self._datasets)

    def jobs(self, dataset: str | None = None) -> list[str]:
        return list(self._jobs if dataset is None else self._dataset(dataset).jobs)

    def attach(self, job: str, dataset: str) -> None:
        if job in self._jobs:
            raise ValueError(f"job={job!r}: is attached already")
        data = self._dataset(dataset)
        self._jobs[job] = data.jobs[job] = _Job(data)

    def detach(self, job: str) -> None:
        dataset = self._job(job).dataset
        if self._jobs[job].until_read or self._jobs[job].until_end:
            dataset.pool = []
        del self._jobs[job], dataset.jobs[job]

    def start_epoch(self, job: str) -> int:
        reader = self._job(job)
        if len(reader.unread) < len(reader.dataset.sizes):
            self._end_epoch(reader)
        reader.begin_epoch()
        return reader.epoch

    def _end_epoch(self, job: _Job) -> None:
        if job.until_read:
            job.until_read = set()
            job.dataset.pool = []
        job.epoch += 1

    # Reads

    def access(self, dataset: str, items: Any, job: str | None = None, out: Any = None) -> int:
        data = self._dataset(dataset)
        reader = self._reader(job, data)
        if np.ndim(items) == 0:
            return self._access_one(data, reader, int(items))
        hits = 0
        for position, item in enumerate(map(int, items)):
            hit = self._access_one(data, reader, item)
            hits += hit
            if out is not None:
                out[position] = hit
        return hits

    def _access_one(self, dataset: _Dataset, job: _Job | None, item: int) -> bool:
        hit = item in dataset.cached
        self._clock += 1
        dataset.last_use = self._clock
        dataset.count("hits" if hit else "misses", item)
        if job is not None:
            job.unread.discard(item)
            if item in job.until_read:
                job.until_read.remove(item)
                dataset.pool = []
        if not hit and self._admit(dataset, item):
            dataset.count("admitted", item)
        if job is not None and not job.unread:
            self._end_epoch(job)
            job.begin_epoch()
        return hit

    def is_cached(self, dataset: str, items: Any) -> Any:
        data = self._dataset(dataset)
        if np.ndim(items) == 0:
            return int(items) in data.cached
        return np.array([int(item) in data.cached for item in items], dtype=bool)

    # Coming and going

    def _admit(self, dataset: _Dataset, item: int) -> bool:
        size = dataset.sizes[item]
        if dataset.used + size > dataset.quota:
            return False
        while self.used + size > self.capacity:
            victim = self._most_dispensable()
            if not victim.pool:
                victim.pool = sorted(victim.cached - victim.pinned())
            self._evict(victim, self._random.draw(victim.pool))
            if victim.used <= victim.quota:
                victim.pool = []
        dataset.cached.add(item)
        return True

    def _most_dispensable(self) -> _Dataset:
        """Return the dataset that should lose an item: idle ones first, then the most over its
        quota.
        """
        over = [d for d in self._datasets.values() if d.used > d.quota]
        idle = [d for d in over if not d.jobs]
        if idle:
            return min(idle, key=lambda d: (d.last_use, d.place))
        return min(over, key=lambda d: (d.quota - d.used, d.place))

    def _evict(self, dataset: _Dataset, item: int) -> None:
        dataset.cached.remove(item)
        dataset.pins.discard(item)
        for job in dataset.jobs.values():
            job.effective.discard(item)
            job.until_read.discard(item)
            job.until_end.discard(item)
        dataset.count("evicted", item)

    # Quotas

    def set_quota(
        self, dataset: str, quota: int, shrink: str = "random", force: bool = False
    ) -> _Ids:
        data = self._dataset(dataset)
        room = self.unassigned + data.quota
        if not 0 <= quota <= room:
            raise ValueError(f"quota={quota}: allowed are 0 to {room}")
        pinned = data.pinned()
        if quota < data.bytes_of(pinned) and (shrink == "lazy" or not force):
            raise ValueError(f"quota={quota}: {data.bytes_of(pinned)} bytes are pinned")
        data.quota = quota
        data.pool = []
        if shrink == "lazy":
            return _ids([])
        before = set(data.cached)
        unpinned = sorted(data.cached - pinned)
        unread: set[int] = set()
        if shrink == "read_first":
            unread = unread.union(*(job.unread for job in data.jobs.values()))
            self._evict_until_within(data, [item for item in unpinned if item not in unread])
            unpinned = [item for item in unpinned if item in unread]
        self._evict_until_within(data, unpinned)
        self._evict_until_within(data, sorted(pinned))
        return _ids(sorted(before - data.cached))

    def _evict_until_within(self, dataset: _Dataset, pool: list[int]) -> None:
        while dataset.used > dataset.quota and pool:
            self._evict(dataset, self._random.draw(pool))

    def unload(self, dataset: str, force: bool = False) -> _Ids:
        data = self._dataset(dataset)
        data.pool = []
        gone = sorted(data.cached if force else data.cached - data.pinned())
        for item in gone:
            self._evict(data, item)
        data.quota = data.used
        return _ids(gone)

    # Pins and warm-up

    def pin(self, dataset: str, items: Iterable[int]) -> _Ids:
        data = self._dataset(dataset)
        wanted = [int(item) for item in items]
        pinned = data.bytes_of(data.pinned().union(wanted))
        used = data.bytes_of(data.cached.union(wanted))
        if pinned > data.quota or data.used < used > data.quota:
            raise ValueError(f"items: {pinned} bytes pinned, {used} used, quota {data.quota}")
        admitted = []
        for item in wanted:
            if self._warm_one(data, item):
                admitted.append(item)
            if item not in data.pinned():
                data.pool = []
            data.pins.add(item)
        return _ids(admitted)

    def unpin(self, dataset: str, items: Iterable[int]) -> int:
        data = self._dataset(dataset)
        gone = data.pins.intersection(map(int, items))
        data.pins -= gone
        if gone:
            data.pool = []
        return len(gone)

    def warm(
        self,
        dataset: str,
        items: Iterable[int],
        job: str | None = None,
        pin_until: str | None = None,
    ) -> _Ids:
        data = self._dataset(dataset)
        wanted = [int(item) for item in items]
        holder = self._reader(job, data)
        admitted = []
        for item in wanted:
            if self._warm_one(data, item):
                admitted.append(item)
            if item not in data.cached or holder is None or pin_until is None:
                continue
            if pin_until == "first_epoch" and item not in holder.unread:
                continue
            if item not in data.pinned():
                if data.bytes_of(data.pinned()) + data.sizes[item] > data.quota:
                    continue
                data.pool = []
            (holder.until_read if pin_until == "first_epoch" else holder.until_end).add(item)
        self._clock += len(wanted)
        data.last_use = self._clock
        return _ids(admitted)

    def _warm_one(self, dataset: _Dataset, item: int) -> bool:
        """Admit an item ahead of its reads; it counts for jobs that have not read it."""
        if item in dataset.cached or not self._admit(dataset, item):
            return False
        dataset.count("warmed", item)
        for job in dataset.jobs.values():
            if item in job.unread:
                job.effective.add(item)
        return True

    # What is known

    @property
    def used(self) -> int:
        return sum(dataset.used for dataset in self._datasets.values())

    @property
    def unassigned(self) -> int:
        return self.capacity - sum(dataset.quota for dataset in self._datasets.values())

    def effective(self, job: str) -> int:
        return self._job(job).dataset.bytes_of(self._job(job).effective)

    def hit_ratio(self, job: str) -> float:
        reader = self._job(job)
        cached = reader.dataset.bytes_of(reader.unread & reader.dataset.cached)
        return cached / reader.dataset.bytes_of(reader.unread)

    def epoch(self, job: str) -> int:
        return self._job(job).epoch

    def unread(self, job: str) -> int:
        return len(self._job(job).unread)

    def cached(self, dataset: str) -> _Ids:
        return _ids(sorted(self._dataset(dataset).cached))

    def pinned_items(self, dataset: str) -> _Ids:
        return _ids(sorted(self._dataset(dataset).pinned()))

    def drain_changes(self, dataset: str) -> tuple[_Ids, _Ids]:
        data = self._dataset(dataset)
        before, data.reported = data.reported, set(data.cached)
        return _ids(sorted(data.cached - before)), _ids(sorted(before - data.cached))

    def statistics(self, dataset: str) -> dict[str, int]:
        data = self._dataset(dataset)
        counted = data.counters
        return {
            "items": len(data.sizes),
            "total_bytes": sum(data.sizes),
            "quota": data.quota,
            "used": data.used,
            "pinned": data.bytes_of(data.pinned()),
            "cached_items": len(data.cached),
            "jobs": len(data.jobs),
            **{name: counted[name] for name in ("hits", "misses")},
            "hit_bytes": counted["hits_bytes"],
            "miss_bytes": counted["misses_bytes"],
            **{name: counted[name] for name in ("admitted", "admitted_bytes")},
            **{name: counted[name] for name in ("warmed", "warmed_bytes")},
            **{name: counted[name] for name in ("evicted", "evicted_bytes")},
            "served_bytes": counted["hits_bytes"],
            "fetched_bytes": counted["misses_bytes"] + counted["warmed_bytes"],
        }

    def charges(self, dataset: str, rates: Mapping[str, float]) -> dict[str, float]:
        data = self._dataset(dataset)
        total = 0.0
        for name in data.jobs:
            total += rates[name]  # from left to right; `sum` rounds differently since Python 3.12
        if total == 0:
            return dict.fromkeys(data.jobs, data.used / max(len(data.jobs), 1))
        return {name: data.used * (rates[name] / total) for name in data.jobs}

    def check(self) -> None:
        """Check the relations between sets; sums are not stored here."""
        if self.used > self.capacity or self.unassigned < 0:
            raise InvariantError("more is used or assigned than the capacity")
        for name, dataset in self._datasets.items():
            pinned = dataset.pinned()
            if not pinned <= dataset.cached or dataset.bytes_of(pinned) > dataset.quota:
                raise InvariantError(f"dataset {name!r}: pins are not cached or exceed the quota")
            if dataset.pool and set(dataset.pool) != dataset.cached - pinned:
                raise InvariantError(f"dataset {name!r}: the pool is not what may be evicted")
            for job in dataset.jobs.values():
                if not job.unread or not job.effective <= dataset.cached:
                    raise InvariantError(f"dataset {name!r}: a job's sets are inconsistent")
                if not job.until_read <= job.unread:
                    raise InvariantError(f"dataset {name!r}: a read item is held for its read")

    def _dataset(self, name: str) -> _Dataset:
        if name not in self._datasets:
            raise KeyError(f"dataset={name!r}: there is no dataset of this name")
        return self._datasets[name]

    def _job(self, name: str) -> _Job:
        if name not in self._jobs:
            raise KeyError(f"job={name!r}: no job of this name is attached")
        return self._jobs[name]

    def _reader(self, name: str | None, dataset: _Dataset) -> _Job | None:
        if name is None:
            return None
        job = self._job(name)
        if job.dataset is not dataset:
            raise ValueError(f"job={name!r}: attached to another dataset")
        return job
