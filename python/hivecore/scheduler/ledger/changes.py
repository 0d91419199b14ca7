"""Applies changes of the cluster to jobs."""

from collections.abc import Callable, Container, Iterable

from hivecore.scheduler.actions import Stop
from hivecore.scheduler.ledger.ends import (
    give_back,
    give_up,
    has_stopped,
    hold_no_more,
    reject_if_impossible,
    stop,
)
from hivecore.scheduler.ledger.lines import requeue
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.lost import lose, may_lose
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.stages.units import Unit

__all__ = ["hold_nothing", "hold_on_good_nodes", "renew", "stop_job_on", "stop_on"]


def renew(state: State, *, only_quotas: bool = False) -> None:
    """Parts have changed, or only quotas: try all waiting jobs again, or reject them."""
    state.stages.forget(only_quotas=only_quotas)
    if state.reserved or state.replacing:
        hold_on_good_nodes(state, state.stages.unhealthy())
    state.kinds.forget_impossible()
    for live in list(state.jobs.values()):
        if state.jobs.get(live.job.name) is live and not live.runs:
            reject_if_impossible(state, live)
    state.waiting.renew(state.stages.lacks())
    state.waiting.touch_all()


def stop_on(state: State, node: str) -> None:
    """Stop all units on a node."""
    affected = [live for live in state.jobs.values() if _on(live.placed, node)]
    gone = {live.job.name for live in affected}
    for live in state.all_reserved():
        held = [live.held] if live.held is not None else []
        is_on = live in affected or bool(_on(held, node))
        if live.victims and (is_on or gone.intersection(live.victims)):
            give_up(state, live)
    affected.sort(
        key=lambda live: not live.extra_of
    )  # extra pods last, so that they do not take numbers of lost pods
    for live in affected:
        if state.jobs.get(live.job.name) is live:
            stop_job_on(state, live, node)


def stop_job_on(
    state: State, live: Live, node: str, move: Callable[[State, Live, str], bool] | None = None
) -> None:
    """Stop a job's pods on a node; if it needs them, ``move`` it all, or else stop it all."""
    units = _on(live.placed, node)
    if not units:
        return  # it has stopped already, for a reserved job
    first = live.units[0]
    failed = [pod for pod in first.placed if pod.node == node]
    is_all = live.for_job or live.lent in units or (failed and not may_lose(state, live, failed))
    if is_all and move is not None and move(state, live, node):
        return
    units = live.all_placed if is_all else units
    placed = [pod for unit in units for pod in unit.placed]
    if not is_all:
        placed = [pod for pod in placed if pod.node == node]
    state.outbox.append(Stop(first.job, tuple(placed), node))
    if live.for_job:
        has_stopped(state, live)
    elif is_all:
        stop(state, live)
    else:
        if failed:
            lose(state, live, failed)
        for unit in units:
            if unit is not first:
                give_back(state, unit, end=False)
                requeue(state, unit)


def hold_on_good_nodes(state: State, bad: Container[str]) -> None:
    """Release reserved places on bad nodes."""
    for live in state.all_reserved():
        unit = live.reserved
        if unit is not None and any(pod.node in bad for pod in unit.placed):
            hold_no_more(state, live)


def hold_nothing(state: State) -> None:
    """Release all reserved places, as they may have become invalid."""
    for live in state.all_reserved():
        hold_no_more(state, live)


def _on(units: Iterable[Unit], node: str) -> list[Unit]:
    return [unit for unit in units if any(pod.node == node for pod in unit.placed)]
