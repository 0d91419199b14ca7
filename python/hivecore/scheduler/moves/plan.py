"""Plans moves of running jobs, so that nodes become free or a job fits.

Each set of jobs is tried and undone. The jobs that must move are tried first. If one of them finds
no place, sets of further jobs are proposed as victims are (`hivecore.scheduler.search.proposals`).
Then all sets are tried in order of cost, until no set can be cheaper than the best plan or the
tries are used up. Sets that counting refutes use no try.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import chain, islice
from math import inf
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, get_args

from hivecore._arguments import as_choice, as_int
from hivecore._record import Name, Record, distinct
from hivecore.scheduler.actions import Move
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.moves.bounds import Counting, Problem
from hivecore.scheduler.moves.moving import may_move, placed_pods
from hivecore.scheduler.moves.trial import Failed, Steps, Trial
from hivecore.scheduler.search.proposals import Candidate, Proposals
from hivecore.scheduler.search.room import Room

__all__ = ["Fit", "FreeDomain", "FreeNodes", "Goal", "MoveCost", "MovePlan", "plan_moves"]

_MICRO = 1_000_000
#: The tries are divided among up to so many domains.
_DOMAINS = 8
_LOOKS = 100  # sets considered for each try
_MOST = 8  # proposed sets for each job without a place
_Names = frozenset[str]

#: What a plan minimizes.
MoveCost = Literal["jobs", "gpu_seconds"]


class FreeNodes(Record, frozen=True):
    """The goal that nodes are free of jobs, for instance before maintenance.

    :param nodes: their names, at least one.
    :raises ValueError: ``nodes`` is empty.
    :raises TypeError: an argument is of a wrong type.
    """

    nodes: Annotated[tuple[str, ...], distinct]

    if TYPE_CHECKING:

        def __init__(self, nodes: Iterable[str]) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        if not self.nodes:
            raise ValueError("nodes must not be empty")


class FreeDomain(Record, frozen=True):
    """The goal that all nodes of a domain are free of jobs.

    :param layer: "node", a layer of the network, or a level of cells from the node up.
    :param name: the domain. A cell is its chain and number, such as "H100/0". Where a name occurs
        twice in a network, add the domains around it: "row1/rack1". "": the cheapest domain among
        those whose nodes are all healthy.
    :raises ValueError: ``layer`` is empty.
    :raises TypeError: an argument is of a wrong type.
    """

    layer: Name
    name: str = ""

    def __post_init__(self) -> None:
        self._check()


class Fit(Record, frozen=True):
    """The goal that a waiting job can start, with all jobs that start together with it.

    :param job: its name.
    :raises ValueError: the name is empty.
    :raises TypeError: the name is not a string.
    """

    job: Name

    def __post_init__(self) -> None:
        self._check()


Goal = FreeNodes | FreeDomain | Fit


class MovePlan(Record, frozen=True):
    """A plan of moves.

    :param goal: the goal.
    :param steps: in order; pass each step to `Scheduler.move`. The jobs of a step stop together
        before any of them starts again, as they take each other's places.
    :param cost: the number of jobs, or their GPU-seconds since they started; inf if there is no
        plan.
    :param lower_bound: a lower bound for the cost of every plan; inf if it is proved that none
        exists.
    :param nodes: the nodes that become free; empty for `Fit`.
    :param reason: why there is no plan, in a line; "" if there is one.
    """

    goal: Goal
    steps: tuple[tuple[Move, ...], ...]
    cost: float
    lower_bound: float
    nodes: tuple[str, ...] = ()
    reason: str = ""

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves of all steps, in order."""
        return tuple(move for step in self.steps for move in step)

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no plan is cheaper, or that none exists."""
        return self.cost == self.lower_bound


def plan_moves(state: State, goal: Goal, cost: MoveCost, most_tries: int) -> MovePlan:
    """See `Scheduler.plan_moves`; the caller holds the lock."""
    as_choice(cost, "cost", get_args(MoveCost))
    planning = _Planning(state, cost, as_int(most_tries, "most_tries", 1, 1_000_000))
    if isinstance(goal, FreeNodes):
        return planning.free(goal, goal.nodes)
    if isinstance(goal, FreeDomain):
        return planning.free_domain(goal)
    if isinstance(goal, Fit):
        return planning.fit(goal)
    raise TypeError(f"goal must be FreeNodes, FreeDomain or Fit, not {type(goal).__name__}")


class _Result(NamedTuple):
    """The best plan of a problem."""

    #: inf: there is no plan
    cost: float
    #: lower bound for the cost of every plan; inf: none exists
    least: float
    steps: Steps
    #: tries that are left
    left: int
    #: why more jobs than those that must move are needed, or why there is no plan
    reason: str


class _Planning:
    """Plans moves for the present state of a scheduler."""

    def __init__(self, state: State, cost: MoveCost, tries: int) -> None:
        self.state, self.tries, self.cost_of = state, tries, cost
        self.on: dict[str, list[str]] = {}
        costs = {}
        for name, live in state.jobs.items():
            for node in {pod.node for pod in placed_pods(live)}:
                self.on.setdefault(node, []).append(name)
            if may_move(state.stages, live):
                gpus = sum(unit.gpus for unit in live.placed)
                costs[name] = (
                    1 if cost == "jobs" else round((state.now - live.since) * _MICRO) * gpus
                )
        self.stages, self.jobs, self.costs = state.stages, state.jobs, costs
        self.room = Room(self.stages, self.jobs, costs)
        self.bad = frozenset(self.stages.unhealthy())
        sizes = {name: self.jobs[name].job.gpus for name in costs}
        self.candidates = {
            name: Candidate((job_cost, sizes[name]), sizes[name])
            for name, job_cost in costs.items()
        }

    def cost(self, names: _Names) -> int:
        return sum(self.costs[name] for name in names)

    def free(self, goal: Goal, nodes: tuple[str, ...]) -> MovePlan:
        """See `FreeNodes`."""
        known = set(self.stages.nodes())
        for node in nodes:
            if node not in known:
                raise KeyError(f"nodes: no part knows {node!r}")
        occupants = self._on(nodes)
        for name in sorted(occupants - self.costs.keys()):
            return self._never(goal, f"job {name!r} is there and has to stay")
        problem = Problem(occupants, frozenset(nodes))
        return self._plan(goal, _Solving(self, problem, self.tries).solve(), nodes)

    def _on(self, nodes: tuple[str, ...]) -> frozenset[str]:
        return frozenset(name for node in nodes for name in self.on.get(node, ()))

    def free_domain(self, goal: FreeDomain) -> MovePlan:
        """See `FreeDomain`."""
        known = self.stages.domains(goal.layer)
        if goal.name:
            if goal.name not in known:
                raise KeyError(f"name={goal.name!r}: layer {goal.layer!r} has no such domain")
            return self.free(goal, known[goal.name])
        best = _Result(inf, inf, (), self.tries, "every domain has a job that must stay")
        chosen, left, each = "", self.tries, max(1, self.tries // _DOMAINS)
        for cost, _, name in self._by_cost(known):
            if cost >= best.cost or not left:
                best = best._replace(least=min(best.least, cost))
                break
            problem = Problem(self._on(known[name]), frozenset(known[name]))
            tries = min(each, left)
            result = _Solving(self, problem, tries, best.cost).solve()
            left -= tries - result.left
            least = min(best.least, result.least)
            if result.cost < best.cost or not chosen:
                best, chosen = result, name
            best = best._replace(least=least)
        best = best._replace(least=min(best.least, best.cost))
        return self._plan(goal, best, known.get(chosen, ()))

    def _by_cost(self, known: Mapping[str, tuple[str, ...]]) -> list[tuple[int, int, str]]:
        """Domains that may become free, by the cost of moving their jobs."""
        ranked = []
        for name, nodes in known.items():
            occupants = self._on(nodes)
            if occupants <= self.costs.keys() and self.bad.isdisjoint(nodes):
                gpus = sum(self.jobs[job].job.gpus for job in occupants)
                ranked.append((self.cost(occupants), gpus, name))
        return sorted(ranked)

    def fit(self, goal: Fit) -> MovePlan:
        """See `Fit`."""
        state = self.state
        live = state.known(goal.job)
        if live is None:
            raise KeyError(f"there is no job {goal.job!r}")
        if live.state != "pending":
            raise ValueError(f"job={goal.job!r}: it is {live.state}, and does not wait in a queue")
        if first := state.missing(live):
            return self._never(goal, f"waits for {first[0]!r} to start")
        if state.companions(live):
            return self._never(goal, "starts together with other jobs")
        unit = live.units[0]
        if reason := self.stages.not_admitted(unit):
            return self._never(goal, reason)
        places = self.stages.domains_for(live.job)
        problem = Problem(frozenset(), frozenset(), unit, places)
        return self._plan(goal, _Solving(self, problem, self.tries).solve(), ())

    def _never(self, goal: Goal, reason: str) -> MovePlan:
        return MovePlan(goal, (), inf, inf, (), reason)

    def _plan(self, goal: Goal, result: _Result, nodes: tuple[str, ...]) -> MovePlan:
        cost, least = result.cost, result.least
        if self.cost_of == "gpu_seconds":
            cost, least = cost / _MICRO, least / _MICRO
        return MovePlan(goal, result.steps, cost, least, nodes if cost < inf else (), result.reason)


class _Solving:
    """The search for a plan of one problem that costs less than ``below``, in so many tries."""

    def __init__(
        self, planning: _Planning, problem: Problem, tries: int, below: float = inf
    ) -> None:
        self.planning, self.problem, self.tries = planning, problem, tries
        self.counting = Counting(planning.room, problem, planning.costs)
        self.least = planning.cost(problem.forced) + self.counting.least_extra()
        self.trial = Trial(planning.stages, planning.jobs, problem)
        self.best, self.reason = below, ""
        self.steps: Steps | None = None
        self.seen: set[_Names] = set()
        #: lowest cost of a failed set that counting does not refute
        self.open = inf

    def solve(self) -> _Result:
        if self.least == inf:
            return _Result(inf, inf, (), self.tries, "there is too little room, wherever jobs move")
        if self.least < self.best:
            self._propose()
        if self.least < self.best:
            self._go_through()
        least = min(self.least, self.best)
        if self.steps is None:
            return _Result(inf, least, (), self.tries, self.reason)
        return _Result(self.best, least, self.steps, self.tries, "")

    def _propose(self) -> None:
        """Follow the proposals for jobs without a place, until a quarter of the tries is left."""
        planning, start = self.planning, self.problem.forced
        queue = [(0, planning.cost(start), 0, start)]
        known, left = {start}, self.tries // 4
        while queue and self.tries > left and self.least < self.best:
            late, cost, _, names = heappop(queue)
            failed = self._try(names) if cost < self.best else None
            if failed is None or not failed.owner:
                continue
            for i, others in enumerate(self._others(failed, names)):
                wider = names | others
                if wider not in known:
                    known.add(wider)
                    turn = late + i + (3 if self.counting.refuted(wider) else 1)
                    heappush(queue, (turn, planning.cost(wider), len(known), wider))

    def _others(self, failed: Failed, gone: _Names) -> list[_Names]:
        """Sets of jobs that may make room for a job without a place, the best first."""
        planning, room = self.planning, self.planning.room
        taken = [Counter[str]() for _ in room.dimensions]
        for dimension, counts in zip(room.dimensions, taken, strict=True):
            for role, pod in failed.landed:
                counts[pod.node] += dimension.need(role)
        job = planning.jobs[failed.owner].job
        closed, within = self.problem.closed | planning.bad, planning.stages.domains_for(job)
        proposals = Proposals(room, failed.units, planning.candidates, closed, within, gone, taken)
        # If counting sees no lack of room, jobs of the same tenant are the likeliest obstacle.
        far = {name for name in planning.costs if planning.jobs[name].job.tenant != job.tenant}
        costs = {name: planning.candidates[name].cost for name in planning.costs.keys() - gone}
        singles = sorted(costs, key=lambda name: (name in far, costs[name], name))
        sets = chain(proposals.sets(), ([name] for name in singles if room.nodes[name]))
        proposed = dict.fromkeys(map(frozenset, islice(sets, 2 * _MOST)))
        return list(filter(None, proposed))[:_MOST]

    def _go_through(self) -> None:
        """Try all sets in order of cost, as long as they are cheaper than the best plan."""
        looks = _LOOKS * self.tries
        reached = inf
        for cost, names in self._by_cost():
            if cost >= self.best or not looks:
                reached = cost
                break
            looks -= 1
            if cost < self.least or names in self.seen or self.counting.refuted(names):
                continue
            if not self.tries:
                reached = cost
                break
            self._try(names)
        self.least = max(self.least, min(self.open, reached))

    def _by_cost(self) -> Iterator[tuple[int, _Names]]:
        """All sets that contain the jobs that must move, the cheapest first."""
        forced, planning = self.problem.forced, self.planning
        fixed = planning.cost(forced)
        yield fixed, forced
        others = sorted(
            (cost, name)
            for name, cost in planning.costs.items()
            if name not in forced and planning.room.nodes[name]
        )
        queue: list[tuple[int, tuple[int, ...]]] = [(others[0][0], (0,))] if others else []
        while queue:
            cost, picked = heappop(queue)
            yield fixed + cost, forced | {others[i][1] for i in picked}
            last = picked[-1]
            if last + 1 < len(others):
                more = cost + others[last + 1][0]
                heappush(queue, (more, (*picked, last + 1)))
                heappush(queue, (more - others[last][0], (*picked[:-1], last + 1)))

    def _try(self, names: _Names) -> Failed | None:
        """Move these jobs in a trial; None if that succeeds."""
        self.tries -= 1
        self.seen.add(names)
        may_do = not self.counting.refuted(names)
        steps = self.trial.moved(names, may_do)
        if isinstance(steps, Failed):
            self.reason = self.reason or steps.reason
            if may_do:
                self.open = min(self.open, self.planning.cost(names))
            return steps
        cost = self.planning.cost(frozenset(move.job for step in steps for move in step))
        if cost < self.best:
            self.best, self.steps = cost, steps
        return None
