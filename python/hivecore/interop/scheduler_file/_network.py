"""`cluster.network`: the domains of nodes, listed here or in another file."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hivecore.interop.koordinator import read_network_topology
from hivecore.interop.kubernetes.documents import objects_of
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.problems import Place
from hivecore.interop.kueue import read_topology
from hivecore.interop.scheduler_file._nodes import Node
from hivecore.interop.scheduler_file._reader import Reader
from hivecore.interop.slurm import read_topology_conf, read_topology_yaml
from hivecore.topology import NetworkTopology

__all__ = ["read_network"]

_YAML = (".yaml", ".yml", ".json")
_WAYS = ("layers", "slurm", "kueue", "koordinator")


def read_network(
    value: Any, place: Place, nodes: Mapping[str, Node], reader: Reader
) -> NetworkTopology | None:
    """Return the network with its free resources; None if there is none, or after a mistake."""
    fields = reader.keys(value, place, (*_WAYS, "topology"))
    ways = [way for way in _WAYS if way in fields]
    if len(ways) != 1:
        reader.add(place, f"must have exactly one of {', '.join(_WAYS)}")
        return None
    (way,) = ways
    at: Place = (place, way)
    if "topology" in fields and way != "slurm":
        reader.add((place, "topology"), "is for slurm only")
    if way == "layers":
        network = _of_layers(fields[way], at, nodes, reader)
    else:
        name = reader.text(fields.get("topology"), (place, "topology")) or ""
        network = _of_file(way, fields[way], at, name, nodes, reader)
    if network is not None and not network.nodes and reader.knows_nodes:
        reader.add(at, "nodes: there is none")
    if network is None or not reader.knows_nodes or not _agree(network, at, nodes, reader):
        return None
    for node in network.nodes:
        network.set_free(node, nodes[node].amounts)
    return network


def _agree(
    network: NetworkTopology, place: Place, nodes: Mapping[str, Node], reader: Reader
) -> bool:
    """Whether the network and `cluster.nodes` have the same nodes."""
    for missing, where in (
        (set(network.nodes) - set(nodes), "cluster.nodes"),
        (set(nodes) - set(network.nodes), "the network"),
    ):
        if missing:
            reader.add(place, f"{_some(missing)} not in {where}")
    return set(network.nodes) == set(nodes)


def _some(names: set[str]) -> str:
    first = show(min(names))
    if len(names) == 1:
        return f"the node {first} is"
    return f"the node {first} and {len(names) - 1} more are"


def _of_layers(
    value: Any, place: Place, nodes: Mapping[str, Node], reader: Reader
) -> NetworkTopology | None:
    labels: dict[str, dict[str, str]] = {node: {} for node in nodes}
    before, layers, wider = len(reader.found), [], 0
    for layer, entry, at in reader.named(value, place):
        layers.append(layer)
        if isinstance(entry, Mapping):
            _of_domains(layer, entry, at, labels, reader)
            wider = 0
            continue
        size = reader.count(entry, at)
        if size is None:
            continue
        if wider % size:
            reader.add(at, f"must be a divisor of the layer above, {wider}, not {size}")
        wider = size
        for number, node in enumerate(nodes):
            labels[node][layer] = f"{layer}{number // size}"
        if len(reader.found) == before and reader.knows_nodes:
            _check_counted(layers, labels, at, reader)
    if len(reader.found) > before or not reader.knows_nodes:
        return None
    return reader.build(place, lambda: NetworkTopology(layers, labels))


def _check_counted(
    layers: Sequence[str], labels: Mapping[str, dict[str, str]], place: Place, reader: Reader
) -> None:
    """Check that so many nodes in turn are within a domain of the layer above, which has names."""
    *above, layer = layers
    first: dict[str, tuple[str, list[str]]] = {}
    for node, of in labels.items():
        other, around = first.setdefault(of[layer], (node, [of[wide] for wide in above]))
        if around != [of[wide] for wide in above]:
            what = f"{show(other)} and {show(node)}, which {show(of[layer])} has, are in different"
            reader.add(place, f"the nodes {what} domains of {above[-1]}")
            return


def _of_domains(
    layer: str,
    value: Mapping[str, Any],
    place: Place,
    labels: Mapping[str, dict[str, str]],
    reader: Reader,
) -> None:
    for domain, pattern, at in reader.named(value, place):
        for node in reader.hosts(pattern, at):
            if node not in labels:
                if reader.knows_nodes:
                    reader.add(at, f"there is no node {show(node)} in cluster.nodes")
            elif layer in labels[node]:
                other = show(labels[node][layer])
                reader.add(at, f"the node {show(node)} is in {other} already")
            else:
                labels[node][layer] = domain
    left = {node for node, mine in labels.items() if layer not in mine}
    if left:
        reader.add(place, f"{_some(left)} in no {layer}")


def _of_file(
    way: str, value: Any, place: Place, name: str, nodes: Mapping[str, Node], reader: Reader
) -> NetworkTopology | None:
    opened = reader.file(value, place)
    if opened is None:
        return None
    path, text = opened
    try:
        if way == "slurm":
            return _of_slurm(path, text, name, nodes)
        return _of_objects(way, text, path.name)
    except (TypeError, ValueError) as error:
        reader.add(place, f"{path}: {error}")
        return None


def _of_slurm(path: Path, text: str, name: str, nodes: Mapping[str, Node]) -> NetworkTopology:
    def warn(odd: str) -> None:
        warnings.warn(f"{path}: {odd}", stacklevel=2)

    def include(other: str) -> str:
        try:
            return (path.parent / other).read_text("utf-8")
        except OSError as error:
            raise ValueError(f"{path.parent / other}: {error.strerror}") from None

    if path.suffix not in _YAML:
        if name:
            raise ValueError("has but one topology: `topology` is for topology.yaml")
        return read_topology_conf(text, include=include, warn=warn).network
    topologies = read_topology_yaml(text, nodes=nodes, warn=warn)
    for topology in topologies:
        if topology.name == name or (
            not name and (topology.cluster_default or len(topologies) == 1)
        ):
            return topology.network
    known = ", ".join(topology.name for topology in topologies)
    if name:
        raise ValueError(f"there is no topology {show(name)}, there are {known}")
    raise ValueError(f"which topology is meant? There are {known}; say it as `topology`")


def _of_objects(way: str, text: str, name: str) -> NetworkTopology:
    objects = objects_of(text, name)
    by_kind: dict[str, list[Any]] = {}
    for document in objects:
        by_kind.setdefault(document["kind"].text(), []).append(document.value)
    kind = "Topology" if way == "kueue" else "ClusterNetworkTopology"
    meant = by_kind.get(kind, [])
    if len(meant) != 1:
        raise ValueError(f"must have one object of kind {kind}, not {len(meant)}")
    nodes = by_kind.get("Node", [])
    if way == "koordinator":
        return read_network_topology(meant[0], nodes)
    flavors = by_kind.get("ResourceFlavor", [])
    if len(flavors) > 1:
        raise ValueError(f"must have one object of kind ResourceFlavor, not {len(flavors)}")
    return read_topology(meant[0], nodes, flavor=flavors[0] if flavors else None).network
