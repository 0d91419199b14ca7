"""Chooses the leaves of a cell for a pod (HiveD, OSDI'20, section 3: topology-aware placement).

A pod is fastest on leaves that are close together, so it goes into a cell of the lowest level with
room for it. Among these, the cell with the fewest evicted leaves wins, counting preemptible ones
before opportunistic ones; then the least room in it and in the cells around it, so that large cells
stay whole; then the first. Inside, idle leaves precede occupied ones, by number.

The class of a leaf says how far a request must reach to take it; a leaf without a class is
unavailable. Pods of a cell are placed one after the other.
"""

from collections.abc import Callable
from typing import NamedTuple

from hivecore.reference.cells.cells import Forest

__all__ = ["GUARANTEED", "IDLE", "OPPORTUNISTIC", "Demand", "LeafClass", "choose_leaves"]

IDLE, OPPORTUNISTIC, GUARANTEED = range(3)
"""A leaf without a holder, with opportunistic work, with a preemptible group."""

LeafClass = Callable[[int], int | None]
_Classes = dict[int, int | None]


class Demand(NamedTuple):
    """A pod: its leaves, the level that confines it (-1: none), its number in the group."""

    leaves: int
    within: int
    position: int


def choose_leaves(
    forest: Forest,
    level: int,
    cell: int,
    demands: list[Demand],
    group_within: int,
    leaf_class: LeafClass,
) -> list[list[int]] | None:
    """Return each pod's leaves, ascending; None if the cell has no room for all pods.

    ``group_within``, if below the cell's level, confines all pods to one cell of that level.
    """
    classes = {leaf: leaf_class(leaf) for leaf in forest.leaves(level, cell)}
    homes, home_level = [cell], level
    if 0 <= group_within < level:
        total = sum(demand.leaves for demand in demands)
        homes, home_level = (
            _with_room(forest, classes, (level, cell), group_within, total),
            (group_within),
        )
    chosen = (_one_by_one(forest, (home_level, home), demands, classes) for home in homes)
    return next((pods for pods in chosen if pods is not None), None)


def _one_by_one(
    forest: Forest, home: tuple[int, int], demands: list[Demand], classes: _Classes
) -> list[list[int]] | None:
    classes, pods = dict(classes), []
    for demand in demands:
        leaves = _leaves_of_pod(forest, home, demand, classes)
        if leaves is None:
            return None
        pods.append(leaves)
        classes.update(dict.fromkeys(leaves))  # no longer available
    return pods


def _leaves_of_pod(
    forest: Forest, home: tuple[int, int], demand: Demand, classes: _Classes
) -> list[int] | None:
    highest = home[0] if demand.within < 0 else min(home[0], demand.within)
    for level in range(highest + 1):
        for cell in _with_room(forest, classes, home, level, demand.leaves):
            leaves = [leaf for leaf in forest.leaves(level, cell) if classes[leaf] is not None]
            leaves.sort(key=lambda leaf: (classes[leaf] or 0, leaf))
            return sorted(leaves[: demand.leaves])
    return None


def _with_room(
    forest: Forest, classes: _Classes, home: tuple[int, int], level: int, count: int
) -> list[int]:
    """Return the cells of a level inside a home cell that have so many leaves, best first."""

    def held(level: int, cell: int) -> list[int]:
        classed = (classes[leaf] for leaf in forest.leaves(level, cell))
        return [each for each in classed if each is not None]

    def rank(cell: int) -> tuple[int, ...]:
        idle, opportunistic = held(level, cell).count(IDLE), held(level, cell).count(OPPORTUNISTIC)
        first = forest.leaves(level, cell).start
        around = ((up, forest.above(first, up)) for up in range(level, home[0] + 1))
        evicted = max(0, count - idle)
        preempted = max(0, evicted - opportunistic)
        return preempted, evicted - preempted, *(len(held(*each)) for each in around), cell

    cells = forest.inside(*home, level)
    return sorted((cell for cell in cells if len(held(level, cell)) >= count), key=rank)
