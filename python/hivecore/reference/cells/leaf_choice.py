"""Which leaves of a cell a pod gets: those close together, then those that hurt the fewest others.

Every leaf has a class: 0 nobody holds it, 1 opportunistic work does, 2 a group that may be
preempted does, None it cannot be had. The pod goes into a cell of the lowest level that can take
it; counting per cell is enough to find it, subsets are never tried.

Pods of one unit go one after the other. Where that fails although the pods differ, and some are
confined to cells below the unit, a search decides, which is complete.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from hivecore.reference.cells.cells import Forest

__all__ = ["Budget", "Demand", "LeafClass", "choose_leaves"]

_SEARCH_LIMIT = 200_000
_CELLS_PER_STEP = 64

LeafClass = Callable[[int], int | None]


@dataclass
class Budget:
    """The placements that all searches for one request may still try together."""

    left: int = field(default_factory=lambda: _SEARCH_LIMIT)
    cut_short: bool = False  # another search had a limit of its own, and reached it

    @property
    def exceeded(self) -> bool:
        """Whether something may have been missed."""
        return self.left == 0 or self.cut_short

    def spend(self, steps: int) -> None:
        self.left = max(0, self.left - steps)


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
    budget: Budget,
) -> list[list[int]] | None:
    """The leaves of each pod in turn, ascending; None if they cannot be had together.

    A ``group_within`` below the cell's level confines all pods to one cell of that level.
    """
    classes = {leaf: leaf_class(leaf) for leaf in forest.leaves(level, cell)}
    if group_within < 0 or group_within >= level:
        return _in_candidate(forest, level, cell, demands, classes, budget)
    total = sum(demand.leaves for demand in demands)
    rank = _Rank(forest, level, classes)
    candidates = forest.inside(level, cell, group_within)
    roomy = [
        candidate for candidate in candidates if rank.available(group_within, candidate) >= total
    ]
    for candidate in sorted(roomy, key=lambda candidate: rank(group_within, candidate, total)):
        found = _in_candidate(forest, group_within, candidate, demands, classes, budget)
        if found is not None:
            return found
    return None


def _in_candidate(
    forest: Forest,
    level: int,
    cell: int,
    demands: list[Demand],
    classes: dict[int, int | None],
    budget: Budget,
) -> list[list[int]] | None:
    chosen = _one_after_another(forest, level, cell, demands, classes)
    if chosen is not None:
        return chosen
    confined = any(0 <= demand.within < level for demand in demands)
    if confined and len({demand[:2] for demand in demands}) > 1:
        return _search(forest, level, cell, demands, classes, budget)
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


def _search(
    forest: Forest,
    level: int,
    cell: int,
    demands: list[Demand],
    classes: dict[int, int | None],
    budget: Budget,
) -> list[list[int]] | None:
    """Depth first: the most confined pods first, of those the biggest, the unconfined at last.

    A pod takes its leaves for good in the cell that is tried: those who come later are confined to
    the same level or to a higher one, where counts are all that matters. Cells that have the same
    left are of one kind if they are in the same cell of the next level, or wherever they are if no
    pod is confined to a higher level: only the best is tried. Failed states are remembered.
    """
    classes = dict(classes)
    if sum(demand.leaves for demand in demands) > sum(c is not None for c in classes.values()):
        return None
    confined = [demand for demand in demands if 0 <= demand.within < level]
    confined.sort(key=lambda demand: (demand.within, -demand.leaves))
    widest = confined[-1].within
    chosen: dict[int, list[int]] = {}
    failed: set[tuple[object, ...]] = set()

    def place(depth: int) -> bool:
        if depth == len(confined):
            return True
        demand = confined[depth]
        below, rank = demand.within, _Rank(forest, level, classes)
        cells = forest.inside(level, cell, below)

        def kind(candidate: int) -> tuple[int, int]:
            parent = 0 if below == widest else candidate // forest.fanouts[below]
            return parent, rank.available(below, candidate)

        state = (depth, *sorted(map(kind, cells)))
        if state in failed:
            return False
        roomy = [
            candidate for candidate in cells if rank.available(below, candidate) >= demand.leaves
        ]
        kinds: dict[tuple[int, int], int] = {}
        for candidate in sorted(roomy, key=lambda candidate: rank(below, candidate, demand.leaves)):
            kinds.setdefault(kind(candidate), candidate)
        for candidate in kinds.values():
            if budget.left == 0:
                return False
            budget.spend(1 + len(cells) // _CELLS_PER_STEP)
            leaves = _choose(forest, below, candidate, demand, classes)
            assert leaves is not None, "the cell has room"
            taken = {leaf: classes[leaf] for leaf in leaves}
            classes.update(dict.fromkeys(leaves))
            chosen[demand.position] = leaves
            if place(depth + 1):
                return True
            classes.update(taken)
        failed.add(state)
        return False

    if not place(0):
        return None
    rest = [demand for demand in demands if demand not in confined]
    others = _one_after_another(forest, level, cell, rest, classes)
    assert others is not None, "there is room for all"
    chosen |= {demand.position: leaves for demand, leaves in zip(rest, others, strict=True)}
    return [chosen[demand.position] for demand in demands]


def _choose(
    forest: Forest, level: int, cell: int, demand: Demand, classes: dict[int, int | None]
) -> list[int] | None:
    rank = _Rank(forest, level, classes)
    count = demand.leaves
    highest = level if demand.within < 0 else min(level, demand.within)
    for below in range(highest + 1):
        candidates = forest.inside(level, cell, below)
        roomy = [candidate for candidate in candidates if rank.available(below, candidate) >= count]
        if roomy:
            candidate = min(roomy, key=lambda candidate: rank(below, candidate, count))
            ranked = sorted(
                (c, x) for x in forest.leaves(below, candidate) if (c := classes[x]) is not None
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
