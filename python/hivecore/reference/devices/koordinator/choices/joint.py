"""Devices of several types, near to each other (section 1.5).

The primary devices are chosen first, as if they were alone. Each of the other types then gets
devices on the switches of these: one for every switch as far as there are enough, and never less
than asked. That all of them are on the very same switches is checked at the end.

Upstream that is all: another choice of primary devices is never tried (defect D9), and if GPUs are
not the primary type they do not heed the switches (defect D8).
"""

from collections.abc import Callable, Collection
from typing import Any

from hivecore.reference.devices.koordinator.choices.default_order import switches_of
from hivecore.reference.devices.koordinator.demands import Demand
from hivecore.reference.devices.koordinator.outcome import Failure
from hivecore.reference.devices.node_state import Charge, NodeState

__all__ = ["VIOLATION", "Chooser", "joint_choice"]

Chooser = Callable[[str, int, Collection[str]], "tuple[Charge, ...] | Failure"]
"""From a type, how many at least, and switches to prefer, to devices."""

VIOLATION = Failure("joint_violation", True, "the types' devices are not on the same switches")


def joint_choice(
    state: NodeState, request: Any, demands: dict[str, Demand], choose: Chooser
) -> dict[str, tuple[Charge, ...]] | Failure:
    """The devices of all joint types."""
    primary, *others = request.joint
    found = choose(primary, demands[primary].count, ())
    if isinstance(found, Failure):
        return found
    switches = switches_of(state, found)
    chosen = {primary: found}
    for type in others:
        count = demands[type].count
        if request.same_pcie:
            count = max(count, len(switches))
        found = choose(type, count, switches)
        if isinstance(found, Failure):
            return found
        chosen[type] = found
    if request.same_pcie and any(switches_of(state, one) != switches for one in chosen.values()):
        return VIOLATION
    return chosen
