"""Blocks of nodes: Slurm's list of them as a network, and back.

Larger blocks are so many base blocks one after the other, in the order of the list; how many,
follows from the sizes: of sizes 30 and 120 four blocks make a larger one.
"""

from typing import NamedTuple

from hivecore.interop.domain_names import distinct_names, paths_of
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.slurm._names import checked_name
from hivecore.topology import NetworkTopology

__all__ = ["Block", "block_network", "blocks_of"]


class Block(NamedTuple):
    """What a line says of a block."""

    name: str
    nodes: tuple[str, ...]
    field: Field = Field(None)
    """Where it stands."""


def block_network(blocks: list[Block], sizes: tuple[int, ...], whole: Field) -> NetworkTopology:
    """The network of these blocks.

    :param sizes: as the file has them; none: there are no larger blocks.
    :param whole: where they stand, for messages.
    :raises ValueError: a block or a node is there twice, or sizes do not go with the blocks.
    """
    counts = _counts(blocks, sizes, whole)
    layers = {f"blocks{count}": count for count in reversed(counts)}
    labels: dict[str, dict[str, str]] = {}
    names: set[str] = set()
    for number, block in enumerate(blocks):
        if block.name in names:
            raise block.field.error(f"block {show(block.name)} is there twice")
        names.add(block.name)
        place = {"block": block.name}
        for layer, count in layers.items():
            place[layer] = str(number // count + 1)
        for node in block.nodes:
            if node in labels:
                other = show(labels[node]["block"])
                raise block.field.error(f"node {show(node)} is in {other} and {show(block.name)}")
            labels[node] = place
    if not labels:
        raise whole.error("there is no node")
    with whole.named():
        return NetworkTopology([*layers, "block"], labels)


def _counts(blocks: list[Block], sizes: tuple[int, ...], whole: Field) -> list[int]:
    """Of how many base blocks the larger ones are."""
    if not sizes:
        return []
    base = sizes[0]
    for block in blocks:
        if len(block.nodes) < base:
            have = f"block {show(block.name)} has {len(block.nodes)} nodes"
            raise block.field.error(f"{have}, the base block size is {base}")
    counts = [size // base for size in sizes]
    for size, count, before in zip(sizes[1:], counts[1:], counts, strict=False):
        if size % base or count <= before or count & (count - 1):
            raise whole.error(
                f"the block size {size} must be {base} times a power of two, and grow"
            )
    return counts[1:]


def blocks_of(network: NetworkTopology, sizes: tuple[int, ...]) -> list[Block]:
    """The domains of the narrowest layer as blocks, in the order of the network.

    :raises ValueError: they do not go with these sizes, or a name cannot be written.
    """
    if not network.layers:
        raise ValueError("network: it has no layers, so there are no blocks")
    below: dict[tuple[str, ...], list[str]] = {}
    for node, path in paths_of(network).items():
        below.setdefault(path[:-1], []).append(checked_name(node, "node"))
    names = distinct_names(below)
    found = [Block(checked_name(names[path], "block"), tuple(below[path])) for path in below]
    _counts(found, sizes, Field(None, "block_sizes"))
    return found
