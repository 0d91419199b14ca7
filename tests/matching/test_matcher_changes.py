"""A matcher after any changes == the same graph solved from scratch, each answer proven."""

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from profiles import examples

from hivecore.matching import Matcher, max_weight_matching

FEW = st.integers(-1, 3)
MANY = st.integers(-10, 1000)
FLOATS = st.sampled_from([0.1, 0.2, 0.30000000000000004, 0.3, 1 / 3, -0.5, 0.0, 1.0, 2.0**-40])


class Changes(RuleBasedStateMachine):
    """The model: a dictionary of edges among the vertices that are there."""

    @initialize(n=st.integers(0, 9), weights=st.sampled_from([FEW, MANY, FLOATS]), data=st.data())
    def begin(self, n, weights, data):
        self.weights = st.one_of(weights, weights, st.none())
        pairs = [(u, v) for v in range(n) for u in range(v)]
        drawn = data.draw(st.lists(self.weights, min_size=len(pairs), max_size=len(pairs)))
        self.edges = {e: w for e, w in zip(pairs, drawn, strict=True) if w is not None}
        self.vertices = set(range(n))
        self.dtype = float if weights is FLOATS else np.int64
        self.matcher = Matcher(self.graph(n))

    def graph(self, n):
        ends = np.array(sorted(self.edges), dtype=np.int64).reshape(-1, 2)
        weights = np.array([self.edges[u, v] for u, v in ends.tolist()], dtype=self.dtype)
        return n, ends, weights

    def row(self, data, n):
        """A row for the matcher, and the weights that are edges."""
        drawn = data.draw(st.lists(self.weights, min_size=n, max_size=n))
        if self.dtype is not float:
            return [0 if w is None else w for w in drawn], [0 if w is None else w for w in drawn]
        return [np.nan if w is None else w for w in drawn], drawn

    def write(self, v, drawn):
        self.edges = {e: w for e, w in self.edges.items() if v not in e}
        for u in self.vertices - {v}:
            if u < len(drawn) and drawn[u] is not None:
                self.edges[min(u, v), max(u, v)] = drawn[u]

    def some_vertex(self, data):
        return data.draw(st.sampled_from(sorted(self.vertices)))

    @precondition(lambda self: self.vertices)
    @rule(data=st.data())
    def set_vertex(self, data):
        v = self.some_vertex(data)
        row, drawn = self.row(data, self.matcher.n)
        self.matcher.set_vertex(v, row)
        self.write(v, drawn)

    @precondition(lambda self: self.vertices)
    @rule(data=st.data())
    def remove_vertex(self, data):
        v = self.some_vertex(data)
        self.matcher.remove_vertex(v)
        self.vertices.remove(v)
        self.write(v, [])

    @precondition(lambda self: len(self.vertices) < 12)
    @rule(data=st.data())
    def add_vertex(self, data):
        row, drawn = self.row(data, self.matcher.n)
        v = self.matcher.add_vertex(row)
        assert v not in self.vertices
        self.write(v, drawn)
        self.vertices.add(v)

    @precondition(lambda self: len(self.vertices) > 1)
    @rule(data=st.data())
    def set_edge(self, data):
        u = self.some_vertex(data)
        v = data.draw(st.sampled_from(sorted(self.vertices - {u})))
        weight = data.draw(self.weights)
        self.matcher.set_edge(u, v, weight)
        self.edges[min(u, v), max(u, v)] = weight
        if weight is None:
            del self.edges[min(u, v), max(u, v)]

    @rule()
    def branch(self):
        self.matcher = self.matcher.copy()

    @rule()
    def solve(self):
        self.matcher.check()
        matching = self.matcher.solve()
        assert matching.exact
        scratch = max_weight_matching(self.graph(self.matcher.n))
        assert matching.weight == scratch.weight
        assert self.matcher.vertices.tolist() == sorted(self.vertices)


Changes.TestCase.settings = examples(150, stateful_step_count=30)
TestChanges = Changes.TestCase


@pytest.mark.parametrize("seed", range(4))
def test_long_sequences_of_batches(seed):
    rng = np.random.default_rng(seed)
    n = [20, 41, 60, 120][seed]
    high = [4, 1000, 2**40, 50][seed]
    weights = rng.integers(0, high, (n, n))
    weights = np.maximum(weights, weights.T)
    matcher = Matcher(weights)
    for step in range(150):
        for _ in range(int(rng.integers(1, 4)) if step % 20 else n // 2):
            v = int(rng.integers(n))
            if rng.random() < 0.6:
                row = rng.integers(0, high, n) * (rng.random(n) < rng.random())
                weights[v] = weights[:, v] = row
                matcher.set_vertex(v, row)
            else:
                u = (v + int(rng.integers(1, n))) % n
                weights[u, v] = weights[v, u] = rng.integers(0, high)
                matcher.set_edge(u, v, weights[u, v])
        assert matcher.solve().weight == max_weight_matching(weights).weight
        if step % 10 == 0:
            assert matcher.solve().verify()
