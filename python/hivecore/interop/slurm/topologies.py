"""One topology of Slurm: what a file says of a network, and the network."""

from typing import Annotated, Literal

from hivecore._record import Record, within
from hivecore.topology import NetworkTopology

__all__ = ["Plugin", "SlurmTopology"]

#: The plugin that reads it.
Plugin = Literal["tree", "block", "flat"]


class SlurmTopology(Record, frozen=True, eq=False):
    """A network with what else Slurm says of it.

    :param plugin: "tree", "block" or "flat".
    :param network: its layers are, in a tree, ``level0`` for the switches that nodes are at, and
        ``level1``, ``level2``, ... for those above; of blocks ``block``, and ``blocks4``, ... for
        so many of them one after the other. A flat one has no layers.
    :param name: of the topology; "" in ``topology.conf``, which has but one.
    :param block_sizes: of the block plugin: nodes of a base block, then of larger ones; none:
        larger blocks are Slurm's default, 2, 4, 8 and 16 blocks in a row.
    :param cluster_default: whether it is that of partitions which name none.
    :raises ValueError: an argument is out of range.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.interop.slurm import SlurmTopology
    >>> from hivecore.topology import NetworkTopology
    >>> racks = NetworkTopology(["rack"], {"n1": {"rack": "r1"}, "n2": {"rack": "r1"}})
    >>> SlurmTopology("tree", racks).cluster_default
    True
    """

    plugin: Plugin
    network: NetworkTopology
    name: str = ""
    block_sizes: tuple[Annotated[int, within(1, 2**31)], ...] = ()
    cluster_default: bool = True

    def __post_init__(self) -> None:
        self._check()
        if self.block_sizes and self.plugin != "block":
            raise ValueError(f"block_sizes: a topology of the plugin {self.plugin!r} has none")
