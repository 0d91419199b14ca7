"""The content of uniform caches, as amounts: SiloD's delayed effectiveness as a fluid.

A running job is described by `unread`, what it has yet to read in its epoch, and `missing`, how
much of that is not cached; its miss ratio is missing / unread.

- The job's own reads reduce both in proportion. What it admits is read again in the next epoch.
- What other jobs admit is any uncached item, which this job has yet to read with probability
  missing / uncached. So it profits at once.
- What is evicted at random was unread with probability (unread - missing) / cached. Evictions with
  "read_first" take what all jobs have read in their epochs first.
"""

from dataclasses import dataclass
from math import ceil, inf

from hivecore.reference.storage._numbers import total

NOTHING = 1e-9  # of a dataset: rounding
FULL = 1e-5  # of a dataset: what a cache may lack of its quota, since ratios are kept for a while
STEP = 0.05  # of a miss ratio per event, where it changes by itself
LEAST_RATIO = 0.05  # below, changes are relative to this
LEAST_POOL = 2e-3  # of a cache; if all jobs have read less of it, it is evicted as it comes
LEAST_STEP = 1e-6  # of an epoch


@dataclass
class Cache:
    """A cache that holds something, may do so, or is read."""

    size: float
    held: float = 0.0
    quota: float = 0.0
    fill: float = 0.0  # rate at which it fills
    uncached: float = 0.0  # now, or in the middle of the step
    readers: int = 0

    def has_room(self) -> bool:
        return self.quota - self.held > NOTHING * self.size


@dataclass
class Reader:
    """A job and its position in its epoch."""

    cache: Cache
    unread: float
    missing: float = -1.0  # before its first run
    cached_then: float = 0.0  # in its cache when it last ran
    rate: float = 0.0
    own: float = 0.0  # the uncached part of its rate
    gain: float = 0.0  # change of `missing` by others, per second
    middle: tuple[float, float] = (0.0, 0.0)  # unread and missing in the middle of a step

    def hit_share(self, held: float) -> float:
        """Return the fraction of the cache that the job has yet to read."""
        return min((self.unread - self.missing) / held, 1.0)


class UniformFluid:
    def __init__(
        self, sizes: list[float], cache_of: list[int], capacity: float,
        read_first: bool, lazy: bool, private: bool,
    ) -> None:  # fmt: skip
        self.capacity = capacity
        self.read_first, self.lazy, self.private = read_first, lazy, private
        self.caches = [Cache(size) for size in sizes]
        self.jobs = [Reader(self.caches[cache], sizes[cache]) for cache in cache_of]
        self.running: list[Reader] = []
        self.reclaim: list[Cache] = []
        self.wanted: list[Cache] = []
        self.victim: Cache | None = None
        self.evicted = self.warming = 0.0
        self.halved = self.moves = self.drifts = False

    # --- decisions -----------------------------------------------------------------------------

    def allocate(
        self, jobs: list[int], quota: list[float], reclaim: list[int], wanted: list[int],
        again: list[int],
    ) -> None:  # fmt: skip
        for reader in self.running:
            reader.cached_then = reader.cache.held
        for job in again:
            self.jobs[job].unread, self.jobs[job].missing = self.jobs[job].cache.size, -1.0
        self.running = [self.jobs[job] for job in jobs]
        for cache, amount in zip(self.caches, quota, strict=True):
            cache.quota = min(amount, cache.size)
            cache.readers = 0
        for reader in self.running:
            reader.cache.readers += 1
        for cache in self.caches:
            if self.private and not cache.readers:
                cache.held = 0.0
        for reader in self.running:
            self.resume(reader)
        self.reclaim = [self.caches[cache] for cache in reclaim]
        self.wanted = [self.caches[cache] for cache in wanted]
        self.victim, self.warming = None, 0.0
        self.halved = self.moves = self.drifts = False
        for cache in self.caches:
            if not self.lazy and cache.held > cache.quota:
                self.evict(cache, cache.held - cache.quota)

    def resume(self, reader: Reader) -> None:
        """Update what a job finds in a cache that has changed since its last run."""
        size, held, then = reader.cache.size, reader.cache.held, reader.cached_then
        if reader.missing < 0.0:
            reader.missing = reader.unread - held
        elif held > then:
            reader.missing *= (size - held) / (size - then) if size > then else 1.0
        elif held < then:
            reader.missing = reader.unread - (reader.unread - reader.missing) * (held / then)
        reader.missing = max(0.0, min(reader.missing, reader.unread, size - held))

    def evict(self, cache: Cache, amount: float) -> None:
        """Evict an amount at once."""
        pool = self.read_by_all(cache) if cache.readers else 0.0
        spared, rest = min(pool, amount), cache.held - pool
        if amount > spared and rest > 0.0:
            share = (amount - spared) / rest
            for reader in self.readers(cache):
                reader.missing += share * (reader.unread - reader.missing)
        cache.held -= amount

    # --- between events ------------------------------------------------------------------------

    def miss_ratios(self) -> list[float]:
        self.halved = False
        return [reader.missing / reader.unread for reader in self.running]

    def plan(self, rates: list[float], misses: list[float], spare: float) -> float:
        """Set these rates until `advance`; return the seconds until they change."""
        for cache in self.caches:
            cache.fill = 0.0
        for reader, rate, miss in zip(self.running, rates, misses, strict=True):
            reader.rate, reader.own = rate, rate * miss
            reader.cache.fill += reader.own
        for cache in self.caches:
            if not cache.has_room():
                cache.fill = 0.0
        self.warming = 0.0
        if spare > 0.0:
            for cache in self.wanted:
                if cache.has_room():
                    cache.fill += spare
                    self.warming = spare
                    break
        filled = total(cache.fill for cache in self.caches)
        self.victim, self.evicted = None, 0.0
        if filled > 0.0 and self.capacity - self.held() <= NOTHING * self.capacity:
            self.victim, self.evicted = self.next_victim(), filled
            if self.victim is None:
                for cache in self.caches:
                    cache.fill = 0.0
                filled = self.warming = 0.0
        self.drifts = self.moves = False
        step = self.until_epoch_ends()
        if filled > 0.0:
            step = min(step, self.until_full(filled), self.drift(filled))
        return step

    def make_room(self) -> None:
        """Evict what is beyond the capacity: a cache that was set to its quota may be more than
        there is room for, by FULL of its dataset.
        """
        over = self.held() - self.capacity
        for cache in self.reclaim:
            given = min(over, cache.held - cache.quota)
            if given > 0.0:
                self.evict(cache, given)
                over -= given

    def held(self) -> float:
        return total(cache.held for cache in self.caches)

    def next_victim(self) -> Cache | None:
        for cache in self.reclaim:
            if cache.held - cache.quota > NOTHING * cache.size:
                return cache
        return None

    def until_epoch_ends(self) -> float:
        """Return the seconds to the first epoch end that changes a miss ratio."""
        first = inf
        for reader in self.running:
            cache, epoch = reader.cache, reader.cache.size
            settled = reader.missing * epoch - reader.unread * (cache.size - cache.held)
            changes = abs(settled) > NOTHING * epoch * epoch
            if (changes or cache.fill > 0.0 or cache is self.victim) and reader.rate > 0.0:
                first = min(first, reader.unread / reader.rate)
        return first

    def until_full(self, filled: float) -> float:
        step = inf
        for cache in self.caches:
            if cache.fill > 0.0:
                step = min(step, (cache.quota - cache.held) / cache.fill)
        if self.victim:
            return min(step, (self.victim.held - self.victim.quota) / filled)
        return min(step, (self.capacity - self.held()) / filled)

    def drift(self, filled: float) -> float:
        """Set how fast others change what jobs miss; return how long the ratios may be kept."""
        victim = self.victim if self.victim and self.victim.readers else None
        shared = any(reader.cache.readers > 1 for reader in self.running)
        if not shared and self.warming == 0.0 and victim is None:
            return inf
        if not self.halved:
            for cache in self.caches:
                cache.uncached = cache.size - cache.held
            for reader in self.running:
                reader.middle = reader.unread, reader.missing
        step, held, lost = inf, 0.0, 0.0
        if victim:
            held = max(victim.size - victim.uncached, NOTHING)
            pool = self.read_by_all(victim)
            if pool > LEAST_POOL * held:
                step = pool / filled
            else:
                lost = max(filled - self.fresh_reads(victim, held), 0.0)
        for reader in self.running:
            cache = reader.cache
            unread, missing = reader.middle
            others = max(cache.fill - reader.own, 0.0) if cache.fill > 0.0 else 0.0
            uncached = max(cache.uncached, NOTHING * cache.size)
            reader.gain = -others * min(missing / uncached, 1.0)
            if cache is victim and lost > 0.0:
                reader.gain += lost * (unread - missing) / held
            pace = abs(reader.gain)
            if pace > NOTHING * reader.rate:
                self.moves = True
                stands = STEP * max(reader.missing, LEAST_RATIO * reader.unread) / pace
                least = LEAST_STEP * cache.size / max(reader.rate, NOTHING)
                step = min(step, max(stands, least))
        self.drifts = self.moves
        return step

    def readers(self, cache: Cache) -> list[Reader]:
        return [reader for reader in self.running if reader.cache is cache]

    def read_by_all(self, cache: Cache) -> float:
        """Return how much of a cache all of its jobs have read, if that is evicted first."""
        if not self.read_first:
            return 0.0
        share = 1.0
        for reader in self.readers(cache):
            share *= 1.0 - reader.hit_share(cache.held)
        return cache.held * share

    def fresh_reads(self, cache: Cache, held: float) -> float:
        """Return the rate at which what a single job has yet to read becomes read by all."""
        if not self.read_first:
            return 0.0
        readers = self.readers(cache)
        everyone = 1.0
        for reader in readers:
            everyone *= 1.0 - reader.hit_share(held)
        return total(
            (reader.rate - reader.own) * (everyone / max(1.0 - reader.hit_share(held), NOTHING))
            for reader in readers
        )

    def middle(self, step: float) -> list[float]:
        """Return the miss ratios in the middle of a step."""
        half = 0.5 * step
        self.halved = True
        for cache in self.caches:
            held = cache.held + half * cache.fill
            if cache is self.victim:
                held -= half * self.evicted
            cache.uncached = cache.size - held
        for reader in self.running:
            change = (reader.gain if self.moves else 0.0) - reader.own
            unread = reader.unread - half * reader.rate
            missing = min(max(reader.missing + half * change, 0.0), unread)
            reader.middle = unread, missing
            if unread <= NOTHING * reader.cache.size:  # its next epochs are like this one
                reader.middle = reader.unread, reader.missing
        return [missing / unread for unread, missing in (reader.middle for reader in self.running)]

    def advance(self, step: float) -> None:
        for cache in self.caches:
            cache.held += cache.fill * step
            if cache is self.victim:
                cache.held -= self.evicted * step  # the effect on its jobs is in `gain`
            if abs(cache.quota - cache.held) <= FULL * cache.size:
                cache.held = cache.quota
        self.make_room()
        for reader in self.running:
            epoch, uncached = reader.cache.size, reader.cache.size - reader.cache.held
            reader.unread -= reader.rate * step
            reader.missing -= reader.own * step
            if self.moves:
                reader.missing += reader.gain * step
            if reader.unread <= NOTHING * epoch:
                reader.unread += epoch * ceil((2.0 * NOTHING * epoch - reader.unread) / epoch)
                reader.missing = reader.unread * uncached / epoch
            reader.missing = max(min(reader.missing, reader.unread, uncached), 0.0)

    def cached(self) -> list[float]:
        return [cache.held for cache in self.caches]
