"""Edges of a networkx graph: read from its dicts in native code as from its own view of them."""

import itertools
import sysconfig
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore import _matching
from hivecore.interop import networkx as backend
from hivecore.matching import max_weight_matching
from hivecore.matching.read import _as_numbers, _from_dicts, _from_edge_view, _from_mixed

nx = pytest.importorskip("networkx")

of_dicts = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="without the GIL dicts are not read in native code: threads may change them",
)

NODES = st.one_of(
    st.integers(-3, 3),
    st.integers(1000, 1003),
    st.integers(0, 3).map(float),
    st.sampled_from("abc"),
    st.tuples(st.integers(0, 1), st.integers(2**70, 2**70 + 1)),
)
WEIGHTS = [
    st.integers(-9, 9),
    st.integers(-(2**59), 2**59),
    st.integers(2**58, 2**70),
    st.floats(-9, 9),
    st.floats(),
    st.booleans(),
    st.sampled_from([np.int64(3), np.float32(0.5), 2, 0.25, 1e300, float("nan"), 2**80]),
    st.sampled_from([None, "3", 4]),
]


@st.composite
def graphs(draw):
    """With loops, isolated nodes, equal nodes that are not the same object, and gaps in weights."""
    graph = nx.Graph()
    graph.add_nodes_from(draw(st.lists(NODES, max_size=4)))
    edges = draw(st.lists(st.tuples(NODES, NODES, draw(st.sampled_from(WEIGHTS))), max_size=20))
    graph.add_weighted_edges_from(edges, weight="weight")
    graph.add_edges_from(draw(st.lists(st.tuples(NODES, NODES), max_size=5)))
    return graph


def outcome(call, *arguments):
    try:
        result = call(*arguments)
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    return result.dtype, result.shape, result.tolist()


@of_dicts
@given(graphs(), st.sampled_from(["weight", "price", None]))
@examples(400)
def test_edges_and_weights_come_in_the_order_of_the_view(graph, weight):
    number = {node: i for i, node in enumerate(graph)}
    ends, weights = _from_dicts(graph, number, weight)
    other_ends, other_weights = _from_edge_view(graph, number, weight)
    assert ends.tolist() == other_ends.tolist()
    assert ends.shape == other_ends.shape
    assert all(item is other for item, other in zip(weights, other_weights, strict=True))
    assert ends.dtype == np.int64


@given(st.sampled_from(WEIGHTS).flatmap(lambda kind: st.lists(kind, min_size=1, max_size=6)))
@examples(300)
def test_numbers_become_an_array_as_if_each_was_looked_at(weights):
    native = outcome(_as_numbers, list(weights))
    plain = _matching.plain_numbers(weights)
    if plain is None:
        return
    assert plain.dtype == (np.float64 if type(weights[0]) is float else np.int64)
    if np.isfinite(plain).all():
        assert native == outcome(_from_mixed, weights)
    else:
        assert native[0] is ValueError


@pytest.mark.parametrize("values", [[], [1], [2**59, -(2**59)], [0.5, float("inf")]])
def test_plain_numbers_are_converted(values):
    assert _matching.plain_numbers(values).tolist() == values


@pytest.mark.parametrize(
    "values", [[True], [1, 0.5], [0.5, 1], [2**59 + 1], [2**80], [np.int64(1)], [None], ["1"]]
)
def test_other_numbers_are_not(values):
    assert _matching.plain_numbers(values) is None


class Named(nx.Graph):
    """A graph that tells its edges in its own way."""

    @property
    def edges(self):
        return nx.path_graph(2).edges


UNUSUAL = {
    "a multigraph": nx.MultiGraph([(0, 1), (0, 1)]),
    "its own edges": Named([(0, 1), (1, 2)]),
    "a view": nx.subgraph_view(nx.path_graph(4), filter_node=lambda node: node < 3),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_graphs_are_read_by_their_view(name):
    graph = UNUSUAL[name]
    assert _from_dicts(graph, {node: i for i, node in enumerate(graph)}, "weight") is None
    assert max_weight_matching(graph).cardinality == 1
    assert _from_dicts(nx.path_graph(2), {0: 0, 1: 1}, 7) is None  # what True means is networkx'


@of_dicts
def test_dicts_that_are_something_else_are_declined():
    number = {"a": 0, "b": 1}
    for adjacency in ({"a": [1]}, {"a": {"b": None}}, {"z": {}}, {"a": {"z": {}}}):
        assert _matching.edges_in(adjacency, number, "weight") is None
    for wrong in ({"a": 0, "b": 2}, {"a": -1}):
        with pytest.raises(ValueError, match="number must be"):
            _matching.edges_in({}, wrong, "weight")
    with pytest.raises(TypeError):
        _matching.edges_in([], number, "weight")


class Node:
    """Equal to another by its name; `act` runs whenever two are compared."""

    act = staticmethod(lambda: None)

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        Node.act()
        return self.name == other.name


@pytest.fixture
def equal_nodes(monkeypatch):
    """Dicts in which each node is another object wherever it occurs."""
    adjacency = {Node(i): {Node(j): {"weight": 1} for j in range(40) if i != j} for i in range(40)}
    yield adjacency, {Node(i): i for i in range(40)}
    monkeypatch.undo()


@of_dicts
def test_nodes_that_are_equal_are_the_same(equal_nodes):
    ends, weights = _matching.edges_in(*equal_nodes, "weight")
    assert ends.tolist() == [[i, j] for i in range(40) for j in range(i + 1, 40)]
    assert weights == [1] * 780


@of_dicts
@pytest.mark.parametrize("at", ["rows", "numbers", "one row"])
def test_dicts_that_change_while_they_are_read_are_an_error(equal_nodes, monkeypatch, at):
    adjacency, number = equal_nodes
    row = next(iter(adjacency.values()))
    changed = {"rows": adjacency, "one row": row, "numbers": number}[at]
    count = itertools.count()
    monkeypatch.setattr(Node, "act", staticmethod(lambda: next(count) > 3 and changed.clear()))
    with pytest.raises(RuntimeError, match="changed size") if at != "numbers" else nullcontext():
        assert _matching.edges_in(adjacency, number, "weight") is None


@of_dicts
def test_an_error_of_a_node_goes_through(equal_nodes, monkeypatch):
    def fail():
        raise ZeroDivisionError

    monkeypatch.setattr(Node, "act", staticmethod(fail))
    with pytest.raises(ZeroDivisionError):
        _matching.edges_in(*equal_nodes, "weight")


@pytest.mark.parametrize("n", [0, 1, 2, 5, 40, 80])
def test_a_complete_graph_is_matched_as_its_array(n):
    graph = nx.complete_graph(n)
    for u, v in graph.edges:
        graph[u][v]["weight"] = (u * 7 + v * 5) % 11
    weight = max_weight_matching(nx.to_numpy_array(graph, dtype=int)).weight if n else 0
    pairs = backend.max_weight_matching(graph)
    assert sum(graph.edges[pair]["weight"] for pair in pairs) == weight
    assert len(backend.min_weight_matching(graph)) == n // 2
