"""Blocks of nodes: Slurm's list of them as a network, and back.

Larger blocks are so many base blocks one after the other, in the order of the list; how many,
follows from the sizes: of sizes 30 and 120 four blocks make a larger one. Without sizes 2, 4, 8 and
16 blocks do, until one of them has all. A block with fewer nodes, or none, keeps its place in the
order.
"""

from typing import NamedTuple

from hivecore.interop.domain_names import distinct_names, paths_of
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.slurm._names import Note, checked_name, some
from hivecore.topology import NetworkTopology

__all__ = ["Block", "block_network", "blocks_of"]

_DEFAULT = (2, 4, 8, 16)
_MOST = 2**15  # of base blocks in a larger one


class Block(NamedTuple):
    """What a line says of a block."""

    name: str
    nodes: tuple[str, ...]
    field: Field = Field(None)
    """Where it stands."""


def block_network(
    blocks: list[Block], sizes: tuple[int, ...], whole: Field, note: Note
) -> NetworkTopology:
    """The network of these blocks.

    :param sizes: as the file has them; none: the larger blocks are Slurm's default.
    :param whole: where they stand, for messages.
    :param note: receives nodes that are in two blocks: the first one keeps them.
    :raises ValueError: a block is there twice, there is no node, or a size does not fit.
    """
    counts = _counts(sizes, whole) if sizes else _default_counts(len(blocks))
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
        taken = [node for node in block.nodes if node in labels]
        if taken:
            note(block.field, f"in another block already, and kept there: {some(taken)}")
        labels |= {node: place for node in block.nodes if node not in labels}
    if not labels:
        raise whole.error("there is no node")
    with whole.named():
        return NetworkTopology([*layers, "block"], labels)


def _counts(sizes: tuple[int, ...], whole: Field) -> list[int]:
    """Of how many base blocks the larger ones are."""
    counts = set()
    for size in sizes:
        if size < 1:
            raise whole.error(f"a size is {size}")
        count, rest = divmod(size, sizes[0])
        if rest or count < 1 or count & (count - 1) or count > _MOST:
            rule = f"{sizes[0]}, the first one, times a power of two up to {_MOST}"
            raise whole.error(f"the block size {size} must be {rule}")
        counts.add(count)
    return sorted(counts)[1:]


def _default_counts(blocks: int) -> list[int]:
    enough = next((i for i, count in enumerate(_DEFAULT) if count >= blocks), len(_DEFAULT))
    return list(_DEFAULT[: enough + 1]) if blocks > 1 else []


def blocks_of(network: NetworkTopology, sizes: tuple[int, ...]) -> list[Block]:
    """The domains of the narrowest layer as blocks, in the order of the network.

    :raises ValueError: sizes do not fit each other, or a name cannot be written.
    """
    if not network.layers:
        raise ValueError("network: it has no layers, so there are no blocks")
    below: dict[tuple[str, ...], list[str]] = {}
    for node, path in paths_of(network).items():
        below.setdefault(path[:-1], []).append(checked_name(node, "node"))
    names = distinct_names(below)
    _counts(sizes, Field(None, "block_sizes"))
    return [Block(checked_name(names[path], "block"), tuple(below[path])) for path in below]
