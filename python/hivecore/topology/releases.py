"""Who would have to end so that a gang can be placed: the cheapest owners, tried on copies.

In a domain that has to hold all pods, owners give back slots when they end, and cost the pods that
they have. Where a pod takes one of something, what they give back adds up, and the cheapest cover
of what is missing is the cheapest change. Elsewhere the cover is one that may do; the sets of
owners of domains that have few of them are tried in the order of their cost until one is found, or
too many were tried; and of many owners those with fewest pods are let go first.
"""

from collections.abc import Iterable
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from hivecore.topology.network_topology import NetworkTopology
    from hivecore.topology.topology_request import TopologyRequest

__all__ = ["Gains", "cheapest_release"]

_FEW = 8  # owners of a domain
_MOST_CELLS = 10**7  # of a table of owners and slots
_MOST_COVERS = 16  # that are tried
_MOST_SETS = 1000  # of few owners, that are tried

#: What owners have together, and who they are.
_Choice = tuple[int, tuple[str, ...]]
#: By domain and owner.
Gains = dict[int, dict[str, int]]


def cheapest_release(
    network: "NetworkTopology", request: "TopologyRequest", slots: list[int], gains: Gains
) -> _Choice | None:
    """How many pods the cheapest owners have whose end would let a gang in, and their names;
    ``None``: even the end of all would not.

    :param slots: of each domain one of which must hold all.
    :param gains: how many more slots each of these would have.
    """
    pods = {name: _pods(network, name) for name in network.owners}
    if not pods or not _fits_without(network, request, tuple(pods)):
        return None
    best = None
    is_plain = request.role is None and not request.multiple
    if is_plain:
        covers = [_cover(request.pods - slots[one], gains[one], pods) for one in gains]
        sets = sorted(one for one in covers if one is not None)[:_MOST_COVERS]
        best = next((one for one in sets if _fits_without(network, request, one[1])), None)
    is_one = [amount for _, amount in request.amounts] == [1] and not network._free.fine
    if best is not None and is_one:
        return best
    for choice in sorted(_small_sets(gains, pods))[:_MOST_SETS]:
        if best is not None and choice[0] >= best[0]:
            break
        if _fits_without(network, request, choice[1]):
            return choice
    if best is not None:
        return best
    found = [_search(network, request, of, pods) for of in gains.values() if len(of) > _FEW]
    return min((one for one in found if one is not None), default=None)


def _small_sets(gains: Gains, pods: dict[str, int]) -> set[_Choice]:
    """All sets of the owners of domains that have few."""
    return {
        (sum(pods[name] for name in some), tuple(sorted(some)))
        for of in gains.values()
        if len(of) <= _FEW
        for size in range(1, len(of) + 1)
        for some in combinations(of, size)
    }


def _pods(network: "NetworkTopology", name: str) -> int:
    return sum(one.pods + one.others for one in network.placement(name))


def _cover(lack: int, gains: dict[str, int], pods: dict[str, int]) -> _Choice | None:
    """The owners with fewest pods in all that give back so many slots; ``None``: all do not, or
    there are too many to be compared.
    """
    names = sorted(name for name, gain in gains.items() if gain > 0)
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


def _fits_without(
    network: "NetworkTopology", request: "TopologyRequest", leaving: tuple[str, ...]
) -> bool:
    branch = network.copy()
    for name in leaving:
        branch.release(name)
    return branch.fits(request)


def _search(
    network: "NetworkTopology",
    request: "TopologyRequest",
    owners: Iterable[str],
    pods: dict[str, int],
) -> _Choice | None:
    """Of the owners in a domain few whose end is enough."""
    names = tuple(sorted(owners, key=lambda name: (pods[name], name)))
    if not _fits_without(network, request, names):
        return None
    low, high = 0, len(names)
    while high - low > 1:
        middle = (low + high) // 2
        fits = _fits_without(network, request, names[:middle])
        low, high = (low, middle) if fits else (middle, high)
    leaving = names[:high]
    for name in reversed(leaving):
        fewer = tuple(one for one in leaving if one != name)
        if fewer and _fits_without(network, request, fewer):
            leaving = fewer
    return sum(pods[name] for name in leaving), tuple(sorted(leaving))
