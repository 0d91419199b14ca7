"""The rules of elastic quotas one by one, by hand, for the kernel and its twin.

Sections are those of the specification.
"""

import pytest
from quotas.examples import both, fills, runtimes, tree_of, wish

from hivecore.quotas import Quota

# --- 2: what each child may use

TABLE = {
    "the first of equals gets the unit that is left": (
        10,
        (4, 4, 4),
        (0, 0, 0),
        (1, 1, 1),
        None,
        [4, 3, 3],
    ),
    "14/3 and 7/3: the larger remainder is the first's": (
        7,
        (10, 10),
        (0, 0),
        (2, 1),
        None,
        [5, 2],
    ),
    "7/3 and 14/3: it is the second's": (7, (10, 10), (0, 0), (1, 2), None, [2, 5]),
    "to lend leaves the minimum to others": (
        10,
        (0, 10),
        (4, 0),
        (1, 1),
        [True, True],
        [0, 10],
    ),
    "not to lend keeps it": (10, (0, 10), (4, 0), (1, 1), [False, True], [4, 6]),
    "a quota that asks for its minimum gets no more": (10, (3, 10), (3, 0), (1, 1), None, [3, 7]),
    "bases beyond the amount are all there is": (5, (9, 9), (4, 4), (1, 1), None, [4, 4]),
    "of nothing everybody gets nothing": (0, (9, 9), (0, 0), (1, 1), None, [0, 0]),
    "what no quota asks for stays idle": (100, (3, 4), (0, 0), (1, 1), None, [3, 4]),
    "without weights there is nothing beyond minimums": (
        100,
        (30, 40),
        (3, 0),
        (0, 0),
        None,
        [3, 0],
    ),
    "4 each, then the 3 and the 1 that are too much": (
        12,
        (1, 3, 100),
        (0, 0, 0),
        (1, 1, 1),
        None,
        [1, 3, 8],
    ),
    "4 each, then 1 each of the 3": (16, (1, 5, 100, 100), (0,) * 4, (1,) * 4, None, [1, 5, 5, 5]),
    "one unit goes to the largest weight": (1, (9, 9, 9), (0, 0, 0), (1, 3, 2), None, [0, 1, 0]),
    "minimums first, then 2 of 3 parts of the 6": (12, (20, 20), (2, 4), (2, 1), None, [6, 6]),
}


@pytest.mark.parametrize("case", TABLE)
def test_shares_by_hand(case):
    """Section 2."""
    *given, expected = TABLE[case]
    assert fills(*given) == expected


# --- 3.2: scaled minimums

SCALED = {
    "10 of 40, 2.5, 5 and 2.5: the first of equals": (10, (10, 20, 10), [3, 5, 2]),
    "10 of 30, thirds": (10, (10, 10, 10), [4, 3, 3]),
    "as much as there is": (30, (10, 10, 10), [10, 10, 10]),
    "a unit less": (29, (10, 10, 10), [10, 10, 9]),
    "nothing": (0, (10, 10, 10), [0, 0, 0]),
    "a quota without minimum is not scaled": (7, (10, 0, 4), [5, 0, 2]),
}


@both
@pytest.mark.parametrize("case", SCALED)
def test_scaled_minimums_by_hand(make, case):
    """Section 3.2; all ask for more than there is, and share nothing else."""
    total, minimums, expected = SCALED[case]
    tree = make()
    tree.set_total({"x": total})
    for name, least in zip("abc", minimums, strict=True):
        tree.set_quota(Quota(name, max={"x": 100}, min={"x": least}, weight={}))
        tree.submit(wish(name, 100))
    assert [tree.see("min", name)["x"] for name in "abc"] == expected
    assert runtimes(tree, "abc") == expected


# --- 8.4: victims


def pressed(make, owners, request, **settings):
    """a, b and c have a minimum of 5 each of 20; owners (name, amount, priority) run in a and b,
    c asks.
    """
    tree = make(**settings)
    tree.set_total({"x": 20})
    for name in "abc":
        tree.set_quota(Quota(name, max={"x": 20}, min={"x": 5}, weight={"x": 1}))
    for name, amount, priority in owners:
        tree.run(wish(name[0], amount, name, priority=priority))
    tree.submit(wish("c", request, "o"))
    return tree


@both
def test_the_quota_most_over_its_runtime_gives_back_first(make):
    """5 are divided beyond the minimums, so a may use 8, b 7: they are over by 2 and 3."""
    owners = [("a1", 4, 0), ("a2", 3, 0), ("a3", 3, 1), ("b1", 5, 0), ("b2", 5, 0)]
    tree = pressed(make, owners, 5)
    assert runtimes(tree, "abc") == [8, 7, 5]
    assert (tree.decide("o"), tree.victims("o")) == (("preempt",), ("b2",))


@both
def test_lower_priority_first_then_later_start(make):
    """a is over by 4, b by 1: a4 goes, a is over by 2, a2 goes; without either it is too little."""
    owners = [("a1", 4, 0), ("a2", 3, 0), ("a3", 3, 1), ("a4", 2, 0), ("b1", 5, 0), ("b2", 3, 0)]
    tree = pressed(make, owners, 5)
    assert runtimes(tree, "abc") == [8, 7, 5]
    assert tree.victims("o") == ("a2", "a4")


@both
def test_an_owner_that_need_not_leave_stays(make):
    """a4 goes with 1, then a2 with 6, which is enough."""
    owners = [("a1", 2, 0), ("a2", 6, 0), ("a3", 3, 1), ("a4", 1, 0), ("b1", 5, 0), ("b2", 3, 0)]
    tree = pressed(make, owners, 5)
    assert runtimes(tree, "abc") == [8, 7, 5]
    assert tree.victims("o") == ("a2",)


@both
def test_a_quota_gives_nothing_back_of_what_it_is_entitled_to(make):
    """b is over by 3 with 10, which cannot leave; a2 leaves with 3, and a is over no more."""
    tree = pressed(make, [("a1", 4, 0), ("a2", 3, 0), ("a3", 3, 1)], 5)
    for name in ("b1", "b2"):
        tree.run(wish("b", 5, name, preemptible=False))
    assert runtimes(tree, "abc") == [8, 7, 5]
    assert tree.decide("o") == ("wait", "total", "")


@both
def test_no_owner_reclaims_in_order_to_borrow(make):
    """c asks for 9: of 20 it may use 6, so that it waits though a and b are over."""
    tree = pressed(make, [("a1", 10, 0), ("b1", 10, 0)], 9)
    assert runtimes(tree, "abc") == [7, 7, 6]
    assert tree.decide("o") == ("wait", "runtime", "c")
    loose = pressed(make, [("a1", 10, 0), ("b1", 10, 0)], 9, limit="max")
    assert loose.decide("o") == ("wait", "total", "")


@both
def test_an_evicted_owner_borrows_only_after_something_else_has_happened(make):
    """a may use 7 of 10 while b asks for 3, so a2 is beyond that."""
    tree = make(limit="max")
    tree.set_total({"x": 10})
    for name in "ab":
        tree.set_quota(Quota(name, max={"x": 10}, min={"x": 5}, weight={"x": 1}))
    tree.run(wish("a", 4, "a1"))
    tree.run(wish("a", 4, "a2"))
    tree.submit(wish("b", 3))
    assert (runtimes(tree, "ab"), tree.victims("of b")) == ([7, 3], ("a2",))
    tree.evict("a2")
    assert tree.decide("a2") == ("wait", "evicted", "a")
    tree.evict("a1")
    assert tree.decide("a1") == ("bind",)  # it is entitled to 4
    tree.admit("a1")
    assert tree.decide("a2") == ("wait", "evicted", "a")
    tree.set_total({"x": 10})
    assert tree.decide("a2") == ("bind",)
    tree.admit("of b")
    assert tree.decide("a2") == ("wait", "total", "")


@both
def test_an_owner_that_stopped_for_another_reason_than_a_reclaim_borrows_at_once(make):
    tree = tree_of(make, {"x": 10}, Quota("a", max={"x": 10}, weight={}), limit="max")
    for name in ("a1", "a2"):
        tree.run(wish("a", 4, name))
    tree.evict("a1")
    tree.evict("a2", reclaimed=False)
    assert tree.decide("a1") == ("wait", "evicted", "a")
    assert tree.decide("a2") == ("bind",)
    tree.admit("a2")
    tree.evict("a1")  # it does not run, so that nothing changes
    tree.evict("a1", reclaimed=False)
    assert tree.decide("a1") == ("wait", "evicted", "a")
