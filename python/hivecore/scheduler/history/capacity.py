"""The number of GPUs of a scheduler."""

from hivecore.scheduler.scheduler import Scheduler

__all__ = ["gpus_of"]


def gpus_of(scheduler: Scheduler) -> int:
    """The number of GPUs, in use or not; 0 if no part knows it.

    The first part that knows decides: devices, cells, a network, quotas.

    >>> from hivecore.cells import CellCluster, Chain, ClusterSpec
    >>> from hivecore.scheduler import Scheduler
    >>> spec = ClusterSpec({"c": Chain(["gpu", "node"], [8], 4)}, {})
    >>> gpus_of(Scheduler(cells=CellCluster(spec)))
    32
    """
    if scheduler.devices is not None:
        part = scheduler.devices
        return sum(len(part.inventory(node).of_type("gpu")) for node in part.nodes)
    if scheduler.cells is not None:
        return sum(chain.leaves for chain in scheduler.cells.spec.chains.values())
    if scheduler.topology is not None:
        network = scheduler.topology.copy()
        for name in network.owners:
            network.release(name)
        for node in network.unhealthy:
            network.set_health(node, True)
        return int(network.total_free("gpu"))
    if scheduler.quotas is not None:
        return int(scheduler.quotas.total().get("gpu", 0))
    return 0
