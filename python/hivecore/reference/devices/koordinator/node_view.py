"""The part of a node that a request may use (sections 1.1 and 1.4 of the specification).

A view has per type what the visible devices have in total, what is used and what is free of it, by
minor. The whole node is a view. It is restricted by a mask of NUMA nodes, by labels, by amounts
that are used and yet to be had (those of victims and reservations), and by amounts that are all
that is to be had (those of a reservation). The inventory stays that of the node: the topology and
the virtual functions are those of all devices, visible or not.

Invariant: a minor is in `total` exactly if it is in `free`; in a restricted view it is in `used`
exactly if some of it is used.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hivecore.reference.devices.koordinator.amounts import (
    Amounts,
    at_most,
    is_nothing,
    less,
    plus,
)
from hivecore.reference.devices.koordinator.outcome import TYPES
from hivecore.reference.devices.labels import selects
from hivecore.reference.devices.node_state import NodeState

__all__ = [
    "WHOLE",
    "ByMinor",
    "ByType",
    "Restriction",
    "TypeView",
    "View",
    "has_place",
    "numa_of",
    "of_whole_node",
    "pcie_of",
    "restricted",
]

ByMinor = Mapping[int, Amounts]
ByType = Mapping[str, ByMinor]


class Restriction(NamedTuple):
    """What of a node a request may use; `None` and an empty mapping are not the same."""

    numa: frozenset[int] | None = None
    """NUMA nodes."""
    preemptible: ByType | None = None
    """What is used and yet to be had; `{}` lets the view be computed, as a filter always does."""
    required: ByType | None = None
    """All that is to be had, of the types that it names."""
    required_minors: Mapping[str, frozenset[int]] = {}
    """Minors that may be taken where devices are taken in the default order."""
    preferred_minors: Mapping[str, frozenset[int]] = {}
    """Minors that come first there."""
    functions: Mapping[str, Mapping[int, frozenset[str]]] = {}
    """Virtual functions that may be taken, of the minors that are named."""
    reserving: bool = False
    """Whether this is the reservation of the node, which allocates well planned types, too."""


WHOLE = Restriction()


class TypeView(NamedTuple):
    """The devices of one type."""

    total: dict[int, Amounts]
    used: dict[int, Amounts]
    free: dict[int, Amounts]


View = dict[str, TypeView]


def has_place(device: Any) -> bool:
    """Whether anything is known of where the device sits."""
    return any(place is not None for place in (device.socket, device.numa, device.pcie))


def numa_of(device: Any) -> int:
    """The device's NUMA node; -1 if it has none."""
    return -1 if device.numa is None else device.numa


def pcie_of(device: Any) -> str:
    """The device's switch; all that have a place without one count as being on one switch."""
    return "" if device.pcie is None else device.pcie


def of_whole_node(state: NodeState) -> View:
    """The node as it is; what is used of devices that are gone keeps their minors, with nothing."""
    view = {}
    for type in TYPES:
        used: dict[int, Amounts] = {}
        for charges in state.owners.values():
            for charge in charges:
                if charge.type == type:
                    used[charge.minor] = plus(used.get(charge.minor, {}), charge.amounts)
        minors = [*state.devices.get(type, {}), *used]
        total = {minor: state.total(type, minor) for minor in sorted(set(minors))}
        view[type] = TypeView(total, used, _left(total, used))
    return view


def _left(total: ByMinor, used: ByMinor) -> dict[int, Amounts]:
    return {
        minor: less(amounts, used[minor]) if minor in used else dict(amounts)
        for minor, amounts in total.items()
    }


def restricted(
    state: NodeState,
    whole: View,
    needs: Iterable[Any],
    restriction: Restriction,
    quirks: frozenset[str],
) -> View:
    """What the needs may use of the node."""
    needs = tuple(needs)
    exclusive = "exclusivity_ignored" not in quirks and any(n.exclusive == "pcie" for n in needs)
    asked = (restriction.numa, restriction.preemptible, restriction.required)
    if all(x is None for x in asked) and not exclusive and not any(n.selector for n in needs):
        return whole
    view = {}
    for need in needs:
        minors = _visible(state, need, restriction.numa)
        free = _free(
            whole[need.type],
            (restriction.preemptible or {}).get(need.type, {}),
            (restriction.required or {}).get(need.type, {}),
        )
        if not minors or all(is_nothing(amounts) for amounts in free.values()):
            continue
        if exclusive and need.exclusive == "pcie":
            minors &= _on_untouched_switches(state, whole, need.type, free)
        total = {minor: whole[need.type].total[minor] for minor in sorted(free) if minor in minors}
        used = {minor: less(total[minor], free[minor]) for minor in total}
        used = {minor: amounts for minor, amounts in used.items() if not is_nothing(amounts)}
        view[need.type] = TypeView(total, used, _left(total, used))
    return view


def _visible(state: NodeState, need: Any, numa: frozenset[int] | None) -> set[int]:
    return {
        minor
        for minor, device in state.devices.get(need.type, {}).items()
        if selects(need.selector, device.labels)
        and (numa is None or (has_place(device) and (numa_of(device) == -1 or device.numa in numa)))
    }


def _free(whole: TypeView, preemptible: ByMinor, required: ByMinor) -> dict[int, Amounts]:
    free = dict(whole.free)
    for minor, amounts in preemptible.items():
        left = less(whole.total.get(minor, {}), less(whole.used.get(minor, {}), amounts))
        if not is_nothing(left):
            free[minor] = left
    if required:
        return {
            minor: at_most(amounts, required[minor])
            for minor, amounts in free.items()
            if minor in required
        }
    return free


def _on_untouched_switches(
    state: NodeState, whole: View, type: str, free: ByMinor
) -> frozenset[int]:
    """Minors on switches where nothing of the type is used; of no switch: of no use."""
    devices = state.devices.get(type, {})
    total = whole[type].total
    placed = {
        minor: (device.socket, numa_of(device), pcie_of(device))
        for minor, device in devices.items()
        if has_place(device) and numa_of(device) != -1
    }
    touched = {
        switch for minor, switch in placed.items() if total.get(minor, {}) != free.get(minor, {})
    }
    return frozenset(minor for minor, switch in placed.items() if switch not in touched)
