"""Which groups keep their guarantee when those that run need more cells than their tenants own."""

import random

import pytest
from cells.groups.group_schedulers import each_implementation
from cells.groups.group_ways import CHAINS, some_pools
from profiles import seeds


def some_groups(chance, chain, pools):
    """(tenant, priority, pods, pools), on leaves of their own, more than the tenants own."""
    fanouts, roots, _ = chain
    leaves = roots
    for fanout in fanouts:
        leaves *= fanout
    groups, leaf = [], 0
    while leaf < leaves:
        vc, priority = chance.choice(pools)[0], chance.choice([0, 0, 1, 2])
        mine = [number for number, pool in enumerate(pools) if pool[0] == vc]
        pods = []
        for _ in range(chance.choice([1, 1, 2])):
            leaf += chance.choice([0, 0, 1, 2])
            pods.append(list(range(leaf, min(leaf + chance.randint(1, 3), leaves))))
            leaf = max(leaf, pods[-1][-1] + 1) if pods[-1] else leaves
        groups.append((vc, priority, pods, [[chance.choice(mine)] * len(pod) for pod in pods]))
    return groups


def holders(scheduler):
    """The groups that hold cells of their tenants."""
    return {handle for handle in scheduler.handles() if scheduler.group(handle)[5] is not None}


@each_implementation
@pytest.mark.parametrize("seed", seeds(15))
def test_recovery_in_any_order_accounts_for_the_same_groups(created, seed):
    chance = random.Random(seed)
    chain = chance.choice(CHAINS)
    pools = some_pools(chance, chain)
    groups = some_groups(chance, chain, pools)
    outcomes, alone = [], []
    for _ in range(4):
        chance.shuffle(groups)
        scheduler = created([chain], 2, pools, [])
        for vc, priority, pods, wanted in groups:
            before = holders(scheduler)
            handle, downgraded, displaced = scheduler.recover(vc, priority, False, pods, wanted)
            assert before - holders(scheduler) == set(displaced)
            assert downgraded == (handle not in holders(scheduler))
            scheduler.check()
        outcomes.append(sorted(scheduler.group(handle)[4] for handle in holders(scheduler)))
    assert all(outcome == outcomes[0] for outcome in outcomes)
    for vc, priority, pods, wanted in groups:  # the first of all is, if it could be alone
        scheduler = created([chain], 2, pools, [])
        if not scheduler.recover(vc, priority, False, pods, wanted)[1]:
            alone.append((-priority, min((x for pod in pods for x in pod), default=99), pods))
    assert not alone or min(alone)[2] in outcomes[0]


@each_implementation
@pytest.mark.parametrize("seed", seeds(15))
def test_downgraded_groups_that_fit_are_promoted_when_others_leave(created, seed):
    chance = random.Random(seed)
    chain = chance.choice(CHAINS)
    pools = some_pools(chance, chain)
    scheduler = created([chain], 2, pools, [])
    for vc, priority, pods, wanted in some_groups(chance, chain, pools):
        scheduler.recover(vc, priority, False, pods, wanted)
    live = scheduler.handles()
    chance.shuffle(live)
    while live:
        scheduler.release(live.pop())
        scheduler.check()
        saved = [(scheduler.group(handle)[:6], scheduler.wanted_pools(handle)) for handle in live]
        guaranteed = [group for group, wanted in saved if wanted is None]
        for group, wanted in saved:  # no downgraded group fits beside the others
            if wanted is not None:
                other = created([chain], 2, pools, [])
                for item in guaranteed:
                    other.restore(*item)
                assert other.recover(*group[:3], group[4], wanted, False)[1]
