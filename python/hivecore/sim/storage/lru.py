"""What one LRU cache that all jobs share holds, as amounts.

An LRU cache holds just what was read since some instant: what was read before and not again has
been pushed out. That instant, the begin of the window, only moves forward.

Let a job have read the share v of its epoch, and y epochs since the begin of the window. Orders are
random and independent, so an item that it has yet to read in this epoch was read in the window by
itself with probability

    own = y - v, but between 0 and 1,

which is the part of the epoch before that lies in the window; and any item of the dataset was read
in the window by this job with probability

    seen = y if y <= v, else 1 - (1 - v)(1 - own).

A read of job j misses with probability (1 - own_j) * product over the other jobs on its dataset of
(1 - seen), and a dataset takes size * (1 - product over its jobs of (1 - seen)) of the cache, which
together must not exceed the capacity: this tells how far the window begins to move. Jobs that wait
or have ended count as long as the window holds reads of theirs.

Of a single job this gives the known hit ratio k + (1-k) ln(1-k), with k = cache / dataset, as the
mean over an epoch; but its hits come at the epoch's begin, when it reads again what it has just
read, and then it may be too fast to use its share of remote IO. That is why the ratio follows the
epochs. Between events all rates are constant; where ratios move, an event comes soon enough, and
the rates are those of the middle of the interval.

Invariant: the rows of the log are what every job had read in total at each event since the begin of
the window, and one row before it.
"""

from bisect import bisect_right
from math import inf

import numpy as np

from hivecore.sim.storage.workload import Floats, Indices

__all__ = ["LruContents"]

_STEP = 0.08  # of an epoch or of the window
_LEAST_STEP = 0.02  # of an epoch; a window so short brings no hits
_CLOSE = 1e-9
_ITERATIONS = 8
_TRIMMED = 256  # rows of the log before its begin is cut off


class LruContents:
    """The cache, and how far the running jobs are in their epochs.

    :param size: float64[datasets], MB.
    :param dataset: int64[jobs].
    :param capacity: MB.
    """

    warming = 0.0

    def __init__(self, size: Floats, dataset: Indices, capacity: float) -> None:
        self.cached = np.zeros(len(size))
        self.last_use = np.zeros(len(size))
        self.fetched = 0.0
        self.drifts = False
        self._size = size
        self._dataset = dataset
        self._capacity = capacity
        self._all_unread = size[dataset].copy()
        self._total = np.zeros(len(dataset))
        self._times = [0.0]
        self._log = [self._total.copy()]
        self._begin = 0.0
        self._pace = 0.0  # of the begin of the window, in seconds per second
        self._now = 0.0
        # Too little for an item: whatever is read leaves no trace.
        self._full = capacity <= _CLOSE * float(size.max(initial=0.0))
        self._running = np.empty(0, dtype=np.int64)
        self._unread = np.empty(0)
        self._take(self._running)

    def _take(self, running: Indices) -> None:
        """Copy the columns of the jobs that count side by side, those that run first."""
        past = self._total > self._log[self._row()]
        past[running] = False
        self._jobs = np.append(running, np.flatnonzero(past))
        self._running = running
        self._live, self._in = np.unique(self._dataset[self._jobs], return_inverse=True)
        self._whole = self._size[self._live]
        self._epoch = self._size[self._dataset[self._jobs]]
        self._alone = len(self._live) == len(self._jobs)
        self._unread = self._all_unread[running]
        self._read_of_past = 1.0 - self._all_unread[self._jobs] / self._epoch

    def settle(self, now: float) -> None:
        """Bring `cached` up to date; nobody asks an LRU cache for `last_use`.

        :param now: not used.
        """
        if len(self._jobs):
            self._slide()
            self.cached = np.zeros(len(self._size))
            self.cached[self._live] = self._whole * (1.0 - self._outside)

    def leave(self, jobs: Indices) -> None:
        """Take note that jobs have ended: what they read stays.

        :param jobs: not used.
        """

    def allocate(
        self, now: float, running: Indices, quota: Floats, reclaim: Indices, wanted: Indices
    ) -> None:
        """Take over which jobs run from now on; the cache knows neither quotas nor priorities.

        :param now: not used.
        :param running: int64[running].
        :param quota: not used.
        :param reclaim: not used.
        :param wanted: not used.
        """
        self._all_unread[self._running] = self._unread
        self._take(running)

    def miss_ratio(self) -> Floats:
        """Return float64[running], the share of what each job reads now that is not cached."""
        self._slide()
        return self._missed()

    def _missed(self) -> Floats:
        count = len(self._running)
        missed = 1.0 - self._own[:count]
        if self._alone:
            return missed
        unseen = np.maximum(1.0 - self._seen[:count], 1e-300)
        others = np.minimum(self._outside[self._in[:count]] / unseen, 1.0)
        return missed * others

    # --- the window ----------------------------------------------------------------------------

    def _row(self) -> int:
        """Return the row of the log just before the begin of the window."""
        return bisect_right(self._times, self._begin) - 1

    def _slide(self) -> None:
        """Move the begin of the window to where the cache just holds all that was read since."""
        row = self._row()
        low, at_low = self._begin, self._over(self._begin, row)
        if at_low <= _CLOSE * self._capacity:
            return
        self._full = True
        while row + 1 < len(self._times):
            high = self._times[row + 1]
            at_high = self._over(high, row + 1)
            if at_high <= 0:
                break
            row, low, at_low = row + 1, high, at_high
        else:
            self._begin = low
            return
        # Between two rows all rates were constant, so that little is left to do.
        for _ in range(_ITERATIONS):
            middle = low + (high - low) * at_low / max(at_low - at_high, 1e-300)
            value = self._over(middle, row)
            if abs(value) <= _CLOSE * self._capacity:
                break
            low, at_low, high, at_high = (
                (middle, value, high, at_high) if value > 0 else (low, at_low, middle, value)
            )
        self._begin = middle

    def _over(self, begin: float, row: int) -> float:
        """Return by how much what was read since an instant exceeds the capacity, in MB."""
        count = len(self._running)
        read = self._read_of_past
        read[:count] = 1.0 - self._unread / self._epoch[:count]
        self._look(self._total[self._jobs], read, self._logged(begin, row))
        return float(self._whole @ (1.0 - self._outside)) - self._capacity

    def _logged(self, begin: float, row: int) -> Floats:
        """Return float64[jobs that count], MB that each had read by an instant."""
        before: Floats = self._log[row][self._jobs]
        if row + 1 == len(self._times) or begin <= self._times[row]:
            return before
        part = (begin - self._times[row]) / (self._times[row + 1] - self._times[row])
        return before + part * (self._log[row + 1][self._jobs] - before)

    def _look(self, total: Floats, read: Floats, before: Floats) -> None:
        since = (total - before) / self._epoch
        self._own = np.minimum(np.maximum(since - read, 0.0), 1.0)
        self._seen = np.where(since <= read, since, 1.0 - (1.0 - read) * (1.0 - self._own))
        unseen = np.maximum(1.0 - self._seen, 0.0)
        if self._alone:
            self._outside = np.empty(len(unseen))
            self._outside[self._in] = unseen
        else:
            self._outside = np.ones(len(self._whole))
            np.multiply.at(self._outside, self._in, unseen)

    # --- between events ------------------------------------------------------------------------

    def plan(self, rate: Floats, full: Floats, miss: Floats, spare: float) -> float:
        """Take these rates until `advance`, and return the seconds after which they change.

        :param rate: float64[running], MB/s.
        :param full: not used.
        :param miss: float64[running].
        :param spare: not used: nobody manages this cache.
        """
        self._rate, self._miss = rate, miss
        if not len(rate):
            return inf
        epoch = self._epoch[: len(rate)]
        with np.errstate(divide="ignore"):
            step = float((self._unread / rate).min())
        self.drifts = self._full or not self._alone
        if self.drifts:
            moving = (miss > 0) & (miss < 1) & (rate > 0)
            if moving.any():
                step = min(step, _STEP * float((epoch[moving] / rate[moving]).min()))
            if self._full:
                least = _LEAST_STEP * float((epoch / np.maximum(rate, _CLOSE)).min())
                step = min(step, max(_STEP * (self._now - self._begin), least))
        else:
            room = self._capacity - float(self._whole @ (1.0 - self._outside))
            brought = float(rate @ miss)
            # A little beyond, so that the cache is seen to be full then.
            if brought > 0:
                step = min(step, (max(room, 0.0) + 3 * _CLOSE * self._capacity) / brought)
        return step

    def middle(self, step: float) -> Floats:
        """Return the miss ratios when half of a step is over.

        :param step: seconds.
        """
        half = 0.5 * step
        count = len(self._running)
        begin = min(self._begin + half * self._pace, self._now)
        row = bisect_right(self._times, begin) - 1
        total, read = self._total[self._jobs], self._read_of_past.copy()
        moved = half * self._rate
        total[:count] += moved
        read[:count] = 1.0 - np.maximum(self._unread - moved, 0.0) / self._epoch[:count]
        self._look(total, read, self._logged(begin, row))
        return self._missed()

    def advance(self, step: float) -> Floats:
        """Let time pass, and return float64[running], MB that each job reads meanwhile.

        :param step: seconds, no more than `plan` said.
        """
        read = self._rate * step
        epoch = self._epoch[: len(read)]
        self._unread = self._unread - read
        ended = self._unread <= _CLOSE * epoch
        if ended.any():
            again = np.ceil((2 * _CLOSE * epoch[ended] - self._unread[ended]) / epoch[ended])
            self._unread[ended] += again * epoch[ended]
        self._total[self._running] += read
        self._now += step
        if self._now > self._times[-1]:
            self._times.append(self._now)
            self._log.append(self._total.copy())
        else:
            self._log[-1] = self._total.copy()
        before = self._begin
        self._slide()
        self._pace = (self._begin - before) / step if step > 0 else self._pace
        row = self._row()
        if row > _TRIMMED:
            del self._times[:row], self._log[:row]
        self.fetched = float(read @ self._miss)
        return read
