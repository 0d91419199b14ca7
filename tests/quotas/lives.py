"""Lives of trees of quotas, in the kernel and in its twin, compared at every step."""

import copy
import re
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

from hivecore.errors import StaleDecisionError
from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.reference.quotas import QuotaTree as Twin

DIMENSIONS = ("cpu", "gpu", "mem")


def same(item, other):
    """All that can be seen of two trees is the same."""
    assert item.to_bytes() == other.to_bytes()
    assert (item.quotas, item.owners) == (other.quotas, other.owners)
    assert item.overused() == other.overused()
    assert [item.status(name) for name in item.quotas] == [other.status(n) for n in other.quotas]
    assert [item.overusers(name) for name in item.quotas] == [
        other.overusers(n) for n in item.quotas
    ]
    assert [item.members(name) for name in item.owners] == [other.members(n) for n in item.owners]
    for name in item.owners:
        if item.members(name) < item.request(name).count:
            assert item.schedule(name) == other.schedule(name)


def outcome_of_commit(tree, decision):
    """The state after a decision is committed, or "stale"; the tree stays as it is."""
    branch = tree.copy()
    try:
        branch.commit(decision)
    except StaleDecisionError:
        return "stale"
    branch.check()
    return branch.to_bytes()


class Life:
    """One tree twice; steps that one refuses must be refused by the wrapper before."""

    def __init__(self, *, large=1, fractions=0.0, **settings):
        self.tree, self.twin = QuotaTree(**settings), Twin(**settings)
        self.large = large
        self.fractions = fractions  # how many of the amounts are not whole
        self.numbers = self.steps = 0
        self.left_behind = []
        self.trials = []
        self.bound = None  # the last decision that was committed
        self.rooms = []  # by version of the room, what it follows from

    # --- what draws decide

    def amounts(self, rng, most, names=DIMENSIONS):
        result = {
            name: min(rng.randint(0, most) * self.large, 2**62) if rng.random() < 0.9 else 0
            for name in names
            if rng.random() < 0.8
        }
        return {name: self.perhaps_fraction(rng, most, n) for name, n in result.items()}

    def perhaps_fraction(self, rng, most, amount):
        if not self.fractions or rng.random() > self.fractions:
            return amount
        number = rng.randint(0, min(most * 1000 * self.large, 2**49))
        return rng.choice((number / 1000, Fraction(number, 1000), Decimal(number) / 1000))

    def part(self, rng, amount):
        """Some of an amount."""
        if isinstance(amount, int):
            return rng.randint(0, amount)
        return Fraction(rng.randint(0, round(amount * 1000)), 1000)

    def step(self, rng):
        actions = [
            (6, self.submit),
            (8, self.schedule),
            (2, self.schedule_together),
            (2, self.grow),
            (2, self.evict),
            (3, self.release),
            (3, self.set_quota),
            (1, self.move),
            (1, self.remove),
            (1, self.set_total),
            (1, self.within),
            (1, self.overusers),
            (1, self.branch),
            (2 if self.fractions else 0, self.ask),
        ]
        # In every other stretch the quotas stay as they are, so that they fill up.
        self.steps += 1
        calm = self.steps // 30 % 2 == 1
        changes = (self.set_quota, self.move, self.remove, self.set_total)
        weights = [0 if calm and action in changes else weight for weight, action in actions]
        ((_, action),) = rng.choices(actions, weights)
        action(rng)

    def step_or_trial(self, rng, step):
        """A step, or a trial begins or ends."""
        if rng.random() < 0.1 and len(self.trials) < 3:
            self.begin_a_trial()
        elif rng.random() < 0.1 and self.trials:
            self.end_a_trial(rng)
        else:
            step(rng)

    def begin_a_trial(self):
        trial = self.tree.trial()
        before = self.tree.copy()
        self.trials.append((trial, self.tree, before, copy.deepcopy(self.twin), self.bound))
        trial.__enter__()

    def end_a_trial(self, rng):
        """It ends by an exception or without; the tree and its decisions are as they were."""
        inside, self.left_behind = self.bound, []
        trial, self.tree, before, self.twin, self.bound = self.trials.pop()
        error = rng.choice((None, ZeroDivisionError()))
        assert not trial.__exit__(type(error) if error else None, error, None)
        assert self.tree.to_bytes() == before.to_bytes()
        self.tree.check()
        for decision in filter(None, (inside, self.bound)):
            ends = [outcome_of_commit(tree, decision) for tree in (self.tree, before)]
            assert ends[0] == ends[1]
        same(self.tree, before)

    def crowd(self, rng):
        """A steady tree of few quotas, on which owners press."""
        total = {d: min(20 * self.large, 2**62) for d in DIMENSIONS}
        self.tree.set_total(total)
        self.twin.set_total(total)
        for name, parent in (("a", ""), ("b", ""), ("c", "b"), ("d", "b")):
            least = {d: rng.randint(0, 8) * self.large for d in DIMENSIONS}
            quota = Quota(
                name, max=total, min=least, parent=parent, lends=rng.random() < 0.9, weight=least
            )
            self.tree.set_quota(quota)
            self.twin.set_quota(quota)

    def press(self, rng):
        """A step of owners alone."""
        actions = (self.submit, self.schedule, self.schedule, self.schedule, self.grow)
        others = (self.release, self.evict, self.within, self.overusers, self.schedule_together)
        others = (*others, self.branch)
        rng.choice(actions if rng.random() < 0.8 else others)(rng)

    def branch(self, rng):
        """A copy goes its own way, another one stays behind, and the tree goes on as a third."""
        for copied, state in self.left_behind:
            copied.check()
            assert copied.to_bytes() == state
        state = self.tree.to_bytes()
        wild = self.tree.copy()
        for name in wild.owners:
            rng.choice((wild.evict, wild.release))(name)
        with suppress(ValueError):  # too much to count in thousandths
            wild.set_total(self.amounts(rng, 30))
        wild.check()
        assert self.tree.to_bytes() == state
        self.left_behind = [(self.tree, state)]
        self.tree = self.tree.copy()

    def set_total(self, rng):
        tree = rng.choice(("", "", "other"))
        carved = tree != "" and rng.random() < 0.5
        total = {d: min(rng.randint(4, 30) * self.large, 2**62) for d in DIMENSIONS}
        total = {d: self.perhaps_fraction(rng, 30, amount) for d, amount in total.items()}
        if self.does(lambda: self.tree.set_total(total, tree=tree, carved=carved)):
            self.twin.set_total(total, tree, carved)

    def set_quota(self, rng):
        quotas = self.twin.quotas
        known = sorted(quotas)
        if known and rng.random() < 0.4:
            before = quotas[rng.choice(known)]
            parent, tree, outside = before.parent, before.tree, before.outside
            name = before.name
        else:
            self.numbers += 1
            name = f"q{self.numbers % 7}{self.numbers}"
            inside = [quota_name for quota_name in known if not quotas[quota_name].outside]
            parent = rng.choice([*inside, ""]) if len(known) < 9 else rng.choice(known)
            if parent and quotas[parent].outside:
                return
            tree = "" if parent else rng.choice(("", "", "other"))
            outside = not parent and rng.random() < 0.15
        names = list(quotas[parent].max) if parent else DIMENSIONS
        most = self.amounts(rng, 20, names)
        for child in self.twin.children(name):
            for d in quotas[child].max:
                most.setdefault(d, min(rng.randint(0, 20) * self.large, 2**62))
        quota = Quota(
            name,
            max=most,
            min={d: self.part(rng, n) for d, n in most.items() if rng.random() < 0.7},
            weight=None if rng.random() < 0.3 else self.amounts(rng, 5, list(most)),
            parent=parent,
            lends=rng.random() < 0.8,
            scales=rng.random() < 0.8,
            outside=outside,
            tree=tree,
        )
        if self.does(lambda: self.tree.set_quota(quota)):
            self.twin.set_quota(quota)

    def does(self, change):
        """Whether a change is made; if not, because an amount is too large, nothing has changed."""
        before = self.tree.to_bytes()
        try:
            change()
        except ValueError as error:
            assert re.search("above 4611686018427387904|to count (it )?in thousandths", str(error))
            assert self.tree.to_bytes() == before
            return False
        return True

    def move(self, rng):
        quotas = self.twin.quotas
        movable = [name for name in sorted(quotas) if not quotas[name].outside]
        if not movable:
            return
        name = rng.choice(movable)
        tree = self.twin.tree_of(name)
        to = [
            other
            for other in movable
            if self.twin.tree_of(other) == tree
            and name not in self.twin.path(other)
            and set(quotas[name].max) <= set(quotas[other].max)
        ]
        parent = rng.choice([*to, ""])
        if self.does(lambda: self.tree.move(name, parent)):
            self.twin.set_quota(self.tree.quota(name))

    def remove(self, rng):
        taken = {owner.request.quota for owner in self.twin.owners.values()}
        empty = [
            name
            for name in sorted(self.twin.quotas)
            if name not in taken and not self.twin.children(name)
        ]
        if empty:
            name = rng.choice(empty)
            self.tree.remove(name)
            self.twin.remove(name)

    def new_request(self, rng):
        self.numbers += 1
        count = rng.choice((1, 1, 2, 3))
        return QuotaRequest(
            f"o{self.numbers}",
            rng.choice(sorted(self.twin.quotas)),
            self.amounts(rng, rng.choice((1, 2, 4))),
            count=count,
            min_count=rng.randint(1, count),
            priority=rng.randint(0, 2),
            preemptible=rng.random() < 0.8,
        )

    def submit(self, rng):
        if self.twin.quotas and len(self.twin.owners) < 14:
            request = self.new_request(rng)
            if self.does(lambda: self.tree.submit(request)):
                self.twin.submit(request)

    def ask(self, rng):
        """Nothing changes because of a request that is not submitted."""
        if self.twin.quotas:
            request = self.new_request(rng)
            answers = []
            if self.does(lambda: answers.append(self.tree.schedule(request))):
                twin = copy.deepcopy(self.twin)
                twin.submit(request)
                self.compare(answers[0], twin.decide({request.name: request.min_count}))
                assert self.tree.fits(request) == (answers[0].outcome == "bind")
                assert self.tree.schedule_many([request]) == (answers[0],)

    def pick(self, rng, wanted):
        results = [name for name, owner in sorted(self.twin.owners.items()) if wanted(owner)]
        return rng.choice(results) if results else None

    def schedule(self, rng):
        name = self.pick(rng, lambda owner: owner.members == 0)
        if name is not None:
            self.decide(rng, [name], name)

    def schedule_together(self, rng):
        pending = [name for name, owner in sorted(self.twin.owners.items()) if not owner.members]
        if len(pending) > 1:
            names = rng.sample(pending, rng.randint(2, min(len(pending), 4)))
            self.decide(rng, names, names)

    def decide(self, rng, names, request):
        wish = {name: self.twin.owners[name].request.min_count for name in names}
        answer = self.twin.decide(wish)
        decision = self.tree.schedule(request)
        self.compare(decision, answer)
        assert self.tree.fits(request) == (answer.outcome == "bind")
        if answer.outcome == "bind":
            assert decision.borrows == answer.borrows
            if isinstance(request, str):
                self.admit_and_take_back(request, decision)
            self.tree.commit(decision)
            self.bound = decision
            for name, members in wish.items():
                self.twin.admit(name, members)
        elif answer.outcome == "preempt" and rng.random() < 0.7:
            for name in answer.victims:
                self.tree.evict(name)
                self.twin.evict(name)
            assert self.twin.decide(wish).outcome == "bind"

    def admit_and_take_back(self, name, decision):
        """To admit at once is to decide and commit, and can be undone."""
        before, branch = self.tree.copy(), self.tree.copy()
        branch.commit(decision)
        assert self.tree.admit(name) == decision
        same(self.tree, branch)
        self.tree.take_back(name)
        self.tree.check()
        same(self.tree, before)

    @staticmethod
    def compare(decision, answer):
        assert decision.outcome == answer.outcome
        assert decision.victims == answer.victims
        if answer.outcome == "wait":
            assert (decision.refusal.code, decision.refusal.part) == (answer.code, answer.part)

    def grow(self, rng):
        name = self.pick(rng, lambda owner: 0 < owner.members < owner.request.count)
        if name is None:
            return
        owner = self.twin.owners[name]
        members = rng.randint(1, owner.request.count - owner.members)
        answer = self.twin.decide({name: members})
        decision = self.tree.grow(name, members)
        self.compare(decision, answer)
        if answer.outcome == "bind":
            self.twin.admit(name, members)

    def evict(self, rng):
        name = self.pick(rng, lambda owner: owner.members > 0)
        if name is not None:
            reclaimed = rng.random() < 0.5
            self.tree.evict(name, reclaimed=reclaimed)
            self.twin.evict(name, reclaimed=reclaimed)

    def release(self, rng):
        name = self.pick(rng, lambda owner: True)
        if name is not None:
            self.tree.release(name)
            self.twin.release(name)

    def within(self, rng):
        name = self.pick(rng, lambda owner: owner.members == 0)
        if name is None:
            return
        budgets = [
            (rng.sample(sorted(self.twin.owners), rng.randint(0, 3) % len(self.twin.owners)), 1)
        ]
        request = {name: self.twin.owners[name].request.min_count}
        answer = self.twin.preempt_within(request, budgets)
        self.compare(self.tree.preempt_within(name, budgets=budgets), answer)

    def overusers(self, rng):
        if self.twin.quotas:
            name = rng.choice(sorted(self.twin.quotas))
            assert self.tree.overusers(name) == self.twin.revocable(name)

    # --- what has to hold

    def check(self):
        tree, figures = self.tree, self.twin.figures()
        tree.check()
        assert set(tree.quotas) == set(self.twin.quotas)
        over = {}
        for name in tree.quotas:
            status = tree.status(name)
            assert status.request == {
                d: min(amount, self.twin.most(d)) for d, amount in figures.request[name].items()
            }
            assert status.limited_request == figures.limited[name]
            assert status.used == figures.used[name]
            assert status.non_preemptible == figures.firm[name]
            assert status.min == figures.minimum[name]
            assert status.runtime == figures.runtime[name] == tree.runtime(name)
            more = {d: used - status.runtime[d] for d, used in status.used.items()}
            if any(amount > 0 for amount in more.values()):
                over[name] = {d: amount for d, amount in more.items() if amount > 0}
        assert tree.overused() == tuple(over)
        assert tree.overuse() == over
        for root in ("", "other"):
            if root in self.twin.totals:
                total = figures.totals[root]
                assert tree.total(root) == {d: amount for d, amount in total.items() if amount}
        of = {name: quota.max for name, quota in self.twin.quotas.items()}
        room = figures.used, figures.runtime, figures.totals, of
        known = [item for version, item in self.rooms if version == tree.room_version]
        assert known in ([], [room])
        self.rooms = self.rooms[-20:] if known else [*self.rooms[-20:], (tree.room_version, room)]
        assert set(tree.owners) == set(self.twin.owners)
        for name, owner in self.twin.owners.items():
            assert tree.members(name) == owner.members
            assert tree.may_borrow(name) == owner.may_borrow
            assert tree.request(name) == owner.request
