"""Lower bounds for the cost of moves, and a quick test that a set of moves is not enough.

Counting is in slots of g units, see `hivecore.scheduler.stages._counting`. If jobs need more slots
than are idle, other jobs must move. For each node, the least cost of gaining one slot, two slots,
... is computed exactly; slots that the moved jobs need elsewhere do not count as gained. A job on
several nodes contributes an equal part of its cost to each. The cheapest gains over all nodes that
add up to the missing slots cost no more than any set of moves: a lower bound. The costs of a node
are made convex, which only lowers them, so that gains can be taken one by one.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import count, pairwise
from math import gcd, inf
from typing import NamedTuple

from hivecore.scheduler.search.room import Room
from hivecore.scheduler.stages.units import Unit

__all__ = ["Counting", "Problem"]

#: Parts of a cost are integers: this many make 1, rounded down.
_PARTS = 2**20
_MOST_STATES = 4096
_MOST_PODS = 64  # more pods are not packed exactly
_MOST_STEPS = 500
_Steps = list[int]


class Problem(NamedTuple):
    """A goal, and the jobs that must move for it."""

    #: jobs that must move
    forced: frozenset[str]
    #: nodes that must be empty afterwards
    closed: frozenset[str]
    #: the unit that must start afterwards
    target: Unit | None = None
    #: domains, one of which must hold the target; empty: all nodes are one domain
    within: tuple[frozenset[str], ...] = ()


class Counting:
    """Bounds for one problem, given the integer cost of each job that may move."""

    def __init__(self, room: Room, problem: Problem, costs: Mapping[str, int]) -> None:
        self._room, self._costs = room, costs
        self._forced, self._closed, self._target, self._within = problem
        self._domain = {node: i for i, nodes in enumerate(self._within) for node in nodes}
        self._totals: dict[tuple[int, int], tuple[int, list[int]]] = {}
        self._steps: dict[object, _Steps] = {}
        self._sizes: dict[int, Counter[int]] = {}

    # --- is a set of jobs enough?

    def refuted(self, gone: Collection[str]) -> bool:
        """Whether moving just these jobs is surely not enough."""
        for at, dimension in enumerate(self._room.dimensions):
            target, again, sizes = self._needs(at, gone)
            changed = self._changed(at, gone)
            for g in sizes:
                slots, best = self._slots(at, g, changed)
                if _times([*target, *again], g) > slots or _times(target, g) > best:
                    return True
            if at not in self._sizes:
                idle = dimension.idle.items()
                self._sizes[at] = Counter(size for node, size in idle if node not in self._closed)
            rooms = self._sizes[at].copy()
            for _, before, now in changed:
                rooms[before] -= 1
                rooms[now] += 1
            if not _may_pack([*target, *again], rooms):
                return True
        return False

    def _needs(self, at: int, gone: Iterable[str]) -> tuple[list[int], list[int], set[int]]:
        """What pods of the target and of moving jobs need, and the sizes of slots to count."""
        room, on = self._room, self._room.on[at]
        target = [] if self._target is None else room.needs(at, [self._target])
        again = [need for name in gone for node in room.nodes[name] for need in on[node][name][1]]
        return target, again, {gcd(room.units[at], *target) or 1, *target, *again}

    def _changed(self, at: int, gone: Collection[str]) -> list[tuple[str, int, int]]:
        """Nodes that jobs leave, each with its idle amount before and after."""
        room, idle = self._room, self._room.dimensions[at].idle
        nodes = {node for name in gone for node in room.nodes[name]} - self._closed
        return [(node, idle.get(node, 0), room.idle(at, node, gone)) for node in nodes]

    def _slots(self, at: int, g: int, changed: Iterable[tuple[str, int, int]]) -> tuple[int, int]:
        """Slots of size g in all nodes, and in the best domain for the target."""
        total, by_domain = self._total(at, g)
        more: dict[int, int] = {}
        for node, before, now in changed:
            gain = now // g - before // g
            total += gain
            if (domain := self._domain.get(node)) is not None:
                more[domain] = more.get(domain, 0) + gain
        best = [*by_domain, *[by_domain[place] + gain for place, gain in more.items()]]
        return total, max(best, default=total)

    def _total(self, at: int, g: int) -> tuple[int, list[int]]:
        totals = self._totals.get((at, g))
        if totals is None:
            idle, closed = self._room.dimensions[at].idle, self._closed
            total = sum(amount // g for node, amount in idle.items() if node not in closed)
            by_domain = [sum(idle.get(node, 0) // g for node in nodes) for nodes in self._within]
            totals = self._totals[at, g] = total, by_domain
        return totals

    # --- the cost of other jobs

    def least_extra(self) -> float:
        """A lower bound for the cost of further jobs that must move; inf if none are enough."""
        least: float = 0
        for at in range(len(self._room.dimensions)):
            target, again, sizes = self._needs(at, self._forced)
            changed = self._changed(at, self._forced)
            for g in sizes:
                lack = _times([*target, *again], g) - self._slots(at, g, changed)[0]
                if lack > 0:
                    least = max(least, self._cheapest(at, g, lack, None))
                if target and self._within:
                    least = max(least, self._cheapest_within(at, g, _times(target, g)))
        return least

    def _cheapest_within(self, at: int, g: int, wanted: int) -> float:
        """A lower bound for the cheapest domain. Jobs that move may leave the domain."""
        least = inf
        _, idle = self._total(at, g)
        for domain in sorted(range(len(idle)), key=lambda place: -idle[place]):
            nodes = self._within[domain] - self._closed
            slots = sum(self._room.idle(at, node, self._forced) // g for node in nodes)
            if slots >= wanted:
                return 0
            least = min(least, self._cheapest(at, g, wanted - slots, self._within[domain]))
        return least

    def _cheapest(self, at: int, g: int, lack: int, nodes: frozenset[str] | None) -> float:
        """A lower bound for the cost of ``lack`` more slots.

        :param nodes: count slots here, and jobs may go elsewhere; None: all nodes, where they must
            fit.
        """
        steps: _Steps = []
        on = self._room.on[at]
        for node in on if nodes is None else nodes:
            if node not in self._closed and node in on:
                steps += self._steps_of(at, g, node, nodes)
        if len(steps) < lack:
            return inf
        return -(-sum(nsmallest(lack, steps)) // _PARTS)

    def _steps_of(self, at: int, g: int, node: str, nodes: frozenset[str] | None) -> _Steps:
        """Lower bounds for the cost of each further slot of a node, in parts."""
        jobs = []
        for name, (held, needs) in self._room.on[at][node].items():
            if held and name not in self._forced:
                occupied = self._room.nodes[name]
                parts = (
                    len(occupied) if nodes is None else sum(other in nodes for other in occupied)
                )
                again = 0 if nodes is not None else _times(needs, g)
                jobs.append((self._costs[name] * _PARTS // parts, held, again))
        idle = self._room.idle(at, node, self._forced)
        key = g, idle, tuple(sorted(jobs))
        steps = self._steps.get(key)
        if steps is None:
            steps = self._steps[key] = _convex(_gains(g, idle, sorted(jobs)))
        return steps


def _times(sizes: Iterable[int], g: int) -> int:
    return sum(size // g for size in sizes)


def _may_pack(pods: Sequence[int], rooms: Counter[int]) -> bool:
    """Whether pods fit the rooms, counted by size (changed); true if that takes long to decide."""
    sizes, steps = sorted(pods, reverse=True), count()

    def fit(i: int) -> bool:
        """Place the pods from the i-th on, the largest first, in the tightest rooms first."""
        if next(steps) >= _MOST_STEPS or i == len(sizes):
            return True
        size = sizes[i]
        for room in sorted(room for room, left in rooms.items() if left > 0 and room >= size):
            rooms[room] -= 1
            rooms[room - size] += 1
            if fit(i + 1):
                return True
            rooms[room - size] -= 1
            rooms[room] += 1
        return False

    return len(pods) > _MOST_PODS or fit(0)


def _gains(g: int, idle: int, jobs: list[tuple[int, int, int]]) -> dict[int, int]:
    """A lower bound for the cost of each number of further slots on a node."""
    states = {(0, 0): 0}
    for cost, held, again in jobs:
        for (freed, needed), spent in list(states.items()):
            key = freed + held, needed + again
            states[key] = min(states.get(key, spent + cost), spent + cost)
        if len(states) > _MOST_STATES:
            most = (idle + sum(job[1] for job in jobs)) // g
            return {most: 0}
    best: dict[int, int] = {}
    for (freed, needed), spent in states.items():
        more = (idle + freed) // g - idle // g - needed
        if more > 0:
            best[more] = min(best.get(more, spent), spent)
    return best


def _convex(gains: Mapping[int, int]) -> _Steps:
    """The steps of the greatest convex function below the gains, rounded down."""
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
