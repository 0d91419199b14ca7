"""`cluster.cells`: chains of cells or HiveD's file, and the tenants' cells."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from hivecore._stateful import counted
from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.cells.affinity_group import Evictions
from hivecore.interop.hived import ConfigError, HivedConfig
from hivecore.interop.hived.configuration._yaml_text import read_yaml
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.problems import Place, Problems
from hivecore.interop.scheduler_file._nodes import Node
from hivecore.interop.scheduler_file._reader import Reader

__all__ = ["read_cells"]

_OF_CHAIN = ("levels", "fanouts", "roots", "node_level", "nodes")
_OF_PIN = ("chain", "level", "index")


def read_cells(
    value: Any,
    place: Place,
    nodes: Mapping[str, Node],
    tenants: Mapping[str, Mapping[str, Any]],
    evictions: Evictions,
    reader: Reader,
) -> CellCluster | None:
    """Return the cells and their owners; None after a mistake.

    :param tenants: name -> its fields in `tenants`.
    :param evictions: as in `CellCluster`.
    """
    if isinstance(value, Mapping) and isinstance(value.get("hived"), str):
        reader.keys(value, place, ("hived",))
        spec = _of_hived(value["hived"], (place, "hived"), tenants, reader)
    else:
        spec = _of_chains(value, place, tenants, reader)
    if spec is None:
        return None
    if nodes and reader.knows_nodes:
        _check_nodes(spec, place, nodes, reader)
    return _cluster(spec, evictions, reader)


def _cluster(spec: ClusterSpec, evictions: Evictions, reader: Reader) -> CellCluster | None:
    """Return the cells; None, with a mistake for each chain that has too few."""
    before, at = reader.mistakes, (None, "tenants")
    if len(spec.chains) > 1:
        for chain in spec.chains:
            reader.build(at, lambda: CellCluster(_alone(spec, chain), evictions=evictions))  # noqa: B023
    if reader.mistakes > before:
        return None
    return reader.build(at, lambda: CellCluster(spec, evictions=evictions))


def _alone(spec: ClusterSpec, chain: str) -> ClusterSpec:
    """Return a single chain, with what tenants own of it."""
    owned = {
        name: {key: counts for key, counts in chains.items() if key == chain}
        for name, chains in spec.virtual_clusters.items()
    }
    pinned = {
        name: {key: pin for key, pin in pins.items() if pin[0] == chain}
        for name, pins in spec.pinned_cells.items()
    }
    return ClusterSpec({chain: spec.chains[chain]}, owned, pinned)


def _of_hived(
    value: Any, place: Place, tenants: Mapping[str, Mapping[str, Any]], reader: Reader
) -> ClusterSpec | None:
    for name, fields in tenants.items():
        for key in ("cells", "pinned_cells"):
            if key in fields:
                at = ((None, "tenants"), name), key
                reader.add(at, "is what virtualClusters of HiveD's file says")
    opened = reader.file(value, place)
    if opened is None:
        return None
    path, text = opened
    problems = Problems()
    document = read_yaml(text, problems)
    try:
        problems.raise_if_any()
        config = HivedConfig.read({} if document is None else document)
    except ConfigError as error:
        reader.add_elsewhere(error, text, path)
        return None
    reader.remarks += [f"{path}: {at}: {remark}" for at, remark in config.remarks]
    nothing: dict[str, dict[str, dict[str, int]]] = {name: {} for name in tenants}
    spec = config.spec
    return spec.replace(virtual_clusters={**nothing, **spec.virtual_clusters})


def _of_chains(
    value: Any, place: Place, tenants: Mapping[str, Mapping[str, Any]], reader: Reader
) -> ClusterSpec | None:
    before = reader.mistakes
    chains: dict[str, Chain | None] = {
        name: _chain(entry, at, reader) for name, entry, at in reader.named(value, place)
    }
    owned, pinned = {}, {}
    for name, fields in tenants.items():
        at = (None, "tenants"), name
        owned[name] = _owned(fields.get("cells"), (at, "cells"), chains, reader)
        pins = _pins(fields.get("pinned_cells"), (at, "pinned_cells"), reader)
        if pins:
            pinned[name] = pins
    if reader.mistakes > before:
        return None
    known = _numbered({name: chain for name, chain in chains.items() if chain is not None})
    return reader.build(place, lambda: ClusterSpec(known, owned, pinned))


def _numbered(chains: Mapping[str, Chain]) -> dict[str, Chain]:
    """Return the chains; each takes the GPUs of a node that those before it do not have."""
    taken, numbered = Counter[str](), {}
    for name, chain in chains.items():
        nodes = chain.nodes or ()
        per_node = chain.leaves // max(len(nodes), 1)
        if any(node in taken for node in nodes):
            rows = [range(taken[node], taken[node] + per_node) for node in nodes]
            chain = chain.replace(leaf_indices=rows)
        numbered[name] = chain
        taken.update(dict.fromkeys(nodes, per_node))
    return numbered


def _chain(value: Any, place: Place, reader: Reader) -> Chain | None:
    fields = reader.keys(value, place, _OF_CHAIN)
    before = len(reader.found)
    levels = [
        reader.name(level, ((place, "levels"), i)) or f"level {i}"
        for i, level in enumerate(reader.items(fields.get("levels"), (place, "levels")))
    ]
    fanouts = [
        reader.count(fanout, ((place, "fanouts"), i)) or 1
        for i, fanout in enumerate(reader.items(fields.get("fanouts"), (place, "fanouts")))
    ]
    if not levels:
        reader.add((place, "levels"), "is missing: names of levels, such as [gpu, node, rack]")
    node_level = reader.text(fields.get("node_level"), (place, "node_level")) or None
    hosts = fields.get("nodes")
    nodes = None if hosts is None else reader.hosts(hosts, (place, "nodes"))
    for node in [node for node, count in Counter(nodes).items() if count > 1]:
        reader.add((place, "nodes"), f"the node {show(node)} is there twice")
    roots = fields.get("roots")
    number = None if roots is None else reader.count(roots, (place, "roots"))
    if roots is None and nodes is None:
        reader.add(place, "must have nodes or roots, which say how large it is")
    if len(reader.found) > before:
        return None
    chain = reader.build(place, lambda: Chain(levels, fanouts, 1, node_level))
    if chain is None:
        return None
    if number is None and nodes is not None:
        per_root = chain.leaves // chain.leaves_per_cell()[levels.index(str(chain.node_level))]
        number, left = divmod(len(nodes), per_root)
        if left or not number:
            at = place, "nodes"
            reader.add(
                at, f"has {counted(len(nodes), 'node')}, and a {levels[-1]} has {per_root} of them"
            )
            return None
    return reader.build(place, lambda: Chain(levels, fanouts, number or 1, node_level, nodes))


def _owned(
    value: Any, place: Place, chains: Mapping[str, Chain | None], reader: Reader
) -> dict[str, dict[str, int]]:
    """Return a tenant's cells; cells of a chain with a mistake are only counted."""
    owned: dict[str, dict[str, int]] = {}
    for name, entry, at in reader.named(value, place):
        if name not in chains:
            known = ", ".join(chains)
            reader.add(at, f"there is no chain {show(name)}, there are {known}")
            continue
        owned[name] = {}
        chain = chains[name]
        for level, number, where in reader.named(entry, at):
            count = reader.count(number, where, low=0)
            if chain is not None and level not in chain.levels:
                known = ", ".join(chain.levels)
                reader.add(where, f"the chain has no level {show(level)}, it has {known}")
            elif count is not None:
                owned[name][level] = count
    return owned


def _pins(value: Any, place: Place, reader: Reader) -> dict[str, tuple[str, str, int]]:
    owned = {}
    for name, entry, at in reader.named(value, place):
        fields = reader.keys(entry, at, _OF_PIN)
        chain = reader.name(fields.get("chain"), (at, "chain"))
        level = reader.name(fields.get("level"), (at, "level"))
        index = reader.count(fields.get("index"), (at, "index"), low=0)
        if chain is not None and level is not None and index is not None:
            owned[name] = chain, level, index
    return owned


def _check_nodes(
    spec: ClusterSpec, place: Place, nodes: Mapping[str, Node], reader: Reader
) -> None:
    """Check that `cluster.nodes` and the cells agree about each node."""
    gpus: dict[str, int] = {}
    complete = True
    for name, chain in spec.chains.items():
        if chain.nodes is None:
            reader.add((place, name), "nodes is missing: which of cluster.nodes are these?")
            complete = False
            continue
        per_node = chain.leaves // len(chain.nodes)
        for node in chain.nodes:
            gpus[node] = gpus.get(node, 0) + per_node
    unknown = [node for node in gpus if node not in nodes]
    if unknown:
        reader.add(place, f"there is no node {_first(unknown)} in cluster.nodes")
    other = [node for node, count in gpus.items() if node in nodes and nodes[node].gpus != count]
    if other:
        has, here = nodes[other[0]].gpus, gpus[other[0]]
        rest = counted(len(other) - 1, "more node", unless_none=True)
        more = rest and f", and {rest} {'differs' if len(other) == 2 else 'differ'}"
        first = show(other[0])
        reader.add(
            place, f"the node {first} has {counted(here, 'GPU')} here, its model has {has}{more}"
        )
    left = [node for node in nodes if node not in gpus]
    if left and complete:
        reader.add(place, f"the node {_first(left)} of cluster.nodes is in no chain")


def _first(names: list[str]) -> str:
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return f"{show(names[0])}{more}"
