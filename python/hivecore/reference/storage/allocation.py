"""Allocates cache and remote IO: the performance model and every objective, one job at a time.

Twin of the kernel of `hivecore.storage`; all sums run from left to right in the order of ids.
"""

from collections.abc import Sequence
from math import inf

from hivecore.reference.storage import _knapsack
from hivecore.reference.storage._filling import Filling, reference_rates
from hivecore.reference.storage._knapsack import GREEDY, WHOLE, throughput_cache
from hivecore.reference.storage._numbers import (
    GPU_SLACK,
    Floats,
    miss_share,
    per_dataset,
    rate_of,
)
from hivecore.reference.storage._remote_io import ration
from hivecore.reference.storage._shortest_first import ShortestFirst, pace

__all__ = [
    "cache_for_rate",
    "greedy_cache",
    "remote_io_demand",
    "solve_storage",
    "throughput",
]

_Solution = tuple[
    list[float],  # cache
    list[float],  # remote_io
    list[float],  # rates
    list[float],  # demand
    list[bool],  # running
    list[int],  # order
    float,  # cache multiplier
    float,  # io level
    float,  # bound
    int,  # choice
    list[float],  # levels
    list[int],  # bindings
    list[int],  # stage
    list[float],  # reference
]


def throughput(rate: float, remote_io: float, cache: float, dataset: float) -> float:
    """perf(f, b, c, d)."""
    return rate_of(rate, remote_io, miss_share(cache, dataset))


def remote_io_demand(rate: float, cache: float, dataset: float) -> float:
    """Return what the job reads remotely at full speed."""
    return rate * miss_share(cache, dataset)


def cache_for_rate(rate: float, remote_io: float, dataset: float) -> float:
    """Return the cache with which the remote IO suffices for the rate."""
    return 0.0 if rate <= remote_io else dataset * (1.0 - remote_io / rate)


def greedy_cache(
    efficiency: Sequence[float],
    datasets: Sequence[float],
    capacity: float,
    current: Sequence[float] | None = None,
    eps: float = 0.1,
) -> list[float]:
    """Twin of `hivecore.storage.greedy_cache`."""
    held = [0.0] * len(datasets) if current is None else current
    return _knapsack.greedy_cache(efficiency, datasets, capacity, held, eps)[0]


def solve_storage(
    dataset: Sequence[int],
    rate: Floats,
    weight: Floats | None,
    running: Sequence[bool] | None,
    effective: Floats | None,
    remaining: Floats | None,
    gpus: Floats | None,
    elapsed: Floats | None,
    elapsed_alone: Floats | None,
    size: Floats,
    current: Floats | None,
    cache: float,
    bandwidth: float,
    gpu_capacity: float,
    objective: str,
    io_mode: str,
    eps: float,
) -> _Solution:
    """Allocate cache and remote IO; the arguments are the kernel's, already checked.

    With `objective` "given", `current` is the cache. Results that the objective does not have are
    empty, and so is the order if it is that of arrival.
    """
    n, m = len(rate), len(size)
    weight = weight or [1.0] * n
    remaining, gpus = remaining or [0.0] * n, gpus or [0.0] * n
    elapsed, elapsed_alone = elapsed or [0.0] * n, elapsed_alone or [0.0] * n
    effective, current = effective or [inf] * n, current or [0.0] * m
    runs = [bool(run) for run in running] if running else [True] * n
    rate = [rate[j] if runs[j] else 0.0 for j in range(n)]
    order: list[int] = []
    multiplier, bound, choice = 0.0, inf, GREEDY
    levels: list[float] = []
    bindings: list[int] = []
    stage: list[int] = []
    reference: list[float] = []
    slope: list[float] = []
    sag: list[float] = []
    fills = objective in ("max_min", "finish_time")
    if fills or io_mode == "maxmin_rate":
        reference = reference_rates(dataset, rate, runs, gpus, size, cache, bandwidth, gpu_capacity)
        # Without remote IO most references are 0; then compare jobs by full rates.
        slope = [weight[j] * (reference[j] or rate[j]) for j in range(n)]
    if objective == "finish_time":
        # (elapsed + left / T) / alone = 1 / level, solved for T
        for j in range(n):
            left = 1000.0 * remaining[j]
            speed = reference[j] or rate[j]
            alone = elapsed_alone[j] + (left / speed if speed > 0.0 else 0.0)
            slope[j] = left / alone if alone > 0.0 else 0.0
            sag.append(elapsed[j] / alone if alone > 0.0 else 0.0)

    if objective == "fifo" and gpu_capacity < inf:
        blocked, slack = False, GPU_SLACK * gpu_capacity
        for j in range(n):
            if runs[j]:
                blocked = blocked or gpus[j] > gpu_capacity + slack
                runs[j] = not blocked
                gpu_capacity -= gpus[j]
    shortest = None
    if objective == "sjf":
        shortest = ShortestFirst(dataset, rate, remaining, size, cache, bandwidth)
        order = shortest.run(runs, gpus, gpu_capacity)
    rate = [rate[j] if runs[j] else 0.0 for j in range(n)]

    cap: Floats = rate
    if objective == "given":
        cached = list(current)
    elif objective == "throughput":
        totals = per_dataset(rate, dataset, m)
        cached, multiplier, bound, choice = throughput_cache(totals, size, cache, bandwidth)
    elif fills:
        filling = Filling(dataset, rate, slope, sag, gpus, size, cache, bandwidth, gpu_capacity)
        filling.run()
        cached, multiplier = filling.cache, filling.multiplier
        levels, bindings, stage = filling.levels, filling.bindings, filling.stage
        shares_gpus = gpu_capacity < inf
        cap = [
            filling.rates[j] if shares_gpus or stage[j] < 0 else rate[j]  # time slices stay
            for j in range(n)
        ]
    else:
        wanted = rate if objective == "sjf" else [weight[j] * rate[j] for j in range(n)]
        worth = per_dataset(wanted, dataset, m)
        value = [worth[d] / size[d] for d in range(m)]
        kept = [0.0] * m if objective == "sjf" else current
        cached, multiplier = _knapsack.greedy_cache(value, size, cache, kept, eps)
        if shortest is not None:
            arguments = dataset, rate, remaining, size, bandwidth
            if pace(shortest.cache, order, *arguments) > pace(cached, order, *arguments):
                cached, multiplier, choice = shortest.cache, 0.0, WHOLE

    missed = [miss_share(min(effective[j], cached[dataset[j]]), size[dataset[j]]) for j in range(n)]
    demand = [rate[j] * missed[j] for j in range(n)]
    if fills and not any(rate[j] > 0.0 and effective[j] < cached[dataset[j]] for j in range(n)):
        rates = filling.rates
        granted = [rates[j] * missed[j] for j in range(n)]
        io_level = inf
    else:
        if objective == "finish_time":
            slope = filling.rates
        granted, io_level = ration(
            io_mode, demand, missed, cap, slope, order or range(n), bandwidth
        )
        reached = [
            rate[j] if granted[j] >= demand[j] else rate_of(rate[j], granted[j], missed[j])
            for j in range(n)
        ]
        rates = [min(reached[j], cap[j]) for j in range(n)]
    return (
        cached, granted, rates, demand, runs, order, multiplier, io_level, bound, choice,
        levels, bindings, stage, reference,
    )  # fmt: skip
