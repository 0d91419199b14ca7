"""Proposes cheap sets of victims, by counting room on each node.

Of up to ten candidates, all sufficient sets are proposed. Of more, a set grows in steps. A step
evicts some jobs of one node, and is chosen by its cost for each pod that fits afterwards. Budgets
limit the steps: a quota, for instance, takes back no more than other quotas have borrowed. A step
that exceeds a budget gives way to the next best step of its node. Variants come from weights, which
add budget use to the cost, and from excluding nodes of earlier sets.

Counting ignores some constraints of the stages, so callers try each proposal.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from heapq import heappop, heappush
from itertools import combinations, islice
from math import inf
from operator import add
from typing import NamedTuple

from hivecore.scheduler.search.room import Held, Room
from hivecore.scheduler.stages.units import Unit

__all__ = ["Candidate", "Proposals"]

_FEW = 10  # up to so many candidates, all sets are proposed
_MOST_STATES = 256  # sums kept for each node
_MOST_VARIANTS = 8  # sets for each weight
_WEIGHTS = (0.0, 0.25, 1.0, 4.0)
_LESS = 1 - 1e-9  # for rounding: a lower bound must not exceed what it bounds
_NONE: dict[str, Held] = {}
_ANY: dict[str, int] = {}
_Cost = tuple[float, ...]


class Candidate(NamedTuple):
    """The price of evicting a job."""

    #: compared in order, less is better; costs of several jobs add up
    cost: _Cost
    #: the fraction of its budget that the job uses, and the budget's name; "": no budget
    load: float = 0.0
    budget: str = ""
    #: how many of the `allowed` evictions of each quota it uses
    evictions: Mapping[str, int] = _ANY


class _Step(NamedTuple):
    """Victims on a node, and how many more pods fit without them."""

    rate: _Cost
    node: str
    names: tuple[str, ...]
    pods: int


class _Spot(NamedTuple):
    """A node where jobs may leave room for pods."""

    node: str
    names: Sequence[str]  # of the jobs, in order
    helds: Sequence[int]  # what each holds
    wanted: int  # what has to be free for a pod
    largest: int  # of what they hold
    most: int  # how many pods may fit

    @property
    def least(self) -> int:
        """How many jobs have to leave, at least."""
        return -(-self.wanted // self.largest)


class _Steps:
    """Steps of nodes, the cheapest first. The first step of a node is only computed when its lower
    bound is reached.

    :param bounds: the bounds of the nodes, in order.
    :param first_step: of a node; ``None``: it has none.
    """

    def __init__(self, bounds: Iterable[_Step], first_step: Callable[[str], _Step | None]) -> None:
        self._bounds = iter(bounds)
        self._first_step = first_step
        self._bound = next(self._bounds, None)
        self._steps: list[_Step] = []  # a heap

    def pop(self) -> _Step | None:
        """Remove the next step; ``None`` if there are no more."""
        while (bound := self._bound) and not (self._steps and self._steps[0] < bound):
            step = self._first_step(bound.node)
            if step is not None:
                heappush(self._steps, step)
            self._bound = next(self._bounds, None)
        return heappop(self._steps) if self._steps else None

    def push(self, step: _Step) -> None:
        """Add a later step of a node."""
        heappush(self._steps, step)


class Proposals:
    """Sets of victims for units that start together.

    :param closed: nodes that the units cannot use.
    :param within: domains, one of which must hold all units; empty: all nodes are one domain.
    :param gone: jobs that are evicted already.
    :param taken: by dimension and node, the amount that other units have taken since.
    :param allowed: by quota, how many jobs may be evicted; other quotas have no limit.
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
        # average cost of a whole budget
        load = sum(candidate.load for candidate in candidates.values())
        cost = sum(candidate.cost[0] for candidate in candidates.values() if candidate.load)
        self._unit = cost / load if load else 0.0
        self._has_budgets = any(candidate.budget for candidate in candidates.values())
        self._first_steps: dict[tuple[int, int, float], dict[str, _Step | None]] = {}
        self._known_bounds: dict[tuple[int, int, float], list[_Step]] = {}
        self._known_spots: dict[tuple[int, int], list[_Spot]] = {}
        self._known_costs: dict[float, Mapping[str, _Cost]] = {}
        self._known_slots: dict[tuple[int, int], dict[str, int]] = {}

    def sets(self) -> Iterator[tuple[str, ...]]:
        """The sets: the cheapest first for few candidates, roughly so for many."""
        if len(self._left) <= _FEW:
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
            for victims in combinations(names, count):
                if self.may_do(victims):
                    costs = [self._candidates[name].cost for name in victims]
                    yield tuple(map(sum, zip(self._zero, *costs, strict=True))), victims

    def may_cost_less(self, parts: Sequence[int]) -> bool:
        """Whether some set may cost less than these first, integer parts. A quick check."""
        for least, part in zip(self._least_cost(), parts, strict=False):
            if least < part - 0.5:
                return True
            if least > part + 0.5:
                return False
        return False

    def _least_cost(self) -> _Cost:
        """A lower bound of a set's cost, by parts; a job's cost is split among its nodes."""
        on = self._room.nodes
        split = {
            name: tuple([part / max(len(on[name]), 1) for part in candidate.cost])
            for name, candidate in self._candidates.items()
        }
        least = [self._zero]
        for at, sizes in enumerate(self._needs):
            for size in {*sizes}:
                rates = [*self._rates(at, size, split)]
                places = [self._least_in(at, size, place, rates) for place in self._places]
                least.append(tuple(map(min, zip(*places, strict=True))))
        return tuple(map(max, zip(*least, strict=True)))

    def _least_in(
        self, at: int, size: int, place: frozenset[str], rates: Sequence[tuple[_Spot, _Cost]]
    ) -> _Cost:
        """The least cost of room for all pods of a size or more in a domain, part by part."""
        lack = self._lack(at, size, place, ())
        if lack <= 0:
            return self._zero
        here = [(rate, spot.most) for spot, rate in rates if spot.node in place]
        least = []
        for part in range(len(self._zero)):
            left, cost = lack, 0.0
            for rate, pods in sorted([(rate[part], pods) for rate, pods in here]):
                cost += rate * min(pods, left)
                left -= min(pods, left)
                if not left:
                    break
            least.append(inf if left else cost)
        return tuple(least)

    # --- enough room?

    def may_do(self, names: Iterable[str]) -> bool:
        """Whether some domain has enough resources once these jobs are evicted."""
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
        """Whether some domain has enough room once all jobs of ``room`` are evicted."""
        return any(
            all(
                self._pods(at, size) <= self._most(at, size, place)
                for at, sizes in enumerate(self._needs)
                for size in {*sizes}
            )
            for place in self._places
        )

    def _pods(self, at: int, size: int) -> int:
        """The number of pods that need this size or more."""
        return sum(other >= size for other in self._needs[at])

    def _most(self, at: int, size: int, place: frozenset[str]) -> int:
        """How many pods of a size fit into a domain once all jobs of ``room`` are evicted."""
        idle, held = self._room.dimensions[at].idle, self._room.held[at]
        taken = self._taken[at] if self._taken else _ANY
        counts = [idle.get(node, 0) + held.get(node, 0) - taken.get(node, 0) for node in place]
        return sum([count // size for count in counts if count > 0])

    def _slots(self, at: int, size: int) -> dict[str, int]:
        """How many pods of a size fit on each node; nodes without room are left out."""
        known = self._known_slots.get((at, size))
        if known is None:
            nodes = frozenset[str]().union(*self._places)
            idle = self._room.dimensions[at].idle
            if self._gone or self._taken:
                idle = {node: self._idle(at, node, ()) for node in nodes}
            known = {node: idle[node] // size for node in nodes if idle.get(node, 0) >= size}
            self._known_slots[at, size] = known
        return known

    def _lack(self, at: int, size: int, place: frozenset[str], names: Collection[str]) -> int:
        """How many pods of a size or more do not fit into a domain once these jobs are evicted."""
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
        if pods == 1:  # a pod fits on one node, so domains do not matter
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
        """Sets for a single pod with one dimension, the cheapest first."""
        at, size = next((at, sizes[0]) for at, sizes in enumerate(self._needs) if sizes)
        lacks = self._lack(at, size, place, ()) > 0
        steps = self._steps(at, size, weight, place if lacks else frozenset(), (), {})
        while (step := steps.pop()) is not None:
            yield frozenset(step.names)

    def _best_places(
        self, weight: float, places: Iterable[frozenset[str]]
    ) -> Iterator[frozenset[str]]:
        likely = sorted(places, key=lambda place: self._guess(weight, place))[: 2 * _MOST_VARIANTS]
        sets = (self._grown(weight, place) for place in likely)
        grown = [grow for grow in sets if grow is not None]
        grown.sort(key=lambda of_place: (of_place[0], sorted(of_place[1])))
        for _, names, _ in grown[:_MOST_VARIANTS]:
            yield names

    def _guess(self, weight: float, place: frozenset[str]) -> tuple[int, _Cost]:
        """How many pods never fit into a domain, and what room for the others may cost."""
        at = next(i for i, sizes in enumerate(self._needs) if sizes)
        size = max(self._needs[at])
        nodes = [bound.node for bound in self._bounds(at, size, weight) if bound.node in place]
        steps = (self._first_step(at, size, weight, node) for node in nodes)
        lack = self._lack(at, size, place, ())
        rates = sorted(step.rate for step in steps if step is not None)[: max(lack, 0)]
        least = self._pods(at, size) - self._most(at, size, place)
        return max(least, 0), tuple(map(sum, zip(self._zero, *rates, strict=True)))

    def _grown(
        self, weight: float, place: frozenset[str]
    ) -> tuple[_Cost, frozenset[str], str] | None:
        """A set that makes room in a domain: cost, set, node of its first step; or ``None``."""
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
        """Add victims until a domain has room. The first step's node, or ""; ``None``: no room."""
        lack = self._lack(at, size, place, names)
        if lack <= 0:
            return ""
        loads = self._loads(names)
        steps, first = self._steps(at, size, weight, place, names, loads), ""
        while lack > 0 and (step := steps.pop()) is not None:
            if self._is_used_up(at, size, step.node, names, loads):
                continue
            again = self._step(at, size, step.node, lack, weight, names)
            if again != step:  # outdated by other steps
                if again is not None:
                    steps.push(again)
                continue
            first = first or step.node
            touched = {node for name in step.names for node in self._room.nodes[name]} & place
            lack += sum(self._idle(at, node, names) // size for node in touched)
            names.update(dict.fromkeys(step.names))
            loads.update(self._loads(names))
            lack -= sum(self._idle(at, node, names) // size for node in touched)
            more = self._step(at, size, step.node, lack, weight, names) if lack > 0 else None
            if more is not None:
                steps.push(more)
        return first if lack <= 0 else None

    def _steps(
        self,
        at: int,
        size: int,
        weight: float,
        place: frozenset[str],
        names: Collection[str],
        loads: Mapping[str, Sequence[float]],
    ) -> _Steps:
        """The first steps of the nodes of a domain, but for nodes that are used up meanwhile."""
        bounds = (
            bound
            for bound in self._bounds(at, size, weight)
            if bound.node in place and not self._is_used_up(at, size, bound.node, names, loads)
        )
        return _Steps(bounds, partial(self._first_step, at, size, weight))

    def _is_used_up(
        self,
        at: int,
        size: int,
        node: str,
        names: Collection[str],
        loads: Mapping[str, Sequence[float]],
    ) -> bool:
        """Whether no more pods fit on a node unless a job leaves that exceeds its budget."""
        if not loads:
            return False
        free = 0
        for name, held in self._jobs_on(at, node, names):
            _, load, budget, _ = self._candidates[name]
            if not (budget in loads and _is_over([*loads[budget], load])):
                free += held
        idle = self._idle(at, node, names)
        return (idle + free) // size <= idle // size

    def _jobs_on(self, at: int, node: str, names: Collection[str]) -> list[tuple[str, int]]:
        """The candidates on a node that do not leave with these jobs, and what each holds."""
        return [
            (name, held)
            for name, (held, _) in self._room.on[at][node].items()
            if held and name in self._candidates and name not in names and name not in self._gone
        ]

    def _first_step(self, at: int, size: int, weight: float, node: str) -> _Step | None:
        """The first step of a node; ``None`` if it has none."""
        known = self._first_steps.setdefault((at, size, weight), {})
        if node not in known:
            known[node] = self._step(at, size, node, len(self._needs[at]), weight, ())
        return known[node]

    def _bounds(self, at: int, size: int, weight: float) -> list[_Step]:
        """Lower bounds for the cost of each node's first step, in order, without names and with the
        most pods that may fit.

        Where one pod fits if all jobs leave, the bound is the cost.
        """
        bounds = self._known_bounds.get((at, size, weight))
        if bounds is None:
            rates = self._rates(at, size, self._costs(weight))
            bounds = sorted([_Step(rate, spot.node, (), spot.most) for spot, rate in rates])
            self._known_bounds[at, size, weight] = bounds
        return bounds

    def _rates(
        self, at: int, size: int, cost_of: Mapping[str, _Cost]
    ) -> Iterator[tuple[_Spot, _Cost]]:
        """Lower bounds for the cost of a pod on each node, if jobs have these costs."""
        for spot in self._spots(at, size):
            costs = [cost_of[name] for name in spot.names]
            if spot.most == 1 and spot.least == len(costs):
                yield spot, reduce(_sum, costs, self._zero)
            else:
                yield spot, _least_rate(costs, spot)

    def _spots(self, at: int, size: int) -> list[_Spot]:
        """The nodes where jobs may leave room for pods of a size."""
        spots = self._known_spots.get((at, size))
        if spots is None:
            spots = self._known_spots[at, size] = []
            pods = len(self._needs[at])
            nodes = frozenset[str]().union(*self._places)
            for node in nodes.intersection(self._room.on[at]):
                jobs = sorted(self._jobs_on(at, node, ()))
                helds = [held for _, held in jobs]
                idle = self._idle(at, node, ()) % size
                most = min((idle + sum(helds)) // size, pods)
                if most > 0:
                    names = [name for name, _ in jobs]
                    spots.append(_Spot(node, names, helds, size - idle, max(helds), most))
        return spots

    def _costs(self, weight: float) -> Mapping[str, _Cost]:
        """The costs of the candidates, with the use of budgets in the first part."""
        known = self._known_costs.get(weight)
        if known is None:
            each = weight * self._unit
            known = self._known_costs[weight] = {
                name: (cost[0] + each * load, *cost[1:]) if each and load else cost
                for name, (cost, load, _, _) in self._candidates.items()
            }
        return known

    def _step(
        self, at: int, size: int, node: str, lack: int, weight: float, names: Collection[str]
    ) -> _Step | None:
        """The step of a node with the least cost per pod; ``None`` if it has none."""
        idle = self._idle(at, node, names)
        jobs = self._jobs_on(at, node, names)
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
        """The cheapest step without budgets, where all jobs together make room for a pod."""
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
        """For each amount that some of the jobs hold together, the cheapest such jobs."""
        sums: dict[int, tuple[_Cost, tuple[str, ...]]] = {0: (self._zero, ())}
        cost_of = self._costs(weight)
        for name, held in sorted(jobs):
            cost = cost_of[name]
            states = list(sums.items())
            if len(states) > _MOST_STATES:
                states = [max(states)]  # evicting all jobs is always enough
            for freed, (before, names) in states:
                if freed < most:
                    after = tuple(map(add, before, cost)), (*names, name)
                    known = sums.get(freed + held)
                    if known is None or after < known:
                        sums[freed + held] = after
        return sums

    def _over_budget(self, names: Iterable[str], more: Sequence[str]) -> str | None:
        """The job among ``more`` that exceeds its budget by most; ``None`` if none does."""
        over = {budget for budget, loads in self._loads(names).items() if _is_over(loads)}
        excess = [name for name in more if self._candidates[name].budget in over]
        return max(excess, key=lambda name: (self._candidates[name].load, name), default=None)

    def _loads(self, names: Iterable[str]) -> dict[str, list[float]]:
        """What these jobs use of each budget."""
        loads: dict[str, list[float]] = {}
        if self._has_budgets:
            for name in names:
                _, load, budget, _ = self._candidates[name]
                if budget:
                    loads.setdefault(budget, []).append(load)
        return loads

    def _over_limit(self, names: Iterable[str], jobs: Iterable[tuple[str, int]]) -> str | None:
        """The smallest job on a node that its quota cannot lose as well; ``None``: none."""
        if not self._allowed:
            return None
        count = Counter[str]()
        for name in names:
            count.update(self._candidates[name].evictions)
        over = {quota for quota, most in self._allowed.items() if count[quota] > most}
        excess = [(held, name) for name, held in jobs if over & {*self._candidates[name].evictions}]
        return min(excess, default=(0, None))[1]


def _is_over(loads: Sequence[float]) -> bool:
    """Whether a budget is exceeded. The last job may exceed it in part."""
    return sum(loads) - max(loads) >= 1.0


def _least_rate(costs: Sequence[_Cost], spot: _Spot) -> _Cost:
    """A lower bound of a pod's cost on a node with jobs of these costs, in each part."""
    most, rate = spot.most, []
    count = max(spot.wanted / spot.largest, 1 / most)
    for parts in zip(*costs, strict=True):
        if most > 1:
            rate.append(min(parts) * count * _LESS)
            continue
        few = sorted(parts)[: spot.least]
        # sums of integers and of equal numbers are the same in any order
        is_exact = few[0] == few[-1] or all(float(part).is_integer() for part in few)
        rate.append(reduce(add, few) * (1 if is_exact else _LESS))
    dear = [cost[0] for cost in costs if cost[0]]
    cheap = sum(held for held, cost in zip(spot.helds, costs, strict=True) if not cost[0])
    if cheap < spot.wanted:
        rate[0] = max(rate[0], min(dear) / most * (_LESS if most > 1 else 1))
    return tuple(rate)


def _sum(first: _Cost, second: _Cost) -> _Cost:
    return tuple(map(add, first, second))
