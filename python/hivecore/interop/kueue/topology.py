"""Kueue's Topology: the levels of a data center, by labels of its nodes."""

from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._arguments import as_mapping
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.topology import NetworkTopology

__all__ = ["HOSTNAME", "read_topology"]

#: The label whose values are nodes.
HOSTNAME = "kubernetes.io/hostname"


def read_topology(
    record: Mapping[str, Any],
    nodes: Iterable[Mapping[str, Any]],
    flavor: Mapping[str, Any] | None = None,
) -> NetworkTopology:
    """The network of a cluster, without slots; its layers are called by their labels.

    :param record: the object of kind Topology as plain data.
    :param nodes: the objects of kind Node. Those without all labels of the levels are left out, as
        Kueue has it, and those without the labels of the flavor.
    :param flavor: the object of kind ResourceFlavor; ``None``: all nodes count.
    :raises ValueError: a level is there twice, or is below the nodes; a node has no name or is
        there twice; none is left; the flavor is of another topology. The message names the object.
    :raises TypeError: something is of a wrong type.

    A level of "kubernetes.io/hostname" is the nodes themselves, which are a level here in any case.
    Source: Kueue, ``apis/kueue/v1beta1/topology_types.go`` and ``pkg/cache/tas_flavor.go``.

    >>> from hivecore.interop.kueue import read_topology
    >>> levels = [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    >>> record = {"metadata": {"name": "default"}, "spec": {"levels": levels}}
    >>> labels = {"example.com/rack": "r1", "kubernetes.io/hostname": "n1"}
    >>> network = read_topology(record, [{"metadata": {"name": "n1", "labels": labels}}])
    >>> network.layers, network.nodes
    (('example.com/rack',), ('n1',))
    """
    document = Field(as_mapping(record, "record"))
    levels: list[str] = []
    with named_object(document, "Topology"):
        for entry in document["spec"]["levels"].entries():
            label = entry["nodeLabel"].name()
            if label in levels:
                raise entry["nodeLabel"].error(f"{label!r} is there twice")
            if HOSTNAME in levels:
                raise entry["nodeLabel"].error(f"is below {HOSTNAME}")
            levels.append(label)
        if not levels:
            raise document["spec"]["levels"].error("is missing")
        called = document["metadata"]["name"].text()
    wanted: dict[str, str] = {}
    if flavor is not None:
        of = Field(as_mapping(flavor, "flavor"))
        with named_object(of, "ResourceFlavor"):
            if of["spec"]["topologyName"].text() != called:
                raise of["spec"]["topologyName"].error(f"is not {called!r}")
            wanted = of["spec"]["nodeLabels"].texts()
    found: dict[str, dict[str, str]] = {}
    seen: set[str] = set()
    layers = [level for level in levels if level != HOSTNAME]
    for node in Field(list(nodes), "nodes").entries():
        name = node["metadata"]["name"].name()
        labels = {HOSTNAME: name, **node["metadata"]["labels"].texts()}
        if name in seen:
            raise node.error(f"node {name!r} is there twice")
        seen.add(name)
        if all(labels.get(key) == value for key, value in wanted.items()) and all(
            labels.get(level) for level in levels
        ):
            found[name] = {layer: labels[layer] for layer in layers}
    return NetworkTopology(layers, found)
