"""A summary of a scheduler: jobs by tenant and state, queues, nodes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from hivecore._record import Record
from hivecore.scheduler.ledger.live import Live

__all__ = ["SchedulerSummary", "TenantSummary", "tenants_of"]

_COUNTS = "pending", "reserved", "lent", "running", "gpus"


class TenantSummary(Record, frozen=True):
    """The jobs of a tenant.

    :param pending: number of waiting jobs.
    :param reserved: number of jobs that start when their victims have stopped.
    :param lent: number of jobs on idle cells.
    :param running: number of other running jobs.
    :param gpus: GPUs of its pods, also of victims. Shared GPUs count once, for the tenant of the
        job that holds them.
    """

    tenant: str
    pending: int
    reserved: int
    lent: int
    running: int
    gpus: int


class SchedulerSummary(Record, frozen=True):
    """The jobs, queues and nodes at one time.

    :param now: the scheduler's time, in seconds.
    :param tenants: tenants with jobs, by name.
    :param queued: lengths of the queues that are not empty, by name: jobs, and pods that join
        running jobs.
    :param unhealthy: nodes that some part marks as unhealthy, sorted.
    :param draining: those of them that are drained, sorted.
    """

    now: float
    tenants: tuple[TenantSummary, ...]
    queued: tuple[tuple[str, int], ...]
    unhealthy: tuple[str, ...]
    draining: tuple[str, ...] = ()


def tenants_of(jobs: Iterable[Live], holds: Callable[[str], bool]) -> tuple[TenantSummary, ...]:
    """Summarize jobs by tenant; ``holds``: whether a job itself holds the GPUs that it uses."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for live in jobs:
        count = counts[live.job.tenant]
        if not live.extra_of:
            count[live.state] += 1
        if live.runs and holds(live.job.name):
            count["gpus"] += sum(unit.gpus for unit in live.placed)
    return tuple(
        TenantSummary(tenant, *[count[name] for name in _COUNTS])
        for tenant, count in sorted(counts.items())
    )
