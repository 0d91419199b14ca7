"""Lends idle cells to jobs that wait for cells of their tenants."""

from hivecore.decisions import Refusal
from hivecore.scheduler.actions import Promote, Start
from hivecore.scheduler.ledger.ends import set_admitted
from hivecore.scheduler.ledger.lines import wait, wait_apart
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.rounds.backfill import has_to_keep_promises
from hivecore.scheduler.rounds.starts import (
    expect_joining,
    preempt_victims,
    start_without,
)
from hivecore.scheduler.rounds.waking import as_held, refused_beside
from hivecore.scheduler.search.victims import Victims, find_victims
from hivecore.scheduler.stages.transaction import Started
from hivecore.scheduler.stages.units import Refused, Unit

__all__ = ["lend", "promote"]


def lend(state: State, live: Live, unit: Unit) -> None:
    """Start a job on idle cells, or let it wait for them, too."""
    unit.note(state.log)
    result = state.stages.start(unit)
    if not isinstance(result, Started):
        wait(state, live, unit, result)
        return
    state.waiting.leave(unit.kind, unit.name)
    state.turn(live, "lend")
    live.since, live.reported = state.now, None
    set_admitted(state, live.units[0], True)
    start = Start(live.job.name, unit.placed, decisions=result.decisions, lent=True)
    state.outbox.append(start)
    state.begun[live.job.name] = (start,)


def promote(state: State, live: Live, unit: Unit) -> None:
    """Move a job from idle cells to cells of its tenant, if these are free."""
    lent = live.lent
    assert lent is not None
    if live.for_job:
        refusal = Refusal("scheduler", "stops", f"has to stop for {live.for_job!r}")
        wait_apart(state, live, unit, Refused(refusal, (("stopped", live.job.name),)))
        return
    victims = _promotion(state, live, unit, lent)
    if isinstance(victims, Refused):
        refused = as_held(state, live, unit, victims)
        # once it has stopped, it is not charged, and may reclaim
        keys = *refused.keys, ("stopped", live.job.name)
        wait(state, live, unit, refused._replace(keys=keys))
        return
    stopping = preempt_victims(state, victims, live)
    state.count_again()
    state.stages.vacate(lent)
    lent.note(state.log)
    lent.placed, lent.is_placed = (), False
    started = start_without(state, stopping, live, unit)
    unit.has_quota = False
    state.waiting.leave(unit.kind, unit.name)
    state.begun[live.job.name] = ()
    state.outbox.append(Promote(live.job.name, unit.placed, started.decisions))
    state.turn(live, "promote")
    live.lent = None
    expect_joining(state, live)


def _promotion(state: State, live: Live, unit: Unit, lent: Unit) -> Refused | Victims:
    """The victims that must stop at once so that a job gets its tenant's cells, or its refusal."""
    with state.stages.trial():
        state.stages.vacate(lent)
        result = state.stages.start(unit.trial())
        if isinstance(result, Started):
            return {}
        may_evict = state.immediate and state.preemption
        if not may_evict or has_to_keep_promises(state, live):
            return result
        victims, hindered_by = find_victims(state, unit, result)
        return victims or refused_beside(state, result, hindered_by)
