"""`cluster.cells`: chains of cells, or HiveD's file, and what tenants are promised of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.cells.affinity_group import Evictions
from hivecore.interop.hived import ConfigError, HivedConfig
from hivecore.interop.hived.configuration._yaml_text import read_yaml
from hivecore.interop.hived.configuration.problems import Place, Problems
from hivecore.interop.kubernetes.messages import show
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
    """The cells with who owns which; None: there is a mistake.

    :param tenants: by name the fields of `tenants`.
    :param evictions: as of `CellCluster`.
    """
    before = len(reader.found)
    if isinstance(value, Mapping) and isinstance(value.get("hived"), str):
        reader.keys(value, place, ("hived",))
        spec = _of_hived(value["hived"], (place, "hived"), tenants, reader)
    else:
        spec = _of_chains(value, place, tenants, reader)
    if spec is None or not reader.is_sound:
        return None
    if nodes:
        _check_nodes(spec, place, nodes, reader)
    if len(reader.found) > before:
        return None
    return reader.made((None, "tenants"), lambda: CellCluster(spec, evictions=evictions))


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
    return replace(spec, virtual_clusters={**nothing, **spec.virtual_clusters})


def _of_chains(
    value: Any, place: Place, tenants: Mapping[str, Mapping[str, Any]], reader: Reader
) -> ClusterSpec | None:
    chains: dict[str, Chain] = {}
    for name, entry, at in reader.named(value, place):
        chain = _chain(entry, at, reader)
        if chain is not None:
            chains[name] = chain
    if not reader.is_sound:
        return None
    owned, pinned = {}, {}
    for name, fields in tenants.items():
        at = (None, "tenants"), name
        owned[name] = _owned(fields.get("cells"), (at, "cells"), chains, reader)
        pins = _pins(fields.get("pinned_cells"), (at, "pinned_cells"), reader)
        if pins:
            pinned[name] = pins
    return reader.made(place, lambda: ClusterSpec(chains, owned, pinned))


def _chain(value: Any, place: Place, reader: Reader) -> Chain | None:
    fields = reader.keys(value, place, _OF_CHAIN)
    before = len(reader.found)
    levels = [
        reader.name(one, ((place, "levels"), i)) or f"level {i}"
        for i, one in enumerate(reader.items(fields.get("levels"), (place, "levels")))
    ]
    fanouts = [
        reader.count(one, ((place, "fanouts"), i)) or 1
        for i, one in enumerate(reader.items(fields.get("fanouts"), (place, "fanouts")))
    ]
    if not levels:
        reader.add((place, "levels"), "is missing: names of levels, such as [gpu, node, rack]")
    node_level = reader.text(fields.get("node_level"), (place, "node_level")) or None
    hosts = fields.get("nodes")
    nodes = None if hosts is None else reader.hosts(hosts, (place, "nodes"))
    roots = fields.get("roots")
    number = None if roots is None else reader.count(roots, (place, "roots"))
    if roots is None and nodes is None:
        reader.add(place, "must have nodes or roots, which say how large it is")
    if len(reader.found) > before:
        return None
    one = reader.made(place, lambda: Chain(levels, fanouts, 1, node_level))
    if one is None:
        return None
    if number is None and nodes is not None:
        per_root = one.leaves // one.leaves_per_cell()[levels.index(str(one.node_level))]
        number, left = divmod(len(nodes), per_root)
        if left or not number:
            at = place, "nodes"
            reader.add(at, f"has {len(nodes)} nodes, and a {levels[-1]} has {per_root} of them")
            return None
    return reader.made(place, lambda: Chain(levels, fanouts, number or 1, node_level, nodes))


def _owned(
    value: Any, place: Place, chains: Mapping[str, Chain], reader: Reader
) -> dict[str, dict[str, int]]:
    owned: dict[str, dict[str, int]] = {}
    for chain, entry, at in reader.named(value, place):
        if chain not in chains:
            known = ", ".join(chains)
            reader.add(at, f"there is no chain {show(chain)}, there are {known}")
            continue
        owned[chain] = {}
        for level, number, where in reader.named(entry, at):
            count = reader.count(number, where, low=0)
            if level not in chains[chain].levels:
                known = ", ".join(chains[chain].levels)
                reader.add(where, f"the chain has no level {show(level)}, it has {known}")
            elif count is not None:
                owned[chain][level] = count
    return owned


def _pins(value: Any, place: Place, reader: Reader) -> dict[str, tuple[str, str, int]]:
    found = {}
    for name, entry, at in reader.named(value, place):
        fields = reader.keys(entry, at, _OF_PIN)
        chain = reader.name(fields.get("chain"), (at, "chain"))
        level = reader.name(fields.get("level"), (at, "level"))
        index = reader.count(fields.get("index"), (at, "index"), low=0)
        if chain is not None and level is not None and index is not None:
            found[name] = chain, level, index
    return found


def _check_nodes(
    spec: ClusterSpec, place: Place, nodes: Mapping[str, Node], reader: Reader
) -> None:
    """What `cluster.nodes` and the cells say of a node is the same."""
    gpus: dict[str, int] = {}
    for name, chain in spec.chains.items():
        if chain.nodes is None:
            reader.add((place, name), "nodes is missing: which of cluster.nodes are these?")
            return
        per_node = chain.leaves // len(chain.nodes)
        for node in chain.nodes:
            gpus[node] = gpus.get(node, 0) + per_node
    for node, count in gpus.items():
        if node not in nodes:
            reader.add(place, f"there is no node {show(node)} in cluster.nodes")
            return
        if nodes[node].gpus != count:
            has = nodes[node].gpus
            reader.add(place, f"the node {show(node)} has {count} GPUs here, its model has {has}")
            return
    for node in nodes:
        if node not in gpus:
            reader.add(place, f"the node {show(node)} of cluster.nodes is in no chain")
            return
