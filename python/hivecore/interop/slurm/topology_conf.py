"""Slurm's ``topology.conf``: a line for each switch, or for each block."""

import re
from collections.abc import Iterator, Mapping

from hivecore._arguments import as_text
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.slurm._blocks import Block, block_network, blocks_of
from hivecore.interop.slurm._names import Hosts
from hivecore.interop.slurm._trees import Switch, switches_of, tree_network
from hivecore.interop.slurm.hostlists import compress_hostlist
from hivecore.interop.slurm.topologies import SlurmTopology

__all__ = ["read_topology_conf", "write_topology_conf"]

_PAIR = re.compile(r'\s*(\w+)\s*=\s*("[^"]*"|[^\s"]+)(?=\s|$)')
_KEYS = {
    "switchname": {"switches", "nodes", "linkspeed"},
    "blockname": {"nodes"},
    "blocksizes": set[str](),
}
_SIZES = re.compile(r"[0-9]{1,9}(,[0-9]{1,9})*")


def read_topology_conf(text: str) -> SlurmTopology:
    r"""The topology of a file for the plugin topology/tree or topology/block.

    :param text: what is in the file. Names of parameters may be in any case, ``#`` begins a
        comment, ``\`` at its end continues a line; ``LinkSpeed`` is not used, as in Slurm.
    :raises ValueError: a line is none of these, names are there twice, switches make no tree,
        hostlists stand for too many names, or block sizes do not fit. The message has the line.
    :raises TypeError: ``text`` is no string.

    Larger blocks are those that ``BlockSizes`` names. Cost: O(nodes x levels). Source: Slurm,
    topology.conf(5).

    >>> from hivecore.interop.slurm import read_topology_conf
    >>> tree = read_topology_conf('''
    ... SwitchName=s0 Nodes=n[0-1]
    ... SwitchName=s1 Nodes=n[2-3]
    ... SwitchName=s2 Switches=s[0-1]
    ... ''')
    >>> tree.network.layers, tree.network.domain("n3")
    (('level1', 'level0'), ('s2', 's1', 'n3'))
    """
    hosts = Hosts()
    switches: list[Switch] = []
    blocks: list[Block] = []
    sizes: tuple[int, ...] = ()
    whole = Field(None, "topology.conf")
    for line, kind, values in _lines(as_text(text, "text")):
        if kind == "switchname":
            name = hosts.name(values[kind])
            below = hosts.names(values["switches"])
            switches.append(Switch(name, below, hosts.names(values["nodes"]), line))
        elif kind == "blockname":
            blocks.append(Block(hosts.name(values[kind]), hosts.names(values["nodes"]), line))
        elif sizes:
            raise line.error("there are two lines with BlockSizes")
        else:
            sizes = _sizes(values[kind])
        if switches and (blocks or sizes):
            raise line.error("switches and blocks are not for one file")
    if switches:
        return SlurmTopology("tree", tree_network(switches, whole))
    if not blocks:
        raise whole.error("has neither switches nor blocks")
    return SlurmTopology("block", block_network(blocks, sizes, whole), block_sizes=sizes)


def _lines(text: str) -> Iterator[tuple[Field, str, Mapping[str, Field]]]:
    """Of each line where it is, its first parameter, and all by their names in lower case."""
    begun: list[str] = []
    lines = text.splitlines()
    for number, raw in enumerate(lines, 1):
        part = raw.partition("#")[0].rstrip()
        begun.append(part.removesuffix("\\"))
        if part.endswith("\\") and number < len(lines):
            continue
        line = " ".join(begun)
        begun = []
        if line.strip():
            yield _line(Field(line, f"line {number}"))


def _line(field: Field) -> tuple[Field, str, Mapping[str, Field]]:
    text, at = field.text(), 0
    kind = ""
    values: dict[str, Field] = {}
    while text[at:].strip():
        pair = _PAIR.match(text, at)
        if pair is None:
            raise field.error(f"{show(text[at:].strip())} is no Name=Value")
        key = pair[1].lower()
        kind = kind or key
        if kind not in _KEYS:
            raise field.error(
                f"begins with {pair[1]}, not with SwitchName, BlockName or BlockSizes"
            )
        if key in values or (values and key not in _KEYS[kind]):
            raise field.error(f"{pair[1]} is there twice, or not for such a line")
        values[key] = Field(pair[2].strip('"'), f"{field.path}: {pair[1]}")
        at = pair.end()
    nothing = {key: Field(None, f"{field.path}: {key}") for key in _KEYS[kind]}
    return field, kind, {**nothing, **values}


def _sizes(field: Field) -> tuple[int, ...]:
    if not _SIZES.fullmatch(field.text()):
        raise field.error(f"{show(field.text())} are no sizes such as 30,120")
    sizes = tuple(int(one) for one in field.text().split(","))
    if 0 in sizes:
        raise field.error("a size is 0")
    return sizes


def write_topology_conf(topology: SlurmTopology) -> str:
    """The text of the file that reads as this topology.

    :raises ValueError: it is flat, a name cannot be written, its block sizes do not fit, or two
        domains have all names in common, one of them for a missing label.
    :raises TypeError: ``topology`` is none.

    In a tree each domain is a switch; a job of Slurm spans nodes below one switch only, so a
    network whose widest layer has several domains is several of them to Slurm. Of blocks, which are
    the domains of the narrowest layer, wider layers are what ``block_sizes`` say. Where domains
    share a name, it is written with that of those around it.

    >>> from hivecore.interop.slurm import SlurmTopology, write_topology_conf
    >>> from hivecore.topology import NetworkTopology
    >>> labels = {f"n{i}": {"spine": "s1", "rack": f"r{i // 2}"} for i in range(4)}
    >>> network = NetworkTopology(["spine", "rack"], labels)
    >>> print(write_topology_conf(SlurmTopology("tree", network)))
    SwitchName=r0 Nodes=n[0-1]
    SwitchName=r1 Nodes=n[2-3]
    SwitchName=s1 Switches=r[0-1]
    <BLANKLINE>
    """
    if not isinstance(topology, SlurmTopology):
        raise TypeError(f"topology must be a SlurmTopology, not {type(topology).__name__}")
    if topology.plugin == "flat":
        raise ValueError("topology: a flat one has no topology.conf")
    lines = []
    if topology.plugin == "tree":
        for switch in switches_of(topology.network):
            what, names = ("Nodes", switch.nodes) if switch.nodes else ("Switches", switch.switches)
            lines.append(f"SwitchName={switch.name} {what}={compress_hostlist(names)}")
    else:
        for block in blocks_of(topology.network, topology.block_sizes):
            lines.append(f"BlockName={block.name} Nodes={compress_hostlist(block.nodes)}")
        if topology.block_sizes:
            lines.append("BlockSizes=" + ",".join(map(str, topology.block_sizes)))
    return "".join(f"{line}\n" for line in lines)
