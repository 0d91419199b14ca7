"""How jobs end, or stop and wait again, and what they give back then."""

from hivecore.scheduler.actions import Reject, Start, Wait
from hivecore.scheduler.lifecycle.lines import (
    lend_no_more,
    offer_idle_cells,
    rank_anew,
    requeue,
    take_off,
    withdraw,
)
from hivecore.scheduler.lifecycle.live import Live
from hivecore.scheduler.lifecycle.state import State
from hivecore.scheduler.lifecycle.units import Unit

__all__ = [
    "abandon",
    "end",
    "ends_alone",
    "expect_no_more",
    "give_back",
    "has_stopped",
    "hold_no_more",
    "leave",
    "leaving",
    "reject_if_impossible",
    "set_admitted",
    "stop",
]


def end(state: State, live: Live) -> None:
    """A job is gone for good."""
    if not live.runs:
        _end_waiting(state, live)
    elif live.for_job:
        live.note(state.log)
        live.is_ending = True
        if not live.has_stopped:
            has_stopped(state, live)
        return
    else:
        _give_back_all(state, live, end=True)
    _forget(state, live)


def ends_alone(state: State, live: Live) -> bool:
    """Whether the end of a running job concerns no other job: then nothing can fail but a part that
    was changed from outside.
    """
    if live.for_job or live.lent is not None or len(live.units) > 1:
        return False
    return len(state.stages.members(live.job.name)) == 1


def _end_waiting(state: State, live: Live) -> None:
    """A job that waits asks for nothing any more."""
    if live.state == "reserved":
        abandon(state, live)
        state.stages.withdraw(live.units[0])
    else:
        lend_no_more(state, live)
        withdraw(state, live.units[0])


def _forget(state: State, live: Live) -> None:
    """A job is not known any more."""
    name = live.job.name
    # What was not told yet of a job that is gone is not told any more.
    kept = [a for a in state.outbox if not (isinstance(a, (Start, Wait)) and a.job == name)]
    state.outbox = kept
    state.turn(live, "end")


def stop(state: State, live: Live) -> None:
    """A running job waits again."""
    lent = live.lent
    live.note(state.log)
    live.pause(state.now)
    if lent is None:
        _give_back_all(state, live, end=False)
        requeue(state, live.units[0])
        offer_idle_cells(state, live)
    else:
        give_back(state, lent, end=False, reclaimed=live.is_reclaimed)
        set_admitted(state, live.units[0], False)
        requeue(state, lent)
        rank_anew(state, live.units[0])
    state.turn(live, "stop")
    live.for_job = ""
    live.has_stopped = live.is_reclaimed = False
    refusal = state.waiting.refusal(live.units[0].kind)
    if refusal is not None and refusal.code != "stops":
        state.tell(live, refusal)
    reject_if_impossible(state, live)


def set_admitted(state: State, unit: Unit, has_quota: bool) -> None:
    """Another unit of its job is admitted for a unit, or not any more."""
    unit.note(state.log)
    unit.has_quota = has_quota


def expect_no_more(state: State, live: Live) -> None:
    """No more pods join a job."""
    if len(live.units) == 1:
        return
    for unit in live.units[1:]:
        if not unit.placed:
            withdraw(state, unit)
    live.note(state.log)
    live.units = [live.units[0], *[unit for unit in live.units[1:] if unit.placed]]


def _give_back_all(state: State, live: Live, end: bool) -> None:
    if live.lent is not None:
        give_back(state, live.lent, end=end, reclaimed=live.is_reclaimed)
        take_off(state, live.units[0])
        return
    expect_no_more(state, live)
    first = live.units[0]
    if len(live.units) > 1:
        for unit in reversed(live.units[1:]):
            give_back(state, unit, end=True)
        live.note(state.log)
        live.units = [first]
    give_back(state, first, end=end, reclaimed=live.is_reclaimed)


def give_back(state: State, unit: Unit, *, end: bool, reclaimed: bool = False) -> None:
    """A unit has nothing any more.

    :param end: it asks for nothing any more, either.
    :param reclaimed: if it waits: another quota takes it back.
    """
    state.relief = None
    heir = state.stages.give_back(unit, end=end, reclaimed=reclaimed)
    if heir:
        first = state.jobs[heir].units[0]
        first.note(state.log)
        first.is_placed = unit.is_placed
    unit.note(state.log)
    unit.placed, unit.is_placed = (), False


def has_stopped(state: State, live: Live) -> None:
    """A victim has stopped: what it has is held until all have."""
    live.note(state.log)
    live.has_stopped = True
    state.stages.read(live.job.name, False)
    mine = state.jobs.get(live.for_job)
    # The other one may be gone, and its name somebody else's by now.
    if mine is None or live.job.name not in mine.victims:
        leave(state, live)


def leave(state: State, live: Live) -> None:
    """What a victim that has stopped has is free."""
    if live.is_ending:
        _give_back_all(state, live, end=True)
        _forget(state, live)
    else:
        stop(state, live)


def abandon(state: State, live: Live) -> None:
    """Victims have to leave for a job that does not wait for them any more."""
    hold_no_more(state, live)
    victims = live.victims
    live.note(state.log)
    live.victims = ()
    for name in victims:
        victim = state.jobs[name]
        victim.note(state.log)
        victim.is_reclaimed = False
        if victim.has_stopped:
            leave(state, victim)


def hold_no_more(state: State, live: Live) -> None:
    """What is held for a job is not any more; if nothing else happens, it is decided anew on it
    when all have stopped.
    """
    unit = live.units[0]
    if unit.placed:
        there = leaving(state, live)
        for one in (unit, *there):
            one.note(state.log)
        state.stages.let_go(unit, there)


def leaving(state: State, live: Live) -> list[Unit]:
    """What those have who have to stop for a job."""
    return [unit for name in live.victims for unit in state.jobs[name].placed]


def reject_if_impossible(state: State, live: Live) -> None:
    """One that waits could never start since something has changed: it is not kept."""
    reason = state.kinds.impossible(live.units[0].kind, state.stages.impossible)
    if reason:
        _end_waiting(state, live)
        _forget(state, live)
        state.outbox.append(Reject(live.job.name, reason))
        state.rejected.add(live.job.name)
