"""Placement policies of tenants: what they see, and two examples.

A policy chooses a virtual node of its tenant for each pod. The cluster decides which leaves the pod
gets there and which hardware backs them. So no policy can break the guarantee of a tenant.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_name, as_tuple
from hivecore.cells.affinity_group import AffinityGroup
from hivecore.cells.books.cluster_names import ClusterNames

__all__ = [
    "ClusterView",
    "IntraVCPolicy",
    "NodeOrderPolicy",
    "VirtualNode",
    "VirtualTree",
]


class VirtualTree(NamedTuple):
    """Equal virtual cells of a tenant, and the physical cells that they are bound to."""

    chain: str
    level: str
    roots: int
    pin: str | None
    """Name of the pinned cell; ``None``: not pinned."""
    bindings: dict[str, npt.NDArray[np.int64]]
    """Level -> the physical cell of each virtual cell, -1: not bound; left to right over all
    ``roots`` trees, tree by tree."""


class VirtualNode(NamedTuple):
    """A virtual cell of node level, or a whole owned cell below it."""

    number: int
    """What a policy returns."""
    level: str
    """The level of the owned cell around it."""
    cell: int
    """Its number among the nodes of the tenant's cells of that level and chain."""
    leaves: int
    free: int
    """Leaves that a group can get here without preempting another group of the tenant."""
    used: int
    node: str | None
    """The node that backs it; ``None``: not bound yet."""


class ClusterView(NamedTuple):
    """The virtual nodes of a tenant in one chain, or in one pinned cell."""

    chain: str
    nodes: tuple[VirtualNode, ...]

    @classmethod
    def of(cls, names: ClusterNames, units: Iterable[Sequence[int]], chain: int) -> "ClusterView":
        """Internal: the view of the kernel's rows (pool, cell, leaves, free, used, node)."""
        levels, nodes = names.levels[chain], names.node_names[chain]
        return cls(
            names.chains[chain],
            tuple(
                VirtualNode(
                    index,
                    levels[names.pools[pool].level],
                    cell,
                    leaves,
                    free,
                    used,
                    None if node < 0 else nodes[node],
                )
                for index, (pool, cell, leaves, free, used, node) in enumerate(units)
            ),
        )


class IntraVCPolicy(Protocol):
    """Chooses virtual nodes for the guaranteed groups of one tenant."""

    def choose(self, view: ClusterView, group: AffinityGroup, /) -> Iterable[int] | None:
        """One `VirtualNode.number` for each pod, in the order of ``group.sizes``; ``None``: wait.

        If the leaves there are not free, the group waits, unless groups of its tenant with a lower
        priority can be preempted there. The method may read the cluster, but not change it; its
        exceptions reach the caller of ``schedule``.
        """


class NodeOrderPolicy:
    """Uses nodes in a given order; virtual nodes that are not bound come last.

    :param nodes: names of nodes, the preferred first; other nodes follow.

    >>> view = ClusterView("c", (VirtualNode(0, "node", 0, 4, 1, 3, "c/0"),
    ...                          VirtualNode(1, "node", 1, 4, 2, 2, "c/5")))
    >>> NodeOrderPolicy(["c/5", "c/0"]).choose(view, AffinityGroup("g", "A", [(1, 1)]))
    [1]
    """

    def __init__(self, nodes: Iterable[str]) -> None:
        names = (as_name(name, f"nodes[{i}]") for i, name in enumerate(as_tuple(nodes, "nodes")))
        self._rank = {name: i for i, name in enumerate(names)}

    def choose(self, view: ClusterView, group: AffinityGroup, /) -> list[int] | None:
        """The first fitting virtual node for each pod in that order, never going back."""
        last = len(self._rank)

        def place(node: VirtualNode) -> tuple[Any, ...]:
            return node.node is None, self._rank.get(str(node.node), last), node.number

        nodes, chosen = sorted(view.nodes, key=place), [0] * len(group.sizes)
        walk, taken = 0, 0
        for pod in sorted(range(len(group.sizes)), key=lambda pod: group.sizes[pod]):
            while walk < len(nodes) and nodes[walk].free - taken < group.sizes[pod]:
                walk, taken = walk + 1, 0
            if walk == len(nodes):
                return None
            chosen[pod] = nodes[walk].number
            taken += group.sizes[pod]
        return chosen
