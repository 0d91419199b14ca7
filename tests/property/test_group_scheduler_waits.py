"""Who waits or evicts, against all ways there are."""

import random

import pytest
from group_schedulers import BIND, IMPLEMENTATIONS, PREEMPT, WAIT
from group_ways import CHAINS, Ways, some_pools


@pytest.mark.parametrize("made", IMPLEMENTATIONS, ids=lambda made: made.__module__.split(".")[1])
@pytest.mark.parametrize("seed", range(16))
def test_who_waits_or_evicts_cannot_do_otherwise(made, seed):
    """Among bad, excluded and half used nodes; and whose victims are gone is not asked for more."""
    chance = random.Random(seed)
    chain = chance.choice(CHAINS)
    pools = some_pools(chance, chain)
    scheduler = made([chain], 2, pools, [])
    ways = Ways(scheduler, chain, pools)
    width = ways.widths[ways.node]
    nodes = len(ways.leaves) // width
    for _ in range(40):
        live, what = scheduler.handles(), chance.random()
        if what < 0.25 and live:
            scheduler.release(chance.choice(live))
            continue
        if what < 0.4:
            first = chance.randrange(nodes) * width
            scheduler.set_health(first, first + width, chance.random() < 0.5)
            continue
        vc, priority = chance.choice(pools)[0], chance.choice([-1, 0, 0, 0, 1, 2])
        sizes = [chance.randint(1, width) for _ in range(chance.choice([1, 2, 2, 3, 4]))]
        if chance.random() < 0.6:
            sizes = [sizes[0]] * len(sizes)
        suggested = None
        if chance.random() < 0.3:
            suggested = sorted(chance.sample(range(nodes), chance.randint(1, nodes)))
        least = chance.random() < 0.4
        shape = sizes, None, -1, False, False, suggested, None, least
        plan = scheduler.schedule(vc, 0, -1, priority, *shape)
        if priority == 0 and plan.outcome == WAIT:
            assert ways.exist(vc, sizes, suggested, on_idle_leaves=False) is False
        if priority == 0 and plan.outcome == PREEMPT and least:
            assert ways.exist(vc, sizes, suggested, on_idle_leaves=True) is False
        for victim in plan.victims:
            scheduler.release(victim)
        if plan.outcome == PREEMPT:
            plan = scheduler.schedule(vc, 0, -1, priority, *shape)
            assert plan.outcome == BIND
        if plan.outcome == BIND:
            scheduler.commit(plan, False)
    scheduler.check()
