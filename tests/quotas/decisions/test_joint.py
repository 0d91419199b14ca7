"""Several owners that ask together, against a model in plain Python and one after another."""

from decimal import Decimal
from itertools import permutations
from random import Random

import pytest
from profiles import SCALE, seeds
from quotas.decisions.oracle import DIMENSIONS, Oracle

from hivecore.quotas import Quota, QuotaRequest, QuotaTree

SETTINGS = [
    {},
    {"limit": "max"},
    {"check_ancestors": False},
    {"limit": "max", "check_ancestors": False},
    {"scale_min": False},
    {"guarantee": True},
    {"guarantee": True, "limit": "max"},
    {"guarantee": True, "check_ancestors": False},
]
PARENTS = [
    {"a": "", "b": "a", "c": "a"},
    {"a": "", "b": "a", "c": "b"},
    {"a": "", "b": "", "c": "b"},
    {"a": "", "b": "", "c": "b", "d": "b"},
    {"a": "", "b": "a", "c": "b", "d": "a", "e": ""},
]


def drawn(rng):
    """(total, quotas, requests) of a small tree, mostly with outside quotas."""
    quotas = []
    for name, parent in rng.choice(PARENTS).items():
        most = {d: rng.randint(2, 12) for d in DIMENSIONS}
        least = {d: rng.randint(0, most[d]) if rng.random() < 0.6 else 0 for d in DIMENSIONS}
        weights = None if rng.random() < 0.6 else {d: rng.randint(0, 3) for d in DIMENSIONS}
        flags = {"lends": rng.random() < 0.8, "scales": rng.random() < 0.8}
        quotas.append(Quota(name, parent=parent, max=most, min=least, weight=weights, **flags))
    for name in rng.choice(("", "s", "st")):
        most = {d: rng.randint(0, 9) for d in DIMENSIONS}
        least = {d: rng.randint(0, most[d]) for d in DIMENSIONS}
        quotas.append(Quota(name, max=most, min=least, outside=True))
    requests = [
        QuotaRequest(
            f"o{i}",
            rng.choice(quotas).name,
            {d: rng.randint(0, 4) for d in DIMENSIONS if rng.random() < 0.8},
            count=rng.choice((1, 1, 2)),
            min_count=1,
            preemptible=rng.random() < 0.6,
        )
        for i in range(rng.randint(3, 7))
    ]
    return {d: rng.randint(3, 20) for d in DIMENSIONS}, quotas, requests


def both(rng, settings):
    """A tree in which some run, admitted one after another, and its model."""
    total, quotas, requests = drawn(rng)
    tree = QuotaTree(quotas, total=total, **settings)
    tree.submit_many(requests)
    for request in requests:
        if rng.random() < 0.4 and tree.fits(request):
            tree.commit(tree.schedule(request))
    running = {name: tree.members(name) for name in tree.owners}
    return tree, Oracle(quotas, total, requests, running, settings)


def asking(rng, tree):
    """Names of two to four owners that could have more members; none: there are too few."""
    able = [name for name in tree.owners if tree.members(name) < tree.request(name).count]
    return rng.sample(able, min(len(able), rng.randint(2, 4))) if len(able) > 1 else []


def bind_one_by_one(tree, names):
    branch = tree.copy()
    for name in names:
        decision = branch.schedule(name)
        if decision.outcome != "bind":
            return False
        branch.commit(decision)
    return True


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_owners_are_admitted_together_if_and_only_if_all_are_within_every_limit_then(settings):
    outcomes = {True: 0, False: 0}
    for seed in seeds(200):
        rng = Random(f"{seed} {settings} joint")
        tree, oracle = both(rng, settings)
        assert_figures(tree, oracle)
        for names in filter(None, (asking(rng, tree) for _ in range(4))):
            decision, binds = tree.schedule(names), oracle.admits(dict.fromkeys(names, 1))
            assert (decision.outcome == "bind") == binds == tree.fits(names), (seed, names)
            decision.verify(tree)
            outcomes[binds] += 1
            if binds:
                branch = tree.copy()
                branch.commit(decision)
                branch.check()
            elif decision.outcome == "preempt":
                assert_victims_do(tree, decision, names)
            else:
                assert decision.reason
    assert SCALE < 1 or min(outcomes.values()) > 50


def assert_figures(tree, oracle):
    minimums, runtimes = oracle.minimums(oracle.running), oracle.runtimes(oracle.running)
    for (name, d), amount in runtimes.items():
        assert tree.runtime(name)[d] == amount
    for (name, d), amount in minimums.items():
        assert tree.status(name).min[d] == amount


def assert_victims_do(tree, decision, names):
    branch = tree.copy()
    for name in decision.victims:
        branch.evict(name)
    again = branch.schedule(names)
    assert again.outcome == "bind"
    again.verify(branch)


@pytest.mark.parametrize("settings", SETTINGS[:5], ids=str)
def test_owners_are_admitted_together_if_and_only_if_they_are_in_every_order(settings):
    """Where what runs is guaranteed, runtimes move with what is admitted."""
    outcomes = {True: 0, False: 0}
    for seed in seeds(80):
        rng = Random(f"{seed} {settings} orders")
        tree, _ = both(rng, settings)
        for name in tree.owners:
            if tree.members(name) and rng.random() < 0.3:
                tree.evict(name)
        for names in filter(None, (asking(rng, tree) for _ in range(4))):
            binds = all(bind_one_by_one(tree, order) for order in permutations(names))
            assert tree.fits(names) == binds, (seed, names)
            outcomes[binds] += 1
    assert SCALE < 1 or min(outcomes.values()) > 20


@pytest.mark.parametrize("settings", SETTINGS[5:], ids=str)
def test_what_is_admitted_where_it_is_guaranteed_stays_within_every_maximum(settings):
    bound = 0
    for seed in seeds(100):
        rng = Random(f"{seed} {settings} guaranteed")
        tree, _ = both(rng, settings)
        while names := asking(rng, tree):
            decision = tree.schedule(names if rng.random() < 0.5 else names[0])
            if decision.outcome != "bind":
                break
            tree.commit(decision)
            bound += 1
        for name in tree.quotas:
            status, most = tree.status(name), dict(tree.quota(name).max)
            for d in DIMENSIONS:
                assert status.runtime[d] <= max(most[d], status.used[d])
                assert status.used[d] <= most[d] or not tree.check_ancestors
    assert bound > 0


def test_a_fraction_asked_for_later_does_not_change_earlier_decisions():
    tree = QuotaTree([Quota(name, max={"gpu": 3}) for name in "ab"], total={"gpu": 3})
    tree.submit(QuotaRequest("other", "b", {"gpu": 3}))
    state = tree.to_bytes()
    first, later = QuotaRequest("first", "a", {"gpu": 2}), QuotaRequest("later", "b", {"gpu": 0.5})
    decisions = tree.schedule_many([first, later])
    assert [decision.outcome for decision in decisions] == ["bind", "bind"]
    assert decisions[0] == tree.schedule(first)
    assert tree.to_bytes() == state
    for decision in decisions:
        tree.commit(decision)
    assert tree.status("b").used == {"gpu": Decimal("0.5")}
