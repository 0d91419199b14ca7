"""How jobs share the bandwidth of remote storage: one rule per mode.

A job whose reads miss the cache with ratio m, and which could run at rate f, asks for f m. Whatever
the mode, nobody gets more than it asks for, all together get no more than there is, and if there is
enough for all, all get what they ask for.
"""

import numpy as np

from hivecore.sim.storage.workload import Floats

__all__ = ["IO_MODES", "grant", "reached"]

#: In order of urgency; by least miss ratio; the same for all; the same speed-up for all; in
#: proportion to demand.
IO_MODES = ("priority", "throughput", "maxmin_io", "maxmin_rate", "proportional")
# A job that misses less than this has all that it reads in the cache.
_NO_MISS = 1e-12


def grant(
    full: Floats, miss: Floats, bandwidth: float, mode: str, reference: Floats | None = None
) -> Floats:
    """Return each job's share of the bandwidth in MB/s.

    :param full: float64[jobs], MB/s without waiting for data, the most urgent job first.
    :param miss: float64[jobs], the share of what a job reads now that is not cached.
    :param bandwidth: MB/s of all jobs together.
    :param mode: of `IO_MODES`.
    :param reference: float64[jobs], MB/s that "maxmin_rate" compares the rates with; `full` by
        default.

    Ties: the more urgent job first. Cost: O(jobs log jobs), O(jobs) if there is enough.

    >>> grant(np.array([80.0, 30.0]), np.array([1.0, 1.0]), 60.0, "maxmin_io").tolist()
    [30.0, 30.0]
    """
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
        scaled: Floats = demand * (bandwidth / demand.sum())
        return scaled
    if mode == "maxmin_io":
        return _fill(demand, np.ones_like(demand), bandwidth)
    weight = demand if reference is None else np.where(reference > 0, reference, full) * miss
    return _fill(demand, weight, bandwidth)


def reached(full: Floats, miss: Floats, granted: Floats | float) -> Floats:
    """Return the rates in MB/s at which jobs run with what was granted.

    :param full: float64[jobs], MB/s without waiting for data.
    :param miss: float64[jobs], the share of what a job reads that is not cached.
    :param granted: float64[jobs], MB/s of remote IO, or one number for all.

    >>> reached(np.array([100.0, 100.0]), np.array([0.5, 0.0]), np.array([40.0, 0.0])).tolist()
    [80.0, 100.0]
    """
    rates: Floats = np.minimum(full, granted / np.maximum(miss, _NO_MISS))
    return np.where(miss < _NO_MISS, full, rates)


def _in_order(demand: Floats, bandwidth: float) -> Floats:
    left = np.maximum(bandwidth - (np.cumsum(demand) - demand), 0.0)
    return np.minimum(demand, left)


def _fill(demand: Floats, weight: Floats, bandwidth: float) -> Floats:
    """Return min(demand, level * weight), with the level at which the bandwidth is used up."""
    level_of = np.divide(demand, weight, out=np.zeros_like(demand), where=weight > 0)
    order = np.argsort(level_of, kind="stable")
    sated = np.cumsum(demand[order]) - demand[order]
    hungry = np.cumsum(weight[order][::-1])[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = (bandwidth - sated) / hungry
    position = int(np.argmax(levels <= level_of[order]))
    shares: Floats = np.minimum(demand, levels[position] * weight)
    return shares
