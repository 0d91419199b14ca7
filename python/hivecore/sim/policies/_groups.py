"""Jobs as affinity groups: all policies place them alike, in cells of node clusters."""

import copy
from collections.abc import Sequence

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec, Member
from hivecore.sim.workload import CHAIN, FANOUTS, GPUS_PER_NODE, LEVELS, NODE, Workload

__all__ = ["JobGroups", "node_cluster"]


def node_cluster(owners: Sequence[str], nodes: Sequence[int]) -> CellCluster:
    """A cluster of as many nodes as the owners have together."""
    owned = {name: {CHAIN: {LEVELS[-1]: n}} for name, n in zip(owners, nodes, strict=True)}
    chain = Chain(levels=LEVELS, fanouts=FANOUTS, roots=sum(nodes))
    return CellCluster(ClusterSpec(chains={CHAIN: chain}, virtual_clusters=owned))


class JobGroups:
    """The groups of a workload's jobs.

    :param clusters: per tenant the one that its jobs run on.
    :param owners: per tenant the virtual cluster there that its jobs are in.
    """

    __copy__ = copy.deepcopy  # a shallow copy would share the clusters

    def __init__(
        self, work: Workload, clusters: Sequence[CellCluster], owners: Sequence[str]
    ) -> None:
        self.clusters = clusters
        self._distinct = list({id(cluster): cluster for cluster in clusters}.values())
        self._tenant = work.trace.tenant.tolist()
        shapes = zip(work.cells.tolist(), work.level.tolist(), strict=True)
        # A node and a GPU are the cell that they are in any case.
        self._groups = [
            AffinityGroup(
                str(job),
                owners[tenant],
                [Member(cells, 1 << (level - 1), LEVELS[level - 1] if 1 < level < NODE else None)],
            )
            for job, (tenant, (cells, level)) in enumerate(zip(self._tenant, shapes, strict=True))
        ]

    def try_start(self, job: int) -> bool:
        """Start the job where nobody has to give way."""
        cluster = self.clusters[self._tenant[job]]
        decision = cluster.schedule(self._groups[job])
        if decision.outcome != "bind":
            return False
        cluster.commit(decision)
        return True

    def finish(self, job: int) -> None:
        """Give the job's cells back."""
        self.clusters[self._tenant[job]].release(self._groups[job].name)

    def free_gpus(self) -> tuple[int, int]:
        """Return the free GPUs of all clusters, and those of them not in wholly free nodes."""
        free = stranded = 0
        for cluster in self._distinct:
            idle = cluster.idle_leaves(CHAIN)
            free += int(idle.sum())
            stranded += int(idle[idle < GPUS_PER_NODE].sum())
        return free, stranded
