"""Slurm's ``topology.yaml``: several topologies, of which trees, blocks and flat ones are read."""

from collections.abc import Callable, Iterable, Mapping
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
_TYPES = ("tree", "block", "flat", "ring", "torus3d")


def read_topology_yaml(
    given: str | Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    nodes: Iterable[str] = (),
    warn: Callable[[str], None] | None = None,
) -> tuple[SlurmTopology, ...]:
    """The topologies of a file, in its order.

    :param given: the text, as YAML or JSON, of the file or of ``scontrol show topoconf``, or the
        list that is in it, or its one entry, as plain data.
    :param nodes: the names of the cluster's nodes: those of a flat topology, which names none.
    :param warn: receives what Slurm accepts with a warning, and which topologies are left out;
        ``None``: it becomes a `UserWarning`.
    :raises ValueError: the text is no YAML, a key is unknown, a topology has several types or none,
        no topology can be read, or as with `read_topology_conf`. The message has the path.
    :raises TypeError: something is of a wrong type.
    :raises ImportError: it is YAML text, and PyYAML is not there.

    Trees, blocks and flat topologies are read. Rings and three-dimensional tori are left out with a
    warning, and so is a flat topology without `nodes`. ``cluster_default`` is kept of the first
    that has it; ``alpha_step_rank``, the order of tasks in a job, is not used. Cost: O(nodes x
    levels). Source: Slurm, topology.yaml(5), as of 26.11, and its parser.

    >>> from hivecore.interop.slurm import read_topology_yaml
    >>> blocks = {"block_sizes": [2, 4], "blocks": [
    ...     {"block": "b1", "nodes": "n[1-2]"}, {"block": "b2", "nodes": "n[3-4]"}]}
    >>> (topology,) = read_topology_yaml([{"topology": "gpus", "block": blocks}])
    >>> topology.name, topology.network.layers, topology.network.domain("n4")
    ('gpus', ('blocks2', 'block'), ('1', 'b2', 'n4'))
    """
    known = dict.fromkeys(as_name(node, "nodes") for node in as_tuple(nodes, "nodes"))
    whole = _whole(given)
    hosts = Hosts()
    topologies: list[SlurmTopology] = []
    names: set[str] = set()
    default_of, left_out = "", []
    for entry in _entries(whole):
        entry.among(("topology", "cluster_default", *_TYPES))
        name = entry["topology"].name()
        if name in names:
            raise entry["topology"].error(f"{show(name)} is there twice")
        names.add(name)
        if entry["cluster_default"].flag():
            default_of = default_of or name
        kind = _type(entry)
        body = entry[kind]
        why = _why_left_out(body, kind, known)
        if why:
            left_out.append(str(body.error(why)))
            hosts.note(body, f"{why}, so {show(name)} is left out")
        else:
            topologies.append(_topology(body, kind, name, name == default_of, hosts, known))
    if not topologies:
        raise whole.error("; ".join(["there is no topology that can be read", *left_out]))
    hosts.report(warn)
    return tuple(topologies)


def _whole(given: object) -> Field:
    if not isinstance(given, str):
        single = isinstance(given, Mapping)
        return Field(given if single else as_tuple(given, "topology.yaml"), "topology.yaml")
    text = Field(given, "topology.yaml")
    # "---" may begin an empty document.
    documents = [document for document in read_yaml(text) if document is not None]
    if len(documents) != 1:
        raise ValueError(f"topology.yaml: must be one document, not {len(documents)}")
    return Field(documents[0], "topology.yaml")


def _entries(field: Field) -> list[Field]:
    """The entries of a list; as in Slurm, a mapping is a list of one."""
    return [field] if isinstance(field.value, Mapping) else field.entries()


def _type(entry: Field) -> str:
    """The one type that has content: scontrol prints the others too, as empty mappings."""
    given = [key for key, field in entry.items() if key in _TYPES and field.value is not None]
    full = [key for key in given if entry[key].value not in ({}, False)]
    if not full and len(given) == 1 and entry[given[0]].value == {}:
        full = given
    if len(full) != 1:
        raise entry.error(f"must have exactly one of {', '.join(_TYPES)}, not {len(full)}")
    return full[0]


def _why_left_out(body: Field, kind: str, known: Mapping[str, None]) -> str:
    """What keeps a topology from being read; "" if nothing does."""
    if kind in ("ring", "torus3d"):
        return f"a topology of the type {kind} is not supported"
    if kind == "flat":
        if isinstance(body.value, Mapping):
            body.among(("alpha_step_rank",))
            body["alpha_step_rank"].flag()
        else:
            body.flag()
        if not known:
            return "a flat topology names no nodes: give them as `nodes`"
    return ""


def _topology(
    body: Field, kind: str, name: str, default: bool, hosts: Hosts, known: Mapping[str, None]
) -> SlurmTopology:
    if kind == "flat":
        network = NetworkTopology([], {node: {} for node in known})
        return SlurmTopology("flat", network, name, (), default)
    if kind == "tree":
        body.among(("switches",))
        switches = [_switch(switch, hosts) for switch in _entries(body["switches"])]
        return SlurmTopology("tree", tree_network(switches, body, hosts.note), name, (), default)
    body.among(("block_sizes", "blocks"))
    sizes = tuple(size.integer(1, _MOST) for size in body["block_sizes"].entries())
    blocks = []
    for block in _entries(body["blocks"]):
        block.among(("block", "nodes"))
        blocks.append(Block(hosts.name(block["block"]), hosts.nodes(block["nodes"]), block))
    network = block_network(blocks, sizes, body, hosts.note)
    return SlurmTopology("block", network, name, sizes, default)


def _switch(field: Field, hosts: Hosts) -> Switch:
    field.among(("switch", "children", "nodes"))
    name, nodes = hosts.name(field["switch"]), hosts.nodes(field["nodes"])
    children = hosts.names(field["children"])
    if children and nodes:
        hosts.note(field["children"], "not used, as the switch has nodes")
        children = ()
    return Switch(name, children, nodes, field)


def write_topology_yaml(topologies: Iterable[SlurmTopology]) -> list[dict[str, Any]]:
    """Plain data for YAML or JSON that reads as these topologies.

    :raises ValueError: a topology has no name, or the name of another one; a name cannot be
        written; block sizes do not fit.
    :raises TypeError: something is no `SlurmTopology`.

    See `write_topology_conf` for how domains are written.

    >>> from hivecore.interop.slurm import SlurmTopology, write_topology_yaml
    >>> from hivecore.topology import NetworkTopology
    >>> racks = NetworkTopology(["rack"], {"n1": {"rack": "r1"}, "n2": {"rack": "r1"}})
    >>> write_topology_yaml([SlurmTopology("tree", racks, "gpus")])[0]["tree"]
    {'switches': [{'switch': 'r1', 'nodes': 'n[1-2]'}]}
    """
    entries: list[dict[str, Any]] = []
    for topology in as_tuple(topologies, "topologies"):
        if not isinstance(topology, SlurmTopology):
            raise TypeError(f"topologies must be SlurmTopology, not {type(topology).__name__}")
        if not topology.name or any(entry["topology"] == topology.name for entry in entries):
            raise ValueError(f"topologies: the name {show(topology.name)} is empty or not unique")
        entries.append(
            {
                "topology": topology.name,
                "cluster_default": topology.cluster_default,
                topology.plugin: _body(topology),
            }
        )
    return entries


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
