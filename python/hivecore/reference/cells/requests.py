"""A group's request, and how far the scheduler may go for it.

HiveD's request is a tenant, a priority and a gang of pods with a number of leaves each, optionally
a pin and the nodes that Kubernetes suggests. Everything else is an extension: cells that confine
pods or the gang, spreading, merged siblings, units chosen by a policy, the weight of evictions, and
limits of pods per node.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hivecore.reference.cells.leaf_choice import (
    GUARANTEED,
    IDLE,
    OPPORTUNISTIC,
    Demand,
    LeafClass,
)
from hivecore.reference.cells.state import State

__all__ = [
    "ALONE",
    "LEAST",
    "PACKING",
    "Request",
    "class_of_leaves",
    "is_lower",
    "pools_of",
    "request_of",
]

PACKING, LEAST, ALONE = range(3)
"""What precedes few evictions: packing; nothing; the units of a private cluster."""


@dataclass(frozen=True)
class Request:
    """A group's request; its pods ascend in size."""

    vc: int
    chain: int
    pools: tuple[int, ...]  # pools that the group may use: the tenant's in the chain, or a pin
    priority: int
    demands: tuple[Demand, ...]
    group_within: int = -1
    spread: bool = False
    merge: bool = False
    suggested: frozenset[int] | None = None
    units: tuple[int, ...] | None = None  # chosen by a policy of the tenant, by position
    evictions: int = PACKING
    most: tuple[int, ...] | None = None  # by node: the most pods

    @property
    def total(self) -> int:
        """The number of leaves of all pods."""
        return sum(demand.leaves for demand in self.demands)

    @property
    def is_single(self) -> bool:
        """Whether it is a single pod, which may go into any unit."""
        return len(self.demands) == 1 and self.group_within < 0 and self.units is None

    @property
    def is_mixed(self) -> bool:
        """Whether pods differ."""
        return len({demand[:2] for demand in self.demands}) > 1

    @property
    def is_constrained(self) -> bool:
        """Whether enough leaves in a unit do not suffice for a pod."""
        confined = self.group_within >= 0 or any(demand.within >= 0 for demand in self.demands)
        return confined or self.most is not None


def pools_of(state: State, vc: int, chain: int, pool: int) -> tuple[int, ...]:
    """Return the pools that a request may use; ``pool`` is a pin, or -1 for all
    that are not pins.
    """
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
    """Return the request; its pods ascend in size."""
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


def class_of_leaves(state: State, request: Request, reach: int) -> LeafClass:
    """Return how far a request must reach for a leaf; None if that exceeds ``reach`` or the leaf is
    bad.
    """

    def leaf_class(leaf: int) -> int | None:
        if leaf in state.bad:
            return None
        if state.holder(leaf) is None:
            return IDLE
        if leaf not in state.pair:
            return OPPORTUNISTIC if reach >= OPPORTUNISTIC else None
        return GUARANTEED if reach == GUARANTEED and is_lower(state, request, leaf) else None

    return leaf_class


def is_lower(state: State, request: Request, leaf: int) -> bool:
    """Whether the group that holds a leaf has a lower priority than the request."""
    holder = state.holder(leaf)
    return holder is not None and state.groups[holder].priority < request.priority
