"""Carries out moves: stops jobs, and starts them again on other nodes.

Quotas take no part, as a job keeps its admission while it moves. The stages are deterministic: in
the same state they choose the GPUs of the trial again, so a move that a trial has shown can be
repeated.
"""

from collections.abc import Mapping, Sequence

from hivecore.decisions import Refusal
from hivecore.errors import StaleDecisionError
from hivecore.scheduler.actions import Move, PlacedPod
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.stages.transaction import Stages, Started
from hivecore.scheduler.stages.units import Refused, Unit

__all__ = ["carry_out", "land", "leave", "may_move", "nodes_of", "placed_pods", "start_beside"]


def placed_pods(live: Live) -> tuple[PlacedPod, ...]:
    """All running pods of a job."""
    return tuple(pod for unit in live.placed for pod in unit.placed)


def may_move(stages: Stages, live: Live) -> bool:
    """Whether a job may move: all its pods run, it is preemptible, and shares no GPUs."""
    if live.state != "running" or live.for_job or live.lost or not live.job.preemptible:
        return False
    if live.extras or live.extra_of:
        return False
    return len(stages.members(live.job.name)) == 1


def leave(stages: Stages, live: Live) -> None:
    """Release the placement and devices of a job. Its own record keeps them."""
    for unit in reversed(live.placed):
        stages.give_back(unit, end=False)


def land(stages: Stages, live: Live, nodes: Mapping[str, tuple[str, ...]]) -> Refused | None:
    """Start a job that has left again. Returns the first refusal; units before it stay started.

    :param nodes: allowed nodes by unit; others use all nodes that the job allows.
    """
    landed: list[PlacedPod] = []
    for unit in live.placed:
        started = start_beside(stages, live, unit, landed, nodes.get(unit.name, ()))
        if not isinstance(started, Started):
            return started
        landed += unit.placed
    return None


def start_beside(
    stages: Stages,
    live: Live,
    unit: Unit,
    placed: Sequence[PlacedPod] | None = None,
    nodes: tuple[str, ...] = (),
) -> Started | Refused:
    """Start a unit near the other pods of its job."""
    running = (pod for unit in live.all_placed for pod in unit.placed)
    others = tuple(running) if placed is None else placed
    allowed = stages.nodes_beside(live.job, others, nodes) if others else nodes
    if allowed is None:
        refusal = Refusal("scheduler", "nodes", "no node is left in the domain of its job")
        return Refused(refusal, (("scheduler", "nodes"),))
    return stages.start(unit, allowed, others)


def nodes_of(live: Live, pods: Sequence[PlacedPod]) -> dict[str, tuple[str, ...]]:
    """For each unit, the nodes of its pods among ``pods``."""
    node_of = {(pod.role, pod.index): pod.node for pod in pods}
    return {
        unit.name: tuple(sorted({node_of[pod] for pod in unit.pods if node_of.get(pod)}))
        for unit in live.placed
    }


def carry_out(stages: Stages, lives: Sequence[Live], moves: Sequence[Move]) -> None:
    """Stop jobs together, then start each where its move says.

    :param stages: without quotas.
    :raises StaleDecisionError: a job would get another place. ``stages`` and ``lives`` must not be
        used afterwards.
    """
    for live, move in zip(lives, moves, strict=True):
        if placed_pods(live) != move.before:
            raise StaleDecisionError(f"job {live.job.name!r} has started or moved since then")
        leave(stages, live)
    for live, move in zip(lives, moves, strict=True):
        refused = land(stages, live, nodes_of(live, move.pods))
        if refused is not None:
            reason = refused.refusal.reason
            raise StaleDecisionError(f"job {live.job.name!r} does not fit there: {reason}")
        if placed_pods(live) != move.pods:
            raise StaleDecisionError(f"job {live.job.name!r} would get other GPUs or nodes now")
