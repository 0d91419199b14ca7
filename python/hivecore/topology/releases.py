"""The cheapest owners whose end would let a gang in, tried on copies.

In a domain that has to hold all pods, owners give back slots when they end, and cost the pods that
they have. Where a pod takes one of something, what they give back adds up, and the cheapest cover
of what is missing is the cheapest change. Elsewhere the cover is one that may do; the sets of
owners of domains that have few of them are tried in the order of their cost until one is found, or
too many were tried; and of many owners those with fewest pods are let go first.
"""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hivecore.topology.topology_request import TopologyRequest

__all__ = ["Gains", "Leavers"]

_FEW = 8  # owners of a domain
_MOST_CELLS = 10**7  # of a table of owners and slots
_MOST_COVERS = 16  # that are tried
_MOST_SETS = 1000  # of few owners, that are tried

#: How many pods owners have together, and their names.
_Choice = tuple[int, tuple[str, ...]]
#: By domain and owner.
Gains = dict[int, dict[str, int]]


class Leavers(NamedTuple):
    """The owners of a network, and what their end would give a gang."""

    request: TopologyRequest
    pods: dict[str, int]
    """How many each owner has."""
    slots: list[int]
    """Of each domain one of which must hold all."""
    gains: Gains
    """How many more slots each of these would have."""
    adds_up: bool
    """Whether a pod takes one of a single resource."""
    fits_without: Callable[[TopologyRequest, Iterable[str]], bool]
    """Whether a request could be placed after the end of some owners."""

    def are_enough(self, names: Iterable[str]) -> bool:
        """Whether the end of these owners lets the gang in."""
        return self.fits_without(self.request, names)

    def cheapest(self) -> _Choice | None:
        """How many pods the cheapest owners have whose end would let the gang in, and their names;
        ``None``: even the end of all would not.
        """
        pods, gains, request = self.pods, self.gains, self.request
        if not self.are_enough(pods):
            return None
        best = None
        if request.role is None and not (request.multiple or request.per_domain):
            covers = [_cover(request.pods - self.slots[one], gains[one], pods) for one in gains]
            sets = sorted(one for one in covers if one is not None)[:_MOST_COVERS]
            best = next((one for one in sets if self.are_enough(one[1])), None)
        if best is not None and self.adds_up:
            return best
        for choice in sorted(_small_sets(gains, pods))[:_MOST_SETS]:
            if best is not None and choice[0] >= best[0]:
                break
            if self.are_enough(choice[1]):
                return choice
        if best is not None:
            return best
        found = [self._search(of) for of in gains.values() if len(of) > _FEW]
        return min((one for one in found if one is not None), default=None)

    def _search(self, owners: Iterable[str]) -> _Choice | None:
        """Of the owners in a domain few whose end is enough."""
        names = tuple(sorted(owners, key=lambda name: (self.pods[name], name)))
        if not self.are_enough(names):
            return None
        low, high = 0, len(names)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.are_enough(names[:middle]) else (middle, high)
        leaving = names[:high]
        for name in reversed(leaving):
            fewer = tuple(one for one in leaving if one != name)
            if self.are_enough(fewer):
                leaving = fewer
        return sum(self.pods[name] for name in leaving), tuple(sorted(leaving))


def _small_sets(gains: Gains, pods: dict[str, int]) -> set[_Choice]:
    """All sets of the owners of domains that have few."""
    return {
        (sum(pods[name] for name in some), tuple(sorted(some)))
        for of in gains.values()
        if len(of) <= _FEW
        for size in range(1, len(of) + 1)
        for some in combinations(of, size)
    }


def _cover(lack: int, gains: dict[str, int], pods: dict[str, int]) -> _Choice | None:
    """The owners with fewest pods in all that give back so many slots; ``None``: all do not, or
    there are too many to be compared.
    """
    names = sorted(gains)
    if sum(gains.values()) < lack or len(names) * (lack + 1) > _MOST_CELLS:
        return None
    least: npt.NDArray[np.int64] = np.full(lack + 1, 2**62)  # by slots
    least[0] = 0
    taken = np.zeros((len(names), lack + 1), dtype=bool)
    for row, name in enumerate(names):
        gain = min(gains[name], lack)
        with_it = np.concatenate((np.full(gain, least[0]), least[: lack + 1 - gain])) + pods[name]
        with_it[0] = 0
        taken[row] = with_it < least
        least = np.minimum(least, with_it)
    chosen = []
    for row in range(len(names) - 1, -1, -1):
        if taken[row, lack]:
            chosen.append(names[row])
            lack = max(0, lack - gains[names[row]])
    return int(least[-1]), tuple(sorted(chosen))
