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
from hivecore.scheduler.stages.stage import Offer
from hivecore.scheduler.stages.transaction import Stages, Started
from hivecore.scheduler.stages.units import Refused, Unit

__all__ = [
    "carry_out",
    "hold_in_place",
    "land",
    "leave",
    "may_move",
    "nodes_of",
    "placed_pods",
    "propose_in_place",
    "start_beside",
    "start_in_place",
]

_NO_NODE = Refused(
    Refusal("scheduler", "nodes", "no node is left in the domain of its job"),
    (("scheduler", "nodes"),),
)


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
    others = _running_pods(live) if placed is None else placed
    allowed = stages.nodes_beside(live.job, others, nodes) if others else nodes
    return _NO_NODE if allowed is None else stages.start(unit, allowed, others)


def _running_pods(live: Live) -> tuple[PlacedPod, ...]:
    return tuple(pod for unit in live.all_placed for pod in unit.placed)


def start_in_place(stages: Stages, jobs: Mapping[str, Live], unit: Unit) -> Started | Refused:
    """Start the first pods of a job, or failed pods near the other pods of their job."""
    if unit.is_lost:
        return start_beside(stages, jobs[unit.job], unit)
    return stages.start(unit)


def propose_in_place(stages: Stages, jobs: Mapping[str, Live], unit: Unit) -> Offer | Refused:
    """As `start_in_place`, but only the offer, with devices allocated."""
    if not unit.is_lost:
        return stages.propose(unit)
    live = jobs[unit.job]
    others = _running_pods(live)
    allowed = stages.nodes_beside(live.job, others)
    return _NO_NODE if allowed is None else stages.propose(unit, allowed, others)


def hold_in_place(
    stages: Stages, jobs: Mapping[str, Live], unit: Unit, leaving: Sequence[Unit]
) -> None:
    """Hold what a job's first or failed pods need once the victims' units, ``leaving``, go."""
    if not unit.is_lost:
        stages.hold(unit, leaving)
        return
    live = jobs[unit.job]
    others = _running_pods(live)
    allowed = stages.nodes_beside(live.job, others)
    if allowed is not None:
        stages.hold(unit, leaving, allowed, others)


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
