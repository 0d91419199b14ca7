"""Nested sets as a forest: per element the innermost set, per set the one around it.

The sets are numbered such that parents come before their children; -1 is outside of all. So sums
up and down the forest are one loop, however deep it is.
"""

import numpy as np

from hivecore.matching.graph import Int64

__all__ = ["Forest", "sums_from_leaves", "sums_from_roots"]


def sums_from_leaves(parents: Int64, at: Int64) -> list[int]:
    """How many of the sets ``at`` each set holds, itself included; -1 is held by none."""
    sums: list[int] = np.bincount(at[at >= 0], minlength=len(parents)).tolist()
    for child, parent in zip(reversed(range(len(sums))), reversed(parents.tolist()), strict=True):
        if parent >= 0:
            sums[parent] += sums[child]
    return sums


def sums_from_roots(parents: Int64, values: Int64) -> list[int]:
    """The sum of the values of each set and all sets around it; 0 for -1, which comes last."""
    sums: list[int] = [0] * (len(parents) + 1)
    for child, (parent, value) in enumerate(zip(parents.tolist(), values.tolist(), strict=True)):
        sums[child] = sums[parent] + value
    return sums


class Forest:
    """Finds the innermost set around two elements, for many pairs at once."""

    def __init__(self, innermost: Int64, parents: Int64) -> None:
        self._innermost = innermost
        self._depth = np.array(sums_from_roots(parents, np.ones_like(parents)))
        self._above = [np.append(parents, -1)]  # above[j]: 2**j levels up
        while 1 << len(self._above) <= self._depth.max():
            self._above.append(self._above[-1][self._above[-1]])

    def around(self, u: Int64, v: Int64) -> Int64:
        """The innermost set that holds both ``u[i]`` and ``v[i]``; -1: none."""
        a, b = self._innermost[u], self._innermost[v]
        swap = self._depth[a] < self._depth[b]
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        deeper = self._depth[a] - self._depth[b]
        for j, above in enumerate(self._above):
            a = np.where(deeper >> j & 1, above[a], a)
        for above in reversed(self._above):
            apart = above[a] != above[b]
            a, b = np.where(apart, above[a], a), np.where(apart, above[b], b)
        return np.where(a == b, a, self._above[0][a])
