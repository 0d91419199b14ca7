"""Slurm's ``topology.conf``: a line for each switch, or for each block."""

import re
from collections.abc import Callable, Iterator, Mapping

from hivecore._arguments import as_instance, as_text
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.slurm._blocks import Block, block_network, blocks_of
from hivecore.interop.slurm._names import Hosts
from hivecore.interop.slurm._trees import Switch, switches_of, tree_network
from hivecore.interop.slurm.hostlists import compress_hostlist
from hivecore.interop.slurm.topologies import SlurmTopology

__all__ = ["read_topology_conf", "write_topology_conf"]

_ENDS = re.compile(r"\r\n?|\n")
_COMMENT = re.compile(r"(?<!\\)#.*")
_PAIR = re.compile(r'\s*(\w+)\s*=\s*("[^"]*"|[^\s"=]+|)(?=\s|$)')
_KEYS = {
    "switchname": {"level", "linkspeed", "nodes", "switches"},
    "blockname": {"blockindex", "blocksize", "nodes"},
    "aggregatedblock": {"blockindex", "blocksize", "nodes"},
    "blocksizes": set[str](),
}
_UNREAD = ("ringname", "torusname")
_SIZE = re.compile(r"\s*([0-9]{1,9})\s*")
_INCLUDE = re.compile(r"include\s+(\S+)", re.IGNORECASE)
_MOST_FILES, _DEEPEST = 1000, 16

_Line = tuple[Field, str, Mapping[str, Field]]


def read_topology_conf(
    text: str,
    *,
    include: Callable[[str], str] | None = None,
    warn: Callable[[str], None] | None = None,
) -> SlurmTopology:
    r"""The topology of a file for the plugin topology/tree or topology/block.

    :param text: what is in the file, or what ``scontrol show topology`` prints. Names of parameters
        may be in any case, ``#`` begins a comment, ``\`` at its end continues a line.
    :param include: returns the text of the file that a line ``Include FILE`` names.
    :param warn: receives what Slurm accepts with a warning; ``None``: it becomes a `UserWarning`.
    :raises ValueError: a line is none of these, a switch or a block is there twice, switches are
        below themselves, hostlists stand for too many names, or block sizes do not fit. The message
        has the line.
    :raises TypeError: ``text`` is no string.

    Warnings, with the line: a node below two leaf switches or in two blocks, where the first one
    keeps it; a name twice in a list; a switch below two that differ, where the one with the most
    children keeps it; a switch without nodes; a parameter that is there twice, of which the last
    one counts. A block may have fewer nodes than others, or none yet. Without ``BlockSizes`` 2, 4,
    8 and 16 blocks in a row are larger blocks, as in Slurm. scontrol prints the sizes as
    ``BlockSize`` of each block and aggregated block. ``LinkSpeed``, ``Level``, ``BlockIndex`` and
    the nodes that scontrol repeats in aggregated blocks and upper switches are not used.

    Cost: O(nodes x levels). Source: Slurm, topology.conf(5) and its parser.

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
    sizes = _Sizes(hosts)
    whole = Field(None, "topology.conf")
    for line, kind, values in _Lines(hosts, include).of(as_text(text, "text"), "", _DEEPEST):
        if switches if kind != "switchname" else blocks or sizes.all:
            raise line.error("switches and blocks are not for one file")
        if kind == "switchname":
            switches.append(_switch(line, values, hosts))
        elif kind == "blockname":
            blocks.append(Block(hosts.name(values[kind]), hosts.nodes(values["nodes"]), line))
            sizes.add(values["blocksize"], base=True)
        elif kind == "aggregatedblock":
            sizes.add(values["blocksize"], base=False)
        else:
            sizes.list(values[kind])
    if not switches and not blocks:
        raise whole.error("has neither switches nor blocks")
    if switches:
        topology = SlurmTopology("tree", tree_network(switches, whole, hosts.note))
    else:
        network = block_network(blocks, sizes.all, whole, hosts.note)
        topology = SlurmTopology("block", network, block_sizes=sizes.all)
    hosts.report(warn)
    return topology


def _switch(line: Field, values: Mapping[str, Field], hosts: Hosts) -> Switch:
    name, below = hosts.name(values["switchname"]), hosts.names(values["switches"])
    if below and not values["level"].absent:
        return Switch(name, below, (), line)  # scontrol prints the nodes of its children as well
    return Switch(name, below, hosts.nodes(values["nodes"]), line)


class _Sizes:
    """The block sizes, as the file has them or as scontrol prints them with each block."""

    def __init__(self, hosts: Hosts) -> None:
        self._note = hosts.note
        self._listed: tuple[int, ...] = ()
        self._base = 0
        self._larger: set[int] = set()

    @property
    def all(self) -> tuple[int, ...]:
        if self._listed or not self._base:
            return self._listed
        return (self._base, *sorted(self._larger - {self._base}))

    def list(self, field: Field) -> None:
        """All of them, separated by commas; the last such line counts."""
        if self._listed:
            self._note(field, "an earlier line has BlockSizes too; this line counts")
        self._listed = tuple(_size(field, size) for size in field.text().split(",") if size)
        if not self._listed:
            raise field.error(f"{show(field.text())} are no sizes such as 30,120")

    def add(self, field: Field, base: bool) -> None:
        """The size that a line says of its block, if it does."""
        if base and field.absent:
            return
        size = _size(field, field.text())
        if not base:
            self._larger.add(size)
        elif self._base not in (0, size):
            raise field.error(f"{size} is another base block size than {self._base} before")
        else:
            self._base = size


def _size(field: Field, text: str) -> int:
    size = _SIZE.fullmatch(text)
    if not size:
        raise field.error(f"{show(text)} is no size such as 30")
    if int(size[1]) == 0:
        raise field.error("a size is 0")
    return int(size[1])


class _Lines:
    """Takes files apart, those that they include as well."""

    def __init__(self, hosts: Hosts, include: Callable[[str], str] | None) -> None:
        self._note, self._include = hosts.note, include
        self._files = 0

    def of(self, text: str, file: str, deep: int) -> Iterator[_Line]:
        """Of each line where it is, its first parameter, and all by their names in lower case."""
        begun, first = "", 0
        lines = _ENDS.split(text.removeprefix("\ufeff"))
        for number, raw in enumerate(lines, 1):
            part = _COMMENT.sub("", raw, count=1)
            first = first or number
            bare = part.rstrip()
            if bare.endswith("\\"):
                begun += bare[:-1]
                if number < len(lines):
                    continue
                part = ""
            line, begun = begun + part, ""
            field, first = Field(line, f"{file}line {first}"), 0
            other = _INCLUDE.fullmatch(line.strip())
            if other:
                yield from self._included(field, other[1], deep - 1)
            elif line.strip():
                yield self._line(field)

    def _included(self, line: Field, name: str, deep: int) -> Iterator[_Line]:
        self._files += 1
        if self._include is None:
            raise line.error(f"includes {show(name)}: give a function that reads it as `include`")
        if self._files > _MOST_FILES or not deep:
            raise line.error(f"includes {show(name)}: too many files, or one that includes itself")
        with line.named():
            text = as_text(self._include(name), "the text that `include` returns")
        yield from self.of(text, f"{name}: ", deep)

    def _line(self, field: Field) -> _Line:
        text, at = field.text().strip(), 0
        kind = ""
        values: dict[str, Field] = {}
        while at < len(text):
            pair = _PAIR.match(text, at)
            if pair is None:
                raise field.error(f"{show(text[at:].strip())} is no Name=Value")
            key = pair[1].lower()
            kind = kind or key
            if kind not in _KEYS:
                raise field.error(_unknown(pair[1]))
            if values and key not in _KEYS[kind]:
                raise field.error(f"{pair[1]} is not for such a line")
            value = Field(pair[2].strip('"'), f"{field.path}: {pair[1]}")
            if key in values:
                self._note(value, "is given twice; the last value counts")
            values[key] = value
            at = pair.end()
        nothing = {key: Field(None, f"{field.path}: {key}") for key in _KEYS[kind]}
        return field, kind, {**nothing, **values}


def _unknown(name: str) -> str:
    if name.lower() in _UNREAD:
        return f"begins with {name}: of topologies trees and blocks are read, no rings or tori"
    return f"begins with {name}, not with SwitchName, BlockName or BlockSizes"


def write_topology_conf(topology: SlurmTopology) -> str:
    """The text of the file that reads as this topology.

    :raises ValueError: it is flat, a name cannot be written, its block sizes do not fit, or two
        domains have all names in common, one of them for a missing label.
    :raises TypeError: ``topology`` is not a `SlurmTopology`.

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
    as_instance(topology, "topology", SlurmTopology)
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
