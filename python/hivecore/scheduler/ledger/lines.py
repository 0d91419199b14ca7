"""The queues of units: one for each tenant, and one for idle cells."""

from collections.abc import Iterable

from hivecore._record import force_setattr
from hivecore.decisions import Refusal
from hivecore.queues import QueuedJob, TenantQueues
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import MICRO, State
from hivecore.scheduler.stages.units import Key, Kind, Refused, Unit

__all__ = [
    "came",
    "displaced_by",
    "lend_no_more",
    "line_of",
    "offer_idle_cells",
    "park",
    "push",
    "queue_of",
    "queued_job",
    "rejoin",
    "report_if_parked",
    "requeue",
    "set_apart",
    "take_off",
    "update_rank",
    "wait",
    "wait_again",
    "wait_apart",
    "wait_by_itself",
    "wake_kind",
    "withdraw",
]


def queue_of(state: State, job: Job) -> str:
    """The name of a job's queue."""
    return job.tenant if state.has_queues else "all"


def line_of(state: State, kind: Kind) -> TenantQueues:
    """The queues in which units of a kind wait."""
    if not kind.is_lent:
        return state.queues
    assert state.lending is not None
    return state.lending


def push(state: State, unit: Unit) -> None:
    """Put a new unit into its queue."""
    line_of(state, unit.kind).push(queued_job(state, unit), state.microseconds)
    state.enqueue(unit)
    state.waiting.add(unit.kind, unit.name)


def queued_job(state: State, unit: Unit, job: Job | None = None) -> QueuedJob:
    """The entry of a unit in its queue."""
    kind, attained = unit.kind, 0.0
    if job is None:
        live = state.jobs[unit.owner]
        job, attained = live.job, live.attained
    if kind.queued is None:
        queue, size = queue_of(state, kind.job), max(1, kind.gpus)
        kind.queued = QueuedJob(unit.name, queue, size, kind.job.priority, kind=kind.number)
    queued: QueuedJob = kind.queued.__copy__()  # type: ignore[attr-defined]
    force_setattr(queued, "name", unit.name)
    if job.run_time is not None:
        force_setattr(queued, "run_time", max(1, int(job.run_time * MICRO)))
    if attained:
        force_setattr(queued, "attained", int(attained * MICRO))
    return queued


def requeue(state: State, unit: Unit) -> None:
    """Put a stopped unit back at its old place."""
    live = state.jobs[unit.owner]
    if unit is live.units[0]:
        unit.note(state.log)
        if not state.waits_alone(live):
            unit.kind = state.kinds.of(live.job)
            if _may_do_less(state, unit):
                _keep_apart(state, unit)
        elif not unit.kind.is_alone:
            unit.kind = state.kinds.alone(unit.kind)
    _put_back(state, unit)


def _put_back(state: State, unit: Unit) -> None:
    """Put a unit back at its place, under its present kind."""
    assert unit.departure is not None
    departure = unit.departure._replace(job=queued_job(state, unit))
    line_of(state, unit.kind).requeue(departure)
    state.enqueue(unit)
    state.waiting.add(unit.kind, unit.name)


def _may_do_less(state: State, unit: Unit) -> bool:
    """Whether a waiting unit must not borrow or evict what equal units may."""
    if not state.stages.may_borrow(unit):
        return True
    return unit.kind.job.guaranteed and bool(state.precedence.above(unit.owner))


def _keep_apart(state: State, unit: Unit) -> None:
    """Let a unit wait apart from its kind while it may do less."""
    unit.kind = state.kinds.alone(unit.kind)
    state.log.keep(state.apart, unit.name)
    state.apart[unit.name] = unit


def wait_by_itself(state: State, unit: Unit) -> None:
    """Let a unit wait at its place, but apart from its kind in this round."""
    take_off(state, unit)
    _keep_apart(state, unit)
    _put_back(state, unit)


def rejoin(state: State) -> None:
    """Let units kept apart wait with their kind again once they may borrow and evict like it."""
    for name, unit in sorted(state.apart.items()):
        waits = state.queued.get(name) is unit and unit.kind.is_alone
        if waits and _may_do_less(state, unit):
            continue
        state.log.keep(state.apart, name)
        del state.apart[name]
        if waits:
            refused = state.waiting.refused(unit.kind)
            take_off(state, unit)
            requeue(state, unit)
            if refused is not None and state.waiting.is_only(unit.kind):
                park(state, unit.kind, refused)


def update_rank(state: State, unit: Unit) -> None:
    """Move a waiting unit in its queue by the time that its job ran on idle cells."""
    line = line_of(state, unit.kind)
    line.requeue(line.take(unit.name)._replace(job=queued_job(state, unit)))


def withdraw(state: State, unit: Unit) -> None:
    """Withdraw a waiting unit."""
    take_off(state, unit)
    if not unit.is_lost:  # the job stays charged for a lost pod
        state.stages.withdraw(unit)


def take_off(state: State, unit: Unit) -> None:
    """Take a unit off its queue without an offer."""
    kind, line = unit.kind, line_of(state, unit.kind)
    unit.note(state.log)
    unit.departure = line.take(unit.name)
    state.dequeue(unit.name)
    if state.waiting.leave(kind, unit.name):
        line.wake(queue_of(state, kind.job), kind.number)


def wait_apart(state: State, live: Live, unit: Unit, refused: Refused) -> None:
    """Let a unit wait apart from its kind."""
    state.waiting.leave(unit.kind, unit.name)
    set_apart(state, unit)
    wait(state, live, unit, refused)


def set_apart(state: State, unit: Unit) -> None:
    """Give a unit that was taken off its queue a kind of its own."""
    if not unit.kind.is_alone:
        assert unit.departure is not None
        unit.note(state.log)
        unit.kind = state.kinds.alone(unit.kind)
        unit.departure = unit.departure._replace(job=queued_job(state, unit))
    state.waiting.add(unit.kind, unit.name)


def wait(state: State, live: Live, unit: Unit, refused: Refused) -> None:
    """Put a unit back at its place in the queue, and park its kind."""
    kind = unit.kind
    departure = unit.departure
    assert departure is not None
    line_of(state, kind).requeue(departure)
    state.enqueue(unit)
    is_first = unit is live.units[0] and not live.runs
    if is_first and live.job.together:  # another job may have to start with it
        refused = refused._replace(keys=(*refused.keys, *state.stops_of_linked(live)))
    park(state, kind, refused)
    if is_first or unit.is_lost:
        state.report(live, refused.refusal)


def displaced_by(state: State, job: Job, promised: Iterable[str] | None = None) -> str | None:
    """The job that loses its promised start to this one; "": none has to; ``None``: refused."""
    queue, of = queue_of(state, job), state.jobs
    given = state.promised if promised is None else promised
    others = [name for name in given if queue_of(state, of[name].job) == queue]
    if len(others) < state.backfill:
        return ""
    least = min(others, key=lambda name: (of[name].job.priority, -of[name].number))
    return least if of[least].job.priority < job.priority else None


def wake_kind(state: State, kind: Kind) -> None:
    """Offer a parked kind again."""
    state.waiting.wake(kind)
    line_of(state, kind).wake(queue_of(state, kind.job), kind.number)


def park(state: State, kind: Kind, refused: Refused) -> None:
    """Do not offer units of a kind until a key of the refusal is touched."""
    line_of(state, kind).park(queue_of(state, kind.job), kind.number)
    state.waiting.park(kind, refused.refusal, refused.keys)


def offer_idle_cells(state: State, live: Live) -> None:
    """Let a job that waits for its tenant's cells wait for idle cells, too."""
    if state.lending is not None and state.may_run_on_idle_cells(live):
        live.note(state.log)
        unit = live.may_be_lent(state.kinds)
        push(state, unit)
        refusal = state.waiting.refusal(unit.kind)
        if refusal is not None:
            _try_beside_promises(state, unit.kind, refusal)


def lend_no_more(state: State, live: Live) -> None:
    """Let a job no longer wait for idle cells."""
    if live.lent is not None:
        take_off(state, live.lent)
        live.note(state.log)
        live.lent = None


def report_if_parked(state: State, live: Live) -> None:
    """Report why a new job waits, if its kind is parked."""
    kind = live.units[0].kind
    refusal = state.waiting.refusal(kind)
    if refusal is not None:
        state.report(live, refusal)
        _try_beside_promises(state, kind, refusal)
        if state.backfill and displaced_by(state, live.job) is not None:
            wake_kind(state, kind)  # to promise it a start


def _try_beside_promises(state: State, kind: Kind, refusal: Refusal) -> None:
    """Retry a parked kind with a new job, which may end before the delayed promised start."""
    if refusal.code == "backfill":
        state.waiting.touch((came(kind),))


def came(kind: Kind) -> Key:
    """The key that is touched when a job of a kind is submitted."""
    return "came", str(kind.number)


def wait_again(state: State, live: Live) -> None:
    """Put a reserved job back into its queue."""
    state.turn(live, "give up")
    live.victims = ()
    requeue(state, live.units[0])
    offer_idle_cells(state, live)
