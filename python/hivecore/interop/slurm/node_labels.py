"""Topologies of Slurm from the labels of Kubernetes' nodes, and labels from topologies.

The labels are those of topograph by default: switches from wide to narrow, and the domain of an
accelerated network such as NVLink, which is a block. The nodes of a partition are a block topology
if all of them have such a domain, else a tree of switches, else flat.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from hivecore._arguments import as_mapping, as_name, as_tuple
from hivecore.interop.domain_names import distinct_names, paths_of
from hivecore.interop.kubernetes.documents import Objects
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.nodes import checked_label, labels_of_nodes
from hivecore.interop.slurm._blocks import Block, block_network
from hivecore.interop.slurm._names import some
from hivecore.interop.slurm.topologies import SlurmTopology
from hivecore.topology import NetworkTopology

__all__ = ["BLOCK_LABELS", "SWITCH_LABELS", "read_node_labels", "write_node_labels"]

_PREFIX = "network.topology.nvidia.com"
#: Switches, from wide to narrow.
SWITCH_LABELS = (f"{_PREFIX}/core", f"{_PREFIX}/spine", f"{_PREFIX}/leaf")
#: Domains of an accelerated network; the first label that a node has counts.
BLOCK_LABELS = (f"{_PREFIX}/accelerator", "nvidia.com/gpu.clique")

_Labels = Mapping[str, Mapping[str, str]]


class _Keys(NamedTuple):
    switches: tuple[str, ...]
    blocks: tuple[str, ...]

    def path(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(labels.get(key, "") for key in self.switches)

    def block(self, labels: Mapping[str, str]) -> str:
        return next((labels[key] for key in self.blocks if labels.get(key)), "")


def read_node_labels(
    nodes: Objects,
    *,
    partitions: Mapping[str, Iterable[str]] | None = None,
    hosts: Mapping[str, str] | None = None,
    switches: Iterable[str] = SWITCH_LABELS,
    blocks: Iterable[str] = BLOCK_LABELS,
    block_sizes: Iterable[int] = (),
    warn: Callable[[str], None] | None = None,
) -> tuple[SlurmTopology, ...]:
    """A topology for each partition; the first one is that of the cluster. It is a "block" topology
    if each node has a label of a block, else a "tree" if any has one of a switch, else "flat".

    :param nodes: objects of kind Node: one, several, a List, or YAML text.
    :param partitions: by partition, which gives the topology its name, the Slurm nodes in it;
        ``None``: all nodes, as "default".
    :param hosts: by node of Kubernetes the name of the Slurm node on it; nodes that are not in it
        are left out. ``None``: both have one name.
    :param switches: labels of switches, from wide to narrow; those that no node has are no layer.
    :param blocks: labels of blocks; the first one that a node has counts.
    :param block_sizes: as of `SlurmTopology`.
    :param warn: receives which nodes of a tree have no label and are left out; ``None``: it becomes
        a `UserWarning`.
    :raises ValueError: there are no nodes or partitions; a partition has no nodes, or it or
        ``hosts`` names one that is not there; a node has two names; block sizes do not fit.
    :raises TypeError: something is of a wrong type.

    Blocks of the same switches stand side by side, so that larger blocks are made of near ones.
    ``--segment`` of a job is a `multiple` in the layer "block". Cost: O(nodes log nodes).
    Source: topograph's reference of node labels.

    >>> from hivecore.interop.slurm import read_node_labels, write_topology_yaml
    >>> leaf, nvl = "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/accelerator"
    >>> labels = {"n0": {nvl: "nvl1"}, "n1": {nvl: "nvl1"}, "n2": {leaf: "s1"}, "n3": {leaf: "s1"}}
    >>> nodes = [{"metadata": {"name": name, "labels": labels[name]}} for name in labels]
    >>> parts = read_node_labels(nodes, partitions={"gb200": ["n0", "n1"], "cpu": ["n2", "n3"]})
    >>> [(part.name, part.plugin) for part in parts]
    [('gb200', 'block'), ('cpu', 'tree')]
    >>> write_topology_yaml(parts)[1]["tree"]
    {'switches': [{'switch': 's1', 'nodes': 'n[2-3]'}]}
    """
    keys = _Keys(
        tuple(as_name(key, "switches") for key in as_tuple(switches, "switches")),
        tuple(as_name(key, "blocks") for key in as_tuple(blocks, "blocks")),
    )
    labels = _renamed(labels_of_nodes(nodes), hosts)
    if not labels:
        raise ValueError("nodes: there is none")
    if partitions is None:
        partitions = {"default": list(labels)}
    topologies: list[SlurmTopology] = []
    for name, members in as_mapping(partitions, "partitions").items():
        mine = _members(as_name(name, "partitions"), as_tuple(members, "partitions"), labels)
        default = not topologies
        topologies.append(_topology(name, mine, keys, tuple(block_sizes), default, warn))
    if not topologies:
        raise ValueError("partitions: there is none")
    return tuple(topologies)


def _renamed(labels: _Labels, hosts: Mapping[str, str] | None) -> dict[str, Mapping[str, str]]:
    if hosts is None:
        return dict(labels)
    renamed: dict[str, Mapping[str, str]] = {}
    for node, name in as_mapping(hosts, "hosts").items():
        if node not in labels:
            raise ValueError(f"hosts: there is no node {show(node)}")
        if name in renamed:
            raise ValueError(f"hosts: {show(name)} is on two nodes")
        renamed[as_name(name, "hosts")] = labels[node]
    return renamed


def _members(name: str, members: tuple[str, ...], labels: _Labels) -> _Labels:
    missing = [node for node in members if node not in labels]
    if missing or not members:
        what = f"there is no node {show(missing[0])}" if missing else "has no nodes"
        raise ValueError(f"partitions[{show(name)}]: {what}")
    return {node: labels[node] for node in members}


def _topology(
    name: str,
    labels: _Labels,
    keys: _Keys,
    sizes: tuple[int, ...],
    default: bool,
    warn: Callable[[str], None] | None,
) -> SlurmTopology:
    if all(keys.block(mine) for mine in labels.values()):
        network = _blocks(labels, keys, sizes)
        return SlurmTopology("block", network, name, sizes, default)
    layers = [key for key in keys.switches if any(mine.get(key) for mine in labels.values())]
    if not layers:
        network = NetworkTopology([], {node: {} for node in labels})
        return SlurmTopology("flat", network, name, (), default)
    without = [node for node, mine in labels.items() if not any(keys.path(mine))]
    if without:
        text = f"partition {show(name)}: at no switch, and left out: {some(without)}"
        (warn or warnings.warn)(text)
    places = {
        node: {f"level{i}": mine[key] for i, key in enumerate(reversed(layers)) if mine.get(key)}
        for node, mine in labels.items()
        if node not in set(without)
    }
    levels = [f"level{i}" for i in reversed(range(len(layers)))]
    return SlurmTopology("tree", NetworkTopology(levels, places), name, (), default)


def _blocks(labels: _Labels, keys: _Keys, sizes: tuple[int, ...]) -> NetworkTopology:
    members: dict[str, list[str]] = {}
    for node in sorted(labels, key=lambda node: keys.path(labels[node])):
        members.setdefault(keys.block(labels[node]), []).append(node)
    order = {node: i for i, node in enumerate(labels)}
    in_order = [
        Block(name, tuple(sorted(nodes, key=order.__getitem__))) for name, nodes in members.items()
    ]
    return block_network(in_order, sizes, Field(None, "block_sizes"), lambda *_: None)


def write_node_labels(
    topology: SlurmTopology,
    *,
    switches: Iterable[str] = SWITCH_LABELS,
    block: str = BLOCK_LABELS[0],
) -> dict[str, dict[str, str]]:
    """By node the labels that read as this topology.

    :param switches: of switches, from wide to narrow: a tree of fewer levels has the last of them.
    :param block: of blocks.
    :raises ValueError: a tree has more levels than there are labels; a name can be no label's
        value.
    :raises TypeError: ``topology`` is not a `SlurmTopology`.

    Names that several domains have are written with those of the domains around them. A flat
    topology has no labels; larger blocks are in none.

    >>> from hivecore.interop.slurm import read_topology_conf, write_node_labels
    >>> write_node_labels(read_topology_conf("BlockName=b1 Nodes=n[1-2]"))["n2"]
    {'network.topology.nvidia.com/accelerator': 'b1'}
    """
    if not isinstance(topology, SlurmTopology):
        raise TypeError(f"topology must be a SlurmTopology, not {type(topology).__name__}")
    given = tuple(as_name(key, "switches") for key in as_tuple(switches, "switches"))
    depth = len(topology.network.layers)
    paths = paths_of(topology.network)
    labels: dict[str, dict[str, str]] = {node: {} for node in paths}
    keys = {depth: block} if topology.plugin == "block" else {}
    if topology.plugin == "tree":
        if depth > len(given):
            raise ValueError(f"switches: {len(given)} labels are too few for {depth} levels")
        keys = dict(enumerate(given[len(given) - depth :], 1))
    for end, key in keys.items():
        names = distinct_names(dict.fromkeys(path[:end] for path in paths.values()))
        for node, path in paths.items():
            if path[end - 1] != path[end]:  # else it stands for a label that is missing
                labels[node][key] = checked_label(names[path[:end]], "the name of a domain")
    return labels
