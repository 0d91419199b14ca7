"""Defects of the original quotas that the specification describes (5.2), which are none here."""

from fractions import Fraction

import pytest
from quotas.examples import below_p, both, fills, runtimes, tree_of, wish

from hivecore.quotas import OveruseMonitor, Quota, QuotaRequest, QuotaTree


def d1(make):
    tree = make()
    tree.set_total({"x": 1000})
    tree.set_quota(Quota("P", max={"x": 100}))
    tree.set_quota(Quota("A", max={"x": 10}, parent="P"))
    tree.set_quota(Quota("B", max={"x": 100}, parent="P"))
    tree.submit(wish("A", 50))
    tree.submit(wish("B", 20))
    assert (tree.see("request", "P"), tree.runtime("B")) == ({"x": 30}, {"x": 20})
    return tree


@both
def test_a_quota_that_asked_for_more_than_its_maximum_takes_off_what_it_added_when_removed(make):
    """D1: there P saw 0 then, and B's runtime was 0."""
    tree = d1(make)
    tree.release("of A")
    tree.remove("A")
    assert (tree.see("request", "P"), tree.runtime("B")) == ({"x": 20}, {"x": 20})
    tree.check()


@both
def test_a_quota_that_asked_for_more_than_its_maximum_takes_off_what_it_added_when_moved(make):
    """D1, with a move."""
    tree = d1(make)
    tree.set_quota(Quota("O", max={"x": 100}))
    tree.move("A", "O")
    assert (tree.see("request", "P"), tree.runtime("B")) == ({"x": 20}, {"x": 20})
    assert (tree.see("request", "O"), tree.runtime("A")) == ({"x": 10}, {"x": 10})
    tree.check()
    tree.move("A", "P")
    assert (tree.see("request", "P"), tree.see("request", "O")) == ({"x": 30}, {"x": 0})
    tree.check()


@both
def test_no_dimension_is_forgotten_while_owners_are_removed(make):
    """D2: A is removed first; the original had no victims though 3 GPUs were too many."""
    tree = tree_of(make, {"cpu": 10, "gpu": 1}, Quota("q", max={"cpu": 10, "gpu": 1}))
    tree.run(QuotaRequest("A", "q", {"cpu": 5}, priority=1))
    tree.run(QuotaRequest("B", "q", {"cpu": 1, "gpu": 4}, priority=2))
    assert tree.revocable("q") == ("B",)


def test_no_dimension_is_forgotten_by_the_clock():
    """D2, as the monitor tells it."""
    tree = QuotaTree([Quota("q", max={"cpu": 10, "gpu": 1})], total={"cpu": 10, "gpu": 1})
    tree.recover(QuotaRequest("A", "q", {"cpu": 5}, priority=1), 1)
    tree.recover(QuotaRequest("B", "q", {"cpu": 1, "gpu": 4}, priority=2), 1)
    monitor = OveruseMonitor(delay=0)
    assert (monitor.observe(tree, 0), monitor.observe(tree, 1)) == ({}, {"q": ("B",)})


@both
def test_a_dimension_without_a_total_admits_no_owner(make):
    """D3: the original compares no dimension that is missing in the limit."""
    tree = tree_of(make, {"cpu": 10}, Quota("q", max={"cpu": 10, "gpu": 4}))
    tree.submit(QuotaRequest("o", "q", {"cpu": 1, "gpu": 1}))
    assert tree.decide("o") == ("wait", "runtime", "q")
    loose = tree_of(make, {"cpu": 10}, Quota("q", max={"cpu": 10, "gpu": 4}), limit="max")
    loose.submit(QuotaRequest("o", "q", {"cpu": 1, "gpu": 1}))
    assert loose.decide("o") == ("wait", "total", "")


@both
@pytest.mark.parametrize("limit", ["max", "runtime"])
def test_children_together_do_not_exceed_their_parent_during_changes(make, limit):
    """D3: the original's default is not to look at the parents."""
    answers = []
    for check in (True, False):
        tree = make(limit=limit, check_ancestors=check)
        tree.set_total({"x": 20})
        tree.set_quota(Quota("p", max={"x": 10}))
        for name in "ab":
            tree.set_quota(Quota(name, max={"x": 10}, min={"x": 5}, parent="p"))
        tree.run(wish("a", 10))
        tree.submit(wish("b", 5))
        answers.append(tree.decide("of b"))
    # b is entitled to 5, so a has to go where the parent counts.
    assert answers == [("preempt",), ("bind",)]


HUGE = 2**62 - 1


@both
@pytest.mark.parametrize("count", [3, 5])
def test_weights_without_limits_do_not_overflow(make, count):
    """D4: weights are as max; in the original 3 siblings had 0 each, 5 had 1000 each."""
    names = "abcde"[:count]
    tree = make()
    tree.set_total({"x": 1000})
    for name in names:
        tree.set_quota(Quota(name, max={"x": HUGE}))
        tree.submit(wish(name, 5000))
    assert runtimes(tree, names) == {3: [334, 333, 333], 5: [200] * 5}[count]
    assert fills(1000, [5000] * count, [0] * count, [HUGE] * count) == runtimes(tree, names)
    # The sum of the weights in 64 bits with a sign, as there.
    wrapped = (HUGE * count + 2**63) % 2**64 - 2**63
    assert {3: wrapped < 0, 5: 0 < wrapped < HUGE}[count]


@both
def test_whatever_is_read_first_the_minimums_of_all_siblings_are_scaled(make):
    """D5: in the original those not on the path that is read keep what they had."""
    reads = []
    for order in ("abcp", "cbap", "pabc", "bbbb"):
        tree = below_p(make, 600_000)
        assert tree.runtime(order[0])
        tree.set_total({"x": 200_000})
        for name in order:
            tree.runtime(name)
        reads.append([tree.runtime(name)["x"] for name in "pabc"])
    assert reads == [[200_000, 66_667, 66_667, 66_666]] * 4


@both
def test_bytes_beyond_what_a_float_holds_are_scaled_exactly(make):
    """D5: minimums of 8 PiB and some; available * minimum is near 2**106."""
    least = {"a": 2**53 + 1, "b": 2**53 + 3, "c": 2**52 + 5}
    total = 2**54 + 7
    tree = make()
    tree.set_total({"x": total})
    for name, amount in least.items():
        tree.set_quota(Quota(name, max={"x": 2**60}, min={"x": amount}, weight={"x": 0}))
        tree.submit(wish(name, 2**60))
    exact = {n: Fraction(total * m, sum(least.values())) for n, m in least.items()}
    given = {name: tree.see("min", name)["x"] for name in least}
    assert sum(given.values()) == total
    assert all(abs(given[name] - exact[name]) < 1 for name in least)
    assert [tree.runtime(name)["x"] for name in least] == list(given.values())
    # In doubles, truncated, units are lost.
    doubles = {
        n: int(float(total) * float(m) / float(sum(least.values()))) for n, m in least.items()
    }
    assert doubles != {name: int(part) for name, part in exact.items()}
    tree.check()


@both
def test_no_victim_is_named_twice(make):
    """D6."""
    tree = tree_of(make, {"x": 1, "y": 1}, Quota("q", max={"x": 9, "y": 9}))
    for i in range(4):
        tree.run(QuotaRequest(f"o{i}", "q", {"x": 1, "y": 1}, priority=i % 2))
    assert tree.revocable("q") == ("o3", "o0", "o2")
