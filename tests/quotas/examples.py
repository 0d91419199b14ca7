"""Examples of trees of quotas, the same in the kernel and in its twin."""

import pytest

from hivecore.quotas import Quota, QuotaRequest, QuotaTree, water_fill, water_fill_rounds
from hivecore.reference.quotas import Claim
from hivecore.reference.quotas import QuotaTree as Twin
from hivecore.reference.quotas import water_fill as twin_fill


class Kernel:
    """What the examples look at, in the kernel."""

    def __init__(self, **settings):
        self.tree = QuotaTree(**settings)
        self.set_quota, self.remove = self.tree.set_quota, self.tree.remove
        self.move, self.submit = self.tree.move, self.tree.submit
        self.release, self.revocable = self.tree.release, self.tree.overusers
        self.runtime, self.net_total = self.tree.runtime, self.tree.total
        self.evict = self.tree.evict

    def set_total(self, total, tree="", carved=False):
        self.tree.set_total(total, tree=tree, carved=carved)

    def run(self, request):
        self.tree.recover(request, request.count)

    def see(self, field, name):
        return getattr(self.tree.status(name), field)

    def decide(self, name):
        decision = self.tree.schedule(name)
        refusal = decision.refusal
        return decision.outcome, *((refusal.code, refusal.part) if refusal else ())

    def victims(self, name):
        return self.tree.schedule(name).victims

    def admit(self, name):
        self.tree.commit(self.tree.schedule(name))

    def check(self):
        self.tree.check()


class Plain:
    """The same in the twin."""

    def __init__(self, **settings):
        self.tree = Twin(**settings)
        self.set_quota, self.remove = self.tree.set_quota, self.tree.remove
        self.submit, self.release = self.tree.submit, self.tree.release
        self.set_total, self.revocable = self.tree.set_total, self.tree.revocable
        self.evict = self.tree.evict

    def move(self, name, parent):
        self.tree.quotas[name] = self.tree.quotas[name]._replace(parent=parent)

    def run(self, request):
        self.tree.submit(request)
        self.tree.admit(request.name, request.count)

    def runtime(self, name):
        return self.tree.figures().runtime[name]

    def net_total(self, tree=""):
        return self.tree.figures().totals[tree]

    def see(self, field, name):
        field = {"limited_request": "limited", "min": "minimum"}.get(field, field)
        return getattr(self.tree.figures(), field)[name]

    def decide(self, name):
        answer = self.tree.decide({name: self.tree.owners[name].request.min_count})
        return answer.outcome, *((answer.code, answer.part) if answer.outcome == "wait" else ())

    def victims(self, name):
        return self.tree.decide({name: self.tree.owners[name].request.min_count}).victims

    def admit(self, name):
        assert self.decide(name) == ("bind",)
        self.tree.admit(name, self.tree.owners[name].request.min_count)

    def check(self):
        """Nothing is kept that could be wrong."""


both = pytest.mark.parametrize("make", [Kernel, Plain])


def wish(quota, amount, name=None, **options):
    """An owner of one member that asks for so much of "x"."""
    return QuotaRequest(name or f"of {quota}", quota, {"x": amount}, **options)


def tree_of(make, total, *quotas, **settings):
    tree = make(**settings)
    tree.set_total(total)
    for quota in quotas:
        tree.set_quota(quota)
    return tree


def siblings(make, total, quotas, **settings):
    """(name, min, request, weight, lends) of each, of one dimension."""
    tree = make(**settings)
    tree.set_total({"x": total})
    for name, least, request, weight, lends in quotas:
        quota = Quota(name, max={"x": 2**62}, min={"x": least}, weight={"x": weight}, lends=lends)
        tree.set_quota(quota)
        if request:
            tree.submit(wish(name, request))
    return tree


def runtimes(tree, names):
    tree.check()
    return [tree.runtime(name)["x"] for name in names]


def fills(amount, requests, minimums, weights, lends=None):
    """The runtimes, which the kernel and the twin agree on."""
    given = lends or [True] * len(requests)
    claims = [Claim(*claim) for claim in zip(requests, minimums, weights, given, strict=True)]
    plain, plain_rounds = twin_fill(amount, claims)
    filled = water_fill(amount, requests, minimums, weights, given).tolist()
    assert filled == plain
    rounds = water_fill_rounds(amount, requests, minimums, weights, given)
    assert [
        (item.amount, dict(zip(item.children, item.shares, strict=True))) for item in rounds
    ] == [(item.amount, item.shares) for item in plain_rounds]
    return filled


def below_p(make, total, **settings):
    """Section 3.2, in thousandths of a core."""
    tree = make(**settings)
    tree.set_total({"x": total})
    tree.set_quota(Quota("p", max={"x": 600_000}, min={"x": 300_000}))
    for name in "abc":
        tree.set_quota(Quota(name, max={"x": 600_000}, min={"x": 100_000}, parent="p"))
        tree.submit(wish(name, 200_000))
    return tree


def tree_with_owners():
    """p has a and b below it; q is outside, r is in another tree."""
    tree = QuotaTree(
        [
            Quota("p", max={"x": 20, "y": 20}, min={"x": 10}),
            Quota("a", max={"x": 20}, min={"x": 5}, parent="p"),
            Quota("b", max={"x": 20, "y": 9}, min={"x": 5}, parent="p"),
            Quota("q", max={"x": 9}, outside=True),
            Quota("r", max={"x": 9}, tree="other"),
        ],
        total={"x": 20, "y": 9},
    )
    tree.set_total({"x": 5}, tree="other", carved=True)
    tree.commit(tree.schedule(QuotaRequest("runs", "a", {"x": 1}, count=3, min_count=2)))
    tree.commit(tree.schedule(QuotaRequest("full", "b", {"x": 2, "y": 1})))
    tree.submit(QuotaRequest("waits", "b", {"x": 2}, count=3, min_count=2))
    return tree


def request(name="new", quota="a", amounts=(("x", 1),), **options):
    return QuotaRequest(name, quota, dict(amounts), **options)
