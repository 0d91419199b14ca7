"""Moves running jobs, so that future pods can use more idle GPUs.

The search tries single jobs and sets of jobs that share a node. In a trial, the jobs leave and
start again, the largest first, each on the fullest node with room. A single job is also tried on
each kind of node, including its own with other devices. The set with the largest benefit beyond its
cost is moved, until no set pays or the budget is used up.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import combinations, islice
from math import inf
from typing import NamedTuple

from hivecore.errors import InvariantError
from hivecore.scheduler.actions import Move, PlacedPod
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.moves.fragments import Defragmentation, idle_and_usable, used_nodes
from hivecore.scheduler.moves.moving import land, leave, may_move, placed_pods

__all__ = ["defragment"]

_MOST_TRIES = 512  # for each set that moves
_FEW = 5  # up to so many jobs of a node, all sets are tried
_Names = tuple[str, ...]


class _Try(NamedTuple):
    """Jobs to move, and groups of nodes to try in turn."""

    names: _Names
    nodes: tuple[_Names, ...]


def defragment(state: State, terms: Defragmentation) -> list[Move]:
    """Move jobs, and return the moves, which all happen together."""
    return _Pass(state, terms).carried_out()


class _Pass:
    def __init__(self, state: State, terms: Defragmentation) -> None:
        self.state, self.terms = state, terms
        self.stages = state.stages.without_quotas()
        self.costs = {
            live.job.name: self._cost(live)
            for live in state.running.values()
            if self._may_move(live)
        }
        self.before: dict[str, tuple[PlacedPod, ...]] = {}
        bad = frozenset(state.stages.unhealthy())
        self.nodes = [node for node in self.stages.common_nodes() if node not in bad]

    def _may_move(self, live: Live) -> bool:
        """Whether a job may move; not if it or a pod of it starts now: moves come first."""
        starts = live.job.name in self.state.begun or live.job.name in self.state.kept
        may = not starts and may_move(self.state.stages, live)
        return may and all(pod.node for pod in placed_pods(live))

    def _cost(self, live: Live) -> float:
        """The GPU-seconds that moving a job loses."""
        lost = 0.0 if self.terms.saves else self.state.now - live.since
        return sum(unit.gpus for unit in live.placed) * (self.terms.restart_cost + lost)

    def carried_out(self) -> list[Move]:
        """Move the best set until none pays."""
        while (best := self._best()) is not None:
            lives = [self.state.jobs[name] for name in best.names]
            for live in lives:
                live.note(self.state.log)
                for unit in live.units:
                    unit.note(self.state.log)
                self.before.setdefault(live.job.name, placed_pods(live))
            if not self._again(lives, best):
                raise InvariantError(f"jobs {best.names} find no place again")
        moved = []
        for name, before in self.before.items():
            live = self.state.jobs[name]
            if placed_pods(live) != before:
                self.state.restart(live, self.state.now)
                moved.append(Move(name, placed_pods(live), before))
        return moved

    def _best(self) -> _Try | None:
        """The set with the largest benefit beyond its cost; None if none pays."""
        usable = self._usable({})
        best, most = None, 0.0
        for attempt in islice(self._tries(), _MOST_TRIES):
            cost = self._extra_cost(attempt.names)
            if cost < inf:
                worth = (self._tried(attempt) - usable) * self.terms.seconds - cost
                if worth > most + 1e-6:
                    best, most = attempt, worth
        return best

    def _extra_cost(self, names: _Names) -> float:
        """The cost of moving these jobs beside earlier ones; inf if it exceeds the budget."""
        moved = self.before.keys() | set(names)
        budget = self.terms.most_gpu_seconds
        if len(moved) > self.terms.most_moves or (
            budget is not None and sum(map(self.costs.__getitem__, moved)) > budget
        ):
            return inf
        return sum(self.costs[name] for name in names if name not in self.before)

    def _usable(self, lives: dict[str, Live]) -> float:
        """Usable idle GPUs once these jobs have moved."""
        pods = [pod for live in lives.values() for pod in placed_pods(live)]
        return idle_and_usable(self.terms.goal, self.stages, self.state.jobs, lives, pods)[1]

    def _tried(self, attempt: _Try) -> float:
        """Usable idle GPUs after a set has moved; -inf if a job finds no place."""
        lives = {name: self.state.jobs[name].copy() for name in attempt.names}
        with self.stages.trial():
            return self._usable(lives) if self._again([*lives.values()], attempt) else -inf

    def _again(self, lives: Sequence[Live], attempt: _Try) -> bool:
        """Stop jobs and start them again. Returns whether all have a place."""
        for live in lives:
            leave(self.stages, live)
        return all(self._lands(live, attempt.nodes) for live in lives)

    def _lands(self, live: Live, groups: Sequence[_Names]) -> bool:
        allowed, least = live.job.where.nodes, 0
        if not any(role.devices or role.claims for role in live.job.roles):
            least = min(role.gpus for role in live.job.roles)
        idle = self.stages.idle_gpus() if least else {}
        for nodes in groups:
            within = tuple(
                node
                for node in nodes
                if (not allowed or node in allowed) and idle.get(node, 0) >= least
            )
            if not within:
                continue
            twin = live.copy()
            with ExitStack() as undone:
                undone.enter_context(self.stages.trial())
                refused = land(self.stages, twin, dict.fromkeys(_units(live), within))
            if refused is None:
                return land(self.stages, live, dict.fromkeys(_units(live), within)) is None
        return False

    def _tries(self) -> Iterator[_Try]:
        """The sets to try; nodes that are cheap to empty come first."""
        idle = self.stages.idle_gpus()
        on: dict[str, list[str]] = {}
        stay = {pod.node for live in self.state.jobs.values() for pod in self._stays(live)}
        for name in sorted(self.costs):
            for node in {pod.node for pod in placed_pods(self.state.jobs[name])}:
                on.setdefault(node, []).append(name)
        used = used_nodes(self.state.jobs)
        full = sorted(self.nodes, key=lambda node: (node not in used, idle.get(node, 0)))
        kinds = self._kinds(full, used, idle)
        by_cost = sorted(on, key=lambda node: (sum(self.costs[name] for name in on[node]), node))
        for node in by_cost:
            if node in stay and not self.terms.goal.sizes:
                continue
            for names in self._sets(on[node]):
                others = tuple(other for other in full if other != node and other in used)
                either = tuple(other for other in full if other != node)
                yield _Try(names, (*((other,) for other in others), others, either))
        for node in by_cost if self.terms.goal.sizes else ():
            for name in on[node]:
                for kind in kinds:
                    yield _Try((name,), (kind,))

    def _stays(self, live: Live) -> Sequence[PlacedPod]:
        return () if live.job.name in self.costs else placed_pods(live)

    def _sets(self, names: Sequence[str]) -> Iterator[_Names]:
        """Sets of the jobs of a node, the largest job first."""
        order = sorted(names, key=lambda name: (-self.state.jobs[name].job.gpus, name))
        if not self.terms.goal.sizes:  # only an empty node counts
            yield tuple(order)
            return
        counts = range(1, len(order) + 1) if len(order) <= _FEW else ()
        for count in counts:
            yield from combinations(order, count)
        if not counts:
            cheap = sorted(order, key=lambda name: (self.costs[name], name))
            for count in range(1, len(order) + 1):
                yield tuple(name for name in order if name in cheap[:count])

    @staticmethod
    def _kinds(full: Sequence[str], used: set[str], idle: dict[str, int]) -> list[_Names]:
        """Nodes grouped by idle GPUs, and by whether they are used."""
        kinds: dict[tuple[bool, int], list[str]] = {}
        for node in full:
            kinds.setdefault((node in used, idle.get(node, 0)), []).append(node)
        return [*map(tuple, kinds.values())]


def _units(live: Live) -> list[str]:
    return [unit.name for unit in live.placed]
