"""Jobs that start together or not at all.

They are started in turn in a trial; if all start there, they start. The outcome may
depend on the order: the most important jobs come first; if that fails, the other orders are tried,
or, of more than three jobs, the reverse. Otherwise all wait for what a refused job lacks.
"""

from collections.abc import Iterable, Iterator
from itertools import permutations

from hivecore.decisions import Refusal
from hivecore.errors import InvariantError
from hivecore.scheduler.ledger.lines import set_apart, take_off, wait, wait_apart
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.rounds.offers import not_yet, offer_alone
from hivecore.scheduler.rounds.waking import may_preempt, might_have_victims
from hivecore.scheduler.search.victims import where_placed
from hivecore.scheduler.stages.quotas import HEADROOM, OVERUSED
from hivecore.scheduler.stages.units import BEGUN, Key, Refused, Unit

__all__ = ["offer"]

_ALL_ORDERS_OF = 3


def offer(state: State, unit: Unit) -> None:
    """Start a unit that has left its queue, perhaps with others, or put it back."""
    live = state.jobs[unit.owner]
    if not live.job.together or unit is not live.units[0] or live.runs:
        offer_alone(state, unit)
        return
    linked = state.stopping_companion(live)
    if linked:
        name = linked[-1]
        reason = f"{name!r} has to stop for {state.jobs[name].for_job!r}"
        refusal = Refusal("scheduler", "together", reason, name)
        keys = [("stopped", name), *[("started", one) for one in linked]]
        wait_apart(state, live, unit, Refused(refusal, tuple(keys)))
        return
    others = state.companions(live)
    if not others:
        offer_alone(state, unit)
        return
    found = _in_order(state, live, [live, *others])
    if isinstance(found, Refused):
        wait(state, live, unit, _as_told(live, found))
        for one in others:
            # A job that does not name all of them may start sooner; a reserved job is in no queue.
            if one.state == "pending" and len(state.companions(one)) == len(others):
                _take(state, one)
                wait(state, one, one.units[0], _as_told(one, found))
        return
    for one in others:
        _take(state, one)
    if _start(state, found) is not None:
        raise InvariantError(f"job {live.job.name!r} does not start with {len(others)} others")
    for one in found:  # the start of none is undone without the others
        state.begun.pop(one.job.name, None)


def _as_told(live: Live, refused: Refused) -> Refused:
    """The refusal for one of the jobs, which names the job that was refused."""
    refusal = refused.refusal
    if refusal.part == live.job.name:
        return refused
    reason = f"starts together with {refusal.part!r}: {refusal.reason}"
    return refused._replace(refusal=refusal.replace(reason=reason))


def _in_order(state: State, offered: Live, lives: list[Live]) -> Refused | list[Live]:
    """An order in which all of these jobs start now, or why there is none.

    :param offered: the job that has left its queue already.
    """
    for one in lives:
        if one.state != "pending":
            name = one.job.name
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
    # A job waits for what another job lacks, so its own needs do not decide.
    keys = [("quotas", "any") if key == HEADROOM else key for key in keys]
    may_exceed = state.immediate and state.stages.may_exceed
    if may_exceed or (state.stages.reclaims and where_placed(keys)):
        keys.append(OVERUSED)
    gone = [("started", one.job.name) for one in lives]
    return first._replace(keys=(*keys, *gone))


def _orders(state: State, lives: list[Live]) -> Iterator[list[Live]]:
    """Orders in which jobs may start, all different, the most important and largest first."""

    def importance(live: Live) -> tuple[bool, int, int]:
        return not live.job.guaranteed, -live.job.priority, -live.units[0].kind.gpus

    ranked = sorted(lives, key=importance)
    orders: Iterable[Iterable[Live]] = (
        permutations(ranked) if len(ranked) <= _ALL_ORDERS_OF else (ranked, reversed(ranked))
    )
    known = set()
    for order in orders:
        # The usage of outside quotas reduces the total of the others.
        found = _in_turn(
            sorted(order, key=lambda live: not state.stages.is_outside(live.job.quota))
        )
        asked = tuple(state.kinds.key_of(one.job) for one in found)
        if asked not in known:
            known.add(asked)
            yield found


def _in_turn(lives: Iterable[Live]) -> list[Live]:
    """The same jobs, each behind the jobs after which it starts."""
    found: list[Live] = []
    left = {live.job.name: live for live in lives}
    while left:
        free = (one for one in left.values() if left.keys().isdisjoint(one.job.after))
        one = next(free, None) or next(iter(left.values()))  # a cycle
        found.append(left.pop(one.job.name))
    return found


def _refused(state: State, offered: Live, lives: list[Live]) -> Refused | None:
    """Why not all of these jobs start in turn; None: they do."""
    started: set[str] = set()
    for live in lives:
        refused = not_yet(state, live, started)
        if refused is not None:
            return _of(live, refused)
        started.add(live.job.name)
    grows = any(live.units[0].kind.grows for live in lives)  # such a job asks for more quota then
    if state.promised or (state.stages.reclaims and grows):
        return _refused_in_trial(state, offered, lives)
    found = state.stages.first_refused([live.units[0].trial() for live in lives])
    if found is None:
        return None
    at, refused = found
    if _might_do_more(state, lives[at], refused, is_first=not at):
        return _refused_in_trial(state, offered, lives)
    if state.immediate and any(may_preempt(state, one, one.units[0]) for one in lives[:at]):
        # With less room they evict others, which may leave more than they take.
        refused = refused._replace(keys=(*refused.keys, BEGUN))
    return _of(lives[at], refused)


def _might_do_more(state: State, live: Live, refused: Refused, *, is_first: bool) -> bool:
    """Whether a refused job might share GPUs with others, or evict them."""
    unit = live.units[0]
    if state.stages.may_share(unit.kind):
        return True
    if not (state.immediate and may_preempt(state, live, unit)):
        return False
    # The jobs before it may be all that exceeds its quota, or let a quota exceed its runtime.
    if refused.refusal.stage == "quotas" and state.stages.has_less_important(unit):
        return True
    if state.stages.may_exceed and not is_first:
        return True
    return might_have_victims(state, unit, refused)


def _of(live: Live, refused: Refused) -> Refused:
    """The refusal of a job that starts together with others."""
    reason = refused.refusal.reason
    return Refused(Refusal("scheduler", "together", reason, live.job.name), refused.keys)


def _refused_in_trial(state: State, offered: Live, lives: list[Live]) -> Refused | None:
    """The same where jobs may share or evict."""
    with state.trial():
        for live in lives:
            if live is not offered:
                _take(state, live)
        failed = _start(state, lives)
        if failed is None:
            return None
        refused = state.waiting.refused(failed.units[0].kind)
        wake_at = state.wake_at
    state.wake_at = wake_at  # which is no part of what is undone
    if refused is not None:  # other evictions may be possible once another job has started
        return _of(failed, refused._replace(keys=(*refused.keys, BEGUN)))
    reason = "it would have to leave for another of them"
    keys = [key for one in lives for key in state.stages.released(one.units[0].kind)]
    return Refused(Refusal("scheduler", "together", reason, failed.job.name), tuple(keys))


def _start(state: State, lives: list[Live]) -> Live | None:
    """Start jobs that are in no queue; return a job that does not run then, or None."""
    for at, live in enumerate(lives):
        # Jobs cannot start together while victims take time to stop.
        live.units[0].note(state.log)
        offer_alone(state, live.units[0], only_at_once=True)
        for one in reversed(lives[: at + 1]):
            if not one.runs:
                return one
    return None


def _take(state: State, live: Live) -> None:
    """Take a waiting job off its queue, to offer it or to let it wait with the others."""
    unit = live.units[0]
    take_off(state, unit)
    set_apart(state, unit)
