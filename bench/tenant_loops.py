"""Policies of tenants as loops of their own, without a scheduler: what each job costs at least.

Each tenant has one FIFO queue, and only its head may start. Starts only take room, so that a head
that cannot start is tried again only after a completion of its own tenant, or of any tenant where
all share the nodes. A policy says whether a job starts now.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import Protocol

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec, Member
from hivecore.sim import Workload
from hivecore.sim.workload import CHAIN, FANOUTS, GPUS_PER_NODE, LEVELS, NODE

__all__ = ["Cells", "Policy", "Private", "Quota", "run"]

_EVERYBODY = "everybody"


class Policy(Protocol):
    """Jobs are the workload's rows."""

    #: whether a job that ends can make room for another tenant's job
    shared: bool

    def try_start(self, job: int) -> bool: ...

    def finish(self, job: int) -> None: ...


def run(work: Workload, policy: Policy) -> list[float]:
    """When each job starts."""
    submit = [*work.trace.submit.tolist(), inf]
    duration, tenant = work.trace.duration.tolist(), work.trace.tenant.tolist()
    queues: list[deque[int]] = [deque() for _ in work.nodes]
    running: list[tuple[float, int]] = []
    start = [inf] * len(duration)
    arrival = 0
    while running or submit[arrival] != inf:
        now = submit[arrival]
        if running and running[0][0] < now:
            now = running[0][0]
        woken = set()
        while running and running[0][0] == now:
            job = heappop(running)[1]
            policy.finish(job)
            woken.add(tenant[job])
        if woken and policy.shared:
            woken.update(range(len(queues)))
        while submit[arrival] == now:
            queue = queues[tenant[arrival]]
            queue.append(arrival)
            if len(queue) == 1:
                woken.add(tenant[arrival])
            arrival += 1
        heads = [queues[name][0] for name in woken if queues[name]]
        heapify(heads)
        while heads:
            job = heads[0]
            if not policy.try_start(job):
                heappop(heads)
                continue
            start[job] = now
            heappush(running, (now + duration[job], job))
            queue = queues[tenant[job]]
            queue.popleft()
            if queue:
                heapreplace(heads, queue[0])
            else:
                heappop(heads)
    assert inf not in start
    return start


def _node_cluster(owners: Sequence[str], nodes: Sequence[int]) -> CellCluster:
    owned = {name: {CHAIN: {LEVELS[-1]: n}} for name, n in zip(owners, nodes, strict=True)}
    chain = Chain(levels=LEVELS, fanouts=FANOUTS, roots=sum(nodes))
    return CellCluster(ClusterSpec(chains={CHAIN: chain}, virtual_clusters=owned))


class _JobGroups:
    def __init__(
        self, work: Workload, clusters: Sequence[CellCluster], owners: Sequence[str]
    ) -> None:
        self.clusters = clusters
        self.tenant = work.trace.tenant.tolist()
        shapes = zip(work.cells.tolist(), work.level.tolist(), strict=True)
        # A node and a GPU are the cell that they are in any case.
        self.groups = [
            AffinityGroup(
                str(job),
                owners[tenant],
                [Member(cells, 1 << (level - 1), LEVELS[level - 1] if 1 < level < NODE else None)],
            )
            for job, (tenant, (cells, level)) in enumerate(zip(self.tenant, shapes, strict=True))
        ]

    def try_start(self, job: int) -> bool:
        cluster = self.clusters[self.tenant[job]]
        decision = cluster.schedule(self.groups[job])
        if decision.outcome != "bind":
            return False
        cluster.commit(decision)
        return True

    def finish(self, job: int) -> None:
        self.clusters[self.tenant[job]].release(self.groups[job].name)


class Private(_JobGroups):
    """Each tenant alone on its nodes."""

    shared = False

    def __init__(self, work: Workload) -> None:
        names = work.trace.tenants
        owned = zip(names, work.nodes, strict=True)
        super().__init__(work, [_node_cluster([name], [nodes]) for name, nodes in owned], names)


class Cells(_JobGroups):
    """All nodes together; each tenant owns node cells."""

    shared = False

    def __init__(self, work: Workload) -> None:
        names = work.trace.tenants
        super().__init__(work, [_node_cluster(names, work.nodes)] * len(names), names)


class Quota(_JobGroups):
    """All nodes together; each tenant may hold as many GPUs as it owns."""

    shared = True

    def __init__(self, work: Workload) -> None:
        cluster, tenants = _node_cluster([_EVERYBODY], [sum(work.nodes)]), len(work.nodes)
        super().__init__(work, [cluster] * tenants, [_EVERYBODY] * tenants)
        self.left = [GPUS_PER_NODE * nodes for nodes in work.nodes]
        self.held = work.held.tolist()

    def try_start(self, job: int) -> bool:
        tenant, held = self.tenant[job], self.held[job]
        if held > self.left[tenant] or not super().try_start(job):
            return False
        self.left[tenant] -= held
        return True

    def finish(self, job: int) -> None:
        super().finish(job)
        self.left[self.tenant[job]] += self.held[job]
