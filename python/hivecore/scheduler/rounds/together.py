"""Starts jobs together, or none of them.

The jobs are started in turn in a trial; if all start, the trial is repeated for real. The result
may depend on the order, so several are tried: the most important jobs first, then all other orders,
or the reverse if there are more than three jobs. If all orders fail, the jobs wait for what a
refused job lacks.
"""

from collections.abc import Iterable, Iterator
from itertools import permutations

from hivecore.decisions import Refusal
from hivecore.errors import InvariantError
from hivecore.scheduler.ledger.lines import set_apart, take_off, wait, wait_apart
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.rounds.backfill import promise
from hivecore.scheduler.rounds.offers import not_yet, offer_alone
from hivecore.scheduler.rounds.waking import as_held, may_preempt, might_have_victims
from hivecore.scheduler.search.victims import where_placed
from hivecore.scheduler.stages.quotas import HEADROOM, OVERUSED
from hivecore.scheduler.stages.units import BEGUN, Key, Refused, Unit

__all__ = ["offer"]

_ALL_ORDERS_OF = 3


def offer(state: State, unit: Unit) -> None:
    """Start a unit that was taken off its queue, with companions if any; or let it wait."""
    live = state.jobs[unit.owner]
    if not live.job.together or unit is not live.units[0] or live.runs:
        offer_alone(state, unit)
        return
    linked = state.stopping_companion(live)
    if linked:
        name = linked[-1]
        reason = f"{name!r} has to stop for {state.jobs[name].for_job!r}"
        refusal = Refusal("scheduler", "together", reason, name)
        keys = [("stopped", name), *[("started", companion) for companion in linked]]
        wait_apart(state, live, unit, Refused(refusal, tuple(keys)))
        return
    others = state.companions(live)
    if not others:
        offer_alone(state, unit)
        return
    result = _in_order(state, live, [live, *others])
    if isinstance(result, Refused):
        wait(state, live, unit, _for_companion(live, result))
        for other in others:
            # A job that does not name all of them may start sooner. A reserved job is in no queue.
            if other.state == "pending" and len(state.companions(other)) == len(others):
                _take(state, other)
                wait(state, other, other.units[0], _for_companion(other, result))
        if state.backfill:
            promise(state, live)
        return
    for other in others:
        _take(state, other)
    if _start(state, result) is not None:
        raise InvariantError(f"job {live.job.name!r} does not start with {len(others)} others")


def _for_companion(live: Live, refused: Refused) -> Refused:
    """The refusal as one of the jobs gets it; it names the job that was refused."""
    refusal = refused.refusal
    if refusal.part == live.job.name:
        return refused
    reason = f"starts together with {refusal.part!r}: {refusal.reason}"
    return refused._replace(refusal=refusal.replace(reason=reason))


def _in_order(state: State, offered: Live, lives: list[Live]) -> Refused | list[Live]:
    """An order in which these jobs start now, ``offered`` being off its queue; or a refusal."""
    for live in lives:
        if live.state != "pending":
            name = live.job.name
            reason = "others have to stop for it"
            return Refused(Refusal("scheduler", "together", reason, name), (("started", name),))
    keys: list[Key] = []
    first: Refused | None = None
    for order in _orders(state, lives):
        refused = _refused(state, offered, order)
        if refused is None:
            return order
        first = first or refused
        keys += refused.keys
    assert first is not None
    # the needs of the waiting job do not decide
    keys = [("quotas", "any") if key == HEADROOM else key for key in keys]
    may_exceed = state.immediate and state.stages.may_exceed
    if may_exceed or (state.stages.reclaims and where_placed(keys)):
        keys.append(OVERUSED)
    gone = [("started", live.job.name) for live in lives]
    return first._replace(keys=(*keys, *gone))


def _orders(state: State, lives: list[Live]) -> Iterator[list[Live]]:
    """Different orders of the jobs, the most important and largest first."""

    def importance(live: Live) -> tuple[bool, int, int]:
        return not live.job.guaranteed, -live.job.priority, -live.units[0].kind.gpus

    ranked = sorted(lives, key=importance)
    orders: Iterable[Iterable[Live]] = (
        permutations(ranked) if len(ranked) <= _ALL_ORDERS_OF else (ranked, reversed(ranked))
    )
    known = set()
    for order in orders:
        # outside quotas reduce the total of the others
        ordered = _in_turn(
            sorted(order, key=lambda live: not state.stages.is_outside(live.job.quota))
        )
        kinds = tuple(state.kinds.key_of(live.job) for live in ordered)
        if kinds not in known:
            known.add(kinds)
            yield ordered


def _in_turn(lives: Iterable[Live]) -> list[Live]:
    """The jobs, each behind those that must start before it."""
    ordered: list[Live] = []
    left = {live.job.name: live for live in lives}
    while left:
        free = (live for live in left.values() if left.keys().isdisjoint(live.job.after))
        first = next(free, None) or next(iter(left.values()))  # a cycle
        ordered.append(left.pop(first.job.name))
    return ordered


def _refused(state: State, offered: Live, lives: list[Live]) -> Refused | None:
    """The refusal of the first job that does not start in turn; None if all start."""
    started: set[str] = set()
    for live in lives:
        refused = not_yet(state, live, started)
        if refused is not None:
            return _of(live, refused)
        started.add(live.job.name)
    grows = any(live.units[0].kind.grows for live in lives)  # such a job then asks for more quota
    if state.promised or (state.stages.reclaims and grows):
        return _refused_in_trial(state, offered, lives)
    failed = state.stages.first_refused([live.units[0].trial() for live in lives])
    if failed is None:
        return None
    at, refused = failed
    if _might_do_more(state, lives[at], refused, is_first=not at):
        return _refused_in_trial(state, offered, lives)
    if state.immediate and any(may_preempt(state, live, live.units[0]) for live in lives[:at]):
        # with less room they evict jobs, which may free more than they take
        refused = refused._replace(keys=(*refused.keys, BEGUN))
    return _of(lives[at], as_held(state, lives[at], lives[at].units[0], refused))


def _might_do_more(state: State, live: Live, refused: Refused, *, is_first: bool) -> bool:
    """Whether a refused job might share GPUs or evict jobs."""
    unit = live.units[0]
    if state.stages.may_share(unit.kind):
        return True
    if not (state.immediate and may_preempt(state, live, unit)):
        return False
    # The jobs before it may be all that exceeds its quota, or may let a quota exceed its runtime.
    if refused.refusal.stage == "quotas" and state.stages.has_less_important(unit):
        return True
    if state.stages.may_exceed and not is_first:
        return True
    return might_have_victims(state, unit, refused)


def _of(live: Live, refused: Refused) -> Refused:
    """The refusal of a job, as a refusal to start together."""
    reason = refused.refusal.reason
    return Refused(Refusal("scheduler", "together", reason, live.job.name), refused.keys)


def _refused_in_trial(state: State, offered: Live, lives: list[Live]) -> Refused | None:
    """As `_refused`, where jobs may share GPUs or evict."""
    with state.trial():
        for live in lives:
            if live is not offered:
                _take(state, live)
        failed = _start(state, lives)
        if failed is None:
            return None
        refused = state.waiting.refused(failed.units[0].kind)
        wake_at = state.wake_at
    if wake_at < state.wake_at:  # maybe as jobs have just started, but only in the trial
        end = state.budgets.next_end(state.running.values(), wake_at)
        state.wake_at = min(state.wake_at, end)
    if refused is not None:  # other evictions may be possible once another job has started
        return _of(failed, refused._replace(keys=(*refused.keys, BEGUN)))
    reason = "it would have to leave for another of them"
    keys = [key for live in lives for key in state.stages.released(live.units[0].kind)]
    return Refused(Refusal("scheduler", "together", reason, failed.job.name), tuple(keys))


def _start(state: State, lives: list[Live]) -> Live | None:
    """Start jobs that are in no queue. Returns a job that does not run afterwards, or None."""
    for at, live in enumerate(lives):
        # Jobs cannot start together while victims stop.
        live.units[0].note(state.log)
        offer_alone(state, live.units[0], only_at_once=True)
        for begun in reversed(lives[: at + 1]):
            if not begun.runs:
                return begun
    return None


def _take(state: State, live: Live) -> None:
    """Take a job off its queue, to offer it or to let it wait with the others."""
    unit = live.units[0]
    take_off(state, unit)
    set_apart(state, unit)
