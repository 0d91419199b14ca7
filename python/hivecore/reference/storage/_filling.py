"""Max-min fairness over cache and remote IO together, by filling in stages."""

from collections.abc import Callable, Sequence
from math import inf, nextafter

from hivecore.reference.storage._knapsack import greedy_cache
from hivecore.reference.storage._numbers import Floats, miss_share, per_dataset, rate_of
from hivecore.reference.storage._remote_io import next_level

RATE, REMOTE_IO, GPU = range(3)  # what ended a stage


def reference_rates(
    dataset: Sequence[int], rate: Floats, running: Sequence[bool], gpus: Floats,
    size: Floats, cache: float, bandwidth: float, gpu_capacity: float,
) -> list[float]:  # fmt: skip
    """Return T_eq: what a job reaches with an equal share of cache, remote IO and GPU time."""
    sharers = max(1, sum(map(bool, running)))
    users = per_dataset([1.0 if run else 0.0 for run in running], dataset, len(size))
    cached = [min(size[d], users[d] * (cache / sharers)) for d in range(len(size))]
    reference = []
    for j, d in enumerate(dataset):
        top = rate[j]
        if gpus[j] * sharers > gpu_capacity:
            top *= gpu_capacity / (gpus[j] * sharers)
        reference.append(rate_of(top, bandwidth / sharers, miss_share(cached[d], size[d])))
    return reference


def risen(level: float, rate: float, slope: float, sag: float) -> float:
    share = 1.0 - level * sag if level < inf else 0.0
    height = level * slope
    return height / share if share > 0.0 and height < rate * share else rate


def curved_level(
    cost: Floats, cap: Floats, slope: Floats, sag: Floats, budget: float, fixed: float, level: float
) -> float:
    """As `next_level`, for curves: Newton's steps while they halve, else bisection."""
    n = len(cost)
    low, high, most = level, 0.0, fixed
    for j in range(n):
        most += cost[j] * cap[j]
        high = max(high, cap[j] / (slope[j] + cap[j] * sag[j]))
    if most <= budget:
        return inf
    x, step = low, inf
    while True:
        used, growth = fixed, 0.0
        for j in range(n):
            share = 1.0 - x * sag[j]
            if share > 0.0 and x * slope[j] < cap[j] * share:
                inverse = 1.0 / share
                used += cost[j] * (x * slope[j] * inverse)
                growth += cost[j] * (slope[j] * inverse * inverse)
            else:
                used += cost[j] * cap[j]
        if used <= budget:
            low = x
        else:
            high = x
        newton = (budget - used) / growth if growth > 0.0 else inf
        if abs(newton) <= 1e-15 * x:
            # Near a pole, one float step is much demand: never exceed the budget.
            if used <= budget:
                return x
            x = nextafter(x, 0.0)
            if not x > low:
                return low
            continue
        if abs(newton) <= 0.5 * step and low < x + newton < high:
            step = abs(newton)
            x += newton
            continue
        step = 0.5 * (high - low)
        x = low + step
        if not low < x < high:
            return low


class Filling:
    """Max-min filling: all active jobs rise together; a job that cannot rise further is frozen.

    At a level, T = min(rate, level * slope / (1 - sag * level)), or without sag min(rate, level *
    slope).
    """

    def __init__(
        self, dataset: Sequence[int], rate: Floats, slope: Floats, sag: Floats, gpus: Floats,
        size: Floats, cache: float, bandwidth: float, gpu_capacity: float,
    ) -> None:  # fmt: skip
        self.dataset, self.rate, self.slope, self.size = dataset, rate, slope, size
        self.sag = sag
        self.capacity, self.bandwidth, self.gpu_capacity = cache, bandwidth, gpu_capacity
        self.n, self.m = len(rate), len(size)
        self.gpu_cost = [gpus[j] / rate[j] if rate[j] > 0.0 else 0.0 for j in range(self.n)]
        self.active = [rate[j] > 0.0 and slope[j] > 0.0 for j in range(self.n)]
        self.rates = [0.0] * self.n
        self.stage = [-1] * self.n
        self.levels: list[float] = []
        self.bindings: list[int] = []
        self.cache = [0.0] * self.m
        self.multiplier = 0.0

    def rate_at(self, j: int, level: float) -> float:
        if not self.active[j]:
            return self.rates[j]
        if not self.sag:
            return min(self.rate[j], level * self.slope[j])
        return risen(level, self.rate[j], self.slope[j], self.sag[j])

    def best_cache(self, level: float) -> None:
        """Set the cache with which the rates of this level need the least remote IO."""
        rates = [self.rate_at(j, level) for j in range(self.n)]
        worth = per_dataset(rates, self.dataset, self.m)
        if not any(worth):  # just above level 0
            slopes = [self.slope[j] if self.active[j] else 0.0 for j in range(self.n)]
            worth = per_dataset(slopes, self.dataset, self.m)
        value = [worth[d] / self.size[d] for d in range(self.m)]
        none = [0.0] * self.m
        self.cache, self.multiplier = greedy_cache(value, self.size, self.capacity, none, 0.0)
        self.missed = [miss_share(self.cache[d], self.size[d]) for d in range(self.m)]

    def storage_level(self) -> float:
        """Return the highest level with enough remote IO, infinite if there is always enough.

        The least remote IO is concave in the level, as a minimum of concave functions (one per
        cache). From below the root, the root for the best cache at this level does not exceed the
        true root; iterate until the best cache stays the same.
        """
        level = self.levels[-1] if self.levels else 0.0
        while True:
            self.best_cache(level)
            cost = [self.missed[d] for d in self.dataset]
            further = self.level_above(level, self.bandwidth, cost)
            if further == inf:
                return inf
            if not further > level:
                return level
            level = further

    def gpu_level(self) -> float:
        if self.gpu_capacity == inf:
            return inf
        level = self.levels[-1] if self.levels else 0.0
        return self.level_above(level, self.gpu_capacity, self.gpu_cost)

    def level_above(self, level: float, budget: float, cost: Floats) -> float:
        """As `next_level`; only jobs that still rise, at a cost, are evaluated repeatedly."""
        fixed, rising = 0.0, []
        for j in range(self.n):
            now = self.rate_at(j, level)
            if cost[j] > 0.0 and self.active[j] and now < self.rate[j]:
                rising.append(j)
            else:
                fixed += cost[j] * now
        cost, cap, slope = ([column[j] for j in rising] for column in (cost, self.rate, self.slope))
        if not self.sag:
            return next_level(cost, cap, slope, budget, fixed, level)
        return curved_level(cost, cap, slope, [self.sag[j] for j in rising], budget, fixed, level)

    def freeze(self, level: float, binding: int, held: Callable[[int], bool]) -> None:
        """End a stage: fix active jobs that reached their rate or that the binding holds."""
        self.levels.append(level)
        self.bindings.append(binding)
        for j in range(self.n):
            if self.active[j]:
                self.rates[j] = self.rate_at(j, level)
                if held(j) or not self.rates[j] < self.rate[j]:
                    self.active[j] = False
                    self.stage[j] = len(self.levels) - 1

    def run(self) -> None:
        storage_bound = gpu_bound = False
        while any(self.active):
            storage = inf if storage_bound else self.storage_level()
            gpu = inf if gpu_bound else self.gpu_level()
            if storage == inf and gpu == inf:
                self.freeze(inf, RATE, lambda j: True)
            elif storage <= gpu:
                storage_bound = True
                self.freeze(storage, REMOTE_IO, lambda j: self.missed[self.dataset[j]] > 0.0)
            else:
                gpu_bound = True
                self.freeze(gpu, GPU, lambda j: self.gpu_cost[j] > 0.0)
        if not storage_bound:
            self.best_cache(inf)
