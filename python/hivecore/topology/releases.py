"""The cheapest owners whose end would admit a gang, tried on copies.

Owners of the domain that must hold all pods give back slots, and cost the pods that they have. If a
pod takes one unit of a single resource, what owners give back adds up, and the cheapest cover of
the missing slots is the cheapest change. Else a cover is only a candidate: in domains with few
owners, sets of owners are tried in the order of their cost, up to a limit; in domains with many,
owners with the fewest pods go first.
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
_MOST_COVERS = 16  # to try
_MOST_SETS = 1000  # of few owners, to try

#: (pods of all these owners, their names).
_Choice = tuple[int, tuple[str, ...]]
#: Slots by domain and owner.
Gains = dict[int, dict[str, int]]


class Leavers(NamedTuple):
    """The owners that have resources of a network, and how many slots more a gang has if some of
    them end.
    """

    request: TopologyRequest
    pods: dict[str, int]
    """The number of pods of each owner."""
    slots: list[int]
    """The slots of each domain of which one must hold all pods."""
    gains: Gains
    """How many more slots each of these has if an owner ends."""
    adds_up: bool
    """Whether a pod takes one unit of a single resource."""
    fits_without: Callable[[TopologyRequest, Iterable[str]], bool]
    """Whether a request can be placed after some owners ended."""

    def are_enough(self, names: Iterable[str]) -> bool:
        """Whether the end of these owners admits the gang."""
        return self.fits_without(self.request, names)

    def cheapest(self) -> _Choice | None:
        """The cheapest owners whose end would admit the gang; ``None``: not even the end of all."""
        pods, gains, request = self.pods, self.gains, self.request
        if not self.are_enough(pods):
            return None
        best = None
        if request.role is None and not (request.multiple or request.per_domain):
            covers = [_cover(request.pods - self.slots[at], gains[at], pods) for at in gains]
            sets = sorted(cover for cover in covers if cover is not None)[:_MOST_COVERS]
            best = next((choice for choice in sets if self.are_enough(choice[1])), None)
        if best is not None and self.adds_up:
            return best
        for choice in sorted(_small_sets(gains, pods))[:_MOST_SETS]:
            if best is not None and choice[0] >= best[0]:
                break
            if self.are_enough(choice[1]):
                return choice
        if best is not None:
            return best
        choices = [self._search(of) for of in gains.values() if len(of) > _FEW]
        return min((choice for choice in choices if choice is not None), default=None)

    def _search(self, owners: Iterable[str]) -> _Choice | None:
        """A small set of the owners of a domain whose end is enough."""
        names = tuple(sorted(owners, key=lambda name: (self.pods[name], name)))
        if not self.are_enough(names):
            return None
        low, high = 0, len(names)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.are_enough(names[:middle]) else (middle, high)
        leaving = names[:high]
        for name in reversed(leaving):
            fewer = tuple(other for other in leaving if other != name)
            if self.are_enough(fewer):
                leaving = fewer
        return sum(self.pods[name] for name in leaving), tuple(sorted(leaving))


def _small_sets(gains: Gains, pods: dict[str, int]) -> set[_Choice]:
    """All sets of owners, of domains with few owners."""
    return {
        (sum(pods[name] for name in some), tuple(sorted(some)))
        for of in gains.values()
        if len(of) <= _FEW
        for size in range(1, len(of) + 1)
        for some in combinations(of, size)
    }


def _cover(lack: int, gains: dict[str, int], pods: dict[str, int]) -> _Choice | None:
    """The owners with the fewest pods in all that give back ``lack`` slots; ``None``: all of them
    are not enough, or they are too many to compare.
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
