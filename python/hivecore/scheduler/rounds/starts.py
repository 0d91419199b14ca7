"""What follows when a unit has what it asked for."""

from hivecore.errors import InvariantError
from hivecore.scheduler.actions import Preempt, Start
from hivecore.scheduler.job import Job
from hivecore.scheduler.lifecycle.ends import stop
from hivecore.scheduler.lifecycle.lines import lend_no_more, push
from hivecore.scheduler.lifecycle.live import Live
from hivecore.scheduler.lifecycle.state import State
from hivecore.scheduler.lifecycle.units import Unit
from hivecore.scheduler.search.victims import Victims
from hivecore.scheduler.stages.sharing import Joined
from hivecore.scheduler.stages.transaction import Started

__all__ = [
    "expect_joining",
    "has_started",
    "note_begun",
    "runs_now",
    "start_without",
    "tell_to_leave",
    "tell_to_stop",
]


def has_started(
    state: State, live: Live, unit: Unit, started: Started, joined: Joined | None = None
) -> None:
    """A unit runs from now on, on what it has got or shares."""
    if live.state != "reserved":
        state.waiting.leave(unit.kind, unit.name)
    others, offsets = ((), ()) if joined is None else (joined.others, joined.offsets)
    start = Start(live.job.name, unit.placed, others, offsets, started.decisions)
    state.outbox.append(start)
    note_begun(state, live.job, start)
    if unit is not live.units[0] or live.state == "reserved":
        state.begun.pop(live.job.name, None)  # it runs already, or others have stopped for it
    if unit is live.units[0]:
        lend_no_more(state, live)
        runs_now(state, live)


def note_begun(state: State, job: Job, start: Start) -> None:
    """A job may be taken back in this round, and those because of which it starts not any more."""
    state.begun[job.name] = start
    for other in (*job.after, *job.together, *start.shares_with):
        state.begun.pop(other, None)
    if job.together or start.shares_with:
        del state.begun[job.name]


def runs_now(state: State, live: Live) -> None:
    """A job runs from now on."""
    state.turn(live, "start")
    live.since, live.told, live.victims = state.now, None, ()
    expect_joining(state, live)


def expect_joining(state: State, live: Live) -> None:
    """The other pods of a job wait to join it; not while an order says who runs."""
    if state.order is not None:
        return
    live.note(state.log)
    for joining in live.joining(state.kinds):
        state.stages.submit(joining)
        push(state, joining)


def start_without(state: State, told: list[str], live: Live, unit: Unit) -> Started:
    """Let those stop at once who were told to leave, and a unit start that then can."""
    for name in told:
        stop(state, state.jobs[name])
    unit.note(state.log)
    found = state.stages.start(unit)
    if not isinstance(found, Started):
        raise InvariantError(f"job {live.job.name!r} does not start though others have left")
    return found


def tell_to_leave(state: State, victims: Victims, live: Live) -> list[str]:
    """Say who has to stop for a job.

    :returns: those; others have started in this round, and wait again as if they had not.
    """
    told = []
    if victims:
        state.precedence.note(live.job.name, victims)
    for name, why in victims.items():
        victim = state.jobs[name]
        victim.note(state.log)
        victim.is_reclaimed = why == "reclaim"
        start = state.begun.pop(name, None)
        if start is None:
            state.outbox.append(Preempt(name, live.job.name, why))
            told.append(name)
        else:
            state.unsaid.append(start)
            stop(state, victim)
    return told


def tell_to_stop(state: State, victim: Live, winner: str) -> None:
    """A job has to stop for another one: no job joins it any more."""
    victim.note(state.log)
    victim.for_job = winner
    state.stages.told_to_stop(victim.job.name)
