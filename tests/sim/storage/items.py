"""What caches hold, item by item: real caches, read by jobs in real orders.

Each job reads the items of its dataset in a new seeded permutation per epoch, through a
`UniformCache` or, for the LRU baseline, a `PolicyCache`. Time advances by blocks: in each step the
fastest job reads a small part of its dataset, and every other one as much as its rate allows. What
a job really misses is drawn from its share of remote IO like from a token bucket: if a block brings
more misses than expected, the next one is shorter. The last items are read in full, so the end of a
job is late by at most a few items.
"""

from math import inf

import numpy as np

from hivecore.caching import EpochShuffle, PolicyCache, UniformCache
from hivecore.sim.storage import rules_of
from hivecore.sim.storage.schedule import run_through
from hivecore.sim.storage.situation import reached

#: In order of urgency; by least miss ratio; the same for all; the same speed-up for all; in
#: proportion to demand.
IO_MODES = ("priority", "throughput", "maxmin_io", "maxmin_rate", "proportional")
_BYTES = 1e6  # per MB
_DONE = 1e-9  # of a job, rounding
_BLOCKS = 250.0  # per epoch of the fastest job


def schedule_items(
    work,
    cluster,
    policy="fifo",
    storage="silod",
    *,
    items=20_000,
    seed=0,
    warm_up=False,
    shrink="random",
    lazy=True,
):
    """What becomes of jobs if they read real items, under the same rules as `schedule_storage`.

    Every dataset has so many items, all of one size. Caches that give up room lazily give up random
    items. Cost: some hundred times that of amounts.
    """
    assert not (lazy and shrink == "read_first")
    rules = rules_of(policy, storage, warm_up) if isinstance(policy, str) else policy
    contents = caches_of_items(work, cluster, rules, items, seed, shrink, lazy)
    return run_through(work, cluster, rules, contents, record=False)


def caches_of_items(work, cluster, rules, items=20_000, seed=0, shrink="random", lazy=True):
    """Empty caches."""
    options = work, cluster, rules.io_mode, items, seed
    if rules.cache.lru:
        return LruItems(*options)
    return UniformItems(*options, shrink, lazy, rules.cache.private, rules.warm_up)


class _Readers:
    """The jobs' positions in their epochs, and what they may read."""

    def __init__(self, work, cluster, io_mode, items, seed):
        self.now = self.fetched = self.warming = 0.0
        self.events = 0
        self._total, self.left = work.total_mb, work.total_mb.copy()
        self._done_at = _DONE * work.total_mb
        self._bandwidth, self._io_mode, self._warm_up = cluster.bandwidth_mbps, io_mode, False
        self._items = items
        self._dataset = dataset = work.dataset
        #: MB of an item, by job; bytes are whole numbers.
        self._bytes = np.maximum(np.rint(work.size_mb * _BYTES / items), 1.0).astype(np.int64)
        self._item = work.size_mb[dataset] / items
        self._orders = [EpochShuffle(seed + job, items) for job in range(len(dataset))]
        self._order = [None] * len(dataset)
        self._epoch = [0] * len(dataset)
        self._position = [0] * len(dataset)
        #: Items that a job might have read already, less those that it has: below 1, or a debt.
        self._ahead = np.zeros(len(dataset))
        #: MB of misses beyond what was granted.
        self._debt = np.zeros(len(dataset))
        self._running = np.empty(0, dtype=np.int64)
        self._full, self._reference = np.empty(0), None

    def unread(self, job):
        """Return the items that a job has yet to read in its epoch, in its order."""
        order = self._order[job]
        if order is None:
            order = self._orders[job].order(self._epoch[job]).astype(np.int64)
            self._order[job] = order
        return order[self._position[job] :]

    def allocate(self, jobs, rates, quota, reclaim, wanted, again=(), *, reference=None):
        """Take over what the scheduler decided."""
        for job in again:
            self.left[job], self._ahead[job], self._debt[job] = self._total[job], 0.0, 0.0
            self._epoch[job], self._position[job], self._order[job] = self._epoch[job] + 1, 0, None
        self._running, self._full, self._reference = jobs, rates, reference

    def advance(self, until=inf, events=1_000_000):
        """Let jobs read until some end, or until that instant; return those that have ended."""
        for _ in range(events):
            ended = self._block(until)
            if len(ended) or self.now >= until:
                break
        return ended

    def _block(self, until):
        """Let the fastest job read a small part of its dataset, and the others meanwhile."""
        running, full = self._running, self._full
        self.events += 1
        self.misses = miss = self._miss_ratio()
        io = grant(full, miss, self._bandwidth, self._io_mode, self._reference)
        self.rates = rate = reached(full, miss, io)
        self._spare = max(self._bandwidth - float(io.sum()), 0.0) if self._warm_up else 0.0
        block = self._item[running] * max(self._items / _BLOCKS, 1.0)
        moving = rate > 0
        limit = until - self.now
        step = min(limit, float((block[moving] / rate[moving]).min(initial=inf)))
        if self._spare and not moving.any():
            step = min(limit, self._items / self._spare)
        step = min(step, float((self.left[running][moving] / rate[moving]).min(initial=inf)))
        if step == inf:
            raise ValueError(f"no job gets ahead from {self.now:g} s on")
        self.left[running] -= self._move(step)
        self.now = until if step == limit else self.now + step
        ended = running[self.left[running] <= self._done_at[running]]
        self._leave(ended)
        return ended

    def _leave(self, jobs):
        """Forget jobs that have ended."""
        for job in jobs.tolist():
            self._order[job] = None

    def _move(self, step):
        """Let jobs read for so many seconds; return float64[running], MB that each has read."""
        running, rate = self._running, self.rates
        item = self._item[running]
        # A job that waits for data pays back what it missed beyond its share, or catches up.
        debt, amount = self._debt[running], rate * step
        waits = rate < self._full * (1 - 1e-9)
        due = np.where(waits, debt / np.maximum(self.misses, 1e-12), 0.0)
        amount = np.minimum(amount - np.clip(due, -0.5 * amount, 0.5 * amount), self._full * step)
        ahead = self._ahead[running] + amount / item
        count = np.maximum(np.floor(ahead + 1e-9), 0.0).astype(np.int64)
        self._ahead[running] = ahead - count
        missed = np.zeros(len(running))
        for place, (job, number) in enumerate(zip(running.tolist(), count.tolist(), strict=True)):
            missed[place] = item[place] * self._read(job, number)
        expected = rate * self.misses * step
        self._debt[running] = np.where(waits, debt + missed - expected, 0.0)
        self.fetched += float(missed.sum()) + self._warm(step)
        return count * item

    def _read(self, job, number):
        """Let a job read so many items; return how many of them it missed."""
        missed = 0
        while number:
            batch = self.unread(job)[:number]
            missed += len(batch) - self._access(job, batch)
            number -= len(batch)
            self._position[job] += len(batch)
            if self._position[job] == self._items:
                self._position[job] = 0
                self._epoch[job] += 1
                self._order[job] = None
        return missed

    def _warm(self, step):
        return 0.0


class UniformItems(_Readers):
    """Uniform caches, per dataset or per job."""

    def __init__(self, work, cluster, io_mode, items, seed, shrink, lazy, private, warm_up):
        super().__init__(work, cluster, io_mode, items, seed)
        self._warm_up = warm_up
        self._cache = UniformCache(max(int(cluster.cache_mb * _BYTES), 1), seed)
        self._shrink = "lazy" if lazy else shrink
        self._private = private
        self._cache_of = np.arange(len(work)) if private else work.dataset
        self._sizes = (self._bytes[work.dataset] if private else self._bytes).tolist()
        self._names = [str(code) for code in range(len(self._sizes))]
        for name, number in zip(self._names, self._sizes, strict=True):
            self._cache.add_dataset(name, items, number)
        self._attached = set()
        self._last_use = np.zeros(len(self._sizes))
        self._wanted = []
        self._warmed = [0] * len(self._sizes)
        self._warmth = 0.0

    def _name(self, job):
        return self._names[job] if self._private else self._names[int(self._dataset[job])]

    @property
    def cached(self):
        """MB in each cache."""
        used = [self._cache.statistics(name)["used"] for name in self._names]
        return np.array(used) / _BYTES

    @property
    def last_use(self):
        """Seconds at which a job last read through each cache."""
        self._last_use[self._cache_of[self._running]] = self.now
        return self._last_use.copy()

    def _leave(self, jobs):
        super()._leave(jobs)
        for job in jobs.tolist():
            self._cache.detach(str(job))
            self._attached.discard(job)

    def allocate(self, jobs, rates, quota, reclaim, wanted, again=(), *, reference=None):
        """Take over what the scheduler decided, see `_Readers`."""
        self._last_use = self.last_use
        super().allocate(jobs, rates, quota, reclaim, wanted, again, reference=reference)
        for job in again:
            self._cache.detach(str(job))
            self._attached.discard(job)
        if self._private:
            for job in set(range(len(self._names))).difference(jobs.tolist()):
                self._cache.unload(self._names[job])
        for job in jobs.tolist():
            if job not in self._attached:
                self._attached.add(job)
                self._cache.attach(str(job), self._name(job))
        self._wanted = wanted.tolist()
        room = np.floor(quota * _BYTES * (1 - 1e-15)).astype(np.int64).tolist()
        before = [self._cache.statistics(name)["quota"] for name in self._names]
        # What shrinks first, so that the quotas never exceed the capacity.
        for code in sorted(range(len(room)), key=lambda code: room[code] - before[code]):
            if room[code] != before[code]:
                self._cache.set_quota(self._names[code], room[code], self._shrink)

    def _miss_ratio(self):
        ratio = [1.0 - self._cache.hit_ratio(str(job)) for job in self._running.tolist()]
        return np.array(ratio, dtype=np.float64)

    def _access(self, job, batch):
        return int(self._cache.access(self._name(job), batch, str(job)))

    def _warm(self, step):
        """Fetch items in order of their numbers, as many as spare remote IO allows; return MB."""
        if not self._spare:
            self.warming = 0.0
            return 0.0
        self._warmth += self._spare * step
        fetched = 0.0
        for code in self._wanted:
            name, size = self._names[code], self._sizes[code]
            item = size / _BYTES
            while self._warmth >= item and self._warmed[code] < self._items:
                known = self._cache.statistics(name)
                if known["used"] + size > known["quota"]:
                    break
                number = int(self._warmth / item)
                first = self._warmed[code]
                last = min(first + number, self._items)
                self._warmed[code] = last
                brought = len(self._cache.warm(name, np.arange(first, last))) * item
                self._warmth -= brought
                fetched += brought
        self.warming = fetched / step
        # Bandwidth that nothing could be done with is gone.
        self._warmth = min(self._warmth, self._spare * step)
        return fetched


class LruItems(_Readers):
    """One LRU cache for all datasets."""

    def __init__(self, work, cluster, io_mode, items, seed):
        super().__init__(work, cluster, io_mode, items, seed)
        sizes = np.repeat(self._bytes, items)
        self._cache = PolicyCache("lru", len(sizes), max(int(cluster.cache_mb * _BYTES), 1), sizes)
        self._resident = np.zeros(len(sizes), dtype=bool)
        #: An LRU cache does not have it.
        self.last_use = np.zeros(len(work.size_mb))

    @property
    def cached(self):
        """MB of each dataset."""
        self._look()
        held = self._resident.reshape(-1, self._items).sum(axis=1)
        return held * self._bytes / _BYTES

    def _look(self):
        self._resident[:] = False
        self._resident[self._cache.cached()] = True

    def _miss_ratio(self):
        self._look()
        results = [
            1.0 - self._resident[self.unread(job) + self._items * int(self._dataset[job])].mean()
            for job in self._running.tolist()
        ]
        return np.array(results, dtype=np.float64)

    def _access(self, job, batch):
        return int(self._cache.access(batch + self._items * int(self._dataset[job])))


# --- how they share remote IO


def grant(full, miss, bandwidth, mode, reference=None):
    """Return each job's share of the bandwidth in MB/s."""
    demand = full * miss
    if demand.sum() <= bandwidth:
        return demand
    if mode == "priority":
        return _in_order(demand, bandwidth)
    if mode == "throughput":
        order = np.argsort(miss, kind="stable")
        shares = np.empty_like(demand)
        shares[order] = _in_order(demand[order], bandwidth)
        return shares
    if mode == "proportional":
        scaled = demand * (bandwidth / demand.sum())
        return scaled
    if mode == "maxmin_io":
        return _fill(demand, np.ones_like(demand), bandwidth)
    weight = demand if reference is None else np.where(reference > 0, reference, full) * miss
    return _fill(demand, weight, bandwidth)


def _in_order(demand, bandwidth):
    left = np.maximum(bandwidth - (np.cumsum(demand) - demand), 0.0)
    return np.minimum(demand, left)


def _fill(demand, weight, bandwidth):
    """Return min(demand, level * weight), with the level at which the bandwidth is used up."""
    level_of = np.divide(demand, weight, out=np.zeros_like(demand), where=weight > 0)
    order = np.argsort(level_of, kind="stable")
    sated = np.cumsum(demand[order]) - demand[order]
    hungry = np.cumsum(weight[order][::-1])[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = (bandwidth - sated) / hungry
    position = int(np.argmax(levels <= level_of[order]))
    shares = np.minimum(demand, levels[position] * weight)
    return shares
