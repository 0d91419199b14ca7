"""The layers that a ClusterNetworkTopology names, and the labels of nodes in them."""

from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._arguments import as_mapping, as_name
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.topology import NetworkTopology

__all__ = [
    "CLUSTER",
    "NODE",
    "read_cluster_network_topology",
    "write_cluster_network_topology",
]

CLUSTER = "ClusterTopologyLayer"
NODE = "NodeTopologyLayer"
_KIND = "ClusterNetworkTopology"


def read_cluster_network_topology(
    record: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]]
) -> NetworkTopology:
    """The network of a cluster, without slots; its layers are called as the object calls them.

    :param record: the object of kind ClusterNetworkTopology as plain data.
    :param nodes: the objects of kind Node.
    :raises ValueError: layers are there twice, are none, or are no chain; a node has no name or is
        there twice; there is none. The message names the object and has the path.
    :raises TypeError: something is of a wrong type.

    Of several label keys of a layer the first one that a node has counts. Blocks of one name in two
    spines are two blocks, where Koordinator merges them. Source: Koordinator,
    ``pkg/scheduler/frameworkext/networktopology/tree.go``.

    >>> from hivecore.interop.koordinator import read_cluster_network_topology
    >>> layers = [{"topologyLayer": "BlockLayer", "labelKey": ["example.com/block"]}]
    >>> record = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": layers}}
    >>> node = {"metadata": {"name": "n1", "labels": {"example.com/block": "b1"}}}
    >>> network = read_cluster_network_topology(record, [node])
    >>> network.layers, network.domain("n1")
    (('BlockLayer',), ('b1', 'n1'))
    """
    document = Field(as_mapping(record, "record"))
    with named_object(document, _KIND):
        keys = _chain(document["spec"]["networkTopologySpec"])
    found: dict[str, dict[str, str]] = {}
    for node in Field(list(nodes), "nodes").entries():
        name = node["metadata"]["name"].name()
        if name in found:
            raise node.error(f"node {name!r} is there twice")
        labels = node["metadata"]["labels"].texts()
        found[name] = {
            layer: next(labels[key] for key in some if labels.get(key))
            for layer, some in keys.items()
            if any(labels.get(key) for key in some)
        }
    return NetworkTopology(list(keys), found)


def _chain(layers: Field) -> dict[str, list[str]]:
    """The label keys of each layer, from wide to narrow."""
    parents: dict[str, str] = {}
    keys: dict[str, list[str]] = {}
    for entry in layers.entries():
        layer = entry["topologyLayer"].name()
        if layer in parents:
            raise entry["topologyLayer"].error(f"{layer!r} is there twice")
        if layer == "node":
            raise entry["topologyLayer"].error("'node' is the name of the nodes' own layer")
        parents[layer] = entry["parentTopologyLayer"].text() or CLUSTER
        keys[layer] = [key.name() for key in entry["labelKey"].entries()]
    chain: list[str] = []
    above = CLUSTER
    for _ in parents:
        below = [layer for layer, parent in parents.items() if parent == above]
        if len(below) != 1:
            which = ", ".join(below) or "no layer"
            raise layers.error(f"below {above} is {which}; layers must be one chain")
        above = below[0]
        chain.append(above)
    if NODE in chain[:-1]:
        raise layers.error(f"there is a layer below {NODE}")
    return {layer: keys[layer] for layer in chain if layer not in (CLUSTER, NODE)}


def write_cluster_network_topology(
    network: NetworkTopology, keys: Mapping[str, str], name: str = "default"
) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """A network as an object of kind ClusterNetworkTopology, and the labels of nodes for it.

    :param network: any.
    :param keys: the label key of each of its layers.
    :param name: of the object; Koordinator reads the one called "default".
    :raises ValueError: a layer has no key, or two have the same one.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.koordinator import write_cluster_network_topology
    >>> from hivecore.topology import NetworkTopology
    >>> network = NetworkTopology(["Rack"], {"n1": {"Rack": "r1"}})
    >>> write_cluster_network_topology(network, {"Rack": "example.com/rack"})[1]
    {'n1': {'example.com/rack': 'r1'}}
    """
    if not isinstance(network, NetworkTopology):
        raise TypeError(f"network must be a NetworkTopology, not {type(network).__name__}")
    given = as_mapping(keys, "keys")
    missing = [layer for layer in network.layers if layer not in given]
    if missing:
        raise ValueError(f"keys: layer {missing[0]!r} has none")
    label = {layer: as_name(given[layer], f"keys[{layer!r}]") for layer in network.layers}
    if len(set(label.values())) != len(label):
        raise ValueError("keys: two layers have the same one")
    spec: list[dict[str, Any]] = []
    for layer, parent in zip(network.layers, ("", *network.layers), strict=False):
        above = {"parentTopologyLayer": parent} if parent else {}
        spec.append({"topologyLayer": layer, **above, "labelKey": [label[layer]]})
    last = {"parentTopologyLayer": network.layers[-1]} if network.layers else {}
    spec.append({"topologyLayer": NODE, **last})
    record = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": _KIND,
        "metadata": {"name": as_name(name, "name")},
        "spec": {"networkTopologySpec": spec},
    }
    labels = {
        node: {label[layer]: domain for layer, domain in network.labels(node).items()}
        for node in network.nodes
    }
    return record, labels
