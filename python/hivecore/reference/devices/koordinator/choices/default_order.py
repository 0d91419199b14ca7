"""NICs, FPGAs and GPUs without a topology: one after another, in order (section 1.8).

Devices with the highest score come first, the lowest minor breaks ties. Switches that should be
used are dealt to: the best device of each of them, then the second of each, and so on; all other
devices come after. What does not fit is passed over, after the dealing.
"""

from collections.abc import Collection

from hivecore.reference.devices.koordinator.amounts import fits, is_nothing
from hivecore.reference.devices.koordinator.demands import Demand
from hivecore.reference.devices.koordinator.node_view import (
    Restriction,
    TypeView,
    View,
    has_place,
    pcie_of,
)
from hivecore.reference.devices.koordinator.outcome import Failure
from hivecore.reference.devices.koordinator.scores import score
from hivecore.reference.devices.labels import selects
from hivecore.reference.devices.node_state import Charge, NodeState

__all__ = ["charge_of", "dealt", "in_default_order", "ranked", "switches_of"]


def in_default_order(
    state: NodeState,
    view: View,
    demand: Demand,
    count: int,
    most: int,
    switches: Collection[str],
    restriction: Restriction,
    strategy: str | None,
) -> tuple[Charge, ...] | Failure:
    """At least `count` and at most `most` devices."""
    type = demand.need.type
    found = view.get(type, TypeView({}, {}, {}))
    allowed = restriction.required_minors.get(type)
    preferred = restriction.preferred_minors.get(type)
    order = ranked(found, demand, strategy)
    if preferred:
        order.sort(key=lambda minor: minor not in preferred)
    else:
        order = dealt(state, type, order, switches)
    taken: list[Charge] = []
    for minor in order:
        if len(taken) == most:
            break
        if allowed and minor not in allowed:
            continue
        charge = charge_of(state, found, demand, minor, restriction)
        if charge is not None:
            taken.append(charge)
    if len(taken) < count:
        return Failure("insufficient", True, f"too few devices of type {type} are free")
    return tuple(taken)


def ranked(found: TypeView, demand: Demand, strategy: str | None) -> list[int]:
    """The visible minors, the best first."""

    def rank(minor: int) -> tuple[int, int]:
        if strategy is None:
            return 0, minor
        points = score(strategy, demand.amounts, found.total[minor], found.free[minor])
        return -points, minor

    return sorted(found.free, key=rank)


def dealt(state: NodeState, type: str, order: list[int], switches: Collection[str]) -> list[int]:
    """The order with the switches' devices first, in rounds."""
    seen: dict[str, int] = dict.fromkeys(switches, 0)
    rounds: list[tuple[int, int]] = []
    for minor in order:
        device = state.devices.get(type, {}).get(minor)
        switch = pcie_of(device) if device is not None and has_place(device) else None
        if switch is not None and switch in seen:
            rounds.append((seen[switch], minor))
            seen[switch] += 1
    first = [minor for _, minor in sorted(rounds, key=lambda pair: pair[0])]
    return first + [minor for minor in order if minor not in set(first)]


def charge_of(
    state: NodeState, found: TypeView, demand: Demand, minor: int, restriction: Restriction
) -> Charge | None:
    """What would be charged of the device; `None` if it does not serve the demand."""
    free = found.free[minor]
    if is_nothing(free) or not fits(demand.amounts, free):
        return None
    type = demand.need.type
    if demand.need.vf_selector is None:
        return Charge(type, minor, demand.amounts)
    function = _free_function(state, demand, minor, restriction)
    return None if function is None else Charge(type, minor, demand.amounts, function)


def _free_function(
    state: NodeState, demand: Demand, minor: int, restriction: Restriction
) -> str | None:
    """The lowest free bus address of the groups with the wanted labels."""
    type = demand.need.type
    device = state.devices.get(type, {}).get(minor)
    if device is None:
        return None
    designated = restriction.functions.get(type, {}).get(minor)
    taken = state.used_functions(type, minor)
    return min(
        (
            function.bus_id
            for group in device.vf_groups
            if selects(demand.need.vf_selector, group.labels)
            for function in group.functions
            if function.bus_id not in taken
            and (designated is None or function.bus_id in designated)
        ),
        default=None,
    )


def switches_of(state: NodeState, charges: Collection[Charge]) -> frozenset[str]:
    """The PCIe switches of what was chosen, as far as they are known."""
    devices = (state.devices.get(one.type, {}).get(one.minor) for one in charges)
    return frozenset(pcie_of(one) for one in devices if one is not None and has_place(one))
