"""Reads and writes a ClusterNetworkTopology, which names the node labels that locate a node."""

from collections.abc import Mapping
from typing import Any

from hivecore._arguments import as_instance, as_mapping, as_name
from hivecore.interop.domain_names import distinct_names, paths_of
from hivecore.interop.koordinator.topology.names import (
    API_VERSION,
    CLUSTER_LAYER,
    DEFAULT_NAME,
    KIND,
    NODE_LAYER,
)
from hivecore.interop.kubernetes.documents import Objects, check_kind, named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.nodes import checked_label, labels_of_nodes
from hivecore.topology import NetworkTopology

__all__ = ["read_network_topology", "write_network_labels", "write_network_topology"]


def read_network_topology(topology: Mapping[str, Any], nodes: Objects) -> NetworkTopology:
    """Return the network of a ClusterNetworkTopology and the cluster's nodes.

    :param topology: the object as plain data.
    :param nodes: Node objects: one, several, a List, or YAML text.
    :raises ValueError: the layers are not a chain down to ``NodeTopologyLayer``, a layer above it
        has no label key, a layer or a node is listed twice, or there is no node. The message has
        the path.
    :raises TypeError: a field has a wrong type.
    :raises ImportError: PyYAML is needed to read text.

    If a layer has several label keys, the first that the node has counts. A node without a label
    for the layer directly above nodes is alone in a domain. A node without a label for a wider
    layer shares a domain there with the other nodes of its next narrower domain. (Koordinator
    leaves such nodes out.) Equal names in different parent domains are different domains, where
    Koordinator merges them. Cost: O(nodes x layers). Source: Koordinator,
    ``frameworkext/networktopology/tree.go``.

    >>> from hivecore.interop.koordinator import read_network_topology
    >>> layers = [
    ...     {"topologyLayer": "BlockLayer", "labelKey": ["example.com/block"]},
    ...     {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
    ... ]
    >>> node = {"metadata": {"name": "n1", "labels": {"example.com/block": "b1"}}}
    >>> network = read_network_topology({"spec": {"networkTopologySpec": layers}}, [node])
    >>> network.layers, network.domain("n1")
    (('BlockLayer',), ('b1', 'n1'))
    """
    field = Field(as_mapping(topology, "topology"))
    with named_object(field, KIND):
        check_kind(field, KIND, (API_VERSION,))
        keys = _layers(field["spec"]["networkTopologySpec"])
    places = {}
    for node, labels in labels_of_nodes(nodes).items():
        names = {layer: next(filter(None, map(labels.get, keys[layer])), "") for layer in keys}
        places[node] = {layer: name for layer, name in names.items() if name}
    if not places:
        raise ValueError("nodes: there is none")
    return NetworkTopology(keys, places)


def _layers(spec: Field) -> dict[str, list[str]]:
    """Return the label keys of each layer above nodes, from wide to narrow."""
    entries: dict[str, Field] = {}
    for entry in spec.entries():
        layer = entry["topologyLayer"].name()
        if layer in entries or layer in (CLUSTER_LAYER, "node"):
            rule = "is there twice" if layer in entries else "is built in"
            raise entry["topologyLayer"].error(f"{show(layer)} {rule}")
        entries[layer] = entry
    if NODE_LAYER not in entries:
        raise spec.error(f"there is no layer {NODE_LAYER!r}")
    keys: dict[str, list[str]] = {}
    at = NODE_LAYER
    while True:
        parent = entries[at]["parentTopologyLayer"]
        at = parent.text()
        if at in ("", CLUSTER_LAYER):
            break
        if at not in entries:
            raise parent.error(f"there is no layer {show(at)}")
        if at in keys or at == NODE_LAYER:
            raise parent.error(f"{show(at)} is above itself")
        keys[at] = [key.name() for key in entries[at]["labelKey"].entries()]
        if not keys[at]:
            raise entries[at]["labelKey"].error("is missing")
    for layer, entry in entries.items():
        if layer not in keys and layer != NODE_LAYER:
            raise entry["topologyLayer"].error(f"{show(layer)} is not above {NODE_LAYER!r}")
    return dict(reversed(keys.items()))


def write_network_topology(
    network: NetworkTopology, keys: Mapping[str, str], *, name: str = DEFAULT_NAME
) -> dict[str, Any]:
    """Return the ClusterNetworkTopology of a network; `write_network_labels` has the nodes' labels.

    :param keys: the node label of each layer, all different.
    :param name: of the object; Koordinator's scheduler only reads "default".
    :raises ValueError: a layer has no key, or two have the same.
    :raises TypeError: an argument has a wrong type.

    >>> from hivecore.interop.koordinator import write_network_topology
    >>> from hivecore.topology import NetworkTopology
    >>> network = NetworkTopology(["rack"], {"n1": {"rack": "r1"}})
    >>> spec = write_network_topology(network, {"rack": "example.com/rack"})["spec"]
    >>> [layer["topologyLayer"] for layer in spec["networkTopologySpec"]]
    ['rack', 'NodeTopologyLayer']
    """
    checked = _keys(network, keys)
    spec: list[dict[str, Any]] = []
    above: dict[str, Any] = {}
    for layer, key in checked.items():
        spec.append({"topologyLayer": layer, **above, "labelKey": [key]})
        above = {"parentTopologyLayer": layer}
    spec.append({"topologyLayer": NODE_LAYER, **above})
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": as_name(name, "name")},
        "spec": {"networkTopologySpec": spec},
    }


def write_network_labels(
    network: NetworkTopology, keys: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return the labels of each node that `write_network_topology` refers to.

    :param keys: as in `write_network_topology`.
    :raises ValueError: a layer has no key, or two have the same; a name is not a valid label value;
        or two domains would get the same labels.
    :raises TypeError: an argument has a wrong type.

    Koordinator merges domains of the same name, so such a name is written with the names of its
    parents. A domain that stands for a missing label gets one, because Koordinator leaves out nodes
    without it. Cost: O(nodes x layers).

    >>> from hivecore.interop.koordinator import write_network_labels
    >>> from hivecore.topology import NetworkTopology
    >>> nodes = {"n1": {"spine": "s1", "rack": "r1"}, "n2": {"spine": "s2", "rack": "r1"}}
    >>> network = NetworkTopology(["spine", "rack"], nodes)
    >>> write_network_labels(network, {"spine": "a/spine", "rack": "a/rack"})["n2"]
    {'a/spine': 's2', 'a/rack': 's2.r1'}
    """
    checked = _keys(network, keys)
    paths = paths_of(network)
    labels: dict[str, dict[str, str]] = {node: {} for node in paths}
    for end, (layer, key) in enumerate(checked.items(), 1):
        names = distinct_names(dict.fromkeys(path[:end] for path in paths.values()))
        for path, text in names.items():
            checked_label(text, f"{layer} {'/'.join(path)}:")
        for node, path in paths.items():
            labels[node][key] = names[path[:end]]
    return labels


def _keys(network: Any, keys: object) -> dict[str, str]:
    as_instance(network, "network", NetworkTopology)
    given = as_mapping(keys, "keys")
    for layer in network.layers:
        if layer not in given:
            raise ValueError(f"keys: layer {layer!r} has none")
        if layer in (CLUSTER_LAYER, NODE_LAYER):
            raise ValueError(f"network: the layer {layer!r} is built in")
    chosen = {layer: as_name(given[layer], f"keys[{layer!r}]") for layer in network.layers}
    if len(set(chosen.values())) < len(chosen):
        raise ValueError("keys: two layers have the same one")
    return chosen
