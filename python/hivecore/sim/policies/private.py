"""Private clusters: each tenant alone on the nodes that it owns. The other policies' yardstick."""

from hivecore.sim.policies._groups import JobGroups, node_cluster
from hivecore.sim.workload import Workload

__all__ = ["Private"]


class Private(JobGroups):
    """One cluster per tenant.

    >>> from hivecore.sim import Workload
    >>> from hivecore.traces import Trace
    >>> trace = Trace.from_columns(["a", "b"], ["x", "x"], [0, 0], [60, 60], [8, 1])
    >>> policy = Private(Workload.of(trace, {"x": 1}))
    >>> policy.try_start(0), policy.try_start(1)
    (True, False)
    """

    shared = False

    def __init__(self, work: Workload) -> None:
        names = work.trace.tenants
        owned = zip(names, work.nodes, strict=True)
        super().__init__(work, [node_cluster([name], [nodes]) for name, nodes in owned], names)
