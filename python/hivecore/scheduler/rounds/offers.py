"""Offers a unit: it starts, with or without victims, or waits."""

from collections.abc import Collection

from hivecore.decisions import Refusal
from hivecore.scheduler.ledger.ends import expect_no_more, leaving
from hivecore.scheduler.ledger.lines import lend_no_more, wait
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.lost import regain
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.moves.moving import hold_in_place, start_beside, start_in_place
from hivecore.scheduler.rounds.backfill import (
    has_to_keep_promises,
    offer_like,
    outdate_less_important,
    pass_by,
    promise,
    promise_broken,
)
from hivecore.scheduler.rounds.idle_cells import lend, promote
from hivecore.scheduler.rounds.starts import (
    has_started,
    mark_stopping,
    may_move_whole,
    move_whole,
    preempt_victims,
    start_without,
    undo_joined,
)
from hivecore.scheduler.rounds.waking import as_held, may_preempt, might_help, refused_beside
from hivecore.scheduler.search.victims import NAME_NO_VICTIMS, Victims, find_victims, where_placed
from hivecore.scheduler.stages.transaction import Started
from hivecore.scheduler.stages.units import Key, Refused, Unit

__all__ = ["not_yet", "offer_alone"]


def not_yet(state: State, live: Live, started: Collection[str] = ()) -> Refused | None:
    """The refusal of a job if one of its `after` neither runs nor is ``started``, else None."""
    for other in state.missing(live):
        if other not in started:
            refusal = Refusal("scheduler", "after", f"waits for {other!r} to start", other)
            return Refused(refusal, (("started", other),))
    return None


def offer_alone(state: State, unit: Unit, *, only_at_once: bool = False) -> None:
    """Start a unit that was taken off its queue and noted, or let it wait.

    :param only_at_once: evict no job that takes time to stop.
    """
    live = state.jobs[unit.owner]
    if live.job.after and (too_early := not_yet(state, live)):
        wait(state, live, unit, too_early)
        return
    is_main = unit is live.units[0] and not live.extra_of
    ranks = None if is_main else state.jobs[unit.job].ranks_lost
    if ranks not in (None, unit) and (ahead := state.waiting.refused(ranks.kind)):
        # spares and pods that join take no room that these may need
        wait(state, live, unit, ahead._replace(keys=(*ahead.keys, ("started", unit.job))))
        return
    if state.backfill and (delayed := promise_broken(state, live, unit)):
        pass_by(state, live, unit, delayed)
        if is_main:
            _promise(state, live, unit)
        return
    if unit is live.lent:
        lend(state, live, unit)
        return
    if live.state == "lent":
        promote(state, live, unit)
        return
    known = state.stages.known_refusal(unit.kind)
    if known is not None:
        refused: Refused | Started = known
    elif is_main:
        refused = state.stages.start(unit)
    else:
        refused = start_beside(state.stages, state.jobs[unit.job], unit)
    if isinstance(refused, Started):
        _has_started(state, live, unit, refused)
        return
    if may_move_whole(live, unit) and move_whole(state, live, unit):
        return
    joined = state.stages.join(unit)
    if joined is not None:
        has_started(state, live, unit, Started(()), joined)
        return
    victims: Victims = {}
    may_evict = may_preempt(state, live, unit) and (state.immediate or not only_at_once)
    may_evict = may_evict and not has_to_keep_promises(state, live)
    if known is None and may_evict:
        hindered_by: tuple[Key, ...] = ()
        if might_help(state, unit, refused):
            victims, hindered_by = find_victims(state, unit, refused)
        elif refused.refusal.stage not in NAME_NO_VICTIMS:
            hindered_by = where_placed(state.stages.released(unit.kind))
        while undo_joined(state, [name for name in victims if not state.begun.get(name)]):
            # that may be enough, or fewer victims are
            again = start_in_place(state.stages, state.jobs, unit)
            if isinstance(again, Started):
                _has_started(state, live, unit, again)
                return
            left = {name: why for name, why in victims.items() if name in state.jobs}
            victims = find_victims(state, unit, again)[0] or left
        refused = refused_beside(state, refused, hindered_by)
    if not victims:
        refused = state.stages.note_refusal(unit.kind, refused)
        wait(state, live, unit, as_held(state, live, unit, refused))
        if state.backfill and is_main:
            _promise(state, live, unit)
        return
    stopping = preempt_victims(state, victims, live)
    if state.immediate or not stopping:
        _has_started(state, live, unit, start_without(state, stopping, live, unit))
        if stopping:  # a start for which victims left cannot be undone
            state.begun[live.job.name] = ()
        return
    state.waiting.leave(unit.kind, unit.name)
    if unit.is_lost:
        held = unit.trial()
        state.set_held(live, held)
        live.victims, live.held_since = tuple(stopping), state.now
    else:
        state.turn(live, "reserve")
        held, live.victims, live.since = unit, tuple(stopping), state.now
        lend_no_more(state, live)
    for name in stopping:
        mark_stopping(state, state.jobs[name], live.job.name)
        expect_no_more(state, state.jobs[name])
    units = leaving(state, live)
    for leaver in units:
        leaver.note(state.log)
    hold_in_place(state.stages, state.jobs, held, units)


def _promise(state: State, live: Live, unit: Unit) -> None:
    promise(state, live)
    offer_like(state, live, unit)


def _has_started(state: State, live: Live, unit: Unit, started: Started) -> None:
    has_started(state, live, unit, started)
    outdate_less_important(state, live)
    if unit.is_lost:
        regain(state, live, unit)
