"""A backend of networkx: its weighted matchings, computed here.

networkx finds it by the entry points `networkx.backends` and `networkx.backend_info` when hivecore
is installed beside it; nothing is to be imported:

    nx.max_weight_matching(G, backend="hivecore")          # this call
    nx.config.backend_priority = ["hivecore"]              # or every call that it can serve

Weights may be Python or NumPy integers and floats; one that forbids an edge may be as bad as any.
What hivecore cannot take (a `Fraction`, an integer beyond 2**59, an infinite weight) raises
`NotImplementedError`, and with a priority networkx goes on to the next backend, in the end to its
own algorithm.
"""

import contextlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

__all__ = [
    "GraphView",
    "can_run",
    "convert_from_nx",
    "convert_to_nx",
    "get_info",
    "max_weight_matching",
    "min_weight_matching",
    "should_run",
]

_WORTH_IT = 8  # edges; below, networkx is done before a graph is converted


class GraphView:
    """A networkx graph as this backend sees it: the graph itself, read again at every call.

    networkx keeps converted graphs and does not notice ``G[u][v]["weight"] = 2``; a copy of the
    weights would go stale.

    >>> import networkx as nx
    >>> graph = nx.Graph([("a", "b")])
    >>> convert_from_nx(graph).graph is graph
    True
    """

    __networkx_backend__ = "hivecore"

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def is_directed(self) -> bool:
        """Whether the edges have a direction; no matching is computed then."""
        return bool(self.graph.is_directed())

    def is_multigraph(self) -> bool:
        """Whether there may be parallel edges; no matching is computed then."""
        return bool(self.graph.is_multigraph())


def get_info() -> dict[str, Any]:
    """What networkx shows of this backend, and which functions it has.

    >>> sorted(get_info()["functions"])
    ['max_weight_matching', 'min_weight_matching']
    """
    exact = (
        "Exact and proven for integers up to 2**59 and for floats; of more than 2**17 edges floats "
        "may be rounded, with a warning and by less than float arithmetic loses. Other weights are "
        "left to networkx."
    )
    return {
        "backend_name": "hivecore",
        "project": "hivecore",
        "package": "hivecore.interop.networkx",
        "short_summary": "Weighted matchings in native code, exact and certified.",
        "functions": {
            "max_weight_matching": {"additional_docs": exact},
            "min_weight_matching": {"additional_docs": exact},
        },
    }


def convert_from_nx(graph: Any, **_: Any) -> GraphView:
    """The networkx graph as an argument of this backend, at no cost.

    >>> import networkx as nx
    >>> convert_from_nx(nx.path_graph(3)).is_directed()
    False
    """
    return GraphView(graph)


def convert_to_nx(result: Any, **_: Any) -> Any:
    """The networkx graph behind a `GraphView`; any other result as it is.

    >>> convert_to_nx({(0, 1)})
    {(0, 1)}
    """
    return result.graph if isinstance(result, GraphView) else result


def can_run(name: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> bool | str:
    """Whether the call is one of ours; else the reason.

    >>> can_run("max_weight_matching", ("a graph",), {"weight": len})
    'weight must name an edge attribute'
    """
    if name not in get_info()["functions"]:
        return f"{name} is not implemented"
    args = tuple(args)
    at = {"max_weight_matching": 2, "min_weight_matching": 1}[name]
    weight = args[at] if len(args) > at else kwargs.get("weight")
    return "weight must name an edge attribute" if callable(weight) else True


def should_run(name: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> bool | str:
    """Whether the call is worth a conversion; else the reason.

    >>> import networkx as nx
    >>> should_run("max_weight_matching", (nx.path_graph(100),), {})
    True
    >>> should_run("max_weight_matching", (nx.path_graph(3),), {})
    'the graph has too few edges'
    """
    graph: Any = next(iter(args), kwargs.get("G"))
    if convert_to_nx(graph).number_of_edges() < _WORTH_IT:
        return "the graph has too few edges"
    return True


def max_weight_matching(
    G: Any, maxcardinality: bool = False, weight: Hashable | None = "weight"
) -> set[tuple[Hashable, Hashable]]:
    """A maximum-weight matching as `networkx.max_weight_matching` defines it: a set of edges.

    :param G: an undirected networkx graph without parallel edges, or its `GraphView`; loops are
        ignored.
    :param maxcardinality: only matchings of as many edges as possible compete.
    :param weight: name of the edge attribute; None, or where an edge has none: 1.
    :raises networkx.NetworkXNotImplemented: a directed graph or a multigraph.
    :raises NotImplementedError: weights that are no integers or floats, or too large.
    :raises ValueError: a weight is not a number.

    >>> import networkx as nx
    >>> path = nx.path_graph(4)
    >>> nx.max_weight_matching(path, backend="hivecore") == {(0, 1), (2, 3)}
    True
    """
    from hivecore import matching

    with _refusals():
        nodes, graph = _numbered(G, weight)
        found = matching.max_weight_matching(graph, max_cardinality=bool(maxcardinality))
    return {(nodes[u], nodes[v]) for u, v in found.pairs.tolist()}


def min_weight_matching(
    G: Any, weight: Hashable | None = "weight"
) -> set[tuple[Hashable, Hashable]]:
    """The lightest matching of as many edges as possible: a set of edges.

    Arguments and errors as of `max_weight_matching`.

    >>> import networkx as nx
    >>> graph = nx.Graph()
    >>> graph.add_weighted_edges_from([("a", "b", 3), ("b", "c", 2)])
    >>> min_weight_matching(graph)
    {('b', 'c')}
    """
    from hivecore import matching

    with _refusals():
        nodes, graph = _numbered(G, weight)
        found = matching.min_weight_matching(graph)
    return {(nodes[u], nodes[v]) for u, v in found.pairs.tolist()}


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What is refused for its weights is left to others, as networkx asks a backend to say."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if "NaN" in str(error):
            raise
        raise NotImplementedError(str(error)) from None


def _numbered(graph: Any, weight: Hashable | None) -> tuple[list[Hashable], Any]:
    """The nodes by number, and the graph without loops as `hivecore.matching` takes it."""
    import numpy as np

    from hivecore.matching.read import networkx_edges

    graph = convert_to_nx(graph)
    _forget(graph)
    for kind, refused in (("directed", graph.is_directed()), ("multigraph", graph.is_multigraph())):
        if refused:
            import networkx as nx

            raise nx.NetworkXNotImplemented(f"not implemented for {kind} type")
    nodes, (n, ends, weights) = networkx_edges(graph, weight)
    if 2 * len(ends) < n * (n - 1):
        return nodes, (n, ends, weights)
    array = np.zeros((n, n), weights.dtype)  # of a complete graph: the sooner solved form
    u, v = ends.T
    array[u, v] = array[v, u] = weights
    return nodes, array


def _forget(graph: Any) -> None:
    """Take the view out of networkx' cache, which would warn that it may be stale: it never is."""
    cache = getattr(graph, "__networkx_cache__", None) or {}
    cache.get("backends", {}).pop("hivecore", None)
