"""What the group scheduler is given: a new cluster, and requests in the terms of its planning."""

from collections.abc import Sequence
from typing import NamedTuple

from hivecore.reference.cells.cells import Forest, PhysicalCell, Pool, VirtualCell
from hivecore.reference.cells.leaf_choice import Demand
from hivecore.reference.cells.state import State
from hivecore.reference.cells.unit_choice import Request

__all__ = ["Instance", "instance_of", "new_state", "request_of"]


class Instance(NamedTuple):
    """What one request may use: a tenant's pools in a chain, or one of its pins."""

    vc: int
    chain: int
    pools: tuple[int, ...]
    pinned: bool


def new_state(
    chains: Sequence[tuple[Sequence[int], int, int]],
    pools: Sequence[tuple[int, int, int, int]],
    pins: Sequence[tuple[int, int, int, int]],
) -> State:
    """The state of a new cluster: pins are bound, and all pools can be served."""
    forests: list[Forest] = []
    for number, (fanouts, roots, node_level) in enumerate(chains):
        first = forests[-1].end_leaf if forests else 0
        forests.append(Forest(number, tuple(fanouts), roots, node_level, first))
    owned = [Pool(*pool) for pool in pools]
    owned += [Pool(vc, chain, level, 1, pin=cell) for vc, chain, level, cell in pins]
    state = State(forests, owned)
    for number, (_, chain, level, cell) in enumerate(pins):
        physical = PhysicalCell(chain, level, cell)
        if not state.is_free(physical):
            raise ValueError(f"pins[{number}] must not overlap another pinned cell")
        state.bind(VirtualCell(len(pools) + number, level, 0), physical)
    for forest in forests:
        for level, spare in reversed(list(enumerate(state.surplus(forest.chain)))):
            if spare < 0:
                raise ValueError(
                    f"chain {forest.chain} lacks {-spare} cells of level {level} "
                    "for what the tenants own"
                )
    return state


def instance_of(state: State, vc: int, chain: int, pool: int) -> Instance:
    """The pools that a request may use: ``pool`` is a pin, or -1 for all that are none."""
    if pool >= 0:
        return Instance(vc, chain, (pool,), True)
    owners = enumerate(state.pools)
    own = (number for number, p in owners if (p.vc, p.chain, p.pin) == (vc, chain, None))
    return Instance(vc, chain, tuple(own), False)


def request_of(
    instance: Instance,
    priority: int,
    sizes: Sequence[int],
    within: Sequence[int] | None,
    group_within: int,
    spread: bool,
    merge: bool,
    suggested: Sequence[int] | None,
    units: Sequence[int] | None,
    evictions: int,
    most: Sequence[int] | None,
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
        *instance,
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
