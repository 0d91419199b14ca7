"""Divides remote IO among jobs, for a given cache."""

from collections.abc import Iterable
from math import inf

from hivecore.reference.storage._numbers import Floats, total


def fill(demand: Floats, order: Iterable[int], budget: float) -> tuple[list[float], int]:
    """Serve the jobs in order; also return the first that gets less than its demand, or -1."""
    granted, left, cut = list(demand), budget, -1
    if total(demand) <= budget:
        return granted, cut
    for j in order:
        granted[j] = min(demand[j], left)
        left -= granted[j]
        if cut < 0 and granted[j] < demand[j]:
            cut = j
    return granted, cut


def water_level(cost: Floats, cap: Floats, slope: Floats, budget: float) -> float:
    """Return the level at which `sum(cost * min(cap, level * slope))` meets the budget, or
    infinity.

    The sum is concave in the level, so Newton's steps approach the root from below. Each step
    halves the gap or the slope.
    """
    if total(cost[j] * cap[j] for j in range(len(cost))) <= budget:
        return inf
    return next_level(cost, cap, slope, budget, 0.0, 0.0)


def next_level(
    cost: Floats, cap: Floats, slope: Floats, budget: float, fixed: float, level: float
) -> float:
    while True:
        used, growth = fixed, 0.0
        for j in range(len(cost)):
            if level * slope[j] < cap[j]:
                used += cost[j] * (level * slope[j])
                growth += cost[j] * slope[j]
            else:
                used += cost[j] * cap[j]
        if growth == 0.0:
            return inf if used <= budget else level
        further = level + (budget - used) / growth
        if not further > level:
            return level
        level = further


def ration(
    mode: str, demand: Floats, missed: Floats, cap: Floats, slope: Floats,
    order: Iterable[int], budget: float,
) -> tuple[list[float], float]:  # fmt: skip
    """Return what each job gets, and the number that proves it (see
    `StorageCertificate.io_level`).
    """
    n = len(demand)
    if mode == "priority":
        granted, cut = fill(demand, order, budget)
        return granted, float(cut)
    if mode == "throughput":
        granted, cut = fill(demand, sorted(range(n), key=lambda j: missed[j]), budget)
        return granted, 0.0 if cut < 0 else 1.0 / missed[cut]
    if mode == "maxmin_io":
        ones = [1.0] * n
        level = water_level(ones, demand, ones, budget)
        return [min(level, demand[j]) for j in range(n)], level
    if mode == "maxmin_rate":
        level = water_level(missed, cap, slope, budget)
        return [missed[j] * filled(level, slope[j], cap[j]) for j in range(n)], level
    share = 1.0 if total(demand) <= budget else budget / total(demand)
    return [share * amount for amount in demand], share


def filled(level: float, slope: float, cap: float) -> float:
    return min(cap, level * slope) if slope > 0.0 else 0.0
