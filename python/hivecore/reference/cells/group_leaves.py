"""Which leaves of a cell a pod gets: those close together, then those that hurt the fewest others.

Every leaf has a class: 0 nobody holds it, 1 opportunistic work does, 2 a group that may be
preempted does, None it cannot be had. The pod goes into a cell of the lowest level that can take
it; counting per cell is enough to find it, subsets are never tried.
"""

from collections.abc import Callable
from typing import NamedTuple

from hivecore.reference.cells.group_cells import Forest

__all__ = ["Demand", "LeafClass", "choose_leaves"]

LeafClass = Callable[[int], int | None]


class Demand(NamedTuple):
    """A pod: its leaves, the level that they must be within (-1: any), its place in the group."""

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
    """The leaves of each pod in turn, ascending; None if one of them finds none.

    A ``group_within`` below the cell's level confines all pods to one cell of that level.
    """
    classes = {leaf: leaf_class(leaf) for leaf in forest.leaves(level, cell)}
    if group_within < 0 or group_within >= level:
        return _one_after_another(forest, level, cell, demands, classes)
    total = sum(demand.leaves for demand in demands)
    rank = _Rank(forest, level, classes)
    houses = forest.inside(level, cell, group_within)
    roomy = [house for house in houses if rank.available(group_within, house) >= total]
    for house in sorted(roomy, key=lambda house: rank(group_within, house, total)):
        found = _one_after_another(forest, group_within, house, demands, classes)
        if found is not None:
            return found
    return None


def _one_after_another(
    forest: Forest, level: int, cell: int, demands: list[Demand], classes: dict[int, int | None]
) -> list[list[int]] | None:
    classes = dict(classes)
    chosen = []
    for demand in demands:
        leaves = _choose(forest, level, cell, demand, classes)
        if leaves is None:
            return None
        chosen.append(leaves)
        classes.update(dict.fromkeys(leaves))
    return chosen


def _choose(
    forest: Forest, level: int, cell: int, demand: Demand, classes: dict[int, int | None]
) -> list[int] | None:
    rank = _Rank(forest, level, classes)
    count = demand.leaves
    highest = level if demand.within < 0 else min(level, demand.within)
    for below in range(highest + 1):
        houses = forest.inside(level, cell, below)
        roomy = [house for house in houses if rank.available(below, house) >= count]
        if roomy:
            house = min(roomy, key=lambda house: rank(below, house, count))
            ranked = sorted(
                (c, x) for x in forest.leaves(below, house) if (c := classes[x]) is not None
            )
            return sorted(leaf for _, leaf in ranked[:count])
    return None


class _Rank:
    """The order of the cells that have room: fewest preemptions, then the tightest to the top."""

    def __init__(self, forest: Forest, level: int, classes: dict[int, int | None]) -> None:
        self.forest, self.level, self.classes = forest, level, classes

    def available(self, level: int, cell: int) -> int:
        leaves = self.forest.leaves(level, cell)
        return sum(self.classes[leaf] is not None for leaf in leaves)

    def __call__(self, level: int, cell: int, count: int) -> tuple[int, ...]:
        classes = [self.classes[leaf] for leaf in self.forest.leaves(level, cell)]
        free, opportunistic = classes.count(0), classes.count(1)
        first = self.forest.leaves(level, cell).start
        around = range(level, self.level + 1)
        return (
            max(0, count - free - opportunistic),
            min(opportunistic, max(0, count - free)),
            *(self.available(wider, self.forest.above(first, wider)) for wider in around),
            cell,
        )
