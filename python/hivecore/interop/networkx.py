"""A networkx backend for weighted matchings.

networkx finds it through the entry points `networkx.backends` and `networkx.backend_info`, without
an import:

    nx.max_weight_matching(G, backend="hivecore")          # this call
    nx.config.backend_priority = ["hivecore"]              # or every call that it can serve

Weights may be Python or NumPy integers and floats; -1e300 may forbid an edge. Other weights (a
`Fraction`, an integer beyond 2**59, infinity) raise `NotImplementedError`; with a priority,
networkx then tries the next backend and finally its own algorithm.
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

_WORTH_IT = 8  # edges; for fewer, networkx itself is faster than a conversion


class GraphView:
    """A networkx graph as this backend sees it: the graph itself, read again at every call.

    networkx caches converted graphs and does not notice ``G[u][v]["weight"] = 2``, so a copy of the
    weights would become stale.

    >>> import networkx as nx
    >>> graph = nx.Graph([("a", "b")])
    >>> convert_from_nx(graph).graph is graph
    True
    """

    __networkx_backend__ = "hivecore"

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def is_directed(self) -> bool:
        """Whether edges have a direction; such graphs are refused."""
        return bool(self.graph.is_directed())

    def is_multigraph(self) -> bool:
        """Whether parallel edges are possible; such graphs are refused."""
        return bool(self.graph.is_multigraph())


def get_info() -> dict[str, Any]:
    """Return networkx' description of this backend and its functions.

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
    """Return a networkx graph as an argument of this backend, without a copy.

    >>> import networkx as nx
    >>> convert_from_nx(nx.path_graph(3)).is_directed()
    False
    """
    return GraphView(graph)


def convert_to_nx(result: Any, **_: Any) -> Any:
    """Return the networkx graph behind a `GraphView`; any other result unchanged.

    >>> convert_to_nx({(0, 1)})
    {(0, 1)}
    """
    return result.graph if isinstance(result, GraphView) else result


def can_run(name: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> bool | str:
    """Return True if the backend supports a call, otherwise the reason as a string.

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
    """Return True if a call is large enough to be worth a conversion, otherwise the reason.

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
    """Return the edges of a maximum-weight matching, as `networkx.max_weight_matching` defines it.

    :param G: an undirected networkx graph without parallel edges, or its `GraphView`; loops are
        ignored.
    :param maxcardinality: consider only matchings with the most edges.
    :param weight: an edge attribute; None, or an edge without it, means weight 1.
    :raises networkx.NetworkXNotImplemented: the graph is directed or a multigraph.
    :raises NotImplementedError: weights are not integers or floats, or too large.
    :raises ValueError: a weight is not a number.

    >>> import networkx as nx
    >>> path = nx.path_graph(4)
    >>> nx.max_weight_matching(path, backend="hivecore") == {(0, 1), (2, 3)}
    True
    """
    from hivecore import matching

    with _refusals():
        nodes, graph = _numbered(G, weight)
        edges = matching.max_weight_matching(graph, max_cardinality=bool(maxcardinality))
    return {(nodes[u], nodes[v]) for u, v in edges.pairs.tolist()}


def min_weight_matching(
    G: Any, weight: Hashable | None = "weight"
) -> set[tuple[Hashable, Hashable]]:
    """Return the edges of the lightest among the matchings with the most edges.

    Arguments and errors as in `max_weight_matching`.

    >>> import networkx as nx
    >>> graph = nx.Graph()
    >>> graph.add_weighted_edges_from([("a", "b", 3), ("b", "c", 2)])
    >>> min_weight_matching(graph)
    {('b', 'c')}
    """
    from hivecore import matching

    with _refusals():
        nodes, graph = _numbered(G, weight)
        edges = matching.min_weight_matching(graph)
    return {(nodes[u], nodes[v]) for u, v in edges.pairs.tolist()}


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn refused weights into `NotImplementedError`, so that networkx tries other backends."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if "NaN" in str(error):
            raise
        raise NotImplementedError(str(error)) from None


def _numbered(graph: Any, weight: Hashable | None) -> tuple[list[Hashable], Any]:
    """Return the nodes in order, and the graph without loops for `hivecore.matching`."""
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
    array = np.zeros((n, n), weights.dtype)  # a complete graph, which is solved faster as an array
    u, v = ends.T
    array[u, v] = array[v, u] = weights
    return nodes, array


def _forget(graph: Any) -> None:
    """Remove the view from networkx' cache, which would warn that it may be stale."""
    cache = getattr(graph, "__networkx_cache__", None) or {}
    cache.get("backends", {}).pop("hivecore", None)
