"""Explanations of quotas: what they name admits, and their least is the least."""

from random import Random

import pytest
from profiles import SCALE, seeds
from quotas.lives import Life

from hivecore.quotas import LimitChange, Quota, QuotaRequest, QuotaTree

SETTINGS = [
    {},
    {"limit": "max"},
    {"scale_min": False},
    {"guarantee": True},
    {"limit": "max", "check_ancestors": False},
    {"check_ancestors": False},
]
CHANGES = ("preempt", "release", "limits")


def raised(tree, limits, root):
    """With these limits, by nothing but what everybody can call."""
    for limit in limits:
        assert isinstance(limit, LimitChange)
        if limit.limit == "total":
            total, carved = totals(tree, root)
            tree.set_total({**total, limit.dimension: limit.amount}, tree=root, carved=carved)
        else:
            quota = tree.quota(limit.quota)
            now = dict(getattr(quota, limit.limit))
            tree.set_quota(quota.replace(**{limit.limit: {**now, limit.dimension: limit.amount}}))


def totals(tree, root):
    total, carved = tree._names.totals.get(root, ((), False))
    return dict(total), carved


def root_of(tree, name):
    quota = tree.quota(name)
    while quota.parent:
        quota = tree.quota(quota.parent)
    return quota.tree


def tried(tree, change):
    """A copy on which the change has happened."""
    branch = tree.copy()
    if change.request.name not in branch.owners:
        branch.submit(change.request)
    for name in change.owners:
        (branch.evict if change.kind == "preempt" else branch.release)(name)
    raised(branch, change.limits, root_of(tree, change.request.quota))
    return branch


def incomplete(tree):
    """Owners that wait, and those that run and may grow."""
    return [name for name in tree.owners if tree.members(name) < tree.request(name).count]


def lives(settings, count, steps):
    for seed in seeds(count):
        rng = Random(f"{seed} {settings} explained")
        life = Life(large=2**57 - 1 if seed % 6 == 5 else 1, **settings)
        if seed % 3:
            life.crowd(rng)
        for i in range(steps):
            (life.step if seed % 3 == 0 else life.press if i % 8 else life.set_total)(rng)
            if i % 5 == 4 and life.twin.quotas:
                yield life, rng


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_each_change_that_is_named_admits(settings):
    kinds = dict.fromkeys(CHANGES, 0)
    for life, rng in lives(settings, 24, 60):
        tree = life.tree
        new = life.new_request(rng)
        try:
            tree.fits(new)
        except ValueError as error:  # it is refused as such
            assert "above 4611686018427387904" in str(error)
            new = None
        for request in (*incomplete(tree), *([new] if new else [])):
            before = tree.to_bytes()
            decision, explanation = tree.schedule(request), tree.explain(request)
            limits = [each.limits for each in explanation.changes if each.kind == "limits"]
            assert [*tree.limit_changes(request)] == limits
            assert tree.to_bytes() == before
            assert explanation.outcome == decision.outcome
            assert (explanation.outcome == "bind") == (not explanation.reason)
            if decision.refusal is not None:
                assert decision.refusal in explanation.refusals
            if explanation.outcome == "bind":
                assert (explanation.refusals, explanation.changes) == ((), ())
                continue
            order = [CHANGES.index(change.kind) for change in explanation.changes]
            assert order == sorted(order)
            if decision.outcome == "preempt":
                assert explanation.changes[0].owners == decision.victims
            for change in explanation.changes:
                branch = tried(tree, change)
                branch.check()
                assert branch.fits(change.request.name), (request, change)
                kinds[change.kind] += 1
                assert change.cost > 0
                assert change.owners or change.limits
                if change.kind != "limits":
                    assert change.cost == sum(tree.members(name) for name in change.owners)
    assert SCALE < 1 or (kinds["release"] > 0 and kinds["limits"] > 50), kinds


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_each_named_owner_is_necessary(settings):
    """With one of them less it does not fit, or not within the runtimes, as reclaiming requires."""
    seen = 0
    for life, _ in lives(settings, 24, 60):
        tree = life.tree
        for request in incomplete(tree):
            for change in tree.explain(request).changes:
                for stays in change.owners:
                    branch = tree.copy()
                    for name in change.owners:
                        if name != stays:
                            (branch.evict if change.kind == "preempt" else branch.release)(name)
                    decision = branch.schedule(request)
                    fits = decision.outcome == "bind"
                    borrows = change.kind == "preempt" and decision.borrows
                    assert not fits or borrows, (request, change, stays)
                    seen += 1
    assert SCALE < 1 or seen > 0


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_no_limit_could_be_raised_by_a_unit_less(settings):
    """Each of those that are raised together, of which the others stay. For an evicted owner
    any limit would do, since it is an event.
    """
    seen = 0
    for life, _ in lives(settings, 12, 60):
        tree = life.tree
        for request, owner in life.twin.owners.items():
            if owner.members == owner.request.count or not owner.may_borrow:
                continue
            root = root_of(tree, owner.request.quota)
            for change in tree.explain(request).changes:
                for i, limit in enumerate(change.limits):
                    branch = tree.copy()
                    less = limit.replace(amount=limit.amount - 1)
                    rest = [*change.limits[:i], less, *change.limits[i + 1 :]]
                    try:
                        raised(branch, rest, root)
                    except ValueError as error:
                        assert "is above max" in str(error)
                    else:
                        assert not branch.fits(request), (request, change, limit)
                    seen += 1
    assert SCALE < 1 or seen > 20


def test_a_running_owner_gets_the_reason_why_it_cannot_grow():
    tree = QuotaTree([Quota("a", max={"x": 2})], total={"x": 2})
    tree.commit(tree.schedule(QuotaRequest("o", "a", {"x": 2}, count=2, min_count=1)))
    explanation = tree.explain("o")
    assert (explanation.outcome, len(explanation.changes)) == ("wait", 1)
    assert explanation.cheapest.limits == (
        LimitChange("a", "max", "x", 4),
        LimitChange("", "total", "x", 4),
    )


def test_an_evicted_owner_that_may_reclaim_but_not_borrow_gets_that_reason():
    """o would borrow in p, which o2 of the other child is over for."""
    quotas = [
        Quota("p", max={"x": 9}, min={"x": 2}, weight={}),
        Quota("a", max={"x": 9}, min={"x": 2}, weight={}, parent="p"),
        Quota("b", max={"x": 9}, weight={}, parent="p"),
        Quota("q", max={"x": 9}, min={"x": 7}),
    ]
    tree = QuotaTree(quotas, total={"x": 9}, limit="max")
    tree.submit_many([QuotaRequest("o", "a", {"x": 2}), QuotaRequest("other", "q", {"x": 9})])
    tree.recover(QuotaRequest("o2", "b", {"x": 2}), 1)
    tree.commit(tree.schedule("o"))
    tree.evict("o")
    assert tree.schedule("o").victims == ("o2",)
    explanation = tree.explain("o")
    assert (explanation.outcome, explanation.cheapest.owners) == ("preempt", ("o2",))
    assert [refusal.code for refusal in explanation.refusals] == ["evicted"]
    assert "was evicted and would borrow" in explanation.reason
