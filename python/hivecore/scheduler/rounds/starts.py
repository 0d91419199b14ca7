"""Starts units, and evicts their victims."""

from hivecore.errors import InvariantError
from hivecore.scheduler.actions import Move, Preempt, Shrink, Start
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.ends import end, stop
from hivecore.scheduler.ledger.extras import expect_extras
from hivecore.scheduler.ledger.lines import lend_no_more, push
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.lost import forget_lost
from hivecore.scheduler.ledger.precedence import of_quota
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.moves.moving import land, leave, placed_pods
from hivecore.scheduler.search.victims import Victims
from hivecore.scheduler.stages.sharing import Joined
from hivecore.scheduler.stages.transaction import Started
from hivecore.scheduler.stages.units import Unit

__all__ = [
    "expect_joining",
    "has_started",
    "leaving_action",
    "mark_stopping",
    "may_move_whole",
    "move_whole",
    "note_begun",
    "preempt_victims",
    "runs_now",
    "start_without",
]


def has_started(
    state: State, live: Live, unit: Unit, started: Started, joined: Joined | None = None
) -> None:
    """Record that a unit has started, on its own or on shared resources."""
    if live.state != "reserved":
        state.waiting.leave(unit.kind, unit.name)
    others, offsets = ((), ()) if joined is None else (joined.others, joined.offsets)
    start = Start(unit.job, unit.placed, others, offsets, started.decisions)
    state.outbox.append(start)
    note_begun(state, live.job, start)
    if unit is not live.units[0] or live.state == "reserved":
        state.begun.pop(live.job.name, None)  # the job runs already, or has evicted others
    if unit is live.units[0]:
        if live.lent is not None:
            lend_no_more(state, live)
        runs_now(state, live)
        if live.extra_of:
            expect_extras(state, state.jobs[live.extra_of])
    else:
        state.note_change(live.job.name)


def note_begun(state: State, job: Job, start: Start) -> None:
    """Let this round undo the start of a job, but not of jobs that it depends on."""
    state.begun[job.name] = start
    for other in (*job.after, *job.together, *start.shares_with):
        state.begun.pop(other, None)
    if job.together or start.shares_with:
        del state.begun[job.name]


def runs_now(state: State, live: Live) -> None:
    """Record that a job runs from now on."""
    state.turn(live, "start")
    live.since, live.reported, live.victims = state.now, None, ()
    expect_joining(state, live)


def expect_joining(state: State, live: Live) -> None:
    """Queue the other pods of a job, which join it; not while jobs run in an order."""
    if state.order is not None or not live.units[0].kind.grows:
        return
    live.note(state.log)
    for joining in live.joining(state.kinds):
        state.stages.submit(joining)
        push(state, joining)
    expect_extras(state, live)


def may_move_whole(live: Live, unit: Unit) -> bool:
    """Whether a job moves if its failed pods find no place. Failed spares move no job."""
    allows = unit.is_lost and live.job.on_failure == "pod-then-job"
    return allows and not any(live.job.is_spare(*pod) for pod in unit.pods)


def move_whole(state: State, live: Live, lost: Unit | None = None) -> bool:
    """Move a job to nodes with room for all of its pods; false if there are none.

    :param lost: failed pods that were taken off their queue; ``None``: none were.
    """
    stages, twin = state.stages.without_quotas(), live.copy()
    with stages.trial():
        for extra in live.extras.values():
            if not extra.for_job:
                leave(stages, extra)
        leave(stages, twin)
        if land(stages, twin, {}) is not None:
            return False
    before = placed_pods(live)
    # Extra pods have stopped with the job, and grow near its next place.
    for extra in [*live.extras.values()]:
        before += placed_pods(extra)
        end(state, extra)
    for unit in live.units:
        unit.note(state.log)
    leave(stages, live)
    land(stages, live, {})
    if lost is not None:
        state.waiting.leave(lost.kind, lost.name)
    if live.lost:
        forget_lost(state, live, lost)
    state.begun.pop(live.job.name, None)
    state.restart(live, state.now)
    state.outbox.append(Move(live.job.name, placed_pods(live), before))
    expect_extras(state, live)
    return True


def start_without(state: State, victims: list[str], live: Live, unit: Unit) -> Started:
    """Stop victims at once, and start the unit that they leave for."""
    for name in victims:
        stop(state, state.jobs[name])
    unit.note(state.log)
    found = state.stages.start(unit)
    if not isinstance(found, Started):
        raise InvariantError(f"job {live.job.name!r} does not start though others have left")
    return found


def preempt_victims(state: State, victims: Victims, live: Live) -> list[str]:
    """Preempt the victims of a job.

    :returns: their names, without those whose start in this round is undone.
    """
    stopping = []
    if victims:
        state.precedence.note(live.job.name, victims)
        reclaimed = [
            state.jobs[name].job.quota for name, why in victims.items() if why == "reclaim"
        ]
        if reclaimed:
            state.precedence.note(of_quota(live.job.quota), [*map(of_quota, reclaimed)])
    for name, why in victims.items():
        victim = state.jobs[name]
        victim.note(state.log)
        victim.is_reclaimed = why == "reclaim"
        start = state.begun.pop(name, None)
        if start is None:
            if victim.extra_of not in victims:  # extra pods leave with their job
                state.budgets.note(victim.job.quota, state.now)
                state.outbox.append(leaving_action(victim, live.job.name, why))
            stopping.append(name)
        else:
            state.unsaid.append(start)
            stop(state, victim)
    return stopping


def leaving_action(victim: Live, winner: str, why: str) -> Preempt | Shrink:
    """The action that evicts a job or an extra pod."""
    if not victim.extra_of:
        return Preempt(victim.job.name, winner, why)
    return Shrink(victim.extra_of, victim.units[0].placed, winner, why)


def mark_stopping(state: State, victim: Live, winner: str) -> None:
    """Let a job stop for another one; no job joins it any more."""
    victim.note(state.log)
    victim.for_job = winner
    state.note_change(victim.job.name)
    state.stages.close_group(victim.job.name)
    state.stages.note_passing(victim.placed)
