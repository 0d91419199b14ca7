"""Amends jobs."""

from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.ends import abandon, reject_if_impossible
from hivecore.scheduler.ledger.lines import (
    lend_no_more,
    offer_idle_cells,
    report_if_parked,
    requeue,
    update_rank,
    wait_again,
    withdraw,
)
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.ledger.transitions import LENT, RESERVED
from hivecore.scheduler.stages.units import Kind

__all__ = ["amend", "estimate"]


def estimate(state: State, live: Live, job: Job) -> None:
    """Change the estimate of a running job."""
    state.log.set(live, "job", job)
    state.outdate_promises()
    if live.state == LENT:
        update_rank(state, live.units[0])


def amend(state: State, live: Live, job: Job, kind: Kind) -> None:
    """Change a waiting job to one of this kind; it keeps its place in its queue."""
    if live.state == RESERVED:
        abandon(state, live)
        wait_again(state, live)
    state.log.set(state, "are_promises_new", False)
    state.promise_no_more(job.name)
    lend_no_more(state, live)
    before = live.units[0]
    withdraw(state, before)
    if job.data != live.job.data:
        state.stages.read_otherwise(job, state.jobs)
    live.note(state.log)
    state.log.set(live, "job", job)
    unit = Live.submitted(job, kind).units[0]
    unit.departure = before.departure
    live.units = [unit]
    state.stages.submit(unit)
    requeue(state, unit)
    offer_idle_cells(state, live)
    state.waiting.touch((("stopped", job.name),))
    report_if_parked(state, live)
    reject_if_impossible(state, live)
