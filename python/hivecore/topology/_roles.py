"""How many pods of two roles fit on a node together."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from hivecore.topology.topology_request import TopologyRequest, TopologyRole

__all__ = ["pairs_by_node"]

_Ints = npt.NDArray[np.int64]

#: Of (pods, others) that a search has a cell for.
_MOST_PAIRS = 2**20


def pairs_by_node(
    free: Mapping[str, _Ints], nodes: int, request: TopologyRequest, role: TopologyRole
) -> tuple[_Ints, _Ints, _Ints]:
    """Where each node's part begins and the last one ends, pods, and others beside them.

    None of a node's pairs is less than another one of them, and no more than the gang has. For a
    gang that is too large for a search there is one pair, all of it, on the nodes with room for it.
    """
    if (request.pods + 1) * (role.pods + 1) > _MOST_PAIRS:
        where = np.flatnonzero(_has_room_for_all(free, nodes, request, role))
        return _begins(where, nodes), where * 0 + request.pods, where * 0 + role.pods
    alone = [_of(free, nodes, resource) // amount for resource, amount in role.amounts]
    most = min(role.pods, int(np.minimum.reduce(alone).max()))
    best = np.full(nodes, -1)
    found = []
    for others in range(most, -1, -1):
        room = _room_beside(free, nodes, request, role, others)
        where = np.flatnonzero((room > best) & (room + others > 0))
        found.append((where, room[where], where * 0 + others))
        best = np.maximum(best, room)
    of, pods, beside = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(of, kind="stable")
    return _begins(of, nodes), pods[order], beside[order]


def _begins(where: _Ints, nodes: int) -> _Ints:
    return np.concatenate(([0], np.cumsum(np.bincount(where, minlength=nodes))))


def _room_beside(
    free: Mapping[str, _Ints],
    nodes: int,
    request: TopologyRequest,
    role: TopologyRole,
    others: int,
) -> _Ints:
    """How many pods fit on each node beside so many others; -1: those do not fit."""
    room = np.full(nodes, request.pods)
    pods, beside = dict(request.amounts), dict(role.amounts)
    for resource in {*pods, *beside}:
        left = _of(free, nodes, resource) - others * beside.get(resource, 0)
        if resource in pods:
            room = np.minimum(room, left // pods[resource])
        room = np.where(left < 0, -1, room)
    return room


def _has_room_for_all(
    free: Mapping[str, _Ints], nodes: int, request: TopologyRequest, role: TopologyRole
) -> npt.NDArray[np.bool_]:
    needed = {resource: request.pods * amount for resource, amount in request.amounts}
    for resource, amount in role.amounts:
        needed[resource] = needed.get(resource, 0) + role.pods * amount
    has = np.ones(nodes, dtype=bool)
    for resource, amount in needed.items():
        has &= _of(free, nodes, resource) >= min(amount, 2**62 + 1)
    return has


def _of(free: Mapping[str, _Ints], nodes: int, resource: str) -> _Ints:
    return free[resource] if resource in free else np.zeros(nodes, dtype=np.int64)
