"""Closed forms of cache policies' hit ratios."""

import math

import numpy as np

from hivecore._arguments import as_bool, as_float, as_int

__all__ = ["expected_hit_ratio"]

_DEMAND_POLICIES = ("uniform", "lru", "fifo", "random", "lfu", "clock", "sieve", "s3fifo")
_POLICIES = (*_DEMAND_POLICIES, "min")
_MOST_EXACT = 100_000  # the sum has cache**2 terms: a minute
_PATTERNS = ("shuffle", "scan", "replacement")


def expected_hit_ratio(
    policy: str, cache: float, dataset: float, pattern: str = "shuffle", exact: bool = False
) -> float:
    """Return the expected steady-state hit ratio of a policy for a job that reads items of equal
    size.

    :param policy: a policy of `simulate`.
    :param cache: capacity in the unit of ``dataset``, finite and at least 0.
    :param dataset: what the job reads per epoch, finite and above 0.
    :param pattern: ``"shuffle"``: a new uniform permutation each epoch; ``"scan"``: the same order
        each epoch; ``"replacement"``: independent uniform draws.
    :param exact: for exactly this many items instead of the limit of many; both numbers are
        positive integers then, and the dataset is at most 100,000. Not known for FIFO's and
        RANDOM's shuffles and RANDOM's scan.
    :returns: between 0 and 1, within 1e-9 of the formula's value.
    :raises ValueError: a value is out of range, or no closed form is known: for ``"shuffle"`` with
        LFU, SIEVE and S3-FIFO (the first two still rise after tens of epochs), ``"scan"`` with
        S3-FIFO, and ``"replacement"`` with MIN.
    :raises TypeError: an argument has a wrong type.

    With k = cache / dataset below 1, shuffles:

    - uniform: k in every epoch; MIN: k. A hit needs residency at the epoch's start, and at most
      ``cache`` items are resident then, so no policy has more.
    - LRU: k + (1 - k) ln(1 - k). An item at the fraction u of an epoch and v of the next is hit if
      the union of the last 1 - u of the one and the first v of the other is within k. Exactly:
      the mean, over a and b from 0 to d - 1, of the probability that a random a-set and a random
      b-set of the other d - 1 items have a union of less than ``cache`` items; O(cache**2).
    - CLOCK: as LRU, exactly. Until the hand has passed all residents of the epoch's start, each
      miss evicts the first of them that was not read yet, and so does LRU. The victim will be
      missed later; so the last miss of an epoch comes when the hand has passed them all, and the
      next epoch starts without a bit set. (If twice the cache fits into the dataset, the last
      ``cache`` accesses are misses, and the two agree access by access.)
    - FIFO: with G(v) the misses per item in the first v of an epoch, G' = 1 - max(0, k - G), as
      the k - G that are left of the epoch's start are read at random times. G reaches k within
      the epoch if k < 1 - 1/e, which gives -k - ln(1 - k), else 1 - (1 - k)(e - 1).
    - RANDOM: G' = 1 - k exp(-G / k) gives -k ln(1 - k + k exp(-1 / k)).

    Scans: k for uniform and MIN; 0 for LRU, FIFO, LFU, CLOCK and SIEVE; RANDOM has the lesser
    root of h = exp(-(1 - h) / k), as an item survives the misses of one round. With replacement:
    k for every policy that only knows the past. A cache that holds the dataset: 1.

    >>> round(expected_hit_ratio("lru", 250, 1000), 4), expected_hit_ratio("uniform", 250, 1000)
    (0.0342, 0.25)
    >>> round(expected_hit_ratio("lru", 2, 4, exact=True) * 24, 9)
    5.0
    """
    if not isinstance(policy, str):
        raise TypeError(f"policy must be a string, not {type(policy).__name__}")
    if policy not in _POLICIES:
        raise ValueError(f"policy={policy!r}: allowed are {', '.join(_POLICIES)}")
    if not isinstance(pattern, str):
        raise TypeError(f"pattern must be a string, not {type(pattern).__name__}")
    if pattern not in _PATTERNS:
        raise ValueError(f"pattern={pattern!r}: allowed are {', '.join(_PATTERNS)}")
    if as_bool(exact, "exact"):
        cache, dataset = (
            as_int(cache, "cache", 1, 2**31),
            as_int(dataset, "dataset", 1, _MOST_EXACT),
        )
    cache, dataset = as_float(cache, "cache"), as_float(dataset, "dataset")
    if not 0 <= cache < math.inf:
        raise ValueError(f"cache={cache}: must be finite and at least 0")
    if not 0 < dataset < math.inf:
        raise ValueError(f"dataset={dataset}: must be finite and above 0")

    known = {"shuffle": _shuffle, "scan": _scan, "replacement": _replacement}[pattern]
    ratio = known(policy, cache, dataset, exact)
    if ratio is None:
        kind = "exact form" if exact else "closed form"
        raise ValueError(f"policy={policy!r}, pattern={pattern!r}: no {kind} is known")
    return min(1.0, max(0.0, ratio))


def _shuffle(policy: str, cache: float, dataset: float, exact: bool) -> float | None:
    k = cache / dataset
    if policy in ("lfu", "sieve", "s3fifo") or (exact and policy in ("fifo", "random")):
        return None
    if k >= 1:
        return 1.0
    if k == 0 or policy in ("uniform", "min"):
        return k
    if policy in ("lru", "clock"):
        return _lru_exactly(int(cache), int(dataset)) if exact else k + (1 - k) * math.log1p(-k)
    if policy == "random":
        return -k * math.log1p(k * math.expm1(-1 / k))
    if k < 1 - math.exp(-1):
        return -k - math.log1p(-k)
    return 1 - (1 - k) * math.expm1(1)


def _lru_exactly(c: int, d: int) -> float:
    """Return the mean over a and b of the probability that a random a-set and a random b-set of d -
    1 items have a union of at most c - 1.

    If the b-set gets one more item, a union of c - 1 grows with probability (d - c) / (d - 1 - b).
    So the probability is 1 minus the sum, over smaller b, of this times the probability of a union
    of exactly c - 1, a value of the hypergeometric distribution. Each such term counts for all
    larger b below c: c - 1 - b times.
    """
    logs = np.array([math.lgamma(n + 1) for n in range(d)])  # of factorials
    beyond = 0.0
    for a in range(c):
        b = np.arange(c - 1 - a, c - 1)
        common = a + b - (c - 1)
        chance = np.exp(
            (logs[a] - logs[common] - logs[a - common])
            + (logs[d - 1 - a] - logs[b - common] - logs[d - c])
            - (logs[d - 1] - logs[b] - logs[d - 1 - b])
        )
        beyond += float(np.sum((c - 1 - b) * (d - c) / (d - 1 - b) * chance))
    return (c * c - beyond) / (d * d)


def _scan(policy: str, cache: float, dataset: float, exact: bool) -> float | None:
    k = cache / dataset
    if policy == "s3fifo":
        return None
    if k >= 1:
        return 1.0
    if policy in ("uniform", "min"):
        return k
    if policy != "random" or k == 0:
        return 0.0
    if exact:
        return None
    # exp((h - 1) / k) - h falls from 0 to its (negative) minimum, and rises to 0 at h = 1: the
    # smaller root is below the minimum.
    low, high = 0.0, 1 + k * math.log(k)
    for _ in range(100):
        middle = (low + high) / 2
        if math.exp((middle - 1) / k) > middle:
            low = middle
        else:
            high = middle
    return low


def _replacement(policy: str, cache: float, dataset: float, exact: bool) -> float | None:
    return None if policy == "min" else cache / dataset
