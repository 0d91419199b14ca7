"""Starts reserved jobs once all of their victims have stopped."""

from hivecore.scheduler.ledger.ends import give_up, hold_no_more, leave, retry_lost
from hivecore.scheduler.ledger.lines import wait_again
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.lost import regain
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.moves.moving import start_in_place
from hivecore.scheduler.rounds.starts import has_started
from hivecore.scheduler.stages.transaction import Stages, Started
from hivecore.scheduler.stages.units import Refused, Unit

__all__ = ["give_up_late", "start_reserved"]


def start_reserved(state: State) -> None:
    """Start reserved jobs and failed pods once their victims stopped; if refused, they wait."""
    ready = [live for live in state.all_reserved() if state.is_ready(live)]
    for live in sorted(ready, key=_arrival):
        if live.reserved is None:
            continue  # it gave up when another victim ended
        for victim in live.victims:
            leave(state, state.jobs[victim])
        if live.held is not None:
            _replace(state, live, live.held)
            continue
        unit = live.units[0]
        live.note(state.log)
        unit.note(state.log)
        live.victims = ()
        result: Started | Refused | None = None
        is_alone = state.missing(live) or state.companions(live) or state.stopping_companion(live)
        if state.order is None and not is_alone:
            start = Stages.fulfil if unit.placed else Stages.start
            result = start(state.stages, unit)
        if isinstance(result, Started):
            has_started(state, live, unit, result)
        else:
            hold_no_more(state, live)
            wait_again(state, live)


def _replace(state: State, live: Live, held: Unit) -> None:
    """Start failed pods of a job on what is held for them; or let them wait again."""
    unit = live.unit_of_held
    for changing in (unit, held):
        changing.note(state.log)
    live.note(state.log)
    live.victims = ()
    result: Started | Refused | None = None
    if state.order is None and held.placed:
        result = state.stages.fulfil(held)
    elif state.order is None:
        result = start_in_place(state.stages, state.jobs, unit)
    if not isinstance(result, Started):
        give_up(state, live)
        return
    if held.placed:
        unit.placed, unit.is_placed = held.placed, held.is_placed
    state.set_held(live, None)
    state.waiting.add(unit.kind, unit.name)
    has_started(state, live, unit, result)
    state.kept[live.job.name] = state.joined.pop(live.job.name)
    regain(state, live, unit)
    retry_lost(state, live)


def give_up_late(state: State) -> None:
    """Let jobs wait again whose victims take too long. The victims still have to stop."""
    late = [
        live
        for live in state.all_reserved()
        if state.now - (live.since if live.held is None else live.held_since) >= state.patience
        and not state.is_ready(live)
    ]
    for live in sorted(late, key=_arrival):
        if live.reserved is not None:
            give_up(state, live)


def _arrival(live: Live) -> int:
    """The position of a job among all jobs that have left their queues."""
    departure = live.units[0].departure
    return 0 if departure is None else departure.number
