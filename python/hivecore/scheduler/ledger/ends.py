"""Ends jobs, or lets them stop and wait again, and frees their resources."""

from hivecore.scheduler.actions import Reject, Start, TakeOver, Wait
from hivecore.scheduler.ledger.lines import (
    lend_no_more,
    offer_idle_cells,
    requeue,
    take_off,
    update_rank,
    wait_again,
    withdraw,
)
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.stages.units import Unit

__all__ = [
    "abandon",
    "end",
    "end_extras",
    "ends_alone",
    "expect_no_more",
    "forget",
    "give_back",
    "give_up",
    "has_stopped",
    "hold_no_more",
    "keep_first",
    "leave",
    "leaving",
    "reject_if_impossible",
    "retry_lost",
    "set_admitted",
    "stop",
]


def end(state: State, live: Live) -> None:
    """End a job. A victim is forgotten when its resources are free."""
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
    forget(state, live)


def ends_alone(state: State, live: Live) -> bool:
    """Whether the end of a running job affects no other; then no stage should refuse it."""
    if live.for_job or live.lent is not None or len(live.units) > 1 or live.extras:
        return False
    return len(state.stages.members(live.job.name)) == 1


def _end_waiting(state: State, live: Live) -> None:
    if live.state == "reserved":
        abandon(state, live)
        state.stages.withdraw(live.units[0])
    else:
        lend_no_more(state, live)
        withdraw(state, live.units[0])


def forget(state: State, live: Live) -> None:
    """Forget a job."""
    if live.extras:
        end_extras(state, live)
    name = live.job.name
    if state.outbox:
        _take_back(state, name, (Start, TakeOver, Wait))
    state.turn(live, "end")


def _take_back(state: State, name: str, kinds: tuple[type[Start | TakeOver | Wait], ...]) -> None:
    """Drop actions of these types for a job that no `decide` has returned yet."""
    kept = [a for a in state.outbox if not (isinstance(a, kinds) and a.job == name)]
    state.outbox = kept


def stop(state: State, live: Live) -> None:
    """Let a running job wait again."""
    lent = live.lent
    live.note(state.log)
    live.pause(state.now)
    live.for_job = ""
    if live.job.on_failure != "job":
        _take_back(state, live.job.name, (TakeOver,))
    if lent is None:
        _give_back_all(state, live, end=False)
        requeue(state, live.units[0])
        offer_idle_cells(state, live)
    else:
        give_back(state, lent, end=False, reclaimed=live.is_reclaimed)
        set_admitted(state, live.units[0], False)
        requeue(state, lent)
        update_rank(state, live.units[0])
    state.turn(live, "stop")
    live.has_stopped = live.is_reclaimed = False
    end_extras(state, live)
    refusal = None if lent is None else state.waiting.refusal(live.units[0].kind)
    if refusal is not None and refusal.code != "stops":
        state.report(live, refusal)
    else:
        state.log.keep(state.unreported, live.job.name)
        state.unreported[live.job.name] = live
    keep_first(state, live)
    reject_if_impossible(state, live)


def keep_first(state: State, live: Live) -> None:
    """Of the waiting extra pods of a role, keep the first."""
    if not live.extra_of:
        return
    role = live.units[0].pods[0].role
    waiting = [
        (extra.units[0].pods[0].number, extra)
        for extra in state.jobs[live.extra_of].extras.values()
        if not extra.runs and extra.units[0].pods[0].role == role
    ]
    for _, extra in sorted(waiting, key=lambda numbered: numbered[0])[1:]:
        end(state, extra)


def set_admitted(state: State, unit: Unit, has_quota: bool) -> None:
    """Set whether a unit is admitted by another unit of its job."""
    unit.note(state.log)
    unit.has_quota = has_quota


def end_extras(state: State, live: Live) -> None:
    """End the extra pods of a job, as the job ends or stops."""
    _expect_no_extras(state, live)
    for extra in [*live.extras.values()]:
        if state.jobs.get(extra.job.name) is not extra:
            continue  # it ended with another pod
        end(state, extra)
        if state.jobs.get(extra.job.name) is extra:  # its resources are held for another job
            winner = state.jobs[extra.for_job]
            give_up(state, winner)


def _expect_no_extras(state: State, live: Live) -> None:
    """End the waiting extra pods of a job; running ones do not return once they stop."""
    for extra in [*live.extras.values()]:
        if extra.runs:
            extra.note(state.log)
            extra.is_ending = True
        else:
            end(state, extra)


def expect_no_more(state: State, live: Live) -> None:
    """Let no more pods join a job, and end its waiting extra pods."""
    if live.held is not None:
        give_up(state, live)
    if live.extras:
        _expect_no_extras(state, live)
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
    first = live.units[0]
    if live.extras or len(live.units) > 1:
        expect_no_more(state, live)
    if len(live.units) > 1:
        for unit in reversed(live.units[1:]):
            give_back(state, unit, end=True)
        live.note(state.log)
        live.units = [first]
    give_back(state, first, end=end, reclaimed=live.is_reclaimed)


def _ends_early(state: State, live: Live) -> bool:
    """Whether a job that ends or stops now was expected to run longer."""
    return live.job.run_time is None or state.now < live.since + live.job.run_time


def give_back(state: State, unit: Unit, *, end: bool, reclaimed: bool = False) -> None:
    """Release the resources of a unit.

    :param end: the unit ends; otherwise it waits again.
    :param reclaimed: another quota reclaims the resources; only if the unit waits again.
    """
    if state.relief is not None or state.losses is not None:
        state.note_change(unit.owner)
        state.count_again()
    if state.promised and _ends_early(state, state.jobs[unit.owner]):
        state.log.set(state, "are_promises_new", False)
    heir = state.stages.give_back(unit, end=end, reclaimed=reclaimed)
    if heir:
        first = state.jobs[heir].units[0]
        first.note(state.log)
        first.is_placed = unit.is_placed
    unit.note(state.log)
    unit.placed, unit.is_placed = (), False
    if state.charges_time and unit.departure is not None:
        unit.departure = state.queues.ended(unit.departure, state.microseconds)


def has_stopped(state: State, live: Live) -> None:
    """Record that a victim has stopped. Its resources are held until all victims have stopped."""
    live.note(state.log)
    live.has_stopped = True
    for extra in [*live.extras.values()]:
        if extra.runs and not extra.has_stopped:
            has_stopped(state, extra)
    state.stages.read(live.job.name, False)
    winner = state.jobs.get(live.for_job)
    # that job may be gone, and another one may have its name
    if winner is None or live.job.name not in winner.victims:
        leave(state, live)


def leave(state: State, live: Live) -> None:
    """Release the resources of a victim that has stopped."""
    if live.is_ending:
        _give_back_all(state, live, end=True)
        forget(state, live)
    else:
        stop(state, live)


def abandon(state: State, live: Live) -> None:
    """Let a reserved job no longer wait for its victims. The victims still have to stop."""
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


def give_up(state: State, live: Live) -> None:
    """Let a job, or its failed pods, wait again and not for victims. These still have to stop."""
    abandon(state, live)
    if live.held is None:
        wait_again(state, live)
        return
    unit = live.unit_of_held
    state.set_held(live, None)
    requeue(state, unit)
    retry_lost(state, live)


def retry_lost(state: State, live: Live) -> None:
    """Offer failed pods of a job again, as they may evict others now."""
    for unit in live.lost:
        if unit.name in state.queued:
            take_off(state, unit)
            requeue(state, unit)


def hold_no_more(state: State, live: Live) -> None:
    """Release what is held for a job or its failed pods, which wait for its victims to stop."""
    unit = live.reserved
    if unit is not None and unit.placed:
        units = leaving(state, live)
        for holder in (unit, *units):
            holder.note(state.log)
        state.stages.let_go(unit, units)


def leaving(state: State, live: Live) -> list[Unit]:
    """The units of a job's victims."""
    return [unit for name in live.victims for unit in state.jobs[name].placed]


def reject_if_impossible(state: State, live: Live) -> None:
    """Reject a waiting job that can never start, as the parts have changed."""
    if live.extra_of:
        return
    reason = state.kinds.impossible(live.units[0].kind, state.stages.impossible)
    if reason:
        _end_waiting(state, live)
        forget(state, live)
        state.outbox.append(Reject(live.job.name, reason))
        state.rejected.add(live.job.name)
