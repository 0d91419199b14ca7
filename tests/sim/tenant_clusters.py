"""The ways to share a cluster of tenants, written again with `CellCluster` alone."""

from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec, Member
from hivecore.sim import Workload
from hivecore.sim.workload import CHAIN, FANOUTS, LEVELS, NODE
from hivecore.traces import Trace


def workload(jobs, nodes, dropped=None):
    """Jobs are (tenant, submit, duration, gpus)."""
    ids = [str(row) for row in range(len(jobs))]
    trace = Trace.from_columns(ids, *zip(*jobs, strict=True), dropped or {})
    return Workload.of(trace, nodes)


def node_cluster(owned):
    """A cluster of as many nodes as its owners have together."""
    promised = {name: {CHAIN: {"node": nodes}} for name, nodes in owned.items()}
    chain = Chain(levels=LEVELS, fanouts=FANOUTS, roots=sum(owned.values()))
    return CellCluster(ClusterSpec(chains={CHAIN: chain}, virtual_clusters=promised))


class TenantClusters:
    """Jobs of a workload as affinity groups, started and ended one by one."""

    def __init__(self, work, policy):
        names = work.trace.tenants
        owned = dict(zip(names, work.nodes, strict=True))
        if policy == "private":
            clusters = {name: node_cluster({name: nodes}) for name, nodes in owned.items()}
        elif policy == "quota":
            clusters = dict.fromkeys(names, node_cluster({"everybody": sum(work.nodes)}))
        else:
            clusters = dict.fromkeys(names, node_cluster(owned))
        self.left = {name: 8 * nodes for name, nodes in owned.items()}
        self.counts, self.held = policy == "quota", work.held.tolist()
        self.jobs = []
        for row, tenant in enumerate(work.trace.tenant.tolist()):
            level, name = int(work.level[row]), names[tenant]
            within = LEVELS[level - 1] if 1 < level < NODE else None
            members = [Member(int(work.cells[row]), 1 << (level - 1), within)]
            owner = "everybody" if policy == "quota" else name
            self.jobs.append((name, clusters[name], AffinityGroup(str(row), owner, members)))

    def try_start(self, row):
        name, cluster, group = self.jobs[row]
        if self.counts and self.held[row] > self.left[name]:
            return False
        decision = cluster.schedule(group)
        if decision.outcome != "bind":
            return False
        cluster.commit(decision)
        self.left[name] -= self.held[row]
        return True

    def finish(self, row):
        name, cluster, group = self.jobs[row]
        cluster.release(group.name)
        self.left[name] += self.held[row]
