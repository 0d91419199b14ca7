"""The networkx backend: found by networkx, of the same results, and honest about its limits."""

import os
import re
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from hivecore.interop import networkx as backend

nx = pytest.importorskip("networkx")


@pytest.fixture
def graph():
    """A ring of ten with chords, integer weights, one edge without a weight."""
    graph = nx.Graph()
    graph.add_nodes_from("abcdefghij")
    rng = np.random.default_rng(0)
    for i in range(10):
        for step in (1, 3):
            u, v = "abcdefghij"[i], "abcdefghij"[(i + step) % 10]
            graph.add_edge(u, v, weight=int(rng.integers(-3, 20)), price=float(rng.random()))
    del graph.edges["a", "b"]["weight"]
    return graph


def weigh(graph, matching, attribute="weight"):
    assert nx.is_matching(graph, matching)
    return sum(graph.edges[pair].get(attribute, 1) for pair in matching)


@pytest.fixture
def calls(monkeypatch):
    """The names of the functions that networkx called here."""
    names = []
    for name in backend.get_info()["functions"]:
        ours = getattr(backend, name)

        def counted(*args, _ours=ours, _name=name, **kwargs):
            names.append(_name)
            return _ours(*args, **kwargs)

        monkeypatch.setattr(backend, name, counted)
    return names


def run_networkx_tests(**environment):
    options = ["-rxX", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *options,
            "--pyargs",
            "networkx.algorithms.tests.test_matching",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "NETWORKX_TEST_BACKEND": "hivecore", **environment},
        check=False,
    )


def test_networkx_passes_its_own_tests_with_this_backend():
    pytest.importorskip("scipy")  # networkx' test mode wants it
    done = run_networkx_tests()
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 25
    reasons = re.findall(r"^XFAIL .* - (.*)$", done.stdout, re.MULTILINE)
    assert reasons
    for reason in reasons:  # what is left out are functions that this backend does not have
        assert re.match(r"'(is_\w*matching|maximal_matching)' not implemented by hivecore", reason)


def test_networkx_passes_all_of_them_when_it_may_fall_back():
    pytest.importorskip("scipy")
    done = run_networkx_tests(NETWORKX_FALLBACK_TO_NX="True")
    assert done.returncode == 0, done.stdout
    assert "xfailed" not in done.stdout


def test_networkx_knows_the_backend():
    assert "hivecore" in nx.utils.backends.backends
    assert "hivecore" in nx.max_weight_matching.backends
    assert "hivecore" in nx.min_weight_matching.backends
    assert "hivecore" not in nx.maximal_matching.backends


@pytest.mark.parametrize("weight", ["weight", "price", "unheard of", None])
def test_results_are_those_of_networkx(graph, calls, weight):
    for most in (False, True):
        ours = nx.max_weight_matching(graph, most, weight, backend="hivecore")
        theirs = nx.max_weight_matching(graph, most, weight, backend="networkx")
        assert weigh(graph, ours, weight) == pytest.approx(weigh(graph, theirs, weight))
        assert not most or len(ours) == len(theirs)
    ours = nx.min_weight_matching(graph, weight=weight, backend="hivecore")
    theirs = nx.min_weight_matching(graph, weight=weight, backend="networkx")
    assert len(ours) == len(theirs)
    assert weigh(graph, ours, weight) == pytest.approx(weigh(graph, theirs, weight))
    assert calls == ["max_weight_matching"] * 2 + ["min_weight_matching"]
    assert {type(node) for pair in ours for node in pair} == {str}
    assert {type(pair) for pair in ours} == {tuple}


def test_a_priority_sends_calls_here_and_hard_cases_elsewhere(graph, calls):
    with nx.config(backend_priority=["hivecore"]):
        nx.max_weight_matching(graph)
        assert calls == ["max_weight_matching"]
        small = nx.path_graph(3)
        assert len(nx.max_weight_matching(small)) == 1
        assert len(calls) == 1  # not worth a conversion
        for u, v in graph.edges:
            graph.edges[u, v]["weight"] = Fraction(graph.edges[u, v]["price"])
        edges = nx.max_weight_matching(graph)
        assert isinstance(weigh(graph, edges), Fraction)
        assert len(nx.maximal_matching(graph)) > 0


def test_a_second_call_with_the_same_graph_warns_of_nothing(graph):
    # Warnings are errors here; networkx warns where it uses a graph that it has kept.
    for _ in range(3):
        for name in backend.get_info()["functions"]:
            getattr(nx, name)(graph, backend="hivecore")
    assert not graph.__networkx_cache__.get("backends", {}).get("hivecore")


def test_forbidden_edges_cost_no_precision(graph):
    for i, (u, v) in enumerate(sorted(graph.edges)):
        graph[u][v]["weight"] = -(10.0 ** (3 + 29 * (i % 10))) if i % 5 == 0 else i / 7
    exact = nx.Graph()
    exact.add_weighted_edges_from(
        (u, v, int(Fraction(w) * 2**60)) for u, v, w in graph.edges(data="weight")
    )
    for most in (False, True):
        ours = nx.max_weight_matching(graph, most, backend="hivecore")
        theirs = nx.max_weight_matching(exact, most, backend="networkx")
        assert weigh(exact, ours) == weigh(exact, theirs)
    for graphs in (graph, exact):
        for u, v in graphs.edges:
            graphs[u][v]["weight"] *= -1
    ours = nx.min_weight_matching(graph, backend="hivecore")
    theirs = nx.min_weight_matching(exact, backend="networkx")
    assert weigh(exact, ours) == weigh(exact, theirs)


def test_a_weight_that_was_changed_in_place_counts(graph):
    before = nx.max_weight_matching(graph, backend="hivecore")
    u, v = sorted(set(graph.edges) - before - {(b, a) for a, b in before})[0]
    graph[u][v]["weight"] = 1000
    after = nx.max_weight_matching(graph, backend="hivecore")
    assert {(u, v), (v, u)} & after
    graph.add_edge("a", "z", weight=9999)
    assert ("a", "z") in nx.max_weight_matching(graph, backend="hivecore")


@pytest.mark.parametrize("kind", ["DiGraph", "MultiGraph", "MultiDiGraph"])
@pytest.mark.parametrize("name", ["max_weight_matching", "min_weight_matching"])
def test_directed_and_multigraphs_are_refused(kind, name):
    graph = getattr(nx, kind)([(0, 1)])
    for call in (getattr(backend, name), getattr(nx, name)):
        with pytest.raises(nx.NetworkXNotImplemented, match="not implemented for"):
            call(graph)
    with pytest.raises(nx.NetworkXNotImplemented):
        getattr(nx, name)(graph, backend="hivecore")
    with pytest.raises(nx.NetworkXNotImplemented):
        getattr(backend, name)(backend.convert_from_nx(graph))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (Fraction(1, 3), "not Fraction"),
        (Decimal("0.1"), "not Decimal"),
        ("1", "not str"),
        (2**60, "beyond 2"),
        (-(2**59) - 1, "beyond 2"),
        (float("inf"), "infinite"),
    ],
)
def test_other_weights_are_left_to_other_backends(weight, message):
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=weight)
    with pytest.raises(NotImplementedError, match=message):
        backend.max_weight_matching(graph)
    with pytest.raises(NotImplementedError):
        nx.max_weight_matching(graph, backend="hivecore")


def test_an_integer_that_a_float_cannot_hold_is_not_rounded():
    graph = nx.Graph()
    graph.add_weighted_edges_from([(0, 1, 2**53 + 1), (1, 2, 0.5)])
    with pytest.raises(NotImplementedError, match="does not hold exactly"):
        backend.max_weight_matching(graph)


def test_a_weight_that_is_no_number_is_an_error():
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=float("nan"))
    with pytest.raises(ValueError, match="weight is NaN"):
        nx.max_weight_matching(graph, backend="hivecore")


@pytest.mark.parametrize("make", [np.int8, np.uint64, np.float32, np.float64, bool, int, float])
def test_weights_of_every_number_type_are_taken(make):
    graph = nx.Graph()
    graph.add_weighted_edges_from([(0, 1, make(1)), (1, 2, make(3)), (2, 2, make(7))])
    edges = nx.max_weight_matching(graph, backend="hivecore")
    assert edges == ({(1, 2)} if make is not bool else edges)
    assert len(edges) == 1


def test_loops_are_ignored_and_an_empty_graph_has_an_empty_matching():
    for graph in (nx.Graph(), nx.Graph([(0, 0)]), nx.empty_graph(3)):
        assert nx.max_weight_matching(graph, backend="hivecore") == set()
        assert nx.min_weight_matching(graph, backend="hivecore") == set()


def test_a_function_as_weight_is_left_to_networkx():
    assert backend.can_run("max_weight_matching", ("G", False, len), {}) is not True
    assert backend.can_run("min_weight_matching", ("G",), {"weight": len}) is not True
    assert backend.can_run("max_weight_matching", ("G", len), {}) is True
    assert backend.can_run("maximal_matching", ("G",), {}) == "maximal_matching is not implemented"


def test_networkx_is_not_imported_before_it_is_needed():
    code = "import sys, hivecore.interop.networkx; print({'networkx', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
