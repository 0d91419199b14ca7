"""The ways to share a cluster that a replay compares, each as a configured scheduler.

All have the same nodes, and jobs ask for the same cells. Each tenant has a queue, and only its head
may start.

private   each tenant alone on its nodes, as a chain of its own. The reference.
quota     tenants share all nodes, and each may hold as many GPUs as it owns, wherever they are, as
          in YARN, Kubernetes and most batch schedulers. Quotas count GPUs, not nodes: when a tenant
          asks for a whole node, small jobs of others may run on every node.
cells     tenants share all nodes, and each owns whole node cells, bound to nodes only while in use
          (HiveD, OSDI'20): what a tenant can start depends on its own cells alone.
lending   cells, and waiting jobs may run on idle ones.
backfill  as private, but jobs behind the head of the queue start if that does not delay it (EASY),
          with exact estimates. What lending gains beyond this comes from sharing; the rest from the
          order of jobs.
"""

from collections.abc import Mapping, Sequence

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Role, Scheduler, Sharing, StoragePool, Where
from hivecore.sim.workload import CHAIN, FANOUTS, GPUS_PER_NODE, LEVELS, NODE, Workload

__all__ = ["configure", "jobs_of"]


def configure(
    policy: str, work: Workload, sharing: Sharing | None = None, storage: StoragePool | None = None
) -> Scheduler:
    """Return a scheduler without jobs for a workload's tenants.

    :param policy: "private", "quota", "cells", "lending" or "backfill".
    :param sharing: with cells, how jobs share GPUs.
    :param storage: with cells, what jobs read from.
    """
    owned = dict(zip(work.trace.tenants, work.nodes, strict=True))
    # Among tenants, the job that came first is tried first.
    queues = TenantQueues(order="arrival", blocking="fifo")
    if policy == "private":
        return Scheduler(queues=queues, cells=_private(owned), immediate=True)
    if policy == "backfill":
        queues = TenantQueues(order="arrival")
        return Scheduler(queues=queues, cells=_private(owned), immediate=True, backfill=1)
    if policy == "quota":
        return Scheduler(
            queues=queues,
            quotas=_quotas(owned),
            cells=_shared(owned, dict.fromkeys(owned, 0)),
            preemption=False,
            immediate=True,
        )
    return Scheduler(
        queues=queues,
        cells=_shared(owned, owned),
        lending=policy == "lending",
        sharing=sharing,
        storage=storage,
        immediate=True,
    )


def _private(owned: Mapping[str, int]) -> CellCluster:
    chains = {f"{CHAIN} of {name}": _chain(nodes) for name, nodes in owned.items()}
    promised = {name: {f"{CHAIN} of {name}": {LEVELS[-1]: nodes}} for name, nodes in owned.items()}
    return CellCluster(ClusterSpec(chains=chains, virtual_clusters=promised))


def _shared(owned: Mapping[str, int], promised: Mapping[str, int]) -> CellCluster:
    """Return all nodes together, with the number of node cells that each tenant owns."""
    promises = {
        name: {CHAIN: {LEVELS[-1]: nodes}} if nodes else {} for name, nodes in promised.items()
    }
    chains = {CHAIN: _chain(sum(owned.values()))}
    # So jobs on idle cells do not change which nodes a tenant's own jobs get.
    return CellCluster(ClusterSpec(chains=chains, virtual_clusters=promises), evictions="private")


def _chain(nodes: int) -> Chain:
    return Chain(levels=LEVELS, fanouts=FANOUTS, roots=nodes)


def _quotas(owned: Mapping[str, int]) -> QuotaTree:
    amounts = {name: {"gpu": GPUS_PER_NODE * nodes} for name, nodes in owned.items()}
    quotas = [Quota(name, min=amount, max=amount) for name, amount in amounts.items()]
    return QuotaTree(quotas, total={"gpu": GPUS_PER_NODE * sum(owned.values())})


def jobs_of(work: Workload, policy: str) -> Sequence[Job]:
    """Return a workload's jobs, named by row; for "backfill" with run times.

    Under quotas no tenant owns cells, so all jobs are opportunistic.
    """
    names = work.trace.tenants
    guaranteed = policy != "quota"
    # Single nodes and GPUs are always inside a cell.
    where = [
        Where(within=name if 0 < level < NODE - 1 else "") for level, name in enumerate(LEVELS)
    ]
    alike: dict[tuple[int, tuple[int, int]], Job] = {}
    jobs = []
    shapes = zip(work.cells.tolist(), work.level.tolist(), strict=True)
    for row, kind in enumerate(zip(work.trace.tenant.tolist(), shapes, strict=True)):
        if kind not in alike:
            tenant, (pods, level) = kind
            roles = [Role("pod", pods, gpus=1 << (level - 1))]
            at = where[level - 1]
            alike[kind] = Job(str(row), names[tenant], roles, guaranteed=guaranteed, where=at)
        jobs.append(alike[kind].replace(name=str(row)))
    if policy == "backfill":
        times = work.trace.duration.tolist()
        jobs = [job.replace(run_time=time) for job, time in zip(jobs, times, strict=True)]
    return jobs
