"""Cheap sets of jobs whose leaving makes room, by counting node by node.

Of few candidates all sets are proposed that leave enough. Of many, a set grows step by step: each
step is the cheapest set of jobs of a node by which the node has room for further pods, per pod.
Some jobs also count against a budget, as jobs that a quota takes back count against what another
quota has borrowed; a step that exceeds a budget is replaced by the next best step of its node.
Further sets come from weights, by which what a budget loses counts as cost, and from banning the
nodes of earlier sets.

Counting does not know everything that the stages ask for: a proposal is tried before it is used.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations, islice
from operator import add
from typing import NamedTuple

from hivecore.scheduler.search.room import Held, Room
from hivecore.scheduler.stages.units import Unit

__all__ = ["FEW", "Candidate", "Proposals"]

FEW = 10  # candidates of which all sets are proposed
_MOST_STATES = 256  # sums of a node that are kept
_MOST_VARIANTS = 8  # of equal weights, or domains
_WEIGHTS = (0.0, 0.25, 1.0, 4.0)
_LESS = 1 - 1e-9  # bounds are less than what they bound, however that is rounded
_NONE: dict[str, Held] = {}
_ANY: dict[str, int] = {}
_Cost = tuple[float, ...]


class Candidate(NamedTuple):
    """What it takes that a job leaves."""

    #: less is better, in this order; costs of several jobs add up
    cost: _Cost
    #: a share of 1 that the job takes of a budget, and the name of the budget; "": it has no limit
    load: float = 0.0
    budget: str = ""
    #: by quota, how many evictions of `allowed` it takes
    evictions: Mapping[str, int] = _ANY


class _Step(NamedTuple):
    """Some jobs of a node, and for how many more pods it has room without them."""

    rate: _Cost
    node: str
    names: tuple[str, ...]
    pods: int


class Proposals:
    """Sets of candidates for units that start together.

    :param closed: the nodes that the units cannot use.
    :param within: sets of nodes of which one has to hold the units; none: all nodes together.
    :param gone: jobs that have left already.
    :param taken: by dimension and node, what others have taken since.
    :param allowed: by quota, how many evictions there may be; of other quotas any number.
    """

    def __init__(
        self,
        room: Room,
        units: Sequence[Unit],
        candidates: Mapping[str, Candidate],
        closed: frozenset[str],
        within: Sequence[frozenset[str]],
        gone: Collection[str] = (),
        taken: Sequence[Counter[str]] = (),
        allowed: Mapping[str, int] = _ANY,
    ) -> None:
        self._room, self._candidates, self._closed = room, candidates, closed
        self._gone, self._taken, self._allowed = gone, taken, allowed
        self._left = [name for name in candidates if name not in gone]
        self._needs = [room.needs(at, units) for at in range(len(room.dimensions))]
        nodes = frozenset(node for dimension in room.dimensions for node in dimension.idle)
        self._places = [place - closed for place in within] or [nodes - closed]
        self._zero: _Cost = (0.0,) * len(next(iter(candidates.values()), Candidate(())).cost)
        # What a unit of load costs on average.
        load = sum(of.load for of in candidates.values())
        cost = sum(of.cost[0] for of in candidates.values() if of.load)
        self._unit = cost / load if load else 0.0
        self._has_budgets = any(of.budget for of in candidates.values())
        self._first_steps: dict[tuple[int, int, float], dict[str, _Step | None]] = {}
        self._known_bounds: dict[tuple[int, int], dict[str, _Step]] = {}
        self._known_slots: dict[tuple[int, int], dict[str, int]] = {}

    def sets(self) -> Iterator[tuple[str, ...]]:
        """The sets, of few candidates the cheapest first; of many roughly so."""
        if len(self._left) <= FEW:
            for _, names in sorted(self._all()):
                yield names
            return
        known = set()
        for some in self._by_steps() if self.may_do_with_all() else ():
            if some and some not in known:
                known.add(some)
                yield tuple(sorted(some))

    def _all(self) -> Iterator[tuple[_Cost, tuple[str, ...]]]:
        names = self._left
        for count in range(len(names) + 1):
            for some in combinations(names, count):
                if self.may_do(some):
                    costs = [self._candidates[name].cost for name in some]
                    yield tuple(map(sum, zip(self._zero, *costs, strict=True))), some

    # --- whether some jobs are enough

    def may_do(self, names: Iterable[str]) -> bool:
        """Whether some place has enough room when these jobs have left, as far as counting says."""
        leaving = frozenset(names)
        return any(
            all(
                self._lack(at, size, place, leaving) <= 0
                for at, sizes in enumerate(self._needs)
                for size in {*sizes}
            )
            for place in self._places
        )

    def may_do_with_all(self) -> bool:
        """The same when all jobs of the room have left."""
        return any(
            all(
                self._pods(at, size) <= self._most(at, size, place)
                for at, sizes in enumerate(self._needs)
                for size in {*sizes}
            )
            for place in self._places
        )

    def _pods(self, at: int, size: int) -> int:
        """How many pods need so much or more."""
        return sum(other >= size for other in self._needs[at])

    def _most(self, at: int, size: int, place: frozenset[str]) -> int:
        """For how many pods of a size a place has room when all jobs of the room have left."""
        idle, held = self._room.dimensions[at].idle, self._room.held[at]
        most = {node: idle.get(node, 0) + held.get(node, 0) for node in place}
        if self._taken:
            taken = self._taken[at]
            most = {node: max(count - taken[node], 0) for node, count in most.items()}
        return sum([count // size for count in most.values()])

    def _slots(self, at: int, size: int) -> dict[str, int]:
        """For how many pods of a size each node has room, if any."""
        known = self._known_slots.get((at, size))
        if known is None:
            nodes = frozenset[str]().union(*self._places)
            slots = {node: self._idle(at, node, ()) // size for node in nodes}
            known = {node: count for node, count in slots.items() if count}
            self._known_slots[at, size] = known
        return known

    def _lack(self, at: int, size: int, place: frozenset[str], names: Collection[str]) -> int:
        """For how many pods of a size or more a place has no room when jobs have left."""
        slots = self._slots(at, size)
        pods = self._pods(at, size) - sum(slots[node] for node in slots.keys() & place)
        on = self._room.nodes
        for node in place.intersection([node for name in names for node in on.get(name, ())]):
            pods -= self._idle(at, node, names) // size - slots.get(node, 0)
        return pods

    def _idle(self, at: int, node: str, names: Collection[str]) -> int:
        idle = self._room.dimensions[at].idle.get(node, 0)
        if names or self._gone:
            for name, (held, _) in self._room.on[at].get(node, _NONE).items():
                if name in names or name in self._gone:
                    idle += held
        return max(idle - (self._taken[at][node] if self._taken else 0), 0)

    # --- many candidates

    def _by_steps(self) -> Iterator[frozenset[str]]:
        pods = max(map(len, self._needs), default=0)
        if not pods:
            return
        places = self._places
        if pods == 1:  # a pod is on a node, whatever the places are
            places = [frozenset().union(*places)]
        weights = _WEIGHTS if self._unit else _WEIGHTS[:1]
        if len(places) > 1:
            for weight in weights:
                yield from self._best_places(weight, places)
            return
        if sum(map(len, self._needs)) == 1:
            singles = [self._singles(weight, places[0]) for weight in weights]
            for _ in range(_MOST_VARIANTS):
                for of_weight in singles:
                    yield from islice(of_weight, 1)
            return
        banned: dict[float, set[str]] = {weight: set() for weight in weights}
        for _ in range(_MOST_VARIANTS):
            for weight, nodes in banned.items():
                grown = self._grown(weight, places[0] - nodes)
                if grown is not None and grown[2]:
                    yield grown[1]
                    nodes.add(grown[2])

    def _singles(self, weight: float, place: frozenset[str]) -> Iterator[frozenset[str]]:
        """Sets for a single pod that one dimension counts, the cheapest first."""
        at, size = next((at, sizes[0]) for at, sizes in enumerate(self._needs) if sizes)
        lacks = self._lack(at, size, place, ()) > 0
        steps = self._known_steps(at, size, weight, place) if lacks else []
        while steps:
            step = heappop(steps)
            if step.pods:
                yield frozenset(step.names)
            elif (exact := self._first_step(at, size, weight, step.node)) is not None:
                heappush(steps, exact)

    def _best_places(
        self, weight: float, places: Iterable[frozenset[str]]
    ) -> Iterator[frozenset[str]]:
        likely = sorted(places, key=lambda place: self._guess(weight, place))[: 2 * _MOST_VARIANTS]
        grown = [found for place in likely if (found := self._grown(weight, place)) is not None]
        grown.sort(key=lambda of_place: (of_place[0], sorted(of_place[1])))
        for _, names, _ in grown[:_MOST_VARIANTS]:
            yield names

    def _guess(self, weight: float, place: frozenset[str]) -> tuple[int, _Cost]:
        """For how many pods a place never has room, and about what room for all costs."""
        at = next(i for i, sizes in enumerate(self._needs) if sizes)
        size = max(self._needs[at])
        nodes = self._bounds(at, size).keys() & place
        steps = (self._first_step(at, size, weight, node) for node in nodes)
        lack = self._lack(at, size, place, ())
        rates = sorted(step.rate for step in steps if step is not None)[: max(lack, 0)]
        least = self._pods(at, size) - self._most(at, size, place)
        return max(least, 0), tuple(map(sum, zip(self._zero, *rates, strict=True)))

    def _grown(
        self, weight: float, place: frozenset[str]
    ) -> tuple[_Cost, frozenset[str], str] | None:
        """What a set costs by which a place has room, the set, and the node of its first step;
        ``None``: no set was found.
        """
        names: dict[str, None] = {}
        first = ""
        for at, sizes in enumerate(self._needs):
            for size in sorted({*sizes}, reverse=True):
                node = self._grow(at, size, place, weight, names)
                if node is None:
                    return None
                first = first or node
        cost = self._zero
        for name in names:
            cost = tuple(map(add, cost, self._candidates[name].cost))
        return cost, frozenset(names), first

    def _grow(
        self, at: int, size: int, place: frozenset[str], weight: float, names: dict[str, None]
    ) -> str | None:
        """Add jobs until a place has room for all pods of a size; the node of the first step, ""
        if there was room; ``None``: there is not enough.
        """
        lack = self._lack(at, size, place, names)
        if lack <= 0:
            return ""
        steps, first = self._known_steps(at, size, weight, place), ""
        while lack > 0 and steps:
            step = heappop(steps)
            if not step.pods:  # a bound
                exact = self._first_step(at, size, weight, step.node)
                if exact is not None:
                    heappush(steps, exact)
                continue
            again = self._step(at, size, step.node, lack, weight, names)
            if again != step:  # other steps have changed it since
                if again is not None:
                    heappush(steps, again)
                continue
            first = first or step.node
            touched = {node for name in step.names for node in self._room.nodes[name]} & place
            lack += sum(self._idle(at, node, names) // size for node in touched)
            names.update(dict.fromkeys(step.names))
            lack -= sum(self._idle(at, node, names) // size for node in touched)
            more = self._step(at, size, step.node, lack, weight, names) if lack > 0 else None
            if more is not None:
                heappush(steps, more)
        return first if lack <= 0 else None

    def _known_steps(self, at: int, size: int, weight: float, place: frozenset[str]) -> list[_Step]:
        """The first step of each node, or its bound, as a heap."""
        bounds, known = self._bounds(at, size), self._first_steps.get((at, size, weight), {})
        nodes = bounds.keys() & place
        steps = [step for node in nodes if (step := known.get(node, bounds[node])) is not None]
        heapify(steps)
        return steps

    def _first_step(self, at: int, size: int, weight: float, node: str) -> _Step | None:
        """The first step of a node; ``None``: there is none."""
        known = self._first_steps.setdefault((at, size, weight), {})
        if node not in known:
            known[node] = self._step(at, size, node, len(self._needs[at]), weight, ())
        return known[node]

    def _bounds(self, at: int, size: int) -> dict[str, _Step]:
        """What the first step of each node costs at least, without names."""
        bounds = self._known_bounds.get((at, size))
        if bounds is None:
            bounds = self._known_bounds[at, size] = {}
            pods, candidates = len(self._needs[at]), self._candidates
            nodes = frozenset[str]().union(*self._places)
            for node in nodes.intersection(self._room.on[at]):
                jobs = [
                    (held, candidates[name].cost)
                    for name, (held, _) in self._room.on[at][node].items()
                    if held and name in candidates and name not in self._gone
                ]
                idle = self._idle(at, node, ()) % size
                most = min((idle + sum([held for held, _ in jobs])) // size, pods)
                if most <= 0:
                    continue
                wanted, largest = size - idle, max([held for held, _ in jobs])
                count = max(wanted / largest, 1 / most) if most > 1 else -(-wanted // largest)
                least = [*map(min, zip(*[cost for _, cost in jobs], strict=True))]
                # Rounding matters to parts of whole numbers, and to fractions.
                rate = [
                    part * count * (_LESS if most > 1 or isinstance(part, float) else 1)
                    for part in least
                ]
                if not least[0] and sum(held for held, cost in jobs if not cost[0]) < wanted:
                    rate[0] = (
                        min(cost[0] for _, cost in jobs if cost[0])
                        / most
                        * (_LESS if most > 1 else 1)
                    )
                bounds[node] = _Step(tuple(rate), node, (), 0)
        return bounds

    def _step(
        self, at: int, size: int, node: str, lack: int, weight: float, names: Collection[str]
    ) -> _Step | None:
        """The step of a node that costs least for each pod; ``None``: there is none."""
        idle = self._idle(at, node, names)
        jobs = [
            (name, held)
            for name, (held, _) in self._room.on[at][node].items()
            if held and name in self._candidates and name not in names and name not in self._gone
        ]
        while True:
            most = (idle + sum(held for _, held in jobs)) // size - idle // size
            if most <= 0:
                return None
            best = self._best(size, node, idle, min(lack, most), weight, tuple(jobs))
            together = [*names, *best.names]
            over = self._over_budget(together, best.names) or self._over_limit(together, jobs)
            if over is None:
                return best
            jobs = [(name, held) for name, held in jobs if name != over]

    def _best(
        self,
        size: int,
        node: str,
        idle: int,
        lack: int,
        weight: float,
        jobs: tuple[tuple[str, int], ...],
    ) -> _Step:
        """The same without budgets, where some jobs are enough for a pod."""
        key = size, node, idle, lack, weight, jobs
        best: _Step | None = self._room.steps.get(key)
        if best is None:
            wanted = (idle // size + 1) * size - idle
            steps = []
            for freed, (cost, names) in self._sums(jobs, lack * size, weight).items():
                if freed >= wanted:
                    pods = min((idle + freed) // size - idle // size, lack)
                    steps.append(_Step(tuple(part / pods for part in cost), node, names, pods))
            best = self._room.steps[key] = min(steps)
        return best

    def _sums(
        self, jobs: Iterable[tuple[str, int]], most: int, weight: float
    ) -> dict[int, tuple[_Cost, tuple[str, ...]]]:
        """By what some of these jobs hold together, the cheapest such jobs."""
        sums: dict[int, tuple[_Cost, tuple[str, ...]]] = {0: (self._zero, ())}
        for name, held in sorted(jobs):
            cost, load = self._candidates[name][:2]
            if weight and load:
                cost = (cost[0] + weight * self._unit * load, *cost[1:])
            states = list(sums.items())
            if len(states) > _MOST_STATES:
                states = [max(states)]  # all jobs are enough, in any case
            for freed, (before, names) in states:
                if freed < most:
                    after = tuple(map(add, before, cost)), (*names, name)
                    known = sums.get(freed + held)
                    if known is None or after < known:
                        sums[freed + held] = after
        return sums

    def _over_budget(self, names: Iterable[str], more: Sequence[str]) -> str | None:
        """Of the jobs that come last, one that exceeds its budget; ``None``: none does. A budget
        covers jobs as long as something of it is left for the largest of them.
        """
        if not self._has_budgets:
            return None
        loads: dict[str, list[float]] = {}
        for name in names:
            _, load, budget, _ = self._candidates[name]
            if budget:
                loads.setdefault(budget, []).append(load)
        over = {budget for budget, of in loads.items() if sum(of) - max(of) >= 1.0}
        excess = [name for name in more if self._candidates[name].budget in over]
        return max(excess, key=lambda name: (self._candidates[name].load, name), default=None)

    def _over_limit(self, names: Iterable[str], jobs: Iterable[tuple[str, int]]) -> str | None:
        """Of the jobs of a node and what they hold, the one of a quota with too many evictions that
        holds least; ``None``: no quota has too many.
        """
        if not self._allowed:
            return None
        count = Counter[str]()
        for name in names:
            count.update(self._candidates[name].evictions)
        over = {quota for quota, most in self._allowed.items() if count[quota] > most}
        excess = [(held, name) for name, held in jobs if over & {*self._candidates[name].evictions}]
        return min(excess, default=(0, None))[1]
