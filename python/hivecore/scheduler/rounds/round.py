"""A round of decisions: offers units until no more can start."""

from math import inf

from hivecore.scheduler.actions import Action, Wait
from hivecore.scheduler.ledger.ends import give_up
from hivecore.scheduler.ledger.lines import rejoin
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.moves.defragment import defragment
from hivecore.scheduler.orders.running import run_in_order
from hivecore.scheduler.rounds.backfill import has_overdue, renew_broken, retry_overdue
from hivecore.scheduler.rounds.draining import drain_nodes
from hivecore.scheduler.rounds.moved import has_moved
from hivecore.scheduler.rounds.reservations import give_up_late, start_reserved
from hivecore.scheduler.rounds.together import offer
from hivecore.scheduler.rounds.waking import wake

__all__ = ["decide"]


def decide(state: State, now: float, most: int) -> list[Action]:
    """Decide, and return the actions to carry out; an error undoes all changes.

    :param now: a valid time.
    :param most: offer at most so many units; negative: offer until none can start.
    """
    if state.is_quiet and now < state.wake_at and not has_overdue(state, now):
        state.now = now
        state.rejected.clear()
        return []
    return state.keep(_decided, now, most)


def _decided(state: State, now: float, most: int) -> list[Action]:
    state.now, state.kept_promises, state.dropped = now, [], set()
    moment = state.microseconds
    state.stages.begin_round()
    if state.apart:
        rejoin(state)
    if state.order is not None:
        for live in [*state.replacing.values()]:
            give_up(state, live)
    if state.reserved or state.replacing:
        start_reserved(state)
        give_up_late(state)
    if state.now >= state.wake_at:
        state.wake_at = inf
        state.log.set(state, "may_promise", True)
    if state.draining:
        drain_nodes(state)
        if state.reserved or state.replacing:
            start_reserved(state)  # victims may have ended with a move
    if state.regroup_for:
        _move_jobs(state)
    if state.defragmentation is not None:
        state.relief = None
        for move in defragment(state, state.defragmentation):
            has_moved(state, move)
        state.defragmentation = None
    if state.relief is not None:
        state.relief.is_stale = True
    if state.order is not None:
        state.relief = None
        run_in_order(state, state.order)
        most = 0
    if state.promised:
        retry_overdue(state)
    seen = 0
    while most and state.queued:
        if state.waiting.touched or state.may_promise:
            wake(state)
        departure = state.queues.next(moment)
        if departure is None and state.lending is not None:
            departure = state.lending.next(moment)
        if departure is None:
            if not state.promised or all(isinstance(of, Wait) for of in state.outbox[seen:]):
                break
            seen = len(state.outbox)
            renew_broken(state)
            continue
        most -= 1
        unit = state.dequeue(departure.job.name)
        unit.note(state.log)
        unit.departure = departure
        offer(state, unit)
    if state.promised and not most and state.order is None:
        renew_broken(state)
    if state.unreported:
        state.report_stopped()
    state.outbox += state.stages.allot(state.now)
    actions, state.outbox = state.outbox, []
    if state.unsaid:
        actions = _said(state, actions)
        state.unsaid = []
    state.moved.clear()
    state.begun.clear()
    state.joined.clear()
    state.kept.clear()
    state.rejected.clear()
    return actions


def _said(state: State, actions: list[Action]) -> list[Action]:
    """The actions without those that were undone."""
    instead = {id(undone): other for undone, other in state.unsaid}
    said = []
    for action in actions:
        last: Action | None = action
        while last is not None and id(last) in instead:
            last = instead[id(last)]
        if last is not None:
            said.append(last)
    return said


def _move_jobs(state: State) -> None:
    """Move jobs that share GPUs to other groups, where that pays."""
    units = {unit.name: unit for unit in state.units() if unit.placed}
    for unit in units.values():
        unit.note(state.log)
    state.relief = None
    state.outbox += state.stages.regroup(units, state.regroup_for, state.begun)
    state.regroup_for = 0.0
