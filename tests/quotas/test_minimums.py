"""Which minimums are in effect, and that a maximum holds where minimums below add up to more."""

from random import Random

import pytest
from profiles import seeds
from quotas.examples import both, runtimes, wish

from hivecore.quotas import Quota, QuotaRequest, QuotaTree

LEAVES = ("detect", "segment", "speech")


def nested(make, total, **settings):
    """org (96) over vision (48; over detect and segment, 24 each) and speech (48)."""
    tree = make(**settings)
    tree.set_total({"x": total})
    for name, parent, least in (
        ("org", "", 96),
        ("vision", "org", 48),
        ("speech", "org", 48),
        ("detect", "vision", 24),
        ("segment", "vision", 24),
    ):
        tree.set_quota(Quota(name, parent=parent, max={"x": 96}, min={"x": least}))
    return tree


def minimums(tree):
    names = ("org", "vision", "speech", "detect", "segment")
    return [tree.see("min", name)["x"] for name in names]


@both
@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (96, [96, 48, 48, 24, 24]),
        (4000, [96, 48, 48, 24, 24]),
        (95, [95, 47, 48, 24, 23]),
        (48, [48, 24, 24, 12, 12]),
        (0, [0, 0, 0, 0, 0]),
    ],
)
def test_minimums_are_the_same_whether_a_tree_is_idle_half_busy_or_busy(make, total, expected):
    tree = nested(make, total)
    assert minimums(tree) == expected
    for name, amount in (("detect", 8), ("speech", 30), ("segment", 96), ("vision", 96)):
        tree.submit(wish(name, amount))
        assert minimums(tree) == expected
        tree.check()
    for name in LEAVES:
        tree.release(f"of {name}")
        assert minimums(tree) == expected


@both
def test_minimums_follow_limits_totals_and_what_is_used_outside(make):
    tree = nested(make, 96)
    tree.set_quota(Quota("sys", max={"x": 96}, outside=True))
    tree.run(wish("sys", 48, "daemon"))
    assert minimums(tree) == [48, 24, 24, 12, 12]
    tree.release("daemon")
    assert minimums(tree) == [96, 48, 48, 24, 24]
    tree.set_quota(Quota("org", max={"x": 60}, min={"x": 60}))
    assert minimums(tree) == [60, 30, 30, 15, 15]
    tree.set_total({"x": 30})
    assert minimums(tree) == [30, 15, 15, 8, 7]
    tree.set_total({"x": 96})
    tree.set_quota(Quota("org", max={"x": 96}, min={"x": 96}))
    tree.move("speech", "vision")  # whose minimum was enough for the two below it
    assert [tree.see("min", name)["x"] for name in ("vision", *LEAVES)] == [48, 24, 24, 48]
    tree.check()


def sound(rng):
    """(quotas, the sum of minimums at the top); those below a quota are no more than its own."""
    quotas = []

    def grow(parent, most, left, depth):
        for letter in "abcd"[: rng.randint(1, 4)]:
            least = rng.randint(0, left)
            left -= least
            name, limit = parent + letter, rng.randint(least, max(most, least) + 5)
            weights = None if rng.random() < 0.6 else {"x": rng.randint(0, 3)}
            flags = {"lends": rng.random() < 0.8, "scales": rng.random() < 0.9}
            limits = {"max": {"x": limit}, "min": {"x": least}, "weight": weights}
            quotas.append(Quota(name, parent=parent, **limits, **flags))
            if depth < 3 and rng.random() < 0.6:
                grow(name, limit, least, depth + 1)

    grow("", 30, 60, 1)
    return quotas, sum(dict(quota.min)["x"] for quota in quotas if not quota.parent)


def test_sound_trees_keep_their_minimums_and_every_quota_may_use_its_own():
    for seed in seeds(300):
        rng = Random(f"{seed} sound")
        quotas, needed = sound(rng)
        total = rng.choice((needed, needed + rng.randint(0, 20), rng.randint(0, needed)))
        tree = QuotaTree(quotas, total={"x": total}, limit=rng.choice(("runtime", "max")))
        idle = {quota.name: tree.status(quota.name).min for quota in quotas}
        if total >= needed:
            assert idle == {quota.name: dict(quota.min) for quota in quotas}
        for i in range(rng.randint(0, 12)):
            owner = QuotaRequest(f"o{i}", rng.choice(quotas).name, {"x": rng.randint(1, 15)})
            tree.recover(owner, rng.randint(0, 1))
        for quota in quotas:
            status = tree.status(quota.name)
            assert status.min == idle[quota.name]
            least = min(status.limited_request["x"], status.min["x"])
            assert status.runtime["x"] >= least
        tree.check()


# --- a maximum where what runs is guaranteed


def promised(make, **settings):
    """g (max 20) over p (max 12) over a and b, which are promised 10 each."""
    tree = make(guarantee=True, **settings)
    tree.set_total({"x": 100})
    tree.set_quota(Quota("g", max={"x": 20}))
    tree.set_quota(Quota("p", parent="g", max={"x": 12}))
    for name in "ab":
        tree.set_quota(Quota(name, parent="p", max={"x": 10}, min={"x": 10}))
    tree.set_quota(Quota("c", parent="g", max={"x": 10}, min={"x": 10}))
    return tree


@both
def test_what_runs_is_kept_beyond_a_maximum_that_is_lowered_and_no_more_is_admitted(make):
    tree = promised(make)
    tree.run(wish("a", 9, "runs"))
    tree.set_quota(Quota("p", parent="g", max={"x": 6}))
    assert runtimes(tree, "p") == [9]
    tree.submit(wish("b", 1))
    assert tree.decide("of b") == ("wait", "runtime", "p")
    tree.release("runs")
    assert runtimes(tree, "p") == [6]
    assert tree.decide("of b") == ("bind",)
