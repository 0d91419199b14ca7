"""Long histories on small, crowded clusters, where rare things happen all the time.

Two nodes that everybody wants, cells that have to be merged, pins beside pools, hardware that comes
and goes, groups that come back after a restart: all implementations go through the same history.
"""

import random

import pytest
from cells.groups.group_schedulers import PREEMPT, WAIT, SideBySide
from profiles import seeds

# chains (fanouts, roots, node level), tenants, pools, pins
CLUSTERS = {
    "two nodes": ([([2, 2], 2, 2)], 1, [(0, 0, 2, 2)], []),
    "racks": ([([2, 2, 2], 2, 2)], 2, [(0, 0, 2, 1), (0, 0, 3, 1), (1, 0, 2, 1)], []),
    "siblings": ([([2, 2], 3, 2)], 2, [(0, 0, 0, 2), (0, 0, 1, 3), (1, 0, 1, 2)], []),
    "pins": ([([2, 3], 2, 1)], 2, [(0, 0, 1, 2), (1, 0, 0, 3)], [(0, 0, 1, 4), (1, 0, 1, 1)]),
    "deep": ([([2, 2, 2], 3, 1)], 2, [(0, 0, 1, 2), (0, 0, 3, 1), (1, 0, 2, 3)], []),
    "wide nodes": ([([2, 2, 2], 2, 3)], 2, [(0, 0, 2, 2), (0, 0, 3, 1)], []),
    "two chains": (
        [([4], 2, 1), ([2, 2], 2, 1)],
        2,
        [(0, 0, 1, 2), (0, 1, 1, 2), (1, 1, 2, 1)],
        [],
    ),
    "flat": ([([], 6, 0)], 2, [(0, 0, 0, 3), (1, 0, 0, 2)], [(1, 0, 0, 5)]),
}


class History:
    def __init__(self, cluster, seed):
        self.both, self.random = SideBySide(*cluster), random.Random(seed)
        self.plans = []

    def one_in(self, many):
        return self.random.randrange(many) == 0

    def some_request(self):
        both, chance = self.both, self.random
        owner = chance.randrange(len(both.owned))
        vc, chain = both.owned[owner][:2]
        priority = chance.choice([-1, 0, 0, 1, 2, 5])
        pool = owner if owner >= len(both.pools) and priority >= 0 else -1
        largest, many = both.node_width(chain), chance.choice([1, 1, 1, 2, 2, 3, 4])
        sizes = [chance.randint(1, largest) for _ in range(many)]
        if self.one_in(3):
            sizes = [sizes[0]] * many
        live = [group for group in map(both.twin.group, both.twin.handles()) if any(group[5] or [])]
        if live and self.one_in(3):  # for what another group holds
            vc, priority, _, _, pods, virtual, _ = chance.choice(live)
            pool = next(held[0] for pod in virtual for held in pod)
            chain = both.owned[pool][1]
            pool = pool if pool >= len(both.pools) else -1
            priority = min(1000, priority + chance.randint(0, 2))
            sizes = [min(len(pod), both.node_width(chain)) for pod in pods if pod]
            many = len(sizes)
        top = len(both.chains[chain][0])
        within = [chance.randint(-1, top) for _ in range(many)] if self.one_in(5) else None
        group_within = chance.randint(0, top) if self.one_in(5) else -1
        nodes = range(both.nodes(chain))
        suggested = chance.sample(nodes, chance.randint(0, len(nodes))) if self.one_in(4) else None
        numbers = len(both.twin.units(vc, chain, pool))
        units = None
        if priority >= 0 and numbers and self.one_in(8):
            units = [chance.randrange(numbers) for _ in range(many)]
        shape = sizes, within, group_within, self.one_in(4), self.one_in(2), suggested, units
        most = [chance.randint(0, 3) for _ in nodes] if self.one_in(4) else None
        return vc, chain, pool, priority, *shape, chance.choice([0, 0, 0, 0, 1, 2]), most

    def some_group_to_recover(self):
        both, chance = self.both, self.random
        vc = chance.randrange(both.tenants)
        mine = [number for number, owned in enumerate(both.owned) if owned[0] == vc]
        number = chance.choice(mine) if mine else -1
        chain = both.owned[number][1] if mine else 0
        many = min(chance.randint(0, 5), both.first[chain + 1] - both.first[chain])
        start = chance.randint(both.first[chain], both.first[chain + 1] - many)
        leaves = list(range(start, start + many))
        cut = chance.randint(0, many)
        pools = [number if not self.one_in(40) else -1 for _ in leaves]
        pods = [leaves[:cut], leaves[cut:]], [pools[:cut], pools[cut:]]
        return vc, chance.choice([-1, 0, 1, 2, 5]), self.one_in(2), *pods, not self.one_in(4)

    def step(self):
        both, chance = self.both, self.random
        what = chance.random()
        live = both.twin.handles()
        if what < 0.45:
            plans = both.schedule(self.some_request())
            if plans[0].outcome == WAIT:
                return
            if self.one_in(4):
                self.plans.append(plans)
            else:
                both.carry_out(plans, plans[0].outcome == PREEMPT, self.one_in(2))
        elif what < 0.52 and self.plans:
            plans = self.plans.pop(chance.randrange(len(self.plans)))
            both.carry_out(plans, self.one_in(2), self.one_in(2))
        elif what < 0.75 and live:
            handle = chance.choice(live)
            verb = chance.choice(["release", "release", "confirm", "cancel"])
            both.every(lambda scheduler: getattr(scheduler, verb)(handle))
        elif what < 0.85:
            first = chance.randrange(both.leaves)
            end, healthy = min(both.leaves, first + chance.randint(1, 4)), not self.one_in(3)
            both.every(lambda scheduler: scheduler.set_health(first, end, healthy))
        elif what < 0.97:
            both.recover(*self.some_group_to_recover())
        elif what < 0.985:
            both.all = [scheduler.copy() for scheduler in both.all]
        else:
            both.restore()
            both.recover_all()


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("name", CLUSTERS)
def test_all_implementations_have_the_same_history(name, seed):
    history = History(CLUSTERS[name], seed)
    for _ in range(150):
        history.step()
        history.both.check()
    history.both.end()
