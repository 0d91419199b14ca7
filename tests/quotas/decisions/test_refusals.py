"""A refusal names what is exceeded; what is not checked neither refuses an owner nor evicts any."""

import pytest
from quotas.examples import both, wish

from hivecore.quotas import Quota, QuotaRequest, QuotaTree


def firm(name, quota, amount):
    return QuotaRequest(name, quota, {"x": amount}, preemptible=False)


def refused(tree, request):
    refusal = tree.schedule(request).refusal
    return (refusal.code, refusal.part)


# --- together with owners of outside quotas


@pytest.mark.parametrize("limit", ["runtime", "max"])
@pytest.mark.parametrize("order", [1, -1])
def test_what_an_outside_quota_gets_together_with_others_is_taken_off_the_total(limit, order):
    quotas = [Quota("sys", max={"x": 100}, outside=True), Quota("a", max={"x": 100})]
    tree = QuotaTree(quotas, total={"x": 20}, limit=limit)
    tree.submit_many([wish("sys", 15, "s"), wish("a", 10, "j"), wish("a", 5, "small")])
    before = tree.to_bytes()
    decision = tree.schedule(["s", "j"][::order])
    part, what = ("a", "runtime of 'a'") if limit == "runtime" else ("", "the total")
    assert (decision.outcome, decision.refusal.part) == ("wait", part)
    assert decision.reason == f"{what} is exceeded (x: 0 used + 10 asked > 5)"
    assert (tree.fits(["s", "j"]), tree.to_bytes()) == (False, before)
    assert tree.fits(["s"]) and tree.fits(["j"])
    together = tree.schedule(["small", "s"][::order])
    together.verify(tree)
    tree.commit(together)
    tree.check()
    assert (tree.total(), tree.status("a").used) == ({"x": 5}, {"x": 5})


def test_owners_of_outside_quotas_alone_are_limited_by_their_maximum_and_not_by_the_total():
    quotas = [Quota(name, max={"x": 15}, outside=True) for name in ("s", "t")]
    tree = QuotaTree([*quotas, Quota("a", max={"x": 9, "y": 9})], total={"x": 20, "y": 9})
    assert tree.fits([wish("s", 15), wish("t", 15)])
    assert refused(tree, [wish("s", 16), wish("t", 1)]) == ("runtime", "s")
    # What they take off is not asked for by the third.
    assert tree.fits([wish("s", 15), wish("t", 15), QuotaRequest("o", "a", {"y": 9})])
    assert refused(tree, [wish("s", 15), wish("t", 5), wish("a", 1)]) == (
        "runtime",
        "a",
    )


def test_victims_make_room_for_an_outside_quota_and_the_others_that_ask_beside_it():
    quotas = [
        Quota("sys", max={"x": 100}, outside=True),
        Quota("a", max={"x": 100}, min={"x": 10}),
        Quota("b", max={"x": 100}),
    ]
    tree = QuotaTree(quotas, total={"x": 30}, limit="max")
    for i in range(4):
        tree.recover(wish("b", 5, f"b{i}"), 1)
    tree.submit_many([wish("sys", 15, "s"), wish("a", 10, "j")])
    decision = tree.schedule(["s", "j"])
    assert (decision.outcome, decision.victims) == ("preempt", ("b1", "b2", "b3"))
    decision.verify(tree)
    for name in decision.victims:
        tree.evict(name)
    tree.commit(tree.schedule(["s", "j"]))
    tree.check()
    assert (tree.total(), tree.status("a").used, tree.status("b").used) == (
        {"x": 15},
        {"x": 10},
        {"x": 5},
    )


# --- which quota is named


def test_the_minimum_of_a_parent_holds_for_its_owners_together_with_those_below_it():
    quotas = [Quota("p", max={"x": 20}, min={"x": 10})]
    quotas += [Quota("c", parent="p", max={"x": 20}, min={"x": 8})]
    tree = QuotaTree(quotas, total={"x": 20})
    above, below = firm("1", "p", 6), firm("2", "c", 6)
    for request in ([above, below], [below, above]):
        assert refused(tree, request) == ("min", "p")
        assert tree.schedule(request).reason == "min of 'p' is exceeded (x: 0 used + 12 asked > 10)"
    assert refused(tree, [above, firm("3", "c", 9)]) == ("min", "p")
    assert refused(tree, [firm("4", "p", 1), firm("3", "c", 9)]) == ("min", "c")
    assert tree.fits([above, firm("5", "c", 4)])
    assert tree.fits([above, wish("c", 6)])  # it can be preempted
    tree.commit(tree.schedule(below))
    assert refused(tree, above) == ("min", "p")


def test_an_evicted_owner_is_refused_by_the_quota_whose_runtime_it_would_exceed():
    quotas = [Quota("p", max={"x": 12}, min={"x": 6})]
    quotas += [Quota(name, parent="p", max={"x": 12}, min={"x": 3}) for name in "ab"]
    quotas += [Quota("c", max={"x": 12}, min={"x": 2})]
    tree = QuotaTree(quotas, total={"x": 20}, limit="max")
    tree.submit_many([wish("a", 1), wish("b", 5), wish("c", 9), wish("b", 9, "waits")])
    assert (tree.runtime("c"), tree.runtime("b")) == ({"x": 8}, {"x": 11})
    tree.commit(tree.schedule("of c"))
    tree.evict("of c")
    for request in (["of b", "of c"], ["of c", "of b"], ["of b", "of a", "of c"], "of c"):
        decision = tree.schedule(request)
        assert (decision.refusal.code, decision.refusal.part) == ("evicted", "c")
        assert "would borrow in 'c'" in decision.reason


def test_an_evicted_owner_within_its_own_runtime_is_refused_by_the_parent_that_is_beyond():
    quotas = [Quota("p", max={"x": 9}, min={"x": 3}, weight={})]
    quotas += [Quota(n, parent="p", max={"x": 9}, min={"x": 3}, scales=False) for n in "ab"]
    tree = QuotaTree(quotas, total={"x": 9}, limit="max")
    tree.submit_many([wish("a", 3), wish("b", 3)])
    for name in ("of a", "of b"):
        tree.commit(tree.schedule(name))
    tree.evict("of b")
    assert (tree.runtime("p"), tree.runtime("b")) == ({"x": 3}, {"x": 3})
    assert refused(tree, "of b") == ("evicted", "p")
    assert tree.explain("of b").refusals[0].part == "p"


def test_an_evicted_owner_within_its_runtimes_starts_together_with_one_that_borrows():
    quotas = [Quota(n, max={"x": 9}, min={"x": 3}) for n in "ab"]
    tree = QuotaTree(quotas, total={"x": 9}, limit="max")
    tree.submit_many([wish("a", 3), wish("b", 6), wish("b", 5, "rest")])
    tree.commit(tree.schedule("of a"))
    tree.evict("of a")
    assert tree.runtime("b") == {"x": 6}
    tree.submit(wish("a", 3, "more"))
    tree.commit(tree.schedule("of a"))
    tree.evict("of a")
    decision = tree.schedule(["of a", "of b"])
    assert (decision.outcome, decision.borrows) == ("bind", True)
    decision.verify(tree)


# --- ancestors that are not checked


@both
@pytest.mark.parametrize("limit", ["runtime", "max"])
def test_no_owner_has_to_leave_for_a_limit_that_is_not_checked(make, limit):
    tree = make(check_ancestors=False, limit=limit)
    tree.set_total({"x": 10})
    for name in "ab":
        tree.set_quota(Quota(name, max={"x": 10}, min={"x": 5}))
    tree.run(wish("a", 10, "runs"))
    tree.submit(wish("b", 5))
    assert tree.decide("of b") == ("bind",)
    tree.evict("runs")
    tree.admit("of b")
    tree.evict("of b")
    tree.run(wish("a", 20, "other"))  # the total is used up twice over
    assert tree.victims("of b") == ()
    assert tree.decide("of b") == ("bind",)


# --- no total


@pytest.mark.parametrize("limit", ["runtime", "max"])
def test_a_tree_without_a_total_says_that_it_has_none_and_how_to_set_it(limit):
    tree = QuotaTree([Quota("q", max={"gpu": 40})], limit=limit)
    request = QuotaRequest("o", "q", {"gpu": 40})
    hint = "no total is set for gpu: see set_total"
    assert tree.schedule(request).reason.endswith(f"(gpu: 0 used + 40 asked > 0); {hint}")
    explained = tree.explain(request)
    assert hint in explained.reason
    (change,) = explained.changes
    assert [(limit.limit, limit.dimension, limit.amount) for limit in change.limits] == [
        ("total", "gpu", 40)
    ]
    tree.set_total({"gpu": 39})
    assert "set_total" not in tree.schedule(request).reason
    tree.set_total({"gpu": 0})
    assert "set_total" not in tree.schedule(request).reason


def test_what_a_total_leaves_out_is_named_with_its_tree():
    quotas = [
        Quota("q", max={"cpu": 4, "gpu": 4}),
        Quota("r", max={"gpu": 4}, tree="pool"),
        Quota("s", max={"gpu": 4}, outside=True),
    ]
    tree = QuotaTree(quotas, total={"cpu": 4})
    reason = tree.schedule(QuotaRequest("o", "q", {"cpu": 4, "gpu": 1})).reason
    assert reason.endswith("; no total is set for gpu: see set_total")
    reason = tree.schedule(QuotaRequest("o", "r", {"gpu": 1})).reason
    assert reason.endswith("; no total of tree 'pool' is set for gpu: see set_total")
    assert "set_total" not in tree.schedule(QuotaRequest("o", "q", {"cpu": 5})).reason
    assert "set_total" not in tree.schedule(QuotaRequest("o", "s", {"gpu": 5})).reason
