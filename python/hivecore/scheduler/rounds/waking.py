"""Decides whether waiting units are worth another try."""

from collections.abc import Iterable
from functools import partial

from hivecore.decisions import Refusal
from hivecore.scheduler.ledger.lines import line_of, queue_of, wake_kind
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.rounds.backfill import has_to_keep_promises
from hivecore.scheduler.search.bound import Relief
from hivecore.scheduler.search.victims import NAME_NO_VICTIMS, needs_other_nodes, where_placed
from hivecore.scheduler.stages.quotas import OVERUSED
from hivecore.scheduler.stages.units import Key, Kind, Refused, Unit, owner_of

__all__ = [
    "as_held",
    "may_preempt",
    "might_have_victims",
    "might_help",
    "refused_beside",
    "wake",
]


def wake(state: State) -> None:
    """Offer kinds again that may have lost their reason to wait."""
    if state.may_promise:
        state.log.set(state, "may_promise", False)
        for kind in state.waiting.parked().values():
            wake_kind(state, kind)
    refused, able = partial(_still_refused, state), state.stages.able_to_share
    for kind in state.waiting.woken(refused, able):
        line_of(state, kind).wake(queue_of(state, kind.job), kind.number)


def _still_refused(state: State, kind: Kind, refusal: Refusal, name: str) -> Refused | None:
    unit = state.queued[name]
    live = state.jobs[unit.owner]
    if not live.runs and state.companions(live):  # its companions may be able to do what it cannot
        return None
    again = state.stages.still_refused(kind, refusal, name)
    if again is not None and (again.quota_victims or again.cell_victims):
        if as_held(state, live, unit, again).refusal != refusal:
            return None  # other jobs are in its way now, which must be reported
        again = again._replace(refusal=refusal)
    if again is None or not may_preempt(state, live, unit):
        return again
    # Too little is idle, but evictions may free enough.
    return None if might_have_victims(state, unit, again) else again


def might_have_victims(state: State, unit: Unit, refused: Refused) -> bool:
    """Whether evictions might let a refused unit start. A quick check."""
    stage = refused.refusal.stage
    if refused.quota_victims or refused.cell_victims:
        return True
    if stage in NAME_NO_VICTIMS:
        return might_help(state, unit, refused)
    if stage == "cells":
        needs_others = needs_other_nodes(state.stages, unit.kind.job, refused.refusal)
        return needs_others or state.stages.is_lending()
    may_admit = stage == "quotas" and state.stages.may_be_admitted(unit, refused.refusal)
    return may_admit and might_help(state, unit, refused)


def might_help(state: State, unit: Unit, refused: Refused) -> bool:
    """Whether a unit might start if other jobs left. A quick check."""
    if refused.refusal.stage not in ("quotas", *NAME_NO_VICTIMS) or refused.quota_victims:
        return True
    if state.relief is None:
        state.relief = Relief(state.stages, state.running)
    return not state.relief.is_too_little(unit.kind)


def refused_beside(state: State, refused: Refused, hindered_by: Iterable[Key]) -> Refused:
    """A refusal with the keys of events after which evictions may help."""
    keys = (*refused.keys, *hindered_by)
    if state.stages.reclaims and where_placed(keys):
        keys += (OVERUSED,)
    return refused._replace(keys=keys)


def may_preempt(state: State, live: Live, unit: Unit) -> bool:
    """Whether first pods may evict jobs, or failed ones unless others wait for victims."""
    is_first = unit is live.units[0] or (unit.is_lost and live.held is None)
    return state.preemption and live.job.guaranteed and is_first


def as_held(state: State, live: Live, unit: Unit, refused: Refused) -> Refused:
    """The refusal of a unit, which names jobs to evict, with the reason why they are not evicted:
    there is no preemption, other failed pods of its job wait for victims, a job with a promised
    start comes first, or limits protect them. Other refusals do not change.
    """
    names = dict.fromkeys(
        owner_of(name, state.jobs) for name in refused.quota_victims or refused.cell_victims
    )
    if not names:
        return refused
    why = ""
    if not state.preemption:
        why = "preemption is off"
    elif live.job.guaranteed and unit.is_lost and live.held is not None:
        why = "other jobs have to stop for pods that failed before"
    elif live.job.guaranteed and has_to_keep_promises(state, live):
        why = "a job that was promised a start comes first"
    if why:
        reason = f"waits for {', '.join(map(repr, names))} to end, as {why}"
    else:
        running = [state.running[name] for name in names if name in state.running]
        evicted = [other for other in running if not other.for_job]
        limits = " and ".join(state.budgets.reasons(evicted, state.now))
        if not (limits and live.job.guaranteed):
            return refused
        reason = f"{refused.refusal.reason}, but {limits}"
    return refused._replace(refusal=refused.refusal.replace(reason=reason))
