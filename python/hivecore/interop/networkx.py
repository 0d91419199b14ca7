"""A backend of networkx: its weighted matchings, computed here.

networkx finds it by the entry points `networkx.backends` and `networkx.backend_info` when hivecore
is installed beside it; nothing is to be imported:

    nx.max_weight_matching(G, backend="hivecore")          # this call
    nx.config.backend_priority = ["hivecore"]              # or every call that it can serve

Weights may be Python or NumPy integers and floats. What hivecore cannot take (a `Fraction`, an
integer beyond 2**59, an infinite weight) raises `NotImplementedError`, and with a priority networkx
goes on to the next backend, in the end to its own algorithm.
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
    """A networkx graph as this backend sees it: the graph itself, read anew at every call.

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
    exact = "Exact for integers below 2**59 and for most floats; the answer is proven optimal."
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

    nodes, graph = _edge_list(G, weight)
    with _refusals():
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

    nodes, graph = _edge_list(G, weight)
    with _refusals():
        found = matching.min_weight_matching(graph)
    return {(nodes[u], nodes[v]) for u, v in found.pairs.tolist()}


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What is refused for its weights is left to others, as networkx asks a backend to say."""
    try:
        yield
    except ValueError as error:
        raise NotImplementedError(str(error)) from None


def _edge_list(
    graph: Any, weight: Hashable | None
) -> tuple[list[Hashable], tuple[int, list[tuple[int, int]], Any]]:
    """The nodes by number, and the graph without loops as `hivecore.matching` takes it."""
    graph = convert_to_nx(graph)
    for kind, refused in (("directed", graph.is_directed()), ("multigraph", graph.is_multigraph())):
        if refused:
            import networkx as nx

            raise nx.NetworkXNotImplemented(f"not implemented for {kind} type")
    nodes = list(graph)
    number = {node: i for i, node in enumerate(nodes)}
    edges, weights = [], []
    for u, v, value in (
        graph.edges(data=weight, default=1)
        if weight is not None
        else ((u, v, 1) for u, v in graph.edges)
    ):
        if u != v:
            edges.append((number[u], number[v]))
            weights.append(value)
    return nodes, (len(nodes), edges, _as_array(weights))


def _as_array(weights: list[Any]) -> Any:
    """The weights as an array of int64 or, if one of them is a float, of float64."""
    import numpy as np

    kinds = {type(weight) for weight in weights}
    if all(issubclass(kind, (int, np.integer, np.bool_)) for kind in kinds):
        numbers = [int(weight) for weight in weights]
        if any(abs(number) > 2**59 for number in numbers):
            raise NotImplementedError("weights beyond 2**59 in magnitude")
        return np.array(numbers, dtype=np.int64)
    if not all(issubclass(kind, (int, float, np.integer, np.floating, np.bool_)) for kind in kinds):
        names = sorted(kind.__name__ for kind in kinds)
        raise NotImplementedError(f"weights must be integers or floats, not {', '.join(names)}")
    try:
        array = np.array([float(weight) for weight in weights])
    except OverflowError:
        raise NotImplementedError("weights that are too large for float64") from None
    if np.isnan(array).any():
        raise ValueError("weight is NaN for an edge")
    if np.isinf(array).any() or any(a != b for a, b in zip(array.tolist(), weights, strict=True)):
        raise NotImplementedError("weights that float64 does not hold exactly, or infinite ones")
    return array
