"""Tries one set of moves: whether all jobs find a place again, and in which order they can move."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from hivecore.scheduler.actions import Move, PlacedPod
from hivecore.scheduler.job import Role
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.moves.bounds import Problem
from hivecore.scheduler.moves.moving import land, leave, nodes_of, placed_pods
from hivecore.scheduler.stages.transaction import Stages
from hivecore.scheduler.stages.units import Refused, Unit

__all__ = ["Failed", "Steps", "Trial"]

#: The jobs of one step stop together before any of them starts again.
Steps = tuple[tuple[Move, ...], ...]
_Pods = tuple[PlacedPod, ...]
_MOST_TURNS = 3  # after the first


class Failed(NamedTuple):
    """Why a set of moves fails."""

    reason: str
    #: the job without a place, and its units that need one; "": no single job
    owner: str = ""
    units: tuple[Unit, ...] = ()
    #: pods that had been placed by then
    landed: tuple[tuple[Role, PlacedPod], ...] = ()


class Trial:
    """Trials for one problem."""

    def __init__(self, stages: Stages, jobs: Mapping[str, Live], problem: Problem) -> None:
        self.stages, self.jobs = stages.without_quotas(), jobs
        self.closed, self.target = problem.closed, problem.target
        known = stages.common_nodes() if self.closed else ()
        self._open = tuple(node for node in known if node not in self.closed)

    def moved(self, names: frozenset[str], may_do: bool) -> Steps | Failed:
        """The moves that succeed if these jobs may move. Jobs that get their old places again do
        not move.

        All jobs leave, and are placed again, the largest first. If one finds no place, it is placed
        before all others in a further turn. Then each moves to its new place as soon as it can
        alone. The rest moves together.

        :param may_do: there may be room for all; otherwise there is one turn. The failure is that
            of the first turn.
        """
        order = sorted(names, key=self._largest_first)
        if self.target is not None:
            order.insert(0, self.target.owner)
        first = places = self._landed(order)
        for _ in range(_MOST_TURNS if may_do else 0):
            if not isinstance(places, Failed) or places.owner in ("", order[0]):
                break
            order.remove(places.owner)
            order.insert(0, places.owner)
            places = self._landed(order)
        if isinstance(places, Failed):
            return first if isinstance(first, Failed) else places
        order = [name for name in order if name in names]
        movers = [name for name in order if places[name] != placed_pods(self.jobs[name])]
        steps = self._steps(movers, places, alone=True)
        if isinstance(steps, Failed) and len(movers) > 1:
            steps = self._steps(movers, places, alone=False)
        return steps

    def _largest_first(self, name: str) -> tuple[int, int, str]:
        job = self.jobs[name].job
        return -max(role.gpus for role in job.roles), -job.gpus, name

    def _landed(self, order: Sequence[str]) -> dict[str, _Pods] | Failed:
        """The places of jobs that have left, after they and the target have started in order."""
        with ExitStack() as undone:
            undone.enter_context(self.stages.trial())
            return self._landed_until(undone, order)

    def _landed_until(self, undone: ExitStack, order: Sequence[str]) -> dict[str, _Pods] | Failed:
        """As `_landed`, until ``undone`` is closed."""
        target = self.target
        names = [name for name in order if target is None or name != target.owner]
        lives = {name: self.jobs[name].copy() for name in names}
        for live in lives.values():
            leave(self.stages, live)
        landed: list[tuple[Role, PlacedPod]] = []
        for name in order:
            if target is not None and name == target.owner:
                trial = target.trial()
                refused = self.stages.start(trial)
                if isinstance(refused, Refused):
                    return Failed(_no_place(name, refused), name, (target,), tuple(landed))
                roles = [role for role, pods in target.kind.sizes for _ in range(pods)]
                landed += zip(roles, trial.placed, strict=True)
                continue
            live = lives[name]
            nodes = self._allowed(live)
            if nodes is None:
                return Failed(f"job {name!r} may be on no other nodes")
            again = self._land(live, nodes, undone)
            if again is not None:
                return Failed(_no_place(name, again), name, tuple(live.placed), tuple(landed))
            roles_of = {role.name: role for role in live.job.roles}
            landed += [(roles_of[pod.role], pod) for pod in placed_pods(live)]
        return {name: placed_pods(live) for name, live in lives.items()}

    def _land(
        self, live: Live, nodes: Mapping[str, tuple[str, ...]], undone: ExitStack
    ) -> Refused | None:
        """Start a job again, in the first domain with room for all its running pods."""
        where = live.job.where
        if len(live.placed) < 2 or not (where.must or where.within):
            return land(self.stages, live, nodes)
        first: Refused | None = None
        for place in self.stages.domains_for(live.job):
            twin = live.copy()
            inside = {
                unit.name: tuple(sorted(place.intersection(nodes.get(unit.name, place))))
                for unit in twin.placed
            }
            if not all(inside.values()):
                continue
            with ExitStack() as trial:
                trial.enter_context(self.stages.trial())
                refused = land(self.stages, twin, inside)
                if refused is None:
                    live.units = twin.units
                    undone.push(trial.pop_all())
                    return None
                first = first or refused
        return first or land(self.stages, live, nodes)

    def _allowed(self, live: Live) -> dict[str, tuple[str, ...]] | None:
        """Allowed nodes by unit; None if there are none."""
        if not self.closed:
            return {}
        where = live.job.where.nodes
        nodes = tuple(node for node in self._open if node in where) if where else self._open
        return {unit.name: nodes for unit in live.units} if nodes else None

    # --- the order

    def _steps(
        self, movers: Sequence[str], places: Mapping[str, _Pods], alone: bool
    ) -> Steps | Failed:
        """The moves in a feasible order, if the target can start after them.

        :param alone: move jobs singly where possible, and the rest in a last step.
        """
        steps: list[tuple[Move, ...]] = []
        left, is_open = list(movers), alone
        with ExitStack() as undone:
            undone.enter_context(self.stages.trial())
            while left and is_open:
                is_open = False
                for name in list(left):
                    move = self._move_alone(name, places[name], undone)
                    if move is not None:
                        steps.append((move,))
                        left.remove(name)
                        is_open = True
            lives = {name: self.jobs[name].copy() for name in left}
            before = {name: placed_pods(live) for name, live in lives.items()}
            for live in lives.values():
                leave(self.stages, live)
            for name, live in lives.items():
                refused = land(self.stages, live, nodes_of(live, places[name]))
                if refused is not None:
                    return Failed(_no_place(name, refused))
            if left:
                last = [Move(name, placed_pods(live), before[name]) for name, live in lives.items()]
                steps.append(tuple(last))
            if self.target is not None:
                started = self.stages.start(self.target.trial())
                if isinstance(started, Refused):
                    return Failed(_no_place(self.target.owner, started))
            return tuple(steps)

    def _move_alone(self, name: str, pods: _Pods, undone: ExitStack) -> Move | None:
        """Move a job until ``undone`` is closed. None: it cannot move alone, or keeps its place."""
        live = self.jobs[name].copy()
        before = placed_pods(live)
        with ExitStack() as trial:
            trial.enter_context(self.stages.trial())
            leave(self.stages, live)
            refused = land(self.stages, live, nodes_of(live, pods))
            if refused is not None or placed_pods(live) == before:
                return None
            undone.push(trial.pop_all())
        return Move(name, placed_pods(live), before)


def _no_place(name: str, refused: Refused) -> str:
    return f"job {name!r} would find no place: {refused.refusal.reason}"
