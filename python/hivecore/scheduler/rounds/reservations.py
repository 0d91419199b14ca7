"""Starts reserved jobs once all of their victims have stopped."""

from hivecore.scheduler.ledger.ends import abandon, hold_no_more, leave
from hivecore.scheduler.ledger.lines import wait_again
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.rounds.starts import has_started
from hivecore.scheduler.stages.transaction import Stages, Started
from hivecore.scheduler.stages.units import Refused

__all__ = ["give_up_late", "start_reserved"]


def start_reserved(state: State) -> None:
    """Start jobs whose victims have all stopped; jobs that fail to start wait again."""
    ready = [live for live in state.reserved.values() if state.is_ready(live)]
    for live in sorted(ready, key=_arrival):
        if live.state != "reserved":
            continue  # it gave up when another victim ended
        for victim in live.victims:
            leave(state, state.jobs[victim])
        unit = live.units[0]
        live.note(state.log)
        unit.note(state.log)
        live.victims = ()
        result: Started | Refused | None = None
        if state.order is None and not (state.missing(live) or state.companions(live)):
            start = Stages.fulfil if unit.placed else Stages.start
            result = start(state.stages, unit)
        if isinstance(result, Started):
            has_started(state, live, unit, result)
        else:
            hold_no_more(state, live)
            wait_again(state, live)


def give_up_late(state: State) -> None:
    """Let jobs wait again whose victims take too long. The victims still have to stop."""
    late = [
        live
        for live in state.reserved.values()
        if state.now - live.since >= state.patience and not state.is_ready(live)
    ]
    for live in sorted(late, key=_arrival):
        if live.state == "reserved":
            abandon(state, live)
            wait_again(state, live)


def _arrival(live: Live) -> int:
    """The position of a job among all jobs that have left their queues."""
    departure = live.units[0].departure
    return 0 if departure is None else departure.number
