"""Names of nodes that are suggested again and again, turned into numbers once."""

from collections.abc import Iterable, Iterator
from typing import Any, final
from weakref import ref

from hivecore._arguments import as_tuple
from hivecore.cells.books.cluster_names import ClusterNames, Suggested

__all__ = ["NodeSet"]


@final
class NodeSet:
    """A set of node names for ``suggested_nodes``, for callers that suggest the same ones often.

    :param nodes: the names; those that a cluster does not know belong to others.
    :raises TypeError: they are not names.

    It never changes, and may be used with any clusters and by several threads: what a cluster makes
    of it is kept for the last one that asked, and for its copies. O(nodes) at the first use and
    after a reconfiguration; then a set of all nodes of a chain costs nothing there, another one a
    pass over an array of numbers. Iterates in the order given, each name once.

    >>> from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
    >>> chain = Chain(["gpu", "node"], [4], 2, nodes=["n1", "n2"])
    >>> cluster = CellCluster(ClusterSpec({"rack": chain}, {"A": {}}))
    >>> nodes = NodeSet(["n2", "elsewhere"])
    >>> group = AffinityGroup("train", "A", [(1, 4)], priority=-1)
    >>> cluster.schedule(group, suggested_nodes=nodes).placement[0].node
    'n2'
    """

    __slots__ = ("_members", "_names", "_seen")

    def __init__(self, nodes: Iterable[str]) -> None:
        self._fill(nodes, "nodes")

    @classmethod
    def of(cls, nodes: "Iterable[str] | NodeSet", what: str) -> "NodeSet":
        """The set of these nodes, which may be one already; messages call them `what`."""
        if isinstance(nodes, NodeSet):
            return nodes
        made = object.__new__(cls)
        made._fill(nodes, what)
        return made

    def _fill(self, nodes: Iterable[str], what: str) -> None:
        names = as_tuple(nodes, what)
        try:
            "".join(names)  # the quickest look at the types of all
        except TypeError:
            wrong = next(name for name in names if not isinstance(name, str))
            raise TypeError(f"{what} must be names, not {type(wrong).__name__}") from None
        self._members = frozenset(names)
        if len(self._members) != len(names):
            names = tuple(dict.fromkeys(names))
        self._names: tuple[str, ...] = names
        # Weak: a set that is kept does not keep a cluster that is gone.
        self._seen: tuple[ref[ClusterNames] | None, Suggested] = (None, [])

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSet) and self._members == other._members

    def __hash__(self) -> int:
        return hash(self._members)

    def __repr__(self) -> str:
        return f"NodeSet of {len(self._names)} nodes"

    def __reduce__(self) -> tuple[Any, ...]:
        return NodeSet, (self._names,)

    def numbers(self, names: ClusterNames) -> Suggested:
        """Per chain the numbers of its nodes that are in the set."""
        seen, found = self._seen
        if seen is None or seen() is not names:
            found = names.suggested(self._members)
            self._seen = (ref(names), found)
        return found
