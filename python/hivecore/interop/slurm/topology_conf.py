"""The file topology.conf: a line for each switch, or for each block."""

import re
from collections.abc import Sequence

from hivecore._arguments import as_text
from hivecore.interop.slurm.hostlists import expand_hostlist, fold_hostlist
from hivecore.interop.slurm.switches import (
    Block,
    Switch,
    blocks_of,
    network_of_blocks,
    network_of_switches,
    switches_of,
)
from hivecore.topology import NetworkTopology

__all__ = ["block_sizes", "read_topology_conf", "write_topology_conf"]

_WORD = re.compile(r"([A-Za-z]+)=(\S+)")
_SWITCH = {"switchname", "switches", "nodes", "linkspeed"}
_BLOCK = {"blockname", "nodes", "blocksizes"}


def read_topology_conf(text: str) -> NetworkTopology:
    """The network of a topology.conf, of the plugin topology/tree or topology/block; no slots.

    :raises ValueError: a line is not understood, which the message counts from 1; switches are no
        tree; a node is there twice; there are switches and blocks, or neither.
    :raises TypeError: ``text`` is no string.

    The layers are levels of switches, "level1", "level0", the lowest last; or "block", and above it
    one for each larger block size, such as "block16". Jobs of Slurm do not leave a top switch:
    ``must`` of the first layer says so. Its ``--segment`` is ``multiple`` of "block".

    >>> from hivecore.interop.slurm import read_topology_conf
    >>> network = read_topology_conf('''
    ... SwitchName=s0 Switches=s[1-2]
    ... SwitchName=s1 Nodes=n[1-2]
    ... SwitchName=s2 Nodes=n[3-4]
    ... ''')
    >>> network.layers, network.domain("n3")
    (('level1', 'level0'), ('s0', 's2', 'n3'))
    """
    switches: list[Switch] = []
    blocks: list[Block] = []
    sizes: list[int] = []
    for number, line in enumerate(_joined(as_text(text, "text")), 1):
        words = _words(line, number)
        try:
            if "switchname" in words:
                _allow(words, _SWITCH)
                below = tuple(expand_hostlist(words.get("switches", "")))
                nodes = tuple(expand_hostlist(words.get("nodes", "")))
                names = expand_hostlist(words["switchname"])
                switches += [Switch(name, below, nodes) for name in names]
            elif "blockname" in words:
                _allow(words, _BLOCK)
                nodes = tuple(expand_hostlist(words.get("nodes", "")))
                blocks += [Block(name, nodes) for name in expand_hostlist(words["blockname"])]
            elif words:
                _allow(words, {"blocksizes"})
            if "blocksizes" in words:
                sizes = block_sizes(words["blocksizes"].split(","))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    if bool(switches) == bool(blocks):
        raise ValueError("text: must have either switches or blocks")
    return network_of_switches(switches) if switches else network_of_blocks(blocks, sizes)


def _joined(text: str) -> list[str]:
    """Lines without comments; those that end with a backslash go on, and leave empty ones."""
    lines: list[str] = []
    carried = ""
    for line in text.splitlines():
        bare = line.split("#", 1)[0].strip()
        if bare.endswith("\\"):
            carried += bare[:-1] + " "
            lines.append("")
        else:
            lines.append(carried + bare)
            carried = ""
    return [*lines, carried] if carried else lines


def _words(line: str, number: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in line.split():
        match = _WORD.fullmatch(word)
        if match is None:
            raise ValueError(f"line {number}: {word!r} is not of the form Name=value")
        key = match[1].lower()
        if key in found:
            raise ValueError(f"line {number}: {match[1]} is there twice")
        found[key] = match[2]
    return found


def _allow(words: dict[str, str], known: set[str]) -> None:
    for key in words:
        if key not in known:
            raise ValueError(f"{key!r} is not known here")


def block_sizes(texts: Sequence[str]) -> list[int]:
    """Numbers of nodes."""
    for one in texts:
        if not (one.isascii() and one.isdigit() and int(one[:10]) > 0 and len(one) < 10):
            raise ValueError(f"block size {one!r} is no number of nodes")
    return [int(one) for one in texts]


def write_topology_conf(
    network: NetworkTopology, *, blocks: str = "", sizes: Sequence[int] = ()
) -> str:
    """A network as a topology.conf.

    :param network: any.
    :param blocks: the layer whose domains are blocks, for topology/block; "": switches, for
        topology/tree.
    :param sizes: of blocks, the smallest first; without them Slurm takes its smallest block's.
    :raises ValueError: there is no such layer, a node is in no block, or a name has a comma, a
        bracket or a space.
    :raises TypeError: ``network`` is none.

    Switches of one name in different domains get the names of those around them; a node without a
    switch has one of its own.

    >>> from hivecore.interop.slurm import write_topology_conf
    >>> from hivecore.topology import NetworkTopology
    >>> network = NetworkTopology(["rack"], {f"n{i}": {"rack": f"r{i // 2}"} for i in range(4)})
    >>> print(write_topology_conf(network), end="")
    SwitchName=r0 Nodes=n[0-1]
    SwitchName=r1 Nodes=n[2-3]
    """
    if not isinstance(network, NetworkTopology):
        raise TypeError(f"network must be a NetworkTopology, not {type(network).__name__}")
    if blocks:
        lines = [
            f"BlockName={_name(b.name)} Nodes={_list(b.nodes)}" for b in blocks_of(network, blocks)
        ]
        if sizes:
            lines.append(
                f"BlockSizes={','.join(str(one) for one in block_sizes([str(s) for s in sizes]))}"
            )
    else:
        lines = [
            f"SwitchName={_name(one.name)} "
            + (f"Switches={_list(one.switches)}" if one.switches else f"Nodes={_list(one.nodes)}")
            for one in switches_of(network)
        ]
    return "".join(f"{line}\n" for line in lines)


def _name(name: str) -> str:
    return _list([name]) if name else name


def _list(names: Sequence[str]) -> str:
    text = fold_hostlist(names)
    if re.search(r"[\s#=\\]", text):
        raise ValueError(f"network: a name in {text!r} has a space or one of # = \\")
    return text
