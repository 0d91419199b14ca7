"""A summary of a scheduler: jobs by tenant and state, queues, nodes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from hivecore._record import Record
from hivecore.scheduler.ledger.live import Live

__all__ = ["SchedulerSummary", "TenantSummary", "tenants_of"]

_COUNTS = "pending", "reserved", "lent", "running", "gpus"


class TenantSummary(Record, frozen=True):
    """A tenant that has jobs.

    :param pending: the number of its jobs that wait.
    :param reserved: of those that start when their victims have stopped.
    :param lent: of those that run on idle cells while they wait for cells of the tenant.
    :param running: of the other running jobs.
    :param gpus: the GPUs of its pods, also of those that are to stop; shared GPUs count once, for
        the tenant of the job that holds them.
    """

    tenant: str
    pending: int
    reserved: int
    lent: int
    running: int
    gpus: int


class SchedulerSummary(Record, frozen=True):
    """The jobs, queues and nodes at one time.

    :param now: the latest time that the scheduler knows, in seconds.
    :param tenants: the tenants that have jobs, by name.
    :param queued: the length of each queue that is not empty, by name: jobs, and pods that
        join running jobs.
    :param unhealthy: the nodes that some part has marked as unhealthy, sorted.
    """

    now: float
    tenants: tuple[TenantSummary, ...]
    queued: tuple[tuple[str, int], ...]
    unhealthy: tuple[str, ...]


def tenants_of(jobs: Iterable[Live], holds: Callable[[str], bool]) -> tuple[TenantSummary, ...]:
    """The tenants of these jobs.

    :param holds: whether the job of a name holds its GPUs; else it shares those of another job.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for live in jobs:
        of = counts[live.job.tenant]
        if not live.extra_of:
            of[live.state] += 1
        if live.runs and holds(live.job.name):
            of["gpus"] += sum(unit.gpus for unit in live.placed)
    return tuple(
        TenantSummary(tenant, *[of[name] for name in _COUNTS])
        for tenant, of in sorted(counts.items())
    )
