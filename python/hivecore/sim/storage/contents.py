"""What the uniform caches hold, as amounts: SiloD's delayed effectiveness as a fluid.

A cache belongs to a dataset, or to a job if caches are private. Of a job that runs, two amounts
say how it reads: `unread`, what it has yet to read in its epoch, and `missing`, how much of that is
not cached. Reads are uniform among what is unread, so the miss ratio is missing / unread.

- The job's own reads lower both in proportion: alone, its ratio stays as it was when the epoch
  began, though its misses fill the cache. What it admits now is read again in the next epoch.
- What others admit (jobs on the same dataset, or a warm-up) is any of the uncached items, each of
  which this job has yet to read with probability missing / uncached. So it profits at once.
- What is evicted at random was unread with probability (unread - missing) / cached. Evictions of
  "read_first" take what all jobs have read in their epochs before anything else.

Caches above their quota keep their contents until another one needs the room (lazy reclaim).
Between two events all rates are taken as constant. Where a ratio moves by itself,
because others admit or evict, the time to the next event is cut so that it moves by a few percent,
and the rates are those of the middle of the interval, which makes the error of second order.

Invariants: 0 <= missing <= min(unread, uncached); cached <= size; the caches together hold at most
the capacity.
"""

from math import inf

import numpy as np
import numpy.typing as npt

from hivecore.sim.storage.workload import Floats, Indices

__all__ = ["SHRINKS", "UniformContents"]

SHRINKS = ("random", "read_first")

_NOTHING = 1e-9  # of a dataset, rounding
_STEP = 0.05  # of a miss ratio per event, where it moves by itself
_LEAST_RATIO = 0.05  # below, changes count as if it were this
_LEAST_POOL = 2e-3  # of a cache; if less of it was read by all, it goes as fast as it comes
_LEAST_STEP = 1e-6  # of an epoch


class UniformContents:
    """The caches, and how far the running jobs are in their epochs.

    :param size: float64[caches], MB that a full cache would hold.
    :param cache_of: int64[jobs], the cache that each job reads through.
    :param capacity: MB of all caches together.
    :param shrink: what is evicted first, of `SHRINKS`.
    :param lazy: keep what is above a quota until the room is needed.
    :param private: drop the cache of a job that does not run.
    """

    def __init__(
        self,
        size: Floats,
        cache_of: Indices,
        capacity: float,
        shrink: str = "random",
        lazy: bool = True,
        private: bool = False,
    ) -> None:
        self.drifts, self.warming, self.fetched = False, 0.0, 0.0
        self.cached = np.zeros(len(size))
        self.last_use = np.zeros(len(size))
        self._size = size
        self._cache_of = cache_of
        self._capacity = capacity
        self._read_first = shrink == "read_first"
        self._lazy = lazy
        self._private = private
        self._unread = size[cache_of].copy()
        self._missing = np.full(len(cache_of), -1.0)
        self._cached_then = np.zeros(len(cache_of))
        self._running = np.empty(0, dtype=np.int64)
        self._half: tuple[Floats, Floats, Floats] | None = None
        nothing = np.empty(0, dtype=np.int64)
        self._gather(np.zeros(len(size)), nothing, nothing)

    # --- decisions -----------------------------------------------------------------------------

    def allocate(
        self, now: float, running: Indices, quota: Floats, reclaim: Indices, wanted: Indices
    ) -> None:
        """Take over what the scheduler decided.

        :param now: seconds.
        :param running: int64[running], the jobs that run from now on.
        :param quota: float64[caches], MB, together at most the capacity.
        :param reclaim: caches in the order in which they give up what they hold above quota.
        :param wanted: caches in the order in which they are warmed up.
        """
        self.settle(now)
        if self._private:
            stopped = np.ones(len(self.cached), dtype=bool)
            stopped[self._cache_of[running]] = False
            self.cached[stopped] = 0.0
        self._resume(running)
        self._running = running
        self._gather(quota, reclaim, wanted)
        if not self._lazy:
            for cache in np.flatnonzero(self._held > self._quota).tolist():
                self._evict(cache, float(self._held[cache] - self._quota[cache]))

    def settle(self, now: float) -> None:
        """Bring `cached` and `last_use` up to date.

        :param now: seconds.
        """
        running = self._running
        self._unread[running] = self.unread
        self._missing[running] = self.missing
        self.cached[self._live] = self._held
        cache = self._cache_of[running]
        self._cached_then[running] = self.cached[cache]
        self.last_use[cache] = now

    def _resume(self, running: Indices) -> None:
        """Bring up to date what waiting jobs would find in caches that have changed meanwhile."""
        cache = self._cache_of[running]
        held, size, then = self.cached[cache], self._size[cache], self._cached_then[running]
        unread, missing = self._unread[running], self._missing[running]
        with np.errstate(divide="ignore", invalid="ignore"):
            grown = missing * np.where(size > then, (size - held) / (size - then), 1.0)
            shrunk = unread - (unread - missing) * np.where(then > 0, held / then, 0.0)
        missing = np.where(held >= then, grown, shrunk)
        missing = np.where(self._missing[running] < 0, unread - held, missing)
        self._missing[running] = np.clip(missing, 0.0, np.minimum(unread, size - held))

    def _gather(self, quota: Floats, reclaim: Indices, wanted: Indices) -> None:
        """Copy the columns of the running jobs, and of the caches that matter, side by side."""
        running = self._running
        matters = (self.cached > 0) | (quota > 0)
        matters[self._cache_of[running]] = True
        self._live = np.flatnonzero(matters)
        place = np.empty(len(matters), dtype=np.int64)
        place[self._live] = np.arange(len(self._live))
        self._wanted: list[int] = place[wanted[matters[wanted]]].tolist()
        self._reclaim: list[int] = place[reclaim[matters[reclaim]]].tolist()
        self.unread = self._unread[running]
        self.missing = self._missing[running]
        self._epoch = self._size[self._cache_of[running]]
        self._in = place[self._cache_of[running]]
        self._readers = np.bincount(self._in, minlength=len(self._live))
        self._shared = bool((self._readers > 1).any())
        self._held = self.cached[self._live]
        self._whole = self._size[self._live]
        self._quota = quota[self._live]

    # --- between events ------------------------------------------------------------------------

    def leave(self, jobs: Indices) -> None:
        """Take note that jobs have ended: what they read stays.

        :param jobs: not used.
        """

    def miss_ratio(self) -> Floats:
        """Return float64[running], the share of what each job reads now that is not cached."""
        self._half = None
        ratio: Floats = self.missing / self.unread
        return ratio

    def plan(self, rate: Floats, full: Floats, miss: Floats, spare: float) -> float:
        """Take these rates until `advance`, and return the seconds after which they change.

        :param rate: float64[running], MB/s at which each job reads.
        :param full: not used.
        :param miss: float64[running], the share of the rate that is not cached: now, or in the
            middle of the step for which `middle` was asked just before.
        :param spare: MB/s of remote IO with which caches may be warmed up.
        """
        own = rate * miss
        room = self._quota - self._held
        fill: Floats = np.bincount(self._in, own, len(self._held)).astype(np.float64, copy=False)
        fill[room <= _NOTHING * self._whole] = 0.0
        self.warming = self._warm_up(fill, room, spare) if spare > 0 else 0.0
        victim = -1
        total = float(fill.sum())
        if total > 0 and self._capacity - self._held.sum() <= _NOTHING * self._capacity:
            victim = self._victim()
            if victim < 0:
                fill[:] = 0.0
                total = self.warming = 0.0
        self._rate, self._own, self._fill = rate, own, fill
        self._evicting = (victim, total if victim >= 0 else 0.0)
        self._gain: Floats | None = None
        self.drifts = False
        step = self._until_epoch_ends(rate, fill, victim)
        if total > 0:
            step = min(step, self._until_full(fill, room, total, victim))
            step = min(step, self._drift(victim, total))
        return step

    def _warm_up(self, fill: Floats, room: Floats, spare: float) -> float:
        """Let the first cache that a job wants, and that has room, fill with what is to spare."""
        for cache in self._wanted:
            if room[cache] > _NOTHING * self._whole[cache]:
                fill[cache] += spare
                return spare
        return 0.0

    def _victim(self) -> int:
        """Return the cache that gives up room next, -1 if there is none."""
        while self._reclaim:
            cache = self._reclaim[0]
            if self._held[cache] - self._quota[cache] > _NOTHING * self._whole[cache]:
                return cache
            del self._reclaim[0]
        return -1

    def _until_full(self, fill: Floats, room: Floats, total: float, victim: int) -> float:
        filling = fill > 0
        step = float((room[filling] / fill[filling]).min())
        if victim >= 0:
            return min(step, float(self._held[victim] - self._quota[victim]) / total)
        # Exactly at the capacity if the quotas leave no room: then the two times are one.
        return min(step, float(self._capacity - self._held.sum()) / total)

    def _drift(self, victim: int, total: float) -> float:
        """Note how fast others change what jobs miss; return how long the ratios may stand."""
        evicts = victim >= 0 and self._readers[victim] > 0
        if not (self._shared or self.warming or evicts):
            return inf
        if self._half:
            unread, missing, uncached = self._half
        else:
            unread, missing, uncached = self.unread, self.missing, self._whole - self._held
        left_out = uncached
        uncached = np.maximum(uncached, _NOTHING * self._whole)[self._in]
        open_ = self._fill[self._in]
        others = np.where(open_ > 0, np.maximum(open_ - self._own, 0.0), 0.0)
        gain = -others * np.minimum(missing / uncached, 1.0)
        step = inf
        if evicts:
            here = self._in == victim
            held = max(float((self._whole - left_out)[victim]), _NOTHING)
            pool = self._read_by_all(victim)
            if pool > _LEAST_POOL * held:
                step = pool / total
            else:
                lost = max(total - self._read_anew(here, held), 0.0)
                gain[here] += lost * (unread[here] - missing[here]) / held
        moving = np.abs(gain) > _NOTHING * self._rate
        if not moving.any():
            return step
        self.drifts = True
        self._gain = gain
        stands = _STEP * np.maximum(self.missing, _LEAST_RATIO * self.unread)[moving]
        least = _LEAST_STEP * self._epoch[moving] / np.maximum(self._rate[moving], _NOTHING)
        return min(step, float(np.maximum(stands / np.abs(gain[moving]), least).min()))

    def _read_by_all(self, cache: int) -> float:
        """Return how much of a cache all of its jobs have read, if that is what goes first."""
        if not self._read_first:
            return 0.0
        here, held = self._in == cache, float(self._held[cache])
        unread = (self.unread[here] - self.missing[here]) / held
        return held * float(np.prod(1.0 - np.minimum(unread, 1.0)))

    def _read_anew(self, here: npt.NDArray[np.bool_], held: float) -> float:
        """Return the MB/s at which what one job has yet to read becomes what all have read."""
        if not self._read_first:
            return 0.0
        hits = self._rate[here] - self._own[here]
        read = 1.0 - np.minimum((self.unread[here] - self.missing[here]) / held, 1.0)
        others = np.prod(read) / np.maximum(read, _NOTHING)
        return float(hits @ others)

    def _until_epoch_ends(self, rate: Floats, fill: Floats, victim: int) -> float:
        """Return the seconds to the first end of an epoch that changes a miss ratio."""
        uncached = self._whole - self._held
        settled = self.missing * self._epoch - self.unread * uncached[self._in]
        changes = np.abs(settled) > _NOTHING * self._epoch * self._epoch
        changes |= fill[self._in] > 0
        if victim >= 0:
            changes |= self._in == victim
        changes &= rate > 0
        if not changes.any():
            return inf
        return float((self.unread[changes] / rate[changes]).min())

    def middle(self, step: float) -> Floats:
        """Return float64[running], the miss ratios when half of a step is over."""
        change = -self._own if self._gain is None else self._gain - self._own
        unread = np.maximum(self.unread - 0.5 * step * self._rate, _NOTHING * self._epoch)
        missing = np.minimum(np.maximum(self.missing + 0.5 * step * change, 0.0), unread)
        held = self._held + 0.5 * step * self._fill
        victim, total = self._evicting
        if victim >= 0:
            held[victim] -= 0.5 * step * total
        self._half = unread, missing, self._whole - held
        ratio: Floats = missing / unread
        return ratio

    def advance(self, step: float) -> Floats:
        """Let time pass, and return float64[running], MB that each job reads meanwhile.

        :param step: seconds, no more than `plan` said.
        """
        read = self._rate * step
        missed = self._own * step
        self.unread -= read
        self.missing -= missed
        if self._gain is not None:
            self.missing += self._gain * step
        self._held += self._fill * step
        victim, total = self._evicting
        if victim >= 0:
            # What it costs its jobs is in `_gain` already.
            self._held[victim] -= total * step
        near = np.abs(self._quota - self._held) <= _NOTHING * self._whole
        self._held[near] = self._quota[near]
        ended = self.unread <= _NOTHING * self._epoch
        uncached = (self._whole - self._held)[self._in]
        if ended.any():
            epoch = self._epoch[ended]
            again = np.ceil((2 * _NOTHING * epoch - self.unread[ended]) / epoch)
            self.unread[ended] += again * epoch
            self.missing[ended] = self.unread[ended] * uncached[ended] / epoch
        np.minimum(self.missing, self.unread, out=self.missing)
        np.minimum(self.missing, uncached, out=self.missing)
        np.maximum(self.missing, 0.0, out=self.missing)
        self.fetched = float(missed.sum()) + self.warming * step
        return read

    def _evict(self, cache: int, amount: float) -> None:
        """Evict at once."""
        here = self._in == cache
        spared = min(self._read_by_all(cache), amount) if self._readers[cache] else 0.0
        rest = self._held[cache] - self._read_by_all(cache) if spared else self._held[cache]
        if amount > spared and rest > 0:
            share = (amount - spared) / rest
            self.missing[here] += share * (self.unread[here] - self.missing[here])
        self._held[cache] -= amount
