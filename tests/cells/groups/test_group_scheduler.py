"""The rules of the group scheduler, one by one, on kernel and twin alike.

The forest of most tests has nodes of four leaves in two pairs, and racks of two nodes: with two
racks, leaves 0-3 are node 0, 4-7 node 1 (rack 0), 8-11 node 2 and 12-15 node 3 (rack 1).
"""

import numpy as np
import pytest
from cells.groups.group_schedulers import (
    ALONE,
    BIND,
    CAPACITY,
    FITS,
    FRAGMENTED,
    IMPLEMENTATIONS,
    MAPPING,
    POLICY,
    PREEMPT,
    SEARCH_LIMIT,
    WAIT,
    ask,
    everything,
    free,
    pods,
    reserve,
    run,
)

import hivecore._cells as kernel
from hivecore.errors import InvariantError, StaleDecisionError
from hivecore.reference import cells as twin

LEAF, PAIR, NODE, RACK = range(4)
RACKS = [([2, 2, 2], 2, NODE)]


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda created: created.__module__.split(".")[1])
def make(request):
    """Makes a scheduler: by default two racks that belong to no tenant."""

    def build(pools=(), pins=(), chains=RACKS, tenants=2):
        return request.param(list(chains), tenants, list(pools), list(pins))

    return build


@pytest.fixture
def make_kernel():
    """The same where the twin trusts its caller, or takes another of several right plans."""

    def build(pools=(), pins=(), chains=RACKS, tenants=2):
        return kernel.GroupScheduler(list(chains), tenants, list(pools), list(pins))

    return build


# --- cells, pools and pins -----------------------------------------------------------------------


def test_a_pair_splits_two_levels_and_leaves_canonical_free_lists(make):
    scheduler = make([(0, 0, PAIR, 3)])
    handles = [run(scheduler, [2]) for _ in range(3)]
    assert [pods(scheduler, handle) for handle in handles] == [[[0, 1]], [[2, 3]], [[4, 5]]]
    assert free(scheduler) == {PAIR: [3], RACK: [1]}
    scheduler.release(handles[1])
    assert free(scheduler) == {PAIR: [1, 3], RACK: [1]}
    scheduler.release(handles[0])
    assert free(scheduler) == {PAIR: [3], NODE: [0], RACK: [1]}
    scheduler.release(handles[2])
    assert free(scheduler) == {RACK: [0, 1]}


def test_tenants_that_own_everything_can_each_use_it_in_any_order(make):
    scheduler = make([(0, 0, NODE, 1), (0, 0, RACK, 1), (1, 0, PAIR, 2)])
    assert scheduler.surplus(0) == [0, 0, 1, 1]
    handles = [
        run(scheduler, [2], vc=1),
        run(scheduler, [4], vc=0),
        run(scheduler, [2], vc=1),
        run(scheduler, [4, 4], vc=0),
    ]
    assert scheduler.surplus(0) == [0, 0, 0, 0]
    assert ask(scheduler, [1], vc=0).reason == CAPACITY
    assert ask(scheduler, [1], vc=1).reason == CAPACITY
    for handle in handles[::-1]:
        scheduler.release(handle)
    assert free(scheduler) == {RACK: [0, 1]}


def test_a_pin_is_bound_for_ever_and_used_only_by_its_number(make):
    scheduler = make([(0, 0, NODE, 1)], [(0, 0, NODE, 2)])
    assert free(scheduler) == {NODE: [3], RACK: [0]}
    assert scheduler.bindings(1, NODE).tolist() == [2]
    assert scheduler.unbound_roots(1) == 0
    assert pods(scheduler, run(scheduler, [4])) == [[12, 13, 14, 15]]
    assert ask(scheduler, [1]).reason == CAPACITY
    pinned = run(scheduler, [3], pool=1)
    assert pods(scheduler, pinned) == [[8, 9, 10]]
    assert scheduler.group(pinned)[5] == [[(1, 0), (1, 1), (1, 2)]]
    scheduler.release(pinned)
    assert scheduler.bindings(1, NODE).tolist() == [2]
    assert scheduler.bindings(1, LEAF).tolist() == [-1] * 4


def test_opportunistic_groups_use_a_chain_without_owners(make):
    scheduler = make([(0, 0, NODE, 1)], chains=[*RACKS, ([2], 3, 1)])
    assert ask(scheduler, [1], chain=1).reason == CAPACITY
    assert pods(scheduler, run(scheduler, [2], chain=1, priority=-1)) == [[20, 21]]
    scheduler.set_health(16, 22, False)
    assert scheduler.doomed(1) == []


# --- leaves --------------------------------------------------------------------------------------


def test_a_pod_goes_where_it_fits_most_tightly(make):
    scheduler = make([(0, 0, NODE, 1)])
    run(scheduler, [1])  # leaf 0
    assert ask(scheduler, [1]).pods == [[1]]
    assert ask(scheduler, [2]).pods == [[2, 3]]
    assert ask(scheduler, [3]).pods == [[1, 2, 3]]


def test_a_pod_avoids_opportunistic_leaves_before_it_packs(make):
    scheduler = make([(0, 0, NODE, 1)], [(1, 0, NODE, 0)])
    run(scheduler, [1], priority=-1, suggested=[0])
    assert ask(scheduler, [1], vc=1, pool=1).pods == [[1]]
    plan = ask(scheduler, [2], vc=1, pool=1)
    assert (plan.outcome, plan.pods, plan.victims) == (BIND, [[2, 3]], [])
    plan = ask(scheduler, [3], vc=1, pool=1)
    assert (plan.outcome, plan.pods, plan.victims) == (BIND, [[1, 2, 3]], [])
    plan = ask(scheduler, [4], vc=1, pool=1)
    assert (plan.outcome, plan.pods, plan.victims) == (PREEMPT, [[0, 1, 2, 3]], [0])


def test_half_of_a_big_node_is_found_at_once():
    # 16 of the 30 free leaves of a node of 32: 145 million subsets.
    for implementation in IMPLEMENTATIONS:
        scheduler = implementation([([2, 2, 2, 2, 2], 1, 5)], 1, [(0, 0, 5, 1)], [])
        for leaf in (1, 30):
            scheduler.recover(0, 0, False, [[leaf]], [[0]])
        plan = ask(scheduler, [16])
        assert plan.pods == [[0, *range(2, 17)]]
        assert ask(scheduler, [15]).pods == [[0, *range(2, 16)]]


@pytest.mark.parametrize(("level", "leaves"), [(LEAF, None), (PAIR, [2, 3]), (NODE, [2, 3])])
def test_within_is_hard(make, level, leaves):
    scheduler = make([(0, 0, NODE, 1)])
    run(scheduler, [1])
    plan = ask(scheduler, [2], within=[level])
    assert plan.pods == ([leaves] if leaves else [])
    assert plan.reason == (FITS if leaves else FRAGMENTED)


def test_a_group_within_a_pair_shares_one(make):
    scheduler = make([(0, 0, NODE, 2)])
    run(scheduler, [1])
    assert ask(scheduler, [1, 1]).pods == [[1], [2]]
    assert ask(scheduler, [1, 1], group_within=PAIR).pods == [[2], [3]]
    assert ask(scheduler, [1, 1, 1], group_within=PAIR).reason == FRAGMENTED


# --- units ---------------------------------------------------------------------------------------


def test_used_units_come_first_unless_the_group_is_to_spread(make):
    scheduler = make([(0, 0, NODE, 3)])
    run(scheduler, [1])
    assert ask(scheduler, [1, 1]).pods == [[1], [2]]
    assert ask(scheduler, [1, 1], spread=True).pods == [[4], [8]]
    assert ask(scheduler, [1, 1, 1, 1], spread=True).pods == [[4], [8], [1], [5]]


def test_a_gang_stays_in_one_rack_if_one_can_take_it(make):
    scheduler = make([(0, 0, RACK, 2)])
    run(scheduler, [4])
    run(scheduler, [1])  # rack 0: node 0 full, node 1 one leaf
    assert ask(scheduler, [2, 2]).pods == [[8, 9], [10, 11]]
    assert ask(scheduler, [2, 1]).pods == [[6, 7], [5]]
    assert ask(scheduler, [4, 4]).pods == [[8, 9, 10, 11], [12, 13, 14, 15]]
    assert ask(scheduler, [4, 4, 3]).pods == [[8, 9, 10, 11], [12, 13, 14, 15], [5, 6, 7]]


def test_a_policy_chooses_the_units(make):
    scheduler = make([(0, 0, NODE, 3)])
    assert [unit[:3] for unit in scheduler.units(0, 0, -1)] == [(0, 0, 4), (0, 1, 4), (0, 2, 4)]
    plan = ask(scheduler, [1, 2], units=[2, 1])
    assert plan.virtual == [[(0, 8)], [(0, 4), (0, 5)]]
    assert plan.pods == [[0], [4, 5]]
    assert ask(scheduler, [3, 2], units=[1, 1]).reason == POLICY
    scheduler.set_health(0, 16, False)
    assert ask(scheduler, [3, 2], units=[1, 2]).reason == MAPPING


def test_the_units_say_what_is_available_and_where(make):
    scheduler = make([(0, 0, PAIR, 1), (0, 0, RACK, 1)])
    assert scheduler.units(0, 0, -1) == [
        (0, 0, 2, 2, 0, -1),
        (1, 0, 4, 4, 0, -1),
        (1, 1, 4, 4, 0, -1),
    ]
    run(scheduler, [3])
    scheduler.set_health(0, 2, False)
    assert scheduler.units(0, 0, -1)[1:] == [(1, 0, 4, 1, 3, 0), (1, 1, 4, 4, 0, -1)]


# --- mapping -------------------------------------------------------------------------------------


def test_new_cells_are_bound_away_from_opportunistic_work(make):
    scheduler = make([(0, 0, NODE, 1), (0, 0, RACK, 1)])
    run(scheduler, [1], priority=-1, suggested=[0])
    plan = ask(scheduler, [4])
    assert (plan.outcome, plan.pods) == (BIND, [[8, 9, 10, 11]])
    run(scheduler, [4])
    # The next rack cell must be rack 0 now, in it the node without opportunistic work.
    plan = ask(scheduler, [4], group_within=RACK)
    assert (plan.outcome, plan.pods) == (BIND, [[4, 5, 6, 7]])


def test_the_relaxed_split_counts_every_level_in_between(make):
    # Two tops of two middles of two nodes; tenant 1 owns three middles, tenant 0 two nodes.
    scheduler = make([(0, 0, 1, 2), (1, 0, 2, 3)], chains=[([2, 2, 2], 2, 1)])
    run(scheduler, [2])
    assert scheduler.surplus(0)[1:] == [0, 0, 1]
    scheduler.set_health(2, 4, False)  # the other node of the middle that is split
    # The free top alone could spare a node, but its middles are owed.
    plan = ask(scheduler, [2])
    assert (plan.outcome, plan.reason) == (WAIT, MAPPING)
    assert ask(scheduler, [2] * 6, vc=1).outcome == BIND
    scheduler.set_health(2, 4, True)
    assert ask(scheduler, [2]).pods == [[2, 3]]


def test_a_relaxed_split_takes_cells_that_no_tenant_is_owed(make):
    scheduler = make([(0, 0, NODE, 2)])
    run(scheduler, [4])  # node 0
    scheduler.set_health(4, 8, False)  # its buddy, the only listed node
    plan = ask(scheduler, [4])
    assert (plan.outcome, plan.pods) == (BIND, [[8, 9, 10, 11]])
    run(scheduler, [4])
    assert scheduler.surplus(0) == [8, 4, 2, 0]


def test_two_relaxed_splits_in_one_gang_know_of_each_other(make_kernel):
    # Three racks, one of them owed to tenant 1. After node 0, one rack may be split, not two.
    scheduler = make_kernel([(0, 0, NODE, 4), (1, 0, RACK, 1)], chains=[([2, 2, 2], 3, NODE)])
    run(scheduler, [4])
    scheduler.set_health(4, 8, False)
    scheduler.set_health(12, 16, False)
    both = [[16, 17, 18, 19], [20, 21, 22, 23]]
    assert ask(scheduler, [4, 4]).pods == both  # one rack is split for the two of them
    scheduler.set_health(20, 24, False)
    assert ask(scheduler, [4, 4]).reason == MAPPING
    assert ask(scheduler, [4]).pods == [[8, 9, 10, 11]]
    scheduler.set_health(20, 24, True)
    assert pods(scheduler, run(scheduler, [4, 4], vc=1)) == both


def test_the_virtual_choice_is_revised_for_suggested_nodes(make):
    # The pool of one node comes first; but a node outside of rack 0 cannot be split off.
    scheduler = make([(0, 0, NODE, 1), (0, 0, RACK, 1)])
    run(scheduler, [4, 1], group_within=RACK)
    assert ask(scheduler, [3]).virtual == [[(1, leaf) for leaf in (1, 2, 3)]]
    plan = ask(scheduler, [3], suggested=[3])
    assert (plan.pods, plan.virtual) == ([[12, 13, 14]], [[(0, 0), (0, 1), (0, 2)]])
    plan = ask(scheduler, [4])
    assert (plan.pods, plan.virtual) == ([[8, 9, 10, 11]], [[(0, leaf) for leaf in range(4)]])
    run(scheduler, [4])
    assert ask(scheduler, [4]).reason == CAPACITY


def test_a_failed_choice_is_revised_within_its_domain(make):
    # Both nodes of the rack cell would be used, but the second one has no good hardware left.
    scheduler = make([(0, 0, NODE, 2), (0, 0, RACK, 1)])
    handles = [run(scheduler, [4], units=[2]), run(scheduler, [4], units=[3])]
    assert [pods(scheduler, handle) for handle in handles] == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]
    scheduler.release(handles[1])
    scheduler.set_health(4, 8, False)
    plan = ask(scheduler, [4, 4])
    assert plan.pods == [[8, 9, 10, 11], [12, 13, 14, 15]]
    assert ask(scheduler, [4], suggested=[3]).pods == [[12, 13, 14, 15]]
    assert ask(scheduler, [4], suggested=[0]).reason == MAPPING
    assert ask(scheduler, [4, 4, 4]).reason == MAPPING


def test_a_gang_uses_the_good_nodes_of_racks_that_have_each_lost_one(make_kernel):
    scheduler = make_kernel([(0, 0, RACK, 2)])
    plan = ask(scheduler, [4, 4], suggested=[1, 2])
    assert plan.pods == [[4, 5, 6, 7], [8, 9, 10, 11]]
    assert plan.virtual == [
        [(0, leaf) for leaf in range(4, 8)],
        [(0, leaf) for leaf in range(8, 12)],
    ]
    assert ask(scheduler, [4, 4, 4], suggested=[1, 2]).reason == MAPPING
    scheduler.set_health(0, 4, False)
    scheduler.set_health(12, 16, False)
    assert ask(scheduler, [4, 4]).pods == [[4, 5, 6, 7], [8, 9, 10, 11]]
    assert ask(scheduler, [4, 4], group_within=RACK).reason == MAPPING
    run(scheduler, [4])
    assert ask(scheduler, [4]).pods == [[8, 9, 10, 11]]


def test_a_root_that_is_mapped_keeps_its_units_when_another_one_fails(make_kernel):
    # Rack 0 is whole, racks 1 and 2 have one good node each: 2 + 1 + 1.
    scheduler = make_kernel([(0, 0, RACK, 3)], chains=[([2, 2, 2], 3, NODE)])
    scheduler.set_health(12, 20, False)
    plan = ask(scheduler, [4, 4, 4, 4])
    assert plan.pods == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [20, 21, 22, 23]]
    assert ask(scheduler, [4, 4, 4, 4, 4]).reason == MAPPING


# --- opportunistic work --------------------------------------------------------------------------


def test_opportunistic_groups_pack_together_away_from_guaranteed_ones(make):
    scheduler = make([(0, 0, NODE, 1)])
    guaranteed = run(scheduler, [1])
    assert pods(scheduler, run(scheduler, [1], priority=-1)) == [[12]]
    assert ask(scheduler, [1], priority=-1).pods == [[13]]
    assert ask(scheduler, [1], priority=-1, spread=True).pods == [[8]]
    assert scheduler.group(guaranteed)[5] == [[(0, 0)]]
    assert scheduler.group(1)[1:6] == (-1, False, False, [[12]], None)


def test_opportunistic_groups_go_where_guaranteed_ones_come_last(make):
    # Three racks: tenant 0 owns one, in which one leaf is in use, tenant 1 one that is pinned.
    scheduler = make([(0, 0, RACK, 1)], [(1, 0, RACK, 1)], chains=[([2, 2, 2], 3, NODE)])
    assert pods(scheduler, run(scheduler, [1])) == [[0]]
    request = [4, 1, 4, 4, 4, 3]
    nodes = [pods(scheduler, run(scheduler, [size], priority=-1))[0][0] // 4 for size in request]
    assert nodes == [5, 4, 3, 2, 1, 4]  # the rack of no tenant, the promised one, that in use


def test_a_single_pod_takes_the_unit_without_evictions(make):
    # Two nodes that are used alike; on the first one opportunistic work holds the other leaves.
    scheduler = make([(0, 0, NODE, 2)])
    _, second = (run(scheduler, [3], suggested=[node]) for node in (0, 1))
    guest = run(scheduler, [1], priority=-1, suggested=[0])
    plan = ask(scheduler, [1])
    assert (plan.outcome, plan.pods, plan.victims) == (BIND, [[7]], [])
    scheduler.release(second)
    plan = ask(scheduler, [1])  # an idle one is opened before a group is evicted
    assert (plan.outcome, plan.pods, plan.victims) == (BIND, [[4]], [])
    plan = ask(scheduler, [1], suggested=[0])
    assert (plan.outcome, plan.pods, plan.victims) == (PREEMPT, [[3]], [guest])


def test_of_equal_evictions_those_leave_the_fewest_idle_leaves_beside_the_pod(make_kernel):
    # In either node a guest of one leaf has to go; node 0 has another idle leaf, node 1 has none.
    scheduler = make_kernel([(0, 0, NODE, 1)], chains=[([2, 2, 2], 1, NODE)])
    for leaves in ([0], [3], [4], [6, 7]):
        scheduler.recover(0, -1, False, [leaves], [[-1] * len(leaves)])
    plan = ask(scheduler, [2], within=[PAIR])
    assert (plan.outcome, plan.pods, plan.victims) == (PREEMPT, [[4, 5]], [2])


def test_as_if_alone_a_pod_stays_in_its_unit_and_only_unbound_units_go_to_idle_cells(make_kernel):
    scheduler = make_kernel([(0, 0, NODE, 2), (1, 0, NODE, 2)])
    first = run(scheduler, [3], suggested=[0])
    run(scheduler, [3], suggested=[1])
    guest = run(scheduler, [1], priority=-1, suggested=[0])
    plan = ask(scheduler, [1], evictions=ALONE)
    assert (plan.outcome, plan.pods, plan.victims) == (PREEMPT, [[3]], [guest])
    assert ask(scheduler, [1]).pods == [[7]]
    scheduler.release(first)
    scheduler.release(guest)
    run(scheduler, [4], priority=-1, suggested=[0])
    plan = ask(scheduler, [4], evictions=ALONE)
    assert (plan.outcome, plan.pods) == (BIND, [[8, 9, 10, 11]])


def test_as_if_alone_pods_of_a_gang_change_places_where_a_guest_is_in_the_way(make_kernel):
    scheduler = make_kernel([(0, 0, 2, 1)], chains=[([4, 2], 1, 1)])
    run(scheduler, [1], priority=-1, suggested=[1])
    for sizes in ([2, 4], [4, 2]):
        plan = ask(scheduler, sizes, evictions=ALONE)
        small, large = sorted(plan.pods, key=len)
        assert (plan.outcome, large, small) == (BIND, [0, 1, 2, 3], [5, 6])


def test_as_if_alone_a_retried_group_binds_once_its_victims_have_left(make_kernel):
    scheduler = make_kernel([(0, 0, 2, 1)], chains=[([2, 2], 1, 1)])
    run(scheduler, [1], priority=-1, suggested=[0])
    run(scheduler, [2], priority=-1, suggested=[1])
    plan = ask(scheduler, [2, 1], evictions=ALONE)
    assert plan.outcome == PREEMPT
    for victim in plan.victims:
        scheduler.release(victim)
    assert ask(scheduler, [2, 1], evictions=ALONE).outcome == BIND


def test_a_gang_leaves_its_rack_before_it_evicts_but_opens_no_more_nodes_for_it(make_kernel):
    scheduler = make_kernel([(0, 0, RACK, 2)])
    guest = run(scheduler, [2], priority=-1)
    assert pods(scheduler, guest)[0][0] // 4 == 3
    run(scheduler, [3, 3], group_within=RACK, suggested=[0, 1])
    plan = ask(scheduler, [1, 1])
    assert plan.pods == [[3], [7]]  # no node is opened
    scheduler.release(1)
    run(scheduler, [4], suggested=[0])
    scheduler.check()
    plan = ask(scheduler, [4, 4])
    assert (plan.outcome, plan.pods) == (BIND, [[4, 5, 6, 7], [8, 9, 10, 11]])


def test_a_guaranteed_group_takes_whole_opportunistic_gangs_out(make):
    scheduler = make([(0, 0, RACK, 2)])
    gang = run(scheduler, [4, 4, 4, 4], priority=-1)
    plan = ask(scheduler, [1])
    assert (plan.outcome, plan.victims, plan.cancels, plan.downgrades) == (
        PREEMPT,
        [gang],
        [],
        [],
    )
    with pytest.raises(StaleDecisionError):
        scheduler.commit(plan, False)
    scheduler.release(gang)
    scheduler.commit(plan, False)


# --- preemption ----------------------------------------------------------------------------------


def test_free_leaves_are_used_before_anybody_is_preempted(make):
    scheduler = make([(0, 0, NODE, 2)])
    run(scheduler, [4])
    run(scheduler, [2])
    assert ask(scheduler, [2], priority=9).outcome == BIND
    plan = ask(scheduler, [3], priority=9)
    # What may be preempted is not in use: both nodes pack as well, and the smaller group leaves.
    assert (plan.outcome, plan.victims, plan.pods) == (PREEMPT, [1], [[4, 6, 7]])


def test_a_reservation_walks_through_its_states(make):
    scheduler = make([(0, 0, NODE, 1)])
    low = run(scheduler, [2])
    high = reserve(scheduler, [3], priority=1)
    assert pods(scheduler, high) == [[0, 2, 3]]
    assert scheduler.victims(high) == [low]
    assert scheduler.group(high)[3] and not scheduler.group(low)[3]
    assert scheduler.group(low)[6] and not scheduler.group(high)[6]
    users, reservers = scheduler.leaf_users(0)[:4], scheduler.leaf_reservers(0)[:4]
    assert users.tolist() == [low, low, -1, -1]
    assert np.count_nonzero(reservers == high) == 3
    with pytest.raises(ValueError, match="victims"):
        scheduler.confirm(high)
    # What is reserved cannot be had at an equal or lower priority.
    assert ask(scheduler, [2], priority=1).reason == CAPACITY
    scheduler.release(low)
    scheduler.check()
    assert scheduler.victims(high) == []
    assert (scheduler.leaf_users(0) == -1).all()
    scheduler.confirm(high)
    scheduler.check()
    assert not scheduler.group(high)[3]
    scheduler.release(high)
    assert free(scheduler) == {RACK: [0, 1]}


def test_a_cancelled_reservation_gives_everything_back(make):
    scheduler = make([(0, 0, NODE, 1)])
    low = run(scheduler, [3])
    before = everything(scheduler)
    bindings = scheduler.bindings(0, LEAF).tolist()
    high = reserve(scheduler, [4], priority=1)
    scheduler.cancel(high)
    scheduler.check()
    assert everything(scheduler) == before
    assert scheduler.bindings(0, LEAF).tolist() == bindings
    assert not scheduler.group(low)[6]


def test_a_higher_preemptor_takes_over_a_reservation(make_kernel):
    scheduler = make_kernel([(0, 0, NODE, 2)])
    low = run(scheduler, [4])
    middle = reserve(scheduler, [4, 4], priority=1)
    plan = ask(scheduler, [4], priority=2)
    assert (plan.outcome, plan.pods, plan.cancels) == (BIND, [[4, 5, 6, 7]], [middle])
    plan = ask(scheduler, [4], priority=2, suggested=[0])  # and where a group has to leave
    assert plan.cancels == [middle]
    assert plan.victims == [low]
    assert plan.outcome == PREEMPT
    high = scheduler.reserve(plan, False)
    scheduler.check()
    assert high == middle  # the slot is used again
    assert scheduler.handles() == [low, high]
    assert scheduler.victims(high) == [low]
    assert free(scheduler) == {NODE: [1], RACK: [1]}
    scheduler.cancel(high)
    scheduler.check()
    assert not scheduler.group(low)[6]


def test_a_bind_onto_reserved_cells_cancels_the_reservation(make):
    # Otherwise the lower preemptor would name the higher group as its victim.
    scheduler = make([(0, 0, NODE, 2)])
    low = run(scheduler, [4])
    middle = reserve(scheduler, [4, 4], priority=1)
    scheduler.release(low)
    plan = ask(scheduler, [4], priority=2)
    assert (plan.outcome, plan.victims, plan.cancels) == (BIND, [], [middle])
    high = scheduler.commit(plan, False)
    scheduler.check()
    assert scheduler.handles() == [high]
    assert (scheduler.leaf_reservers(0) == -1).all()


def test_a_lazy_group_makes_room_and_runs_on(make):
    scheduler = make([(0, 0, NODE, 1)])
    lazy = run(scheduler, [4], lazy=True)
    plan = ask(scheduler, [4], priority=1)
    assert (plan.outcome, plan.victims, plan.downgrades) == (BIND, [], [lazy])
    assert plan.pods == [[8, 9, 10, 11]]
    high = scheduler.commit(plan, False)
    scheduler.check()
    assert scheduler.group(lazy)[5] is None
    assert scheduler.group(lazy)[1] == 0
    assert scheduler.bindings(0, NODE).tolist() == [2]
    scheduler.release(lazy)
    scheduler.check()
    scheduler.release(high)
    assert free(scheduler) == {RACK: [0, 1]}


def test_a_lazy_group_is_a_victim_only_where_it_is_in_the_way(make):
    scheduler = make([(0, 0, RACK, 2)])
    lazy = run(scheduler, [4, 4], lazy=True, group_within=RACK)
    other = run(scheduler, [4, 4], priority=9)
    plan = ask(scheduler, [4], priority=1)
    assert (plan.outcome, plan.victims, plan.downgrades) == (PREEMPT, [lazy], [lazy])
    high = scheduler.reserve(plan, False)
    scheduler.check()
    assert scheduler.group(lazy)[5] is None
    scheduler.cancel(high)
    scheduler.check()
    assert scheduler.group(lazy)[5] is not None  # promoted: its cells are free again
    scheduler.release(lazy)
    scheduler.release(other)
    assert free(scheduler) == {RACK: [0, 1]}


def test_only_lazy_groups_are_downgraded(make):
    scheduler = make([(0, 0, NODE, 1)])
    eager, lazy = run(scheduler, [2]), run(scheduler, [2], lazy=True)
    plan = ask(scheduler, [3], priority=1)
    assert (plan.pods, plan.victims, plan.downgrades) == ([[0, 2, 3]], [eager, lazy], [lazy])
    plan = ask(scheduler, [4], priority=1)
    assert plan.outcome == PREEMPT
    assert plan.victims == [eager, lazy]
    assert plan.downgrades == [lazy]


# --- merging siblings ----------------------------------------------------------------------------


def test_sibling_cells_below_node_level_are_merged_on_request(make_kernel):
    scheduler = make_kernel([(0, 0, PAIR, 4)])
    assert ask(scheduler, [4]).reason == FRAGMENTED
    plan = ask(scheduler, [4, 3], merge=True)
    assert plan.outcome == BIND
    assert plan.pods == [[4, 5, 6, 7], [0, 1, 2]]
    handle = scheduler.commit(plan, False)
    scheduler.check()
    assert scheduler.bindings(0, PAIR).tolist() == [0, 1, 2, 3]
    assert ask(scheduler, [1], merge=True).pods == [[3]]
    scheduler.release(handle)
    assert free(scheduler) == {RACK: [0, 1]}


def test_siblings_are_merged_in_the_node_with_most_guaranteed_work_where_no_guest_is(make_kernel):
    scheduler = make_kernel([(0, 0, LEAF, 2), (1, 0, LEAF, 1)])
    run(scheduler, [1], vc=1, suggested=[1])
    scheduler.recover(0, -1, False, [[5]], [[-1]])
    plan = ask(scheduler, [2], merge=True)
    assert (plan.outcome, plan.pods) == (BIND, [[6, 7]])


def test_merging_stays_in_one_node_and_one_cell_if_asked(make_kernel):
    scheduler = make_kernel([(0, 0, LEAF, 4), (1, 0, NODE, 3)])
    run(scheduler, [1])
    assert ask(scheduler, [2], merge=True).pods == [[1, 2]]
    assert ask(scheduler, [2], merge=True, within=[PAIR]).pods == [[2, 3]]
    assert ask(scheduler, [3], merge=True, within=[PAIR]).outcome == WAIT
    assert ask(scheduler, [4], merge=True).outcome == WAIT


# --- carrying out --------------------------------------------------------------------------------


def test_a_plan_that_no_longer_fits_is_refused_and_nothing_changes(make):
    scheduler = make([(0, 0, NODE, 1)])
    first, second = ask(scheduler, [3]), ask(scheduler, [2])
    scheduler.commit(first, False)
    before = everything(scheduler)
    with pytest.raises(StaleDecisionError):
        scheduler.commit(second, False)
    assert everything(scheduler) == before
    scheduler.check()
    plan = ask(scheduler, [1])
    scheduler.set_health(0, 4, False)
    with pytest.raises(StaleDecisionError):
        scheduler.commit(plan, False)


def test_a_plan_does_not_downgrade_or_cancel_another_group_in_the_slot(make):
    scheduler = make([(0, 0, NODE, 1)])
    lazy = run(scheduler, [4], lazy=True)
    plan = ask(scheduler, [4], priority=1)
    scheduler.release(lazy)
    again = run(scheduler, [4], lazy=True)
    assert again == lazy
    with pytest.raises(StaleDecisionError):
        scheduler.commit(plan, False)
    assert scheduler.group(again)[5] is not None


def test_a_plan_to_wait_cannot_be_committed_and_one_to_bind_not_reserved(make):
    scheduler = make([(0, 0, NODE, 1)])
    with pytest.raises(ValueError, match="plan"):
        scheduler.commit(ask(scheduler, [5]), False)
    with pytest.raises(ValueError, match="plan"):
        scheduler.reserve(ask(scheduler, [1]), False)


def test_handles_are_used_again_last_freed_first(make):
    scheduler = make([(0, 0, NODE, 4)])
    assert [run(scheduler, [1]) for _ in range(4)] == [0, 1, 2, 3]
    scheduler.release(1)
    scheduler.release(3)
    assert [run(scheduler, [1]) for _ in range(3)] == [3, 1, 4]
    assert scheduler.handles() == [0, 2, 3, 1, 4]


@pytest.mark.parametrize("handle", [-1, 0, 1, 2**62])
@pytest.mark.parametrize("call", ["release", "cancel", "confirm", "victims", "group"])
def test_a_handle_that_is_not_live_is_refused(make, call, handle):
    scheduler = make([(0, 0, NODE, 4)])
    scheduler.release(run(scheduler, [1]))
    with pytest.raises(ValueError, match="handle"):
        getattr(scheduler, call)(handle)
    with pytest.raises(ValueError, match="handle"):
        scheduler.placement_good(handle, None)


def test_good_placements_are_healthy_and_suggested(make):
    scheduler = make([(0, 0, NODE, 2)])
    handle = run(scheduler, [4, 1])
    assert scheduler.placement_good(handle, None)
    assert scheduler.placement_good(handle, [[0, 1]])
    assert scheduler.placement_good(handle, [None])
    assert not scheduler.placement_good(handle, [[1, 2]])
    assert pods(scheduler, handle) == [[4, 5, 6, 7], [0]]
    scheduler.set_health(1, 4, False)
    assert scheduler.placement_good(handle, None)
    scheduler.set_health(0, 1, False)
    assert not scheduler.placement_good(handle, None)


# --- bad hardware --------------------------------------------------------------------------------


def test_doomed_cells_are_counted_over_all_tenants_together(make):
    scheduler = make([(0, 0, NODE, 2), (1, 0, NODE, 2)])
    assert scheduler.doomed(0) == []
    scheduler.set_health(0, 1, False)
    assert scheduler.doomed(0) == [(NODE, 1, 1)]  # each tenant alone could still be served
    scheduler.set_health(0, 5, False)
    assert scheduler.doomed(0) == [(NODE, 0, 1), (NODE, 1, 1)]
    run(scheduler, [1], vc=0)
    assert scheduler.doomed(0) == [(NODE, 1, 2)]
    scheduler.set_health(0, 16, True)
    assert scheduler.doomed(0) == []


# --- recovery ------------------------------------------------------------------------------------


def test_a_group_whose_cells_are_owned_no_more_runs_on_without_guarantee(make):
    scheduler = make([(0, 0, NODE, 1)])
    first, downgraded, displaced = scheduler.recover(0, 5, False, [[0, 1]], [[0, 0]])
    assert (downgraded, displaced) == (False, [])
    second, downgraded, displaced = scheduler.recover(0, 5, False, [[4]], [[0]])
    assert (downgraded, displaced) == (True, [])
    third, downgraded, displaced = scheduler.recover(0, 6, False, [[8], [9]], [[0], [0]])
    assert (downgraded, displaced) == (False, [first])
    scheduler.check()
    assert [scheduler.group(handle)[5] for handle in (first, second)] == [None, None]
    assert scheduler.group(third)[5] == [[(0, 0)], [(0, 1)]]
    assert free(scheduler) == {NODE: [3], RACK: [0]}
    for handle in (second, first, third):
        scheduler.release(handle)
    assert free(scheduler) == {RACK: [0, 1]}


def test_downgraded_groups_are_promoted_where_they_are_the_more_important_first(make):
    scheduler = make([(0, 0, NODE, 1)])
    high, *_ = scheduler.recover(0, 5, False, [[0, 1]], [[0, 0]])
    low, *_ = scheduler.recover(0, 1, False, [[4]], [[0]])
    middle, *_ = scheduler.recover(0, 3, False, [[8]], [[0]])
    assert scheduler.group(middle)[4:6] == ([[8]], None)
    scheduler.release(high)
    scheduler.check()
    assert scheduler.group(middle)[4:6] == ([[8]], [[(0, 0)]])
    assert scheduler.group(low)[5] is None
    assert (scheduler.wanted_pools(middle), scheduler.wanted_pools(low)) == (None, [[0]])


def test_recovery_keeps_what_others_are_owed(make):
    # The free node list is where tenant 0 may take its node; splitting rack 1 would hurt tenant 1.
    scheduler = make([(0, 0, NODE, 2), (1, 0, RACK, 1)])
    assert scheduler.recover(0, 0, False, [[0]], [[0]])[1:] == (False, [])
    assert scheduler.recover(0, 0, False, [[8]], [[0]])[1:] == (True, [])
    assert scheduler.recover(0, 0, False, [[4]], [[0]])[1:] == (False, [])
    scheduler.check()


@pytest.mark.parametrize(
    "wrong",
    [
        (0, 0, False, False, [[0]], [[(0, 0)]]),  # used
        (0, 0, False, False, [[4]], [[(0, 0)]]),  # the virtual leaf is bound elsewhere
        (0, 0, False, False, [[1]], [[(0, 4)]]),  # the node is bound to another one
        (0, 0, False, True, [[0]], [[(0, 0)]]),
    ],
)
def test_a_group_that_does_not_fit_is_not_restored(make, wrong):
    is_not_restored(make, wrong)


def is_not_restored(make, wrong):
    scheduler = make([(0, 0, NODE, 2), (1, 0, NODE, 1)])
    run(scheduler, [1])
    before = everything(scheduler)
    with pytest.raises(ValueError, match=r"virtual|pods"):
        scheduler.restore(*wrong)
    assert everything(scheduler) == before
    scheduler.check()
    return scheduler


def test_the_audit_of_the_twin_finds_a_lost_pair():
    scheduler = twin.GroupScheduler(RACKS, 1, [(0, 0, NODE, 1)], [])
    run(scheduler, [1])
    scheduler.check()
    del scheduler._state.pair[0]
    with pytest.raises(InvariantError):
        scheduler.check()


# --- Confined gangs, promotions, restored groups


def test_a_gang_within_a_pair_is_seen_to_fit_where_the_idle_leaves_are_together(make_kernel):
    scheduler = make_kernel([(0, 0, 2, 1)], chains=[([2, 2], 2, 2)])
    for leaf in (1, 3, 6, 7):
        scheduler.recover(0, -1, False, [[leaf]], [[-1]])
    plan = ask(scheduler, [1, 1], group_within=1)
    assert (plan.outcome, plan.pods) == (BIND, [[4], [5]])


def test_a_lazy_group_is_downgraded_and_not_evicted_where_another_node_is_idle(make_kernel):
    scheduler = make_kernel([(0, 0, NODE, 2)])
    run(scheduler, [4])
    lazy = run(scheduler, [4], lazy=True, priority=5)
    plan = ask(scheduler, [4], priority=9)
    assert (plan.outcome, plan.downgrades, plan.pods) == (BIND, [lazy], [[8, 9, 10, 11]])


def test_no_group_is_evicted_for_cells_to_which_a_more_important_group_is_promoted(make_kernel):
    scheduler = make_kernel([(0, 0, NODE, 2)])
    low = run(scheduler, [4])
    lazy = run(scheduler, [4], lazy=True, priority=5)
    high = run(scheduler, [4], priority=9)
    assert scheduler.group(lazy)[5] is None
    plan = ask(scheduler, [4], priority=3)  # the lazy one would have the low one's cell
    assert (plan.outcome, plan.reason) == (WAIT, CAPACITY)
    after = scheduler.copy()
    after.release(low)
    assert after.group(lazy)[5] is not None
    assert ask(after, [4], priority=3).outcome == WAIT
    scheduler.release(high)
    assert scheduler.group(lazy)[5] is not None
    assert ask(scheduler, [4], priority=3).victims == [low]


def test_others_are_evicted_where_a_promoted_group_would_take_the_first_victims_cells(make_kernel):
    scheduler = make_kernel([(0, 0, 1, 1), (0, 0, 2, 1)], chains=[([4, 2], 3, 1)])
    small, large = run(scheduler, [3]), run(scheduler, [4])
    run(scheduler, [4], priority=9)
    assert [scheduler.group(handle)[5][0][0][0] for handle in (small, large)] == [0, 1]
    assert ask(scheduler, [4], priority=3).victims == [small]
    idle = scheduler.leaf_users(0).tolist().index(-1, 16)
    comes_back = 0, 5, False, [[idle]], [[0]], False
    waiting, downgraded, _ = scheduler.recover(*comes_back)
    assert downgraded
    plan = ask(scheduler, [4], priority=3)
    assert (plan.victims, plan.reason) == ([large], FITS)
    scheduler.release(large)
    assert scheduler.group(waiting)[5] is None
    assert ask(scheduler, [4], priority=3).outcome == BIND


def test_merged_cells_are_booked_in_the_order_of_the_leaves_whatever_runs_there(make_kernel):
    pools = [(0, 0, 2, 3), (1, 0, 1, 2), (1, 0, 4, 1)]
    scheduler = make_kernel(pools, chains=[([2, 2, 2, 2], 2, 2)])
    scheduler.restore(0, 2, True, False, [[4, 5, 6, 7]], [[(0, leaf) for leaf in range(4, 8)]])
    scheduler.restore(0, 1, True, False, [[18]], None, [[0]])
    scheduler.restore(1, -1, True, False, [[13, 14], [15]], None)
    scheduler.set_health(22, 24, False)
    plan = ask(scheduler, [4, 4, 4], vc=1, merge=True, suggested=[3, 4, 5, 6])
    assert plan.pods[2] == [16, 17, 18, 19]
    assert plan.virtual[2] == [(2, 8), (2, 9), (2, 10), (2, 11)]


def test_a_group_without_leaves_is_restored_as_what_it_was(make):
    scheduler = make([(0, 0, NODE, 1)])
    handle = scheduler.restore(0, 0, False, False, [[]], None, None)
    assert scheduler.wanted_pools(handle) == [[]]
    handle = scheduler.restore(0, 0, False, False, [[0, 1]], None, [[0, -1]])
    assert scheduler.wanted_pools(handle) is None


@pytest.mark.parametrize(("racks", "reason"), [(30, MAPPING), (40, SEARCH_LIMIT)])
def test_where_not_all_pairings_of_roots_are_looked_at_it_says_so(make_kernel, racks, reason):
    scheduler = make_kernel([(0, 0, 1, 1), (0, 0, 2, 1)], chains=[([2, 2], racks, 1)])
    for leaf in range(0, 4 * racks, 2):
        scheduler.set_health(leaf, leaf + 1, False)
    assert ask(scheduler, [2, 2]).reason == reason


# --- wrong arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pools", "pins", "says"),
    [
        ([(0, 0, RACK, 3)], [], "chain 0 lacks 1 cells of level 3"),
        ([(0, 0, RACK, 2), (1, 0, LEAF, 1)], [], "chain 0 lacks 1 cells of level 0"),
        ([(0, 0, NODE, 1), (1, 0, NODE, 4)], [], "chain 0 lacks 1 cells of level 2"),
        ([(0, 0, NODE, 3)], [(1, 0, NODE, 0), (1, 0, PAIR, 2)], "level 2"),
        ([], [(0, 0, NODE, 0), (1, 0, PAIR, 1)], r"pins\[1\]"),
        ([], [(0, 0, NODE, 4)], r"pins\[0\]"),
        ([(0, 0, NODE, 1), (0, 0, NODE, 1)], [], r"pools\[1\]"),
        ([(0, 0, NODE, 0)], [], r"pools\[0\]"),
        ([(2, 0, NODE, 1)], [], r"pools\[0\]"),
        ([(0, 1, NODE, 1)], [], r"pools\[0\]"),
        ([(0, 0, 4, 1)], [], r"pools\[0\]"),
    ],
)
def test_an_impossible_assignment_is_refused(make_kernel, pools, pins, says):
    with pytest.raises(ValueError, match=says):
        make_kernel(pools, pins)


@pytest.mark.parametrize("chain", [([2, 0], 1, 1), ([2], 0, 1), ([2], 1, 2), ([2], 1, -1)])
def test_an_impossible_chain_is_refused(make_kernel, chain):
    with pytest.raises(ValueError, match="chains"):
        make_kernel(chains=[chain])


@pytest.mark.parametrize(
    "wrong",
    [
        {"vc": 2},
        {"vc": -1},
        {"chain": 1},
        {"pool": 0},
        {"pool": 2},
        {"pool": 1, "vc": 1},
        {"pool": 1, "priority": -1},
        {"priority": 1001},
        {"priority": -2},
        {"sizes": []},
        {"sizes": [1, 0]},
        {"within": [1]},
        {"within": [4, 0]},
        {"group_within": 4},
        {"group_within": -2},
        {"suggested": [4]},
        {"suggested": [-1]},
        {"units": [0]},
        {"units": [0, 4]},
        {"units": [0, 0], "priority": -1},
    ],
)
def test_a_wrong_request_is_refused(make_kernel, wrong):
    scheduler = make_kernel([(0, 0, NODE, 2)], [(0, 0, NODE, 3)])
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ask(scheduler, **{"sizes": [1, 1], **wrong})


@pytest.mark.parametrize(("first", "end"), [(-1, 0), (0, 17), (5, 4), (17, 17)])
def test_health_outside_of_the_cluster_is_refused(make_kernel, first, end):
    with pytest.raises(ValueError, match=r"first|end"):
        make_kernel().set_health(first, end, False)


@pytest.mark.parametrize(
    ("pods", "pools", "says"),
    [
        ([[1, 1]], [[0, 0]], "twice"),
        ([[16]], [[0]], "pods"),
        ([[-1]], [[0]], "pods"),
        ([[1]], [[0, 0]], "pools"),
        ([[1], [2]], [[0]], "pools"),
        ([[1]], [[2]], "pools"),
        ([[1]], [[-2]], "pools"),
        ([[1]], [[1]], "pools"),
    ],
)
def test_a_wrong_recovery_is_refused(make_kernel, pods, pools, says):
    scheduler = make_kernel([(0, 0, NODE, 1), (1, 0, RACK, 1)])
    scheduler.recover(0, 0, False, [[0]], [[0]])
    before = everything(scheduler)
    with pytest.raises(ValueError, match=says):
        scheduler.recover(0, 0, False, pods, pools)
    assert everything(scheduler) == before


@pytest.mark.parametrize("wrong", [[], [None, None], [[4]], [[-1]]])
def test_wrong_nodes_to_look_at_are_refused(make_kernel, wrong):
    scheduler = make_kernel([(0, 0, NODE, 2)])
    handle = run(scheduler, [4, 1])
    with pytest.raises(ValueError, match="suggested"):
        scheduler.placement_good(handle, wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        (0, 0, False, False, [[1]], [[(0, 8)]]),
        (0, 0, False, False, [[1]], [[(1, 0)]]),
        (0, 0, False, False, [[1]], [[(2, 0)]]),
        (0, 0, False, False, [[1]], [[]]),
        (0, 0, False, True, [[1]], None),
        (0, -1, False, False, [[1]], [[(0, 1)]]),
        (0, 1, False, True, [[0]], [[(0, 1)]]),
    ],
)
def test_a_group_that_cannot_be_is_not_restored(make_kernel, wrong):
    scheduler = is_not_restored(make_kernel, wrong)
    with pytest.raises(TypeError, match="pools"):
        scheduler.recover(0, 0, False, [[2]], None)
