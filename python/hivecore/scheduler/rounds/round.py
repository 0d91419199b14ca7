"""A round of decisions, until nobody can start."""

from hivecore.scheduler.actions import Action
from hivecore.scheduler.lifecycle.lines import put_back
from hivecore.scheduler.lifecycle.state import State
from hivecore.scheduler.orders.running import run_in_order
from hivecore.scheduler.rounds.reservations import give_up_late, start_reserved
from hivecore.scheduler.rounds.together import offer
from hivecore.scheduler.rounds.waking import wake
from hivecore.scheduler.stages._moving import move_jobs

__all__ = ["decide"]


def decide(state: State, most: int) -> list[Action]:
    """What is to be done now.

    :param most: how many units are offered; below 0: until nobody can start.
    """
    moment = state.microseconds
    state.stages.begin_round()
    if state.reserved:
        start_reserved(state)
        give_up_late(state)
    if state.regroup_for:
        _move_jobs(state)
    state.relief = None
    if state.order is not None:
        run_in_order(state, state.order)
        most = 0
    while most and state.queued:
        wake(state)
        departure = state.queues.next(moment)
        if departure is None and state.lending is not None:
            departure = state.lending.next(moment)
        if departure is None:
            break
        most -= 1
        unit = state.queued.pop(departure.job.name)
        unit.departure = departure
        try:
            offer(state, unit)
        except BaseException:
            put_back(state)
            raise
    _allot(state)
    actions, state.outbox = state.outbox, []
    if state.unsaid:
        unsaid = {id(start) for start in state.unsaid}
        actions = [action for action in actions if id(action) not in unsaid]
        state.unsaid = []
    state.begun.clear()
    state.rejected.clear()
    return actions


def _move_jobs(state: State) -> None:
    """Jobs that share GPUs change places if that is worth it."""
    units = {unit.name: unit for unit in state.units() if unit.placed}
    for move in move_jobs(state.stages, units, state.regroup_for):
        state.outbox.append(move)
        state.waiting.touch(state.stages.touched_by_release(units[move.job].kind))
    state.regroup_for = 0.0


def _allot(state: State) -> None:
    """Share out cache and remote IO if other jobs run now, or something was observed."""
    storage = state.stages.storage
    if storage is not None and storage.is_stale:
        state.outbox += storage.allot(state.now)
