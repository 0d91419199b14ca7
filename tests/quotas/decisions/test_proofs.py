"""Decisions on quotas prove themselves: true ones pass, each lie is noticed by its rule."""

from random import Random

import pytest
from profiles import SCALE, seeds
from quotas.lives import Life

from hivecore.errors import CertificateError
from hivecore.quotas import Quota, QuotaRequest, QuotaTree, proof
from hivecore.quotas.quota_decision import QuotaDecision

SETTINGS = [
    {},
    {"limit": "max"},
    {"scale_min": False},
    {"guarantee": True},
    {"limit": "max", "check_ancestors": False},
    {"check_ancestors": False},
]


def decisions(life, rng):
    """All that can be asked of a tree now."""
    if life.twin.quotas:
        yield life.tree.schedule(life.new_request(rng))
    pending = [name for name in life.tree.owners if not life.tree.members(name)]
    for name in life.tree.owners:
        if life.tree.members(name) < life.tree.request(name).count:
            yield life.tree.schedule(name)
            yield life.tree.preempt_within(name)
    yield from (life.tree.schedule(pending[i : i + 2]) for i in range(0, len(pending) - 1, 2))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_decision_of_random_lives_proves_itself(settings):
    proven = {"bind": 0, "preempt": 0, "wait": 0}
    for seed in seeds(12):
        rng = Random(f"{seed} {settings}")
        life = Life(**settings)
        if seed % 2:
            life.crowd(rng)
        for i in range(80):
            (life.step if seed % 2 == 0 else life.press if i % 8 else life.set_total)(rng)
            for decision in decisions(life, rng):
                decision.verify(life.tree)
                proven[decision.outcome] += 1
    reclaims = settings.get("check_ancestors", True) and "guarantee" not in settings
    if SCALE >= 1:
        assert min(proven["bind"], proven["wait"]) > 100
        assert proven["preempt"] > 0 or not reclaims


def pressed(preemptible=False):
    """a uses 9 of 12 and may use 7, c uses 2 and may use 5: a3 has to go so that o gets 3."""
    tree = QuotaTree(
        [
            Quota("a", max={"x": 12, "y": 9}, min={"x": 7}, weight={}),
            Quota("b", max={"x": 12, "y": 9}, min={"x": 5, "y": 9}),
            Quota("c", max={"x": 12, "y": 9}, min={"x": 5, "y": 9}, parent="b"),
        ],
        total={"x": 12, "y": 9},
        limit="max",
        scale_min=False,
    )
    for name, quota, amount in (("a1", "a", 3), ("a2", "a", 3), ("a3", "a", 2), ("a4", "a", 0)):
        tree.recover(QuotaRequest(name, quota, {"x": amount, "y": 1}, preemptible=name != "a2"), 1)
    tree.recover(QuotaRequest("a5", "a", {"x": 1, "y": 1}), 1)
    tree.recover(QuotaRequest("c1", "c", {"x": 2, "y": 1}, preemptible=False), 1)
    tree.submit(QuotaRequest("o", "c", {"x": 1, "y": 1}, count=3, preemptible=preemptible))
    tree.submit(QuotaRequest("idle", "a", {"x": 1}))
    return tree


def changed(decision, **changes):
    """The same decision but for some of its parts."""
    parts = ("request", "_asks", "outcome", "victims", "borrows", "refusal")
    values = {name: getattr(decision, name) for name in parts} | changes
    return QuotaDecision(*values.values())


def asks(decision, members=None, before=None, **changes):
    ((request, more, runs),) = decision._asks
    request = request.replace(**changes)
    return ((request, more if members is None else members, runs if before is None else before),)


#: What is said wrongly, the rule that notices it, and how it comes about.
LIES = {
    "other amounts": ("_check_owners", lambda d: changed(d, _asks=asks(d, amounts={"x": 1}))),
    "another quota": ("_check_owners", lambda d: changed(d, _asks=asks(d, quota="b"))),
    "preemptible": ("_check_owners", lambda d: changed(d, _asks=asks(d, preemptible=True))),
    "fewer members": ("_check_owners", lambda d: changed(d, _asks=asks(d, members=1))),
    "no members": ("_check_owners", lambda d: changed(d, _asks=asks(d, members=0))),
    "one that runs": ("_check_owners", lambda d: changed(d, _asks=asks(d, members=3, before=1))),
    "named twice": ("_check_owners", lambda d: changed(d, _asks=d._asks * 2)),
    "bind with victims": ("_check_victims", lambda d: changed(d, outcome="bind")),
    "a victim twice": ("_check_victims", lambda d: changed(d, victims=d.victims * 2)),
    "a firm victim": (
        "_check_victims",
        lambda d: changed(d, victims=(*d.victims, "a2")),
    ),
    "an idle victim": (
        "_check_victims",
        lambda d: changed(d, victims=(*d.victims, "idle")),
    ),
    "a victim that is too small": ("_check_total", lambda d: changed(d, victims=("a5",))),
    "a victim that uses nothing": ("_check_total", lambda d: changed(d, victims=("a4",))),
}


def limits(name, **changes):
    return lambda tree: tree.set_quota(tree.quota(name).replace(**changes))


#: What is not so any more, and the rule that notices it.
CHANGES = {
    "runtime of its parent": ("_check_limit", limits("b", min={"x": 3, "y": 9}, weight={})),
    "runtime in y": ("_check_limit", limits("b", min={"x": 5}, weight={})),
    "minimum": ("_check_minimum", limits("c", min={"x": 3, "y": 9})),
    "minimum in y": ("_check_minimum", limits("c", min={"x": 5, "y": 3})),
    "total": ("_check_total", lambda tree: tree.set_total({"x": 11, "y": 9})),
    "total in y": ("_check_total", lambda tree: tree.set_total({"x": 12, "y": 7})),
}

#: The same of an owner that can be preempted, which no minimum concerns.
CHANGES_OF_THE_REST = {
    "runtime of the quota": ("_check_limit", limits("c", min={"x": 3, "y": 9}, weight={})),
    "maximum": ("_check_limit", limits("c", max={"x": 4, "y": 9}, min={"x": 4, "y": 9})),
}

RULES = ["_check_owners", "_check_victims", "_check_limit", "_check_minimum", "_check_total"]


def is_noticed(decision, tree):
    try:
        decision.verify(tree)
    except CertificateError:
        return True
    return False


def rules_broken(decision, tree):
    """The rules that would notice it if they were the only one."""
    results = []
    for rule in RULES:
        with pytest.MonkeyPatch.context() as patch:
            for other in RULES:
                if other != rule:
                    patch.setattr(proof, other, lambda *arguments: None)
            if is_noticed(decision, tree):
                results.append(rule)
    return results


@pytest.mark.parametrize("preemptible", [False, True])
def test_the_decision_that_is_tampered_with_is_true(preemptible):
    tree = pressed(preemptible)
    decision = tree.schedule("o")
    assert (decision.outcome, decision.victims) == ("preempt", ("a3",))
    assert not is_noticed(decision, tree)


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_noticed_by_its_rule_and_no_other(lie):
    tree = pressed()
    rule, tamper = LIES[lie]
    claimed = tamper(tree.schedule("o"))
    assert is_noticed(claimed, tree)
    assert rules_broken(claimed, tree) == [rule]


@pytest.mark.parametrize(
    ("preemptible", "rule", "happen"),
    [
        *((False, *value) for value in CHANGES.values()),
        *((True, *value) for value in CHANGES_OF_THE_REST.values()),
    ],
    ids=[*CHANGES, *CHANGES_OF_THE_REST],
)
def test_each_limit_is_noticed_by_its_rule_and_no_other(preemptible, rule, happen):
    tree = pressed(preemptible)
    decision = tree.schedule("o")
    happen(tree)
    assert is_noticed(decision, tree)
    assert rules_broken(decision, tree) == [rule]


def test_an_owner_that_waits_claims_nothing_and_an_unknown_victim_is_noticed():
    tree = pressed()
    decision = tree.schedule("o")
    assert not is_noticed(changed(decision, outcome="wait", victims=()), tree)
    with pytest.raises(CertificateError, match="'unknown' does not run"):
        changed(decision, victims=("unknown",)).verify(tree)
    with pytest.raises(CertificateError, match="'preempt' has 0 victims"):
        changed(decision, victims=()).verify(tree)


def test_a_victim_in_the_same_quota_may_make_room_for_an_owner_that_borrows():
    """The maximum counts then, not the runtime."""
    quotas = [
        Quota("a", max={"x": 10}, weight={"x": 1}),
        Quota("b", max={"x": 10}, min={"x": 8}),
    ]
    tree = QuotaTree(quotas, total={"x": 10}, limit="max")
    tree.recover(QuotaRequest("weak", "a", {"x": 5}), 1)
    tree.recover(QuotaRequest("other", "b", {"x": 5}), 1)
    tree.submit(QuotaRequest("more", "b", {"x": 5}))
    tree.submit(QuotaRequest("strong", "a", {"x": 5}, priority=1))
    assert tree.runtime("a") == {"x": 0}
    decision = tree.preempt_within("strong")
    assert decision.victims == ("weak",)
    decision.verify(tree)


def test_what_a_quota_does_not_manage_is_no_reason_to_refuse_its_owner():
    quotas = [
        Quota("p", max={"x": 9, "y": 9}),
        Quota("a", max={"x": 9}, parent="p"),
        Quota("b", max={"x": 9, "y": 9}, parent="p"),
    ]
    tree = QuotaTree(quotas, total={"x": 9, "y": 1})
    tree.recover(QuotaRequest("over", "b", {"y": 2}), 1)
    tree.submit(QuotaRequest("o", "a", {"x": 1, "y": 1}))
    decision = tree.schedule("o")
    assert decision.outcome == "bind"
    decision.verify(tree)


def test_an_owner_that_was_not_submitted_is_checked_as_if_it_had_been():
    tree = QuotaTree([Quota("a", max={"x": 9})], total={"x": 9})
    before = tree.to_bytes()
    decision = tree.schedule(QuotaRequest("o", "a", {"x": 4}))
    assert (decision.outcome, tree.runtime("a")) == ("bind", {"x": 0})
    decision.verify(tree)
    ((request, _, _),) = decision._asks
    for changes in ({"quota": "unknown"}, {"amounts": {"x": 10}}):
        answers = ((request.replace(**changes), 1, 0),)
        assert is_noticed(changed(decision, _asks=answers), tree)
    assert tree.to_bytes() == before


def test_owners_of_a_quota_and_of_one_below_it_fit_into_its_minimum_together():
    quotas = [
        Quota("p", max={"x": 9}, min={"x": 2}),
        Quota("c", max={"x": 9}, min={"x": 2}, parent="p"),
    ]
    tree = QuotaTree(quotas, total={"x": 9})
    firm = {"amounts": {"x": 2}, "preemptible": False}
    request = [QuotaRequest("1", "p", **firm), QuotaRequest("2", "c", **firm)]
    assert (tree.schedule(request).outcome, tree.schedule(request[::-1]).outcome) == (
        "wait",
        "wait",
    )
    tree.set_quota(quotas[0].replace(min={"x": 4}))
    decision = tree.schedule(request)
    assert decision.outcome == "bind"
    decision.verify(tree)
    tree.set_quota(quotas[0])
    assert rules_broken(decision, tree) == ["_check_minimum"]


def test_what_an_outside_quota_gets_beside_others_is_noticed_where_it_is_missing():
    tree = QuotaTree(
        [Quota("sys", max={"x": 100}, outside=True), Quota("a", max={"x": 100})], total={"x": 25}
    )
    for limit, rule in (("runtime", "_check_limit"), ("max", "_check_total")):
        tree = QuotaTree(map(tree.quota, tree.quotas), total={"x": 25}, limit=limit)
        request = [QuotaRequest("s", "sys", {"x": 15}), QuotaRequest("j", "a", {"x": 10})]
        decision = tree.schedule(request)
        assert decision.outcome == "bind"
        decision.verify(tree)
        tree.set_total({"x": 24})
        assert rule in rules_broken(decision, tree)
