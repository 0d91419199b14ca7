"""Slurm's ``topology.yaml``: several topologies, each a tree, blocks or flat."""

from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._arguments import as_name, as_tuple
from hivecore.interop.kubernetes.documents import read_yaml
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.slurm._blocks import Block, block_network, blocks_of
from hivecore.interop.slurm._names import Hosts
from hivecore.interop.slurm._trees import Switch, switches_of, tree_network
from hivecore.interop.slurm.hostlists import compress_hostlist
from hivecore.interop.slurm.topologies import SlurmTopology
from hivecore.topology import NetworkTopology

__all__ = ["read_topology_yaml", "write_topology_yaml"]

_MOST = 2**31


def read_topology_yaml(
    given: str | Iterable[Mapping[str, Any]], *, nodes: Iterable[str] = ()
) -> tuple[SlurmTopology, ...]:
    """The topologies of a file, in its order.

    :param given: the text, as YAML or JSON, or the list that is in it as plain data.
    :param nodes: the names of the cluster's nodes: those of a flat topology, which names none.
    :raises ValueError: the text is no YAML, a topology is of several types or of none of "tree",
        "block" and "flat", or as with `read_topology_conf`. The message has the path.
    :raises TypeError: something is of a wrong type.
    :raises ImportError: it is YAML text, and PyYAML is not there.

    ``cluster_default`` is kept of the first that has it. Cost: O(nodes x levels). Source: Slurm,
    topology.yaml(5), as of 25.05.

    >>> from hivecore.interop.slurm import read_topology_yaml
    >>> blocks = {"block_sizes": [2, 4], "blocks": [
    ...     {"block": "b1", "nodes": "n[1-2]"}, {"block": "b2", "nodes": "n[3-4]"}]}
    >>> (topology,) = read_topology_yaml([{"topology": "gpus", "block": blocks}])
    >>> topology.name, topology.network.layers, topology.network.domain("n4")
    ('gpus', ('blocks2', 'block'), ('1', 'b2', 'n4'))
    """
    known = dict.fromkeys(as_name(one, "nodes") for one in as_tuple(nodes, "nodes"))
    if isinstance(given, str):
        documents = read_yaml(Field(given, "topology.yaml"))
        if len(documents) != 1:
            raise ValueError(f"topology.yaml: must be one document, not {len(documents)}")
        whole = Field(documents[0], "topology.yaml")
    else:
        whole = Field(as_tuple(given, "topology.yaml"), "topology.yaml")
    hosts = Hosts()
    found: list[SlurmTopology] = []
    for entry in whole.entries():
        name = entry["topology"].name()
        if any(one.name == name for one in found):
            raise entry["topology"].error(f"{show(name)} is there twice")
        default = entry["cluster_default"].flag() and not any(one.cluster_default for one in found)
        found.append(_topology(entry, name, default, hosts, known))
    if not found:
        raise whole.error("there is no topology")
    return tuple(found)


def _topology(
    entry: Field, name: str, default: bool, hosts: Hosts, known: Mapping[str, None]
) -> SlurmTopology:
    for key, _ in entry.items():
        if key not in ("topology", "cluster_default", "tree", "block", "flat"):
            raise entry.error(
                f"{show(key)} is none of topology, cluster_default, tree, block, flat"
            )
    flat = entry["flat"].flag()
    types = [key for key in ("tree", "block") if key in entry] + ["flat"] * flat
    if len(types) != 1:
        raise entry.error(f"must have exactly one of tree, block and flat, not {len(types)}")
    if flat:
        if not known:
            raise entry["flat"].error("a flat topology names no nodes: give them as `nodes`")
        return SlurmTopology(
            "flat", NetworkTopology([], {node: {} for node in known}), name, (), default
        )
    body = entry[types[0]]
    if types[0] == "tree":
        switches = []
        for one in body["switches"].entries():
            switch, children = hosts.name(one["switch"]), hosts.names(one["children"])
            switches.append(Switch(switch, children, hosts.names(one["nodes"]), one))
        return SlurmTopology("tree", tree_network(switches, body), name, (), default)
    sizes = tuple(one.integer(1, _MOST) for one in body["block_sizes"].entries())
    blocks = [
        Block(hosts.name(one["block"]), hosts.names(one["nodes"]), one)
        for one in body["blocks"].entries()
    ]
    return SlurmTopology("block", block_network(blocks, sizes, body), name, sizes, default)


def write_topology_yaml(topologies: Iterable[SlurmTopology]) -> list[dict[str, Any]]:
    """Plain data for YAML or JSON that reads as these topologies.

    :raises ValueError: a topology has no name, or that of another; a name cannot be written; block
        sizes do not fit.
    :raises TypeError: something is no `SlurmTopology`.

    See `write_topology_conf` for what becomes of domains.

    >>> from hivecore.interop.slurm import SlurmTopology, write_topology_yaml
    >>> from hivecore.topology import NetworkTopology
    >>> racks = NetworkTopology(["rack"], {"n1": {"rack": "r1"}, "n2": {"rack": "r1"}})
    >>> write_topology_yaml([SlurmTopology("tree", racks, "gpus")])[0]["tree"]
    {'switches': [{'switch': 'r1', 'nodes': 'n[1-2]'}]}
    """
    found: list[dict[str, Any]] = []
    for topology in as_tuple(topologies, "topologies"):
        if not isinstance(topology, SlurmTopology):
            raise TypeError(f"topologies must be SlurmTopology, not {type(topology).__name__}")
        if not topology.name or any(one["topology"] == topology.name for one in found):
            raise ValueError(f"topologies: the name {show(topology.name)} is empty or not unique")
        found.append(
            {
                "topology": topology.name,
                "cluster_default": topology.cluster_default,
                topology.plugin: _body(topology),
            }
        )
    return found


def _body(topology: SlurmTopology) -> Any:
    if topology.plugin == "flat":
        return True
    if topology.plugin == "tree":
        switches = []
        for switch in switches_of(topology.network):
            what, names = ("nodes", switch.nodes) if switch.nodes else ("children", switch.switches)
            switches.append({"switch": switch.name, what: compress_hostlist(names)})
        return {"switches": switches}
    blocks = [
        {"block": block.name, "nodes": compress_hostlist(block.nodes)}
        for block in blocks_of(topology.network, topology.block_sizes)
    ]
    return {"block_sizes": list(topology.block_sizes), "blocks": blocks}
