"""Quota: tenants share all nodes, and each may hold as many GPUs as it owns, wherever they are.

The scheme of YARN, Kubernetes and most batch schedulers. Its placement is that of the other
policies (the most used node that serves), and yet it breaks promises. A quota counts GPUs, not
nodes: one tenant's small jobs may still be running on every node when another tenant asks for a
node that it owns.
"""

from hivecore.sim.policies._groups import JobGroups, node_cluster
from hivecore.sim.workload import GPUS_PER_NODE, Workload

__all__ = ["Quota"]

_EVERYBODY = "everybody"


class Quota(JobGroups):
    """One cluster that everybody owns together, and a count of GPUs for each tenant.

    >>> from hivecore.sim import Workload
    >>> from hivecore.traces import Trace
    >>> trace = Trace.from_columns(["a", "b"], ["x", "y"], [0, 0], [60, 60], [1, 8])
    >>> policy = Quota(Workload.of(trace, {"x": 1, "y": 1}))
    >>> policy.try_start(0), policy.try_start(1), policy.free_gpus()
    (True, True, (7, 7))
    """

    shared = True

    def __init__(self, work: Workload) -> None:
        cluster, tenants = node_cluster([_EVERYBODY], [sum(work.nodes)]), len(work.nodes)
        super().__init__(work, [cluster] * tenants, [_EVERYBODY] * tenants)
        self._left = [GPUS_PER_NODE * nodes for nodes in work.nodes]
        self._held = work.held.tolist()

    def try_start(self, job: int) -> bool:
        """Start the job if its tenant's quota and the nodes have room for it."""
        tenant, held = self._tenant[job], self._held[job]
        if held > self._left[tenant] or not super().try_start(job):
            return False
        self._left[tenant] -= held
        return True

    def finish(self, job: int) -> None:
        """Give the job's cells back to the cluster and its GPUs to its tenant's quota."""
        super().finish(job)
        self._left[self._tenant[job]] += self._held[job]
