"""What there is at a glance: jobs by tenant and state, queues, nodes."""

from collections.abc import Callable, Iterable

from hivecore._record import Record
from hivecore.scheduler.ledger.live import Live

__all__ = ["SchedulerSummary", "TenantSummary", "tenants_of"]

_COUNTS = "pending", "reserved", "lent", "running", "gpus"


class TenantSummary(Record, frozen=True):
    """A tenant that has jobs.

    :param pending: how many of its jobs wait.
    :param reserved: how many start when others have stopped for them.
    :param lent: how many run on idle cells while they wait for the tenant's own.
    :param running: how many run otherwise.
    :param gpus: how many GPUs its pods have, also those that are to stop; what several jobs share
        counts once, for the tenant of the one that holds it.
    """

    tenant: str
    pending: int
    reserved: int
    lent: int
    running: int
    gpus: int


class SchedulerSummary(Record, frozen=True):
    """What there is at one time.

    :param now: the time that was told last, in seconds.
    :param tenants: those that have jobs, by name.
    :param queued: the length of each queue that is not empty, by name: jobs, and pods that are to
        join one that runs.
    :param unhealthy: the nodes that some part has marked so, sorted.
    """

    now: float
    tenants: tuple[TenantSummary, ...]
    queued: tuple[tuple[str, int], ...]
    unhealthy: tuple[str, ...]


def tenants_of(jobs: Iterable[Live], holds: Callable[[str], bool]) -> tuple[TenantSummary, ...]:
    """The tenants of these jobs.

    :param holds: whether a job of this name has what it runs on, or shares what another one has.
    """
    counts: dict[str, dict[str, int]] = {}
    for live in jobs:
        tenant = live.job.tenant
        of = counts.get(tenant)
        if of is None:
            of = counts[tenant] = dict.fromkeys(_COUNTS, 0)
        of[live.state] += 1
        if live.runs and holds(live.job.name):
            of["gpus"] += sum(unit.kind.gpus for unit in live.placed)
    return tuple(TenantSummary(tenant, **counts[tenant]) for tenant in sorted(counts))
