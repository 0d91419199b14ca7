"""The arguments of `GroupScheduler.schedule`, in the terms of the planning."""

from collections.abc import Sequence

from hivecore.reference.cells.leaf_choice import Demand
from hivecore.reference.cells.state import State
from hivecore.reference.cells.unit_choice import PACKING, Request

__all__ = ["pools_of", "request_of"]


def pools_of(state: State, vc: int, chain: int, pool: int) -> tuple[int, ...]:
    """The pools that a request may use: ``pool`` is a pin, or -1 for all that are none."""
    if pool >= 0:
        return (pool,)
    owners = enumerate(state.pools)
    return tuple(n for n, p in owners if (p.vc, p.chain, p.pin) == (vc, chain, None))


def request_of(
    state: State,
    vc: int,
    chain: int,
    pool: int,
    priority: int,
    sizes: Sequence[int],
    within: Sequence[int] | None,
    group_within: int,
    spread: bool,
    merge: bool,
    suggested: Sequence[int] | None,
    units: Sequence[int] | None,
    evictions: int = PACKING,
    most: Sequence[int] | None = None,
) -> Request:
    """The request; its pods ascend in size."""
    allowed = None if suggested is None else frozenset(suggested)
    if most is not None and all(pods >= len(sizes) for pods in most):
        most = None
    elif most is not None:
        named = range(len(most)) if allowed is None else allowed
        allowed = frozenset(node for node in named if most[node] > 0)
    levels = [-1] * len(sizes) if within is None else within
    demands = map(Demand, sizes, levels, range(len(sizes)))
    return Request(
        vc,
        chain,
        pools_of(state, vc, chain, pool),
        priority,
        tuple(sorted(demands, key=lambda demand: (demand.leaves, demand.position))),
        group_within,
        spread,
        merge,
        allowed,
        None if units is None else tuple(units),
        evictions,
        None if most is None else tuple(most),
    )
