"""Trees of quotas refuse what is wrong, name the argument, and stay as they were."""

import math
import random

import numpy as np
import pytest
from profiles import seeds
from quotas.examples import request, tree_with_owners

from hivecore.quotas import (
    Quota,
    QuotaRequest,
    QuotaTree,
)

MOST = 2**62
AMOUNTS = [
    ({"x": -1}, ValueError),
    ({"x": MOST + 1}, ValueError),
    ({"x": 2**63}, ValueError),
    ({"x": 10**400}, ValueError),
    ({"x": 0.0001}, ValueError),
    ({"x": math.nan}, ValueError),
    ({"x": math.inf}, ValueError),
    ({"x": b"1"}, TypeError),
    ({"x": None}, TypeError),
    ({3: 1}, TypeError),
    ({"": 1}, ValueError),
    (5, TypeError),
    ("x", TypeError),
    ([("x", 1)], TypeError),
    ((("x", 1), ("x", 2)), ValueError),
    ((("x", 1, 2),), ValueError),
    (("x",), TypeError),
]


@pytest.mark.parametrize(("amounts", "error"), AMOUNTS, ids=str)
@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda amounts: Quota("a", max=amounts), "max"),
        (lambda amounts: Quota("a", max={"x": MOST}, min=amounts), "min"),
        (lambda amounts: Quota("a", max={"x": MOST}, weight=amounts), "weight"),
        (lambda amounts: QuotaRequest("o", "a", amounts), "amounts"),
        (lambda amounts: QuotaTree(total=amounts), "total"),
        (lambda amounts: tree_with_owners().set_total(amounts), "total"),
        (lambda amounts: tree_with_owners().set_weights({"a": amounts}), "weight"),
    ],
)
def test_amounts_that_are_none_are_named(make, named, amounts, error):
    with pytest.raises(error, match=named):
        make(amounts)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"name": ""}, ValueError, "name must not be empty"),
        ({"name": 5}, TypeError, "name must be a string, not int"),
        ({"parent": None}, TypeError, "parent must be a string"),
        ({"tree": 5}, TypeError, "tree must be a string"),
        ({"lends": 1}, TypeError, "lends must be a bool"),
        ({"scales": None}, TypeError, "scales must be a bool"),
        ({"outside": "no"}, TypeError, "outside must be a bool"),
        ({"min": {"x": 9}}, ValueError, r"min\['x'\]=9: is above max, 8"),
        ({"min": {"y": 0}}, ValueError, "min: 'y' has no max"),
        ({"weight": {"y": 0}}, ValueError, "weight: 'y' has no max"),
        ({"parent": "p", "outside": True}, ValueError, "outside: is for quotas at the top"),
        ({"parent": "p", "tree": "t"}, ValueError, "tree: is for quotas at the top"),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(arguments, error, match):
    with pytest.raises(error, match=match):
        Quota(**{"name": "a", "max": {"x": 8}, **arguments})


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"name": ""}, ValueError, "name must not be empty"),
        ({"quota": ""}, ValueError, "quota must not be empty"),
        ({"quota": 3}, TypeError, "quota must be a string"),
        ({"count": 0}, ValueError, "count=0: allowed are 1 to 2147483647"),
        ({"count": 2**31}, ValueError, "count=2147483648"),
        ({"count": 1.0}, TypeError, "count must be an integer"),
        ({"count": 2, "min_count": 3}, ValueError, "min_count=3: allowed are 1 to 2"),
        ({"min_count": 0}, ValueError, "min_count=0"),
        ({"min_count": math.nan}, TypeError, "min_count must be an integer"),
        ({"priority": 2**31}, ValueError, "priority=2147483648"),
        ({"priority": -(2**31) - 1}, ValueError, "priority=-2147483649"),
        ({"priority": "high"}, TypeError, "priority must be an integer"),
        ({"preemptible": 0}, TypeError, "preemptible must be a bool"),
        ({"amounts": {"x": MOST}, "count": 2}, ValueError, r"amounts\['x'\]=4611686018427387904"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(arguments, error, match):
    with pytest.raises(error, match=match):
        QuotaRequest(**{"name": "o", "quota": "a", "amounts": {"x": 8}, **arguments})


@pytest.mark.parametrize("make", [lambda: Quota("a", max={"x": 1}), request])
def test_quotas_and_requests_are_values(make):
    first = make()
    assert first == make()
    assert hash(first) == hash(make())
    assert first == first.replace()
    assert first != first.replace(name="other")
    with pytest.raises(AttributeError):
        first.name = "other"
    with pytest.raises(TypeError, match="colour"):
        first.replace(colour="red")


def test_amounts_may_be_numbers_of_numpy_and_pairs():
    assert Quota("a", max={"x": np.int64(4)}) == Quota("a", max=(("x", 4),))
    assert type(dict(Quota("a", max={"x": np.uint8(4)}).max)["x"]) is int
    assert request(amounts={"x": 1, "y": 0}) == request()  # of nothing there is nothing


WRONG = {
    TypeError: [
        (lambda _: QuotaTree(4), "quotas must be a sequence"),
        (lambda _: QuotaTree(["a"]), "quotas must hold Quota, not str"),
        (lambda _: QuotaTree(limit=None), "limit must be a string"),
        (lambda _: QuotaTree(check_ancestors=1), "check_ancestors"),
        (lambda _: QuotaTree(scale_min="yes"), "scale_min must be a bool"),
        (lambda _: QuotaTree(guarantee=None), "guarantee must be a bool"),
        (lambda t: t.set_quota("a"), "quota must be a Quota, not str"),
        (lambda t: t.move("a", None), "parent must be a string"),
        (lambda t: t.set_total({}, tree="other", carved=1), "carved must be a bool"),
        (lambda t: t.set_total({}, tree=None), "tree must be a string"),
        (lambda t: t.set_weights(3), "weights must be a mapping"),
        (lambda t: t.runtimes("x"), "dimensions must be a sequence"),
        (lambda t: t.runtimes([3]), "dimensions must be a string"),
        (lambda t: t.total([]), "tree must be a string"),
        (lambda t: t.submit("runs"), "request must be a QuotaRequest, not str"),
        (lambda t: t.submit_many("ab"), "requests must be a sequence"),
        (lambda t: t.submit_many([request(), "runs"]), "request must be a QuotaRequest"),
        (lambda t: t.recover("runs", 1), "request must be a QuotaRequest"),
        (lambda t: t.recover(request(), 0.5), "members must be an integer"),
        (lambda t: t.schedule(5), "request must be a sequence, not int"),
        (lambda t: t.schedule([5]), "request must be a QuotaRequest"),
        (lambda t: t.schedule("waits", members=2.5), "members must be an integer"),
        (lambda t: t.schedule_many("ab"), "requests must be a sequence"),
        (lambda t: t.fits(None), "request must be a sequence"),
        (lambda t: t.preempt_within(["waits"]), "request must be a Quota"),
        (lambda t: t.preempt_within("waits", budgets=5), "budgets must be"),
        (lambda t: t.preempt_within("waits", budgets=[5]), "budgets must be a sequence"),
        (lambda t: t.preempt_within("waits", budgets=[("full", 1)]), "budgets must be a sequence"),
        (lambda t: t.preempt_within("waits", budgets=[([5], 1)]), "budgets must be a string"),
        (lambda t: t.commit("waits"), "decision must be a QuotaDecision, not str"),
        (lambda t: t.commit_many(5), "decisions must be a sequence"),
        (
            lambda t: t.commit_many([t.schedule("waits"), "runs"]),
            "decision must be a QuotaDecision",
        ),
        (lambda t: t.explain(["waits"]), "request must be a QuotaRequest"),
        (lambda t: t.runtime_trace("a", None), "dimension must be a string"),
        (lambda t: t.from_bytes("text"), "data must be bytes, not str"),
    ],
    ValueError: [
        (
            lambda _: QuotaTree([Quota("a", max={}), Quota("a", max={"x": 1})]),
            "quotas: 'a' is there twice",
        ),
        (
            lambda _: QuotaTree([Quota("a", max={}, parent="b"), Quota("b", max={}, parent="a")]),
            "quotas: 'a' is its own ancestor",
        ),
        (lambda _: QuotaTree(limit="min"), "limit must be one of runtime, max"),
        (lambda t: t.set_quota(Quota("n", max={}, parent="q")), "parent 'q'"),
        (
            lambda t: t.set_quota(Quota("n", max={"y": 1}, parent="a")),
            "max of 'n': 'y' is no dimension of 'a'",
        ),
        (
            lambda t: t.set_quota(Quota("p", max={"x": 20})),
            "max of 'b': 'y' is no dimension of 'p'",
        ),
        (
            lambda t: t.set_quota(Quota("p", max={"x": 20, "y": 20}, tree="other")),
            "tree: quota 'p' is in ''",
        ),
        (
            lambda t: t.set_quota(Quota("q", max={"x": 9})),
            "outside: cannot change, quota 'q' has True",
        ),
        (
            lambda t: t.set_quota(Quota("n", max={f"d{i}": 1 for i in range(65)})),
            "there are 64 already",
        ),
        (lambda t: t.move("p", "p"), "parent 'p' is below 'p' itself"),
        (lambda t: t.move("p", "b"), "parent 'b' is below 'p' itself"),
        (lambda t: t.move("a", "r"), "tree: quota 'a' is in ''"),
        (lambda t: t.move("a", "q"), "parent 'q'"),
        (lambda t: t.move("q", "p"), "outside: is for quotas at the top"),
        (lambda t: t.move("b", "a"), "max of 'b': 'y' is no dimension of 'a'"),
        (lambda t: t.remove("p"), "quota 'p' has others below it, such as 'a'"),
        (lambda t: t.remove("b"), "quota 'b' has 2 owners"),
        (lambda t: t.set_total({}, carved=True), "carved: the default"),
        (lambda t: t.set_total({f"d{i}": 1 for i in range(65)}), "there are 64 already"),
        (lambda t: t.set_weights({"b": {"x": 7}, "a": {"y": 1}}), "weight: 'y' has no max"),
        (lambda t: t.submit(request("waits")), "request: there is an owner 'waits'"),
        (
            lambda t: t.submit(request(amounts={"x": MOST})),
            "request: 'new': a sum would be above 4611686018427387904",
        ),
        (
            lambda t: t.submit(request(amounts={f"d{i}": 1 for i in range(65)})),
            "there are 64 already",
        ),
        (
            lambda t: t.submit_many([request("m"), request("n"), request("m")]),
            "request: there is an owner 'm'",
        ),
        (lambda t: t.recover(request("runs"), 1), "an owner 'runs'"),
        (lambda t: t.recover(request(), 2), "members=2: allowed are 0 to 1"),
        (lambda t: t.recover(request(), -1), "members=-1"),
        (lambda t: t.schedule([]), "request: is empty"),
        (lambda t: t.schedule(["waits", "waits"]), "request: 'waits' is named twice"),
        (
            lambda t: t.schedule(request("waits")),
            "request: 'waits' was submitted with other values",
        ),
        (lambda t: t.schedule("full"), "has all its members"),
        (lambda t: t.schedule("waits", members=1), "members=1: allowed are 2 to 3"),
        (lambda t: t.schedule("runs", members=2), "members=2: allowed are 1 to 1"),
        (lambda t: t.schedule(["waits", request()], members=2), "members: is for one owner"),
        (lambda t: t.fits(request("waits")), "'waits'"),
        (lambda t: t.grow("waits"), "name: 'waits' does not run"),
        (lambda t: t.grow("runs", 2), "members=2: allowed are 1 to 1"),
        (lambda t: t.grow("runs", 0), "members=0"),
        (lambda t: t.grow("full"), "'full' has all its members"),
        (lambda t: t.preempt_within("waits", budgets=[((), 1, 2)]), "budgets must hold pairs"),
        (lambda t: t.preempt_within("waits", budgets=[(["full"], -1)]), "budgets=-1"),
        (lambda t: t.explain(request("waits")), "request: 'waits' was submitted with other values"),
        (lambda t: t.explain("full"), "has all its members"),
        (lambda t: t.runtime_trace("q", "x"), "quota 'q' may use its max in any case"),
    ],
    KeyError: [
        (lambda t: t.quota("z"), "there is no quota 'z'"),
        (lambda t: t.quota([]), r"there is no quota \[\]"),
        (lambda t: t.set_quota(Quota("n", max={}, parent="z")), "parent: there is no quota 'z'"),
        (lambda t: t.set_quota(Quota("n", max={}, parent="n")), "parent: there is no quota 'n'"),
        (lambda t: t.move("z", ""), "there is no quota 'z'"),
        (lambda t: t.move("a", "z"), "parent: there is no quota 'z'"),
        (lambda t: t.remove("z"), "there is no quota 'z'"),
        (lambda t: t.set_weights({"a": {"x": 7}, "z": {"x": 1}}), "there is no quota 'z'"),
        (lambda t: t.runtime(None), "there is no quota None"),
        (lambda t: t.runtimes(["x", "z"]), "there is no dimension 'z'"),
        (lambda t: t.status("z"), "there is no quota 'z'"),
        (lambda t: t.total("z"), "there is no tree 'z'"),
        (lambda t: t.request("z"), "there is no owner 'z'"),
        (lambda t: t.members(3), "there is no owner 3"),
        (lambda t: t.submit(request(quota="z")), "there is no quota 'z'"),
        (lambda t: t.submit_many([request("m"), request("n", quota="z")]), "there is no quota 'z'"),
        (lambda t: t.evict("z"), "there is no owner 'z'"),
        (lambda t: t.release("z"), "there is no owner 'z'"),
        (lambda t: t.recover(request(quota="z"), 1), "no quota 'z'"),
        (lambda t: t.schedule("z"), "there is no owner 'z'"),
        (lambda t: t.schedule(request(quota="z")), "no quota 'z'"),
        (lambda t: t.schedule([request(), "z"]), "there is no owner 'z'"),
        (lambda t: t.schedule_many([request(), "waits", "z"]), "there is no owner 'z'"),
        (lambda t: t.grow("z"), "there is no owner 'z'"),
        (lambda t: t.preempt_within("z"), "there is no owner 'z'"),
        (lambda t: t.overusers("z"), "there is no quota 'z'"),
        (lambda t: t.explain("z"), "there is no owner 'z'"),
        (lambda t: t.runtime_trace("z", "x"), "there is no quota 'z'"),
        (lambda t: t.runtime_trace("a", "y"), "quota 'a' has no dimension 'y'"),
    ],
}


@pytest.mark.parametrize(
    ("error", "call", "match"),
    [(error, *case) for error, cases in WRONG.items() for case in cases],
)
def test_what_is_wrong_is_named_and_changes_nothing(error, call, match):
    tree = tree_with_owners()
    before, next_to_decide = tree.to_bytes(), tree.schedule("waits")
    for _ in range(2):
        with pytest.raises(error, match=match):
            call(tree)
    tree.check()
    assert tree.to_bytes() == before
    assert tree.schedule("waits") == next_to_decide


@pytest.mark.parametrize("seed", seeds(40))
def test_there_is_room_up_to_the_limit_beside_what_is_used(seed):
    rng = random.Random(seed)
    quotas = [
        Quota("all", max={"gpu": 64, "cpu": 64}),
        Quota("system", max={"gpu": 4}, outside=True),
    ]
    for i in range(6):
        dimensions = {"gpu": rng.randint(4, 64), **({"cpu": 32} if i % 2 else {})}
        parent = rng.choice(["", "all", *(f"q{k}" for k in range(0, i, 2))])
        if parent and any(d not in dict(quotas[0].max) for d in dimensions):
            continue
        if parent.startswith("q") and "cpu" in dimensions:
            parent = "all"
        quotas.append(Quota(f"q{i}", max=dimensions, parent=parent))
    tree = QuotaTree(quotas, total={"gpu": 100, "cpu": 50})
    for i in range(12):
        name = rng.choice(tree.quotas)
        request = QuotaRequest(f"o{i}", name, {"gpu": rng.randint(1, 9), "cpu": rng.randint(0, 3)})
        tree.submit(request)
        decision = tree.schedule(request.name)
        if decision.outcome == "bind":
            tree.commit(decision)
    at = [rng.randrange(len(tree.quotas)) for _ in range(60)]
    more = [[rng.randint(-9, 9), rng.choice([0, rng.randint(-64, 64)])] for _ in at]
    for limit in ("runtime", "max", "total"):
        result = tree.have_room(limit, at, more, ["cpu", "gpu"])
        for has, row, wish in zip(result.tolist(), at, more, strict=True):
            name = tree.quotas[row]
            left = left_by(tree, name, limit)
            assert has == all(
                amount == 0 or amount <= left.get(dimension, amount)
                for amount, dimension in zip(wish, ["cpu", "gpu"], strict=True)
            )


def test_room_has_another_version_when_quotas_come_move_and_leave():
    tree = QuotaTree([])
    versions = [tree.room_version]
    for change in (
        lambda: tree.set_quota(Quota("a", max={})),
        lambda: tree.set_quota(Quota("b", max={})),
        lambda: tree.move("b", "a"),
        lambda: tree.remove("b"),
    ):
        change()
        versions.append(tree.room_version)
    assert len(set(versions)) == 5
    assert tree.room_version == versions[-1]


def left_by(tree, name, limit):
    """How much more a quota may use by a limit, of what it has a maximum of."""
    status, most = tree.status(name), dict(tree.quota(name).max)
    if limit == "total":
        tops = [
            quota
            for quota in tree.quotas
            if not (tree.quota(quota).parent or tree.quota(quota).outside)
        ]
        used = {d: sum(tree.status(quota).used.get(d, 0) for quota in tops) for d in most}
        return {d: tree.total().get(d, 0) - used[d] for d in most}
    limits = status.runtime if limit == "runtime" else most
    return {d: limits[d] - status.used[d] for d in most}


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (("max", [0], [[1]], ["x"]), KeyError, "no dimension 'x'"),
        (("min", [0], [[1]], ["gpu"]), ValueError, "limit"),
        (("max", [2], [[1]], ["gpu"]), ValueError, "quotas"),
        (("max", [-1], [[1]], ["gpu"]), ValueError, "quotas"),
        (("max", [0.0], [[1]], ["gpu"]), TypeError, "quotas"),
        (("max", [[0]], [[1]], ["gpu"]), ValueError, "quotas"),
        (("max", [0], [[-(2**62) - 1]], ["gpu"]), ValueError, "amounts"),
        (("max", [0], [[2**62 + 1]], ["gpu"]), ValueError, "amounts"),
        (("max", [0], [[-math.inf]], ["gpu"]), ValueError, "amounts"),
        (("max", [0], [[math.nan]], ["gpu"]), ValueError, "amounts"),
        (("max", [0], [["1"]], ["gpu"]), TypeError, "amounts"),
        (("max", [0], [1], ["gpu"]), ValueError, "amounts"),
        (("max", [0], [[1, 2]], ["gpu"]), ValueError, "amounts"),
        (("max", [0, 1], [[1]], ["gpu"]), ValueError, "amounts"),
    ],
)
def test_no_room_is_asked_for_that_cannot_be(arguments, error, match):
    tree = QuotaTree([Quota("a", max={"gpu": 4}), Quota("b", max={"gpu": 4})], total={"gpu": 8})
    with pytest.raises(error, match=match):
        tree.have_room(*arguments)
    assert tree.have_room("max", [], np.zeros((0, 1), int), ["gpu"]).tolist() == []


def test_what_less_important_owners_of_a_quota_use():
    tree = QuotaTree([Quota("a", max={"gpu": 9}), Quota("b", max={"gpu": 9})], total={"gpu": 18})
    for name, quota, gpus, priority, preemptible in (
        ("low", "a", 1, 0, True),
        ("lower", "a", 2, -1, True),
        ("fixed", "a", 0, -1, False),
        ("equal", "a", 1, 1, True),
        ("other", "b", 4, 0, True),
        ("waits", "a", 8, 0, True),
    ):
        terms = {"priority": priority, "preemptible": preemptible}
        tree.submit(QuotaRequest(name, quota, {"gpu": gpus}, **terms))
        if name != "waits":
            tree.commit(tree.schedule(name))
    assert tree.used_below("a", 1) == {"gpu": 3}
    assert tree.used_below("a", 0) == {"gpu": 2}
    assert tree.used_below("a", -1) == {}
    with pytest.raises(KeyError, match="there is no quota"):
        tree.used_below("c", 0)
    with pytest.raises(TypeError, match="priority"):
        tree.used_below("a", 0.5)
