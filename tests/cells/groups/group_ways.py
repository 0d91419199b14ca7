"""All ways to place a group: roots bound to any free cells, pods in any node.

This knows the rules only: which leaves a group may use, that bindings keep ancestry, and that what
remains owed must still fit, level by level, into what is wholly free.
"""

import random
from functools import cache
from typing import Any, NamedTuple

from cells.groups.group_schedulers import (
    BIND,
    IMPLEMENTATIONS,
    LEAST,
    PACKING,
    PREEMPT,
    WAIT,
    schedule,
)

CHAINS = [  # fan-outs, roots, node level
    ([3, 2], 4, 1),
    ([2, 2, 2], 3, 1),
    ([4, 4], 2, 1),
    ([2, 2, 2], 3, 2),
    ([4], 6, 1),
    ([2, 2, 2], 2, 1),
]
_MOST_TRIES = 400_000


def packable(rooms, sizes):
    """Whether pods, the largest first, fit into rooms."""

    @cache
    def fits(rooms, placed):
        if placed == len(sizes):
            return True
        size = sizes[placed]
        return any(
            fits(tuple(sorted((*rooms[:i], room - size, *rooms[i + 1 :]))), placed + 1)
            for i, room in enumerate(rooms)
            if room >= size and room not in rooms[:i]
        )

    return sum(rooms) >= sum(sizes) and fits(tuple(sorted(room for room in rooms if room)), 0)


class Ways:
    """All ways to place a tenant's group in the scheduler's present state."""

    def __init__(self, scheduler, chain, pools):
        self.scheduler, self.pools = scheduler, pools
        fanouts, roots, self.node = chain
        self.widths = [1]
        for fanout in fanouts:
            self.widths.append(self.widths[-1] * fanout)
        self.leaves = range(roots * self.widths[-1])

    def cell(self, level, number):
        return range(number * self.widths[level], (number + 1) * self.widths[level])

    def exist(self, vc, sizes, suggested, *, on_idle_leaves):
        """None: there are too many to try."""
        scheduler = self.scheduler
        groups = {handle: scheduler.group(handle) for handle in scheduler.handles()}
        bad = set(scheduler.bad_leaves(0).tolist())
        self.usable = set()
        for leaf, user in zip(self.leaves, scheduler.leaf_users(0).tolist(), strict=True):
            if leaf in bad or leaf // self.widths[self.node] not in (suggested or self.leaves):
                continue
            opportunistic = user >= 0 and groups[user][5] is None
            if user < 0 or (opportunistic and not on_idle_leaves):
                self.usable.add(leaf)
        self.sizes = sorted(sizes, reverse=True)
        mine = [i for i, pool in enumerate(self.pools) if pool[0] == vc]
        rooms = [
            room
            for pool in mine
            for root in scheduler.bindings(pool, self.pools[pool][2]).tolist()
            if root >= 0
            for room in self.rooms(pool, root)
        ]
        free, owed = self.free_and_owed()
        self.tries = _MOST_TRIES
        unbound = [(pool, scheduler.unbound_roots(pool)) for pool in mine]
        result = self.bind(unbound, rooms, free, owed, 0)
        return None if not result and self.tries <= 0 else result

    def free_and_owed(self):
        """The leaves in free cells, and per level how many cells tenants may still ask for."""
        free = {
            leaf
            for level in range(len(self.widths))
            for cell in self.scheduler.free_cells(0, level).tolist()
            for leaf in self.cell(level, cell)
        }
        owed = [0] * len(self.widths)
        for number, pool in enumerate(self.pools):
            owed[pool[2]] += self.scheduler.unbound_roots(number)
        return free, owed

    def rooms(self, pool, root):
        """Usable leaves of each unit in a root that is bound to this cell."""
        level = self.pools[pool][2]
        unit = min(level, self.node)
        many = self.widths[level] // self.widths[unit]
        cells = range(root * many, (root + 1) * many)
        return [len(self.usable.intersection(self.cell(unit, cell))) for cell in cells]

    def bind(self, unbound, rooms, free, owed, first):
        """Try more and more roots, pool by pool, in ascending cells."""
        self.tries -= 1
        if self.tries <= 0 or packable(rooms, self.sizes):
            return self.tries > 0
        if not unbound:
            return False
        (pool, left), *others = unbound
        level = self.pools[pool][2]
        for number in range(first, len(self.leaves) // self.widths[level] if left else 0):
            cell = set(self.cell(level, number))
            less = [count - (at == level) for at, count in enumerate(owed)]
            if cell <= free and cell & self.usable and self.safe(free - cell, less):
                more = [*rooms, *self.rooms(pool, number)]
                rest = [(pool, left - 1), *others]
                if self.bind(rest, more, free - cell, less, number + 1):
                    return True
        return self.bind(others, rooms, free, owed, 0)

    def safe(self, free, owed):
        """Whether what is owed fits into wholly free cells, level by level."""
        for level, width in enumerate(self.widths):
            cells = range(len(self.leaves) // width)
            whole = sum(free.issuperset(self.cell(level, cell)) for cell in cells)
            above = zip(owed[level:], self.widths[level:], strict=True)
            if whole < sum(count * wide // width for count, wide in above):
                return False
        return True


def some_pools(chance, chain):
    """What two tenants own of several levels, as much as fits."""
    while True:
        pools = [
            (vc, 0, level, chance.randint(1, 3))
            for vc in (0, 1)
            for level in range(len(chain[0]) + 1)
            if chance.random() < 0.5
        ]
        try:
            IMPLEMENTATIONS[0]([chain], 2, pools, [])
        except ValueError:
            continue
        if pools:
            return pools


class Answer(NamedTuple):
    """What a group was answered, and whether there was a better answer (None: unknown)."""

    plan: Any
    priority: int
    pods: int
    waits_though_it_fits: bool | None  # of those of priority 0
    evicts_though_it_fits: bool | None  # of these, those that want the least evictions
    again: Any  # the plan when the victims have gone


def answers_among_bad_nodes(created, seed, steps):
    """Guaranteed groups of a history of groups and nodes that come and go, on a small cluster."""
    chance = random.Random(seed)
    chain = chance.choice(CHAINS)
    pools = some_pools(chance, chain)
    scheduler = created([chain], 2, pools, [])
    ways = Ways(scheduler, chain, pools)
    width = ways.widths[ways.node]
    nodes = len(ways.leaves) // width
    for _ in range(steps):
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
        evictions = LEAST if chance.random() < 0.4 else PACKING
        request = {"vc": vc, "priority": priority, "suggested": suggested, "evictions": evictions}
        plan = schedule(scheduler, sizes, **request)
        waits = evicts = False
        if priority == 0 and plan.outcome == WAIT:
            waits = ways.exist(vc, sizes, suggested, on_idle_leaves=False)
        if priority == 0 and plan.outcome == PREEMPT and evictions == LEAST:
            evicts = ways.exist(vc, sizes, suggested, on_idle_leaves=True)
        for victim in plan.victims:
            scheduler.release(victim)
        again = schedule(scheduler, sizes, **request) if plan.outcome == PREEMPT else plan
        if priority >= 0:
            yield Answer(plan, priority, len(sizes), waits, evicts, again)
        if again.outcome == BIND:
            scheduler.commit(again, False)
    scheduler.check()
