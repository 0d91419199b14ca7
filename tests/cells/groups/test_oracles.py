"""The group scheduler against brute force: all subsets of leaves, all ways to pack pods."""

import random
from itertools import chain, combinations, combinations_with_replacement, product

import numpy as np
import pytest
from cells.groups.group_schedulers import (
    BIND,
    CAPACITY,
    FITS,
    FRAGMENTED,
    IMPLEMENTATIONS,
    LEAST,
    MAPPING,
    PACKING,
    PREEMPT,
    SEARCH_LIMIT,
    WAIT,
    Kernel,
    schedule,
)
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

UNAVAILABLE, FREE, OPPORTUNISTIC, LOWER = range(4)


@st.composite
def nodes(draw):
    """The fan-outs of one node of up to twelve leaves, and what is on each leaf."""
    fanouts, leaves = [], 1
    for fanout in draw(st.lists(st.integers(1, 4), max_size=3)):
        if leaves * fanout <= 12:
            fanouts.append(fanout)
            leaves *= fanout
    kind = st.sampled_from([UNAVAILABLE, FREE, FREE, OPPORTUNISTIC, LOWER])
    return fanouts, draw(st.lists(kind, min_size=leaves, max_size=leaves))


def common_level(widths, leaves):
    return next(n for n, width in enumerate(widths) if len({x // width for x in leaves}) == 1)


@examples(150)
@given(node=nodes(), data=st.data())
def test_leaves_hurt_as_few_as_can_be_and_are_as_close_as_can_be(node, data):
    fanouts, kinds = node
    top = len(fanouts)
    count = data.draw(st.integers(1, len(kinds)), label="count")
    within = data.draw(st.integers(-1, top), label="within")
    widths = [1]
    for fanout in fanouts:
        widths.append(widths[-1] * fanout)
    highest = top if within < 0 else within

    leaves = [leaf for leaf, kind in enumerate(kinds) if kind != UNAVAILABLE]
    ways = (
        (*(sum(kinds[x] == k for x in some) for k in (LOWER, OPPORTUNISTIC)), level)
        for some in combinations(leaves, count)
        if (level := common_level(widths, some)) <= highest
    )
    wanted = min(ways, default=None)
    for implementation in IMPLEMENTATIONS:
        scheduler = implementation([(fanouts, 1, top)], 1, [(0, 0, top, 1)], [])
        for leaf, kind in enumerate(kinds):
            if kind == OPPORTUNISTIC:
                scheduler.recover(0, -1, False, [[leaf]], [[-1]])
            elif kind != FREE:
                scheduler.recover(0, 3 if kind == LOWER else 5, False, [[leaf]], [[0]])
        plan = schedule(scheduler, [count], priority=5, within=[within])
        if wanted is None:
            assert plan.outcome == WAIT
            continue
        (leaves,) = plan.pods
        hurt = [sum(kinds[leaf] == kind for leaf in leaves) for kind in (LOWER, OPPORTUNISTIC)]
        outcome = (*hurt, common_level(widths, leaves))
        if implementation is Kernel:
            assert outcome == wanted
        else:  # the twin may evict more from GPUs that are closer to each other
            assert outcome >= wanted
        assert plan.outcome == (PREEMPT if any(hurt) else BIND)
        assert len(plan.victims) == sum(hurt)


def packable(rooms, sizes):
    """Whether the pods fit into the rooms, by trying everything."""
    if not sizes:
        return True
    return any(
        room >= sizes[0] and packable([*rooms[:i], room - sizes[0], *rooms[i + 1 :]], sizes[1:])
        for i, room in enumerate(rooms)
    )


@examples(200)
@given(
    used=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    spread=st.booleans(),
    opportunistic=st.booleans(),
)
def test_a_group_waits_only_if_its_pods_cannot_be_packed(used, sizes, spread, opportunistic):
    fits = packable([5 - many for many in used], sorted(sizes, reverse=True))
    for implementation in IMPLEMENTATIONS:
        scheduler = implementation([([5], len(used), 1)], 1, [(0, 0, 1, len(used))], [])
        for node, many in enumerate(used):
            leaves = list(range(5 * node, 5 * node + many))
            scheduler.recover(0, 7, False, [leaves], [[0] * many])
        plan = schedule(scheduler, sizes, priority=-1 if opportunistic else 7, spread=spread)
        assert plan.outcome == (BIND if fits else WAIT)


@st.composite
def confined_groups(draw):
    """One or two nodes, which of their leaves are free, pods of nearly that many leaves."""
    fanouts = draw(st.sampled_from([[3, 2], [3, 3], [4, 2], [2, 2, 2], [3, 2, 2], [2, 3, 2]]))
    many = draw(st.integers(1, 2))
    leaves = many * int(np.prod(fanouts))
    free = draw(st.lists(st.sampled_from([True] * 4 + [False]), min_size=leaves, max_size=leaves))
    level = st.sampled_from([-1, 1, 1, 1, *range(len(fanouts) + 1)])
    pods, left = [], sum(free) // draw(st.integers(1, many))
    while left > 0 and len(pods) < 6:
        pods.append((draw(st.integers(1, min(left, 4))), draw(level)))
        left -= pods[-1][0]
    within = draw(st.sampled_from([-1, -1, -1, *range(len(fanouts) + 1)]))
    return fanouts, many, free, pods or [(1, -1)], within


def confinable(widths, free, pods, group_within):
    """Whether every pod fits into a cell of its level, by trying all cells for all pods."""
    node = len(widths) - 1

    def fits(taken, left, around):
        if not left:
            return True
        (size, level), *others = left
        level = node if level < 0 else level
        for cell in range(len(free) // widths[level]):
            cells = [(n, cell * widths[level] // widths[n]) for n in range(level, node + 1)]
            home = cell * widths[level] // widths[max(level, group_within)]
            if group_within >= 0 and around is not None and around != home:
                continue
            if all(taken.get(c, 0) + size <= room(*c) for c in cells):
                more = taken | {c: taken.get(c, 0) + size for c in cells}
                if fits(more, others, home):
                    return True
        return False

    def room(level, cell):
        return sum(free[cell * widths[level] : (cell + 1) * widths[level]])

    if group_within < 0:
        return fits({}, pods, None)
    pods = [(size, group_within if level < 0 else min(level, group_within)) for size, level in pods]
    return fits({}, pods, None)


@examples(400)
@given(group=confined_groups(), spread=st.booleans(), opportunistic=st.booleans())
def test_confined_pods_wait_only_if_they_fit_nowhere(group, spread, opportunistic):
    fanouts, many, free, pods, group_within = group
    node, widths = len(fanouts), [1]
    for fanout in fanouts:
        widths.append(widths[-1] * fanout)
    request = {
        "priority": -1 if opportunistic else 7,
        "within": [level for _, level in pods],
        "group_within": group_within,
        "spread": spread,
    }
    fits = confinable(widths, free, pods, group_within)
    scheduler = Kernel([(fanouts, many, node)], 1, [(0, 0, node, many)], [])
    for leaf, is_free in enumerate(free):
        if not is_free:
            scheduler.recover(0, 7, False, [[leaf]], [[0]])
    plan = schedule(scheduler, [size for size, _ in pods], **request)
    assert plan.reason != SEARCH_LIMIT
    assert plan.outcome == (BIND if fits else WAIT)
    for (size, level), leaves in zip(pods, plan.pods, strict=plan.outcome == BIND):
        level = node if level < 0 else level
        assert len(leaves) == size
        assert len({leaf // widths[level] for leaf in leaves}) == 1
        assert all(free[leaf] for leaf in leaves)
    taken = [leaf for leaves in plan.pods for leaf in leaves]
    assert len(taken) == len(set(taken))


@pytest.mark.parametrize("priority", [-1, 0])
@pytest.mark.parametrize("group_within", [-1, 2])
def test_pods_of_2_2_and_3_share_sockets_with_4_and_3_free_leaves(priority, group_within):
    # Two nodes of two pairs of two sockets of four; the first pair of the first node is free.
    scheduler = Kernel([([4, 2, 2], 2, 3)], 1, [(0, 0, 3, 2)], [])
    scheduler.recover(0, -1, False, [[4, *range(8, 32)]], [[-1] * 25])
    confined = {"within": [1, 1, 1], "group_within": group_within}
    plan = schedule(scheduler, [2, 2, 3], priority=-1, **confined)
    assert plan.pods == [[0, 1], [2, 3], [5, 6, 7]]
    if priority == 0:
        scheduler.set_health(4, 5, False)
        scheduler.set_health(8, 32, False)
        plan = schedule(scheduler, [2, 2, 3], **confined)
        assert (plan.outcome, plan.pods) == (BIND, [[0, 1], [2, 3], [5, 6, 7]])


@pytest.mark.parametrize(("chain", "within"), [(([64], 10, 1), None), (([64, 10], 1, 2), [1] * 17)])
def test_a_search_that_takes_too_long_is_given_up_and_says_so(chain, within):
    # Ten nodes, or sockets of a node: 640 leaves less 145 that are used, pods of 22 to 32 leaves.
    # There are too many ways to try, and the twin is a hundred times slower.
    sizes = [25, 31, 30, 24, 27, 31, 29, 32, 31, 23, 31, 22, 29, 26, 30, 25, 25]
    scheduler = Kernel([chain], 1, [], [])
    for node in range(10):
        leaves = list(range(64 * node, 64 * node + 3 * node + 1))
        scheduler.recover(0, -1, False, [leaves], [[-1] * len(leaves)])
    plan = schedule(scheduler, sizes, priority=-1, within=within)
    assert (plan.outcome, plan.reason) == (WAIT, SEARCH_LIMIT)


@pytest.mark.parametrize("rooms", list(product(range(3), repeat=4)))
def test_a_rack_is_bound_whenever_it_can_host_all_nodes(rooms):
    """A rack of four nodes of two leaves, which the tenant owns, with as many healthy ones. The
    twin maps the first virtual nodes that it finds, and may wait where the kernel finds others.
    """
    for sizes in chain.from_iterable(combinations_with_replacement((2, 1), n) for n in range(1, 7)):
        pods = sorted(sizes, reverse=True)
        is_hosted = packable(list(rooms), pods)
        for implementation in IMPLEMENTATIONS:
            scheduler = implementation([([2, 4], 1, 1)], 1, [(0, 0, 2, 1)], [])
            for node, room in enumerate(rooms):
                scheduler.set_health(2 * node + room, 2 * node + 2, False)
            plan = schedule(scheduler, sizes)
            if not packable([2] * 4, pods):
                assert plan.reason in (CAPACITY, FRAGMENTED)
            elif implementation is Kernel:
                expected = (BIND, FITS) if is_hosted else (WAIT, MAPPING)
                assert (plan.outcome, plan.reason) == expected, (sizes, plan)
            else:
                assert is_hosted or plan.reason == MAPPING


@examples(100)
@given(
    healthy=st.lists(st.booleans() | st.just(True), min_size=16, max_size=16),
    suggested=st.none() | st.sets(st.integers(0, 7), min_size=4),
    sizes=st.lists(st.integers(1, 2), min_size=1, max_size=6),
)
def test_one_of_two_racks_is_bound_whenever_one_can_host_all_nodes(healthy, suggested, sizes):
    """Two racks of four nodes of two leaves; the tenant owns one rack, and nothing is bound."""
    rooms = [
        sum(healthy[2 * node : 2 * node + 2]) * (suggested is None or node in suggested)
        for node in range(8)
    ]
    pods = sorted(sizes, reverse=True)
    is_hosted = packable(rooms[:4], pods) or packable(rooms[4:], pods)
    scheduler = Kernel([([2, 4], 2, 1)], 1, [(0, 0, 2, 1)], [])
    for leaf, good in enumerate(healthy):
        scheduler.set_health(leaf, leaf + 1, good)
    named = None if suggested is None else sorted(suggested)
    plan = schedule(scheduler, sizes, suggested=named)
    if not packable([2] * 4, pods):
        assert plan.reason in (CAPACITY, FRAGMENTED)
    else:
        assert (plan.outcome, plan.reason) == ((BIND, FITS) if is_hosted else (WAIT, MAPPING))


@examples(200)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_a_group_is_evicted_only_if_there_is_no_place_without(data, seed):
    """Nodes without racks, of which two tenants own some: which groups need no evictions."""
    chance = random.Random(seed)
    width, many = data.draw(st.integers(2, 8), "width"), data.draw(st.integers(2, 8), "nodes")
    owned = data.draw(st.integers(1, many), "owned")
    pools = [(vc, 0, 1, n) for vc, n in enumerate((owned, many - owned)) if n]
    scheduler = Kernel([([width], many, 1)], 2, pools, [])
    for _ in range(40):
        live = scheduler.handles()
        if live and chance.random() < 0.35:
            scheduler.release(chance.choice(live))
            continue
        pool = chance.randrange(len(pools))
        priority, pods = chance.choice([-1, -1, 0, 0, 0]), chance.choice([1, 1, 1, 2, 3])
        size, evictions = chance.randint(1, width), chance.choice([PACKING, LEAST])
        request = {"vc": pools[pool][0], "priority": priority, "evictions": evictions}
        plan = schedule(scheduler, [size] * pods, **request)
        if priority == 0 and plan.outcome != WAIT:
            groups = {handle: scheduler.group(handle) for handle in live} | {-1: None}
            users = [groups[user] for user in scheduler.leaf_users(0).tolist()]
            nodes = [users[width * n : width * (n + 1)] for n in range(many)]
            idle = [node.count(None) for node in nodes]
            held = [sum(user is not None and user[5] is not None for user in n) for n in nodes]
            bound = [node for node in scheduler.bindings(pool, 1).tolist() if node >= 0]
            free, roots = scheduler.free_cells(0, 1).tolist(), scheduler.unbound_roots(pool)
            rooms = [idle[n] // size for n in bound]
            rooms += sorted((idle[n] // size for n in free), reverse=True)[:roots]
            assert (plan.outcome == BIND) == (sum(rooms) >= pods)
            if evictions == PACKING and pods == 1:  # a node is opened only if no other will do
                leaves = [width - held[n] if plan.outcome == PREEMPT else idle[n] for n in bound]
                in_use = any(left >= size for left in leaves)
                assert (held[plan.pods[0][0] // width] > 0) == in_use
        for victim in plan.victims:
            scheduler.release(victim)
        if plan.victims:
            plan = schedule(scheduler, [size] * pods, **request)
            assert plan.outcome == BIND  # no other group has to leave
        if plan.outcome == BIND:
            scheduler.commit(plan, False)
    scheduler.check()


def test_a_gang_beside_bad_nodes_takes_the_cells_of_another_level():
    # A leaf and two nodes are owned; the two pods would go to the leaf and to a node that is bad.
    scheduler = Kernel([([3], 3, 1)], 1, [(0, 0, 0, 1), (0, 0, 1, 2)], [])
    scheduler.set_health(0, 6, False)
    plan = schedule(scheduler, [1, 1])
    assert (plan.outcome, plan.pods) == (BIND, [[6], [7]])
