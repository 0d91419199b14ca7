"""A maximum below what is used: that counts at the ancestors until it ends, and claims nothing."""

import pytest
from quotas.examples import both, runtimes, wish

from hivecore.quotas import Quota, QuotaTree

CHECKING = [{"lends": False}, {}, {"limit": "max"}, {"scale_min": False}, {"guarantee": True}]


def lowered(make, *, total=16, lends=True, **settings):
    """top (16) over b and c (4 to 8); b1 uses 8 of b, whose maximum is 4 now."""
    tree = make(**settings)
    tree.set_total({"x": total})
    tree.set_quota(Quota("top", max={"x": 16}))
    for name in "bc":
        tree.set_quota(below_top(name, lends=lends))
    tree.run(wish("b", 8, "b1"))
    tree.set_quota(below_top("b", most=4, lends=lends))
    return tree


def below_top(name, most=8, **options):
    return Quota(name, parent="top", max={"x": most}, min={"x": 4}, **options)


@both
@pytest.mark.parametrize("settings", CHECKING, ids=str)
def test_a_sibling_within_its_limits_starts_beside_it(make, settings):
    tree = lowered(make, **settings)
    tree.submit(wish("c", 4))
    own = 8 if "guarantee" in settings else 4
    assert runtimes(tree, ("top", "b", "c")) == [12, own, 4]
    assert tree.see("limited_request", "b") == {"x": 8}
    assert tree.see("request", "top") == {"x": 12}
    assert tree.revocable("b") == (() if "guarantee" in settings else ("b1",))
    assert tree.decide("of c") == ("bind",)
    tree.admit("of c")
    tree.check()


@both
@pytest.mark.parametrize("settings", CHECKING[:-1], ids=str)
def test_it_leaves_where_too_little_is_left(make, settings):
    tree = lowered(make, total=12, **settings)
    tree.submit(wish("c", 8))
    assert runtimes(tree, ("top", "b", "c")) == [12, 4, 8]
    assert (tree.decide("of c"), tree.victims("of c")) == (("preempt",), ("b1",))
    tree.evict("b1")
    assert runtimes(tree, ("top", "b", "c")) == [12, 4, 8]
    assert tree.decide("of c") == ("bind",)


@both
@pytest.mark.parametrize("settings", CHECKING[1:], ids=str)
def test_every_ancestor_counts_it_when_one_in_between_is_lowered(make, settings):
    tree = make(**settings)
    tree.set_total({"x": 16})
    tree.set_quota(Quota("org", max={"x": 16}))
    tree.set_quota(Quota("top", parent="org", max={"x": 16}))
    tree.set_quota(Quota("mid", parent="top", max={"x": 8}))
    for name, parent in (("b", "mid"), ("c", "top"), ("d", "org"), ("e", "mid")):
        tree.set_quota(Quota(name, parent=parent, max={"x": 4 if name == "e" else 8}))
    tree.run(wish("b", 8, "b1"))
    tree.set_quota(Quota("mid", parent="top", max={"x": 4}))
    own = 8 if "guarantee" in settings else 4
    for name in "cd":
        tree.submit(wish(name, 4))
    assert runtimes(tree, ("org", "top", "mid", "b", "c", "d")) == [16, 12, own, own, 4, 4]
    for name in "cd":
        tree.admit(f"of {name}")
    tree.submit(wish("e", 1))  # of the 4 of mid it is sure of some
    assert tree.victims("of e") == (() if "guarantee" in settings else ("b1",))
    tree.check()


def test_a_dimension_that_a_quota_gets_counts_beyond_its_maximum():
    tree = QuotaTree(
        [Quota("top", max={"x": 16, "y": 16}), below_top("b")], total={"x": 16, "y": 16}
    )
    request = wish("b", 2).replace(amounts={"x": 2, "y": 6})
    tree.recover(request, 1)
    assert tree.status("top").request == {"x": 2, "y": 0}
    tree.set_quota(Quota("b", parent="top", max={"x": 8, "y": 4}))
    assert tree.status("top").request == {"x": 2, "y": 6}
    tree.check()
    tree.set_quota(below_top("b"))
    assert tree.status("top").request == {"x": 2, "y": 0}
    tree.check()


MOST = 2**62


def huge():
    """The maximums of top's children add up to as much as is counted; b is to be beyond its."""
    tree = QuotaTree([Quota("top", max={"x": MOST, "y": 9})], total={"x": MOST})
    tree.set_quota(Quota("b", parent="top", max={"x": 4, "y": 9}))
    tree.set_quota(Quota("c", parent="top", max={"x": MOST, "y": 9}))
    tree.submit(wish("c", MOST - 4, "c1"))
    return tree


def test_an_owner_beyond_a_maximum_is_refused_where_a_sum_would_be_too_large():
    tree = huge()
    before = tree.to_bytes()
    with pytest.raises(ValueError, match="a sum would be above"):
        tree.recover(wish("b", 5, "b1").replace(amounts={"x": 5, "y": 1}), 1)
    assert tree.to_bytes() == before
    tree.check()


def test_limits_and_parents_stay_where_a_sum_would_be_too_large():
    tree = huge()
    tree.set_quota(Quota("b", parent="top", max={"y": 9}))
    tree.recover(wish("b", 5, "b1").replace(amounts={"x": 5, "y": 1}), 1)
    before = tree.to_bytes()
    with pytest.raises(ValueError, match="a sum would be above"):
        tree.set_quota(Quota("b", parent="top", max={"x": 4, "y": 9}))
    tree.set_quota(Quota("o", max={"x": 4, "y": 9}))
    tree.set_quota(Quota("b", parent="o", max={"x": 4, "y": 9}))
    with pytest.raises(ValueError, match="a sum would be above"):
        tree.move("b", "top")
    tree.check()
    tree.set_quota(Quota("b", parent="o", max={"y": 9}))
    tree.set_quota(Quota("b", parent="top", max={"y": 9}))
    tree.remove("o")
    assert tree.to_bytes() == before


@both
def test_no_victims_are_named_where_the_runtimes_without_them_would_not_do(make):
    """Without b1, top asks for so little that the minimums below it count as scaled: c has 2."""
    tree = make()
    tree.set_total({"x": 9})
    for name, parent, most, least, weight in (
        ("top", "", 8, 3, 3),
        ("o", "", 13, 3, 3),
        ("r", "", 11, 3, 1),
        ("b", "top", 3, 1, 1),
        ("c", "top", 10, 3, 0),
    ):
        limits = {"max": {"x": most}, "min": {"x": least}, "weight": {"x": weight}}
        tree.set_quota(Quota(name, parent=parent, **limits))
    tree.run(wish("b", 5, "b1"))
    tree.run(wish("b", 4, "b2"))
    for name, amount in (("top", 1), ("c", 3), ("r", 2)):
        tree.submit(wish(name, amount))
    assert (runtimes(tree, "bc"), tree.decide("of c")) == ([3, 3], ("wait", "total", ""))
    tree.evict("b1")
    assert runtimes(tree, "bc") == [3, 2]
