"""What moves cost at least, and which sets of moves are not enough, by counting alone.

See `hivecore.scheduler.stages._counting` for what is counted. The bound: jobs that must move, and a
job that waits, need so many times g units; beyond what is idle others have to move. On each node
the cheapest jobs whose going gives back g units once more, twice more, ..., less what they need
themselves at their next place, are found exactly; a job on several nodes counts with an equal part
of its cost on each. No set of moves costs less than the cheapest such steps of all nodes together,
since its own gain on each node costs at least what the steps say, and the parts add up to its cost.
Steps are made convex, which only lowers them, so the cheapest can be taken one by one.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from heapq import nsmallest
from itertools import pairwise
from math import gcd, inf
from typing import NamedTuple

from hivecore.scheduler.moves.packing import may_pack
from hivecore.scheduler.search.room import Room
from hivecore.scheduler.stages.units import Unit

__all__ = ["Counting", "Problem"]

#: Costs are whole numbers; parts of them are rounded down to parts of this.
_PARTS = 2**20
_MOST_STATES = 4096
_Steps = list[int]


class Problem(NamedTuple):
    """What is to be reached by moving jobs."""

    #: the jobs that have to move
    forced: frozenset[str]
    #: the nodes that are to be empty afterwards
    closed: frozenset[str]
    #: what is to start afterwards
    target: Unit | None = None
    #: sets of nodes, of which one has to hold the target; none: all nodes together
    within: tuple[frozenset[str], ...] = ()


class Counting:
    """Bounds of one problem.

    :param costs: of each job that may move, a whole number.
    """

    def __init__(self, room: Room, problem: Problem, costs: Mapping[str, int]) -> None:
        self.room, self.problem, self.costs = room, problem, costs
        self._domain = {node: i for i, nodes in enumerate(problem.within) for node in nodes}
        self._totals: dict[tuple[int, int], tuple[int, list[int]]] = {}
        self._steps: dict[object, _Steps] = {}
        self._sizes: dict[int, Counter[int]] = {}

    # --- whether a set of jobs can do

    def refuted(self, gone: Collection[str]) -> bool:
        """Whether not all can have a place again if just these jobs move."""
        for at in range(len(self.room.dimensions)):
            mine, again = self._mine(at), self._again(at, gone)
            for g in {gcd(self.room.units[at], *mine) or 1, *mine, *again}:
                slots, best = self._slots(at, g, gone)
                if _times([*mine, *again], g) > slots or _times(mine, g) > best:
                    return True
            if not may_pack([*mine, *again], self._rooms(at, gone)):
                return True
        return False

    def _rooms(self, at: int, gone: Collection[str]) -> Counter[int]:
        """How many nodes have how much idle, if jobs have left."""
        room, closed = self.room, self.problem.closed
        idle = room.dimensions[at].idle
        if at not in self._sizes:
            self._sizes[at] = Counter(size for node, size in idle.items() if node not in closed)
        found = self._sizes[at].copy()
        for node in {node for name in gone for node in room.nodes[name]} - closed:
            found[idle.get(node, 0)] -= 1
            found[room.idle(at, node, gone)] += 1
        return found

    def _mine(self, at: int) -> list[int]:
        target = self.problem.target
        return [] if target is None else self.room.needs(at, [target])

    def _again(self, at: int, gone: Iterable[str]) -> list[int]:
        on = self.room.on[at]
        return [
            need for name in gone for node in self.room.nodes[name] for need in on[node][name][1]
        ]

    def _slots(self, at: int, g: int, gone: Collection[str]) -> tuple[int, int]:
        """How often g units are idle in all, and in the best place for the target."""
        total, by_domain = self._total(at, g)
        room, closed = self.room, self.problem.closed
        idle = room.dimensions[at].idle
        more: dict[int, int] = {}
        for node in {node for name in gone for node in room.nodes[name]} - closed:
            gain = room.idle(at, node, gone) // g - idle.get(node, 0) // g
            total += gain
            if (domain := self._domain.get(node)) is not None:
                more[domain] = more.get(domain, 0) + gain
        if not by_domain:
            return total, total
        best = max(by_domain)
        return total, max([best, *(by_domain[one] + gain for one, gain in more.items())])

    def _total(self, at: int, g: int) -> tuple[int, list[int]]:
        found = self._totals.get((at, g))
        if found is None:
            idle, closed = self.room.dimensions[at].idle, self.problem.closed
            total = sum(amount // g for node, amount in idle.items() if node not in closed)
            by_domain = [
                sum(idle.get(node, 0) // g for node in nodes) for nodes in self.problem.within
            ]
            found = self._totals[at, g] = total, by_domain
        return found

    # --- what others cost at least

    def least_extra(self) -> float:
        """What jobs that need not move cost at least, if they have to; inf: it cannot be."""
        least: float = 0
        forced = self.problem.forced
        for at in range(len(self.room.dimensions)):
            mine, again = self._mine(at), self._again(at, forced)
            for g in {gcd(self.room.units[at], *mine) or 1, *mine, *again}:
                slots, _ = self._slots(at, g, forced)
                lack = _times([*mine, *again], g) - slots
                if lack > 0:
                    least = max(least, self._cheapest(at, g, lack, None))
                if mine and self.problem.within:
                    least = max(least, self._cheapest_within(at, g, _times(mine, g)))
        return least

    def _cheapest_within(self, at: int, g: int, wanted: int) -> float:
        """What the cheapest domain costs at least; jobs that move may leave it."""
        least = inf
        _, idle = self._total(at, g)
        for domain in sorted(range(len(idle)), key=lambda one: -idle[one]):
            nodes = self.problem.within[domain]
            slots = sum(
                self.room.idle(at, node, self.problem.forced) // g
                for node in nodes - self.problem.closed
            )
            if slots >= wanted:
                return 0
            least = min(least, self._cheapest(at, g, wanted - slots, nodes))
        return least

    def _cheapest(self, at: int, g: int, lack: int, nodes: frozenset[str] | None) -> float:
        """What it costs at least to have so many slots more.

        :param nodes: on these nodes, which jobs may leave; None: in all, and jobs need a place
            again.
        """
        steps: _Steps = []
        on = self.room.on[at]
        for node in on if nodes is None else nodes:
            if node not in self.problem.closed and node in on:
                steps += self._steps_of(at, g, node, nodes)
        if len(steps) < lack:
            return inf
        return -(-sum(nsmallest(lack, steps)) // _PARTS)

    def _steps_of(self, at: int, g: int, node: str, nodes: frozenset[str] | None) -> _Steps:
        """What each further slot of a node costs at least, in parts."""
        jobs = []
        for name, (held, needs) in self.room.on[at][node].items():
            if held and name not in self.problem.forced:
                mine = self.room.nodes[name]
                count = len(mine) if nodes is None else sum(one in nodes for one in mine)
                again = 0 if nodes is not None else _times(needs, g)
                jobs.append((self.costs[name] * _PARTS // count, held, again))
        idle = self.room.idle(at, node, self.problem.forced)
        key = g, idle, tuple(sorted(jobs))
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = _convex(_gains(g, idle, sorted(jobs)))
        return found


def _times(sizes: Iterable[int], g: int) -> int:
    return sum(size // g for size in sizes)


def _gains(g: int, idle: int, jobs: list[tuple[int, int, int]]) -> dict[int, int]:
    """What each number of slots more costs on a node, at least."""
    states = {(0, 0): 0}
    for cost, held, again in jobs:
        for (freed, needed), spent in list(states.items()):
            key = freed + held, needed + again
            states[key] = min(states.get(key, spent + cost), spent + cost)
        if len(states) > _MOST_STATES:
            most = (idle + sum(one[1] for one in jobs)) // g
            return {most: 0}
    best: dict[int, int] = {}
    for (freed, needed), spent in states.items():
        more = (idle + freed) // g - idle // g - needed
        if more > 0:
            best[more] = min(best.get(more, spent), spent)
    return best


def _convex(gains: Mapping[int, int]) -> _Steps:
    """The steps of the greatest convex function below, rounded down."""
    corners = [(0, 0)]
    for more, cost in sorted(gains.items()):
        corners.append((more, cost))
        while len(corners) > 2 and _is_above(*corners[-3:]):
            del corners[-2]
    steps: _Steps = []
    for (few, before), (many, after) in pairwise(corners):
        steps += [(after - before) // (many - few)] * (many - few)
    return steps


def _is_above(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> bool:
    """Whether b lies on or above the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])
