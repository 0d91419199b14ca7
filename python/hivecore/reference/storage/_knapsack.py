"""Which datasets are cached: knapsacks with parts and with whole datasets."""

from hivecore.reference.storage._numbers import Floats, miss_share, rate_of

GREEDY, WHOLE, LARGEST = range(3)  # how the cache of "throughput" was chosen


def greedy_cache(
    value: Floats, size: Floats, capacity: float, current: Floats, eps: float
) -> tuple[list[float], float]:
    """Solve a fractional knapsack by value (worth / size); cached bytes count (1 + eps).

    Also return the value at which the capacity ran out, 0 if it did not.
    """
    kept = [(value[d] * (1.0 + eps), d, True) for d in range(len(size)) if current[d] > 0]
    new = [(value[d], d, False) for d in range(len(size)) if current[d] < size[d]]
    cache = [0.0] * len(size)
    left = capacity
    multiplier = 0.0
    for worth, d, is_kept in sorted(kept + new, key=lambda part: -part[0]):
        if worth <= 0.0:
            break
        part = current[d] if is_kept else size[d] - current[d]
        if part <= left:
            cache[d] = current[d] if is_kept else size[d]
            left -= part
        else:
            cache[d] += left
            left = 0.0
            multiplier = max(multiplier, worth)
    return cache, multiplier


def partial_gain(total: float, size: float, room: float, bandwidth: float) -> float:
    """Return hits per second of a dataset with this room, less than its size, and all remote IO."""
    return room / size * rate_of(total, bandwidth, miss_share(room, size))


def whole_datasets(
    totals: Floats, size: Floats, capacity: float, bandwidth: float, first: int
) -> tuple[list[float], float]:
    """Return whole datasets by efficiency, `first` in front, then the best part of another."""
    cache, left, gain = [0.0] * len(size), capacity, 0.0
    order = sorted(range(len(size)), key=lambda d: -(totals[d] / size[d]))
    for d in ([first] if first >= 0 else []) + order:
        if totals[d] > 0.0 and cache[d] == 0.0 and size[d] <= left:
            cache[d] = size[d]
            left -= size[d]
            gain += totals[d]
    best, part = 0.0, -1
    for d in range(len(size)):
        if totals[d] > 0.0 and cache[d] == 0.0:
            worth = partial_gain(totals[d], size[d], left, bandwidth)
            if worth > best:
                best, part = worth, d
    if part >= 0:
        cache[part] = left
    return cache, gain + best


def throughput_cache(
    totals: Floats, size: Floats, capacity: float, bandwidth: float
) -> tuple[list[float], float, float, int]:
    """Return the best of three caches, the multiplier and bound of the relaxation,
    and which it is.
    """
    value = [totals[d] / size[d] for d in range(len(size))]
    none = [0.0] * len(size)
    best, multiplier = greedy_cache(value, size, capacity, none, 0.0)
    gain, saved, everything = 0.0, 0.0, 0.0
    for d in range(len(size)):
        everything += totals[d]
        saved += value[d] * best[d]
        if best[d] == size[d]:
            gain += totals[d]
        elif best[d] > 0.0:
            gain += partial_gain(totals[d], size[d], best[d], bandwidth)
    choice = GREEDY
    largest = -1
    for d in range(len(size)):
        if totals[d] > 0.0 and size[d] <= capacity and (largest < 0 or totals[d] > totals[largest]):
            largest = d
    for which, first in ((WHOLE, -1), (LARGEST, largest)):
        other, other_gain = whole_datasets(totals, size, capacity, bandwidth, first)
        if other_gain > gain:
            best, gain, choice = other, other_gain, which
    return best, multiplier, min(everything, bandwidth + saved), choice
