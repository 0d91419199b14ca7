"""The content of an LRU cache shared by all jobs, as amounts.

An LRU cache holds what was read since some instant, the start of the window. Let a job have read
the fraction v of its epoch, and y epochs since that instant. Orders are random and independent, so
an item that it has yet to read in this epoch was read by the job itself in the window with
probability

    own = y - v, clipped to [0, 1],

and any item of the dataset was read by this job in the window with probability

    seen = y if y <= v, else 1 - (1 - v)(1 - own).

A read of job j misses with probability (1 - own_j) * product over the other jobs on its dataset of
(1 - seen). A dataset takes size * (1 - product over its jobs of (1 - seen)) of the cache. The sum
must not exceed the capacity, which determines the start of the window.
"""

from bisect import bisect_right
from dataclasses import dataclass
from math import ceil, inf, nextafter

from hivecore.reference.storage._numbers import total

STEP = 0.08  # of an epoch or of the window
LEAST_STEP = 0.02  # of an epoch; a shorter window brings no hits
CLOSE = 1e-9
TINY = 1e-300
ITERATIONS = 8


@dataclass
class Reader:
    dataset: int
    epoch: float
    unread: float
    read: float = 0.0  # in total
    rate: float = 0.0
    own: float = 0.0  # at the last evaluated instant
    seen: float = 0.0


class LruFluid:
    warming = 0.0

    def __init__(self, sizes: list[float], cache_of: list[int], capacity: float) -> None:
        self.sizes, self.capacity = sizes, capacity
        self.jobs = [Reader(cache, sizes[cache], sizes[cache]) for cache in cache_of]
        self.counted: list[Reader] = []  # running jobs, then those still in the window
        self.running: list[Reader] = []
        self.outside = [1.0] * len(sizes)  # the uncached fraction of each dataset
        self.times = [0.0]
        self.log = [[0.0] * len(cache_of)]  # what every job had read at each of these times
        self.begin = self.pace = self.now = 0.0
        # The cache is smaller than an item, so reads leave no trace.
        self.full = capacity <= CLOSE * max(sizes, default=0.0)
        self.alone, self.drifts = True, False

    def allocate(
        self, jobs: list[int], quota: list[float], reclaim: list[int], wanted: list[int],
        again: list[int],
    ) -> None:  # fmt: skip
        for job in again:
            self.jobs[job].unread = self.jobs[job].epoch
        before = self.log[self.row_of(self.begin)]
        self.running = [self.jobs[job] for job in jobs]
        past = [
            reader
            for job, reader in enumerate(self.jobs)
            if job not in jobs and reader.read > before[job]
        ]
        for reader in past:
            reader.rate = 0.0
        self.counted = self.running + past
        self.alone = len({reader.dataset for reader in self.counted}) == len(self.counted)
        self.outside = [1.0] * len(self.sizes)
        self.drifts = False

    def miss_ratios(self) -> list[float]:
        self.slide()
        return self.missed()

    def missed(self) -> list[float]:
        readers = []
        for reader in self.running:
            miss = 1.0 - reader.own
            if not self.alone:
                unseen = max(1.0 - reader.seen, TINY)
                miss *= min(self.outside[reader.dataset] / unseen, 1.0)
            readers.append(miss)
        return readers

    # --- the window ----------------------------------------------------------------------------

    def row_of(self, instant: float) -> int:
        """Return the row of the log just before an instant."""
        return max(bisect_right(self.times, instant) - 1, 0)

    def slide(self) -> None:
        """Move the start of the window so that the cache just holds what was read since."""
        row = self.row_of(self.begin)
        low, at_low = self.begin, self.over(self.begin, row)
        if at_low <= CLOSE * self.capacity:
            return
        self.full = True
        high, at_high = low, at_low
        while at_high > 0.0 and row + 1 < len(self.times):
            high = self.times[row + 1]
            at_high = self.over(high, row + 1)
            if at_high > 0.0:
                row, low, at_low = row + 1, high, at_high
        self.begin = low
        if at_high > 0.0:
            return
        # Between two rows all rates were constant, so few iterations suffice.
        for _ in range(ITERATIONS):
            part = (high - low) * at_low / max(at_low - at_high, TINY)
            # Rounding may overshoot; a late instant is a step of the clock.
            self.begin = min(max(low + part, nextafter(low, high)), high)
            value = self.over(self.begin, row)
            if abs(value) <= CLOSE * self.capacity:
                break
            if value > 0.0:
                low, at_low = self.begin, value
            else:
                high, at_high = self.begin, value

    def over(self, begin: float, row: int) -> float:
        """Return by how much what was read since an instant exceeds the capacity."""
        self.look(begin, row, 0.0)
        return self.held() - self.capacity

    def held(self) -> float:
        return total(self.cached_now())

    def cached_now(self) -> list[float]:
        return [
            size * (1.0 - outside) for size, outside in zip(self.sizes, self.outside, strict=True)
        ]

    def look(self, begin: float, row: int, ahead: float) -> None:
        """Set what was read since an instant, as it will be ``ahead`` seconds from now."""
        first = second = self.log[row]
        part = 0.0
        if row + 1 < len(self.times) and begin > self.times[row]:
            second = self.log[row + 1]
            part = (begin - self.times[row]) / (self.times[row + 1] - self.times[row])
        before = {
            id(reader): first[job] + part * (second[job] - first[job])
            for job, reader in enumerate(self.jobs)
        }
        self.outside = [1.0] * len(self.sizes)
        for reader in self.counted:
            moved = ahead * reader.rate
            since = (reader.read + moved - before[id(reader)]) / reader.epoch
            read = 1.0 - max(reader.unread - moved, 0.0) / reader.epoch
            reader.own = min(max(since - read, 0.0), 1.0)
            reader.seen = since if since <= read else 1.0 - (1.0 - read) * (1.0 - reader.own)
            self.outside[reader.dataset] *= max(1.0 - reader.seen, 0.0)

    # --- between events ------------------------------------------------------------------------

    def plan(self, rates: list[float], misses: list[float], spare: float) -> float:
        """Set these rates until `advance`; return the seconds until they change."""
        step = moving = least = inf
        brought = 0.0
        for reader, rate, miss in zip(self.running, rates, misses, strict=True):
            reader.rate = rate
            brought += rate * miss
            least = min(least, reader.epoch / max(rate, CLOSE))
            if rate > 0.0:
                step = min(step, reader.unread / rate)
                if CLOSE < miss < 1.0 - CLOSE:
                    moving = min(moving, reader.epoch / rate)
        self.drifts = bool(self.running) and (self.full or not self.alone)
        if self.drifts:
            step = min(step, STEP * moving)
            if self.full:
                step = min(step, max(STEP * (self.now - self.begin), LEAST_STEP * least))
        elif brought > 0.0:
            # Slightly more, so that the cache is recognised as full then.
            room = max(self.capacity - self.held(), 0.0)
            step = min(step, (room + 3.0 * CLOSE * self.capacity) / brought)
        return step

    def middle(self, step: float) -> list[float]:
        """Return the miss ratios in the middle of a step."""
        begin = min(self.begin + 0.5 * step * self.pace, self.now)
        self.look(begin, self.row_of(begin), 0.5 * step)
        return self.missed()

    def advance(self, step: float) -> None:
        for reader in self.running:
            reader.unread -= reader.rate * step
            if reader.unread <= CLOSE * reader.epoch:
                again = ceil((2.0 * CLOSE * reader.epoch - reader.unread) / reader.epoch)
                reader.unread += reader.epoch * again
            reader.read += reader.rate * step
        self.now += step
        if self.now == self.times[-1]:
            del self.times[-1], self.log[-1]
        self.times.append(self.now)
        self.log.append([reader.read for reader in self.jobs])
        before = self.begin
        self.slide()
        if step > 0.0:
            self.pace = (self.begin - before) / step
        row = self.row_of(self.begin)
        del self.times[:row], self.log[:row]

    def cached(self) -> list[float]:
        self.slide()
        return self.cached_now()
