"""Victims of a reclaim, and whose end would do, against all subsets of running owners; and how
runtimes came about, worked out again from what the trace says.
"""

from itertools import combinations, permutations
from random import Random

import pytest
from profiles import SCALE, seeds
from quotas.decisions.searches import Kernel, drawn
from quotas.lives import Life

from hivecore.quotas import water_fill

SETTINGS = [{}, {"limit": "max"}, {"limit": "max", "scale_min": False}]


def subsets(names):
    return (set(some) for size in range(len(names) + 1) for some in combinations(names, size))


def crowded(settings, count):
    """Small trees in which some run, whatever the limits say, and some wait."""
    for seed in seeds(count):
        rng = Random(f"{seed} {settings} crowded")
        case = drawn(rng, 6)
        state = Kernel(*case, settings)
        for request in rng.sample(case[2], min(len(case[2]), rng.randint(2, 5))):
            state.start(request, rng.randint(1, request.count))
        yield state.tree


class Entitled:
    """Sums of a tree by name, and which running owners are over their runtime without others."""

    def __init__(self, tree, request):
        self.tree, self.asked = tree, tree.request(request)
        self.runtimes = {name: tree.runtime(name) for name in tree.quotas}
        self.total = tree.total()
        self.paths = {name: self.path(name) for name in tree.quotas}
        self.held = {
            name: {d: n * tree.members(name) for d, n in tree.request(name).amounts}
            for name in tree.owners
        }

    def path(self, name):
        results = [name]
        while parent := self.tree.quota(results[-1]).parent:
            results.append(parent)
        return results

    def used(self, place, gone):
        """At a quota, or "" for the whole tree."""
        return {
            d: sum(
                held.get(d, 0)
                for name, held in self.held.items()
                if name not in gone and place in ("", *self.paths[self.tree.request(name).quota])
            )
            for d in "xy"
        }

    def lacking(self, place, gone):
        """The dimensions in which what is asked for is too much."""
        more = 1 if self.tree.members(self.asked.name) else self.asked.min_count
        limits = self.runtimes[place] if place else self.total
        used = self.used(place, gone)
        return {d for d, n in self.asked.amounts if used[d] + n * more > limits.get(d, 0)}

    def is_entitled(self, gone):
        return not any(self.lacking(place, gone) for place in ("", *self.paths[self.asked.quota]))

    def may_go(self, name, gone):
        """Its quota is over its runtime in a dimension that it uses and that is lacking."""
        request = self.tree.request(name)
        quota = request.quota
        if not request.preemptible or quota == self.asked.quota or not self.held[name]:
            return False
        used, places = self.used(quota, gone), {"", *self.paths[quota]}
        wanted = set().union(
            *(self.lacking(p, gone) for p in ("", *self.paths[self.asked.quota]) if p in places)
        )
        return any(
            d in wanted and used[d] > self.runtimes[quota][d] and self.held[name].get(d, 0)
            for d in "xy"
        )

    def is_just(self, victims):
        """In some order each of them may go when those before him have gone."""
        return any(
            all(self.may_go(name, set(order[:i])) for i, name in enumerate(order))
            for order in permutations(sorted(victims))
        )


def pending(tree):
    """(owners that may have more members, the others that run)."""
    for request in tree.owners:
        if tree.members(request) < tree.request(request).count:
            yield request, [name for name in tree.owners if tree.members(name) and name != request]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_victims_use_what_is_lacking_beyond_their_runtime_and_none_of_them_could_stay(settings):
    outcomes = {"bind": 0, "preempt": 0, "wait": 0}
    for tree in crowded(settings, 100):
        for request, others in pending(tree):
            decision = tree.schedule(request)
            outcomes[decision.outcome] += 1
            if decision.outcome == "bind":
                continue
            model, victims = Entitled(tree, request), set(decision.victims)
            able = [some for some in subsets(others) if some and model.is_entitled(some)]
            just = [some for some in able if model.is_just(some)]
            if victims:
                assert victims in just
                assert not any(some < victims for some in just)
            if not able:
                assert decision.outcome == "wait"
    assert SCALE < 1 or min(outcomes.values()) > 5


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_end_of_some_is_named_if_that_of_any_would_do(settings):
    """And none of those named is named for nothing."""
    named = cheapest = 0
    for tree in crowded(settings, 60):
        for request, others in pending(tree):
            if tree.fits(request):
                continue
            able = []
            for some in subsets(others):
                branch = tree.copy()
                for name in some:
                    branch.release(name)
                if branch.fits(request):
                    able.append(some)
            explanation = [item for item in tree.explain(request).changes if item.kind == "release"]
            if set(others) in able:
                assert len(explanation) == 1
            for change in explanation:
                owners = set(change.owners)
                assert owners in able
                assert not any(some == owners - {name} for name in owners for some in able)
                least = min(sum(tree.members(name) for name in some) for some in able)
                assert change.cost >= least
                named, cheapest = named + 1, cheapest + (change.cost == least)
    # Less important owners leave first, so there may be cheaper ways, but mostly there are none.
    assert SCALE < 1 or cheapest * 2 > named > 20


# --- how runtimes came about


def replayed(level):
    """The runtime that the rounds of a trace come to."""
    have = level.base
    for left, weights, share in level.rounds:
        assert have < level.request  # it took part since it wanted more
        whole = level.weight * left // weights
        assert share in (whole, whole + 1)
        have = min(have + share, level.request)
    return have


TRACED = [*SETTINGS, {"guarantee": True}, {"scale_min": False}]


@pytest.mark.parametrize("settings", TRACED, ids=str)
@pytest.mark.parametrize("large", [1, 2**56 + 1])
def test_traces_end_with_the_runtime_and_each_level_follows_from_the_one_above(settings, large):
    rounds = 0
    for seed in seeds(12):
        rng = Random(f"{seed} {settings} {large} traced")
        life = Life(large=large, **settings)
        if seed % 2:
            life.crowd(rng)
        for i in range(60):
            (life.press if seed % 2 else life.step)(rng)
            for name in life.tree.quotas if i % 6 == 5 else ():
                quota = life.tree.quota(name)
                for dimension, _ in () if quota.outside else quota.max:
                    trace = life.tree.runtime_trace(name, dimension)
                    rounds += sum(len(level.rounds) for level in trace)
                    follows(life, name, dimension, trace)
    assert SCALE < 1 or rounds > 50


def follows(life, name, dimension, trace):
    tree, figures = life.tree, life.twin.figures()
    assert [level.quota for level in trace] == life.twin.path(name)[::-1]
    assert trace[-1].runtime == tree.runtime(name)[dimension]
    above = tree.total(life.twin.tree_of(name)).get(dimension, 0)
    for level in trace:
        assert level.dimension == dimension
        assert level.parent == tree.quota(level.quota).parent
        assert level.amount == above
        assert level.request == figures.claim[level.quota][dimension]
        assert level.weight == life.twin.quotas[level.quota].weight.get(dimension, 0)
        assert level.runtime == tree.runtime(level.quota)[dimension] == replayed(level)
        key = level.parent or life.twin.tree_of(name)
        amount, names, claims, plain = figures.rounds[key, dimension]
        place = names.index(level.quota)
        assert (level.amount, level.minimum) == (amount, claims[place].minimum)
        assert level.rounds == tuple(
            (item.amount, item.weight, item.shares[place]) for item in plain if place in item.shares
        )
        shared = water_fill(
            amount,
            [claim.request for claim in claims],
            [claim.minimum for claim in claims],
            [claim.weight for claim in claims],
            [claim.lent for claim in claims],
        )
        assert shared[place] == level.runtime
        given = [
            claim.minimum if claim.request > claim.minimum or not claim.lent else claim.request
            for claim in claims
        ]
        assert (level.base, level.bases) == (given[place], sum(given))
        above = level.runtime
