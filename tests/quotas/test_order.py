"""A tree of quotas follows from what is in it, not from the order in which it came there."""

from random import Random

import pytest
from profiles import seeds
from quotas.lives import Life

from hivecore.quotas import Quota, QuotaRequest, QuotaTree

MOST = 2**62


def rebuilt(tree, rng):
    """The same quotas, totals and owners, in another order and with detours."""
    created = QuotaTree(
        limit=tree._settings[0],
        **dict(
            zip(("check_ancestors", "scale_min", "guarantee"), tree._settings[1:4], strict=True)
        ),
    )
    totals = list(tree._names.totals.items())
    rng.shuffle(totals)
    for name, (total, carved) in totals:
        created.set_total({"other": 5}, tree=name)
        created.set_total(dict(total), tree=name, carved=carved)
    left = list(tree.quotas)
    while left:
        name = rng.choice(
            [quota_name for quota_name in left if tree.quota(quota_name).parent not in left]
        )
        left.remove(name)
        quota = tree.quota(name)
        if rng.random() < 0.5 and not quota.outside:
            other = {"max": quota.max, "parent": quota.parent, "tree": quota.tree}
            created.set_quota(Quota(name, **other))
            created.submit(QuotaRequest("passing", name, {d: 1 for d, _ in quota.max}))
            created.set_quota(quota)
            created.release("passing")
        else:
            created.set_quota(quota)
    names = [name for name in tree.owners if not tree.members(name)]
    rng.shuffle(names)
    created.submit_many([tree.request(name) for name in names])
    for name in started(tree):
        created.recover(tree.request(name), tree.members(name))
    return created


def started(tree):
    """Running owners, in the order of their starts."""
    running = [name for name in tree.owners if tree.members(name)]
    return sorted(running, key=lambda name: tree._core.owner(tree._owners[name])[-2])


def seen(tree, decided=True):
    """What can be seen of it."""
    return (
        [(name, tree.status(name)) for name in tree.quotas],
        [(name, tree.request(name), tree.members(name)) for name in tree.owners],
        [tree.overusers(name) for name in tree.quotas],
        tree.overused(),
        [tree.schedule(name) for name in tree.owners if decided and not tree.members(name)],
        [tree.total(name) for name in sorted(tree._names.totals)],
    )


@pytest.mark.parametrize("large", [1, 2**56 + 1])
@pytest.mark.parametrize(
    "settings", [{}, {"limit": "max"}, {"guarantee": True}, {"scale_min": False}], ids=str
)
def test_a_tree_rebuilt_in_another_order_is_the_same(settings, large):
    for seed in seeds(10):
        rng = Random(f"{seed} {settings} {large} rebuilt")
        life = Life(large=large, **settings)
        for _ in range(90):
            life.step(rng)
        # An event, after which all may borrow, as those of the other tree.
        life.set_total(rng)
        other = rebuilt(life.tree, rng)
        other.check()
        assert seen(other) == seen(life.tree)
        assert other.to_bytes() == life.tree.to_bytes()


def operations(rng):
    """Of each of four quotas: what happens there in its own order; no owner runs."""
    lists = []
    for name in "abcd":
        steps = []
        for i in range(rng.randint(2, 7)):
            owner = f"{name}{i}"
            amounts = {"x": rng.randint(0, 9), "y": rng.randint(0, 9)}
            request = QuotaRequest(owner, name, amounts, count=rng.randint(1, 3))
            steps.append(lambda tree, request=request: tree.submit(request))
            if rng.random() < 0.4:
                steps.append(lambda tree, owner=owner: tree.release(owner))
            if rng.random() < 0.5:
                most = {"x": rng.randint(0, 30), "y": rng.randint(0, 30)}
                quota = Quota(name, max=most, parent="p" if name in "ab" else "")
                steps.append(lambda tree, quota=quota: tree.set_quota(quota))
            if rng.random() < 0.5:
                steps.append(lambda tree, name=name: tree.runtime(name))
        lists.append(steps)
    return lists


def woven(lists, rng):
    """One order that keeps that of each list."""
    left = [list(steps) for steps in lists]
    while any(left):
        yield rng.choice([steps for steps in left if steps]).pop(0)


def test_unrelated_operations_in_any_order_give_the_same():
    for seed in seeds(25):
        rng = Random(f"{seed} woven")
        lists = operations(rng)
        most = {"x": 20, "y": 20}
        start = QuotaTree([Quota("p", max=most)], total=most)
        for name in "abcd":
            start.set_quota(Quota(name, max=most, parent="p" if name in "ab" else ""))
        ends = []
        for _ in range(5):
            tree = start.copy()
            for step in woven(lists, rng):
                step(tree)
            tree.check()
            ends.append((tree.to_bytes(), seen(tree)))
        assert ends == [ends[0]] * 5


def test_what_is_read_in_between_makes_no_difference():
    for seed in seeds(10):
        lives = [Life(), Life()]
        chances = [Random(f"{seed} read") for _ in lives]
        looks = Random(seed)
        for _ in range(80):
            for life, chance in zip(lives, chances, strict=True):
                life.step(chance)
            tree = lives[0].tree
            for name in looks.sample(tree.quotas, looks.randint(0, len(tree.quotas))):
                tree.runtime(name)
                tree.status(name)
                tree.overusers(name)
            tree.overused()
            tree.copy()
        assert seen(lives[0].tree) == seen(lives[1].tree)
        assert lives[0].tree.to_bytes() == lives[1].tree.to_bytes()


def path_of_four(total):
    quotas = [Quota("q0", max={"x": MOST})]
    quotas += [Quota(f"q{i}", max={"x": MOST}, parent=f"q{i - 1}") for i in range(1, 4)]
    return QuotaTree(quotas, total={"x": total})


@pytest.mark.slow
def test_a_hundred_thousand_owners_on_one_path_add_up():
    count = 100_000
    tree = path_of_four(count)
    tree.submit_many([QuotaRequest(f"o{i}", "q3", {"x": 2}) for i in range(count)])
    assert [tree.status(f"q{i}").request for i in range(4)] == [{"x": 2 * count}] * 4
    assert tree.runtime("q3") == {"x": count}
    decisions = tree.schedule_many([f"o{i}" for i in range(count)])
    outcomes = [decision.outcome for decision in decisions]
    assert outcomes == ["bind"] * (count // 2) + ["wait"] * (count // 2)
    for decision in decisions[: count // 2]:
        tree.commit(decision)
    assert [tree.status(f"q{i}").used for i in range(4)] == [{"x": count}] * 4
    tree.set_total({"x": count - 7})
    assert tree.overusers("q3") == tuple(f"o{count // 2 - i}" for i in range(4, 0, -1))
    other = tree.copy()
    for i in range(count):
        tree.release(f"o{i}")
    assert [tree.status(f"q{i}").request for i in range(4)] == [{"x": 0}] * 4
    assert [tree.status(f"q{i}").used for i in range(4)] == [{"x": 0}] * 4
    assert len(other.owners) == count
    assert other.status("q0").used == {"x": count}


def test_sums_to_the_last_unit_of_62_bits():
    tree = path_of_four(MOST)
    parts = [MOST // 3, MOST // 3, MOST - 2 * (MOST // 3)]
    for i, part in enumerate(parts):
        tree.commit(tree.schedule(QuotaRequest(f"o{i}", "q3", {"x": part})))
    assert [tree.status(f"q{i}").used for i in range(4)] == [{"x": MOST}] * 4
    assert tree.runtime("q3") == tree.total() == {"x": MOST}
    with pytest.raises(ValueError, match="a sum would be above"):
        tree.submit(QuotaRequest("more", "q3", {"x": 1}))
    tree.check()
    tree.set_total({"x": MOST - 1})
    assert tree.overusers("q3") == ("o2",)
    for i in range(3):
        tree.release(f"o{i}")
    tree.submit(QuotaRequest("all", "q3", {"x": 1}, count=2**31 - 1))
    assert tree.status("q0").request == {"x": 2**31 - 1}
