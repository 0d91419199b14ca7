"""HiveD's promises, kept by kernel and twin, against an oracle that tries everything.

Random histories on one chain of at most 16 leaves: guaranteed and opportunistic groups of two
tenants, lazy ones, preemptions, pins, and leaves that fail and return. After every step the owners
and the safety of what is owed are looked at; every plan is judged; every guaranteed group that has
to wait is tried in all cells of its tenant; and now and then a tenant that uses nothing asks for a
mix of all that it owns.
"""

import random

import pytest
from cells.groups.group_schedulers import (
    ALONE,
    BIND,
    PACKING,
    PREEMPT,
    SEARCH_LIMIT,
    WAIT,
    each_implementation,
    schedule,
)
from cells.hived_promises import Cluster
from profiles import seeds

CHAINS = [  # fan-outs, roots, node level
    ([2, 2, 2], 2, 2),
    ([2, 2, 2], 2, 1),
    ([2, 2], 3, 2),
    ([2, 2], 4, 1),
    ([3, 2], 2, 1),
    ([2, 3], 2, 1),
    ([2, 4], 2, 1),
    ([4], 3, 1),
    ([], 5, 0),
]


class History:
    """Groups that come and go on one cluster."""

    def __init__(self, created, seed):
        self.chance = chance = random.Random(seed)
        self.chain = chance.choice(CHAINS)
        fanouts, roots, self.node = self.chain
        while True:
            levels = range(len(fanouts) + 1)
            self.pools = [
                (vc, 0, level, chance.randint(1, 3))
                for vc in (0, 1)
                for level in levels
                if chance.random() < 0.5
            ]
            self.pins = []
            if chance.random() < 0.3:
                level = chance.choice(levels)
                cells = roots
                for fanout in fanouts[level:]:
                    cells *= fanout
                self.pins = [(chance.randint(0, 1), 0, level, chance.randrange(cells))]
            if self.is_feasible(created) and (self.pools or self.pins):
                break

    def is_feasible(self, created):
        """An assignment is taken exactly when disjoint cells for all that is owned can be had."""
        new = created([self.chain], 2, [], [])
        empty = Cluster(new, self.chain, self.pools, self.pins)
        feasible = empty.can_serve(empty.free(), empty.owed())
        try:
            self.scheduler = created([self.chain], 2, self.pools, self.pins)
        except ValueError:
            assert not feasible
            return False
        assert feasible
        return True

    def cluster(self, scheduler=None):
        return Cluster(scheduler or self.scheduler, self.chain, self.pools, self.pins)

    def some_request(self):
        chance, cluster = self.chance, self.cluster()
        width = cluster.widths[self.node]
        sizes = [chance.randint(1, width) for _ in range(chance.choice([1, 1, 2, 3, 4]))]
        if chance.random() < 0.5:
            sizes = sizes[:1] * len(sizes)
        priority = chance.choice([-1, -1, 0, 0, 0, 1, 2])
        request = {"vc": chance.randint(0, 1), "priority": priority, "sizes": sizes}
        if self.pins and priority >= 0 and chance.random() < 0.2:
            request |= {"vc": self.pins[0][0], "pool": len(self.pools)}
        nodes = len(cluster.leaves) // width
        if chance.random() < 0.15:
            top = len(self.chain[0])
            request["within"] = [chance.randint(-1, top) for _ in sizes]
        if chance.random() < 0.15:
            request["group_within"] = chance.randint(0, len(self.chain[0]))
        if chance.random() < 0.2:
            request["suggested"] = sorted(chance.sample(range(nodes), chance.randint(1, nodes)))
        if chance.random() < 0.1:
            request["most"] = [chance.randint(0, 2) for _ in range(nodes)]
        return request

    def ask(self, request, scheduler=None):
        options = {key: value for key, value in request.items() if key != "sizes"}
        return schedule(scheduler or self.scheduler, request["sizes"], **options)

    def step(self, judge):
        chance, scheduler = self.chance, self.scheduler
        what, live = chance.random(), scheduler.handles()
        if what < 0.3 and live:
            scheduler.release(chance.choice(live))
        elif what < 0.4:
            first = chance.randrange(len(self.cluster().leaves))
            scheduler.set_health(first, first + 1, chance.random() < 0.6)
        elif what < 0.45:
            for handle in [h for h in live if scheduler.group(h).preempting]:
                self.go_on(scheduler, handle)
        else:
            request = self.some_request()
            plan = self.ask(request)
            judge(self, request, plan)
            lazy = chance.random() < 0.4
            if plan.outcome == BIND:
                scheduler.commit(plan, lazy)
            elif plan.outcome == PREEMPT:
                handle = scheduler.reserve(plan, lazy)
                if chance.random() < 0.6:
                    self.go_on(scheduler, handle)

    def go_on(self, scheduler, handle):
        """The victims leave, and the group that evicts them runs, if its leaves are healthy."""
        for victim in scheduler.victims(handle):
            scheduler.release(victim)
        leaves = {leaf for pod in scheduler.group(handle).pods for leaf in pod}
        if leaves.isdisjoint(scheduler.bad_leaves(0).tolist()):
            scheduler.confirm(handle)
        else:
            scheduler.cancel(handle)


def judge_plan(history, request, plan):
    if plan.outcome != WAIT:
        history.cluster().check_plan(request, plan)


@each_implementation
@pytest.mark.parametrize("seed", seeds(20))
def test_no_leaf_has_two_owners_and_what_is_owed_can_be_served_whatever_happens(created, seed):
    history = History(created, seed)
    for _ in range(60):
        history.step(judge_plan)
        cluster = history.cluster()
        cluster.check_owners()
        cluster.check_safety()
        cluster.check_doomed(history.scheduler.doomed(0))


def judge_outcome(history, request, plan):
    """Not where a group would get its lost guarantee back. The twin may give up, but says so."""
    if plan.outcome == WAIT and not getattr(plan, "is_fixed", True):
        return
    cluster = history.cluster()
    groups = cluster.groups.values()
    downgraded = any(group.priority >= 0 and group.virtual is None for group in groups)
    if request["priority"] >= 0 and plan.reason != SEARCH_LIMIT and not downgraded:
        if cluster.can_place(request):
            assert plan.outcome != WAIT
        elif not any(group.lazy for group in groups):  # they may make room in other cells
            assert plan.outcome == WAIT


@each_implementation
@pytest.mark.parametrize("seed", seeds(50))
def test_a_guaranteed_group_waits_exactly_if_it_fits_into_no_cells_of_its_tenant(created, seed):
    history = History(created, seed)
    for _ in range(60):
        history.step(judge_outcome)


def mix_of(history, vc):
    """Some of the cells that a tenant owns, in any order: their levels."""
    mix = []
    for owner, _, level, count in history.pools:
        mix += [level] * history.chance.randint(0, count) if owner == vc else []
    history.chance.shuffle(mix)
    return mix


def whole(history, vc, level):
    """A group that fills a cell of a level."""
    widths, node = history.cluster().widths, min(level, history.node)
    pods = widths[level] // widths[node]
    request = {"vc": vc, "priority": 0, "sizes": [widths[node]] * pods}
    return request | ({"group_within": level} if level > node else {})


@each_implementation
@pytest.mark.parametrize("evictions", [PACKING, ALONE])
@pytest.mark.parametrize("seed", seeds(12))
def test_a_tenant_that_uses_nothing_gets_any_mix_of_its_cells(created, seed, evictions):
    """Whatever others do; only opportunistic groups have to leave. By default the largest cells
    come first: a small group without victims may be in a large cell.
    """
    history = History(created, seed)
    for number in range(60):
        history.step(lambda *_: None)
        if number % 5:
            continue
        vc = history.chance.randint(0, 1)
        after = history.scheduler.copy()
        after.set_health(0, len(history.cluster().leaves), True)
        for handle in after.handles():
            if after.group(handle).vc == vc and after.group(handle).priority >= 0:
                after.release(handle)
        mix = mix_of(history, vc)
        for level in mix if evictions == ALONE else sorted(mix, reverse=True):
            request = whole(history, vc, level) | {"evictions": evictions}
            plan = history.ask(request, after)
            assert plan.outcome != WAIT
            assert all(after.group(victim).virtual is None for victim in plan.victims)
            history.cluster(after).check_plan(request, plan)
            if plan.outcome == BIND:
                after.commit(plan, False)
            else:
                history.go_on(after, after.reserve(plan, False))
            history.cluster(after).check_safety()
