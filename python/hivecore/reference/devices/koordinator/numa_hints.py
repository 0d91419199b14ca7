"""On which sets of NUMA nodes a request could be served (section 1.13).

Every set is tried with a full allocation, the smallest sets first. Sets of the least size are
preferred, and those that give the same GPUs as the whole machine does score higher. Whoever merges
the hints of devices and processors chooses among them.

Upstream the sets are not independent: what the reservations hold is made available for the first
set that needs it, and once more for each later one, and never taken back.
"""

from collections.abc import Iterable
from itertools import combinations
from typing import Any, NamedTuple

from hivecore.reference.devices.koordinator.allocator import allocate
from hivecore.reference.devices.koordinator.demands import demands_of
from hivecore.reference.devices.koordinator.node_view import (
    Restriction,
    has_place,
    numa_of,
    of_whole_node,
)
from hivecore.reference.devices.koordinator.outcome import QUIRKS, TYPES, Failure
from hivecore.reference.devices.koordinator.reservations import (
    NONE,
    Reservations,
    in_reservation,
    opened,
    outside,
)
from hivecore.reference.devices.node_state import Charge, NodeState

__all__ = ["NumaHint", "designated_hint", "numa_hints"]

#: More than any score of processors, so that devices decide.
_SAME_GPUS = 500


class NumaHint(NamedTuple):
    """A set of NUMA nodes."""

    numas: tuple[int, ...]
    preferred: bool
    score: int


def numa_hints(
    state: NodeState,
    request: Any,
    reservations: Reservations = NONE,
    quirks: frozenset[str] = QUIRKS,
) -> tuple[NumaHint, ...] | Failure:
    """The sets that serve the request, by size, then by their numbers.

    Unless the whole machine serves it there are none: its failure is the answer.
    """
    devices = [device for type in TYPES for device in state.devices.get(type, {}).values()]
    placed = [device for device in devices if has_place(device) and numa_of(device) != -1]
    numas = sorted({numa_of(device) for device in placed})
    demands = demands_of(state, of_whole_node(state), request, False)
    feasible: dict[tuple[int, ...], tuple[Charge, ...]] = {}
    answer: tuple[Charge, ...] | Failure = ()
    for size in range(1, len(numas) + 1):
        for mask in combinations(numas, size):
            if isinstance(demands, Failure):
                return demands
            inside = [device.type for device in placed if numa_of(device) in mask]
            if any(type in inside and inside.count(type) < d.count for type, d in demands.items()):
                answer = Failure("insufficient_numa", False, "too few devices on the NUMA nodes")
                continue
            restriction = Restriction(numa=frozenset(mask))
            found = in_reservation(state, request, reservations, restriction, None, quirks)
            if found is None:
                spilling = opened(state, reservations)
                restriction = restriction._replace(preemptible=outside(state, spilling))
                found = allocate(state, request, restriction, None, quirks)
                if "leaking_hints" in quirks:
                    reservations = spilling
            answer = found
            if not isinstance(answer, Failure):
                feasible[mask] = answer
    if isinstance(answer, Failure):
        return answer
    least = min((len(mask) for mask in feasible), default=0)
    return tuple(
        NumaHint(mask, len(mask) == least, _SAME_GPUS if _gpus(found) == _gpus(answer) else 0)
        for mask, found in feasible.items()
    )


def _gpus(charges: Iterable[Charge]) -> set[int]:
    return {charge.minor for charge in charges if charge.type == "gpu"}


def designated_hint(state: NodeState, charges: Iterable[Charge]) -> NumaHint | Failure:
    """The one hint of devices that are designated: exactly their NUMA nodes."""
    numas = set()
    for charge in charges:
        device = state.devices.get(charge.type, {}).get(charge.minor)
        if device is None or not has_place(device) or numa_of(device) == -1:
            return Failure("no_numa", True, "a designated device is on no NUMA node")
        numas.add(numa_of(device))
    return NumaHint(tuple(sorted(numas)), True, _SAME_GPUS)
