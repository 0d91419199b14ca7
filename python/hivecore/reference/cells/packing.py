"""Puts pods into the units of a domain.

HiveD packs by next fit: pods in ascending size into the first unit, in order of preference, that
takes them, without returning to earlier units. Placements of unequal pods that this misses are
searched depth first, with the largest pod and the tightest unit first. A spread group goes pod by
pod to the least used unit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hivecore.reference.cells.cells import VirtualCell
from hivecore.reference.cells.leaf_choice import Demand

__all__ = ["Choice", "Unit", "fan_out", "next_fit", "tightest_fit"]


@dataclass(frozen=True)
class Unit:
    """A node, or a smaller virtual cell, that may hold pods.

    ``cell`` and ``node`` are its physical cell and node; None if it is bound to none.
    """

    pool: int  # -1: a physical node
    level: int
    number: int
    cell: int | None
    node: int | None
    leaves: int
    available: int
    used: int  # leaves of groups that stay
    held: int  # of a node: leaves of guaranteed groups; else of groups that may be preempted

    @property
    def virtual(self) -> VirtualCell:
        """Return the virtual cell."""
        return VirtualCell(self.pool, self.level, self.number)


Choice = dict[Unit, list[Demand]]
"""The chosen units in order of first use, with the pods of each, ascending."""


_Takes = Callable[[Unit, list[Demand]], bool]
"""Whether the pods fit into the unit together."""


def next_fit(domain: list[Unit], demands: Sequence[Demand], takes: _Takes) -> Choice | None:
    """Put each pod into the first unit that takes it; never go back to an earlier unit.

    :param demands: of the pods, by ascending size.
    :returns: the pods of each unit, or None if a pod fits nowhere.
    """
    choice, units = Choice(), list(domain)
    for demand in demands:
        while units and not takes(units[0], [*choice.get(units[0], []), demand]):
            units.pop(0)
        if not units:
            return None
        choice.setdefault(units[0], []).append(demand)
    return choice


def fan_out(
    domain: list[Unit],
    demands: Sequence[Demand],
    takes: _Takes,
    preference: Callable[[Unit, int], tuple[int, ...]],
) -> Choice | None:
    """Return units for pods one by one, each preferred given the leaves of earlier pods."""
    choice = Choice()
    for demand in demands:
        taking = [u for u in domain if takes(u, [*choice.get(u, []), demand])]
        if not taking:
            return None
        placed = {u: sum(d.leaves for d in choice.get(u, [])) for u in taking}
        unit = min(taking, key=lambda unit: preference(unit, placed[unit]))
        choice.setdefault(unit, []).append(demand)
    return choice


def tightest_fit(domain: list[Unit], demands: Sequence[Demand]) -> Choice | None:
    """Return units by a complete search; equal room means equal units, so only the
    first is tried.
    """

    def place(demands: list[Demand], left: dict[Unit, int]) -> dict[Demand, Unit] | None:
        if not demands:
            return {}
        demand, *others = demands
        first: dict[int, Unit] = {}
        for unit, room in left.items():
            first.setdefault(room, unit)
        for room in sorted(first):
            if room >= demand.leaves:
                rest = place(others, left | {first[room]: room - demand.leaves})
                if rest is not None:
                    return {demand: first[room], **rest}
        return None

    largest_first = sorted(demands, key=lambda demand: (-demand.leaves, demand.position))
    unit_of = place(largest_first, {unit: unit.available for unit in domain})
    if unit_of is None:
        return None
    choice = Choice()
    for demand in demands:
        choice.setdefault(unit_of[demand], []).append(demand)
    return choice
