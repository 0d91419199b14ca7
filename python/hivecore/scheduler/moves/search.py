"""Which jobs to move, each set of them tried and undone.

First the jobs that have to move are tried alone. For a job that then finds no place, sets of other
jobs are proposed that make room for it, as for an eviction (`hivecore.scheduler.search.proposals`);
the first proposals, those after few others, and those that counting does not refute come first.
Then all sets of jobs are tried by cost until none can be cheaper than the best plan, as far as
there are tries: sets that counting refutes cost none.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import chain, islice
from math import inf
from typing import NamedTuple

from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.moves.bounds import Counting, Problem
from hivecore.scheduler.moves.trial import Failed, Steps, Trial
from hivecore.scheduler.search.proposals import Candidate, Proposals
from hivecore.scheduler.search.room import Room
from hivecore.scheduler.stages.transaction import Stages

__all__ = ["Found", "MoveSearch"]

_Names = frozenset[str]
#: So many sets are looked at for each that may be tried.
_LOOKS = 100
_MOST = 8  # sets that may make room for a job


class Found(NamedTuple):
    """The best plan of a problem."""

    #: inf: none was found
    cost: float
    #: what every plan costs at least; inf: there is none
    least: float
    steps: Steps
    #: how many more sets might have been tried
    left: int
    #: why the jobs that have to move are not enough, or why there is no plan
    reason: str


class MoveSearch:
    """The search for one scheduler as it is now.

    :param jobs: all that it knows; only those with ``costs`` may move.
    """

    def __init__(self, stages: Stages, jobs: Mapping[str, Live], costs: Mapping[str, int]) -> None:
        self.stages, self.jobs, self.costs = stages, jobs, costs
        self.room = Room(stages, jobs, costs)
        self.bad = frozenset(stages.unhealthy())
        gpus = {name: jobs[name].job.gpus for name in costs}
        self.candidates = {
            name: Candidate((cost, gpus[name]), gpus[name]) for name, cost in costs.items()
        }

    def cost(self, names: _Names) -> int:
        """Of moving these jobs."""
        return sum(self.costs[name] for name in names)

    def solve(self, problem: Problem, tries: int, below: float = inf) -> Found:
        """The best plan that costs less than ``below``; so many sets may be tried."""
        return _Solving(self, problem, tries, below).found()


class _Solving:
    """One problem."""

    def __init__(self, search: MoveSearch, problem: Problem, tries: int, below: float) -> None:
        self.search, self.problem, self.tries = search, problem, tries
        self.counting = Counting(search.room, problem, search.costs)
        self.least = search.cost(problem.forced) + self.counting.least_extra()
        self.trial = Trial(search.stages, search.jobs, problem)
        self.best, self.reason = below, ""
        self.steps: Steps | None = None
        self.seen: set[_Names] = set()
        #: the least cost of a set that failed though counting does not refute it
        self.open = inf

    def found(self) -> Found:
        """All of the search."""
        if self.least == inf:
            return Found(inf, inf, (), self.tries, "there is too little room, wherever jobs move")
        if self.least < self.best:
            self._propose()
        if self.least < self.best:
            self._go_through()
        least = min(self.least, self.best)
        if self.steps is None:
            return Found(inf, least, (), self.tries, self.reason)
        return Found(self.best, least, self.steps, self.tries, "")

    def _propose(self) -> None:
        """Follow the proposals for jobs that find no place; a quarter of the tries is left."""
        search, start = self.search, self.problem.forced
        queue = [(0, search.cost(start), 0, start)]
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
                    heappush(queue, (turn, search.cost(wider), len(known), wider))

    def _others(self, failed: Failed, gone: _Names) -> list[_Names]:
        """Sets of jobs, each of which may make room for a job without a place, the best first."""
        search, room = self.search, self.search.room
        taken = [Counter[str]() for _ in room.dimensions]
        for dimension, counts in zip(room.dimensions, taken, strict=True):
            for role, pod in failed.landed:
                counts[pod.node] += dimension.need(role)
        job = search.jobs[failed.owner].job
        closed, within = self.problem.closed | search.bad, search.stages.domains_for(job)
        proposals = Proposals(room, failed.units, search.candidates, closed, within, gone, taken)

        def nearness(name: str) -> tuple[bool, tuple[float, ...], str]:
            # Where counting finds nothing amiss, jobs of its own tenant are most in its way.
            return search.jobs[name].job.tenant != job.tenant, search.candidates[name].cost, name

        singles = sorted((one for one in search.costs if one not in gone), key=nearness)
        sets = chain(proposals.sets(), ([name] for name in singles if room.nodes[name]))
        found = dict.fromkeys(map(frozenset, islice(sets, 2 * _MOST)))
        return list(filter(None, found))[:_MOST]

    def _go_through(self) -> None:
        """Go through all sets by cost, as long as they are cheaper than the best plan."""
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
        """All sets of jobs with those that have to move, the cheapest first."""
        forced, search = self.problem.forced, self.search
        fixed = search.cost(forced)
        yield fixed, forced
        others = sorted(
            (cost, name)
            for name, cost in search.costs.items()
            if name not in forced and search.room.nodes[name]
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
        """Move these jobs in a trial; None: that does."""
        self.tries -= 1
        self.seen.add(names)
        found = self.trial.moved(names)
        if isinstance(found, Failed):
            self.reason = self.reason or found.reason
            if not self.counting.refuted(names):
                self.open = min(self.open, self.search.cost(names))
            return found
        cost = self.search.cost(frozenset(move.job for step in found for move in step))
        if cost < self.best:
            self.best, self.steps = cost, found
        return None
