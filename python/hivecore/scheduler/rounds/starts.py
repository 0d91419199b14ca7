"""Starts units, and evicts their victims."""

from collections.abc import Iterable

from hivecore.errors import InvariantError
from hivecore.scheduler.actions import Move, PlacedPod, Preempt, Shrink, Start
from hivecore.scheduler.ledger.ends import end, give_back, stop
from hivecore.scheduler.ledger.extras import expect_extras
from hivecore.scheduler.ledger.lines import lend_no_more, push, requeue
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.lost import forget_lost, lose
from hivecore.scheduler.ledger.precedence import of_quota
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.moves.moving import land, leave, placed_pods, start_in_place
from hivecore.scheduler.rounds.moved import has_moved, leaves_instead, stays_instead
from hivecore.scheduler.search.victims import Victims, needed_by
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
    "preempt_victims",
    "runs_now",
    "start_without",
    "undo_joined",
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
    if live.state == "reserved":  # it has evicted others
        state.begun[live.job.name] = ()
    elif unit is live.units[0]:
        state.begun[live.job.name] = (start,)
    elif before := state.begun.get(live.job.name):
        state.begun[live.job.name] = (*before, start)
    if unit is live.units[0]:
        if live.lent is not None:
            lend_no_more(state, live)
        runs_now(state, live)
        if live.extra_of:
            expect_extras(state, state.jobs[live.extra_of])
    else:
        name = live.job.name
        state.joined[name] = (*state.joined.get(name, ()), start)
        state.note_change(name)


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
    allows = unit.is_lost and live.held is None and live.job.on_failure == "pod-then-job"
    return allows and not any(live.job.is_spare(*pod) for pod in unit.pods)


def move_whole(state: State, live: Live, lost: Unit | None = None, *, node: str = "") -> bool:
    """Move a job to nodes with room for all of its pods; false if there are none.

    :param lost: failed pods that were taken off their queue; ``None``: none were.
    :param node: the drained node that it leaves; "": it moves for failed pods.
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
    if live.job.name in state.begun:
        state.begun[live.job.name] = ()
    state.joined.pop(live.job.name, None)
    state.restart(live, state.now)
    has_moved(state, Move(live.job.name, placed_pods(live), before), node)
    expect_extras(state, live)
    return True


def start_without(state: State, victims: list[str], live: Live, unit: Unit) -> Started:
    """Stop victims at once, and start the unit that they leave for."""
    for name in victims:
        stop(state, state.jobs[name])
    unit.note(state.log)
    started = start_in_place(state.stages, state.jobs, unit)
    if not isinstance(started, Started):
        raise InvariantError(f"job {live.job.name!r} does not start though others have left")
    return started


def preempt_victims(state: State, victims: Victims, live: Live) -> list[str]:
    """Preempt a job's victims; returns those with no start in this round to undo."""
    stopping, undone = [], _undone(state, victims, live) | _drained(state, victims)
    if undo_joined(state, [name for name in victims if name not in undone]):
        victims = {name: why for name, why in victims.items() if name in state.jobs}
    if victims:
        state.precedence.note(live.job.name, {**victims, **undone})
        reclaimed = [
            state.jobs[name].job.quota for name, why in victims.items() if why == "reclaim"
        ]
        if reclaimed:
            state.precedence.note(of_quota(live.job.quota), [*map(of_quota, reclaimed)])
    for name, why in victims.items():
        victim = state.jobs[name]
        victim.note(state.log)
        victim.is_reclaimed = why == "reclaim"
        if name not in undone:
            if name in state.moved and state.immediate:
                stays_instead(state, name)
            _unsay(state, state.kept.pop(name, ()))
            if victim.extra_of not in victims:  # extra pods leave with their job
                state.budgets.note(victim.job.quota, state.now)
                state.outbox.append(leaving_action(victim, live.job.name, why))
            stopping.append(name)
    for name in undone:
        if name in state.moved:
            leaves_instead(state, name)
        else:
            _unsay(state, state.begun.pop(name))
        if name in state.running:  # extra pods may have ended with their job
            stop(state, state.jobs[name])
    return stopping


def _unsay(state: State, starts: Iterable[Start]) -> None:
    """Do not return starts of this round."""
    state.unsaid += [(start, None) for start in starts]


def undo_joined(state: State, victims: Iterable[str]) -> bool:
    """Undo the starts in this round of pods that joined the victims; false if there are none."""
    joined = [name for name in victims if name in state.joined]
    for name in joined:
        live, starts = state.jobs[name], state.joined.pop(name)
        _unsay(state, starts)
        if begun := state.begun.get(name):
            state.begun[name] = tuple([start for start in begun if start not in starts])
        pods = {pod for start in starts for pod in start.pods}
        for unit in live.units[1:]:
            if pods.issuperset(unit.placed) and unit.placed:
                give_back(state, unit, end=False)
                requeue(state, unit)
        if lost := [pod for pod in live.units[0].placed if pod in pods]:
            lose(state, live, lost)
    return bool(joined)


def _undone(state: State, victims: Victims, live: Live) -> dict[str, None]:
    """The victims of a job whose start in this round is undone, with all jobs that started because
    of them, and those that started because a victim ran already; extra pods first.

    A start is undone unless one of these jobs is needed by the job, evicted others, or is more
    important.
    """
    undone: dict[str, None] = {}
    began = [name for name in victims if state.begun.get(name)]
    ran = victims.keys() - state.begun.keys()
    began += [
        name
        for name, starts in state.begun.items()
        if starts and name in state.jobs and not ran.isdisjoint(state.jobs[name].job.together)
    ]
    needed = needed_by(state, live.job) if began else set[str]()
    for name in began:
        names = _with_dependents(state, name)
        if name not in undone and all(
            state.begun.get(other)
            and other not in needed
            and (other in victims or not _is_above(state.jobs[other], live))
            for other in names
        ):
            undone |= names
    return dict(sorted(undone.items(), key=lambda item: not state.jobs[item[0]].extra_of))


def _drained(state: State, victims: Victims) -> dict[str, None]:
    """The victims that left a drained node in this round, with their extra pods, which come first.

    These stop at once, as they would if they fitted nowhere else.
    """
    drained: dict[str, None] = {}
    for name in victims if state.moved else ():
        if name in state.moved and state.moved[name][1]:
            extras = [extra for extra, of in state.jobs[name].extras.items() if of.runs]
            if all(state.begun.get(extra) for extra in extras):
                drained |= dict.fromkeys((*extras, name))
    return drained


def _is_above(other: Live, live: Live) -> bool:
    return other.job.guaranteed and other.job.priority > live.job.priority


def _with_dependents(state: State, name: str) -> dict[str, None]:
    """A job, its extra pods and sharers, and what began in this round because it runs."""
    names = {name: None}
    for other in (known := [name]):
        live = state.jobs[other]
        more = [extra for extra, of in live.extras.items() if of.runs]
        more += state.stages.members(other)
        begun = [state.jobs[name] for name in state.begun if name in state.jobs]
        more += [
            later.job.name
            for later in begun
            if not live.extra_of and other in (*later.job.after, *later.job.together)
        ]
        known += [new for new in dict.fromkeys(more) if new not in names]
        names |= dict.fromkeys(more)
    return names


def leaving_action(
    victim: Live, winner: str, why: str, pods: tuple[PlacedPod, ...] | None = None
) -> Preempt | Shrink:
    """The action that evicts a job, or an extra pod, which left ``pods`` if these are given."""
    if not victim.extra_of:
        return Preempt(victim.job.name, winner, why)
    placed = victim.units[0].placed if pods is None else pods
    return Shrink(victim.extra_of, placed, winner, why)


def mark_stopping(state: State, victim: Live, winner: str) -> None:
    """Let a job stop for another one; no job joins it any more."""
    victim.note(state.log)
    victim.for_job = winner
    state.note_change(victim.job.name)
    state.stages.close_group(victim.job.name)
    state.stages.note_passing(victim.placed)
