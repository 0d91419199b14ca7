"""Why a graph has no perfect matching: what to take away to see it."""

import numpy as np

from hivecore.errors import NoPerfectMatchingError
from hivecore.matching.graph import Graph, Int64

__all__ = ["edges_of", "explain_no_perfect_matching"]

_NAMED = 10  # vertices in a message; the error itself carries all


def edges_of(graph: Graph) -> tuple[Int64, Int64]:
    """All edges, once, the smaller vertex first."""
    u, v = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for block in graph.blocks():
        once = np.nonzero(block.present & (block.u < block.v))
        u.append(np.broadcast_to(block.u, block.present.shape)[once])
        v.append(np.broadcast_to(block.v, block.present.shape)[once])
    return np.concatenate(u), np.concatenate(v)


def explain_no_perfect_matching(n: int, u: Int64, v: Int64, duals: Int64) -> NoPerfectMatchingError:
    """The error that names an odd component, or a set that too many odd components depend on.

    :param duals: of a maximum-weight matching of the edges (u, v), all of weight 1.

    Each dual is then 0, 1 or 2. Without the vertices of dual 2 every component holds at most one
    vertex that is free or matched with one of them: it would otherwise lie in one blossom with the
    other. So there are as many odd components as there are free vertices and vertices of dual 2.
    Source: Tutte (1947), Berge (1958); Cunningham and Marsh (1978) for the duals.
    """
    removed = np.zeros(0, dtype=np.int64)
    odd = _odd_components(n, u, v, removed)
    if odd:
        first, size = odd[0][0], len(odd[0])
        message = f"the component of vertex {first} has {size} vertices, an odd number"
        if size == 1:
            message = f"vertex {first} has no edge"
        return NoPerfectMatchingError(message, (), odd)
    removed = np.flatnonzero(duals == 2)
    odd = _odd_components(n, u, v, removed)
    named = ", ".join(map(str, removed[:_NAMED].tolist()))
    if len(removed) > _NAMED:
        named += ", ..."
    return NoPerfectMatchingError(
        f"without the vertices {{{named}}}, {len(removed)} in number, {len(odd)} components of odd "
        "size are left over, and each needs one of them",
        removed.tolist(),
        odd,
    )


def _odd_components(n: int, u: Int64, v: Int64, removed: Int64) -> list[list[int]]:
    """The components of odd size that are left without some vertices, by their lowest vertex."""
    kept = np.ones(n, dtype=np.bool_)
    kept[removed] = False
    inside = kept[u] & kept[v]
    u, v = u[inside], v[inside]
    # Every vertex points to a lower one of its component or to itself, in the end to the lowest.
    low = np.arange(n)
    while (low[u] != low[v]).any():
        least = np.minimum(low[u], low[v])
        np.minimum.at(low, low[u], least)
        np.minimum.at(low, low[v], least)
        while (low[low] != low).any():
            low = low[low]
    order = np.argsort(low, kind="stable")
    order = order[kept[order]]
    starts = np.flatnonzero(np.diff(low[order], prepend=-1))
    parts = np.split(order, starts[1:])
    return [part.tolist() for part in parts if len(part) % 2]
