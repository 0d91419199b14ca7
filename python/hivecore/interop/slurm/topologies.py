"""One topology of Slurm: what a file says of a network, and the network."""

from dataclasses import dataclass
from typing import Literal, get_args

from hivecore._arguments import as_bool, as_choice, as_instance, as_int, as_text, as_tuple
from hivecore.topology import NetworkTopology

__all__ = ["Plugin", "SlurmTopology"]

#: The plugin that reads it.
Plugin = Literal["tree", "block", "flat"]


@dataclass(frozen=True, slots=True, eq=False)
class SlurmTopology:
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
    block_sizes: tuple[int, ...] = ()
    cluster_default: bool = True

    def __post_init__(self) -> None:
        as_choice(self.plugin, "plugin", get_args(Plugin))
        network: object = self.network
        as_instance(network, "network", NetworkTopology)
        as_text(self.name, "name")
        as_bool(self.cluster_default, "cluster_default")
        sizes = tuple(
            as_int(one, "block_sizes", 1, 2**31)
            for one in as_tuple(self.block_sizes, "block_sizes")
        )
        if sizes and self.plugin != "block":
            raise ValueError(f"block_sizes: a topology of the plugin {self.plugin!r} has none")
        object.__setattr__(self, "block_sizes", sizes)
