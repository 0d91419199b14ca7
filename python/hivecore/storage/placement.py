"""Locality: nodes for a job near its cached data."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_int
from hivecore.storage._numbers import BYTE, LEAST, as_amount, as_amounts, as_one_shape

__all__ = [
    "Bandwidths",
    "Placement",
    "epoch_cost",
    "place_near_data",
]

_MB = 1000.0  # MB per GB
_MOST_GPUS = 1024  # of a node
_PEER_WEIGHT = 1.0
_REMOTE_WEIGHT = 10.0


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """What a job reads per second, in MB/s, at least 1e-15; infinite without a limit."""

    local_mbps: float
    """From the disk or memory of its own nodes."""
    peer_mbps: float
    """Over the network from the caches of other nodes."""
    remote_mbps: float
    """From remote storage: the rate granted to the job."""

    def __post_init__(self) -> None:
        for name in ("local_mbps", "peer_mbps", "remote_mbps"):
            as_amount(getattr(self, name), name, LEAST, math.inf)


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes for a job, and the sources of its bytes in an epoch."""

    nodes: tuple[int, ...]
    """Ascending."""
    gpus: tuple[int, ...]
    """The number of GPUs on each of the nodes."""
    fragmentation: int
    """GPUs left free on these nodes."""
    local_gb: float
    """Expected GB of an epoch from the reading node's own cache."""
    peer_gb: float
    """Expected GB from caches of other nodes."""
    remote_gb: float
    """Expected GB from remote storage."""
    cost: float
    """Expected seconds per epoch, or a weight without bandwidths, see `epoch_cost`."""


def epoch_cost(
    local_gb: npt.ArrayLike,
    peer_gb: npt.ArrayLike,
    remote_gb: npt.ArrayLike,
    bandwidths: Bandwidths | None = None,
) -> npt.NDArray[np.float64]:
    """Return the seconds of an epoch, ``local / B_local + peer / B_peer + remote / B_remote``.

    Without bandwidths, weights of 0, 1 and 10 per GB replace them.

    :param local_gb: GB from the node's own cache, an array that broadcasts with the others.
    :param peer_gb: GB from caches of other nodes.
    :param remote_gb: GB from remote storage.
    :raises ValueError: an amount is negative or not finite, or the shapes do not broadcast.
    :raises TypeError: an argument does not hold numbers.

    >>> float(epoch_cost(10, 20, 30)), float(epoch_cost(10, 20, 30, Bandwidths(2000, 1000, 100)))
    (320.0, 325.0)
    """
    near, far = as_amounts(local_gb, "local_gb"), as_amounts(peer_gb, "peer_gb")
    away = as_amounts(remote_gb, "remote_gb")
    near, far, away = as_one_shape(near, far, away)
    if bandwidths is None:
        return np.asarray(0.0 * near + _PEER_WEIGHT * far + _REMOTE_WEIGHT * away)
    _need_bandwidths(bandwidths)
    return np.asarray(
        _MB * near / bandwidths.local_mbps
        + _MB * far / bandwidths.peer_mbps
        + _MB * away / bandwidths.remote_mbps
    )


def place_near_data(
    cached_gb: npt.ArrayLike,
    free: npt.ArrayLike,
    gpus: int,
    dataset_gb: float,
    *,
    replicas: float = 1.0,
    bandwidths: Bandwidths | None = None,
) -> Placement | None:
    """Return the best nodes for a job by local bytes, then fewest nodes, least fragmentation,
    lowest ids.

    Each item of an epoch is read by a random GPU, so a node with g GPUs reads ``g / gpus`` of what
    it caches locally; the sum over nodes counts as local bytes. The answer is the exact optimum of
    the four criteria in this order: GPUs go to the nodes that cache most (a fractional knapsack),
    with a choice only among nodes that cache as much as the last one. ``None`` if there are not
    enough free GPUs.

    :param cached_gb: GB of the job's dataset that each of the n nodes caches, shape (n,).
    :param free: free GPUs of each node, n integers from 0 to 1024.
    :param gpus: GPUs that the job needs, >= 1.
    :param dataset_gb: size of the dataset in GB, at least 1e-9; no node caches more.
    :param replicas: mean number of copies of cached data, >= 1.
    :param bandwidths: for ``cost``; by default weights, see `epoch_cost`.
    :raises ValueError: lengths differ or a value is out of range.
    :raises TypeError: an argument has a wrong type.

    Ties break by the lexicographically lowest node ids. Cost: O(n log n + n * g) for g GPUs of a
    node, with words of g bits. Source: the locality preference of SiloD's scheduler plug-in; Fluid
    uses affinity to cache nodes.

    >>> place_near_data([0, 60, 0, 60, 0], [4, 4, 8, 2, 4], gpus=6, dataset_gb=120).nodes
    (1, 3)
    >>> place_near_data([0, 60, 0, 60, 0], [4, 4, 8, 2, 4], gpus=10, dataset_gb=120).nodes
    (0, 1, 3)
    """
    each = as_amounts(cached_gb, "cached_gb")
    size = as_amount(dataset_gb, "dataset_gb", BYTE)
    copies = as_amount(replicas, "replicas", 1.0)
    needed = as_int(gpus, "gpus", 1, 2**31)
    room = np.asarray(free)
    if each.ndim != 1 or room.shape != each.shape:
        raise ValueError(
            f"cached_gb and free must have one element per node: {each.shape}, {room.shape}"
        )
    if room.size and room.dtype.kind not in "iu":
        raise TypeError(f"free must hold integers, not {room.dtype}")
    if ((room < 0) | (room > _MOST_GPUS)).any():
        node = int(np.argmax((room < 0) | (room > _MOST_GPUS)))
        raise ValueError(f"free[{node}]={room[node]}: allowed are 0 to {_MOST_GPUS}")
    if (each > size).any():
        node = int(np.argmax(each))
        raise ValueError(f"cached_gb[{node}]={each[node]}: more than the dataset, {size}")
    if sum(room.tolist()) < needed:
        return None

    spaces = room.tolist()
    taken: dict[int, int] = {}
    order = np.lexsort((np.arange(len(spaces)), -each)).tolist()
    for _, group in groupby((node for node in order if spaces[node]), each.__getitem__):
        equals = list(group)
        if sum(spaces[node] for node in equals) > needed:
            equals = [equals[i] for i in _tightest([spaces[node] for node in equals], needed)]
        for node in equals:
            taken[node] = min(spaces[node], needed)
            needed -= taken[node]
        if needed == 0:
            break

    nodes = tuple(sorted(taken))
    local = sum(taken[node] * float(each[node]) for node in nodes) / sum(taken.values())
    distinct = max(min(size, float(each.sum()) / copies), local)
    return Placement(
        nodes,
        tuple(taken[node] for node in nodes),
        sum(int(room[node]) - taken[node] for node in nodes),
        local,
        distinct - local,
        size - distinct,
        float(epoch_cost(local, distinct - local, size - distinct, bandwidths)),
    )


def _tightest(spaces: Sequence[int], needed: int) -> list[int]:
    """Return positions of the fewest spaces that sum to `needed`, with the least sum, lowest first.

    The `fewest` largest spaces sum to `needed + slack`, where slack is less than the smallest of
    them, the pivot. Any other choice of as many omits some larger than the pivot or takes some
    smaller; each lowers the sum by its distance from the pivot, and spaces as large as the pivot
    complete the number. So it is a small knapsack: distances with the largest sum within the slack.
    """
    largest = sorted(spaces, reverse=True)
    fewest, total = 0, 0
    while total < needed:
        total += largest[fewest]
        fewest += 1
    slack, pivot = total - needed, largest[fewest - 1]
    fillers = fewest - sum(space > pivot for space in spaces)  # if all larger ones are taken

    # reach[i][d]: bit c is set if from position i on, distances can sum to c with d more larger
    # ones omitted than smaller ones taken (from -slack on, as list indices). Where d would exceed
    # the list, c exceeds the slack.
    within = (2 << slack) - 1
    here = [0] * (2 * slack + 1)
    here[0] = 1
    reach, left = [here], [0]  # left: spaces as large as the pivot, from here on
    for space in reversed(spaces):
        if space != pivot:
            distance = abs(space - pivot)
            step = (space - pivot) // distance
            before = here[-step:] + here[:-step]
            here = [
                bits | more << distance & within for bits, more in zip(here, before, strict=True)
            ]
        reach.append(here)
        left.append(left[-1] + (space == pivot))
    reach.reverse()
    left.reverse()

    def sums(position: int, more: int) -> Iterator[int]:
        """Return the possible sums of distances from here on, with `more` fillers still to take."""
        half = range(-slack, slack + 1)
        return (reach[position][d] for d in half if 0 <= more + d <= left[position])

    rest = max(bits.bit_length() for bits in sums(0, fillers)) - 1
    chosen: list[int] = []
    for position, space in enumerate(spaces):
        # Taking or omitting this one: how many fillers and how much distance are then missing.
        larger, smaller = max(space - pivot, 0), max(pivot - space, 0)
        distance, more = rest - smaller, fillers - (larger == 0)
        if distance >= 0 and any(bits >> distance & 1 for bits in sums(position + 1, more)):
            chosen.append(position)
            fillers, rest = more, distance
        else:
            fillers, rest = fillers + (larger > 0), rest - larger
    return chosen


def _need_bandwidths(value: object) -> None:
    if not isinstance(value, Bandwidths):
        raise TypeError(f"bandwidths must be Bandwidths, not {type(value).__name__}")
