"""A round of decisions in which jobs run in a given order."""

from hivecore.scheduler.actions import Preempt, Start
from hivecore.scheduler.ledger.ends import reject_if_impossible
from hivecore.scheduler.ledger.lines import requeue, take_off
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.orders.ordering import Order
from hivecore.scheduler.orders.walk import Walk
from hivecore.scheduler.rounds.starts import expect_joining, runs_now, tell_to_stop

__all__ = ["end_order", "run_in_order"]


def end_order(state: State) -> None:
    """Let the queues choose the next jobs again, and let other pods join running jobs."""
    state.order = None
    state.waiting.touch_all()
    for live in state.jobs.values():
        if live.state == "running" and not live.for_job and len(live.units) == 1:
            expect_joining(state, live)


def run_in_order(state: State, order: Order) -> None:
    """Let the first jobs of the order run."""
    if order.place.keys().isdisjoint(state.jobs.keys()):
        return  # all are gone
    if not state.immediate and _have_to_stop(state, order):
        return
    walk = Walk(state.stages, state.jobs, order, state.kinds.all_want_gpus)
    found = walk.run(state.running.values())
    for live in found.stopped:
        name = live.job.name
        state.outbox.append(Preempt(name, found.winner(name, order, state.jobs), "order"))
        live.note(state.log)
        live.pause(state.now)
        requeue(state, live.units[0])
        state.turn(live, "stop")
        reject_if_impossible(state, live)
    for move in found.moves:
        state.outbox.append(move)
        moved = state.jobs[move.job]
        moved.note(state.log)
        state.restart(moved, state.now)
    for live, sharers, offsets in found.started:
        unit = live.units[0]
        take_off(state, unit)
        decisions = walk.decisions.get(unit.name, ())
        state.outbox.append(Start(live.job.name, unit.placed, sharers, offsets, decisions))
        runs_now(state, live)
    for name, refused in walk.refused.items():
        waits = state.jobs.get(name)
        # Once: the reason depends on the jobs that ran when the walk came to this job.
        if waits is not None and waits.told is None:
            state.tell(waits, refused.refusal)


def _have_to_stop(state: State, order: Order) -> bool:
    """Let jobs stop that have no place any more, or another one; return whether there are any."""
    if any(live.for_job for live in state.running.values()):
        return True
    jobs = {name: one.copy() for name, one in state.jobs.items()}
    with state.stages.trial():
        walk = Walk(state.stages, jobs, order, state.kinds.all_want_gpus)
        found = walk.run([jobs[name] for name in state.running])
    names = [live.job.name for live in found.stopped] + [move.job for move in found.moves]
    for name in names:
        winner = found.winner(name, order, state.jobs)
        state.outbox.append(Preempt(name, winner, "order"))
        tell_to_stop(state, state.jobs[name], winner)
    return bool(names)
