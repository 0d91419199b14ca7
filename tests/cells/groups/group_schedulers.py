"""Kernel and twin of the group scheduler side by side: the same operations on both."""

from collections import Counter

import numpy as np
import pytest

from hivecore._cells import GroupScheduler as Kernel
from hivecore.errors import StaleDecisionError
from hivecore.reference.cells import GroupScheduler as Twin

IMPLEMENTATIONS = [Twin, Kernel]

BIND, PREEMPT, WAIT = "bind", "preempt", "wait"
FITS, CAPACITY, FRAGMENTED, MAPPING = "", "capacity", "fragmented", "mapping"
SEARCH_LIMIT, POLICY = "search limit", "policy"
PACKING, LEAST, ALONE = range(3)  # ways to weigh evictions

each_implementation = pytest.mark.parametrize(
    "created", IMPLEMENTATIONS, ids=lambda created: created.__module__.split(".")[1]
)


def schedule(
    scheduler,
    sizes,
    *,
    vc=0,
    chain=0,
    pool=-1,
    priority=0,
    within=None,
    group_within=-1,
    spread=False,
    merge=False,
    suggested=None,
    units=None,
    evictions=PACKING,
    most=None,
):
    """The plan of a group; its options by their names."""
    shape = sizes, within, group_within, spread, merge, suggested, units, evictions, most
    return scheduler.schedule(vc, chain, pool, priority, *shape)


def ask(scheduler, sizes, **request):
    """Schedule and audit."""
    plan = schedule(scheduler, sizes, **request)
    scheduler.check()
    return plan


def run(scheduler, sizes, *, lazy=False, **request):
    """Schedule and commit; the handle."""
    plan = ask(scheduler, sizes, **request)
    assert plan.outcome == BIND, plan.reason
    handle = scheduler.commit(plan, lazy)
    scheduler.check()
    return handle


def reserve(scheduler, sizes, *, lazy=False, **request):
    plan = ask(scheduler, sizes, **request)
    assert plan.outcome == PREEMPT
    handle = scheduler.reserve(plan, lazy)
    scheduler.check()
    return handle


def pods(scheduler, handle):
    return scheduler.group(handle)[4]


def free(scheduler, chain=0, levels=4):
    """The free list: {level: cells}, empty levels left out."""
    listed = {level: scheduler.free_cells(chain, level).tolist() for level in range(levels)}
    return {level: cells for level, cells in listed.items() if cells}


def everything(scheduler, chains=1, pools=0):
    """All that can be seen of a scheduler."""
    seen = [
        [
            scheduler.surplus(chain),
            free(scheduler, chain, len(scheduler.surplus(chain))),
            scheduler.leaf_users(chain).tolist(),
            scheduler.leaf_reservers(chain).tolist(),
            scheduler.bad_leaves(chain).tolist(),
            scheduler.doomed(chain),
        ]
        for chain in range(chains)
    ]
    groups = [(handle, scheduler.group(handle)) for handle in scheduler.handles()]
    return seen, groups, [scheduler.unbound_roots(pool) for pool in range(pools)]


def plain(plan):
    """What two plans are compared by."""
    return (
        plan.outcome,
        plan.reason,
        [list(pod) for pod in plan.pods],
        None if plan.virtual is None else [[tuple(leaf) for leaf in pod] for pod in plan.virtual],
        list(plan.victims),
        list(plan.cancels),
        list(plan.downgrades),
        plan.is_harmless,
    )


class SideBySide:
    """One cluster in all implementations; what they answer is compared, and judged by itself."""

    def __init__(self, chains, tenants, pools, pins):
        self.cluster = (chains, tenants, pools, pins)
        self.chains, self.tenants, self.pools, self.pins = self.cluster
        self.all = [implementation(*self.cluster) for implementation in IMPLEMENTATIONS]
        self.owned = [*pools, *((vc, chain, level, 1) for vc, chain, level, _ in pins)]
        self.widths, self.first = [], [0]
        for fanouts, roots, _ in chains:
            self.widths.append([int(np.prod(fanouts[:n])) for n in range(len(fanouts) + 1)])
            self.first.append(self.first[-1] + roots * self.widths[-1][-1])
        self.initial = self.seen(self.twin)

    @property
    def twin(self):
        return self.all[0]

    @property
    def leaves(self):
        return self.first[-1]

    def node_width(self, chain):
        return self.widths[chain][self.chains[chain][2]]

    def nodes(self, chain):
        return (self.first[chain + 1] - self.first[chain]) // self.node_width(chain)

    def every(self, call, show=lambda answer: answer):
        """The answers of all implementations, which must be equal, be they values or errors."""
        answers = []
        for scheduler in self.all:
            try:
                answers.append(call(scheduler))
            except (ValueError, StaleDecisionError) as error:
                answers.append(type(error))
        shown = [answer if isinstance(answer, type) else show(answer) for answer in answers]
        assert all(other == shown[0] for other in shown), shown
        return answers

    def seen(self, scheduler):
        """All that can be seen of a scheduler."""
        per_chain = [
            (
                list(scheduler.surplus(chain)),
                [scheduler.free_cells(chain, level).tolist() for level in range(len(fanouts) + 1)],
                scheduler.leaf_users(chain).tolist(),
                scheduler.leaf_reservers(chain).tolist(),
                scheduler.idle_leaves(chain).tolist(),
                scheduler.bad_leaves(chain).tolist(),
                [tuple(cells) for cells in scheduler.doomed(chain)],
                [[tuple(u) for u in scheduler.units(vc, chain, -1)] for vc in range(self.tenants)],
                [scheduler.available(vc, chain, -1) for vc in range(self.tenants)],
            )
            for chain, (fanouts, _, _) in enumerate(self.chains)
        ]
        per_pool = [
            (
                scheduler.unbound_roots(pool),
                [scheduler.bindings(pool, n).tolist() for n in range(level + 1)],
            )
            for pool, (_, _, level, _) in enumerate(self.owned)
        ]
        groups = [
            (
                handle,
                scheduler.group(handle),
                list(scheduler.victims(handle)),
                scheduler.wanted_pools(handle),
            )
            for handle in scheduler.handles()
        ]
        return per_chain, per_pool, groups

    def check(self):
        """All are sound and look alike, and every tenant can be served."""
        for scheduler in self.all:
            scheduler.check()
        views = [self.seen(scheduler) for scheduler in self.all]
        assert all(view == views[0] for view in views)
        for surplus, *_ in views[0][0]:
            assert min(surplus) >= 0

    def schedule(self, request):
        """The plans, one per implementation; nothing else has changed.

        Where the twin says that its answer is fixed, the kernel's is the same. Otherwise the
        kernel's is judged, and both go on with it.
        """
        before = [self.seen(scheduler) for scheduler in self.all]
        plans = [scheduler.schedule(*request) for scheduler in self.all]
        assert [self.seen(scheduler) for scheduler in self.all] == before
        wanted, plan = plans
        if wanted.is_fixed:
            assert plain(plan) == plain(wanted)
        else:
            self._judge_choice(request, wanted, plan)
        self._judge(request, plan)
        return [plan, plan]

    def _judge_choice(self, request, wanted, plan):
        """Whether a plan is no worse than the twin's, which is one of several that may be right."""
        if plan.outcome != WAIT:
            after = self.twin.copy()  # the twin carries it out
            (after.commit if plan.outcome == BIND else after.reserve)(plan, False)
            after.check()
            if wanted.outcome != WAIT and self._is_least_harm_sought(request, wanted):
                assert self.harm(plan) <= self.harm(wanted)
        elif wanted.outcome != WAIT:  # others would be promoted to all that is left
            assert wanted.outcome == PREEMPT or wanted.downgrades
            after = self.twin.copy()
            for handle in self.handles_below(request):
                after.release(handle)
            assert after.schedule(*request).outcome == WAIT
        else:
            assert plan.reason == wanted.reason or (
                wanted.reason in (FRAGMENTED, MAPPING) and plan.reason in (MAPPING, SEARCH_LIMIT)
            )

    def _is_least_harm_sought(self, request, wanted):
        """Not among lazy groups, nor where something else comes before few evictions."""
        *_, merge, _, units, evictions, _ = request
        groups = map(self.twin.group, self.twin.handles())
        downgraded = any(group.virtual is None and group.priority >= 0 for group in groups)
        others_first = merge or units is not None or evictions == ALONE
        return not (wanted.downgrades or downgraded or others_first)

    def harm(self, plan):
        """Guaranteed leaves that are lost, leaves and groups that are evicted."""
        groups = {handle: self.twin.group(handle) for handle in [*plan.victims, *plan.downgrades]}
        leaves = {handle: sum(map(len, groups[handle].pods)) for handle in groups}
        lost = {handle for handle in groups if groups[handle].virtual is not None}
        return (
            sum(leaves[handle] for handle in lost),
            sum(leaves[handle] for handle in plan.victims),
            len(plan.victims),
        )

    def handles_below(self, request):
        """The groups that a request may evict."""
        vc, chain, pool, priority, *_ = request
        own = {i for i, owned in enumerate(self.pools) if owned[:2] == (vc, chain)}
        for handle in self.twin.handles():
            _, rank, _, preempting, _, virtual, _ = self.twin.group(handle)
            held = {at for pod in virtual or [] for at, _ in pod}
            if rank < priority and not preempting and held <= (own if pool < 0 else {pool}):
                yield handle

    def _judge(self, request, plan):
        vc, chain, pool, priority, sizes, within, group_within, *_, suggested, _, _, most = request
        widths, node = self.widths[chain], self.chains[chain][2]
        gave_up = plan.outcome == PREEMPT and plan.reason == SEARCH_LIMIT
        assert gave_up or (plan.outcome == WAIT) == (plan.reason != FITS)
        unconstrained = suggested is within is most is None
        if unconstrained and not 0 <= group_within < node and not len(self.twin.bad_leaves(chain)):
            assert plan.reason != MAPPING  # what is owned can always be bound
        if plan.outcome == WAIT:
            assert (plan.pods, plan.virtual) == ([], None)
            return
        assert [len(pod) for pod in plan.pods] == list(sizes)
        leaves = [leaf for pod in plan.pods for leaf in pod]
        assert len(set(leaves)) == len(leaves)
        assert all(self.first[chain] <= leaf < self.first[chain + 1] for leaf in leaves)
        assert set(leaves).isdisjoint(self.twin.bad_leaves(chain).tolist())
        local = [[leaf - self.first[chain] for leaf in pod] for pod in plan.pods]
        nodes = {leaf // widths[node] for pod in local for leaf in pod}
        assert suggested is None or nodes <= set(suggested)
        pods_on = Counter(pod[0] // widths[node] for pod in local)
        assert most is None or all(pods <= most[of] for of, pods in pods_on.items())
        for pod, level in zip(local, within or [-1] * len(sizes), strict=True):
            limit = node if level < 0 else min(level, node)
            assert len({leaf // widths[limit] for leaf in pod}) == 1
            assert pod == sorted(pod)
        if group_within >= 0:
            assert len({leaf // widths[group_within] for pod in local for leaf in pod}) == 1
        users = self.twin.leaf_users(chain)
        victims = {int(users[leaf]) for pod in local for leaf in pod} - {-1}
        assert victims == set(plan.victims)
        assert (plan.outcome == PREEMPT) == bool(victims)
        if priority < 0:
            assert not victims
            assert plan.virtual is None
            return
        for handle in [*plan.victims, *plan.cancels, *plan.downgrades]:
            owner, rank, *_, virtual, _ = self.twin.group(handle)
            assert virtual is None or (owner == vc and rank < priority)
        own = {i for i, owned in enumerate(self.pools) if owned[:2] == (vc, chain)}
        allowed = own if pool < 0 else {pool}
        assert {held[0] for pod in plan.virtual for held in pod} <= allowed

    def carry_out(self, plans, preempting, lazy):
        """The new handle, or the type of the error."""
        before = self.seen(self.twin)
        own = iter(plans)
        verb = "reserve" if preempting else "commit"
        done = self.every(lambda scheduler: getattr(scheduler, verb)(next(own), lazy))
        if isinstance(done[0], type):
            assert self.seen(self.twin) == before
        return done[0]

    def schedule_and_carry_out(self, request, lazy):
        """The new handle, or None when the group has to wait."""
        plans = self.schedule(request)
        if plans[0].outcome == WAIT:
            return None
        handle = self.carry_out(plans, plans[0].outcome == PREEMPT, lazy)
        assert handle in self.twin.handles()
        return handle

    def recover(self, vc, priority, lazy, pods, pools, displace=True):
        return self.every(
            lambda scheduler: scheduler.recover(vc, priority, lazy, pods, pools, displace),
            lambda answer: (*answer[:2], list(answer[2])),
        )[0]

    def restore(self):
        """Fresh schedulers, given all groups in order of their sequence."""
        fresh = SideBySide(*self.cluster)
        for chain in range(len(self.chains)):
            for leaf in self.twin.bad_leaves(chain).tolist():
                fresh.every(
                    lambda scheduler, leaf=leaf: scheduler.set_health(leaf, leaf + 1, False)
                )
        for handle in self.twin.handles():
            group = *self.twin.group(handle)[:6], self.twin.wanted_pools(handle)
            fresh.every(lambda scheduler, group=group: scheduler.restore(*group))
            fresh.check()
        ours, theirs = self.seen(self.twin), fresh.seen(fresh.twin)
        assert [group[1] for group in ours[2]] == [group[1] for group in theirs[2]]
        assert ours[1] == theirs[1]
        for mine, other in zip(ours[0], theirs[0], strict=True):
            assert mine[:2] == other[:2]
            assert mine[4:] == other[4:]
        return fresh

    def recover_all(self):
        """Guaranteed groups are so after a restart as well, in whatever order they come."""
        fresh = Twin(*self.cluster)
        groups = [self.twin.group(handle) for handle in self.twin.handles()]
        for vc, priority, lazy, preempting, pods, virtual, _ in groups[::-1]:
            if preempting:
                continue
            pools = [[-1] * len(pod) for pod in pods]
            if virtual is not None:
                pools = [[pool for pool, _ in pod] for pod in virtual]
            _, downgraded, displaced = fresh.recover(vc, priority, lazy, pods, pools)
            assert downgraded == (priority >= 0 and virtual is None and any(pods))
            assert displaced == []
        fresh.check()

    def end(self):
        """Without groups and bad leaves, everything is as at first."""
        for scheduler in self.all:
            for handle in scheduler.handles()[::-1]:
                scheduler.release(handle)
                scheduler.check()
            scheduler.set_health(0, self.leaves, True)
            assert self.seen(scheduler) == self.initial
