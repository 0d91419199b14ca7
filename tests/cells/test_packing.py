"""Small pods in cells of several sizes: how many nodes they break into, and which pods wait.

A tenant owns two nodes of 8 GPUs and four quads, beside which the chain has nothing. Every sequence
of a few pods is tried, against two rules in a few lines each: the one of HiveD, which puts a pod on
the most used node and takes idle nodes before smaller cells, and that of the most used cell.
"""

from itertools import product

import pytest
from cells.groups.group_schedulers import BIND, each_implementation, schedule

from hivecore._cells import GroupScheduler

CHAIN = ([2, 2, 2, 4], 1, 3)  # GPU, pair, quad, node, rack
QUAD, NODE = 4, 8
POOLS = [(0, 0, 2, 4), (0, 0, 3, 2)]  # four quads, two nodes


def by_most_used(pods, idle_first=QUAD):
    """Which pods are served, and how many nodes are in use; two quads make a node."""
    left = {QUAD: 4, NODE: 2}
    cells, served = [], []  # [width, used] each
    for pod in pods:
        taking = [cell for cell in cells if sum(cell[1:]) + pod <= cell[0]]
        idle = sorted((w for w in left if left[w] and w >= pod), key=lambda w: w != idle_first)
        served.append(bool(taking or idle))
        if taking:
            max(taking, key=lambda cell: (cell[1], -cell[0]))[1] += pod
        elif idle:
            left[idle[0]] -= 1
            cells.append([idle[0], pod])
    quads = sum(cell[0] == QUAD for cell in cells)
    return served, len(cells) - quads + (quads + 1) // 2


def by_us(created, pods):
    scheduler = created([CHAIN], 1, POOLS, [])
    served, nodes = [], set()
    for pod in pods:
        plan = schedule(scheduler, [pod])
        served.append(plan.outcome == BIND)
        if served[-1]:
            scheduler.commit(plan, False)
            nodes |= {leaf // NODE for leaf in plan.pods[0]}
    scheduler.check()
    return served, len(nodes)


@each_implementation
def test_the_smallest_gap_that_takes_a_pod_is_filled(created):
    scheduler = created([CHAIN], 1, POOLS, [])
    plans = []
    for pod in (3, 6, 1, 2):  # 1 GPU is left in a quad, and 2 in a node
        plans.append(schedule(scheduler, [pod]))
        scheduler.commit(plans[-1], False)
    pools = [{pool for pool, _ in plan.virtual[0]} for plan in plans]
    assert pools == [{0}, {1}, {0}, {1}]
    assert scheduler.unbound_roots(0) == 3
    assert scheduler.unbound_roots(1) == 1


@each_implementation
def test_of_gaps_of_equal_size_the_one_in_the_largest_cell_is_filled(created):
    scheduler = created([CHAIN], 1, POOLS, [])
    for pod in (3, 7):
        scheduler.commit(schedule(scheduler, [pod]), False)
    assert [pool for pool, _ in schedule(scheduler, [1]).virtual[0]] == [1]


@pytest.mark.parametrize(
    ("sizes", "length"), [(range(1, 8), 2), (range(1, 9), 4), ((1, 3, 5, 8), 6)]
)
def test_no_sequence_of_pods_fares_worse_than_by_the_most_used_cell(sizes, length):
    fewer_nodes = 0
    for pods in product(sizes, repeat=length):
        served, nodes = by_us(GroupScheduler, pods)
        others, their_nodes = by_most_used(pods)
        assert sum(served) >= sum(others), pods
        if served == others:
            assert nodes <= their_nodes, pods
            fewer_nodes += nodes < their_nodes
    assert length < 5 or fewer_nodes > 0


def test_hived_serves_no_more_pods_of_any_sequence_and_fewer_of_some():
    # Its pod of 1 GPU is in a node, and then a pod of 8 waits that ours serves.
    fewer = 0
    for pods in product((1, 3, 5, 8), repeat=4):
        ours, _ = by_us(GroupScheduler, pods)
        theirs, _ = by_most_used(pods, idle_first=NODE)
        assert sum(ours) >= sum(theirs), pods
        fewer += sum(ours) > sum(theirs)
    assert fewer == 46
