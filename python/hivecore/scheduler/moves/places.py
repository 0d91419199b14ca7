"""The nodes that there are, and the groups that a layer of the network or of the cells makes."""

from hivecore.cells import CellCluster
from hivecore.scheduler.job import Job
from hivecore.scheduler.stages._cell_nodes import cells_of_level, chain_nodes
from hivecore.scheduler.stages.transaction import Stages
from hivecore.topology import NetworkTopology

__all__ = ["all_nodes", "domains", "places_for"]

_Domains = dict[str, tuple[str, ...]]


def all_nodes(stages: Stages) -> tuple[str, ...]:
    """Those that some part knows."""
    parts = [one.part.nodes for one in (stages.place, stages.devices) if one is not None]
    return tuple(dict.fromkeys(node for nodes in parts for node in nodes))


def domains(stages: Stages, layer: str) -> _Domains:
    """The nodes of each domain of a layer, by name; "node": each node alone.

    A domain of a network has its own name, or, if it shares that, those of the domains around it in
    front, joined by "/"; a cell is named after its chain and its number in it, as "H100/0".

    :raises KeyError: there is no such layer, or it is below nodes.
    """
    found: _Domains = {}
    if layer == "node":
        found = {node: (node,) for node in all_nodes(stages)}
    elif stages.place is not None:
        part = stages.place.part
        if isinstance(part, NetworkTopology):
            found = _of_network(part, layer) if layer in part.layers else {}
        else:
            found = dict(cells_of_level(part, layer))
    if not found:
        raise KeyError(f"layer={layer!r}: there are no such domains of nodes")
    return found


def _of_network(network: NetworkTopology, layer: str) -> _Domains:
    level = network.layers.index(layer) + 1
    paths = [(network.domain(nodes[0])[:level], nodes) for nodes in network.domains(layer)]
    names = [path[-1] for path, _ in paths]
    return {
        path[-1] if names.count(path[-1]) == 1 else "/".join(path): nodes for path, nodes in paths
    }


def places_for(stages: Stages, job: Job) -> tuple[frozenset[str], ...]:
    """The sets of nodes of which one has to hold what a job starts with; none: all together."""
    where, part = job.where, None if stages.place is None else stages.place.part
    groups: list[tuple[str, ...]] = []
    if isinstance(part, NetworkTopology) and where.must:
        groups = list(part.domains(where.must))
    elif isinstance(part, CellCluster):
        groups = _cells_for(part, job)
    if sum(map(len, groups)) > len({node for nodes in groups for node in nodes}):
        groups = []  # chains that share nodes are counted together
    if where.nodes:
        allowed = frozenset(where.nodes)
        return tuple(allowed.intersection(one) for one in groups) or (allowed,)
    return tuple(frozenset(one) for one in groups)


def _cells_for(cells: CellCluster, job: Job) -> list[tuple[str, ...]]:
    chains = cells.spec.chains
    kind = job.where.leaf_type
    if not kind and len(chains) == 1:
        kind = next(iter(chains.values())).levels[0]
        if not job.where.within:
            return []
    mine = [name for name, chain in chains.items() if not kind or chain.levels[0] == kind]
    if not job.where.within:
        return [chain_nodes(cells, name) for name in mine]
    found: list[tuple[str, ...]] = []
    for name in mine:
        by_name = dict(cells_of_level(cells, job.where.within))
        found += [nodes for cell, nodes in by_name.items() if cell.rpartition("/")[0] == name]
    # A level below nodes: all of it is on one of them.
    return found or [(node,) for name in mine for node in chain_nodes(cells, name)]
