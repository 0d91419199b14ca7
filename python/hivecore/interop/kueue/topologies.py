"""Reads the network of a Topology from a ResourceFlavor and Nodes."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hivecore._arguments import as_mapping
from hivecore.interop.kubernetes.documents import Objects, check_kind, named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.nodes import labels_of_nodes
from hivecore.interop.kueue.names import HOSTNAME, VERSIONS
from hivecore.topology import NetworkTopology

__all__ = ["KueueTopology", "read_topology"]

_LEVELS = 16
_OF_PODS = ("nodeTaints", "tolerations")
_RULE = "is not read: it says which pods may use the flavor, not where its nodes are"


@dataclass(frozen=True, slots=True, eq=False)
class KueueTopology:
    """A Topology with the nodes of a flavor.

    :param name: of the Topology.
    :param levels: node labels, from wide to narrow.
    :param network: its layers are the levels, without ``kubernetes.io/hostname``.
    :param values: node -> the values of these labels.
    :param flavor_labels: labels of all nodes of the flavor.
    """

    name: str
    levels: tuple[str, ...]
    network: NetworkTopology
    values: Mapping[str, tuple[str, ...]]
    flavor_labels: Mapping[str, str]

    def layer(self, level: str) -> str:
        """Return the network's layer of a level; "node" for the hostname.

        :raises ValueError: there is no such level.
        """
        if level not in self.levels:
            raise ValueError(f"{show(level)} is none of the levels {', '.join(self.levels)}")
        return "node" if level == HOSTNAME else level


def read_topology(
    topology: Mapping[str, Any], nodes: Objects, *, flavor: Mapping[str, Any] | None = None
) -> KueueTopology:
    """Return the network of a Topology and the nodes of a ResourceFlavor.

    :param topology: the object as plain data, of API version v1alpha1, v1beta1 or v1beta2.
    :param nodes: Node objects: one, several, a List, or YAML text.
    :param flavor: the ResourceFlavor, whose ``topologyName`` must be this one. Only nodes with its
        ``nodeLabels`` are used; without a flavor, all.
    :raises ValueError: there are not 1 to 16 levels, a level is listed twice, the hostname is not
        the lowest level, the flavor has another topology or no ``nodeLabels``, two nodes have the
        same hostname, a key is unknown, or no node is left. The message has the path.
    :raises TypeError: a field has a wrong type.
    :raises ImportError: PyYAML is needed to read text.

    As in Kueue, nodes without a label for each level are left out. Set free resources and unready
    nodes with `NetworkTopology.set_free`. Taints of nodes are ignored; a `UserWarning` names the
    flavor's taints and tolerations. Cost: O(nodes x levels). Source: Kueue, ``apis/kueue/v1beta2``,
    ``pkg/cache/scheduler/tas_flavor.go``.

    >>> from hivecore.interop.kueue import read_topology
    >>> levels = [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    >>> labels = {"example.com/rack": "r1", "kubernetes.io/hostname": "n1"}
    >>> node = {"metadata": {"name": "n1", "labels": labels}}
    >>> gpus = read_topology({"metadata": {"name": "gpus"}, "spec": {"levels": levels}}, [node])
    >>> gpus.network.layers, gpus.network.domain("n1")
    (('example.com/rack',), ('r1', 'n1'))
    """
    field = Field(as_mapping(topology, "topology"))
    with named_object(field, "Topology"):
        check_kind(field, "Topology", VERSIONS)
        name = field["metadata"]["name"].name()
        field["spec"].only("levels")
        levels = _levels(field["spec"]["levels"])
    wanted = {} if flavor is None else _flavor_labels(flavor, name)
    layers = [level for level in levels if level != HOSTNAME]
    places: dict[str, dict[str, str]] = {}
    values: dict[str, tuple[str, ...]] = {}
    hosts: dict[str, str] = {}
    for node, labels in labels_of_nodes(nodes).items():
        if any(labels.get(key) != value for key, value in wanted.items()):
            continue
        if not all(labels.get(level) for level in levels):
            continue
        if HOSTNAME in levels and hosts.setdefault(labels[HOSTNAME], node) != node:
            other = show(hosts[labels[HOSTNAME]])
            raise ValueError(f"nodes: {other} and {show(node)} have one label {HOSTNAME}")
        places[node] = {layer: labels[layer] for layer in layers}
        values[node] = tuple(labels[level] for level in levels)
    if not places:
        raise ValueError("nodes: none has the labels of the flavor and one for each level")
    return KueueTopology(name, levels, NetworkTopology(layers, places), values, wanted)


def _levels(field: Field) -> tuple[str, ...]:
    labels: list[str] = []
    entries = field.entries()
    if not 1 <= len(entries) <= _LEVELS:
        raise field.error(f"must be 1 to {_LEVELS} levels, not {len(entries)}")
    for entry in entries:
        entry.only("nodeLabel")
        label = entry["nodeLabel"]
        if label.name() in labels or label.text() == "node":
            raise label.error(f"{show(label.text())} is there twice, or no label")
        if HOSTNAME in labels:
            raise label.error(f"{HOSTNAME} must be the lowest level")
        labels.append(label.text())
    return tuple(labels)


def _flavor_labels(flavor: Mapping[str, Any], name: str) -> dict[str, str]:
    field = Field(as_mapping(flavor, "flavor"))
    with named_object(field, "ResourceFlavor"):
        check_kind(field, "ResourceFlavor", VERSIONS)
        named = field["spec"]["topologyName"]
        if named.text() != name:
            raise named.error(f"must be {show(name)}, not {show(named.text())}")
        field["spec"].only("nodeLabels", "topologyName", *_OF_PODS)
        for key in _OF_PODS:
            if field["spec"][key].value:
                text = (
                    f"ResourceFlavor {show(field['metadata']['name'].text())}: spec.{key}: {_RULE}"
                )
                warnings.warn(text, stacklevel=3)
        labels = field["spec"]["nodeLabels"]
        if not labels.texts():
            raise labels.error("a flavor with a topology needs a label")
        return labels.texts()
