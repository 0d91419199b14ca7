"""What no part decides alone: the parts have promised different things, or know different nodes."""

import pytest

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Preempt, Role, Scheduler, Start, Wait, Where
from hivecore.topology import NetworkTopology


def network(*nodes, **free):
    made = NetworkTopology([], {node: {} for node in nodes})
    for node in nodes:
        made.set_free(node, free)
    return made


def machines(*nodes, gpus=8):
    return DeviceCluster({node: NodeDevices.uniform(gpus=gpus) for node in nodes})


def told(actions):
    return [(type(one).__name__, one.job) for one in actions]


def started(scheduler, *jobs):
    for job in jobs:
        scheduler.submit(job, scheduler.now)
        assert ("Start", job.name) in told(scheduler.decide(scheduler.now))


def on(node):
    return Where(nodes=[node])


# --- evictions


PLACES = {
    "devices": lambda: {"devices": machines("n0", "n1")},
    "network": lambda: {"topology": network("n0", "n1", gpu=8)},
    "cells": lambda: {
        "cells": CellCluster(
            ClusterSpec(
                {"c": Chain(["gpu", "node"], [8], 2, nodes=["n0", "n1"])}, {"t": {"c": {"node": 2}}}
            )
        )
    },
}


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("immediate", [False, True])
def test_a_tenant_within_its_minimum_gets_one_node_back_from_a_borrower(places, immediate):
    teams = [Quota(name, min={"gpu": 8}, max={"gpu": 16}) for name in ("a", "b")]
    quotas = QuotaTree(teams, total={"gpu": 16})
    scheduler = Scheduler(quotas=quotas, immediate=immediate, **PLACES[places]())
    for i in range(16):
        started(scheduler, Job(f"j{i:02}", "t", 1, quota="b", where=on(f"n{i % 2}")))
    scheduler.submit(Job("big", "t", [Role("w", 1, gpus=8)], quota="a"), 20.0)
    actions = scheduler.decide(20.0)
    victims = [one.job for one in actions if isinstance(one, Preempt)]
    assert len(victims) == 8
    assert len({int(name[1:]) % 2 for name in victims}) == 1
    for name in () if immediate else victims:
        scheduler.stopped(name, 21.0)
    later = [] if immediate else scheduler.decide(21.0)
    assert ("Start", "big") in told([*actions, *later])
    scheduler.check()


def test_a_reclaim_that_takes_more_than_was_borrowed_does_not_happen():
    teams = [
        Quota("a", min={"gpu": 6}, max={"gpu": 16}),
        Quota("b", min={"gpu": 10}, max={"gpu": 16}),
    ]
    scheduler = Scheduler(
        quotas=QuotaTree(teams, total={"gpu": 16}), devices=machines("n0", "n1"), immediate=True
    )
    for i in range(12):  # four of these stay of right on any node
        started(scheduler, Job(f"j{i:02}", "b", 1, where=on(f"n{i % 2}")))
    scheduler.submit(Job("big", "a", 6), 20.0)
    scheduler.decide(20.0)
    assert scheduler.state("big") == "pending" or scheduler.quotas.status("b").used["gpu"] >= 9
    scheduler.check()


def test_one_guaranteed_victim_is_better_than_a_guaranteed_and_an_opportunistic():
    scheduler = Scheduler(devices=machines("n0", "n1", gpus=4))
    started(
        scheduler,
        Job("weak", "t", 1, guaranteed=False, where=on("n0")),
        Job("two", "t", 2, where=on("n0")),
        Job("three", "t", 3, where=on("n1")),
    )
    scheduler.submit(Job("four", "t", 4, priority=5), 1.0)
    assert told(scheduler.decide(1.0)) == [("Preempt", "three")]


def test_a_reserved_job_does_not_make_its_quota_look_overused():
    """Of b, 8 are promised and 8 used: those for which others stop count once."""
    teams = [
        Quota("a", min={"gpu": 8}, max={"gpu": 16}),
        Quota("b", min={"gpu": 8}, max={"gpu": 16}),
    ]
    scheduler = Scheduler(quotas=QuotaTree(teams, total={"gpu": 16}))
    started(scheduler, Job("low", "b", 4, priority=0), Job("kept", "b", 4, priority=3))
    started(scheduler, Job("mine", "a", 4))
    scheduler.submit(Job("high", "b", 4, priority=2), 1.0)
    started_or_not = told(scheduler.decide(1.0))
    scheduler.submit(Job("next", "a", 4), 2.0)
    actions = told(scheduler.decide(2.0))
    assert not [job for kind, job in actions if kind == "Preempt" and job in ("kept", "high")]
    assert started_or_not


# --- jobs that start together


def test_a_companion_that_has_just_started_is_told_to_stop_and_not_taken_back():
    scheduler = Scheduler(topology=network("n0", slots=2))
    scheduler.submit(Job("spare", "t", 1, guaranteed=False), 0.0)
    scheduler.submit(Job("main", "t", 1, together=["spare"]), 0.0)
    scheduler.submit(Job("third", "t", 1), 0.0)
    starts = [("Start", "spare"), ("Start", "main")]
    assert told(scheduler.decide(0.0)) == [*starts, ("Preempt", "spare")]
    assert scheduler.state("third") == "reserved"
    scheduler.check()


def test_a_job_waits_for_a_companion_that_has_to_stop():
    scheduler = Scheduler(topology=network("n0", "n1", slots=1))
    started(scheduler, Job("spare", "t", 1, guaranteed=False, where=on("n0")))
    scheduler.submit(Job("first", "t", 1, where=on("n0")), 1.0)
    assert told(scheduler.decide(1.0)) == [("Preempt", "spare")]
    scheduler.submit(Job("main", "t", 1, together=["spare"]), 2.0)
    assert told(scheduler.decide(2.0)) == [("Wait", "main")]
    scheduler.stopped("spare", 3.0)
    assert told(scheduler.decide(3.0))[0] == ("Start", "first")
    assert scheduler.state("main") == scheduler.state("spare") == "pending"
    scheduler.finish("first", 4.0)
    assert set(told(scheduler.decide(4.0))) >= {("Start", "main"), ("Start", "spare")}
    scheduler.check()


def test_a_group_evicts_no_companion_of_its_members():
    scheduler = Scheduler(topology=network("n0", slots=2), immediate=True)
    started(scheduler, Job("spare", "t", 1, guaranteed=False))
    scheduler.submit(Job("main", "t", 1, together=["spare"]), 1.0)
    scheduler.submit(Job("lead", "t", 1, priority=1, together=["main"]), 1.0)
    actions = told(scheduler.decide(1.0))
    assert ("Preempt", "spare") not in actions
    assert scheduler.state("spare") == "running"
    assert {kind for kind, _ in actions} <= {Wait.__name__, Start.__name__}
    scheduler.check()
