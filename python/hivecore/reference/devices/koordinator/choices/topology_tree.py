"""GPUs as near to each other as can be: a descent through machine, NUMA nodes and switches (1.6).

A scope answers with the best answer of its children, and only if none has one, with a choice of its
own. So the tightest scope wins; among equally tight ones that which is in use on most levels, for
the emptier ones are kept whole. In a scope, whole GPUs are taken in the order of their minors, of
shared ones the one with the best score. There is a tree only if of every GPU the place is known.
"""

from typing import Any, NamedTuple

from hivecore.reference.devices.koordinator.amounts import Amounts, fits
from hivecore.reference.devices.koordinator.demands import Demand
from hivecore.reference.devices.koordinator.node_view import TypeView, has_place, numa_of, pcie_of
from hivecore.reference.devices.koordinator.outcome import Failure
from hivecore.reference.devices.koordinator.scores import score
from hivecore.reference.devices.node_state import NodeState

__all__ = [
    "DEVICE",
    "LEVELS",
    "MACHINE",
    "NUMA_NODE",
    "SWITCH",
    "Scope",
    "from_tree",
    "level_of",
    "serving",
    "tree_of",
]

MACHINE, NUMA_NODE, SWITCH, DEVICE = range(1, 5)
#: A socket is no scope upstream (defect D11); what is confined to one is confined to the machine.
LEVELS = {"node": MACHINE, "socket": MACHINE, "numa": NUMA_NODE, "pcie": SWITCH, "device": DEVICE}


class Scope(NamedTuple):
    """A part of the machine, with the minors of all its GPUs, ascending."""

    level: int
    minors: tuple[int, ...]
    children: tuple["Scope", ...]


class _Found(NamedTuple):
    minors: tuple[int, ...]
    depth: int
    occupied: int
    """How many of the scopes around it have GPUs in use."""
    score: int


def level_of(need: Any) -> int:
    """The level that the need is confined to; 0: to none."""
    return LEVELS[need.scope] if need.scope is not None else 0


def tree_of(state: NodeState) -> Scope | None:
    """The node's GPUs; NUMA nodes by number, switches by name."""
    gpus = state.devices.get("gpu", {})
    if not gpus or not all(has_place(gpu) for gpu in gpus.values()):
        return None
    places = {minor: (numa_of(gpu), pcie_of(gpu)) for minor, gpu in sorted(gpus.items())}
    nodes = []
    for numa in sorted({place[0] for place in places.values()}):
        switches = [
            Scope(SWITCH, tuple(minor for minor in places if places[minor] == (numa, pcie)), ())
            for pcie in sorted({place[1] for place in places.values() if place[0] == numa})
        ]
        minors = tuple(minor for minor in places if places[minor][0] == numa)
        nodes.append(Scope(NUMA_NODE, minors, tuple(switches)))
    return Scope(MACHINE, tuple(places), tuple(nodes))


def serving(found: TypeView, amounts: Amounts) -> set[int]:
    """The visible, healthy GPUs that have as much free."""
    return {
        minor
        for minor, total in found.total.items()
        if any(total.values()) and fits(amounts, found.free[minor])
    }


def from_tree(
    state: NodeState,
    tree: Scope | None,
    found: TypeView,
    demand: Demand,
    in_use: set[int],
    strategy: str | None,
    quirks: frozenset[str],
) -> tuple[int, ...] | Failure:
    """The minors of the GPUs."""
    if tree is None:
        return Failure("no_topology", False, "the places of the node's GPUs are not known")
    shared = demand.need.shared
    if shared and demand.count > 1:
        return Failure("many_shared", False, "a scope gives shares of one GPU only")
    able = serving(found, demand.amounts)
    points = dict.fromkeys(able, 0)
    if shared and strategy is not None:
        for minor in able:
            total, free = state.total("gpu", minor), found.free[minor]
            if "swapped_device_score" in quirks:
                total, free = free, total
            points[minor] = score(strategy, demand.amounts, total, free)
    level = level_of(demand.need)

    def visit(scope: Scope, depth: int, occupied: int) -> _Found | None:
        if len(scope.minors) < demand.count:
            return None
        depth += 1
        occupied += not in_use.isdisjoint(scope.minors)
        answers = [visit(child, depth, occupied) for child in scope.children]
        below = [answer for answer in answers if answer is not None]
        if below:
            return max(below, key=lambda one: (one.depth, one.occupied, one.score))
        if level > scope.level:
            return None
        fitting = [minor for minor in scope.minors if minor in able]
        if shared and fitting:
            best = max(fitting, key=lambda minor: points[minor])
            return _Found((best,), depth, occupied, points[best])
        if shared or len(fitting) < demand.count:
            return None
        return _Found(tuple(fitting[: demand.count]), depth, occupied, 0)

    answer = visit(tree, 0, 0)
    if answer is not None:
        return answer.minors
    if level:
        return Failure(
            "insufficient_scope", True, f"too few GPUs are free in any {demand.need.scope}"
        )
    return Failure("insufficient_gpus", True, "too few GPUs are free")
