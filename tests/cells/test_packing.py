"""Small pods in cells of several sizes: how many nodes they break into, and which pods wait.

A tenant owns two nodes of 8 GPUs and four quads, beside which the chain has nothing. Every sequence
of a few pods is tried, against two rules in a few lines each: the one of HiveD, which puts a pod on
the most used node and takes idle nodes before smaller cells, and that of the most used cell.
"""

import random
from itertools import product

import pytest
from cells.groups.group_schedulers import (
    BIND,
    PACKING,
    PREEMPT,
    WAIT,
    SideBySide,
    each_implementation,
    schedule,
)
from profiles import seeds

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


RACKS = ([2, 2, 2, 4], 6, 3)  # 24 nodes
MANY = [(0, 0, 2, 16), (0, 0, 3, 8), (1, 0, 4, 1)]  # 16 quads and 8 nodes; another tenant's rack


@each_implementation
def test_gaps_do_not_pile_up_in_small_cells_while_a_larger_share_of_nodes_is_idle(created):
    scheduler = created([RACKS], 2, MANY, [])

    def pools(*pods):
        plans = []
        for pod in pods:
            plans.append(schedule(scheduler, [pod]))
            scheduler.commit(plans[-1], False)
        return [plan.virtual[0][0][0] for plan in plans]

    assert pools(3, 3, 3, 3) == [0, 0, 0, 1]  # three quads have a gap of 1
    assert pools(5, 3, 5, 3, 5, 3, 5) == [1] * 7  # the nodes have no gap
    assert pools(3) == [0]  # half of the nodes are in use, and of the quads only 3, 4 less than 7
    assert pools(1, 1, 3, 1) == [0, 0, 0, 0]  # two gaps are few
    assert pools(8, 8, 8, 8, 3, 3) == [1, 1, 1, 1, 0, 0]  # no node is left


@pytest.mark.parametrize("seed", seeds(4))
def test_kernel_and_twin_agree_where_gaps_pile_up(seed):
    both, rng = SideBySide([RACKS], 2, MANY, []), random.Random(seed)
    passed_over = 0
    for _ in range(100):
        live = both.twin.handles()
        if live and rng.random() < 0.3:
            handle = rng.choice(live)
            both.every(lambda scheduler, handle=handle: scheduler.release(handle))
            continue
        sizes = [rng.choice((1, 2, 3, 3, 3, 4, 5))] * rng.choice((1, 1, 1, 2))
        suggested = rng.sample(range(24), 20) if rng.random() < 0.2 else None
        shape = sizes, None, -1, False, False, suggested, None, PACKING, None
        plan, _ = plans = both.schedule((0, 0, -1, rng.choice((-1, 0, 0, 1)), *shape))
        if sizes == [3] and plan.virtual is not None and plan.virtual[0][0][0] == 1:
            passed_over += both.twin.unbound_roots(0) > 0
        if plan.outcome != WAIT:
            both.carry_out(plans, plan.outcome == PREEMPT, False)
        both.check()
    assert passed_over > 0
