"""What the kernel of the group scheduler does with what no wrapper would pass, and with threads."""

import random
import sys
import threading

import pytest
from cells.groups.group_schedulers import BIND, CAPACITY, POLICY, WAIT, everything, schedule

from hivecore._cells import GroupScheduler, Plan
from hivecore.errors import StaleDecisionError

GARBAGE = [
    None,
    "x",
    1.5,
    -2,
    -(2**70),
    2**31,
    2**32,
    2**40,
    2**63 - 1,
    2**63,
    2**70,
    [],
    [[]],
    object(),
]


def make(racks=2):
    """Two tenants with half of the nodes each, racks of two nodes of four leaves."""
    pools = [(0, 0, 2, racks), (1, 0, 2, racks - 1)]
    return GroupScheduler([([2, 2, 2], racks, 2)], 2, pools, [(1, 0, 2, 0)])


@pytest.mark.parametrize("priority", [-1, 0, 7])
@pytest.mark.parametrize("sizes", [[2**40], [1] * 100_000, [2**62] * 9, [3] * 5 + [2**63 - 1]])
def test_what_no_cluster_could_hold_waits_for_capacity(sizes, priority):
    plan = schedule(make(), sizes, priority=priority, merge=True, spread=True)
    assert (plan.outcome, plan.reason) == (WAIT, CAPACITY)


def test_what_no_unit_could_hold_is_not_a_policys_choice():
    plan = schedule(make(), [2**40], units=[0])
    assert (plan.outcome, plan.reason) == (WAIT, POLICY)


def test_a_gang_of_thousands_of_pods_binds():
    scheduler = GroupScheduler([([2, 2, 2, 8], 64, 3)], 1, [(0, 0, 4, 64)], [])
    handle = scheduler.commit(schedule(scheduler, [1] * 4096), False)
    scheduler.check()
    assert all(user == handle for user in scheduler.leaf_users(0))


CALLS = {
    "schedule": (0, 0, -1, 0, [1], None, -1, False, False, None, None),
    "confirm": (0,),
    "cancel": (0,),
    "release": (0,),
    "recover": (0, 0, False, [[5]], [[0]]),
    "restore": (0, 0, False, False, [[5]], [[(0, 0)]]),
    "set_health": (0, 1, True),
    "victims": (0,),
    "placement_good": (0, None),
    "group": (0,),
    "units": (0, 0, -1),
    "available": (0, 0, -1),
    "surplus": (0,),
    "free_cells": (0, 0),
    "unbound_roots": (0,),
    "bindings": (0, 0),
    "leaf_users": (0,),
    "leaf_reservers": (0,),
    "idle_leaves": (0,),
    "bad_leaves": (0,),
    "doomed": (0,),
    "commit": (None, False),
    "reserve": (None, False),
}


@pytest.mark.parametrize("name", CALLS)
def test_garbage_raises_or_answers_and_leaves_a_sound_state(name):
    scheduler = make()
    scheduler.commit(schedule(scheduler, [3]), False)
    before = everything(scheduler)
    for position in range(len(CALLS[name])):
        for value in GARBAGE:
            arguments = list(CALLS[name])
            arguments[position] = value
            try:
                getattr(scheduler, name)(*arguments)
            except (ValueError, TypeError):
                assert everything(scheduler) == before
            else:
                scheduler = make()
                scheduler.commit(schedule(scheduler, [3]), False)
    scheduler.check()


@pytest.mark.parametrize("position", range(4))
def test_a_garbled_cluster_is_refused(position):
    for value in [*GARBAGE, [(1, 2)], [(0, 0, 0, 2**40)], [("x", 0, 0, 1)], [([2**20] * 9, 1, 0)]]:
        arguments = [[([2, 2], 2, 1)], 2, [(0, 0, 1, 1)], [(1, 0, 1, 0)]]
        arguments[position] = value
        try:
            GroupScheduler(*arguments).check()
        except (ValueError, TypeError):
            continue
        assert value == []  # no pools, or no pins


def test_plans_of_another_cluster_never_break_this_one():
    rng = random.Random(3)
    others = [
        make(9),
        GroupScheduler([([2], 3, 1), ([5], 40, 1)], 3, [(2, 1, 1, 30)], []),
        GroupScheduler([([], 7, 0)], 1, [(0, 0, 0, 7)], []),
    ]
    plans = []
    for other in others:
        tenants = 3 if other is others[1] else 1
        for chain in range(2 if other is others[1] else 1):
            for priority in (-1, 0, 3):
                for _ in range(20):
                    vc = rng.randrange(tenants)
                    plan = schedule(
                        other, [rng.randint(1, 4)], vc=vc, chain=chain, priority=priority
                    )
                    if plan.outcome != WAIT:
                        plans.append(plan)
                        if plan.outcome == BIND and rng.randrange(2):
                            other.commit(plan, True)
    scheduler = make()
    taken = 0
    for plan in plans:
        try:
            scheduler.commit(plan, False)
            taken += 1
        except StaleDecisionError:
            pass
        scheduler.check()
    assert 0 < taken < len(plans)


def test_an_unasked_plan_is_one_to_wait():
    with pytest.raises(ValueError, match="plan"):
        make().commit(Plan(), False)
    with pytest.raises(ValueError, match="plan"):
        make().reserve(Plan(), False)


class Meddler:
    """An integer whose conversion does something to the scheduler."""

    def __init__(self, value, meddle):
        self.value, self.meddle = value, meddle

    def __index__(self):
        self.meddle()
        return self.value


def test_a_conversion_that_uses_the_scheduler_does_no_harm():
    scheduler = make()
    handle = scheduler.commit(schedule(scheduler, [2]), False)
    inner = []
    meddler = Meddler(1, lambda: inner.append(schedule(scheduler, [1, 1, 1]).outcome))
    plan = scheduler.schedule(
        0, 0, -1, 0, [meddler, 1], [meddler, -1], -1, False, False, None, None
    )
    assert inner == [BIND, BIND]
    assert [len(pod) for pod in plan.pods] == [1, 1]
    with pytest.raises(ValueError, match="live"):
        scheduler.release(Meddler(handle, lambda: scheduler.release(handle)))
    scheduler.check()


def test_threads_take_turns():
    scheduler = GroupScheduler([([2, 2, 2, 8], 32, 3)], 2, [(0, 0, 4, 16), (1, 0, 4, 16)], [])
    failures = []

    def work(seed):
        rng = random.Random(seed)
        for _ in range(60):
            plan = schedule(scheduler, [1] * rng.choice([1, 8, 200]), vc=seed % 2)
            if plan.outcome != BIND:
                continue
            try:
                handle = scheduler.commit(plan, False)
            except StaleDecisionError:
                continue
            if scheduler.group(handle)[0] != seed % 2:
                failures.append(handle)
            scheduler.copy().check()
            scheduler.release(handle)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
    assert scheduler.handles() == []
    scheduler.check()


def test_the_size_counts_what_is_held():
    small, large = make(2), make(2000)
    assert sys.getsizeof(large) > 100 * sys.getsizeof(small) > 100_000
