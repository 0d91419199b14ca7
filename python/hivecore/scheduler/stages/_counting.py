"""What stages count by node: an upper bound of what fits, whatever the stages choose.

A pod that needs x units needs x idle units of one node. Of a node with f idle units, pods of
x1, x2, ... units fit together only if floor(x1 / g) + floor(x2 / g) + ... <= floor(f / g), for
every g. So for every g the sum over the pods is at most the sum over the nodes: else they do not
fit.
"""

from collections.abc import Callable
from typing import NamedTuple

from hivecore.cells import CellCluster
from hivecore.devices import DeviceCluster, DeviceRequest
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Role
from hivecore.scheduler.stages._cell_nodes import chain_nodes
from hivecore.topology import NetworkTopology

__all__ = ["Dimension", "cell_domains", "count_cells", "count_devices", "network_domains"]

_Domains = dict[str, tuple[str, ...]]
_ONE_GPU = DeviceRequest("any", gpus=1)
_MOST = 2**31 - 1


class Dimension(NamedTuple):
    """A resource of nodes."""

    #: by node, the idle units
    idle: dict[str, int]
    #: the units that a pod of a role needs of its node, at least
    need: Callable[[Role], int]
    #: the units that are idle again, at most, when a pod leaves that needs none; None: none
    held: Callable[[PlacedPod], int] | None = None


def count_cells(cells: CellCluster) -> Dimension:
    """The GPUs of nodes that no job uses."""
    idle: dict[str, int] = {}
    for name in cells.spec.chains:
        leaves = cells.idle_leaves(name).tolist()
        for node, count in zip(chain_nodes(cells, name), leaves, strict=True):
            idle[node] = idle.get(node, 0) + count
    return Dimension(idle, lambda role: role.gpus)


def count_devices(devices: DeviceCluster) -> Dimension:
    """The healthy GPUs of which no pod has a share."""
    idle = devices.capacity(_ONE_GPU, _MOST).tolist()
    return Dimension(dict(zip(devices.nodes, idle, strict=True)), _whole_gpus, _gpus)


def _gpus(pod: PlacedPod) -> int:
    return len(pod.gpus)


def _whole_gpus(role: Role) -> int:
    """The GPUs that a pod of a role does not share; 0 as well if it takes all of its node."""
    need = None if role.devices is None else role.devices.need("gpu")
    return 0 if need is not None and (need.shared or need.every) else role.gpus


def network_domains(network: NetworkTopology, layer: str) -> _Domains:
    """The nodes of each domain of a layer; a name that is not unique follows its outer domains."""
    if layer not in network.layers:
        return {}
    level = network.layers.index(layer) + 1
    paths = [(network.domain(nodes[0])[:level], nodes) for nodes in network.domains(layer)]
    names = [path[-1] for path, _ in paths]
    return {
        path[-1] if names.count(path[-1]) == 1 else "/".join(path): nodes for path, nodes in paths
    }


def cell_domains(
    cells: CellCluster, leaf_type: str, within: str, level: Callable[[str], _Domains]
) -> list[tuple[str, ...]]:
    """The nodes of each chain, or of each cell of a level, that may hold a job; none: any nodes.

    :param level: gives the cells of a level by name.
    """
    chains = cells.spec.chains
    if not leaf_type and len(chains) == 1:
        if not within:
            return []
        leaf_type = next(iter(chains.values())).levels[0]
    mine = [name for name, of in chains.items() if not leaf_type or of.levels[0] == leaf_type]
    if not within:
        return [chain_nodes(cells, name) for name in mine]
    by_name = level(within)
    found = [nodes for cell, nodes in by_name.items() if cell.rpartition("/")[0] in mine]
    # A level below nodes: a node holds all of it.
    return found or [(node,) for name in mine for node in chain_nodes(cells, name)]
