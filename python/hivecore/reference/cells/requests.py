"""What the group scheduler is given: a new cluster, and requests in the terms of its planning."""

from collections.abc import Sequence

from hivecore.reference.cells.cells import Forest, PhysicalCell, Pool, VirtualCell
from hivecore.reference.cells.leaf_choice import Demand
from hivecore.reference.cells.state import State
from hivecore.reference.cells.unit_choice import Request

__all__ = ["new_state", "pools_of", "request_of"]


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
