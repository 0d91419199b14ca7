"""The uniform cache and mapping against NumPy, plain Python, functools and cachetools.

    python bench/bench_caching_uniform.py [--smoke] [--out DIR]

batches   epochs of shuffled ids in one batch each, by a cache of a quarter of the dataset. "NumPy
          bitmap" is `count_nonzero(bitmap[ids])` on a warm bool array: it keeps no quota, no bytes
          and no record of the jobs' reads. "job" is UniformCache with the unread items of a job;
          "mask" also tells which reads hit
singles   one call per read: shuffled epochs of a small dataset, through Python, the loop included.
          A hit is looked up, a miss is stored if it fits.
lookups   the hits alone, of few keys: the call, not the processor's caches
memory    bytes per item of a full cache

All contenders take turns in the same process and must give the same answers. Times are CPU time
with warm ids, the least of several rounds.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import cachetools
import numpy as np
from harness import command_line, cpu_seconds, report, save, take_turns

from hivecore.caching import UniformCache, UniformMapping

SIZE = 10
Figures = dict[str, float]


def uniform(items: int, kept: int, job: bool = True) -> UniformCache:
    """Return a cache with room for `kept` items, and a job."""
    cache = UniformCache(10 * SIZE * items)
    cache.add_dataset("d", items, SIZE, quota=SIZE * kept)
    if job:
        cache.attach("j", "d")
    return cache


class Turns:
    """Contenders that take turns reading the same epochs, and count their hits."""

    def __init__(self, epochs: Sequence[Any]) -> None:
        self.epochs = epochs
        self.contenders: dict[str, Callable[[], float]] = {}
        self.hits: dict[str, list[int]] = {}

    def add(self, name: str, read: Callable[[Any], int]) -> None:
        hits = self.hits[name] = []

        def round_of_one() -> float:
            epoch = self.epochs[len(hits) % len(self.epochs)]
            answer: list[int] = []
            if isinstance(epoch, np.ndarray):
                epoch.sum()  # load the epoch into the processor's caches for the first contender
            seconds = cpu_seconds(lambda: answer.append(read(epoch)))
            hits.append(int(answer[0]))
            return 1e9 * seconds / len(epoch)

        self.contenders[name] = round_of_one

    def run(self, rounds: int) -> Figures:
        figures = take_turns(self.contenders, rounds)
        answers = list(self.hits.values())
        assert all(answer == answers[0] for answer in answers), self.hits
        return figures


def batches(items: int, rounds: int) -> Figures:
    rng = np.random.default_rng(0)
    turns = Turns([rng.permutation(items) for _ in range(3)])
    kept, warm = items // 4, rng.permutation(items)
    caches = {"job": uniform(items, kept), "job, mask": uniform(items, kept)}
    for cache in caches.values():
        cache.access("d", warm, "j")
    job, masked = (cache.access for cache in caches.values())
    mask, bitmap = np.empty(items, dtype=bool), np.zeros(items, dtype=bool)
    bitmap[warm[:kept]] = True
    turns.add("NumPy bitmap", lambda ids: int(np.count_nonzero(bitmap[ids])))
    turns.add("job", lambda ids: job("d", ids, "j"))
    turns.add("job, mask", lambda ids: masked("d", ids, "j", mask))
    figures = turns.run(rounds)
    assert all(hits == [kept] * rounds for hits in turns.hits.values())
    for name, cache in caches.items():
        cache.check()
        figures[f"NumPy bitmap / {name}"] = figures["NumPy bitmap"] / figures[name]
    return figures


def through(cache: Any) -> Callable[[Any], int]:
    """Read through a mapping as a cache is used: look up, and store a missing item."""

    def read(ids: Any) -> int:
        hits = 0
        get = cache.get
        for key in ids:
            if get(key) is None:
                cache[key] = key
            else:
                hits += 1
        return hits

    return read


def lru_cache(kept: int) -> Callable[[Any], int]:
    cached = functools.lru_cache(maxsize=kept)(int)  # the cheapest function to call on a miss

    def read(ids: Any) -> int:
        before = cached.cache_info().hits
        for key in ids:
            cached(key)
        return cached.cache_info().hits - before

    return read


def one_by_one(cache: UniformCache) -> Callable[[Any], int]:
    access = cache.access

    def read(ids: Any) -> int:
        hits = 0
        for key in ids:
            if access("d", key, "j"):
                hits += 1
        return hits

    return read


def singles(items: int, rounds: int) -> Figures:
    rng = np.random.default_rng(2)
    epochs = [rng.permutation(items).tolist() for _ in range(3)]
    kept = items // 4
    same, others = Turns(epochs), Turns(epochs)
    same.add("UniformCache, job", one_by_one(uniform(items, kept)))
    same.add("UniformMapping", through(UniformMapping(kept)))
    others.add("functools.lru_cache", lru_cache(kept))
    others.add("cachetools.LRUCache", through(cachetools.LRUCache(kept)))
    figures = take_turns(same.contenders | others.contenders, rounds)
    ours, mapping = same.hits.values()
    assert ours == mapping
    assert ours[1:] == [kept] * (rounds - 1)
    # Both LRU caches agree; on whole epochs they have no more hits than the uniform cache.
    lru, other = others.hits.values()
    assert lru == other
    assert sum(lru) <= sum(ours)
    return figures | compared(figures)


def compared(figures: Figures) -> Figures:
    """Return each peer's time divided by ours."""
    return {
        f"{peer} / {own}": figures[peer] / figures[own]
        for own in ("UniformCache, job", "UniformMapping")
        for peer in ("functools.lru_cache", "cachetools.LRUCache")
    }


def lookups(items: int, rounds: int) -> Figures:
    """Time reads of items that are all cached."""
    rng = np.random.default_rng(3)
    epochs = [rng.integers(0, items, 20 * items).tolist() for _ in range(3)]
    turns = Turns(epochs)
    cache = uniform(items, items)
    cache.access("d", np.arange(items), "j")
    mapping, lru = UniformMapping(items), cachetools.LRUCache(items)
    cached = functools.lru_cache(maxsize=items)(int)
    for key in range(items):
        mapping[key] = lru[key] = cached(key)

    def subscripts(store: Any) -> Callable[[Any], int]:
        def read(ids: Any) -> int:
            for key in ids:
                store[key]
            return len(ids)

        return read

    def calls(ids: Any) -> int:
        for key in ids:
            cached(key)
        return len(ids)

    def accesses(ids: Any) -> int:
        access = cache.access
        for key in ids:
            access("d", key, "j")
        return len(ids)

    turns.add("UniformCache, job", accesses)
    turns.add("UniformMapping", subscripts(mapping))
    turns.add("functools.lru_cache", calls)
    turns.add("cachetools.LRUCache", subscripts(lru))
    figures = turns.run(rounds)
    assert cache.statistics("d")["misses"] == items
    return figures | compared(figures)


def memory(items: int) -> Figures:
    figures = {"NumPy bitmap": np.zeros(items, dtype=bool).nbytes / items}
    for name, job in (("UniformCache, no job", False), ("UniformCache, job", True)):
        cache = uniform(items, items, job)
        cache.access("d", np.arange(items))
        figures[name] = sys.getsizeof(cache) / items
    assert figures["UniformCache, no job"] < 9 / 8 + 2000 / items
    return figures


def main() -> None:
    arguments = command_line(__doc__)
    smoke = arguments.smoke
    items, small, rounds = (20_000, 500, 3) if smoke else (1_000_000, 100_000, 30)
    few = 3 if smoke else 9
    save(
        arguments,
        "caching_uniform",
        [
            report(f"batches of {items:,} ids", "ns per read", batches(items, rounds)),
            report(f"singles of {small:,} ids", "ns per read", singles(small, few)),
            report(f"lookups of {small // 100:,} keys", "ns per read", lookups(small // 100, few)),
            report(f"memory, {small:,} items", "bytes per item", memory(small)),
        ],
    )


if __name__ == "__main__":
    main()
