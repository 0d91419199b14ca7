"""Searches the cache with the greatest total rate: whole datasets and a part of another.

For fixed rates the cheapest cache is a vertex of a knapsack, so an optimum has that form. With S
cached as a whole, a part of dataset P in the remaining room r < d_P, and total full rates F, remote
IO is best used on P first, of which it needs 1 - r/d_P per MB/s, then on the rest, one to one. The
total rate is thus

    min(F, B + F_S + x * min(F_P, B / (1 - x)))     with x = r / d_P.

For each P the search lists the sets of the others by size and F_S. It drops sets that a smaller set
equals, and sets whose relaxation (the rest by efficiency, the last in part) does not beat the best
so far. The result is within 1e-12 of the optimum.
"""

import numpy as np

from hivecore.storage._numbers import Float64, Int64

__all__ = ["best_cache"]

_STATES = 1_000_000
_FULL = 1e-12  # fewer misses are rounding: the dataset is cached as a whole
_MARGIN = 1e-12  # smaller gains are rounding


def best_cache(
    totals: Float64, size: Float64, capacity: float, bandwidth: float
) -> tuple[float, Float64]:
    """Return the greatest total rate, and the cache that allows it.

    :param totals: float64[m], full rates of the jobs on each dataset.
    :raises ValueError: more than a million sets would have to be kept.
    """
    used = np.flatnonzero(totals > 0.0)
    # A stable sort: of equal efficiencies the lowest id comes first.
    used = used[np.argsort(-(totals[used] / size[used]), kind="stable")]
    everything = float(totals.sum())
    cache = np.zeros(len(size))
    if size[used].sum() <= capacity:
        cache[used] = size[used]
        return everything, cache
    goal = everything - bandwidth  # more hits are useless
    budget = [_STATES]
    # Start with the solution by efficiency and its part: it is close, so most sets are dropped
    # soon.
    cut = int(np.searchsorted(np.cumsum(size[used])[:-1], capacity, side="right"))
    chosen, part = used[:cut], int(used[cut])
    room = np.array([max(0.0, capacity - float(size[chosen].sum()))])
    best = float(totals[chosen].sum() + _part_gains(totals[part], size[part], room, bandwidth)[0])
    order = [cut, *(p for p in range(len(used)) if p != cut)]
    for p in order:
        if best >= goal:
            break
        others = np.delete(used, p)
        hits, members = _best_set(totals, size, others, used[p], capacity, bandwidth, best, budget)
        if hits > best:
            best, chosen, part = hits, others[members], int(used[p])
    cache[chosen] = size[chosen]
    cache[part] = min(size[part], max(0.0, capacity - float(size[chosen].sum())))
    return min(everything, bandwidth + best), cache


def _best_set(
    totals: Float64,
    size: Float64,
    others: Int64,
    part: np.int64,
    capacity: float,
    bandwidth: float,
    best: float,
    budget: list[int],
) -> tuple[float, Int64]:
    """Return the most hits with a part of this dataset, if above `best`, and the
    rows cached whole.
    """
    rates, sizes = totals[others], size[others]
    used, value = np.zeros(1), np.zeros(1)  # the current sets, by ascending size
    steps: list[
        tuple[Int64, Int64]
    ] = []  # per row: from which set each came, and with the row or not
    answer: tuple[int, int] | None = None
    for row in range(len(others) + 1):
        gains = value + _part_gains(totals[part], size[part], capacity - used, bandwidth)
        top = int(gains.argmax())
        if gains[top] > best * (1 + _MARGIN):
            best = float(gains[top])
            answer = (row, top)
        if row == len(others):
            break
        bound = value + _relaxed(
            rates[row:], sizes[row:], totals[part], size[part], capacity - used
        )
        alive = np.flatnonzero(bound > best * (1 + _MARGIN))
        fits = alive[used[alive] + sizes[row] <= capacity]
        source = np.concatenate((alive, fits))
        taken = np.concatenate((np.zeros(len(alive), np.int64), np.ones(len(fits), np.int64)))
        grown, worth = used[source] + sizes[row] * taken, value[source] + rates[row] * taken
        by_size = np.lexsort((-worth, grown))
        source, taken = source[by_size], taken[by_size]
        grown, worth = grown[by_size], worth[by_size]
        record = np.maximum.accumulate(np.concatenate(([-1.0], worth)))
        keep = worth > record[:-1]
        used, value = grown[keep], worth[keep]
        steps.append((source[keep], taken[keep]))
        budget[0] -= len(used)
        if budget[0] < 0:
            raise ValueError(
                f"exact=True: more than {_STATES:,} sets of {len(others) + 1} datasets compete; "
                "exact=False is near, and tells how near"
            )
        if not len(used):
            break
    if answer is None:
        return -1.0, others[:0]
    row, position = answer
    members = []
    for step in range(row - 1, -1, -1):
        came_from, with_it = steps[step]
        if with_it[position]:
            members.append(step)
        position = int(came_from[position])
    return best, np.array(members[::-1], dtype=np.int64)


def _part_gains(total: float, size: float, room: Float64, bandwidth: float) -> Float64:
    share = np.minimum(room / size, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        fed = np.where(1.0 - share >= _FULL, bandwidth / (1.0 - share), np.inf)
    return share * np.minimum(total, fed)


def _relaxed(
    rates: Float64, sizes: Float64, part_rate: float, part_size: float, room: Float64
) -> Float64:
    """Return an upper bound on further gains for each room: by efficiency, the last dataset in
    part.
    """
    place = int(np.searchsorted(-(rates / sizes), -(part_rate / part_size)))
    rates, sizes = np.insert(rates, place, part_rate), np.insert(sizes, place, part_size)
    filled = np.concatenate(([0.0], np.cumsum(sizes)))
    gained = np.concatenate(([0.0], np.cumsum(rates)))
    return np.interp(room, filled, gained)
