"""Cheap sets of jobs whose end frees enough room, by counting node by node.

Counting knows neither racks nor quotas, so a proposal is tried before anything follows from it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from hivecore.scheduler.lifecycle.units import Unit
from hivecore.scheduler.moves.room import Room

__all__ = ["Cost", "Proposals"]

_FEW = 10  # candidates of which all sets are proposed
_MOST_ON_NODE = 24  # candidates of a node that are combined
_MOST_PLACES = 8  # nodes or domains that are proposed


class Cost(NamedTuple):
    """What a set of victims costs; less is better, in this order."""

    guaranteed: int = 0
    jobs: int = 0
    #: in GPU-seconds
    lost: float = 0.0

    def plus(self, other: "Cost") -> "Cost":
        """The cost of both sets together."""
        return Cost(
            self.guaranteed + other.guaranteed, self.jobs + other.jobs, self.lost + other.lost
        )

    @property
    def rank(self) -> tuple[int, int]:
        """What a set has to be better in to be worth a change."""
        return self.guaranteed, self.jobs


class _Set(NamedTuple):
    cost: Cost
    names: tuple[str, ...]

    def plus(self, other: "_Set") -> "_Set":
        return _Set(self.cost.plus(other.cost), (*self.names, *other.names))


_EMPTY = _Set(Cost(), ())


class Proposals:
    """Sets of candidates for one unit.

    :param costs: the candidates, and what each costs.
    :param closed: the nodes that the unit cannot use.
    :param within: sets of nodes of which one has to hold the unit; none: all nodes together.
    """

    def __init__(
        self,
        room: Room,
        unit: Unit,
        costs: Mapping[str, Cost],
        closed: frozenset[str],
        within: Sequence[frozenset[str]],
    ) -> None:
        self._room, self._costs, self._closed = room, costs, closed
        self._needs = [room.needs(at, [unit]) for at in range(len(room.dimensions))]
        self._places = within or [frozenset(n for one in room.dimensions for n in one.idle)]
        self._known: dict[tuple[int, int, int], int] = {}

    def sets(self) -> Iterator[tuple[str, ...]]:
        """The sets, the cheapest first; all that may be enough where there are few candidates."""
        names = [*self._costs]
        found = self._all_of(names) if len(names) <= _FEW else self._by_place()
        for proposal in sorted(found, key=lambda one: (one.cost, one.names)):
            yield proposal.names

    def _all_of(self, names: Sequence[str]) -> Iterator[_Set]:
        for count in range(len(names) + 1):
            for some in combinations(names, count):
                if self._may_do(some):
                    cost = Cost()
                    for name in some:
                        cost = cost.plus(self._costs[name])
                    yield _Set(cost, some)

    def _may_do(self, gone: Sequence[str]) -> bool:
        """Whether some place has enough room when these jobs have left, as far as counting says."""
        touched = {node for name in gone for node in self._room.nodes[name]} - self._closed
        return any(self._has_room(i, touched & place, gone) for i, place in enumerate(self._places))

    def _has_room(self, i: int, touched: Iterable[str], gone: Sequence[str]) -> bool:
        for at, sizes in enumerate(self._needs):
            for size in {*sizes}:
                slots = self._slots(i, at, size)
                for node in touched:
                    slots += self._idle(at, node, gone) // size - self._idle(at, node, ()) // size
                if slots < sum(other >= size for other in sizes):
                    return False
        return True

    def _slots(self, i: int, at: int, size: int) -> int:
        """For how many pods of a size a place has room now."""
        found = self._known.get((i, at, size))
        if found is None:
            nodes = self._places[i] - self._closed
            found = sum(self._idle(at, node, ()) // size for node in nodes)
            self._known[i, at, size] = found
        return found

    def _idle(self, at: int, node: str, gone: Sequence[str]) -> int:
        return max(self._room.idle(at, node, gone), 0)

    # --- many candidates

    def _by_place(self) -> Iterator[_Set]:
        """Of each dimension, the cheapest set of each place, and of each node where one will do."""
        for at, sizes in enumerate(self._needs):
            if sizes:
                places = self._places
                if len(sizes) == 1:
                    places = [frozenset((node,)) for place in places for node in place]
                found = [self._cheapest(at, place, sizes) for place in places]
                known = [one for one in found if one is not None and one.names]
                yield from sorted(known, key=lambda one: one.cost)[:_MOST_PLACES]

    def _cheapest(self, at: int, place: frozenset[str], sizes: Sequence[int]) -> _Set | None:
        """The cheapest set after which a place has room for all pods, as if all were the largest;
        None: there is none.
        """
        size, lack = max(sizes), len(sizes)
        steps: dict[str, dict[int, _Set]] = {}
        for node in sorted(place - self._closed):
            idle = self._idle(at, node, ())
            lack -= idle // size
            if node in self._room.on[at]:
                steps[node] = self._steps(at, node, idle, size)
        if lack <= 0:
            return None
        best: dict[int, _Set] = {0: _EMPTY}
        for node in _cheapest_nodes(steps, lack):
            for have, before in list(best.items()):
                for gain, more in steps[node].items():
                    reached, total = min(have + gain, lack), self._union(before, more)
                    if reached not in best or total < best[reached]:
                        best[reached] = total
        return best.get(lack)

    def _union(self, one: _Set, other: _Set) -> _Set:
        """Both sets, of which a job on several nodes counts once."""
        for name in other.names:
            if name not in one.names:
                one = _Set(one.cost.plus(self._costs[name]), (*one.names, name))
        return one

    def _steps(self, at: int, node: str, idle: int, size: int) -> dict[int, _Set]:
        """By how many more pods a node has room for: the cheapest set for that."""
        held = self._room.on[at][node]
        names = sorted((name for name in held if held[name][0]), key=self._costs.__getitem__)
        states: dict[int, _Set] = {0: _EMPTY}
        for name in names[:_MOST_ON_NODE]:
            mine = _Set(self._costs[name], (name,))
            for freed, known in list(states.items()):
                total, after = known.plus(mine), freed + held[name][0]
                if after not in states or total < states[after]:
                    states[after] = total
        best: dict[int, _Set] = {}
        for freed, known in states.items():
            gain = (idle + freed) // size - idle // size
            if gain > 0 and (gain not in best or known < best[gain]):
                best[gain] = known
        return best


def _cheapest_nodes(steps: Mapping[str, Mapping[int, _Set]], lack: int) -> list[str]:
    """Of each gain the nodes that may be needed, sorted."""
    found: set[str] = set()
    for gain in {gain for of in steps.values() for gain in of}:
        known = sorted((of[gain], node) for node, of in steps.items() if gain in of)
        found.update(node for _, node in known[: -(-lack // gain)])
    return sorted(found)
