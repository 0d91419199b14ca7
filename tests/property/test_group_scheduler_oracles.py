"""The group scheduler against brute force: all subsets of leaves, all ways to pack pods."""

from itertools import combinations

import pytest
from group_schedulers import (
    BIND,
    CAPACITY,
    FITS,
    FRAGMENTED,
    IMPLEMENTATIONS,
    MAPPING,
    PREEMPT,
    SEARCH_LIMIT,
    WAIT,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from hivecore.reference.cells import group_choice

UNAVAILABLE, FREE, OPPORTUNISTIC, LOWER = range(4)
RANK = {FREE: 0, OPPORTUNISTIC: 1, LOWER: 2}

each_implementation = pytest.mark.parametrize(
    "made", IMPLEMENTATIONS, ids=lambda made: made.__module__.split(".")[1]
)


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


@each_implementation
@settings(max_examples=150, deadline=None)
@given(node=nodes(), data=st.data())
def test_leaves_are_as_close_as_can_be_and_hurt_as_few_as_can_be(made, node, data):
    fanouts, kinds = node
    top = len(fanouts)
    count = data.draw(st.integers(1, len(kinds)), label="count")
    within = data.draw(st.integers(-1, top), label="within")
    scheduler = made([(fanouts, 1, top)], 1, [(0, 0, top, 1)], [])
    for leaf, kind in enumerate(kinds):
        if kind == OPPORTUNISTIC:
            scheduler.recover(0, -1, False, [[leaf]], [[-1]])
        elif kind != FREE:
            scheduler.recover(0, 3 if kind == LOWER else 5, False, [[leaf]], [[0]])
    widths = [1]
    for fanout in fanouts:
        widths.append(widths[-1] * fanout)
    highest = top if within < 0 else within

    def best(kinds_allowed):
        """(level of the common cell, leaves of lower groups, opportunistic leaves), the least."""
        leaves = [leaf for leaf, kind in enumerate(kinds) if kind in kinds_allowed]
        ways = (
            (common_level(widths, some), *(sum(kinds[x] == k for x in some) for k in (LOWER, 2)))
            for some in combinations(leaves, count)
        )
        return min((way for way in ways if way[0] <= highest), default=None)

    assert OPPORTUNISTIC == 2
    wanted = best({FREE, OPPORTUNISTIC}) or best({FREE, OPPORTUNISTIC, LOWER})
    plan = scheduler.schedule(0, 0, -1, 5, [count], [within], -1, False, False, None, None)
    if wanted is None:
        assert plan.outcome == WAIT
        return
    (leaves,) = plan.pods
    hurt = [sum(kinds[leaf] == kind for leaf in leaves) for kind in (LOWER, OPPORTUNISTIC)]
    assert (common_level(widths, leaves), *hurt) == wanted
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


@each_implementation
@settings(max_examples=200, deadline=None)
@given(
    used=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    spread=st.booleans(),
    opportunistic=st.booleans(),
)
def test_a_group_waits_only_if_its_pods_cannot_be_packed(made, used, sizes, spread, opportunistic):
    pools = [(0, 0, 1, len(used))]
    scheduler = made([([5], len(used), 1)], 1, pools, [])
    for node, many in enumerate(used):
        leaves = list(range(5 * node, 5 * node + many))
        scheduler.recover(0, 7, False, [leaves], [[0] * many])
    priority = -1 if opportunistic else 7
    plan = scheduler.schedule(0, 0, -1, priority, sizes, None, -1, spread, False, None, None)
    fits = packable([5 - many for many in used], sorted(sizes, reverse=True))
    assert plan.outcome == (BIND if fits else WAIT)


def test_a_search_that_takes_too_long_is_given_up_and_says_so(monkeypatch):
    # 640 leaves less 145 that are used, pods of 22 to 32 leaves: there are too many ways to try.
    monkeypatch.setattr(group_choice, "_SEARCH_LIMIT", 2000)  # the twin is a hundred times slower
    sizes = [25, 31, 30, 24, 27, 31, 29, 32, 31, 23, 31, 22, 29, 26, 30, 25, 25]
    for made in IMPLEMENTATIONS:
        scheduler = made([([64], 10, 1)], 1, [], [])
        for node in range(10):
            leaves = list(range(64 * node, 64 * node + 3 * node + 1))
            scheduler.recover(0, -1, False, [leaves], [[-1] * len(leaves)])
        plan = scheduler.schedule(0, 0, -1, -1, sizes, None, -1, False, False, None, None)
        assert (plan.outcome, plan.reason) == (WAIT, SEARCH_LIMIT)


@each_implementation
@settings(max_examples=300, deadline=None)
@given(
    healthy=st.lists(st.booleans() | st.just(True), min_size=16, max_size=16),
    suggested=st.none() | st.sets(st.integers(0, 7), min_size=4),
    sizes=st.lists(st.integers(1, 2), min_size=1, max_size=6),
)
def test_a_rack_is_bound_whenever_one_can_host_all_nodes(made, healthy, suggested, sizes):
    """Two racks of four nodes of two leaves; the tenant owns one rack, and nothing is bound."""
    scheduler = made([([2, 4], 2, 1)], 1, [(0, 0, 2, 1)], [])
    for leaf, good in enumerate(healthy):
        scheduler.set_health(leaf, leaf + 1, good)
    named = None if suggested is None else sorted(suggested)
    plan = scheduler.schedule(0, 0, -1, 0, sizes, None, -1, False, False, named, None)
    rooms = [
        sum(healthy[2 * node : 2 * node + 2]) * (suggested is None or node in suggested)
        for node in range(8)
    ]
    ones = sizes.count(1)
    loads = [2] * (sizes.count(2) + ones // 2) + [1] * (ones % 2)  # of virtual nodes
    hosts = any(
        all(room >= load for room, load in zip(sorted(rack, reverse=True), loads, strict=False))
        for rack in (rooms[:4], rooms[4:])
    )
    if len(loads) > 4:
        assert plan.reason in (CAPACITY, FRAGMENTED)
    else:
        assert (plan.outcome, plan.reason) == ((BIND, FITS) if hosts else (WAIT, MAPPING))
