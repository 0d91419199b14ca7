"""The uniform cache and mapping against NumPy, plain Python, functools and cachetools.

    python bench/bench_caching_uniform.py [--smoke] [--out DIR]

batches   epochs of shuffled ids (int64 unless named) in one batch each, by a cache of a quarter of
          the dataset. "NumPy bitmap" is `count_nonzero(bitmap[ids])` on a warm bool array: it keeps
          no quota, no bytes and no record of the jobs' reads. "job" is UniformCache with the
          unread items of a job, "no job" without; "mask" also tells which reads hit; "sized" has
          an item size for each item. "filling" is the first epoch, from an empty cache.
loaders   the same in batches of 256 ids
singles   one call per read: shuffled epochs of a small dataset, through Python, the loop included;
          "net" is less the cost of an empty loop. A hit is looked up, a miss is stored if it fits.
lookups   the hits alone, of few keys: the call, not the processor's caches
memory    bytes per item of a full cache

All contenders take turns in the same process and must give the same answers. Times are CPU time
with warm ids, the least of several rounds.
"""

import functools
import sys
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import cachetools
import numpy as np
from harness import command_line, cpu_seconds, report, save, take_turns

from hivecore.caching import UniformCache, UniformMapping
from hivecore.reference.caching import UniformCache as Twin

SIZE = 10
Figures = dict[str, float]


def uniform(items: int, kept: int, job: bool = True, sizes: Any = None, kind: Any = None) -> Any:
    """Return a cache with room for `kept` items on average, and a job."""
    cache = (kind or UniformCache)(10 * SIZE * items)
    size = SIZE if sizes is None else None
    cache.add_dataset("d", items, size, sizes=sizes, quota=SIZE * kept)
    if job:
        cache.attach("j", "d")
    return cache


class Bitmap:
    """A typical NumPy solution, which only counts free places."""

    def __init__(self, items: int, kept: int) -> None:
        self.cached = np.zeros(items, dtype=bool)
        self.room = kept

    def fill(self, ids: Any) -> int:
        hit = self.cached[ids]
        admitted = ids[~hit][: self.room]
        self.cached[admitted] = True
        self.room -= len(admitted)
        return int(np.count_nonzero(hit))

    def count(self, ids: Any) -> int:
        return int(np.count_nonzero(self.cached[ids]))


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


def in_pieces(read: Callable[[Any], int], length: int) -> Callable[[Any], int]:
    def read_all(ids: Any) -> int:
        total = 0
        for begin in range(0, len(ids), length):
            total += read(ids[begin : begin + length])
        return total

    return read_all


def warm_caches(items: int, kept: int, ids: Any) -> dict[str, Any]:
    """Return caches after a first epoch in the order of `ids`, all with the same items."""
    caches = {
        "NumPy bitmap": Bitmap(items, kept),
        "job": uniform(items, kept),
        "no job": uniform(items, kept, job=False),
        "job, mask": uniform(items, kept),
        "job, sized": uniform(items, kept, sizes=np.full(items, SIZE)),
    }
    caches["NumPy bitmap"].fill(ids)
    for name, cache in caches.items():
        if name != "NumPy bitmap":
            cache.access("d", ids, None if name == "no job" else "j")
    return caches


def batches(items: int, rounds: int, length: int | None = None) -> Figures:
    rng = np.random.default_rng(0)
    epochs = [rng.permutation(items) for _ in range(3)]
    narrow = [epoch.astype(np.int32) for epoch in epochs]
    kept = items // 4
    caches = warm_caches(items, kept, rng.permutation(items))
    mask = np.empty(length or items, dtype=bool)
    turns = Turns(epochs)
    turns_32 = Turns(narrow)

    def pieces(read: Callable[[Any], int]) -> Callable[[Any], int]:
        return read if length is None else in_pieces(read, length)

    job, no_job = caches["job"].access, caches["no job"].access
    masked, sized = caches["job, mask"].access, caches["job, sized"].access
    bitmap = caches["NumPy bitmap"].count
    turns.add("NumPy bitmap", pieces(bitmap))
    turns.add("job", pieces(lambda ids: job("d", ids, "j")))
    turns.add("no job", pieces(lambda ids: no_job("d", ids)))
    turns.add("job, mask", pieces(lambda ids: masked("d", ids, "j", mask[: len(ids)])))
    turns.add("job, sized", pieces(lambda ids: sized("d", ids, "j")))
    turns_32.add("NumPy bitmap, int32", pieces(bitmap))
    turns_32.add("job, int32", pieces(lambda ids: job("d", ids, "j")))
    turns.contenders |= turns_32.contenders
    figures = turns.run(rounds)
    assert all(hits == [kept] * rounds for hits in [*turns.hits.values(), *turns_32.hits.values()])
    for cache in caches.values():
        if isinstance(cache, UniformCache):
            cache.check()
    for name in ("job", "no job", "job, mask"):
        figures[f"NumPy bitmap / {name}"] = figures["NumPy bitmap"] / figures[name]
    figures["both int32: NumPy bitmap / job"] = (
        figures["NumPy bitmap, int32"] / figures["job, int32"]
    )
    return figures


def filling(items: int, rounds: int) -> Figures:
    rng = np.random.default_rng(1)
    turns = Turns([rng.permutation(items) for _ in range(3)])
    spare: dict[str, Any] = {}

    def fresh(name: str, make: Callable[[], Any], read: Callable[[Any, Any], int]) -> None:
        """Give each round a new cache, created outside the measured time."""

        def prepared() -> float:
            spare[name] = make()
            return measure()

        turns.add(name, lambda ids: read(spare[name], ids))
        measure = turns.contenders[name]
        turns.contenders[name] = prepared

    for share, kept in (("a quarter", items // 4), ("all", items)):
        fresh(f"NumPy bitmap, {share}", lambda kept=kept: Bitmap(items, kept), Bitmap.fill)
        fresh(
            f"job, {share}",
            lambda kept=kept: uniform(items, kept),
            lambda cache, ids: cache.access("d", ids, "j"),
        )
    figures = turns.run(rounds)
    for share in ("a quarter", "all"):
        figures[f"NumPy bitmap / job, {share}"] = (
            figures[f"NumPy bitmap, {share}"] / figures[f"job, {share}"]
        )
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


def ordered_dict_lru(kept: int) -> Callable[[Any], int]:
    cache: OrderedDict[int, int] = OrderedDict()

    def read(ids: Any) -> int:
        hits = 0
        for key in ids:
            if key in cache:
                cache.move_to_end(key)
                hits += 1
            else:
                if len(cache) >= kept:
                    cache.popitem(last=False)
                cache[key] = key
        return hits

    return read


def bytearray_uniform(items: int, kept: int) -> Callable[[Any], int]:
    cached = bytearray(items)
    room = kept

    def read(ids: Any) -> int:
        nonlocal room
        hits = 0
        for key in ids:
            if cached[key]:
                hits += 1
            elif room:
                cached[key] = 1
                room -= 1
        return hits

    return read


def dict_uniform(kept: int) -> Callable[[Any], int]:
    cached: dict[int, int] = {}

    def read(ids: Any) -> int:
        hits = 0
        for key in ids:
            if key in cached:
                hits += 1
            elif len(cached) < kept:
                cached[key] = key
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


def one_by_one(cache: Any, job: str | None) -> Callable[[Any], int]:
    access = cache.access

    def read(ids: Any) -> int:
        hits = 0
        for key in ids:
            if access("d", key, job):
                hits += 1
        return hits

    return read


def empty_loop(ids: Any) -> int:
    hits = 0
    for key in ids:
        if key is None:
            hits += 1
    return hits


def singles(items: int, rounds: int) -> Figures:
    rng = np.random.default_rng(2)
    epochs = [rng.permutation(items).tolist() for _ in range(3)]
    kept = items // 4
    same, others, loop = Turns(epochs), Turns(epochs), Turns(epochs)
    caches = {job: uniform(items, kept, job=bool(job)) for job in ("j", None)}
    same.add("UniformCache, job", one_by_one(caches["j"], "j"))
    same.add("UniformCache, no job", one_by_one(caches[None], None))
    same.add("UniformMapping", through(UniformMapping(kept)))
    same.add("bytearray, uniform", bytearray_uniform(items, kept))
    same.add("dict, uniform", dict_uniform(kept))
    if items <= 2000:
        same.add("twin", one_by_one(uniform(items, kept, kind=Twin), "j"))
    others.add("functools.lru_cache", lru_cache(kept))
    others.add("OrderedDict, LRU", ordered_dict_lru(kept))
    others.add("cachetools.LRUCache", through(cachetools.LRUCache(kept)))
    others.add("cachetools.RRCache", through(cachetools.RRCache(kept)))
    others.add("cachetools.LFUCache", through(cachetools.LFUCache(kept)))
    loop.add("loop", empty_loop)
    figures = take_turns(same.contenders | others.contenders | loop.contenders, rounds)
    answers = list(same.hits.values())
    assert all(answer == answers[0] for answer in answers)
    assert answers[0][1:] == [kept] * (rounds - 1)
    # All LRU caches agree; on whole epochs no policy has more hits than the uniform cache.
    lru = [
        others.hits[n] for n in ("functools.lru_cache", "OrderedDict, LRU", "cachetools.LRUCache")
    ]
    assert lru[0] == lru[1] == lru[2]
    assert all(sum(hits) <= sum(answers[0]) for hits in others.hits.values())
    return figures | compared(figures, ["UniformCache, job", "UniformMapping"])


def compared(figures: Figures, ours: list[str]) -> Figures:
    """Return each peer's time divided by ours, gross and without the loop."""
    ratios = {}
    for own in ours:
        for peer in ("functools.lru_cache", "cachetools.LRUCache"):
            net = (figures[peer] - figures["loop"]) / (figures[own] - figures["loop"])
            ratios[f"{peer} / {own}"] = figures[peer] / figures[own]
            ratios[f"{peer} / {own}, net"] = net
    return ratios


def lookups(items: int, rounds: int) -> Figures:
    """Time reads of items that are all cached."""
    rng = np.random.default_rng(3)
    epochs = [rng.integers(0, items, 20 * items).tolist() for _ in range(3)]
    turns = Turns(epochs)
    cache = uniform(items, items)
    cache.access("d", np.arange(items), "j")
    mapping, lru = UniformMapping(items), cachetools.LRUCache(items)
    plain = {key: key for key in range(items)}
    mapping.update(plain)
    lru.update(plain)
    cached = functools.lru_cache(maxsize=items)(int)
    for key in range(items):
        cached(key)

    def subscripts(store: Any) -> Callable[[Any], int]:
        def read(ids: Any) -> int:
            for key in ids:
                store[key]
            return len(ids)

        return read

    def calls(function: Any) -> Callable[[Any], int]:
        def read(ids: Any) -> int:
            for key in ids:
                function(key)
            return len(ids)

        return read

    def accesses(ids: Any) -> int:
        access = cache.access
        for key in ids:
            access("d", key, "j")
        return len(ids)

    def passes(ids: Any) -> int:
        for _ in ids:
            pass
        return len(ids)

    turns.add("UniformCache, job", accesses)
    turns.add("UniformMapping", subscripts(mapping))
    turns.add("dict", subscripts(plain))
    turns.add("functools.lru_cache", calls(cached))
    turns.add("cachetools.LRUCache", subscripts(lru))
    turns.add("loop", passes)
    figures = turns.run(rounds)
    assert cache.statistics("d")["misses"] == items
    return figures | compared(figures, ["UniformCache, job", "UniformMapping"])


def traced(make: Callable[[], Any]) -> int:
    """Return the bytes that Python allocates for the result of `make`."""
    tracemalloc.start()
    try:
        kept = make()
        return tracemalloc.get_traced_memory()[0] if kept is not None else 0
    finally:
        tracemalloc.stop()


def memory(items: int) -> Figures:
    keys = list(range(items))

    def filled(cache: Any) -> Any:
        for key in keys:
            cache[key] = key
        return cache

    def lru() -> Any:
        cached = functools.lru_cache(maxsize=items)(int)
        for key in keys:
            cached(key)
        return cached

    def cache_with(job: bool, sizes: Any = None) -> int:
        cache = uniform(items, items, job, sizes)
        cache.access("d", np.arange(items))
        return sys.getsizeof(cache)

    totals = {
        "UniformCache, no job": cache_with(False),
        "UniformCache, job": cache_with(True),
        "UniformCache, sized, job": cache_with(True, np.full(items, SIZE)),
        "NumPy bitmap": np.zeros(items, dtype=bool).nbytes,
        "UniformMapping": sys.getsizeof(filled(UniformMapping(items))),
        "dict": traced(lambda: filled({})),
        "functools.lru_cache": traced(lru),
        "OrderedDict": traced(lambda: filled(OrderedDict())),
        "cachetools.LRUCache": traced(lambda: filled(cachetools.LRUCache(items))),
    }
    assert totals["UniformCache, no job"] < 9 / 8 * items + 2000
    return {name: total / items for name, total in totals.items()}


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
            report(f"filling with {items:,} ids", "ns per read", filling(items, rounds)),
            report(
                f"loaders of {items:,} ids in batches of 256",
                "ns per read",
                batches(items, few, 256),
            ),
            report(f"singles of {small:,} ids", "ns per read", singles(small, few)),
            report(f"lookups of {small // 100:,} keys", "ns per read", lookups(small // 100, few)),
            report(f"memory, {small:,} items", "bytes per item", memory(small)),
        ],
    )


if __name__ == "__main__":
    main()
