"""The past usage of quotas; what is longer ago counts less."""

from bisect import insort
from collections.abc import Mapping
from math import isqrt
from typing import Self

from hivecore._arguments import as_int, as_mapping, as_name
from hivecore._stateful import Branching, counted, shown
from hivecore.quotas._amounts import MOST

__all__ = ["UsageHistory"]

_STEPS = 1024  # of a half-life
_ONE = 1 << 62


def _powers() -> list[int]:
    """2^(-j / 1024) in units of 2^-62, rounded down, by square roots of integers alone."""
    exact = 1 << 256
    root = exact // 2
    for _ in range(10):
        root = isqrt(root * exact)
    powers = [exact]
    for _ in range(_STEPS):
        powers.append(powers[-1] * root // exact)
    return [value >> 194 for value in powers]


_POWERS = _powers()


class UsageHistory(Branching):
    """The usage of quotas in one dimension, which decays with a half-life.

    :param half_life: usage counts half after this time, in the caller's unit of time.
    :raises ValueError: ``half_life`` is below 1.
    :raises TypeError: ``half_life`` is no integer.

    The caller records each change of a usage, in any order; a result depends on these records
    alone, and is computed in integers. Constant usage counts as itself. Changes more than 62
    half-lives ago are forgotten. One thread at a time may use it. Source: time-based fair share of
    KAI and Kueue.

    >>> from hivecore.quotas import UsageHistory
    >>> history = UsageHistory(half_life=3600)
    >>> history.record("vision", 0, 64)
    >>> history.record("vision", 3600, 0)
    >>> history.usage("vision", 3600), history.usage("vision", 7200)
    (32, 16)
    >>> history.weights({"vision": 1, "speech": 1}, 3600)       # the least used gets most
    {'vision': 0, 'speech': 1000000}
    """

    def __init__(self, half_life: int) -> None:
        self._half_life = as_int(half_life, "half_life", 1, 2**40)
        self._changes: dict[str, list[tuple[int, int]]] = {}

    def __repr__(self) -> str:
        return shown(self, f"half_life={self._half_life}", counted(len(self._changes), "quota"))

    def copy(self) -> Self:
        """An independent copy."""
        branch = type(self)(self._half_life)
        branch._changes = {name: list(changes) for name, changes in self._changes.items()}
        return branch

    def record(self, name: str, now: int, used: int) -> None:
        """Record that a quota uses ``used`` from a time on; of several records of one time the
        largest.

        :raises ValueError: a number is not from 0 to 2**62.
        :raises TypeError: an argument is of a wrong type.
        """
        name = as_name(name, "name")
        change = as_int(now, "now", 0, MOST), as_int(used, "used", 0, MOST)
        changes = self._changes.setdefault(name, [])
        insort(changes, change)
        horizon = changes[-1][0] - 62 * self._half_life
        while len(changes) > 1 and changes[1][0] < horizon:
            del changes[0]

    def usage(self, name: str, now: int) -> int:
        """The decayed usage of a quota at a time, rounded down; 0 for an unknown quota.

        :raises ValueError: ``now`` is not from 0 to 2**62.
        :raises TypeError: an argument is of a wrong type.
        """
        name, moment = as_name(name, "name"), as_int(now, "now", 0, MOST)
        changes = [change for change in self._changes.get(name, []) if change[0] <= moment]
        ends = [begin for begin, _ in changes[1:]] + [moment]
        counted = 0
        for (begin, used), end in zip(changes, ends, strict=False):
            counted += used * (self._left(moment - end) - self._left(moment - begin))
        return counted // _ONE

    def weights(self, weights: Mapping[str, int], now: int, *, k: int = 1) -> dict[str, int]:
        """Weights of competing quotas, lower for those that have used more.

        :param weights: the weight of each quota, 0 to 2**62.
        :param k: how strongly past usage counts, 0 to 1000.
        :returns: in millionths, max(0, w + k (w - u)); w and u are the quota's parts of all weights
            and of all usage.
        :raises ValueError: a number is out of range.
        :raises TypeError: an argument is of a wrong type.
        """
        given = {
            as_name(name, "weights"): as_int(weight, f"weights[{name!r}]", 0, MOST)
            for name, weight in as_mapping(weights, "weights").items()
        }
        k = as_int(k, "k", 0, 1000)
        used = {name: self.usage(name, now) for name in given}
        of_weights, of_use = max(sum(given.values()), 1), max(sum(used.values()), 1)
        return {
            name: max(
                0,
                10**6
                * ((1 + k) * weight * of_use - k * used[name] * of_weights)
                // (of_weights * of_use),
            )
            for name, weight in given.items()
        }

    def _left(self, age: int) -> int:
        """What is left of 1 after a time, in units of 2^-62; it never grows with the age."""
        halvings, rest = divmod(age, self._half_life)
        return _POWERS[rest * _STEPS // self._half_life] >> halvings if halvings < 62 else 0
