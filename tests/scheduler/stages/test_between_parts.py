"""Cases that no part decides alone: parts contradict each other, or know different nodes."""

import json
from collections import Counter
from decimal import Decimal
from itertools import product
from random import Random
from threading import Thread

import pytest
from profiles import seeds
from scheduler.lives import decided, flat_network, gpu_quotas, jobs_of, node_cells, rack_network

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import Device, DeviceCluster, DeviceRequest, NodeDevices
from hivecore.queues import QueuedJob
from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.scheduler import FreeNodes, Job, Preempt, Role, Scheduler, Start, Wait, Where, recover
from hivecore.scheduler.plain import plain_record, record_of_plain
from hivecore.scheduler.stages.transaction import Stages
from hivecore.topology import NetworkTopology
from hivecore.verify import verify_actions


def machines(*nodes, gpus=8):
    return DeviceCluster({node: NodeDevices.uniform(gpus=gpus) for node in nodes})


def summary(actions):
    return [(type(action).__name__, action.job) for action in actions]


def started(scheduler, *jobs):
    for job in jobs:
        assert ("Start", job.name) in summary(decided(scheduler, job, now=scheduler.now))


def on(node):
    return Where(nodes=[node])


# --- chains of cells


def two_chains(leaf_indices=None):
    """A node of eight GPUs, and two chains with four each."""
    shape = Chain(["gpu", "node"], [4], 1, nodes=["n0"])
    chains = {"a": shape, "b": shape.replace(leaf_indices=leaf_indices)}
    return ClusterSpec(chains, {"t": {"a": {"node": 1}, "b": {"node": 1}}})


def test_no_two_jobs_get_the_gpu_of_a_node_that_two_chains_have():
    with pytest.raises(ValueError, match="cells: chains 'a' and 'b' both have GPU 3 of node 'n0'"):
        Scheduler(cells=CellCluster(two_chains([[6, 5, 4, 3]])))
    scheduler = Scheduler(cells=CellCluster(two_chains([[7, 6, 5, 4]])))
    with pytest.raises(ValueError, match="spec: chains 'a' and 'b' both have GPU 0"):
        scheduler.reconfigure(two_chains(), now=0.0)
    scheduler.submit(Job("j", "t", 4), now=0.0)
    starts = decided(scheduler, Job("k", "t", 4), now=0.0)
    assert sorted(gpu for start in starts for pod in start.pods for gpu in pod.minors[0][1]) == [
        *range(8)
    ]


# --- evictions


PLACES = {
    "devices": lambda: {"devices": machines("n0", "n1")},
    "network": lambda: {"topology": flat_network("n0", "n1", gpu=8)},
    "cells": lambda: {"cells": node_cells(["n0", "n1"], 8, t=2)},
}


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("immediate", [False, True])
def test_a_tenant_within_its_minimum_gets_one_node_back_from_a_borrower(places, immediate):
    quotas = gpu_quotas(16, a=(16, 8), b=(16, 8))
    scheduler = Scheduler(quotas=quotas, immediate=immediate, **PLACES[places]())
    for i in range(16):
        started(scheduler, Job(f"j{i:02}", "t", 1, quota="b", where=on(f"n{i % 2}")))
    actions = decided(scheduler, Job("big", "t", [Role("w", 1, gpus=8)], quota="a"), now=20.0)
    victims = jobs_of(actions, Preempt)
    assert len(victims) == 8
    assert len({int(name[1:]) % 2 for name in victims}) == 1
    for name in () if immediate else victims:
        scheduler.stopped(name, 21.0)
    later = [] if immediate else scheduler.decide(21.0)
    assert ("Start", "big") in summary([*actions, *later])
    scheduler.check()


@pytest.mark.parametrize(("limit", "minimum"), [("max", 8), ("runtime", 4)])
def test_a_borrower_takes_no_cells_of_another_quota_within_its_minimum(limit, minimum):
    """Jobs of one tenant; their priorities decide only within a quota."""
    cells = node_cells(["n0"], t=1)
    scheduler = Scheduler(
        quotas=gpu_quotas(8, limit=limit, a=(8, minimum), b=8), cells=cells, immediate=True
    )
    decided(scheduler, Job("owner", "t", 4, quota="a"))
    scheduler.submit(Job("borrower", "t", 2, priority=1, quota="b"), 1.0)
    assert [type(action) for action in scheduler.decide(1.0)] == [Wait]
    assert scheduler.state("owner") == "running"
    scheduler.submit(Job("urgent", "t", 4, priority=1, quota="a"), 2.0)
    assert "owner" in jobs_of(scheduler.decide(2.0), Preempt)


def test_a_job_with_named_nodes_evicts_its_tenants_less_important_jobs_from_their_cells():
    scheduler = Scheduler(cells=node_cells(["n0", "n1"], t=1, u=1), immediate=True)
    started(scheduler, Job("low", "t", 1, where=on("n0")))
    scheduler.submit(Job("high", "t", 4, priority=1, where=on("n1")), 1.0)
    assert summary(scheduler.decide(1.0))[:2] == [("Preempt", "low"), ("Start", "high")]
    scheduler.check()


def test_a_job_on_two_nodes_is_evicted_instead_of_eight_small_ones():
    nodes = [f"n{i}" for i in range(5)]
    scheduler = Scheduler(devices=machines(*nodes, gpus=4), immediate=True)
    wide = [Role("w", 2, gpus=4)]
    started(scheduler, Job("wide", "t", wide, guaranteed=False, where=Where(nodes=nodes[:2])))
    scheduler.advance(100.0)
    small = [Job(f"s{i}", "t", 1, guaranteed=False, where=on(f"n{2 + i % 3}")) for i in range(12)]
    started(scheduler, *small)
    scheduler.submit(Job("wanted", "t", wide), 101.0)
    assert summary(scheduler.decide(101.0))[:2] == [("Preempt", "wide"), ("Start", "wanted")]
    scheduler.check()


@pytest.mark.parametrize("limit", ["runtime", "max"])
@pytest.mark.parametrize("immediate", [False, True])
def test_a_job_starts_beside_a_quota_that_uses_more_than_its_lowered_maximum(limit, immediate):
    top = Quota("top", max={"gpu": 16})
    b, c = (Quota(name, parent="top", max={"gpu": 8}, min={"gpu": 4}) for name in "bc")
    quotas = QuotaTree([top, b, c], total={"gpu": 16}, limit=limit)
    scheduler = Scheduler(quotas=quotas, immediate=immediate)
    started(scheduler, Job("b1", "t", 8, quota="b"))
    scheduler.set_quota(b.replace(max={"gpu": 4}), 1.0)
    assert summary(decided(scheduler, Job("c1", "t", 4, quota="c"), now=2.0)) == [("Start", "c1")]
    scheduler.submit(Job("b2", "t", 1, quota="b"), 3.0)
    scheduler.submit(Job("c2", "t", 4, quota="c"), 3.0)
    assert summary(scheduler.decide(3.0)) == [("Wait", "b2"), ("Start", "c2")]
    scheduler.check()


def test_a_quota_that_uses_more_than_its_lowered_maximum_gives_it_back_when_there_is_too_little():
    b, c = (Quota(name, max={"gpu": 8}, min={"gpu": 4}, parent="top") for name in "bc")
    quotas = QuotaTree([Quota("top", max={"gpu": 12}), b, c], total={"gpu": 12})
    scheduler = Scheduler(quotas=quotas, immediate=True)
    started(scheduler, Job("b1", "t", 4, quota="b"), Job("b2", "t", 4, quota="b"))
    scheduler.set_quota(b.replace(max={"gpu": 4}), 1.0)
    scheduler.submit(Job("c1", "t", 8, quota="c"), 2.0)
    assert summary(scheduler.decide(2.0))[:2] == [("Preempt", "b2"), ("Start", "c1")]
    scheduler.check()


def borrowing(immediate, total=8, most=8):
    """Two teams are guaranteed 4 GPUs each; b1 and b2 run, and an opportunistic job of a waits."""
    scheduler = Scheduler(
        quotas=gpu_quotas(total, limit="max", a=(most, 4), b=(most, 4)),
        devices=machines("n0", "n1", "n2", gpus=4),
        immediate=immediate,
    )
    started(scheduler, Job("b1", "t", 4, quota="b"), Job("b2", "t", 4, quota="b"))
    pods = [Role("w", 2, gpus=4)]
    scheduler.submit(Job("big", "t", pods, quota="a", guaranteed=False), 1.0)
    assert summary(scheduler.decide(1.0)) == [("Wait", "big")]
    return scheduler


def in_another_order(scheduler):
    scheduler.reorder(["b1"], 2.0)
    assert ("Preempt", "b2") in summary(scheduler.decide(2.0))
    if scheduler.status("b2").for_job:
        scheduler.stopped("b2", 2.0)
        scheduler.decide(2.0)
    scheduler.reorder([], 2.0)


ENDS = {
    "it fails": lambda scheduler: scheduler.fail("b2", 2.0),
    "a pod fails": lambda scheduler: scheduler.fail("b2", 2.0, pod="pod/0"),
    "its node is gone": lambda scheduler: scheduler.remove_node("n1", 2.0),
    "an order has ended": in_another_order,
}


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("immediate", [False, True])
def test_a_borrower_that_was_not_reclaimed_from_borrows_again_at_once(ends, immediate):
    scheduler = borrowing(immediate)
    ENDS[ends](scheduler)
    assert ("Start", "b2") in summary(scheduler.decide(2.0))
    scheduler.check()


def stopping(immediate, quota, **options):
    """A job takes the node of b2, while another node is idle."""
    scheduler = borrowing(immediate, total=12, most=12)
    job = Job("winner", "t", 4, quota=quota, where=on("n1"), **options)
    scheduler.submit(job, 2.0)
    return scheduler, scheduler.decide(2.0)


@pytest.mark.parametrize("immediate", [False, True])
def test_a_borrower_that_was_reclaimed_from_borrows_when_something_else_has_happened(immediate):
    scheduler, actions = stopping(immediate, "a")
    assert actions[0] == Preempt("b2", "winner", "reclaim")
    if not immediate:
        scheduler = Scheduler.from_bytes(scheduler.to_bytes())
        scheduler.stopped("b2", 3.0)
        actions = scheduler.decide(3.0)
    waits = next(action for action in actions if isinstance(action, Wait) and action.job == "b2")
    assert waits.refusal.code == "evicted"
    scheduler.cancel("big", 4.0)
    assert summary(scheduler.decide(4.0)) == [("Start", "b2")]
    scheduler.check()


# --- jobs that start together


@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize("link", ["together", "after"])
def test_a_job_whose_companion_would_be_evicted_at_once_does_not_start(link, immediate):
    scheduler = Scheduler(topology=flat_network("n0", slots=2), immediate=immediate)
    scheduler.submit(Job("spare", "t", 1, guaranteed=False), 0.0)
    scheduler.submit(Job("main", "t", 1, **{link: ["spare"]}), 0.0)
    scheduler.submit(Job("third", "t", 1), 0.0)
    scheduler.submit(Job("fourth", "t", 1), 0.0)
    actions = summary(scheduler.decide(0.0))
    assert [of for of in actions if of[0] != "Wait"] == [("Start", "third"), ("Start", "fourth")]
    assert scheduler.state("main") == scheduler.state("spare") == "pending"
    scheduler.check()
    for name in ("third", "fourth"):
        scheduler.finish(name, 1.0)
    assert summary(scheduler.decide(1.0)) == [("Start", "spare"), ("Start", "main")]


@pytest.mark.parametrize("immediate", [False, True])
def test_a_job_does_not_start_with_a_running_companion_that_is_evicted_in_the_same_round(immediate):
    scheduler = Scheduler(topology=flat_network("n0", "n1", slots=1), immediate=immediate)
    started(scheduler, Job("spare", "t", 1, guaranteed=False, where=on("n0")))
    scheduler.submit(Job("main", "t", 1, together=["spare"], where=on("n1")), 1.0)
    scheduler.submit(Job("third", "t", 1, where=on("n0")), 1.0)
    actions = summary(scheduler.decide(1.0))
    assert actions[0] == ("Preempt", "spare")
    assert ("Start", "main") not in actions
    scheduler.check()
    if not immediate:
        scheduler.stopped("spare", 2.0)
        scheduler.decide(2.0)
    scheduler.finish("third", 3.0)
    assert set(summary(scheduler.decide(3.0))) == {("Start", "main"), ("Start", "spare")}
    scheduler.check()


def test_a_more_important_job_starts_though_its_running_companion_is_evicted():
    scheduler = Scheduler(topology=flat_network("n0", "n1", slots=1))
    started(scheduler, Job("spare", "t", 1, guaranteed=False, where=on("n0")))
    scheduler.submit(Job("main", "t", 1, priority=1, together=["spare"], where=on("n1")), 1.0)
    scheduler.submit(Job("third", "t", 1, where=on("n0")), 1.0)
    assert summary(scheduler.decide(1.0)) == [("Start", "main"), ("Preempt", "spare")]
    scheduler.check()


def test_a_job_starts_with_a_running_companion_that_has_lost_its_own():
    scheduler = Scheduler(topology=flat_network("n0", "n1", "n2", slots=1))
    scheduler.submit(Job("spare", "t", 1, guaranteed=False, where=on("n0")), 0.0)
    scheduler.submit(Job("main", "t", 1, together=["spare"], where=on("n1")), 0.0)
    assert len(scheduler.decide(0.0)) == 2
    scheduler.submit(Job("third", "t", 1, where=on("n0")), 1.0)
    assert summary(scheduler.decide(1.0)) == [("Preempt", "spare")]
    scheduler.submit(Job("lead", "t", 1, together=["main"]), 2.0)
    assert summary(scheduler.decide(2.0)) == [("Start", "lead")]
    scheduler.check()


def test_a_job_that_is_needed_by_another_start_is_not_undone_for_it():
    scheduler = Scheduler(topology=flat_network("n0", slots=2), immediate=True)
    scheduler.submit(Job("spare", "t", 1, guaranteed=False), 0.0)
    scheduler.submit(Job("main", "t", 1, together=["spare"]), 0.0)
    scheduler.submit(Job("third", "t", 1, after=["main"]), 0.0)
    starts = [("Start", "spare"), ("Start", "main"), ("Preempt", "spare"), ("Start", "third")]
    assert [of for of in summary(scheduler.decide(0.0)) if of[0] != "Wait"] == starts
    scheduler.check()


@pytest.mark.parametrize("immediate", [False, True])
def test_a_job_that_started_with_more_pods_and_would_be_evicted_at_once_does_not_start(immediate):
    for pods in ({"min_pods": 1}, {"max_pods": 3}):
        scheduler = Scheduler(topology=flat_network("n0", slots=3), immediate=immediate)
        weak = Job("weak", "t", [Role("w", 2, **pods)], guaranteed=False, priority=1)
        scheduler.submit(weak, 0.0)
        scheduler.submit(Job("strong", "t", [Role("w", 3)]), 0.0)
        actions = [of for of in summary(scheduler.decide(0.0)) if of[0] != "Wait"]
        assert actions == [("Start", "strong")]
        scheduler.check()


def test_a_job_waits_for_a_companion_that_has_to_stop():
    scheduler = Scheduler(topology=flat_network("n0", "n1", slots=1))
    started(scheduler, Job("spare", "t", 1, guaranteed=False, where=on("n0")))
    scheduler.submit(Job("first", "t", 1, where=on("n0")), 1.0)
    assert summary(scheduler.decide(1.0)) == [("Preempt", "spare")]
    scheduler.submit(Job("main", "t", 1, together=["spare"]), 2.0)
    assert summary(scheduler.decide(2.0)) == [("Wait", "main")]
    scheduler.stopped("spare", 3.0)
    assert summary(scheduler.decide(3.0))[0] == ("Start", "first")
    assert scheduler.state("main") == scheduler.state("spare") == "pending"
    scheduler.finish("first", 4.0)
    assert set(summary(scheduler.decide(4.0))) >= {("Start", "main"), ("Start", "spare")}
    scheduler.check()


def test_a_group_evicts_no_companion_of_its_members():
    scheduler = Scheduler(topology=flat_network("n0", slots=2), immediate=True)
    started(scheduler, Job("spare", "t", 1, guaranteed=False))
    scheduler.submit(Job("main", "t", 1, together=["spare"]), 1.0)
    scheduler.submit(Job("lead", "t", 1, priority=1, together=["main"]), 1.0)
    actions = summary(scheduler.decide(1.0))
    assert ("Preempt", "spare") not in actions
    assert scheduler.state("spare") == "running"
    assert {kind for kind, _ in actions} <= {Wait.__name__, Start.__name__}
    scheduler.check()


# --- pods that join later


RACKS = {f"n{i}": f"r{i // 2}" for i in range(4)}


def racks_of_network():
    return {"topology": rack_network(RACKS, gpu=8)}


def racks_of_cells():
    chain = Chain(["gpu", "node", "rack"], [8, 2], 2, nodes=[*RACKS])
    return {"cells": CellCluster(ClusterSpec({"c": chain}, {"t": {"c": {"rack": 2}}}))}


def racks_used(scheduler, job):
    return {RACKS[pod.node] for pod in scheduler.status(job).pods}


CONFINED = {
    "network": (racks_of_network, Where(must="rack")),
    "network and devices": (
        lambda: racks_of_network() | {"devices": machines(*RACKS)},
        Where(must="rack"),
    ),
    "cells": (racks_of_cells, Where(within="rack")),
}


@pytest.mark.parametrize("parts", CONFINED)
def test_a_pod_that_joins_later_waits_for_room_in_the_domain_of_its_job(parts):
    make, where = CONFINED[parts]
    scheduler = Scheduler(**make())
    started(scheduler, Job("o", "t", 8, where=on("n1")), Job("p", "t", 8, where=on("n3")))
    elastic = [Role("w", 2, gpus=8, min_pods=1)]
    started(scheduler, Job("train", "t", elastic, where=where))
    scheduler.decide(1.0)
    assert len(scheduler.status("train").pods) == 1
    other = "p" if racks_used(scheduler, "train") == {"r0"} else "o"
    scheduler.finish(other, 2.0)
    assert [action for action in scheduler.decide(2.0) if isinstance(action, Start)] == []
    scheduler.finish("o" if other == "p" else "p", 3.0)
    assert summary(scheduler.decide(3.0)) == [("Start", "train")]
    assert len(racks_used(scheduler, "train")) == 1
    scheduler.check()


@pytest.mark.parametrize("parts", CONFINED)
def test_a_pod_that_joins_another_job_of_its_kind_does_not_wait_with_it(parts):
    make, where = CONFINED[parts]
    scheduler = Scheduler(**make())
    elastic = [Role("w", 2, gpus=8, min_pods=1)]
    started(scheduler, Job("o", "t", 8, where=on("n1")))
    for name in ("first", "second"):
        scheduler.submit(Job(name, "t", elastic, where=where), 1.0)
    scheduler.decide(1.0)
    pods = {name: len(scheduler.status(name).pods) for name in ("first", "second")}
    assert sorted(pods.values()) == [1, 2]
    scheduler.check()


@pytest.mark.parametrize("parts", CONFINED)
def test_a_pod_that_has_failed_comes_back_into_the_domain_of_its_job(parts):
    make, where = CONFINED[parts]
    scheduler = Scheduler(**make())
    started(scheduler, Job("train", "t", [Role("w", 2, gpus=8, min_pods=1)], where=where))
    scheduler.decide(0.0)
    [rack] = racks_used(scheduler, "train")
    later = next(pod for pod in scheduler.status("train").pods if pod.index == 1)
    scheduler.fail("train", 1.0, pod="w/1")
    scheduler.set_node(later.node, False, 1.0)
    scheduler.decide(1.0)
    assert racks_used(scheduler, "train") == {rack} and len(scheduler.status("train").pods) == 1
    scheduler.set_node(later.node, True, 2.0)
    scheduler.decide(2.0)
    assert racks_used(scheduler, "train") == {rack} and len(scheduler.status("train").pods) == 2


@pytest.mark.parametrize("parts", CONFINED)
def test_a_job_is_moved_with_all_its_pods_into_one_domain(parts):
    make, where = CONFINED[parts]
    scheduler = Scheduler(**make())
    started(scheduler, Job("train", "t", [Role("w", 2, gpus=8, min_pods=1)], where=where))
    scheduler.decide(0.0)
    [rack] = racks_used(scheduler, "train")
    nodes = [node for node in RACKS if RACKS[node] == rack]
    plan = scheduler.plan_moves(FreeNodes(nodes[:1]))
    for step in plan.steps:
        scheduler.move(step, 1.0)
    assert len(racks_used(scheduler, "train")) == 1
    assert nodes[0] not in {pod.node for pod in scheduler.status("train").pods}
    scheduler.check()


# --- nodes that only one part knows


@pytest.mark.parametrize("slots", [{"slots": 1}, {"gpu": 4}])
def test_a_node_without_devices_is_unhealthy_until_the_devices_know_it(slots):
    scheduler = Scheduler(
        topology=flat_network("n0", "n1", **slots), devices=machines("n1", "n2", gpus=4)
    )
    assert scheduler.summary().unhealthy == ("n0", "n2")
    for name in ("first", "second"):
        scheduler.submit(Job(name, "t", 4), 0.0)
    assert summary(scheduler.decide(0.0)) == [("Start", "first"), ("Wait", "second")]
    scheduler.set_node("n0", True, 1.0)  # still unknown to the devices
    assert scheduler.decide(1.0) == []
    scheduler.add_node("n0", 2.0, inventory=NodeDevices.uniform(gpus=4))
    assert summary(scheduler.decide(2.0)) == [("Start", "second")]
    scheduler.add_node("n2", 3.0, labels={}, free=slots)
    assert scheduler.summary().unhealthy == ()
    scheduler.check()


def test_a_gang_waits_for_devices_to_know_the_nodes_that_the_network_has():
    scheduler = Scheduler(
        topology=flat_network("n0", "n1", gpu=4), devices=machines("n1", "n2", gpus=4)
    )
    assert summary(decided(scheduler, Job("gang", "t", [Role("w", 2, gpus=4)]))) == [
        ("Wait", "gang")
    ]
    scheduler.add_node("n0", 1.0, inventory=NodeDevices.uniform(gpus=4))
    assert summary(scheduler.decide(1.0)) == [("Start", "gang")]


# --- errors inside a decision


NAMES = {
    QuotaTree: "quotas",
    NetworkTopology: "topology",
    CellCluster: "cells",
    DeviceCluster: "devices",
}
METHODS = [
    (part, method)
    for part, methods in {
        QuotaTree: ("schedule", "commit"),
        NetworkTopology: ("schedule", "commit"),
        CellCluster: ("schedule", "commit"),
        DeviceCluster: ("schedule", "commit"),
    }.items()
    for method in methods
]


def observed(scheduler):
    parts = (scheduler.cells, scheduler.topology, scheduler.devices)
    return (
        [part and part.to_bytes() for part in parts],
        scheduler.quotas.status("t"),
        [scheduler.status(job) for job in scheduler],
        scheduler.summary(),
    )


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("call", range(1, 4))
@pytest.mark.parametrize(
    ("part", "method"), METHODS, ids=lambda value: getattr(value, "__name__", value)
)
def test_an_error_inside_a_decision_leaves_all_as_it_was(monkeypatch, part, method, call, error):
    place = PLACES["cells"]() if part is CellCluster else PLACES["network"]()
    quotas = gpu_quotas(16, t=16)
    scheduler = Scheduler(quotas=quotas, devices=machines("n0", "n1"), **place)
    scheduler.submit(Job("train", "t", [Role("w", 3, gpus=4)]), 0.0)
    before, right, calls = observed(scheduler), getattr(part, method), [0]

    def failing(*arguments, **options):
        calls[0] += 1
        if calls[0] == call:
            raise error("injected")
        return right(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(part, method, failing)
        try:
            scheduler.decide(0.0)
        except error as raised:
            (note,) = raised.__notes__
            assert note.startswith(f"{NAMES[part]}: ") and note.endswith(" 'train'")
        else:
            assert calls[0] < call
            return
    scheduler.check()
    assert observed(scheduler) == before
    assert summary(scheduler.decide(0.0)) == [("Start", "train")]
    scheduler.check()


def test_other_threads_wait_for_queues_and_parts_while_a_round_may_be_undone(monkeypatch):
    scheduler = Scheduler(quotas=gpu_quotas(16, t=16))
    scheduler.submit(Job("train", "t", 1), 0.0)
    right, free = QuotaTree.schedule, {}

    def noted(tree, *arguments):
        def look():
            for name in ("queues", "quotas"):
                free[name] = getattr(scheduler._state, name, tree)._lock.acquire(blocking=False)

        thread = Thread(target=look)
        thread.start()
        thread.join()
        return right(tree, *arguments)

    monkeypatch.setattr(QuotaTree, "schedule", noted)
    scheduler.decide(0.0)
    assert free == {"queues": False, "quotas": False}


TAMPERED = {
    "quotas": lambda scheduler: scheduler.quotas.release("train"),
    "topology": lambda scheduler: scheduler.topology.release("train"),
    "cells": lambda scheduler: scheduler.cells.release("train"),
    "devices": lambda scheduler: scheduler.devices.release("train/w/1"),
}


@pytest.mark.parametrize("call", ["finish", "cancel", "fail"])
@pytest.mark.parametrize("part", TAMPERED)
def test_a_job_that_a_part_has_lost_does_not_end_by_halves(part, call):
    place = PLACES["cells" if part == "cells" else "network"]()
    quotas = gpu_quotas(16, t=16)
    scheduler = Scheduler(quotas=quotas, devices=machines("n0", "n1"), **place)
    decided(scheduler, Job("train", "t", [Role("w", 3, gpus=4)]))
    TAMPERED[part](scheduler)
    before = scheduler.to_bytes()
    with pytest.raises(KeyError, match="train") as raised:
        getattr(scheduler, call)("train", 1.0)
    assert raised.value.__notes__[0].startswith(f"{part}: ")
    assert scheduler.to_bytes() == before


@pytest.mark.parametrize(
    "tamper",
    [
        lambda scheduler: scheduler.quotas.submit(QuotaRequest("train", "t", {"gpu": 1})),
        lambda scheduler: scheduler.queues.push(QueuedJob("train", "all", 1), 0),
    ],
)
def test_a_job_whose_name_a_part_knows_already_does_not_come_by_halves(tamper):
    quotas = gpu_quotas(16, t=16)
    scheduler = Scheduler(quotas=quotas)
    tamper(scheduler)
    owners = scheduler.quotas.owners
    with pytest.raises(ValueError, match="train"):
        scheduler.submit(Job("train", "t", 1), 1.0)
    assert (len(scheduler), scheduler.quotas.owners, scheduler.now) == (0, owners, 0.0)
    scheduler.submit(Job("other", "t", 1), 0.5)
    assert "other" in scheduler


# --- how often parts are asked again


def cells(*nodes, gpus=8):
    return node_cells(nodes, gpus, t=len(nodes))


@pytest.mark.parametrize("place", ["network", "cells"])
@pytest.mark.parametrize("guaranteed", [True, False])
def test_a_gang_that_nodes_have_too_few_nics_for_starts_on_several_at_once(place, guaranteed):
    nodes = ["n0", "n1"]
    devices = DeviceCluster(dict.fromkeys(nodes, NodeDevices.uniform(gpus=8, nics=2)))
    given = (
        {"cells": cells(*nodes)} if place == "cells" else {"topology": flat_network(*nodes, gpu=8)}
    )
    scheduler = Scheduler(devices=devices, tries=2, **given)
    pod = DeviceRequest("any", gpus=1, nics=1, joint=("gpu", "rdma"))
    scheduler.submit(Job("train", "t", [Role("w", 3, devices=pod)], guaranteed=guaranteed), 0.0)
    assert summary(scheduler.decide(0.0)) == [("Start", "train")]
    assert Counter(pod.node for pod in scheduler.status("train").pods).most_common(1)[0][1] == 2
    scheduler.check()


@pytest.mark.parametrize("tries", [1, 2, 3])
def test_a_placement_that_devices_refuse_is_asked_for_as_often_as_tries_says(monkeypatch, tries):
    """The network takes all pods as equal, and no counts say that a node cannot have all three."""
    nodes = ["n0", "n1"]
    devices = DeviceCluster(dict.fromkeys(nodes, NodeDevices.uniform(gpus=8, nics=2)))
    started_on, right = [], NetworkTopology.schedule

    def noted(*arguments, **options):
        decision = right(*arguments, **options)
        started_on.append(decision.placement)
        return decision

    scheduler = Scheduler(topology=flat_network(*nodes, slots=8), devices=devices, tries=tries)
    roles = [Role(f"r{n}", 1, devices=DeviceRequest("any", gpus=n, nics=1)) for n in (1, 2, 3)]
    scheduler.submit(Job("pair", "t", roles), 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(NetworkTopology, "schedule", noted)
        scheduler.decide(0.0)
    assert (scheduler.state("pair") == "running") == (tries > 2)
    assert len(set(started_on)) == len(started_on) == tries


def joint_role(rng, name):
    gpus, nics = rng.randint(1, 3), rng.choice([0, 0, 1, 1, 2])
    joint = ("gpu", "rdma") if nics else ()
    near = bool(nics) and rng.random() < 0.2
    request = DeviceRequest("any", gpus=gpus, nics=nics, joint=joint, same_pcie=near)
    return Role(name, rng.randint(1, 4), devices=request, resources={"cpu": rng.randint(0, 2)})


def has_room(devices, free, node, roles, counts):
    """Whether a node has room and devices for these pods of each role, placed in turn."""
    taken = Counter()
    with devices.trial():
        for role, pods in zip(roles, counts, strict=True):
            taken.update(gpu=pods * role.gpus, cpu=pods * dict(role.resources).get("cpu", 0))
            for pod in range(pods):
                request = role.devices.replace(name=f"{role.name}/{pod}")
                if devices.allocate(request, node).outcome != "bind":
                    return False
    return all(amount <= free[resource] for resource, amount in taken.items())


def may_start(devices, free, roles, domains):
    """Whether some domain has room for all pods, by trying all numbers of pods on its nodes."""
    wanted = tuple(role.pods for role in roles)
    for nodes in domains:
        sums = {(0,) * len(roles)}
        for node in nodes:
            vectors = product(*(range(pods + 1) for pods in wanted))
            rooms = [
                vector for vector in vectors if has_room(devices, free[node], node, roles, vector)
            ]
            sums = {tuple(map(sum, zip(*both, strict=True))) for both in product(sums, rooms)}
        if wanted in sums:
            return True
    return False


def test_a_gang_starts_on_an_empty_cluster_if_it_can_at_all_and_is_rejected_if_not():
    outcomes = Counter()
    for seed in seeds(150):
        rng = Random(seed)
        names = [f"n{i}" for i in range(rng.randint(1, 4))]
        placed = NetworkTopology(["rack"], {node: {"rack": rng.choice("ab")} for node in names})
        inventories = {}
        for node in names:
            gpus = rng.choice([2, 4, 8])
            switches = rng.choice([1, 2])
            inventories[node] = NodeDevices.uniform(
                gpus=gpus, nics=rng.randint(0, 3), switches=switches
            )
            placed.set_free(node, {"gpu": gpus, "cpu": rng.randint(0, 8)})
        scheduler = Scheduler(topology=placed, devices=DeviceCluster(inventories))
        roles = [joint_role(rng, name) for name in ("a", "b")[: rng.randint(1, 2)]]
        must = rng.choice(["", "rack"])
        domains = placed.domains("rack") if must else [names]
        free = {node: placed.free(node) for node in names}
        can = may_start(scheduler.devices, free, roles, domains)
        scheduler.submit(Job("gang", "t", roles, where=Where(must=must)), 0.0)
        assert summary(scheduler.decide(0.0)) == [("Start" if can else "Reject", "gang")], seed
        outcomes[can] += 1
        scheduler.check()
    assert len(outcomes) == 2


def test_a_gang_of_equal_pods_starts_on_empty_cells_if_it_can_at_all():
    outcomes = Counter()
    for seed in seeds(150):
        rng = Random(seed)
        nodes = [f"n{i}" for i in range(rng.randint(1, 4))]
        devices = DeviceCluster(
            {
                node: NodeDevices.uniform(
                    gpus=8, nics=rng.randint(0, 4), switches=rng.choice([1, 2])
                )
                for node in nodes
            }
        )
        nics = rng.randint(0, 2)
        joint = ("gpu", "rdma") if nics else ()
        pod = DeviceRequest("any", gpus=rng.randint(1, 4), nics=nics, joint=joint)
        roles = [Role("w", rng.randint(1, 9), devices=pod)]
        can = may_start(devices, {node: {"gpu": 8, "cpu": 0} for node in nodes}, roles, [nodes])
        scheduler = Scheduler(cells=cells(*nodes), devices=devices)
        scheduler.submit(Job("gang", "t", roles, guaranteed=rng.random() < 0.5), 0.0)
        assert summary(scheduler.decide(0.0)) == [("Start" if can else "Reject", "gang")], seed
        outcomes[can] += 1
        scheduler.check()
    assert len(outcomes) == 2


# --- evictions across many nodes and quotas


def crowded_by_three_borrowers(nodes):
    """On each node a job of 6 GPUs and an opportunistic job of 2, of three quotas in turn. Quota d
    may reclaim an eighth of all GPUs, a third of that from each.
    """
    gpus = 8 * nodes
    borrowers = dict.fromkeys("abc", (gpus, gpus // 4))
    scheduler = Scheduler(
        quotas=gpu_quotas(gpus, limit="max", d=(gpus, gpus // 8), **borrowers),
        devices=machines(*(f"n{i}" for i in range(nodes))),
        immediate=True,
    )
    for i in range(nodes):
        where = on(f"n{i}")
        started(
            scheduler,
            Job(f"large{i}", "abc"[i % 3], 6, where=where),
            Job(f"small{i}", "abc"[i % 3], 2, guaranteed=False, where=where),
        )
    return scheduler


@pytest.mark.parametrize("nodes", [48, 192])
def test_several_borrowers_each_lose_a_little_for_a_gang(nodes):
    scheduler = crowded_by_three_borrowers(nodes)
    pods = nodes // 8
    scheduler.submit(Job("gang", "d", [Role("w", pods, gpus=8)]), 1.0)
    actions = scheduler.decide(1.0, most=1)
    assert ("Start", "gang") in summary(actions)
    victims = jobs_of(actions, Preempt)
    assert len(victims) == 2 * pods
    quotas = [scheduler.job(name).quota for name in victims if name.startswith("large")]
    borrowed = nodes // 3
    assert all(6 * (quotas.count(name) - 1) < borrowed for name in "abc")
    scheduler.check()


def test_a_job_evicts_one_large_job_among_hundreds_of_small_ones():
    scheduler = Scheduler(devices=machines(*(f"n{i}" for i in range(60))), immediate=True)
    for i in range(59):
        started(
            scheduler,
            *(Job(f"small{i}-{j}", "t", 1, guaranteed=False, where=on(f"n{i}")) for j in range(8)),
        )
    started(scheduler, Job("large", "t", 8, guaranteed=False))
    scheduler.submit(Job("wanted", "t", 8), 1.0)
    assert summary(scheduler.decide(1.0, most=1)) == [("Preempt", "large"), ("Start", "wanted")]


def test_few_jobs_leave_their_parts_while_a_place_is_searched(monkeypatch):
    left = []
    give_back = Stages.give_back
    monkeypatch.setattr(
        Stages,
        "give_back",
        lambda self, unit, **settings: left.append(unit) or give_back(self, unit, **settings),
    )
    scheduler = Scheduler(devices=machines(*(f"n{i}" for i in range(100))), immediate=True)
    for i in range(400):
        started(scheduler, Job(f"j{i}", "t", 2, guaranteed=False, where=on(f"n{i % 100}")))
    scheduler.submit(Job("gang", "t", [Role("w", 4, gpus=8)]), 1.0)
    actions = scheduler.decide(1.0, most=1)
    assert sum(isinstance(action, Preempt) for action in actions) == 16
    assert len(left) < 200


# --- opportunistic jobs beside a full total


@pytest.mark.parametrize("parts", [(), ("devices",)])
def test_an_opportunistic_job_of_another_quota_leaves_where_the_total_is_full(parts):
    scheduler = Scheduler(
        quotas=gpu_quotas(16, limit="max", a=(16, 4), b=(16, 4)),
        immediate=True,
        **({"devices": machines("n0", "n1")} if parts else {}),
    )
    weak = Job("weak", "b", 4, guaranteed=False)
    started(scheduler, Job("large", "a", 8), weak, Job("small", "a", 4))
    assert summary(decided(scheduler, Job("more", "a", 4), now=1.0)) == [
        ("Preempt", "weak"),
        ("Start", "more"),
        ("Wait", "weak"),
    ]
    scheduler.check()


# --- shares of GPUs


GIB = 1 << 30
SHARES = {
    "core and memory": ({"core": 25, "memory_percent": 10}, (0,) * 4),
    "memory": ({"memory_percent": 25}, (0,) * 4),
    "core and bytes of GPUs that differ": ({"core": 25, "memory": GIB}, (8 * GIB, *[GIB] * 3)),
    "bytes": ({"memory": 4 * GIB}, (16 * GIB,) * 4),
    "core and bytes": ({"core": 10, "memory": 4 * GIB}, (16 * GIB,) * 4),
}


def share(name, *, pods=1, quota="", priority=0, gpus=1, **amounts):
    devices = DeviceRequest("any", gpus, **(amounts or {"core": 25, "memory_percent": 25}))
    roles = [Role("w", pods, devices=devices)]
    return Job(name, "t", roles, quota=quota, priority=priority)


def sharing_machines(*memories, nodes=("n0",)):
    """Nodes of GPUs with so much memory each; 0: only percentages are known."""
    whole = {"core": 100, "memory_ratio": 100}
    gpus = [
        Device("gpu", i, whole | ({"memory": memory} if memory else {}))
        for i, memory in enumerate(memories)
    ]
    return DeviceCluster({node: NodeDevices(gpus) for node in nodes})


PARTS = {
    "quota": lambda: {"quotas": gpu_quotas(1, t=1)},
    "quota above": lambda: {
        "quotas": QuotaTree(
            [Quota("all", max={"gpu": 1}), Quota("t", parent="all", max={"gpu": 9})],
            total={"gpu": 9},
        )
    },
    "total": lambda: {"quotas": gpu_quotas(1, t=9)},
    "network": lambda: {"topology": flat_network("n0", gpu=1)},
}


@pytest.mark.parametrize("given", SHARES)
@pytest.mark.parametrize("part", PARTS)
def test_four_quarters_of_a_gpu_start_where_one_gpu_is_allowed_and_a_fifth_waits(part, given):
    amounts, memories = SHARES[given]
    scheduler = Scheduler(devices=sharing_machines(*memories), **PARTS[part]())
    assert scheduler.gpu_memory == (memories[0] if len(set(memories)) == 1 else 0)
    jobs = {f"j{i}": share(f"j{i}", **amounts) for i in range(5)}
    for job in jobs.values():
        scheduler.submit(job, 0.0)
    before = scheduler.copy()
    actions = scheduler.decide(0.0)
    verify_actions(actions, jobs, before)
    assert summary(actions) == [*(("Start", f"j{i}") for i in range(4)), ("Wait", "j4")]
    assert "gpu" in actions[-1].refusal.reason or part == "network"
    scheduler.check()
    again = Scheduler.from_bytes(scheduler.to_bytes())
    for branch in (scheduler, again):
        branch.finish("j2", 1.0)
        assert summary(branch.decide(1.0)) == [("Start", "j4")]
        branch.check()
    assert again.to_bytes() == scheduler.to_bytes()


@pytest.mark.parametrize("part", PARTS)
def test_shares_of_one_job_add_up_and_whole_gpus_take_what_they_leave(part):
    scheduler = Scheduler(devices=sharing_machines(0, 0, 0, 0), **PARTS[part]())
    scheduler.submit(share("j", pods=2, gpus=2, memory_percent=25), 0.0)
    assert summary(decided(scheduler, Job("whole", "t", 1))) == [("Start", "j"), ("Wait", "whole")]
    scheduler.finish("j", 1.0)
    assert summary(scheduler.decide(1.0)) == [("Start", "whole")]


def test_a_share_of_bytes_counts_as_a_whole_gpu_where_gpus_differ():
    scheduler = Scheduler(devices=sharing_machines(8 * GIB, 16 * GIB), **PARTS["quota"]())
    for i in range(2):
        scheduler.submit(share(f"j{i}", memory=GIB), 0.0)
    assert summary(scheduler.decide(0.0)) == [("Start", "j0"), ("Wait", "j1")]


def test_the_weight_of_a_share_in_bytes_stays_when_other_gpus_are_added():
    scheduler = Scheduler(devices=sharing_machines(16 * GIB), **PARTS["quota"]())
    scheduler.submit(share("before", memory=4 * GIB), 0.0)
    other = sharing_machines(8 * GIB).inventory("n0")
    scheduler.add_node("n1", 0.0, inventory=other)
    scheduler = Scheduler.from_bytes(scheduler.to_bytes())
    decided(scheduler, share("after", memory=4 * GIB))
    assert scheduler.gpu_memory == 16 * GIB
    assert scheduler.quotas.status("t").used == {"gpu": 0.5}


def test_cells_give_whole_gpus_which_quotas_count():
    cells = node_cells(["n0"], t=1)
    scheduler = Scheduler(cells=cells, devices=sharing_machines(0, 0, 0, 0), **PARTS["quota"]())
    for i in range(2):
        scheduler.submit(share(f"j{i}"), 0.0)
    assert summary(scheduler.decide(0.0)) == [("Start", "j0"), ("Wait", "j1")]


@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize("place", ["devices", "network"])
def test_a_quota_reclaims_as_many_shares_as_it_needs(place, immediate):
    places = {"devices": sharing_machines(0)}
    if place == "network":
        places["topology"] = flat_network("n0", gpu=1)
    quotas = gpu_quotas(1, limit="max", a=(1, 0.5), b=(1, 0.5))
    scheduler = Scheduler(quotas=quotas, immediate=immediate, **places)
    started(scheduler, *(share(f"b{i}", quota="b") for i in range(4)))
    actions = decided(scheduler, share("a0", quota="a"), now=1.0)
    victims = jobs_of(actions, Preempt)
    assert len(victims) == 1
    for name in () if immediate else victims:
        scheduler.stopped(name, 2.0)
    assert ("Start", "a0") in summary([*actions, *scheduler.decide(2.0)])
    assert scheduler.quotas.status("a").used == {"gpu": 0.25}
    assert scheduler.quotas.status("b").used == {"gpu": 0.75}
    scheduler.check()


@pytest.mark.parametrize("immediate", [False, True])
def test_a_whole_gpu_evicts_shares_of_lower_priority_in_a_network(immediate):
    topology = flat_network("n0", "n1", gpu=1)
    devices = sharing_machines(0, nodes=topology.nodes)
    scheduler = Scheduler(topology=topology, devices=devices, immediate=immediate)
    started(scheduler, *(share(f"j{i}") for i in range(7)))
    actions = decided(scheduler, Job("urgent", "t", 1, priority=1), now=1.0)
    victims = jobs_of(actions, Preempt)
    assert len(victims) == 3
    for name in () if immediate else victims:
        scheduler.stopped(name, 2.0)
    assert ("Start", "urgent") in summary([*actions, *scheduler.decide(2.0)])
    scheduler.check()


def test_a_trial_of_shares_leaves_whole_gpus_as_they_were():
    quotas = gpu_quotas(5, a=8, b=8)
    quotas.submit_many(QuotaRequest(name, name, {"gpu": 8}) for name in ("a", "b"))
    before, runtimes = quotas.to_bytes(), [quotas.runtime(name) for name in ("a", "b")]
    with quotas.trial():
        quotas.submit(QuotaRequest("share", "a", {"gpu": 0.25}))
        assert [quotas.runtime(name) for name in ("a", "b")] == [{"gpu": 2.5}, {"gpu": 2.5}]
    assert [quotas.runtime(name) for name in ("a", "b")] == runtimes == [{"gpu": 3}, {"gpu": 2}]
    assert quotas.to_bytes() == before


def test_an_order_counts_shares():
    scheduler = Scheduler(topology=flat_network("n0", gpu=1), devices=sharing_machines(0))
    for i in range(5):
        scheduler.submit(share(f"j{i}"), 0.0)
    scheduler.reorder([f"j{i}" for i in (4, 3, 2, 1, 0)], 0.0)
    starts = [job for kind, job in summary(scheduler.decide(0.0)) if kind == "Start"]
    assert sorted(starts) == ["j1", "j2", "j3", "j4"]
    scheduler.check()


def test_quotas_and_nodes_with_fractions_are_read_from_the_log(path):
    scheduler = Scheduler(
        quotas=gpu_quotas(1, t=1),
        topology=flat_network("n0", gpu=1),
        log=path,
    )
    quota = Quota("t", max={"gpu": 1.1}, min={"gpu": 0.3}, weight={"gpu": 0.001})
    scheduler.set_quota(quota, 1.0)
    scheduler.set_total({"gpu": 2.7}, 2.0)
    scheduler.add_node("n1", 3.0, labels={}, free={"gpu": 0.7})
    assert record_of_plain(Quota, json.loads(json.dumps(plain_record(quota)))) == quota
    scheduler.close()
    again = recover(path)
    assert again.quotas.quota("t") == quota
    assert again.quotas.total() == {"gpu": Decimal("2.7")}
    assert again.topology.free("n1") == {"gpu": Decimal("0.7")}
    assert again.to_bytes() == scheduler.to_bytes()
