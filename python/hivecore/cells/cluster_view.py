"""How a policy of its own places a tenant's groups: what it sees, and two examples.

A policy decides within the tenant's virtual cells only. It names a virtual node for each pod;
which leaves the pod gets there, and which hardware backs them, the cluster decides, so whatever
a policy answers, every tenant's guarantee holds.
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
    "PackingPolicy",
    "VirtualNode",
    "VirtualTree",
]


class VirtualTree(NamedTuple):
    """Equal virtual cells that a tenant owns, and what they are bound to."""

    chain: str
    level: str
    roots: int
    pin: str | None
    """Name of the pinned cell; ``None``: not pinned."""
    bindings: dict[str, npt.NDArray[np.int64]]
    """Level -> the physical cell of each virtual cell, -1 while it has none, left to right over
    all ``roots`` trees; a tree's cells of a level stand together."""


class VirtualNode(NamedTuple):
    """A virtual cell of node level, or a whole owned cell below it."""

    number: int
    """What a policy answers."""
    level: str
    """Level of the owned cell that it is a part of."""
    cell: int
    """Its number among the nodes of the tenant's cells of that level and chain."""
    leaves: int
    free: int
    """Leaves that a group can have here without preempting another one of the tenant."""
    used: int
    node: str | None
    """The node that backs it; ``None``: not bound, any suitable one will do."""


class ClusterView(NamedTuple):
    """What a policy sees: one chain of its tenant, or one pinned cell."""

    chain: str
    nodes: tuple[VirtualNode, ...]

    @classmethod
    def of(cls, names: ClusterNames, units: Iterable[Sequence[int]], chain: int) -> "ClusterView":
        """Names for the units of the core."""
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
        """One `VirtualNode.number` per pod, in the order of ``group.sizes``.

        What it raises, the caller of ``schedule`` gets. It may look at the cluster, not change it.
        ``None``: the group has to wait. A choice that the leaves there do not allow makes it wait
        too, unless groups of the tenant with a lower priority can be preempted there.
        """


class PackingPolicy:
    """Puts pods where most leaves are used, small pods first: the native policy, to build upon.

    It walks the virtual nodes once for all pods, and knows neither racks nor preemption.

    >>> view = ClusterView("c", (VirtualNode(0, "node", 0, 4, 4, 0, None),
    ...                          VirtualNode(1, "node", 1, 4, 2, 2, "c/5")))
    >>> PackingPolicy().choose(view, AffinityGroup("g", "A", [(1, 4), (1, 1)]))
    [0, 1]
    """

    def choose(self, view: ClusterView, group: AffinityGroup, /) -> list[int] | None:
        """The first fitting virtual node for each pod, never going back."""
        return _next_fit(sorted(view.nodes, key=lambda n: (-n.used, n.leaves, n.number)), group)


class NodeOrderPolicy:
    """Follows a given order of nodes; virtual nodes that are not bound come after those.

    :param nodes: names of nodes, the most wanted first. Others come after the named ones.

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

        return _next_fit(sorted(view.nodes, key=place), group)


def _next_fit(nodes: list[VirtualNode], group: AffinityGroup) -> list[int] | None:
    chosen = [0] * len(group.sizes)
    walk, taken = 0, 0
    for pod in sorted(range(len(group.sizes)), key=lambda pod: group.sizes[pod]):
        while walk < len(nodes) and nodes[walk].free - taken < group.sizes[pod]:
            walk, taken = walk + 1, 0
        if walk == len(nodes):
            return None
        chosen[pod] = nodes[walk].number
        taken += group.sizes[pod]
    return chosen
