"""What the group scheduler is given, checked: shapes, requests, leaves. Wrong input: ValueError."""

from collections.abc import Sequence
from typing import NamedTuple

from hivecore.reference.cells.group_cells import Forest, PhysicalCell, Pool, VirtualCell
from hivecore.reference.cells.group_choice import Request
from hivecore.reference.cells.group_leaves import Demand
from hivecore.reference.cells.group_state import State

__all__ = [
    "Instance",
    "check_leaves",
    "check_priority",
    "check_range",
    "checked_instance",
    "checked_request",
    "checked_state",
]

_MAX_PRIORITY = 1000


class Instance(NamedTuple):
    """What one request may use: a tenant's pools in a chain, or one of its pins."""

    vc: int
    chain: int
    pools: tuple[int, ...]
    pinned: bool


def check_range(name: str, value: int, low: int, high: int | None = None) -> None:
    """Raise unless ``low <= value <= high``."""
    if value < low or (high is not None and value > high):
        allowed = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} must be {allowed}: {value}")


def check_priority(priority: int) -> None:
    """Raise unless it is -1 or a guaranteed priority."""
    check_range("priority", priority, -1, _MAX_PRIORITY)


def checked_state(
    chains: Sequence[tuple[Sequence[int], int, int]],
    tenants: int,
    pools: Sequence[tuple[int, int, int, int]],
    pins: Sequence[tuple[int, int, int, int]],
) -> State:
    """The state of a new cluster: pins are bound, and all pools can be served."""
    forests = _checked_forests(chains)
    check_range("tenants", tenants, 0)
    owned = []
    for name, group in (("pools", pools), ("pins", pins)):
        for number, (vc, chain, level, count) in enumerate(group):
            this = f"{name}[{number}]"
            check_range(f"{this} vc", vc, 0, tenants - 1)
            check_range(f"{this} chain", chain, 0, len(forests) - 1)
            check_range(f"{this} level", level, 0, forests[chain].top)
            if name == "pools":
                check_range(f"{this} count", count, 1)
                owned.append(Pool(vc, chain, level, count))
            else:
                check_range(f"{this} cell", count, 0, len(forests[chain].cells(level)) - 1)
                owned.append(Pool(vc, chain, level, 1, pin=count))
    for number in range(1, len(pools)):
        if pools[number - 1][:3] >= pools[number][:3]:
            raise ValueError(f"pools[{number}] must follow pools[{number - 1}] in order")
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


def _checked_forests(chains: Sequence[tuple[Sequence[int], int, int]]) -> list[Forest]:
    forests: list[Forest] = []
    for number, (fanouts, roots, node_level) in enumerate(chains):
        this = f"chains[{number}]"
        check_range(f"{this} roots", roots, 1)
        for fanout in fanouts:
            check_range(f"{this} fanouts", fanout, 1)
        check_range(f"{this} node_level", node_level, 0, len(fanouts))
        first = forests[-1].end_leaf if forests else 0
        forests.append(Forest(number, tuple(fanouts), roots, node_level, first))
    return forests


def checked_instance(state: State, tenants: int, vc: int, chain: int, pool: int) -> Instance:
    """The pools that a request may use: ``pool`` is a pin, or -1 for all that are none."""
    check_range("vc", vc, 0, tenants - 1)
    check_range("chain", chain, 0, len(state.forests) - 1)
    check_range("pool", pool, -1, len(state.pools) - 1)
    if pool < 0:
        owners = enumerate(state.pools)
        own = (number for number, p in owners if (p.vc, p.chain, p.pin) == (vc, chain, None))
        return Instance(vc, chain, tuple(own), False)
    pin = state.pools[pool]
    if pin.pin is None or (pin.vc, pin.chain) != (vc, chain):
        raise ValueError(f"pool must be -1 or a pin of tenant {vc} in chain {chain}: {pool}")
    return Instance(vc, chain, (pool,), True)


def checked_request(
    state: State,
    instance: Instance,
    priority: int,
    sizes: Sequence[int],
    within: Sequence[int] | None,
    group_within: int,
    spread: bool,
    merge: bool,
    suggested: Sequence[int] | None,
    units: Sequence[int] | None,
    least_evictions: bool,
) -> Request:
    """A request whose numbers are all in range; its pods ascend in size."""
    forest = state.forests[instance.chain]
    check_priority(priority)
    if priority < 0 and instance.pinned:
        raise ValueError("pool must be -1 for an opportunistic group: it may use any cell")
    if not sizes:
        raise ValueError("sizes must name at least one pod")
    levels = [-1] * len(sizes) if within is None else list(within)
    if len(levels) != len(sizes):
        raise ValueError(f"within must have {len(sizes)} levels: {len(levels)}")
    for size, level in zip(sizes, levels, strict=True):
        check_range("sizes", size, 1)
        check_range("within", level, -1, forest.top)
    check_range("group_within", group_within, -1, forest.top)
    for node in suggested or ():
        check_range("suggested", node, 0, len(forest.cells(forest.node_level)) - 1)
    if units is not None:
        if priority < 0:
            raise ValueError("units must be None for an opportunistic group: it has none")
        if len(units) != len(sizes):
            raise ValueError(f"units must have {len(sizes)} numbers: {len(units)}")
        many = sum(_units_of(state, pool) for pool in instance.pools)
        for unit in units:
            check_range("units", unit, 0, many - 1)
    demands = map(Demand, sizes, levels, range(len(sizes)))
    return Request(
        *instance,
        priority,
        tuple(sorted(demands, key=lambda demand: (demand.leaves, demand.position))),
        group_within,
        bool(spread),
        bool(merge),
        None if suggested is None else frozenset(suggested),
        None if units is None else tuple(units),
        bool(least_evictions),
    )


def _units_of(state: State, number: int) -> int:
    pool = state.pools[number]
    forest = state.forests[pool.chain]
    return (
        pool.count * forest.widths[pool.level] // forest.widths[min(pool.level, forest.node_level)]
    )


def check_leaves(
    state: State,
    pods: Sequence[Sequence[int]],
    beside: Sequence[Sequence[object]] | None,
    name: str,
) -> None:
    """Raise unless the pods' leaves exist, all differ, and have one entry each in ``beside``."""
    leaves = [leaf for pod in pods for leaf in pod]
    for leaf in leaves:
        check_range("pods", leaf, 0, state.end_leaf - 1)
    if len(set(leaves)) != len(leaves):
        raise ValueError("pods must not name a leaf twice")
    if beside is not None and [len(pod) for pod in pods] != [len(pod) for pod in beside]:
        raise ValueError(f"{name} must have an entry for each leaf of each pod")
