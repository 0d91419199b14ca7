"""The number of GPUs of a scheduler."""

from collections import Counter

from hivecore._thousandths import Amount
from hivecore.scheduler.scheduler import Scheduler
from hivecore.scheduler.stages.cells import chain_nodes

__all__ = ["gpus_by_node", "gpus_of"]


def gpus_of(scheduler: Scheduler) -> int:
    """The number of GPUs, in use or not; 0 if no part knows it.

    The first part that knows decides: devices, cells, a network, quotas.

    >>> from hivecore.cells import CellCluster, Chain, ClusterSpec
    >>> from hivecore.scheduler import Scheduler
    >>> spec = ClusterSpec({"c": Chain(["gpu", "node"], [8], 4)}, {})
    >>> gpus_of(Scheduler(cells=CellCluster(spec)))
    32
    """
    placing = scheduler.devices, scheduler.cells, scheduler.topology
    if scheduler.quotas is None or any(part is not None for part in placing):
        return int(sum(gpus_by_node(scheduler).values()))
    return int(scheduler.quotas.total().get("gpu", 0))


def gpus_by_node(scheduler: Scheduler) -> dict[str, Amount]:
    """The number of GPUs of each node, in use or not, as the first part says that has nodes."""
    if scheduler.devices is not None:
        part = scheduler.devices
        return {node: len(part.inventory(node).of_type("gpu")) for node in part.nodes}
    counts: Counter[str] = Counter()
    if scheduler.cells is not None:
        for name, chain in scheduler.cells.spec.chains.items():
            nodes = chain_nodes(scheduler.cells, name)
            for node in nodes:
                counts[node] += chain.leaves // len(nodes)
    if scheduler.topology is not None:
        network = scheduler.topology.copy()
        for name in network.owners:
            network.release(name)
        for node in network.unhealthy:
            network.set_health(node, True)
        return network.free_by_node("gpu")
    return {**counts}
