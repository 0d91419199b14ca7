"""A set of suggested nodes, whose names are turned into numbers once."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, final
from weakref import ref

import msgspec

from hivecore._arguments import as_tuple
from hivecore._cells import are_same_names, are_strings, is_list_of_names
from hivecore._stateful import counted
from hivecore.cells.books.cluster_names import ClusterNames, Suggested

__all__ = ["NodeSet"]

_FEW = 4


@final
class NodeSet:
    """A set of node names for ``suggested_nodes``, for callers that suggest the same nodes often.

    :param nodes: the names; names that a cluster does not know are ignored.
    :raises TypeError: a name is no string.

    Immutable, for any clusters and several threads. The numbers of the nodes are kept for the last
    cluster that used the set, and its copies: O(nodes) at the first use and after a
    reconfiguration; later a set of all nodes of a chain costs nothing, another set a pass over an
    array of numbers. Iterates in the given order, each name once.

    >>> from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
    >>> chain = Chain(["gpu", "node"], [4], 2, nodes=["n1", "n2"])
    >>> cluster = CellCluster(ClusterSpec({"rack": chain}, {"A": {}}))
    >>> nodes = NodeSet(["n2", "elsewhere"])
    >>> group = AffinityGroup("train", "A", [(1, 4)], priority=-1)
    >>> cluster.schedule(group, suggested_nodes=nodes).placement[0].node
    'n2'
    """

    __slots__ = ("_given", "_looks", "_members", "_seen")

    def __init__(self, nodes: Iterable[str]) -> None:
        self._fill(nodes, "nodes")

    @classmethod
    def of(
        cls, nodes: "Iterable[str] | NodeSet", what: str, last: "NodeSet | None" = None
    ) -> "NodeSet":
        """The set of these nodes.

        :param what: the argument's name in messages.
        :param last: returned if it has the same names.
        """
        if isinstance(nodes, NodeSet):
            return nodes
        if last is not None and are_same_names(nodes, last._names()):
            return last
        new = object.__new__(cls)
        new._fill(nodes, what)
        return new

    @classmethod
    def of_json(cls, text: bytes) -> "NodeSet":
        """The set of the names in a JSON list of strings, which is decoded only when needed.

        :param text: UTF-8.
        :raises ValueError: the text is no list of strings.
        :raises TypeError: the text is not ``bytes``.
        """
        new = object.__new__(cls)
        new._take(text if is_list_of_names(text) else _read(text))
        return new

    def _fill(self, nodes: Iterable[str], what: str) -> None:
        names = as_tuple(nodes, what)
        if not are_strings(names):
            wrong = next(name for name in names if not isinstance(name, str))
            raise TypeError(f"{what} must be names, not {type(wrong).__name__}")
        self._take(names)

    def _take(self, given: tuple[str, ...] | bytes) -> None:
        self._given = given  # may hold a name twice
        self._members: frozenset[str] | None = None  # made when it pays
        self._looks = 0
        # Weak: the set does not keep a cluster alive.
        self._seen: tuple[ref[ClusterNames] | None, Suggested] = (None, [])

    def _names(self) -> tuple[str, ...]:
        given = self._given
        if isinstance(given, bytes):
            self._given = given = _read(given)
        return given

    def _set(self) -> frozenset[str]:
        if self._members is None:
            self._members = frozenset(self._names())
        return self._members

    def __contains__(self, name: object) -> bool:
        if self._looks >= _FEW:
            return name in self._set()
        self._looks += 1  # the set of one request is mostly used for one node
        given = self._given
        if isinstance(given, bytes) and isinstance(name, str) and "," not in name:
            return json.dumps(name).encode() in given  # escaped names are not found here
        return name in self._names()

    def __len__(self) -> int:
        return len(self._set())

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(self._names()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSet) and self._set() == other._set()

    def __hash__(self) -> int:
        return hash(self._set())

    def __repr__(self) -> str:
        return f"NodeSet of {counted(len(self), 'node')}"

    def __reduce__(self) -> tuple[Any, ...]:
        return NodeSet, (self._names(),)

    @property
    def ends(self) -> tuple[str, ...]:
        """The first and the last name."""
        names = self._names()
        return names[:1] + names[-1:]

    def numbers(self, names: ClusterNames) -> Suggested:
        """For each chain the numbers of its nodes in the set."""
        seen, numbers = self._seen
        if seen is None or seen() is not names:
            numbers = names.suggested(self._given)
            self._seen = (ref(names), numbers)
        return numbers


def _read(text: bytes) -> tuple[str, ...]:
    """The names in a JSON list; raises `ValueError`."""
    return tuple(msgspec.json.decode(text, type=list[str]))
