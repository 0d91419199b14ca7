"""Elastic quotas by worked numbers: each example of the specification, in the kernel and in its
twin.

Sections are those of the specification, and #2876 is an issue of Koordinator.
"""

import pytest
from quotas.examples import below_p, both, fills, runtimes, siblings, tree_of, wish

from hivecore.quotas import OveruseMonitor, Quota, QuotaRequest, QuotaTree, water_fill_rounds

# --- 1.4: what goes up


@both
def test_ancestors_see_only_what_a_child_could_ever_be_given(make):
    """Section 1.4."""
    tree = make()
    tree.set_total({"x": 1000})
    tree.set_quota(Quota("p", max={"x": 40}))
    tree.set_quota(Quota("a", max={"x": 10}, parent="p"))
    tree.set_quota(Quota("b", max={"x": 100}, min={"x": 25}, parent="p", lends=False))
    tree.submit(wish("a", 50))
    tree.submit(wish("b", 20))
    assert (tree.see("request", "a"), tree.see("limited_request", "a")) == ({"x": 50}, {"x": 10})
    # One that does not lend asks for its minimum at least.
    assert (tree.see("request", "b"), tree.see("request", "p")) == ({"x": 25}, {"x": 35})
    tree.submit(wish("b", 100, "more"))
    assert tree.see("limited_request", "b") == {"x": 100}
    assert (tree.see("request", "p"), tree.see("limited_request", "p")) == ({"x": 110}, {"x": 40})
    tree.check()


# --- 1.6: several trees


@both
def test_what_a_tree_has_is_carved_out_of_the_default_tree(make):
    """Section 1.6."""
    tree = make()
    tree.set_total({"cpu": 300, "mem": 3000})
    assert tree.net_total() == {"cpu": 300, "mem": 3000}
    tree.set_total({"cpu": 100, "mem": 1000}, "t", True)
    assert tree.net_total() == {"cpu": 200, "mem": 2000}
    assert tree.net_total("t") == {"cpu": 100, "mem": 1000}
    tree.set_total({"cpu": 50, "mem": 500}, "t", True)
    assert tree.net_total() == {"cpu": 250, "mem": 2500}
    tree.set_total({}, "t", True)
    assert tree.net_total() == {"cpu": 300, "mem": 3000}


@both
def test_a_tree_may_be_beside_the_default_tree(make):
    """Section 1.6: ignore-default-tree."""
    tree = make()
    tree.set_total({"cpu": 300})
    tree.set_total({"cpu": 100}, "t", False)
    assert (tree.net_total(), tree.net_total("t")) == ({"cpu": 300}, {"cpu": 100})


@both
def test_what_quotas_outside_use_is_taken_off_the_total(make):
    """Section 1.2: the quotas of the system and by default."""
    tree = make()
    tree.set_total({"x": 100})
    tree.set_quota(Quota("system", max={"x": 2**62}, outside=True))
    tree.set_quota(Quota("a", max={"x": 100}))
    tree.submit(wish("a", 100))
    tree.run(wish("system", 30))
    assert (tree.net_total(), tree.runtime("a")) == ({"x": 70}, {"x": 70})
    assert tree.runtime("system") == {"x": 2**62}
    tree.run(wish("system", 100, "more"))
    assert tree.runtime("a") == {"x": 0}


# --- 2: redistribution

NAMES = "ABCD"
REQUESTS, MINIMUMS, WEIGHTS = (5, 20, 40, 70), (10, 15, 20, 15), (40, 60, 50, 80)


def test_two_rounds_share_out_what_the_bases_leave():
    """Section 2: T = 100; A lends 5, B gives 9 back."""
    assert fills(100, REQUESTS, MINIMUMS, WEIGHTS) == [5, 20, 35, 40]
    first, second = water_fill_rounds(100, REQUESTS, MINIMUMS, WEIGHTS)
    assert (first.amount, first.children, first.shares) == (45, (1, 2, 3), (14, 12, 19))
    assert (second.amount, second.children, second.shares) == (9, (2, 3), (3, 6))


def test_a_quota_of_weight_0_keeps_its_minimum_and_what_is_left_stays_idle():
    """Section 2: 20 are idle."""
    assert fills(100, REQUESTS, MINIMUMS, (40, 60, 50, 0)) == [5, 20, 40, 15]


def test_a_guarantee_raises_the_minimum():
    """Section 2; D's weight is still 0, as in the example before."""
    assert fills(100, REQUESTS, (10, 15, 20, 45), (40, 60, 50, 0)) == [5, 20, 30, 45]


def test_a_quota_that_does_not_lend_keeps_its_minimum():
    """Section 2, step 1."""
    lends = [False, True, True, True]
    assert fills(100, REQUESTS, MINIMUMS, WEIGHTS, lends)[0] == 10


def test_bases_above_the_amount_are_given_all_the_same():
    """Section 2, properties; in a tree only where minimums are not scaled."""
    assert fills(30, (20, 20, 20), (15, 15, 10), (1, 1, 1)) == [15, 15, 10]


def test_rounds_may_be_a_unit_off_the_level_of_real_numbers():
    """Section 2, properties: the level is 1 for each. The first gives one of its two back, and of
    equals the same one gets a unit again.
    """
    assert fills(3, (1, 4, 10), (0, 0, 0), (3, 1, 1)) == [1, 2, 0]


@both
@pytest.mark.parametrize(
    ("weight", "expected"), [(80, [5, 20, 35, 40]), (0, [5, 20, 40, 15])], ids=["80", "0"]
)
def test_a_tree_shares_its_total_out_so(make, weight, expected):
    """Section 2, as a tree of four quotas."""
    weights = (*WEIGHTS[:3], weight)
    rows = zip(NAMES, MINIMUMS, REQUESTS, weights, [True] * 4, strict=True)
    assert runtimes(siblings(make, 100, rows), NAMES) == expected


@both
def test_a_tree_that_guarantees_gives_what_runs_and_lends_nothing(make):
    """Section 3.3: as the guarantee of section 2, but A's minimum of 10 is not lent."""
    rows = zip(NAMES, MINIMUMS, (5, 20, 40, 25), (40, 60, 50, 0), [True] * 4, strict=True)
    tree = siblings(make, 100, rows, guarantee=True)
    tree.run(wish("D", 45, "runs"))
    assert runtimes(tree, NAMES) == [10, 20, 25, 45]
    assert fills(100, (10, 20, 40, 70), (10, 15, 20, 45), (40, 60, 50, 0)) == [10, 20, 25, 45]


@both
def test_what_runs_is_not_taken_back_where_it_is_guaranteed(make):
    """Section 3.3."""
    taken = {}
    for guarantee in (False, True):
        tree = make(guarantee=guarantee)
        tree.set_total({"x": 10})
        for name in "ab":
            tree.set_quota(Quota(name, max={"x": 10}, min={"x": 3}))
        tree.run(wish("a", 10))
        tree.submit(wish("b", 10))
        taken[guarantee] = runtimes(tree, "ab")
    # There is no room for b's minimum then: the sum is above the total.
    assert taken == {False: [5, 5], True: [10, 3]}


@both
def test_three_gpus_among_ten_that_borrow_go_to_the_first_three(make):
    """#2876: the original rounded each share of 0.3 to 0."""
    names = [f"q{i}" for i in range(10)]
    tree = siblings(make, 3, [(name, 0, 5, 1, True) for name in names])
    assert runtimes(tree, names) == [1] * 3 + [0] * 7
    assert fills(3, [5] * 10, [0] * 10, [1] * 10) == [1] * 3 + [0] * 7
    assert [int(3 / 10 + 0.5)] * 10 == [0] * 10


@both
def test_shares_that_are_rounded_up_do_not_give_out_too_much(make):
    """#2876, the other way: 6 to 10 in floats were 1 for each."""
    names = [f"q{i}" for i in range(10)]
    tree = siblings(make, 6, [(name, 0, 5, 1, True) for name in names])
    assert sum(runtimes(tree, names)) == 6
    assert [int(6 / 10 + 0.5)] * 10 == [1] * 10


# --- 3.1 and 3.2: from the top down, and scaled minimums


@both
def test_minimums_are_scaled_down_to_the_unit_where_the_cluster_is_too_small(make):
    """Section 3.2: 200 cores. The runtimes are the original's. Its scaled minimums are 66.666 for
    all three, two thousandths being left to be divided; here they add up to what there is.
    """
    tree = below_p(make, 200_000)
    assert (tree.runtime("p"), tree.see("min", "p")) == ({"x": 200_000}, {"x": 200_000})
    assert runtimes(tree, "abc") == [66_667, 66_667, 66_666]
    assert [tree.see("min", name)["x"] for name in "abc"] == [66_667, 66_667, 66_666]


@both
def test_minimums_are_back_where_the_cluster_is_large_enough(make):
    """Section 3.2: 600 cores."""
    tree = below_p(make, 600_000)
    assert runtimes(tree, "pabc") == [600_000] + [200_000] * 3
    assert [tree.see("min", name)["x"] for name in "pabc"] == [300_000] + [100_000] * 3
    tree.set_total({"x": 200_000})
    assert runtimes(tree, "abc") == [66_667, 66_667, 66_666]
    tree.set_total({"x": 600_000})
    assert runtimes(tree, "abc") == [200_000] * 3


@both
def test_unscaled_minimums_may_be_more_than_there_is(make):
    """Section 3.2, switched off."""
    tree = below_p(make, 200_000, scale_min=False)
    assert runtimes(tree, "pabc") == [300_000] + [100_000] * 3


@both
def test_those_that_do_not_scale_leave_the_others_the_rest(make):
    """Section 3.2: avail = T - the minimums of those that do not scale; 0 at least."""
    tree = below_p(make, 200_000)
    tree.set_quota(Quota("b", max={"x": 600_000}, min={"x": 100_000}, parent="p", scales=False))
    assert runtimes(tree, "abc") == [50_000, 100_000, 50_000]
    tree.set_total({"x": 60_000})
    assert [tree.see("min", name)["x"] for name in "abc"] == [0, 100_000, 0]
    assert runtimes(tree, "abc") == [0, 100_000, 0]


@both
def test_a_dimension_of_which_there_is_no_total_has_0(make):
    """Section 3.1."""
    tree = tree_of(make, {"y": 9}, Quota("a", max={"x": 5, "y": 5}, min={"x": 5}))
    tree.submit(QuotaRequest("o", "a", {"x": 1, "y": 1}))
    assert tree.runtime("a") == {"x": 0, "y": 1}


# --- 4.1: admission


@both
@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (wish("a", 6, "o"), ("bind",)),  # equality passes
        (wish("a", 7, "o"), ("wait", "runtime", "a")),
        (wish("a", 3, "o", preemptible=False), ("bind",)),
        (wish("a", 4, "o", preemptible=False), ("wait", "min", "a")),
        # The runtime comes before the minimum.
        (wish("a", 7, "o", preemptible=False), ("wait", "runtime", "a")),
    ],
)
def test_runtime_and_then_the_minimum_for_owners_that_cannot_be_preempted(make, request_, answer):
    """Section 4.1, 1 and 2."""
    tree = tree_of(make, {"x": 10}, Quota("a", max={"x": 10}, min={"x": 3}))
    tree.run(wish("a", 4, "runs"))
    tree.submit(request_)
    assert tree.decide("o") == answer


@both
def test_ancestors_are_reported_from_the_top_down(make):
    """Section 4.1, 4: after the quota itself, and the tree before its quotas."""
    tree = make(limit="max")
    tree.set_total({"x": 100})
    tree.set_quota(Quota("grandparent", max={"x": 9}))
    tree.set_quota(Quota("parent", max={"x": 9}, parent="grandparent"))
    tree.set_quota(Quota("child", max={"x": 20}, parent="parent"))
    tree.submit(wish("child", 10, "o"))
    assert tree.decide("o") == ("wait", "max", "grandparent")
    tree.set_quota(Quota("grandparent", max={"x": 10}))
    assert tree.decide("o") == ("wait", "max", "parent")
    tree.set_total({"x": 9})
    assert tree.decide("o") == ("wait", "total", "")
    tree.set_quota(Quota("child", max={"x": 9}, parent="parent"))
    assert tree.decide("o") == ("wait", "max", "child")


@both
def test_dimensions_without_a_maximum_are_no_business_of_the_quota(make):
    """Section 1.3: a request is masked to the dimensions of the maximum."""
    tree = tree_of(make, {"x": 1}, Quota("a", max={"x": 1}))
    tree.submit(QuotaRequest("o", "a", {"x": 1, "y": 1000}))
    assert tree.decide("o") == ("bind",)


# --- 4.2: victims


@both
def test_an_owner_whose_end_does_not_help_comes_back(make):
    """Section 4.2: 4, 3 and 2 are removed, 3 comes back."""
    tree = tree_of(make, {"cpu": 50}, Quota("q", max={"cpu": 50, "mem": 0}))
    for name, priority, amounts in (
        ("1", 10, {"cpu": 20}),
        ("2", 9, {"cpu": 10, "mem": 1}),
        ("3", 8, {"cpu": 20}),
        ("4", 7, {"cpu": 40}),
    ):
        tree.run(QuotaRequest(name, "q", amounts, priority=priority))
    assert tree.runtime("q") == {"cpu": 50, "mem": 0}
    assert tree.revocable("q") == ("2", "4")


def test_the_same_owners_have_to_go_when_the_delay_is_over():
    """Section 4.2, by the clock: longer than the delay, then again after as long."""
    tree = QuotaTree([Quota("q", max={"cpu": 50, "mem": 0})], total={"cpu": 50})
    for name, priority, amounts in (
        ("1", 10, {"cpu": 20}),
        ("2", 9, {"cpu": 10, "mem": 1}),
        ("3", 8, {"cpu": 20}),
        ("4", 7, {"cpu": 40}),
    ):
        tree.recover(QuotaRequest(name, "q", amounts, priority=priority), 1)
    monitor = OveruseMonitor(delay=120)
    seen = {now: monitor.observe(tree, now) for now in (1000, 1120, 1121, 1241, 1242)}
    due = {"q": ("2", "4")}
    assert seen == {1000: {}, 1120: {}, 1121: due, 1241: {}, 1242: due}


@both
def test_of_those_that_came_later_the_last_goes_first(make):
    """Section 4.2: lower priority first, then later start."""
    tree = tree_of(make, {"x": 3}, Quota("q", max={"x": 3}))
    for name, priority in (("b", 0), ("a", 0), ("c", -1), ("d", 0)):
        tree.run(wish("q", 1, name, priority=priority))
    tree.run(wish("q", 1, "e", priority=-1, preemptible=False))
    assert tree.revocable("q") == ("d", "c")
    tree.set_total({})
    assert tree.revocable("q") == ("b", "a", "d", "c")  # all that can go


# --- 5.3: what users asked for


@both
def test_a_gang_is_admitted_as_a_whole_or_not_at_all(make):
    """Section 8.3, #1780: pods one at a time would have taken 6."""
    tree = tree_of(make, {"x": 6}, Quota("q", max={"x": 8}))
    tree.submit(QuotaRequest("gang", "q", {"x": 1}, count=8))
    assert tree.decide("gang") == ("wait", "runtime", "q")
    tree.submit(QuotaRequest("other", "q", {"x": 1}, count=8, min_count=6))
    assert tree.decide("other") == ("bind",)


@both
def test_lent_capacity_comes_back_when_it_is_asked_for(make):
    """Section 8.4, #1355: without a delay, and without a preemption inside the quota."""
    tree = tree_of(make, {"x": 10}, *(Quota(name, max={"x": 10}, min={"x": 5}) for name in "ab"))
    for i in range(10):
        tree.run(wish("a", 1, f"a{i}"))
    assert runtimes(tree, "ab") == [10, 0]
    tree.submit(wish("b", 5))
    assert runtimes(tree, "ab") == [5, 5]
    assert tree.decide("of b") == ("preempt",)


@both
def test_no_owner_within_the_minimum_has_to_leave(make):
    """Section 5.3, #1030."""
    tree = tree_of(make, {"x": 10}, *(Quota(name, max={"x": 10}, min={"x": 5}) for name in "ab"))
    tree.run(wish("a", 5))
    tree.run(wish("b", 5))
    tree.submit(wish("b", 1, "more", priority=9))
    assert tree.decide("more") == ("wait", "runtime", "b")
