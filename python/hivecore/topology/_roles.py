"""How many pods of two roles fit on a node together."""

import numpy as np
import numpy.typing as npt

from hivecore.topology._free import Free, Ints, together
from hivecore.topology.topology_request import TopologyRequest, TopologyRole

__all__ = ["most_of", "pairs_by_node"]

#: Of (pods, others) that a search has a cell for.
_MOST_PAIRS = 2**20


def pairs_by_node(
    free: Free, request: TopologyRequest, role: TopologyRole, limits: Ints | None
) -> tuple[Ints, Ints, Ints]:
    """The possible (pods, others) of each node: where each node's pairs begin (and the last end),
    pods, others.

    :param limits: see `most_of`; ``None``: none.

    No pair of a node is dominated by another one, and none exceeds the gang. If the gang is too
    large for a search, the only pair is the whole gang, on the nodes with room for it.
    """
    if (request.pods + 1) * (role.pods + 1) > _MOST_PAIRS:
        has_room = _has_room_for_all(free, request, role)
        if limits is not None:
            has_room &= _most_beside(limits, role.pods) >= request.pods
        where = np.flatnonzero(has_room)
        return _begins(where, free.nodes), where * 0 + request.pods, where * 0 + role.pods
    alone = [free.of(resource) // amount for resource, amount in free.counted(role.amounts)]
    most = min(role.pods, int(np.minimum.reduce(alone).max()))
    best = np.full(free.nodes, -1)
    columns = []
    for others in range(most, -1, -1):
        room = _room_beside(free, request, role, others)
        if limits is not None:
            room = np.minimum(room, _most_beside(limits, others))
        where = np.flatnonzero((room > best) & (room + others > 0))
        columns.append((where, room[where], where * 0 + others))
        best = np.maximum(best, room)
    of, pods, beside = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(of, kind="stable")
    return _begins(of, free.nodes), pods[order], beside[order]


def _most_beside(limits: Ints, others: int) -> Ints:
    """The most pods of each node with this number of others; negative: not with so many."""
    if limits.ndim == 1:
        return limits - others
    return limits[others] if others < len(limits) else np.full_like(limits[0], -1)


def most_of(limits: Ints) -> tuple[Ints, Ints]:
    """The most pods, and the most others, of each node.

    :param limits: int[nodes]: of both together; int[k, nodes]: of pods with 0 to k - 1 others, -1:
        not with so many.
    """
    if limits.ndim == 1:
        both = np.maximum(limits, 0)
        return both, both
    beside = np.arange(len(limits))[:, np.newaxis]
    return limits.max(axis=0, initial=0), np.where(limits < 0, 0, beside).max(axis=0, initial=0)


def _begins(where: Ints, nodes: int) -> Ints:
    return np.concatenate(([0], np.cumsum(np.bincount(where, minlength=nodes))))


def _room_beside(free: Free, request: TopologyRequest, role: TopologyRole, others: int) -> Ints:
    """How many pods fit on each node with this number of others; -1: those do not fit."""
    room = np.full(free.nodes, request.pods)
    pods, beside = dict(free.counted(request.amounts)), dict(free.counted(role.amounts))
    for resource in {*pods, *beside}:
        left = free.of(resource) - others * beside.get(resource, 0)
        if resource in pods:
            room = np.minimum(room, left // pods[resource])
        room = np.where(left < 0, -1, room)
    return room


def _has_room_for_all(
    free: Free, request: TopologyRequest, role: TopologyRole
) -> npt.NDArray[np.bool_]:
    amounts, more = free.counted(request.amounts), free.counted(role.amounts)
    needed = together(amounts, request.pods, more, role.pods)
    has = np.ones(free.nodes, dtype=bool)
    for resource, amount in needed.items():
        has &= free.of(resource) >= min(amount, 2**62 + 1)
    return has
